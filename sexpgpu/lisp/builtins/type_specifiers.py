"""Type specifiers: parsing them, and turning one into a test of values.

Structure types, deftype expanders and the names of Foreign kinds are looked up here; condition
types are asked of lisp.conditions. Knows nothing of subtypep (type_sets) or coerce (types).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sexpgpu.lisp.builtins.atomic_types import (
    ATOMIC,
    Test,
    is_float,
    is_integer,
    is_real,
    is_simple,
    never,
)
from sexpgpu.lisp.builtins.equality import eql, eql_key
from sexpgpu.lisp.calls import call
from sexpgpu.lisp.conditions import TYPES, condition_type, is_condition_type
from sexpgpu.lisp.errors import simple_error, undefined_function
from sexpgpu.lisp.state import charge_memory
from sexpgpu.lisp.values import (
    CL,
    NIL,
    Char,
    Condition,
    Cons,
    Foreign,
    String,
    Structure,
    StructureType,
    Symbol,
    Vector,
)

Read = TypeVar("Read")

STAR = CL.own("*")

# What deftype and defstruct define, by the type's name.
DEFINED_TYPES: dict[Symbol, Callable[..., Any]] = {}  # arguments' forms -> the expansion
STRUCTURE_TYPES: dict[Symbol, StructureType] = {}


def names_type(name: Symbol) -> bool:
    """Whether a symbol of CL names one of the language's own types."""
    return name.name in ATOMIC or name.name in _COMPOUND or name.name in TYPES


def define_type(name: Symbol, expander: Callable[..., Any]) -> None:
    """Declare a type that stands for the specifier `expander(*arguments)` gives."""
    DEFINED_TYPES[name] = expander


def define_structure_type(kind: StructureType) -> None:
    """Declare the type that a defstruct makes."""
    STRUCTURE_TYPES[kind.name] = kind


def unknown_type(specifier: Any) -> Exception:
    """The error for what is no type specifier."""
    from sexpgpu.lisp.printer import prin1_text

    return simple_error(f"unknown type specifier: {prin1_text(specifier)}")


def expand_type(specifier: Any) -> Any:
    """The specifier with deftype names at its head expanded."""
    head: Any = specifier
    for _ in range(100):
        if isinstance(specifier, Symbol):
            head, arguments = specifier, []
        elif isinstance(specifier, Cons) and isinstance(specifier.car, Symbol):
            head, arguments = specifier.car, list(specifier)[1:]
        else:
            return specifier
        expander = DEFINED_TYPES.get(head)
        if expander is None:
            return specifier
        specifier = expander(*arguments)
    raise simple_error(f"the type {head.name} expands without end")


MOST_NESTED = 1000  # as deep as the reader goes; a type that holds itself has no end


def nested(read: Callable[[Any], Read]) -> Callable[[Any], Read]:
    """A function that reads a type specifier by calling itself on the parts: an error where that
    goes on without end, in a circular list or by a deftype that has its own name among the parts.
    """

    def guarded(specifier: Any) -> Read:
        if _DEPTH.now >= MOST_NESTED:
            raise simple_error(f"a type specifier is nested more than {MOST_NESTED:,} deep")
        _DEPTH.now += 1
        try:
            return read(specifier)
        finally:
            _DEPTH.now -= 1

    return guarded


class _Depth:
    now = 0


_DEPTH = _Depth()


def type_parts(specifier: Any) -> tuple[str, list[Any]]:
    """The head's name and the arguments of an expanded CL type specifier."""
    if isinstance(specifier, Symbol):
        return specifier.name, []
    if isinstance(specifier, Cons) and isinstance(specifier.car, Symbol):
        return specifier.car.name, list(specifier)[1:]
    raise unknown_type(specifier)


def foreign_kinds() -> dict[str, type[Foreign]]:
    """The names that the host layers gave to their kinds of values."""
    found: dict[str, type[Foreign]] = {"foreign": Foreign}
    work: list[type[Foreign]] = [Foreign]
    while work:
        for kind in work.pop().__subclasses__():
            found.setdefault(kind.lisp_type, kind)
            work.append(kind)
    return found


