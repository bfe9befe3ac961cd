"""Numbers: their kinds, conversions, the parts of floats, random numbers, the limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from sexpgpu.lisp.builtins.arithmetic import foreign_or_error, is_number, overflow, to_float, whole
from sexpgpu.lisp.builtins.atomic_types import ATOMIC, FIXNUM_HIGH, FIXNUM_LOW
from sexpgpu.lisp.builtins.designators import integer_argument, truth
from sexpgpu.lisp.errors import type_error
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import CL, MV, NIL, T

_MASK = (1 << 64) - 1


def _declare_kind(name: str, kind: str, doc: str) -> None:
    test = ATOMIC[kind]

    def function(value: Any) -> Any:
        return truth(test(value))

    function.__doc__ = doc
    builtin(name, "(value)")(function)


_declare_kind("numberp", "number", "Whether VALUE is a number.")
_declare_kind("realp", "real", "Whether VALUE is a number.")
_declare_kind("complexp", "complex", "Never: there are no complex numbers.")
_declare_kind("rationalp", "rational", "Whether VALUE is an integer or a ratio.")
_declare_kind("integerp", "integer", "Whether VALUE is an integer.")
_declare_kind("floatp", "float", "Whether VALUE is a float.")


def _declare_test(name: str, doc: str, test: Callable[[Any], bool], kind: str) -> None:
    is_kind = ATOMIC[kind]

    def function(number: Any) -> Any:
        if not is_kind(number):
            return foreign_or_error(name, (number,), kind)
        return truth(test(number))

    function.__doc__ = doc
    builtin(name, "(number)", overload=True)(function)


_declare_test("zerop", "Whether NUMBER is zero.", lambda n: n == 0, "number")
_declare_test("plusp", "Whether NUMBER is greater than zero.", lambda n: n > 0, "real")
_declare_test("minusp", "Whether NUMBER is less than zero.", lambda n: n < 0, "real")


@builtin("evenp", "(number)", overload=True)
def evenp(number: Any) -> Any:
    """Whether NUMBER is an even integer."""
    if isinstance(number, int):
        return NIL if number & 1 else T
    return foreign_or_error("evenp", (number,), "integer")


@builtin("oddp", "(number)", overload=True)
def oddp(number: Any) -> Any:
    """Whether NUMBER is an odd integer."""
    if isinstance(number, int):
        return T if number & 1 else NIL
    return foreign_or_error("oddp", (number,), "integer")


def _rational_argument(value: Any) -> Any:
    if isinstance(value, int | Fraction):
        return value
    raise type_error(value, "rational")


@builtin("numerator", "(rational)")
def numerator(rational: Any) -> Any:
    """The numerator of RATIONAL in lowest terms."""
    return _rational_argument(rational).numerator


@builtin("denominator", "(rational)")
def denominator(rational: Any) -> Any:
    """The denominator of RATIONAL in lowest terms, positive."""
    return _rational_argument(rational).denominator


def _finite_real(value: Any) -> Any:
    if not is_number(value) or (isinstance(value, float) and value - value != 0.0):
        raise type_error(value, "real")
    return value


@builtin("float", "(number &optional prototype)")
def float_(number: Any, prototype: Any = None) -> Any:
    """NUMBER as a float."""
    if prototype is not None and not isinstance(prototype, float):
        raise type_error(prototype, "float")
    if not is_number(number):
        return foreign_or_error("float", (number,), "real")
    return to_float(number)


@builtin("rational", "(number)")
def rational(number: Any) -> Any:
    """The rational of exactly the value of NUMBER."""
    value = _finite_real(number)
    return whole(Fraction(value)) if isinstance(value, float) else value


@builtin("rationalize", "(number)")
def rationalize(number: Any) -> Any:
    """The simplest rational that is NUMBER in float precision."""
    value = _finite_real(number)
    if not isinstance(value, float) or value == 0.0:
        return whole(Fraction(value))
    magnitude = abs(value)
    exact = Fraction(magnitude)
    half = Fraction(math.ulp(magnitude)) / 2
    simplest = _simplest_between(exact - half, exact + half)
    if float(simplest) != magnitude:
        simplest = exact
    return whole(-simplest if value < 0 else simplest)


def _simplest_between(low: Fraction, high: Fraction) -> Fraction:
    """The fraction of least denominator in an interval of positive numbers (Stern-Brocot)."""
    floor = low.numerator // low.denominator
    if floor >= low:
        return Fraction(floor)
    if floor + 1 <= high:
        return Fraction(floor + 1)
    inner = _simplest_between(1 / (high - floor), 1 / (low - floor))
    return floor + 1 / inner


def _float_argument(value: Any) -> float:
    if not isinstance(value, float):
        raise type_error(value, "float")
    return value


@builtin("decode-float", "(float)")
def decode_float(float: Any) -> Any:
    """Significand in [1/2, 1), exponent and sign of FLOAT."""
    value = _float_argument(float)
    mantissa, exponent = math.frexp(abs(value))
    return MV((mantissa, exponent, math.copysign(1.0, value)))


@builtin("integer-decode-float", "(float)")
def integer_decode_float(float: Any) -> Any:
    """Significand as an integer of 53 bits, exponent and sign of FLOAT."""
    value = _float_argument(float)
    mantissa, exponent = math.frexp(abs(value))
    sign = 1 if math.copysign(1.0, value) > 0 else -1
    return MV((int(mantissa * 2**53), exponent - 53 if mantissa else -1074, sign))


@builtin("scale-float", "(float power)")
def scale_float(float: Any, power: Any) -> Any:
    """FLOAT times 2 to the POWER."""
    value, exponent = _float_argument(float), integer_argument(power)
    try:
        return math.ldexp(value, max(-5000, min(5000, exponent)))
    except OverflowError:
        raise overflow("scale-float", (float, power)) from None


@builtin("float-sign", "(float &optional magnitude)")
def float_sign(float: Any, magnitude: Any = None) -> Any:
    """1.0, or the magnitude of the second float, with the sign of the first."""
    value = _float_argument(float)
    return math.copysign(1.0 if magnitude is None else abs(_float_argument(magnitude)), value)


@builtin("float-radix", "(float)")
def float_radix(float: Any) -> Any:
    """The radix of floats: 2."""
    _float_argument(float)
    return 2


@builtin("float-digits", "(float)")
def float_digits(float: Any) -> Any:
    """The bits of a float's significand: 53."""
    _float_argument(float)
    return 53


