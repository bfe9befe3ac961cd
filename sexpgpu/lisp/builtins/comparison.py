"""Comparison of numbers: = /= < <= > >=, exact between integers, ratios and floats."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.builtins.arithmetic import foreign_or_error, is_number
from sexpgpu.lisp.builtins.equality import FAST_TESTS
from sexpgpu.lisp.errors import type_error
from sexpgpu.lisp.registry import BUILTINS, builtin
from sexpgpu.lisp.values import NIL, Foreign, T

_PLAIN = (int, float)


def _slow(name: str, compare: Callable[[Any, Any], bool], a: Any, b: Any) -> Any:
    if is_number(a) and is_number(b):
        return T if compare(a, b) else NIL
    return foreign_or_error(name, (a, b), "number" if name in ("=", "/=") else "real")


def less2(a: Any, b: Any) -> Any:
    """(< a b)"""
    if type(a) in _PLAIN and type(b) in _PLAIN:
        return T if a < b else NIL
    return _slow("<", operator.lt, a, b)


def less_equal2(a: Any, b: Any) -> Any:
    """(<= a b)"""
    if type(a) in _PLAIN and type(b) in _PLAIN:
        return T if a <= b else NIL
    return _slow("<=", operator.le, a, b)


def greater2(a: Any, b: Any) -> Any:
    """(> a b)"""
    if type(a) in _PLAIN and type(b) in _PLAIN:
        return T if a > b else NIL
    return _slow(">", operator.gt, a, b)


def greater_equal2(a: Any, b: Any) -> Any:
    """(>= a b)"""
    if type(a) in _PLAIN and type(b) in _PLAIN:
        return T if a >= b else NIL
    return _slow(">=", operator.ge, a, b)


def equal2(a: Any, b: Any) -> Any:
    """(= a b)"""
    if type(a) in _PLAIN and type(b) in _PLAIN:
        return T if a == b else NIL
    return _slow("=", operator.eq, a, b)


def not_equal2(a: Any, b: Any) -> Any:
    """(/= a b)"""
    if type(a) in _PLAIN and type(b) in _PLAIN:
        return T if a != b else NIL
    return _slow("/=", operator.ne, a, b)


def _declare(
    name: str, doc: str, two: Callable[[Any, Any], Any], compare: Callable[[Any, Any], bool]
) -> None:
    kind = "number" if name == "=" else "real"

    def ordered(*numbers: Any) -> Any:
        if len(numbers) == 2:
            return two(numbers[0], numbers[1])
        for number in numbers:
            if not is_number(number):
                if any(isinstance(n, Foreign) for n in numbers):
                    return foreign_or_error(name, numbers, kind)
                raise type_error(number, kind)
        for at in range(1, len(numbers)):
            if not compare(numbers[at - 1], numbers[at]):
                return NIL
        return T

    ordered.__doc__ = doc
    builtin(name, "(number &rest more)", overload=True)(ordered)


_declare("=", "Whether all the numbers are equal in value.", equal2, operator.eq)
_declare("<", "Whether the numbers increase.", less2, operator.lt)
_declare("<=", "Whether the numbers never decrease.", less_equal2, operator.le)
_declare(">", "Whether the numbers decrease.", greater2, operator.gt)
_declare(">=", "Whether the numbers never increase.", greater_equal2, operator.ge)


@builtin("/=", "(number &rest more)", overload=True)
def all_different(*numbers: Any) -> Any:
    """Whether no two of the numbers are equal in value."""
    if len(numbers) == 2:
        return not_equal2(numbers[0], numbers[1])
    for number in numbers:
        if not is_number(number):
            return foreign_or_error("/=", numbers)
    return T if len(set(numbers)) == len(numbers) else NIL  # Python hashes by value


def _fast_equal(a: Any, b: Any) -> bool:
    from sexpgpu.lisp.builtins.designators import true

    return true(equal2(a, b))


_function = BUILTINS["="].function
assert _function is not None
FAST_TESTS[_function] = _fast_equal
