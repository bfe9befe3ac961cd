"""Calling Lisp functions from Python: designators, counts of arguments, values."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.errors import LispError, program_error, type_error, undefined_function
from sexpgpu.lisp.state import STATE, Site
from sexpgpu.lisp.values import MV, NIL, Foreign, Function, Symbol


def as_function(designator: Any) -> Function:
    """The function that a designator (function, symbol, callable model) denotes."""
    if isinstance(designator, Function):
        return designator
    if type(designator) is Symbol:
        found = designator.function
        if found is None:
            raise undefined_function(designator)
        return found
    if isinstance(designator, Foreign):
        found = designator.lisp_function()
        if found is not None:
            return found
    raise type_error(designator, "function")


def count_error(function: Function, count: int) -> LispError:
    """The program-error of a call with the wrong number of arguments."""
    low, high = function.minimum, function.maximum
    if high is None:
        wanted = f"at least {low}"
    elif low == high:
        wanted = f"{low}" if low else "no"
    else:
        wanted = f"{low} or {high}" if high == low + 1 else f"{low} to {high}"
    noun = "argument" if (high if high is not None else low) == 1 else "arguments"
    return program_error(
        f"{function.name} takes {wanted} {noun}, {count} given",
        code="arguments",
        function=function,
    )


def check_count(function: Function, count: int) -> None:
    """Raise a program-error when the function does not take `count` arguments."""
    high = function.maximum
    if count < function.minimum or (high is not None and count > high):
        raise count_error(function, count)


def call_values(function: Function, *arguments: Any) -> Any:
    """Call a function, the count of arguments checked: its value, or an MV."""
    count = len(arguments)
    high = function.maximum
    if count < function.minimum or (high is not None and count > high):
        raise count_error(function, count)
    return function.call(*arguments)


def call(function: Function, *arguments: Any) -> Any:
    """Call a function, the count of arguments checked: its primary value."""
    count = len(arguments)
    high = function.maximum
    if count < function.minimum or (high is not None and count > high):
        raise count_error(function, count)
    value = function.call(*arguments)
    if type(value) is MV:
        return value[0] if value else NIL
    return value


def primary(value: Any) -> Any:
    """The primary value of what a form returned."""
    if type(value) is MV:
        return value[0] if value else NIL
    return value


def values_list(value: Any) -> list[Any]:
    """All the values of what a form returned."""
    return list(value) if type(value) is MV else [value]


def values_of(items: list[Any] | tuple[Any, ...]) -> Any:
    """What a form returns that has these values: the value itself when it is one, else an MV."""
    return items[0] if len(items) == 1 else MV(items)


def truth(value: Any, site: Site | None = None) -> bool:
    """The truth of a value in a test position; a Foreign is asked (a tensor raises)."""
    if value is NIL:
        return False
    if isinstance(value, Foreign):
        if site is not None:
            STATE.site = site  # the test itself, for the refusal of a tensor
        return value.lisp_truth()
    if type(value) is MV:
        return truth(value[0], site) if value else False
    return True
