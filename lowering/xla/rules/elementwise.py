"""lax rules of sexpgpu/ops/elementwise.py."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import lax

from sexpgpu.lowering.xla.dtypes import F32, LAX, is_float, is_half, value_of
from sexpgpu.lowering.xla.options import Lowering
from sexpgpu.lowering.xla.registry import RuleFunction, lowers


def _constant(x: jax.Array, number: float) -> jax.Array:
    return lax.full_like(x, value_of(x, number))


def in_f32(rule: RuleFunction) -> RuleFunction:
    """The rule on 16-bit floats: computed in f32, rounded once."""

    def wrapped(*operands: Any, **attrs: Any) -> Any:
        if not is_half(operands[0]):
            return rule(*operands, **attrs)
        wide = [lax.convert_element_type(x, F32) if is_half(x) else x for x in operands]
        return lax.convert_element_type(rule(*wide, **attrs), operands[0].dtype)

    return wrapped


# ---- exact in any dtype: XLA rounds each result once ---------------------------------------
for _name, _function in {
    "neg": lax.neg,
    "sign": lax.sign,
    "floor": lax.floor,
    "ceil": lax.ceil,
    "is-finite": lax.is_finite,
    "not": lax.bitwise_not,
    "add": lax.add,
    "sub": lax.sub,
    "mul": lax.mul,
    "div": lax.div,
    "max": lax.max,
    "min": lax.min,
    "and": lax.bitwise_and,
    "or": lax.bitwise_or,
    "xor": lax.bitwise_xor,
    "shift-left": lax.shift_left,
    "eq": lax.eq,
    "ne": lax.ne,
    "lt": lax.lt,
    "le": lax.le,
    "gt": lax.gt,
    "ge": lax.ge,
}.items():
    lowers(_name)(_function)

# ---- transcendental ------------------------------------------------------------------------
for _name, _function in {
    "exp": lax.exp,
    "expm1": lax.expm1,
    "log": lax.log,
    "sqrt": lax.sqrt,
    "rsqrt": lax.rsqrt,
    "cbrt": lax.cbrt,
    "sin": lax.sin,
    "cos": lax.cos,
    "tan": lax.tan,
    "asin": lax.asin,
    "acos": lax.acos,
    "atan": lax.atan,
    "tanh": lax.tanh,
    "asinh": lax.asinh,
    "acosh": lax.acosh,
    "sigmoid": lax.logistic,
    "erf": lax.erf,
    "erfc": lax.erfc,
    "lgamma": lax.lgamma,
    "atan2": lax.atan2,
}.items():
    lowers(_name)(in_f32(_function))


@lowers("abs")
def _abs(x: jax.Array) -> jax.Array:
    return x if np.dtype(x.dtype).kind == "u" else lax.abs(x)


@lowers("round")
def _round(x: jax.Array) -> jax.Array:
    return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)


@lowers("trunc")
def _trunc(x: jax.Array) -> jax.Array:
    return lax.select(lax.lt(x, _constant(x, 0)), lax.ceil(x), lax.floor(x))


@lowers("relu")
def _relu(x: jax.Array) -> jax.Array:
    return lax.max(x, _constant(x, 0))


@lowers("digamma")
@in_f32
def _digamma(x: jax.Array) -> jax.Array:
    """At its pole 0 some versions of lax give -inf, and NaN at all others."""
    zero = lax.eq(x, _constant(x, 0))
    return lax.select(zero, _constant(x, float("nan")), lax.digamma(x))


@lowers("log1p")
@in_f32
def _log1p(x: jax.Array) -> jax.Array:
    """In f64 XLA's polynomial is used beyond where it holds (127 ulp near -0.41); 1 + x is nearly
    exact there."""
    if x.dtype == F32:
        return lax.log1p(x)
    below = lax.lt(x, _constant(x, -0.29))
    return lax.select(below, lax.log(lax.add(x, _constant(x, 1))), lax.log1p(x))


@lowers("atanh")
@in_f32
def _atanh(x: jax.Array) -> jax.Array:
    if x.dtype == F32:
        return lax.atanh(x)
    return lax.mul(_constant(x, 0.5), lax.sub(_log1p(x), _log1p(lax.neg(x))))


def _half_of_exp(x: jax.Array) -> jax.Array:
    """exp(|x|) / 2, which is finite wherever sinh and cosh are. XLA's own exp(|x| - log 2) loses
    what the difference rounds away: 24 ulp in f32, 500 in f64."""
    root = lax.exp(lax.mul(lax.abs(x), _constant(x, 0.5)))
    return lax.mul(lax.mul(root, _constant(x, 0.5)), root)


@lowers("sinh")
@in_f32
def _sinh(x: jax.Array) -> jax.Array:
    size, one = lax.abs(x), _constant(x, 1)
    half = _half_of_exp(x)
    large = lax.sub(half, lax.div(_constant(x, 0.25), half))
    less = lax.expm1(size)  # (e^x - 1 + (e^x - 1) / e^x) / 2 keeps all digits near 0
    small = lax.mul(lax.add(less, lax.div(less, lax.add(less, one))), _constant(x, 0.5))
    return lax.mul(lax.sign(x), lax.select(lax.lt(size, one), small, large))


@lowers("cosh")
@in_f32
def _cosh(x: jax.Array) -> jax.Array:
    half = _half_of_exp(x)
    return lax.add(half, lax.div(_constant(x, 0.25), half))


@lowers("softplus")
@in_f32
def _softplus(x: jax.Array) -> jax.Array:
    tail = lax.log1p(lax.exp(lax.neg(lax.abs(x))))
    return lax.add(lax.max(x, _constant(x, 0)), tail)


@lowers("is-nan")
def _is_nan(x: jax.Array) -> jax.Array:
    return lax.ne(x, x)


@lowers("is-inf")
def _is_inf(x: jax.Array) -> jax.Array:
    return lax.eq(lax.abs(x), _constant(x, np.inf))


# M. Giles, "Approximating the erfinv function" (GPU Computing Gems, Jade edition, 2011), single
# precision: powers of w - 5/2 for w = -log(1 - x^2) < 5, of sqrt(w) - 3 beyond; highest first.
_ERF_INV = (
    (2.81022636e-08, -0.000200214257), (3.43273939e-07, 0.000100950558),
    (-3.5233877e-06, 0.00134934322), (-4.39150654e-06, -0.00367342844),
    (0.00021858087, 0.00573950773), (-0.00125372503, -0.0076224613),
    (-0.00417768164, 0.00943887047), (0.246640727, 1.00167406), (1.50140941, 2.83297682),
)  # fmt: skip


@lowers("erf-inv")
@in_f32
def _erf_inv(x: jax.Array) -> jax.Array:
    """In f32 our own polynomial, so that random normals do not change with XLA's."""
    if x.dtype != F32:
        return lax.erf_inv(x)
    # not (1 - x)(1 + x): XLA would join these with the additions that made x, and round
    w = lax.neg(lax.log1p(lax.neg(lax.mul(x, x))))
    centre = lax.lt(w, _constant(w, 5))

    def choose(pair: tuple[float, float]) -> jax.Array:
        return lax.select(centre, _constant(w, pair[0]), _constant(w, pair[1]))

    at = lax.select(centre, lax.sub(w, _constant(w, 2.5)), lax.sub(lax.sqrt(w), _constant(w, 3)))
    value = choose(_ERF_INV[0])
    for pair in _ERF_INV[1:]:
        value = lax.add(choose(pair), lax.mul(value, at))
    end = lax.eq(lax.abs(x), _constant(x, 1))
    return lax.select(end, lax.mul(lax.sign(x), _constant(x, np.inf)), lax.mul(value, x))


