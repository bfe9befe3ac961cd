"""Types as sets of values: what subtypep decides with.

A type is split over disjoint kinds (integers, ratios, floats, conses, symbols, characters, …). In
a kind it is a union of intervals, a union of products (conses), or a finite or cofinite set of
objects. All of and, or, not, and emptiness are exact on these; `satisfies` is not, and makes the
answer uncertain.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from sexpgpu.lisp.builtins.atomic_types import FIXNUM_HIGH, FIXNUM_LOW
from sexpgpu.lisp.builtins.equality import eql_key
from sexpgpu.lisp.builtins.type_specifiers import (
    STAR,
    STRUCTURE_TYPES,
    array_size,
    bound,
    expand_type,
    foreign_kinds,
    has_character_elements,
    integer_range,
    is_base_element,
    nested,
    type_parts,
    type_test,
    unknown_type,
)
from sexpgpu.lisp.conditions import TYPES, condition_type
from sexpgpu.lisp.values import (
    CL,
    KEYWORD,
    NIL,
    Char,
    Cons,
    StructureType,
    Symbol,
    T,
)


class _Uncertain(Exception):
    """The type has a part that no set describes."""


# An interval is (low, low is open, high, high is open) with -inf and inf for no bound.
Interval = tuple[Any, bool, Any, bool]
_ALL: Interval = (-math.inf, True, math.inf, True)


def _infinite(value: Any) -> bool:
    return isinstance(value, float) and math.isinf(value)


class Ranges:
    """A union of disjoint intervals of one kind of numbers. No integer is between 1 and 2, and no
    ratio is 1."""

    __slots__ = ("kind", "parts")

    def __init__(self, parts: list[Interval], kind: str) -> None:
        whole = kind == "integer"
        kept: list[Interval] = []
        for low, low_open, high, high_open in parts:
            if whole and not _infinite(low):
                low, low_open = (math.floor(low) + 1 if low_open else math.ceil(low)), False
            if whole and not _infinite(high):
                high, high_open = (math.ceil(high) - 1 if high_open else math.floor(high)), False
            if kind == "ratio" and low == high and not _infinite(low) and low % 1 == 0:
                continue
            if low < high or (low == high and not low_open and not high_open):
                kept.append((low, low_open, high, high_open))
        self.parts = kept
        self.kind = kind

    def meet(self, other: Ranges) -> Ranges:
        made: list[Interval] = []
        for a in self.parts:
            for b in other.parts:
                low, low_open = max((a[0], a[1]), (b[0], b[1]))
                high, closed = min((a[2], not a[3]), (b[2], not b[3]))
                made.append((low, low_open, high, not closed))
        return Ranges(made, self.kind)

    def join(self, other: Ranges) -> Ranges:
        return Ranges(self.parts + other.parts, self.kind)

    def complement(self) -> Ranges:
        result = Ranges([_ALL], self.kind)
        for low, low_open, high, high_open in self.parts:
            outside = [(-math.inf, True, low, not low_open), (high, not high_open, math.inf, True)]
            result = result.meet(Ranges(outside, self.kind))
        return result

    def empty(self) -> bool:
        return not self.parts


class Objects:
    """A finite set of objects of a kind, or all but finitely many (`others`)."""

    __slots__ = ("keys", "others")

    def __init__(self, keys: frozenset[Any], others: bool) -> None:
        self.keys = keys
        self.others = others

    def meet(self, other: Objects) -> Objects:
        if self.others and other.others:
            return Objects(self.keys | other.keys, True)
        if self.others:
            return Objects(other.keys - self.keys, False)
        if other.others:
            return Objects(self.keys - other.keys, False)
        return Objects(self.keys & other.keys, False)

    def join(self, other: Objects) -> Objects:
        return self.complement().meet(other.complement()).complement()

    def complement(self) -> Objects:
        return Objects(self.keys, not self.others)

    def empty(self) -> bool:
        return not self.others and not self.keys


_NONE, _EVERY = Objects(frozenset(), False), Objects(frozenset(), True)


class Products:
    """A union of products of a car type and a cdr type."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[tuple[TypeSet, TypeSet]]) -> None:
        self.parts = [(a, d) for a, d in parts if not a.empty() and not d.empty()]

    def meet(self, other: Products) -> Products:
        return Products([(a.meet(b), d.meet(e)) for a, d in self.parts for b, e in other.parts])

    def join(self, other: Products) -> Products:
        return Products(self.parts + other.parts)

    def complement(self) -> Products:
        every = full()
        result = Products([(every, every)])
        for car, cdr in self.parts:
            outside = Products([(car.complement(), every), (car, cdr.complement())])
            result = result.meet(outside)
        return result

    def empty(self) -> bool:
        return not self.parts


Component = Any  # Ranges, Objects or Products: one kind always has the same

_NUMBERS = ("integer", "ratio", "float")


