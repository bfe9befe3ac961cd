"""lax rules of sexpgpu/ops/reduce.py. 16-bit floats accumulate in f32 and are rounded once."""

from __future__ import annotations

import math

import jax
import numpy as np
from jax import lax

from sexpgpu.lowering.xla.dtypes import I32, value_of
from sexpgpu.lowering.xla.registry import lowers
from sexpgpu.lowering.xla.rules.elementwise import in_f32

Ints = tuple[int, ...]


@lowers("sum")
@in_f32
def _sum(x: jax.Array, *, axes: Ints) -> jax.Array:
    return lax.reduce_sum(x, axes)


@lowers("mean")
@in_f32
def _mean(x: jax.Array, *, axes: Ints) -> jax.Array:
    count = math.prod(x.shape[axis] for axis in axes)
    total = lax.reduce_sum(x, axes)
    return lax.div(total, lax.full_like(total, value_of(x, count)))


@lowers("prod")
@in_f32
def _prod(x: jax.Array, *, axes: Ints) -> jax.Array:
    return lax.reduce_prod(x, axes)


@lowers("max-reduce")
def _max(x: jax.Array, *, axes: Ints) -> jax.Array:
    return lax.reduce_max(x, axes)


@lowers("min-reduce")
def _min(x: jax.Array, *, axes: Ints) -> jax.Array:
    return lax.reduce_min(x, axes)


@lowers("any")
def _any(x: jax.Array, *, axes: Ints) -> jax.Array:
    return lax.reduce_or(x, axes)


@lowers("all")
def _all(x: jax.Array, *, axes: Ints) -> jax.Array:
    return lax.reduce_and(x, axes)


@lowers("argmax")
def _argmax(x: jax.Array, *, axis: int) -> jax.Array:
    return lax.argmax(x, axis, I32)


@lowers("argmin")
def _argmin(x: jax.Array, *, axis: int) -> jax.Array:
    return lax.argmin(x, axis, I32)


@lowers("cumsum")
@in_f32
def _cumsum(x: jax.Array, *, axis: int, reverse: bool) -> jax.Array:
    return lax.cumsum(x, axis, reverse)


@lowers("cumprod")
@in_f32
def _cumprod(x: jax.Array, *, axis: int, reverse: bool) -> jax.Array:
    return lax.cumprod(x, axis, reverse)


@lowers("cummax")
def _cummax(x: jax.Array, *, axis: int, reverse: bool) -> jax.Array:
    return lax.cummax(x, axis, reverse)


def _spread(x: jax.Array, like: jax.Array, axes: Ints) -> jax.Array:
    """A reduction's result put back over the axes it was taken over."""
    kept = tuple(axis for axis in range(like.ndim) if axis not in axes)
    return lax.broadcast_in_dim(x, like.shape, kept)


@lowers("softmax")
@in_f32
def _softmax(x: jax.Array, *, axis: int) -> jax.Array:
    powers = lax.exp(lax.sub(x, _spread(lax.reduce_max(x, (axis,)), x, (axis,))))
    return lax.div(powers, _spread(lax.reduce_sum(powers, (axis,)), x, (axis,)))


@lowers("log-softmax")
@in_f32
def _log_softmax(x: jax.Array, *, axis: int) -> jax.Array:
    shifted = lax.sub(x, _spread(lax.reduce_max(x, (axis,)), x, (axis,)))
    total = lax.log(lax.reduce_sum(lax.exp(shifted), (axis,)))
    return lax.sub(shifted, _spread(total, x, (axis,)))


@lowers("logsumexp")
@in_f32
def _logsumexp(x: jax.Array, *, axes: Ints) -> jax.Array:
    top = lax.reduce_max(x, axes)
    # all of -inf: shifted by 0, not by -inf, so that the sum is 0 and not NaN
    top = lax.select(lax.is_finite(top), top, lax.full_like(top, np.zeros((), x.dtype)))
    powers = lax.exp(lax.sub(x, _spread(top, x, axes)))
    return lax.add(lax.log(lax.reduce_sum(powers, axes)), top)
