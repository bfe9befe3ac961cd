"""Types: typep, type-of, subtypep, coerce."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from sexpgpu.lisp.builtins.atomic_types import type_of
from sexpgpu.lisp.builtins.designators import sequence_items, truth
from sexpgpu.lisp.builtins.sequence_types import sequence_builder
from sexpgpu.lisp.builtins.type_specifiers import expand_type, type_parts, typep
from sexpgpu.lisp.calls import as_function
from sexpgpu.lisp.errors import type_error
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.values import MV, Char, Cons, String, Symbol, char

_SEQUENCE_TYPES = frozenset(
    (
        "list",
        "vector",
        "simple-vector",
        "array",
        "simple-array",
        "string",
        "simple-string",
        "base-string",
        "simple-base-string",
        "cons",
        "null",
    )
)
_FLOATS = frozenset(("float", "double-float", "single-float", "short-float", "long-float"))


@builtin("typep", "(value type &optional environment)")
def typep_(value: Any, type: Any, environment: Any = None) -> Any:
    """Whether VALUE is of TYPE."""
    return truth(typep(value, type))


@builtin("type-of", "(value)")
def type_of_(value: Any) -> Any:
    """A type specifier that VALUE is of: the most telling one."""
    return type_of(value)


@builtin("subtypep", "(type-1 type-2 &optional environment)")
def subtypep(first: Any, second: Any, environment: Any = None) -> Any:
    """Whether every value of the first type is of the second, and whether that is certain."""
    from sexpgpu.lisp.builtins.type_sets import is_subtype

    answer = is_subtype(first, second)
    return MV((truth(bool(answer)), truth(answer is not None)))


@builtin("coerce", "(value type)")
def coerce(value: Any, type: Any) -> Any:
    """VALUE as a value of TYPE: between sequences, to character, to float, to function."""
    specifier = expand_type(type)
    name = type_parts(specifier)[0]
    if name in _FLOATS:
        from sexpgpu.lisp.builtins.arithmetic import to_float

        if isinstance(value, float):
            result: Any = value
        elif isinstance(value, int | Fraction):
            result = to_float(value)
        else:
            raise type_error(value, specifier)
        if not typep(result, specifier):
            raise type_error(result, specifier)
        return result
    if name == "function":
        if isinstance(value, Cons):
            from sexpgpu.lisp.evaluation import lambda_function

            return lambda_function(value)
        return as_function(value)
    if name in ("character", "base-char"):
        return _character(value)
    if name == "complex":
        raise type_error(value, specifier, "there are no complex numbers")
    if typep(value, specifier):
        return value
    if name in _SEQUENCE_TYPES:
        return sequence_builder(specifier)(list(sequence_items(value)))
    raise type_error(value, specifier)


def _character(value: Any) -> Char:
    """The character a designator names: itself, or a string or symbol of one letter."""
    if isinstance(value, Char):
        return value
    if isinstance(value, String):
        text = value.text if value.fill is None else value.text[: value.fill]
    elif isinstance(value, Symbol):
        text = value.name
    else:
        raise type_error(value, "character")
    if len(text) != 1:
        raise type_error(value, "character")
    return char(text)


builtin("character", "(value)")(_character)