class TypeSet:
    """A set of values: a component for each kind; kinds not named are all in or all out."""

    __slots__ = ("components", "others")

    def __init__(self, components: dict[str, Component], others: bool) -> None:
        self.components = components
        self.others = others

    def component(self, kind: str) -> Component:
        found = self.components.get(kind)
        if found is not None:
            return found
        if kind in _NUMBERS:
            return Ranges([_ALL] if self.others else [], kind)
        if kind == "cons":
            return Products([(full(), full())]) if self.others else Products([])
        return _EVERY if self.others else _NONE

    def meet(self, other: TypeSet) -> TypeSet:
        kinds = set(self.components) | set(other.components)
        made = {kind: self.component(kind).meet(other.component(kind)) for kind in kinds}
        return TypeSet(made, self.others and other.others)

    def join(self, other: TypeSet) -> TypeSet:
        kinds = set(self.components) | set(other.components)
        made = {kind: self.component(kind).join(other.component(kind)) for kind in kinds}
        return TypeSet(made, self.others or other.others)

    def complement(self) -> TypeSet:
        made = {kind: part.complement() for kind, part in self.components.items()}
        return TypeSet(made, not self.others)

    def empty(self) -> bool:
        return not self.others and all(part.empty() for part in self.components.values())


def full() -> TypeSet:
    """The set of all values."""
    return TypeSet({}, True)


def nothing() -> TypeSet:
    """The empty set."""
    return TypeSet({}, False)


def _kinds(*names: str) -> TypeSet:
    made: dict[str, Component] = {}
    for name in names:
        made[name] = full().component(name)
    return TypeSet(made, False)


def _union(sets: list[TypeSet]) -> TypeSet:
    result = nothing()
    for one in sets:
        result = result.join(one)
    return result


def kind_of(value: Any) -> str:
    """The kind a value belongs to."""
    if isinstance(value, int):
        return "integer"
    if isinstance(value, Fraction):
        return "ratio"
    if isinstance(value, float):
        return "float"
    if isinstance(value, Cons):
        return "cons"
    if value is NIL:
        return "null"
    if value is T:
        return "true"
    if isinstance(value, Symbol):
        return "keyword" if value.module is KEYWORD else "symbol"
    if type(value) is Char:
        for kind in ("standard-char", "base-char"):
            if type_test(CL.own(kind))(value):
                return kind
        return "character"
    return type(value).__name__


def _singleton(value: Any) -> TypeSet:
    kind = kind_of(value)
    if kind in ("null", "true"):
        return _kinds(kind)
    if kind in _NUMBERS:
        return TypeSet({kind: Ranges([(value, False, value, False)], kind)}, False)
    if kind in ("cons", "String", "Vector"):
        raise _Uncertain
    return TypeSet({kind: Objects(frozenset([eql_key(value)]), False)}, False)


# Vectors: a kind for each of string or general, simple or with a fill pointer; sizes are objects.
_VECTORS = {
    "string": ("simple-base-text", "base-text", "simple-text", "text"),
    "simple-string": ("simple-base-text", "simple-text"),
    "base-string": ("simple-base-text", "base-text"),
    "simple-base-string": ("simple-base-text",),
    "vector": ("simple-base-text", "base-text", "simple-text", "text", "simple-general", "general"),
    "array": ("simple-base-text", "base-text", "simple-text", "text", "simple-general", "general"),
    "simple-array": ("simple-base-text", "simple-text", "simple-general"),
    "simple-vector": ("simple-general",),
}


def _vectors(name: str, arguments: list[Any], specifier: Any) -> TypeSet:
    kinds: tuple[str, ...] = _VECTORS[name]
    size: Any = STAR
    if name in ("vector", "array", "simple-array"):
        element = arguments[0] if arguments else STAR
        size = arguments[1] if len(arguments) > 1 else STAR
        if name != "vector":
            size = array_size(specifier, size)
            if size is None:
                return nothing()
        text = has_character_elements(element)
        if text is not None:
            kinds = tuple(kind for kind in kinds if kind.endswith("text") == text)
        if is_base_element(element):
            kinds = tuple(kind for kind in kinds if kind.endswith("base-text"))
    elif arguments:
        size = arguments[0]
    if size is STAR:
        return _kinds(*kinds)
    return TypeSet({kind: Objects(frozenset([size]), False) for kind in kinds}, False)


def _interval(arguments: list[Any]) -> Interval:
    low, low_open = bound(arguments[0]) if arguments else (None, True)
    high, high_open = bound(arguments[1]) if len(arguments) > 1 else (None, True)
    for limit, written in ((low, 0), (high, 1)):
        if limit is not None and not isinstance(limit, int | float | Fraction):
            raise unknown_type(arguments[written])
    return (
        -math.inf if low is None else low,
        low is None or low_open,
        math.inf if high is None else high,
        high is None or high_open,
    )