@nested
def type_test(specifier: Any) -> Test:
    """The test of values that a type specifier denotes."""
    specifier = expand_type(specifier)
    if isinstance(specifier, Symbol):
        return _named_test(specifier)
    if isinstance(specifier, StructureType):
        return _structure_test(specifier)
    if not isinstance(specifier, Cons) or not isinstance(specifier.car, Symbol):
        raise unknown_type(specifier)
    head = specifier.car
    make = _COMPOUND.get(head.name) if head.module is CL else None
    if make is None:
        raise unknown_type(specifier)
    arguments = list(specifier)[1:]
    try:
        return make(specifier, *arguments)
    except TypeError as error:
        if "positional argument" in str(error):
            raise unknown_type(specifier) from None
        raise


def _named_test(symbol: Symbol) -> Test:
    if symbol.module is CL:
        found = ATOMIC.get(symbol.name)
        if found is not None:
            return found
    structure = STRUCTURE_TYPES.get(symbol)
    if structure is not None:
        return _structure_test(structure)
    if condition_type(symbol) is not None:
        return lambda value: isinstance(value, Condition) and is_condition_type(value, symbol)
    foreign = foreign_kinds().get(symbol.name)
    if foreign is not None:
        return lambda value: isinstance(value, foreign) and value.lisp_type == symbol.name
    raise unknown_type(symbol)


def _structure_test(kind: StructureType) -> Test:
    return lambda value: isinstance(value, Structure) and value.type.is_a(kind)


def bound(value: Any) -> tuple[Any, bool]:
    """A range's bound: the number (None: unbounded) and whether it is exclusive."""
    if value is STAR:
        return None, False
    if isinstance(value, Cons) and value.cdr is NIL:
        return value.car, True
    return value, False


def _range(is_kind: Test) -> Callable[..., Test]:
    def make(specifier: Any, low: Any = STAR, high: Any = STAR) -> Test:
        (least, above), (most, below) = bound(low), bound(high)
        for limit in (least, most):
            if limit is not None and not is_real(limit):
                raise unknown_type(specifier)

        def test(value: Any) -> bool:
            if not is_kind(value):
                return False
            if least is not None and not (value > least or (value == least and not above)):
                return False
            return most is None or value < most or (value == most and not below)

        return test

    return make


def _bytes(signed: bool) -> Callable[..., Test]:
    def make(specifier: Any, size: Any = STAR) -> Test:
        name = "signed-byte" if signed else "unsigned-byte"
        if size is STAR:
            return ATOMIC[name]
        low, high = integer_range(name, size, specifier)
        return lambda value: isinstance(value, int) and low <= value <= high

    return make


def integer_range(name: str, size: Any, specifier: Any) -> tuple[int, int]:
    """The least and the greatest integer of `(mod SIZE)`, `(unsigned-byte SIZE)` and its kin."""
    if not isinstance(size, int) or size <= 0:
        raise unknown_type(specifier)
    if name == "mod":
        return 0, size - 1
    charge_memory(size >> 3)
    half = 1 << (size - 1)
    return (-half, half - 1) if name == "signed-byte" else (0, 2 * half - 1)


def _modulus(specifier: Any, count: Any) -> Test:
    _, most = integer_range("mod", count, specifier)
    return lambda value: isinstance(value, int) and 0 <= value <= most


def _member(specifier: Any, *items: Any) -> Test:
    keys = frozenset(eql_key(item) for item in items)
    return lambda value: eql_key(value) in keys


def _eql(specifier: Any, item: Any) -> Test:
    return lambda value: eql(value, item)


def _satisfies(specifier: Any, name: Any) -> Test:
    if not isinstance(name, Symbol):
        raise unknown_type(specifier)

    def test(value: Any) -> bool:
        if name.function is None:
            raise undefined_function(name)
        return call(name.function, value) is not NIL

    return test


def _and(specifier: Any, *parts: Any) -> Test:
    tests = [type_test(part) for part in parts]
    return lambda value: all(test(value) for test in tests)


def _or(specifier: Any, *parts: Any) -> Test:
    tests = [type_test(part) for part in parts]
    return lambda value: any(test(value) for test in tests)


