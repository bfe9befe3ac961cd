"""Powers, roots, exponentials, logarithms, trigonometry. No complex results: an error instead."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from sexpgpu.lisp.builtins.arithmetic import (
    charge_product,
    charge_quotient,
    charged,
    finite,
    foreign_or_error,
    is_number,
    overflow,
    to_float,
    whole,
)
from sexpgpu.lisp.errors import arithmetic_error, division_by_zero, type_error
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.values import CL

PI = CL.own("pi")
PI.value = math.pi
PI.special = PI.constant = True


def no_real_result(name: str, arguments: tuple[Any, ...]) -> Exception:
    """The error where CL would answer with a complex number."""
    return arithmetic_error(
        f"{name} has no real result for these arguments (there are no complex numbers)",
        name,
        arguments,
        "floating-point-invalid-operation",
    )


@builtin("expt", "(base power)", overload=True)
def expt(base: Any, power: Any) -> Any:
    """BASE to the POWER: exact for a rational base and an integer power."""
    if not (is_number(base) and is_number(power)):
        return foreign_or_error("expt", (base, power))
    if isinstance(power, int):
        if isinstance(base, float):
            return _float_power(base, power)
        return _exact_power(base, power)
    if base == 0:
        if power < 0:
            raise division_by_zero("expt", (base, power))
        return 0.0
    if base < 0:
        if isinstance(power, float) and power.is_integer():
            return _float_power(to_float(base, "expt"), power)
        raise no_real_result("expt", (base, power))
    return _float_power(to_float(base, "expt"), to_float(power, "expt"))


def _float_power(base: float, power: Any) -> float:
    if base == 0.0 and power < 0:
        raise division_by_zero("expt", (base, power))
    try:
        return finite(math.pow(base, power), "expt", (base, power))
    except OverflowError:
        raise overflow("expt", (base, power)) from None


def _exact_power(base: Any, power: int) -> Any:
    if base in (0, 1, -1):
        if base == 0 and power < 0:
            raise division_by_zero("expt", (base, power))
        return 1 if power == 0 or base == 1 or (base == -1 and power % 2 == 0) else base
    bits = abs(power) * max(abs(base.numerator).bit_length(), base.denominator.bit_length())
    charge_product(bits >> 1, bits >> 1)
    if isinstance(base, int):
        return base**power if power >= 0 else whole(Fraction(1, base**-power))
    return whole(base**power)


@builtin("exp", "(number)", overload=True)
def exp(number: Any) -> Any:
    """e to the power NUMBER."""
    if not is_number(number):
        return foreign_or_error("exp", (number,))
    try:
        return math.exp(to_float(number, "exp"))
    except OverflowError:
        raise overflow("exp", (number,)) from None


def _natural_log(number: Any, arguments: tuple[Any, ...]) -> float:
    if number == 0:
        raise division_by_zero("log", arguments)
    if number < 0:
        raise no_real_result("log", arguments)
    if isinstance(number, Fraction):
        if number.denominator < 2 * number.numerator < 4 * number.denominator:
            return math.log1p(float(number - 1))  # the difference of logarithms has no digits left
        return math.log(number.numerator) - math.log(number.denominator)
    return math.log(number)


@builtin("log", "(number &optional base)", overload=True)
def log(number: Any, base: Any = None) -> Any:
    """The logarithm of NUMBER, natural or to BASE."""
    arguments = (number,) if base is None else (number, base)
    for argument in arguments:
        if not is_number(argument):
            return foreign_or_error("log", arguments)
    if base is None:
        return _natural_log(number, arguments)
    if base == 0:
        return 0.0
    above = _natural_log(number, arguments)
    if base in (2, 10) and not isinstance(number, Fraction):
        return math.log2(number) if base == 2 else math.log10(number)
    below = _natural_log(base, arguments)
    if below == 0:
        raise division_by_zero("log", arguments)
    return above / below


@builtin("sqrt", "(number)", overload=True)
def sqrt(number: Any) -> Any:
    """The square root of NUMBER, a float; a negative number is an error."""
    if not is_number(number):
        return foreign_or_error("sqrt", (number,))
    if number < 0:
        raise no_real_result("sqrt", (number,))
    return math.sqrt(to_float(number, "sqrt"))


@builtin("isqrt", "(natural)")
def isqrt(natural: Any) -> Any:
    """The greatest integer whose square is not greater than NATURAL."""
    if not isinstance(natural, int) or natural < 0:
        raise type_error(natural, "unsigned-byte")
    charge_quotient(natural, natural)
    return charged(math.isqrt(natural))


def _declare(
    name: str,
    compute: Callable[[float], float],
    doc: str,
    domain: Callable[[float], bool] | None = None,
) -> None:
    def operate(number: Any) -> Any:
        if not is_number(number):
            return foreign_or_error(name, (number,))
        x = to_float(number, name)
        if domain is not None and not domain(x):
            if name == "atanh" and abs(x) == 1.0:
                raise division_by_zero(name, (number,))
            raise no_real_result(name, (number,))
        try:
            return finite(compute(x), name, (number,))
        except (OverflowError, ValueError):
            raise overflow(name, (number,)) from None

    operate.__doc__ = doc
    builtin(name, "(number)", overload=True)(operate)


_declare("sin", math.sin, "The sine of NUMBER radians.")
_declare("cos", math.cos, "The cosine of NUMBER radians.")
_declare("tan", math.tan, "The tangent of NUMBER radians.")
_declare("asin", math.asin, "The arc sine of NUMBER, in radians.", lambda x: -1 <= x <= 1)
_declare("acos", math.acos, "The arc cosine of NUMBER, in radians.", lambda x: -1 <= x <= 1)
_declare("sinh", math.sinh, "The hyperbolic sine of NUMBER.")
_declare("cosh", math.cosh, "The hyperbolic cosine of NUMBER.")
_declare("tanh", math.tanh, "The hyperbolic tangent of NUMBER.")
_declare("asinh", math.asinh, "The inverse hyperbolic sine of NUMBER.")
_declare("acosh", math.acosh, "The inverse hyperbolic cosine of NUMBER.", lambda x: x >= 1)
_declare("atanh", math.atanh, "The inverse hyperbolic tangent of NUMBER.", lambda x: -1 < x < 1)


@builtin("atan", "(y &optional x)", overload=True)
def atan(y: Any, x: Any = None) -> Any:
    """The arc tangent of Y, or the angle of the point (X, Y), in radians."""
    arguments = (y,) if x is None else (y, x)
    for argument in arguments:
        if not is_number(argument):
            return foreign_or_error("atan", arguments)
    if x is None:
        return math.atan(to_float(y, "atan"))
    return math.atan2(to_float(y, "atan"), to_float(x, "atan"))