@lowers("pow")
@in_f32
def _pow(x: jax.Array, y: jax.Array) -> jax.Array:
    return lax.pow(x, y)


@lowers("rem")
@in_f32
def _rem(x: jax.Array, y: jax.Array) -> jax.Array:
    return lax.rem(x, y)


@lowers("mod")
@in_f32
def _mod(x: jax.Array, y: jax.Array) -> jax.Array:
    """The remainder with the sign of y."""
    zero = _constant(x, 0)
    remainder = lax.rem(x, y)
    other_sign = lax.ne(lax.lt(remainder, zero), lax.lt(y, zero))
    fix = lax.bitwise_and(lax.bitwise_and(lax.ne(remainder, zero), other_sign), lax.ne(y, zero))
    return lax.select(fix, lax.add(remainder, y), remainder)


@lowers("shift-right")
def _shift_right(x: jax.Array, n: jax.Array) -> jax.Array:
    if np.dtype(x.dtype).kind == "i":
        return lax.shift_right_arithmetic(x, n)
    return lax.shift_right_logical(x, n)


@lowers("select")
def _select(test: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    return lax.select(test, x, y)


def _to_odd(x: jax.Array) -> jax.Array:
    """f64 as the f32 from which a 16-bit float is rounded as from x itself: where it is not exact,
    of the two neighbours the one whose last bit is 1 (Boldo and Melquiond, 2008). XLA goes through
    the nearest f32, and so rounds twice."""
    near = lax.convert_element_type(x, F32)
    back = lax.convert_element_type(near, x.dtype)
    bits = lax.bitcast_convert_type(near, LAX["u32"])
    beyond = lax.convert_element_type(lax.gt(lax.abs(back), lax.abs(x)), LAX["u32"])
    inexact = lax.convert_element_type(lax.ne(back, x), LAX["u32"])
    return lax.bitcast_convert_type(lax.bitwise_or(lax.sub(bits, beyond), inexact), F32)


@lowers("cast")
def _cast(x: jax.Array, *, dtype: str) -> jax.Array:
    """NaN becomes integer 0 and floats outside the range are clamped, on every device."""
    target = LAX[dtype]
    if x.dtype == np.float64 and dtype in ("bf16", "f16"):
        return lax.convert_element_type(_to_odd(x), target)
    if not is_float(x) or target.kind not in "iu":
        return lax.convert_element_type(x, target)
    if is_half(x):
        x = lax.convert_element_type(x, F32)
    info = np.iinfo(target)
    # where the dtype of x cannot hold the maximum, it rounds up to a power of 2: as good
    above = lax.ge(x, _constant(x, float(info.max)))
    below = lax.le(x, _constant(x, float(info.min)))
    odd = lax.bitwise_or(lax.bitwise_or(above, below), lax.ne(x, x))
    value = lax.convert_element_type(lax.select(odd, _constant(x, 0), x), target)
    value = lax.select(above, lax.full_like(value, info.max), value)
    return lax.select(below, lax.full_like(value, info.min), value)


@lowers("bitcast")
def _bitcast(x: jax.Array, *, dtype: str) -> jax.Array:
    return lax.bitcast_convert_type(x, LAX[dtype])


@lowers("stop-gradient")
def _stop_gradient(x: jax.Array) -> jax.Array:
    return x


@lowers("boundary", by_device=True)
def _boundary(lowering: Lowering, x: jax.Array, *, key: str) -> jax.Array:
    """The identity; in the backward pass (the key ends in ') one that XLA:CPU cannot see through,
    where its fusion has to stop."""
    tuning = lowering.tuning
    if tuning is None or not tuning.fence or not key.endswith("'") or lowering.pred is None:
        return x
    return lax.cond(lowering.pred, lambda value: value, lax.neg, x)