def _not(specifier: Any, part: Any) -> Test:
    test = type_test(part)
    return lambda value: not test(value)


def _cons(specifier: Any, car: Any = STAR, cdr: Any = STAR) -> Test:
    in_car = ATOMIC["t"] if car is STAR else type_test(car)
    in_cdr = ATOMIC["t"] if cdr is STAR else type_test(cdr)
    return lambda value: isinstance(value, Cons) and in_car(value.car) and in_cdr(value.cdr)


def is_base_element(element: Any) -> bool:
    """Whether an element type is base-char: (vector base-char) is base-string."""
    return element is not STAR and type_parts(expand_type(element))[0] in (
        "base-char",
        "standard-char",
    )


def has_character_elements(element: Any) -> bool | None:
    """Whether an element type upgrades to character (True), to t (False); `*`: None."""
    if element is STAR:
        return None
    name = type_parts(expand_type(element))[0]
    if name in ("character", "base-char", "standard-char", "extended-char"):
        return True
    if name in ("member", "eql"):
        items = type_parts(expand_type(element))[1]
        return bool(items) and all(type(item) is Char for item in items)
    return False


def sized(value: Any, size: Any) -> bool:
    """Whether a vector has the size that a specifier asks for (`*`: any)."""
    if size is STAR:
        return True
    return len(value.items if type(value) is Vector else value.text) == size


def _vector(specifier: Any, element: Any = STAR, size: Any = STAR) -> Test:
    text = has_character_elements(element)
    base = is_base_element(element)

    def test(value: Any) -> bool:
        if type(value) is String:
            return text is not False and (not base or value.text.isascii()) and sized(value, size)
        return type(value) is Vector and text is not True and sized(value, size)

    return test


def array_size(specifier: Any, dimensions: Any) -> Any:
    """The size an array's dimensions ask for: `*`, a count, or None for another rank than 1."""
    if dimensions is STAR:
        return STAR
    if isinstance(dimensions, int):
        return STAR if dimensions == 1 else None
    if dimensions is NIL:
        return None
    if not isinstance(dimensions, Cons):
        raise unknown_type(specifier)
    return dimensions.car if dimensions.cdr is NIL else None


def _array(specifier: Any, element: Any = STAR, dimensions: Any = STAR) -> Test:
    size = array_size(specifier, dimensions)
    return never if size is None else _vector(specifier, element, size)


def _simple_array(specifier: Any, element: Any = STAR, dimensions: Any = STAR) -> Test:
    test = _array(specifier, element, dimensions)
    return lambda value: is_simple(value) and test(value)


def _sized(name: str) -> Callable[..., Test]:
    def make(specifier: Any, size: Any = STAR) -> Test:
        test = ATOMIC[name]
        return lambda value: test(value) and sized(value, size)

    return make


_COMPOUND: dict[str, Callable[..., Test]] = {
    "integer": _range(is_integer),
    "rational": _range(ATOMIC["rational"]),
    "real": _range(is_real),
    "number": _range(is_real),
    "float": _range(is_float),
    "short-float": _range(is_float),
    "single-float": _range(is_float),
    "double-float": _range(is_float),
    "long-float": _range(is_float),
    "unsigned-byte": _bytes(signed=False),
    "signed-byte": _bytes(signed=True),
    "mod": _modulus,
    "member": _member,
    "eql": _eql,
    "satisfies": _satisfies,
    "and": _and,
    "or": _or,
    "not": _not,
    "cons": _cons,
    "vector": _vector,
    "array": _array,
    "simple-array": _simple_array,
    "string": _sized("string"),
    "simple-string": _sized("simple-string"),
    "base-string": _sized("base-string"),
    "simple-base-string": _sized("simple-base-string"),
    "simple-vector": _sized("simple-vector"),
}


for _name in (*ATOMIC, *_COMPOUND, "values"):
    CL.own(_name)


def typep(value: Any, specifier: Any) -> bool:
    """Whether a value is of the type."""
    if type(specifier) is Symbol and specifier.module is CL and specifier.name in ATOMIC:
        return ATOMIC[specifier.name](value)  # nobody may define these otherwise
    return type_test(specifier)(value)
