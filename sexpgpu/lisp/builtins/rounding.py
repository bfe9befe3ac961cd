"""Rounding: floor ceiling truncate round with two values, their float forms, mod and rem.

Float quotients are computed as SBCL does: divide in floating point, round that, and take the
remainder from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from sexpgpu.lisp.builtins.arithmetic import (
    charge_quotient,
    charge_ratio,
    div2,
    finite,
    foreign_or_error,
    is_number,
    to_float,
    whole,
)
from sexpgpu.lisp.errors import arithmetic_error, division_by_zero
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.values import MV

Rounder = Callable[[Any], int]


def _round_even(value: Any) -> int:
    return round(value)


def _integral(value: Any, rounder: Rounder, name: str) -> int:
    """The rounded number; an infinity or NaN has none."""
    try:
        return rounder(value)
    except (OverflowError, ValueError):
        raise arithmetic_error(
            f"{name}: not a finite number", name, (value,), "floating-point-invalid-operation"
        ) from None


def _divided(name: str, rounder: Rounder, number: Any, divisor: Any) -> tuple[int, Any]:
    """The rounded quotient and what is left of the number."""
    if divisor == 0:
        raise division_by_zero(name, (number, divisor))
    if isinstance(number, int) and isinstance(divisor, int):
        charge_quotient(number, divisor)
        if rounder is math.floor:
            return divmod(number, divisor)
        if divisor == 1:
            return number, 0
        quotient = _exact(rounder, number, divisor)
        return quotient, number - quotient * divisor
    if isinstance(number, float) or isinstance(divisor, float):
        if isinstance(divisor, int) and divisor == 1:
            quotient = _integral(number, rounder, name)
            return quotient, to_float(number) - quotient
        return _float_divided(name, rounder, number, divisor)
    charge_ratio(number)
    charge_ratio(divisor)
    quotient = rounder(Fraction(number) / divisor)
    return quotient, whole(number - Fraction(quotient) * divisor)


def _exact(rounder: Rounder, number: int, divisor: int) -> int:
    """The rounded quotient of integers, without going through floats."""
    quotient, remainder = divmod(number, divisor)  # floor
    if remainder == 0 or rounder is math.floor:
        return quotient
    if rounder is math.ceil:
        return quotient + 1
    if rounder is math.trunc:
        return quotient + 1 if quotient < 0 else quotient
    twice = abs(remainder) * 2 - abs(divisor)
    return quotient + 1 if twice > 0 or (twice == 0 and quotient % 2) else quotient


def _float_divided(name: str, rounder: Rounder, number: Any, divisor: Any) -> tuple[int, Any]:
    x, y = to_float(number, name), to_float(divisor, name)
    ratio = finite(x / y, name, (number, divisor))
    quotient = math.trunc(ratio)
    rest = x - quotient * y
    if rest == 0:
        return quotient, rest
    if rounder is math.floor:
        if (x > 0) if y < 0 else (x < 0):
            return quotient - 1, rest + y
    elif rounder is math.ceil:
        if (x < 0) if y < 0 else (x > 0):
            return quotient + 1, rest - y
    elif rounder is _round_even:
        half = abs(y) / 2
        if abs(rest) > half or (abs(rest) == half and quotient % 2):
            up = (rest > 0) == (y > 0)
            return (quotient + 1, rest - y) if up else (quotient - 1, rest + y)
    return quotient, rest


def _declare(name: str, rounder: Rounder, words: str) -> None:
    def operate(number: Any, divisor: Any = None) -> Any:
        arguments = (number,) if divisor is None else (number, divisor)
        for argument in arguments:
            if not is_number(argument):
                return foreign_or_error(name, arguments, "real")
        return MV(_divided(name, rounder, number, 1 if divisor is None else divisor))

    def operate_float(number: Any, divisor: Any = 1) -> Any:
        for argument in (number, divisor):
            if not is_number(argument):
                return foreign_or_error("f" + name, (number, divisor), "real")
        quotient, rest = _divided("f" + name, rounder, number, divisor)
        result = to_float(quotient, "f" + name)
        if quotient == 0 and math.copysign(1.0, to_float(div2(number, divisor))) < 0:
            result = -0.0
        return MV((result, rest))

    operate.__doc__ = f"The quotient rounded {words}, and the remainder."
    operate_float.__doc__ = f"The quotient rounded {words}, as a float, and the remainder."
    builtin(name, "(number &optional divisor)", overload=True)(operate)
    builtin("f" + name, "(number &optional divisor)")(operate_float)


_declare("floor", math.floor, "down")
_declare("ceiling", math.ceil, "up")
_declare("truncate", math.trunc, "towards zero")
_declare("round", _round_even, "to the nearest integer, ties to the even one")


@builtin("mod", "(number divisor)", overload=True)
def mod(number: Any, divisor: Any) -> Any:
    """The remainder of floor: it has the sign of DIVISOR."""
    if type(number) is int and type(divisor) is int and divisor:
        charge_quotient(number, divisor)
        return number % divisor
    return _remainder("mod", math.floor, number, divisor)


@builtin("rem", "(number divisor)", overload=True)
def rem(number: Any, divisor: Any) -> Any:
    """The remainder of truncate: it has the sign of NUMBER."""
    return _remainder("rem", math.trunc, number, divisor)


def _remainder(name: str, rounder: Rounder, number: Any, divisor: Any) -> Any:
    if not (is_number(number) and is_number(divisor)):
        return foreign_or_error(name, (number, divisor), "real")
    return _divided(name, rounder, number, divisor)[1]
