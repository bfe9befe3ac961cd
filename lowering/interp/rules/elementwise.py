"""NumPy rules of sexpgpu/ops/elementwise.py. Functions that NumPy lacks are in `special`."""

from __future__ import annotations

from typing import Any

import numpy as np

from sexpgpu.lowering.interp import special
from sexpgpu.lowering.interp.blocks import blockwise
from sexpgpu.lowering.interp.dtypes import NUMPY, is_float, widen
from sexpgpu.lowering.interp.registry import evaluates

# ---- one float operand ---------------------------------------------------------------------
for _name, _function in {
    "neg": np.negative,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "cbrt": np.cbrt,
    "abs": np.abs,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,  # half to even
    "trunc": np.trunc,
    "is-finite": np.isfinite,
    "is-nan": np.isnan,
    "is-inf": np.isinf,
}.items():
    evaluates(_name)(_function)

for _name, _function in {
    "erf": special.erf,
    "erfc": special.erfc,
    "erf-inv": special.erf_inv,
    "lgamma": special.lgamma,
    "digamma": special.digamma,
}.items():
    evaluates(_name)(lambda x, _function=_function: blockwise(_function, x))


@evaluates("rsqrt")
def _rsqrt(x: np.ndarray) -> np.ndarray:
    return x.dtype.type(1) / np.sqrt(x)


@evaluates("sign")
def _sign(x: np.ndarray) -> np.ndarray:
    # NumPy drops the sign of a zero
    return np.where(x == 0, x, np.sign(x)) if is_float(x.dtype) else np.sign(x)


@evaluates("sigmoid")
def _sigmoid(x: np.ndarray) -> np.ndarray:
    one = x.dtype.type(1)
    return one / (one + np.exp(-x))


@evaluates("relu")
def _relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, x.dtype.type(0))


@evaluates("softplus")
def _softplus(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, x.dtype.type(0)) + np.log1p(np.exp(-np.abs(x)))


@evaluates("not")
def _not(x: np.ndarray) -> np.ndarray:
    return np.invert(x)  # of bools: logical


# ---- two operands --------------------------------------------------------------------------
for _name, _function in {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "pow": np.power,
    "atan2": np.arctan2,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}.items():
    evaluates(_name)(_function)


@evaluates("rem")
def _rem(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The remainder with the sign of x; of an integer by zero: x."""
    if is_float(x.dtype):
        return np.fmod(x, y)
    zero = y == 0
    return np.where(zero, x, np.fmod(x, np.where(zero, y.dtype.type(1), y)))


@evaluates("mod")
def _mod(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The remainder with the sign of y; of an integer by zero: x."""
    zero_value = x.dtype.type(0)
    remainder = _rem(x, y)
    # the definition spelled out: np.mod of infinities differs from it
    other_sign = (remainder != zero_value) & ((remainder < zero_value) != (y < zero_value))
    fixed = other_sign & (y != zero_value)
    return np.where(fixed, remainder + y, remainder)


def _bits(x: np.ndarray) -> int:
    return 8 * x.dtype.itemsize


@evaluates("shift-left")
def _shift_left(x: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Amounts outside [0, bits) shift everything out."""
    inside = (n >= 0) & (n < _bits(x))
    return np.where(inside, np.left_shift(x, np.where(inside, n, 0)), 0).astype(x.dtype)


@evaluates("shift-right")
def _shift_right(x: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Arithmetic for signed integers, logical for unsigned ones."""
    last = _bits(x) - 1
    inside = (n >= 0) & (n <= last)
    if x.dtype.kind == "i":
        return np.right_shift(x, np.where(inside, n, last).astype(x.dtype))
    return np.where(inside, np.right_shift(x, np.where(inside, n, 0)), 0).astype(x.dtype)


# ---- selection, dtypes ---------------------------------------------------------------------
@evaluates("select", raw=True)
def _select(test: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if test.size and not any(test.strides):  # one truth for all: the guard of an update
        return x if test.flat[0] else y
    return np.where(test, x, y)


@evaluates("cast", raw=True)
def _cast(x: np.ndarray, *, dtype: str) -> np.ndarray:
    """Floats become integers by truncation, NaN as 0 and the rest clamped to the range;
    integers wrap around; anything but zero is true."""
    target = NUMPY[dtype]
    if target.kind == "b":
        return widen(x) != 0
    if is_float(x.dtype) and not is_float(target):
        x = np.trunc(widen(x))
        info = np.iinfo(target)
        # the upper limit may round up to a float outside the range: compare with 2^bits exactly
        above = (
            x >= float(info.max) if info.bits < 64 else x >= float(2**info.bits >> (info.min < 0))
        )
        below = x <= float(info.min)
        inside = ~(above | below | np.isnan(x))
        value = np.where(inside, x, x.dtype.type(0)).astype(target)
        value = np.where(above, target.type(info.max), value)
        return np.where(below, target.type(info.min), value)
    if x.dtype == np.float64 and dtype == "bf16":
        x = _to_odd(x)
    return x.astype(target)


def _to_odd(x: np.ndarray) -> np.ndarray:
    """f64 as the f32 from which bf16 is rounded as from x itself: where that is not exact, of the
    two neighbours the one whose last bit is 1. ml_dtypes goes through the nearest f32."""
    near = np.asarray(x.astype(np.float32))
    back = near.astype(np.float64)
    bits = near.view(np.uint32) - (np.abs(back) > np.abs(x)).astype(np.uint32)
    return (bits | (back != x).astype(np.uint32)).view(np.float32)


@evaluates("bitcast", raw=True)
def _bitcast(x: np.ndarray, *, dtype: str) -> np.ndarray:
    return np.ascontiguousarray(x).view(NUMPY[dtype]).reshape(x.shape)


@evaluates("stop-gradient", raw=True)
def _stop_gradient(x: np.ndarray) -> np.ndarray:
    return x


@evaluates("boundary", raw=True)
def _boundary(x: np.ndarray, **_: Any) -> np.ndarray:
    return x
