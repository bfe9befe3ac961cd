"""Elementwise functions: the Lisp's arithmetic on tensors, and the functions it has no name for.

Of ordinary numbers alone they give an ordinary number. Promotion: `trace/promote.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from sexpgpu.ir.types import INTEGERS
from sexpgpu.lisp.errors import arithmetic_error
from sexpgpu.lisp.registry import BUILTINS
from sexpgpu.lisp.state import current_origin
from sexpgpu.lisp.values import NIL
from sexpgpu.reader.printer import brief
from sexpgpu.trace.arguments import is_number
from sexpgpu.trace.context import TRACES
from sexpgpu.trace.declare import operation, tensor_function
from sexpgpu.trace.promote import FLOAT, NUMBER, floats, numbers, pair
from sexpgpu.trace.tensor import Tensor, is_tensor, wrap

# ---------------------------------------------------------------------------- arithmetic


def ordinary(name: str, *arguments: Any) -> Any:
    """The Lisp's own function on ordinary values."""
    function = BUILTINS[name].function
    assert function is not None
    return function.call(*arguments)


def _fold(name: str, op: str, allow: str, arguments: tuple[Any, ...]) -> Any:
    """(f (f a b) c)…, ordinary as long as both are; of one operand, that itself."""
    total = arguments[0]
    for item in arguments[1:]:
        if is_tensor(total) or is_tensor(item):
            x, y = pair(name, total, item, allow)
            total = wrap(TRACES[-1].emit(op, x, y))
        else:
            total = ordinary(name, total, item)
    return total


@operation("+")
def add(*arguments: Any) -> Any:
    """The sum of the operands."""
    return _fold("+", "add", NUMBER, arguments)


@operation("*")
def multiply(*arguments: Any) -> Any:
    """The product of the operands."""
    return _fold("*", "mul", NUMBER, arguments)


@operation("-")
def subtract(*arguments: Any) -> Any:
    """The first operand less the others; of one operand, its negative."""
    if len(arguments) == 1:
        return wrap(TRACES[-1].emit("neg", numbers("-", arguments[0])))
    return _fold("-", "sub", NUMBER, arguments)


@operation("/")
def divide(*arguments: Any) -> Any:
    """The first operand over the others; of one operand, its reciprocal. Integers give f32."""
    if len(arguments) == 1:
        return reciprocal(arguments[0])
    return _fold("/", "div", FLOAT, arguments)


@operation("max")
def maximum(*arguments: Any) -> Any:
    """The elementwise greatest; NaN wins."""
    _doubt_alone("max", arguments)
    return _fold("max", "max", NUMBER, arguments)


@operation("min")
def minimum(*arguments: Any) -> Any:
    """The elementwise least; NaN wins."""
    _doubt_alone("min", arguments)
    return _fold("min", "min", NUMBER, arguments)


def _doubt_alone(name: str, arguments: tuple[Any, ...]) -> None:
    """Note a call with one tensor, which is that tensor: elsewhere it reduces."""
    if len(arguments) == 1:
        TRACES[0].doubts.append((name, current_origin()))


@operation("1+")
def increment(x: Any) -> Any:
    return _fold("1+", "add", NUMBER, (x, 1))


@operation("1-")
def decrement(x: Any) -> Any:
    return _fold("1-", "sub", NUMBER, (x, 1))


def _whole(y: Any) -> int | None:
    """The integer that a number is, or None."""
    if isinstance(y, int):
        return int(y)
    return int(y) if isinstance(y, float) and y.is_integer() else None


@operation("expt")
def power(x: Any, y: Any) -> Tensor:
    """x to the y. A small whole exponent is a product, so it has a derivative at every x."""
    trace = TRACES[-1]
    if is_number(y) and is_tensor(x):
        exponent = _whole(y)
        if exponent is not None:
            read = numbers if isinstance(y, int) else floats
            base = read("expt", x, "the base")
            exact = base.type.dtype in INTEGERS
            if 0 < exponent <= (64 if exact else 4):
                return wrap(_repeated(base, exponent))
            if exponent == 0:
                return wrap(trace.full(1, base.type.shape, base.type.dtype))
        if y == 0.5:
            return wrap(trace.emit("sqrt", floats("expt", x)))
        if y == -0.5:
            return wrap(trace.emit("rsqrt", floats("expt", x)))
        if y == -1:
            return reciprocal(x)
    a, b = pair("expt", x, y, FLOAT)
    return wrap(trace.emit("pow", a, b))


def _repeated(base: Any, exponent: int) -> Any:
    """base to a positive whole power by repeated squaring."""
    emit = TRACES[-1].emit
    result = None
    square = base
    while True:
        if exponent & 1:
            result = square if result is None else emit("mul", result, square)
        exponent >>= 1
        if not exponent:
            return result
        square = emit("mul", square, square)


@operation("log")
def logarithm(x: Any, base: Any = None) -> Tensor:
    """The natural logarithm, or the logarithm to a base."""
    trace = TRACES[-1]
    if base is None:
        return wrap(trace.emit("log", floats("log", x)))
    if is_number(base):
        scale = 1.0 / math.log(base) if base > 0 and base != 1 else math.nan
        if math.isnan(scale):
            raise arithmetic_error(f"log: a base of {base}")
        return _fold("*", "mul", NUMBER, (logarithm(x), scale))
    a, b = pair("log", x, base, FLOAT)
    return wrap(trace.emit("div", trace.emit("log", a), trace.emit("log", b)))


