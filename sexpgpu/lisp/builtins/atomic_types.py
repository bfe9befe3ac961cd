"""The types that a name alone denotes: a test of each, and the type of a value."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from sexpgpu.lisp.values import (
    CL,
    KEYWORD,
    NIL,
    PRELUDE,
    TENSOR,
    Char,
    Condition,
    Cons,
    Foreign,
    Function,
    Module,
    String,
    Structure,
    Symbol,
    T,
    Vector,
    lisp_list,
)

Test = Callable[[Any], bool]

FIXNUM_HIGH = (1 << 62) - 1
FIXNUM_LOW = -(1 << 62)
_STANDARD_CHARACTERS = frozenset([10, *range(32, 127)])


def is_standard_character(value: Any) -> bool:
    """One of the 95 printing ASCII characters, or Newline."""
    return type(value) is Char and value.code in _STANDARD_CHARACTERS


def is_integer(value: Any) -> bool:
    return isinstance(value, int)


def is_float(value: Any) -> bool:
    return type(value) is float


def is_real(value: Any) -> bool:
    return isinstance(value, int | float | Fraction)


def _is_list(value: Any) -> bool:
    return value is NIL or isinstance(value, Cons)


def _is_vector(value: Any) -> bool:
    return type(value) in (Vector, String)


def is_simple(value: Any) -> bool:
    return type(value) in (Vector, String) and value.fill is None and not value.adjustable


def never(value: Any) -> bool:
    return False


def _kind(*classes: type) -> Test:
    return lambda value: isinstance(value, classes)


def _hash_table(value: Any) -> bool:
    from sexpgpu.lisp.builtins.hash_tables import HashTable

    return isinstance(value, HashTable)


def _stream(value: Any) -> bool:
    from sexpgpu.lisp.format.streams import Stream

    return isinstance(value, Stream)


def _restart(value: Any) -> bool:
    from sexpgpu.lisp.signalling import Restart

    return isinstance(value, Restart)


def _package(value: Any) -> bool:
    return isinstance(value, Module)


ATOMIC: dict[str, Test] = {
    "t": lambda value: True,
    "nil": never,
    "null": lambda value: value is NIL,
    "boolean": lambda value: value is NIL or value is T,
    "symbol": lambda value: isinstance(value, Symbol),
    "keyword": lambda value: isinstance(value, Symbol) and value.module is KEYWORD,
    "cons": lambda value: isinstance(value, Cons),
    "list": _is_list,
    "atom": lambda value: not isinstance(value, Cons),
    "sequence": lambda value: _is_list(value) or type(value) in (Vector, String),
    "number": is_real,
    "real": is_real,
    "complex": never,
    "rational": _kind(int, Fraction),
    "integer": is_integer,
    "fixnum": lambda value: isinstance(value, int) and FIXNUM_LOW <= value <= FIXNUM_HIGH,
    "bignum": lambda value: isinstance(value, int) and not FIXNUM_LOW <= value <= FIXNUM_HIGH,
    "bit": lambda value: isinstance(value, int) and 0 <= value <= 1,
    "unsigned-byte": lambda value: isinstance(value, int) and value >= 0,
    "signed-byte": is_integer,
    "ratio": _kind(Fraction),
    "float": is_float,
    "short-float": is_float,
    "single-float": is_float,
    "double-float": is_float,
    "long-float": is_float,
    "character": lambda value: type(value) is Char,
    "base-char": lambda value: type(value) is Char and value.code < 128,
    "extended-char": lambda value: type(value) is Char and value.code >= 128,
    "standard-char": is_standard_character,
    "string": lambda value: type(value) is String,
    "base-string": lambda value: type(value) is String and value.text.isascii(),
    "simple-string": lambda value: type(value) is String and is_simple(value),
    "simple-base-string": lambda value: (
        type(value) is String and value.text.isascii() and is_simple(value)
    ),
    "vector": _is_vector,
    "array": _is_vector,
    "simple-array": is_simple,
    "simple-vector": lambda value: type(value) is Vector and is_simple(value),
    "bit-vector": never,
    "simple-bit-vector": never,
    "function": _kind(Function),
    "compiled-function": _kind(Function),
    "hash-table": _hash_table,
    "package": _package,
    "stream": _stream,
    "structure-object": _kind(Structure),
    "restart": _restart,
    "random-state": never,
    "readtable": never,
    "pathname": never,
}


def type_of(value: Any) -> Any:
    """The most telling type specifier of a value."""
    if isinstance(value, int):
        return CL.own("fixnum" if FIXNUM_LOW <= value <= FIXNUM_HIGH else "bignum")
    if isinstance(value, Symbol):
        if value is NIL:
            return CL.own("null")
        if value is T:
            return CL.own("boolean")
        return CL.own("keyword" if value.module is KEYWORD else "symbol")
    if type(value) is String:
        simple = CL.own("simple-array" if is_simple(value) else "vector")
        size = len(value.text)
        dimensions = lisp_list([size]) if is_simple(value) else size
        return lisp_list([simple, CL.own("character"), dimensions])
    if type(value) is Vector:
        if is_simple(value):
            return lisp_list([CL.own("simple-vector"), len(value.items)])
        return lisp_list([CL.own("vector"), T, len(value.items)])
    if type(value) is Char:
        return CL.own("standard-char" if is_standard_character(value) else "character")
    if isinstance(value, Structure):
        return value.type.name
    if isinstance(value, Condition):
        return value.type if isinstance(value.type, Symbol) else CL.own(value.type)
    if isinstance(value, Foreign):
        return PRELUDE.find(value.lisp_type) or TENSOR.own(value.lisp_type)
    for kind in (
        "double-float",
        "ratio",
        "cons",
        "function",
        "hash-table",
        "stream",
        "package",
        "restart",
    ):
        if ATOMIC[kind](value):
            return CL.own(kind)
    return T
