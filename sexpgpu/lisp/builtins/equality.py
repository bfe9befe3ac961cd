"""Equality: eq, eql, equal, equalp, and the hash keys that agree with them.

`eq` on numbers and characters is `eql` here: the representation of numbers is nobody's business.
Structures, hash tables and vectors are compared by content only by `equalp`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from sexpgpu.lisp.calls import truth
from sexpgpu.lisp.registry import BUILTINS, builtin
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import NIL, Char, Cons, Function, String, Structure, T, Vector, char


def eql(a: Any, b: Any) -> bool:
    """The same object, or numbers of the same kind and value."""
    if a is b:
        return True
    kind: Any = type(a)  # pyright: ignore[reportUnknownVariableType]
    if kind is float:
        return type(b) is float and (
            (a == b and math.copysign(1.0, a) == math.copysign(1.0, b)) or (a != a and b != b)
        )
    if kind is int:
        return a == b and isinstance(b, int)
    if kind is Fraction:
        return type(b) is Fraction and a == b
    return isinstance(a, int) and isinstance(b, int) and a == b


def text_of_string(value: String) -> str:
    """The active text of a string."""
    return value.text if value.fill is None else value.text[: value.fill]


def active_items(value: Vector) -> list[Any]:
    """The active items of a vector (not to be changed by the caller)."""
    return value.items if value.fill is None else value.items[: value.fill]


def equal(a: Any, b: Any) -> bool:
    """Conses and strings by content, everything else by eql."""
    steps = 0
    while True:
        if a is b:
            return True
        if isinstance(a, Cons):
            if not isinstance(b, Cons):
                return False
            steps += 1
            if steps & 63 == 0:
                STATE.charge(64)
            if not equal(a.car, b.car):
                return False
            a, b = a.cdr, b.cdr
            continue
        if type(a) is String:
            return type(b) is String and text_of_string(a) == text_of_string(b)
        return eql(a, b)


def fold_character(code: int) -> str:
    """A character without case, as char-equal sees it."""
    letter = chr(code)
    lower = letter.lower()
    return lower if len(lower) == 1 else letter


def fold_text(text: str) -> str:
    """A text without case, letter by letter."""
    if text.isascii():
        return text.lower()
    return "".join(fold_character(ord(letter)) for letter in text)


def _vector_equalp(a: Any, b: Any) -> bool:
    if type(a) is String and type(b) is String:
        return fold_text(text_of_string(a)) == fold_text(text_of_string(b))
    left = active_items(a) if type(a) is Vector else [char(c) for c in text_of_string(a)]
    right = active_items(b) if type(b) is Vector else [char(c) for c in text_of_string(b)]
    if len(left) != len(right):
        return False
    STATE.charge(len(left))
    return all(equalp(x, y) for x, y in zip(left, right, strict=True))


def equalp(a: Any, b: Any) -> bool:
    """Numbers by =, text without case; conses, vectors, structures, hash tables by content."""
    from sexpgpu.lisp.builtins.hash_tables import HashTable

    while True:
        if a is b:
            return True
        if isinstance(a, int | float | Fraction):
            return isinstance(b, int | float | Fraction) and a == b
        if isinstance(a, Cons):
            if not isinstance(b, Cons):
                return False
            STATE.charge(1)
            if not equalp(a.car, b.car):
                return False
            a, b = a.cdr, b.cdr
            continue
        break
    if type(a) is Char:
        return type(b) is Char and fold_character(a.code) == fold_character(b.code)
    if type(a) in (String, Vector):
        return type(b) in (String, Vector) and _vector_equalp(a, b)
    if isinstance(a, Structure):
        return (
            isinstance(b, Structure)
            and a.type is b.type
            and all(equalp(x, y) for x, y in zip(a.items, b.items, strict=True))
        )
    if isinstance(a, HashTable):
        return isinstance(b, HashTable) and a.same_content(b, equalp)
    return False


def eql_key(value: Any) -> Any:
    """A Python key that is equal exactly when the values are eql."""
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is float:
        return (float, value, math.copysign(1.0, value)) if value == value else (float, "nan")
    if kind is Fraction:
        return (Fraction, value)
    if isinstance(value, int):
        return int(value)  # no other key of ours is equal to an int
    return value  # symbols, characters, conses…: by identity


def equal_key(value: Any) -> Any:
    """A Python key that is equal exactly when the values are equal."""
    if type(value) is String:
        return (String, text_of_string(value))
    if isinstance(value, Cons):
        parts: list[Any] = [Cons]
        while isinstance(value, Cons):
            parts.append(equal_key(value.car))
            value = value.cdr
            STATE.charge(1)
        parts.append(equal_key(value))
        return tuple(parts)
    return eql_key(value)


def equalp_key(value: Any) -> Any:
    """A Python key that is equal exactly when the values are equalp."""
    from sexpgpu.lisp.builtins.hash_tables import HashTable

    if isinstance(value, int | float | Fraction):
        return value + 0 if value == value else (float, "nan")  # hash and == agree with CL's =
    if type(value) is Char:
        return (Char, fold_character(value.code))
    if type(value) is String:
        folded = fold_text(text_of_string(value))
        return (Vector, *((Char, letter) for letter in folded))
    if type(value) is Vector:
        return (Vector, *(equalp_key(item) for item in active_items(value)))
    if isinstance(value, Cons):
        parts: list[Any] = [Cons]
        while isinstance(value, Cons):
            parts.append(equalp_key(value.car))
            value = value.cdr
            STATE.charge(1)
        parts.append(equalp_key(value))
        return tuple(parts)
    if isinstance(value, Structure):
        return (Structure, value.type, *(equalp_key(slot) for slot in value.items))
    if isinstance(value, HashTable):
        return _ByContent(value)
    return value


class _ByContent:
    """The key of a hash table in an equalp table: few are, so content decides, not the hash."""

    __slots__ = ("table",)

    def __init__(self, table: Any) -> None:
        self.table = table

    def __hash__(self) -> int:
        return len(self.table.entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByContent) and equalp(self.table, other.table)


FAST_TESTS: dict[Function, Callable[[Any, Any], bool]] = {}


@builtin("eq", "(a b)")
def eq_(a: Any, b: Any) -> Any:
    """Whether A and B are the same object (numbers and characters: as eql)."""
    return T if eql(a, b) else NIL


@builtin("eql", "(a b)")
def eql_(a: Any, b: Any) -> Any:
    """Whether A and B are the same object, or numbers of the same kind and value."""
    return T if eql(a, b) else NIL


@builtin("equal", "(a b)")
def equal_(a: Any, b: Any) -> Any:
    """Whether A and B are eql, or conses or strings with equal content."""
    return T if equal(a, b) else NIL


@builtin("equalp", "(a b)")
def equalp_(a: Any, b: Any) -> Any:
    """Whether A and B have the same content: numbers by =, text without regard to case."""
    return T if equalp(a, b) else NIL


@builtin("null", "(value)")
def null(value: Any) -> Any:
    """T when VALUE is nil; asks about the value itself, so a tensor is simply not nil."""
    return T if value is NIL else NIL


@builtin("not", "(value)")
def not_(value: Any) -> Any:
    """T when VALUE is nil. A tensor has no truth: use logical-not, or null."""
    return NIL if truth(value) else T


def _define_fast_tests() -> None:
    for name, test in (("eq", eql), ("eql", eql), ("equal", equal), ("equalp", equalp)):
        function = BUILTINS[name].function
        assert function is not None
        FAST_TESTS[function] = test


_define_fast_tests()