_NUMERIC: dict[str, tuple[str, ...]] = {
    "integer": ("integer",),
    "rational": ("integer", "ratio"),
    "ratio": ("ratio",),
    "float": ("float",),
    "short-float": ("float",),
    "single-float": ("float",),
    "double-float": ("float",),
    "long-float": ("float",),
    "real": _NUMBERS,
    "number": _NUMBERS,
}
_UNIONS: dict[str, tuple[str, ...]] = {
    "null": ("null",),
    "boolean": ("null", "true"),
    "keyword": ("keyword",),
    "symbol": ("null", "true", "keyword", "symbol"),
    "list": ("null", "cons"),
    "sequence": ("null", "cons", *_VECTORS["vector"]),
    "standard-char": ("standard-char",),
    "base-char": ("standard-char", "base-char"),
    "extended-char": ("character",),
    "character": ("standard-char", "base-char", "character"),
    "hash-table": ("hash-table",),
    "function": ("function",),
    "compiled-function": ("function",),
    "package": ("package",),
    "restart": ("restart",),
    "stream": ("stream",),
}
_EMPTY = frozenset(
    ["nil", "complex", "bit-vector", "simple-bit-vector", "random-state", "readtable", "pathname"]
)


def _integers(low: Any, high: Any) -> TypeSet:
    return TypeSet({"integer": Ranges([(low, False, high, False)], "integer")}, False)


@nested
def type_set(specifier: Any) -> TypeSet:
    """The set of values of a type; _Uncertain when no set describes it."""
    specifier = expand_type(specifier)
    if isinstance(specifier, StructureType):
        return _named(specifier.name)
    name, arguments = type_parts(specifier)
    head = specifier if isinstance(specifier, Symbol) else specifier.car
    if head.module is not CL:
        return _named(head)
    if name == "t":
        return full()
    if name in _EMPTY:
        return nothing()
    if name in _NUMERIC:
        interval = _interval(arguments)
        kinds = _NUMERIC[name]
        return TypeSet({kind: Ranges([interval], kind) for kind in kinds}, False)
    if name in _VECTORS:
        return _vectors(name, arguments, specifier)
    if name in _UNIONS:
        return _kinds(*_UNIONS[name])
    made = _compound(name, arguments, specifier)
    return _named(head) if made is None else made


def _compound(name: str, arguments: list[Any], specifier: Any) -> TypeSet | None:
    if name in ("bit", "fixnum", "bignum", "mod", "unsigned-byte", "signed-byte"):
        return _bounded(name, arguments, specifier)
    if name == "cons":
        car, cdr = [*arguments, STAR, STAR][:2]
        parts = [(full() if part is STAR else type_set(part)) for part in (car, cdr)]
        return TypeSet({"cons": Products([(parts[0], parts[1])])}, False)
    if name == "atom":
        return _kinds("cons").complement()
    if name in ("member", "eql"):
        return _union([_singleton(value) for value in arguments])
    if name == "and":
        result = full()
        for part in arguments:
            result = result.meet(type_set(part))
        return result
    if name == "or":
        return _union([type_set(part) for part in arguments])
    if name == "not":
        return type_set(arguments[0]).complement()
    if name in ("satisfies", "values", "function"):
        raise _Uncertain
    if not isinstance(specifier, Symbol):
        raise unknown_type(specifier)
    return None


def _bounded(name: str, arguments: list[Any], specifier: Any) -> TypeSet:
    size: Any = arguments[0] if arguments else STAR
    if name == "bit":
        return _integers(0, 1)
    if name == "fixnum":
        return _integers(FIXNUM_LOW, FIXNUM_HIGH)
    if name == "bignum":
        return _integers(FIXNUM_LOW, FIXNUM_HIGH).complement().meet(_kinds("integer"))
    if size is STAR and name != "mod":
        return _kinds("integer") if name == "signed-byte" else _integers(0, math.inf)
    return _integers(*integer_range(name, size, specifier))


def _named(symbol: Symbol) -> TypeSet:
    """Structure types, condition types and the kinds of host layers: each with its subtypes."""
    name = symbol.name
    structure = STRUCTURE_TYPES.get(symbol)
    if structure is not None or (symbol.module is CL and name == "structure-object"):
        kinds = [
            f"structure {id(kind)}"
            for kind in STRUCTURE_TYPES.values()
            if structure is None or kind.is_a(structure)
        ]
        if structure is None:
            kinds.append("structures")
        return _kinds(*kinds)
    condition = condition_type(symbol)
    if condition is not None:
        kinds = [f"condition {id(k)}" for k in TYPES.values() if condition in k.linear]
        return _kinds(*kinds)
    if name in foreign_kinds():
        return _kinds(f"foreign {name}")
    raise unknown_type(symbol)


def is_subtype(first: Any, second: Any) -> bool | None:
    """Whether the first type is a subtype of the second; None: it cannot be decided."""
    try:
        left = type_set(first)
        if left.empty():
            return True
        return left.meet(type_set(second).complement()).empty()
    except _Uncertain:
        return None