@operation("atan")
def arc_tangent(y: Any, x: Any = None) -> Tensor:
    """The arc tangent of y, or the angle of the point (x, y)."""
    if x is None:
        return wrap(TRACES[-1].emit("atan", floats("atan", y)))
    a, b = pair("atan", y, x, FLOAT)
    return wrap(TRACES[-1].emit("atan2", a, b))


@operation("mod", "rem")
def remainder(name: str, x: Any, y: Any) -> Tensor:
    """The remainder with the divisor's sign (mod) or the dividend's (rem)."""
    a, b = pair(name, x, y)
    return wrap(TRACES[-1].emit(name, a, b))


def _unary_operation(name: str, op: str, reader: Callable[..., Any]) -> None:
    @operation(name)
    def apply(x: Any) -> Tensor:
        return wrap(TRACES[-1].emit(op, reader(name, x, "the operand")))


for _name in ("exp", "sqrt", "sin", "cos", "tan", "asin", "acos", "sinh", "cosh", "tanh"):
    _unary_operation(_name, _name, floats)
for _name in ("asinh", "acosh", "atanh"):
    _unary_operation(_name, _name, floats)
_unary_operation("abs", "abs", numbers)
_unary_operation("signum", "sign", numbers)


# ---------------------------------------------------------------------------- no Lisp name


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _digamma(x: float) -> float:
    """Recurrence up to 10, then the asymptotic series (Abramowitz and Stegun 6.3.5, 6.3.18)."""
    if x <= 0:
        if x == math.floor(x):
            raise ValueError("a pole")
        return _digamma(1 - x) - math.pi / math.tan(math.pi * x)
    shift = 0.0
    while x < 10:
        shift -= 1 / x
        x += 1
    s = 1 / (x * x)
    series = s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s / 132))))
    return shift + math.log(x) - 0.5 / x - series


def _cbrt(x: float) -> float:
    return math.copysign(abs(x) ** (1 / 3), x)


def _function(name: str, op: str, number: Callable[[float], float], doc: str) -> None:
    def apply(x: Any) -> Any:
        if is_number(x):
            return _of_number(name, number, x)
        return wrap(TRACES[-1].emit(op, floats(name, x)))

    apply.__doc__ = doc
    tensor_function(name, "(x)", outside=True)(apply)


def _of_number(name: str, function: Callable[[float], float], x: Any) -> float:
    try:
        return function(float(x))
    except (ValueError, OverflowError, ZeroDivisionError):
        told = f"{name} of {brief(x)} is not a number that can be written"
        raise arithmetic_error(told) from None


_function("expm1", "expm1", math.expm1, "e to the x, less 1; precise near 0. Any shape, float.")
_function("log1p", "log1p", math.log1p, "log(1 + x); precise near 0. Any shape, float.")
_function("rsqrt", "rsqrt", lambda x: 1 / math.sqrt(x), "1 / sqrt(x). Any shape, float.")
_function("cbrt", "cbrt", _cbrt, "The real cube root. Any shape, float.")
_function("sigmoid", "sigmoid", _sigmoid, "1 / (1 + exp(-x)). Any shape, float.")
_function("erf", "erf", math.erf, "The error function 2/√π ∫₀ˣ exp(-t²) dt. Any shape, float.")
_function("erfc", "erfc", math.erfc, "1 - erf(x); precise for large x. Any shape, float.")
_function("lgamma", "lgamma", math.lgamma, "log |Γ(x)|; its derivative is digamma.")
_function("digamma", "digamma", _digamma, "The derivative of lgamma. Any shape, float.")
_function("softplus", "softplus", _softplus, "log(1 + exp(x)), without overflow.")


@tensor_function("relu", "(x)", outside=True)
def relu(x: Any) -> Any:
    """max(x, 0); its derivative at 0 is 0. Any shape; dtype kept."""
    if is_number(x):
        return x if x > 0 else 0.0 if isinstance(x, float) else 0
    return wrap(TRACES[-1].emit("relu", numbers("relu", x)))


@tensor_function("square", "(x)", outside=True)
def square(x: Any) -> Any:
    """x * x. Any shape; dtype kept."""
    if is_number(x):
        return x * x
    value = numbers("square", x)
    return wrap(TRACES[-1].emit("mul", value, value))


@tensor_function("reciprocal", "(x)", outside=True)
def reciprocal(x: Any) -> Any:
    """1 / x. Any shape; integers give f32."""
    if is_number(x):
        return ordinary("/", Fraction(1) if isinstance(x, Fraction) else 1, x)
    value = floats("reciprocal", x)
    trace = TRACES[-1]
    return wrap(trace.emit("div", trace.full(1, value.type.shape, value.type.dtype), value))


@tensor_function("clip", "(x lo hi)", outside=True)
def clip(x: Any, lo: Any, hi: Any) -> Any:
    """x held between lo and hi: min(max(x, lo), hi). nil for a bound that is not there."""
    if lo is not NIL:
        x = _fold("max", "max", NUMBER, (x, lo))
    if hi is not NIL:
        x = _fold("min", "min", NUMBER, (x, hi))
    return x
