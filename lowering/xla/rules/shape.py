"""lax rules of sexpgpu/ops/shape.py."""

from __future__ import annotations

import jax
from jax import lax

from sexpgpu.lowering.xla.dtypes import value_of
from sexpgpu.lowering.xla.registry import lowers

Ints = tuple[int, ...]


@lowers("reshape")
def _reshape(x: jax.Array, *, shape: Ints) -> jax.Array:
    return lax.reshape(x, shape)


@lowers("transpose")
def _transpose(x: jax.Array, *, perm: Ints) -> jax.Array:
    return lax.transpose(x, perm)


@lowers("broadcast")
def _broadcast(x: jax.Array, *, shape: Ints, dims: Ints) -> jax.Array:
    return lax.broadcast_in_dim(x, shape, dims)


@lowers("concat")
def _concat(*xs: jax.Array, axis: int) -> jax.Array:
    return lax.concatenate(xs, axis)


@lowers("slice")
def _slice(x: jax.Array, *, starts: Ints, limits: Ints, strides: Ints) -> jax.Array:
    return lax.slice(x, starts, limits, strides)


@lowers("pad")
def _pad(x: jax.Array, *, low: Ints, high: Ints, interior: Ints, value: float) -> jax.Array:
    return lax.pad(x, value_of(x, value), tuple(zip(low, high, interior, strict=True)))


@lowers("reverse")
def _reverse(x: jax.Array, *, axes: Ints) -> jax.Array:
    return lax.rev(x, axes)