@builtin("float-precision", "(float)")
def float_precision(float: Any) -> Any:
    """The significant bits of FLOAT: fewer than 53 for a denormal, 0 for zero."""
    value = abs(_float_argument(float))
    if value == 0.0:
        return 0
    return min(53, math.frexp(value)[1] + 1074)


# ---------------------------------------------------------------- random


class Random:
    """SplitMix64 (Steele, Lea, Flood 2014): 64 bits a draw from a counter and a mixer."""

    __slots__ = ("state",)

    def __init__(self, seed: int) -> None:
        self.state = seed & _MASK

    def bits(self) -> int:
        """The next 64 random bits."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & _MASK
        z = self.state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK
        return z ^ z >> 31

    def below(self, limit: int) -> int:
        """A uniform integer in [0, limit)."""
        size = (limit - 1).bit_length()
        words = (size + 63) // 64
        STATE.charge(words)
        while True:
            value = 0
            for _ in range(words):
                value = value << 64 | self.bits()
            value >>= words * 64 - size
            if value < limit:
                return value


@builtin("random", "(limit)")
def random(limit: Any) -> Any:
    """A random number from 0 below LIMIT: an integer or a float, from the run's seed."""
    if not (isinstance(limit, int | float) and limit > 0):
        raise type_error(limit, "(or (integer (0)) (float (0.0)))")
    if STATE.random is None:
        STATE.random = Random(STATE.seed)
    if isinstance(limit, float):
        return (STATE.random.bits() >> 11) * 2.0**-53 * limit
    return STATE.random.below(limit)


# ---------------------------------------------------------------- limits


def _define_constants() -> None:
    tiny = 5e-324
    least_normal = 2.2250738585072014e-308
    huge = 1.7976931348623157e308
    constants: dict[str, Any] = {
        "most-positive-fixnum": FIXNUM_HIGH,
        "most-negative-fixnum": FIXNUM_LOW,
    }
    for kind in ("double", "single", "long", "short"):
        constants[f"most-positive-{kind}-float"] = huge
        constants[f"most-negative-{kind}-float"] = -huge
        constants[f"least-positive-{kind}-float"] = tiny
        constants[f"least-negative-{kind}-float"] = -tiny
        constants[f"least-positive-normalized-{kind}-float"] = least_normal
        constants[f"least-negative-normalized-{kind}-float"] = -least_normal
        constants[f"{kind}-float-epsilon"] = 1.1102230246251568e-16
        constants[f"{kind}-float-negative-epsilon"] = 5.551115123125784e-17
    for name, value in constants.items():
        symbol = CL.own(name)
        symbol.value = value
        symbol.special = symbol.constant = True


_define_constants()
