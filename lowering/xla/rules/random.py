"""lax rules of sexpgpu/ops/random.py."""

from __future__ import annotations

import jax

from sexpgpu.lowering.xla import threefry
from sexpgpu.lowering.xla.registry import lowers


@lowers("random-key")
def _random_key(key: jax.Array, *, name: str) -> jax.Array:
    return threefry.fold(key, threefry.name_hash(name))


@lowers("random-fold")
def _random_fold(key: jax.Array, integer: jax.Array) -> jax.Array:
    return threefry.fold(key, integer)


@lowers("random-bits")
def _random_bits(
    key: jax.Array,
    offset: jax.Array,
    *,
    shape: tuple[int, ...],
    batch: int | None,
    per_example: int,
) -> jax.Array:
    return threefry.random_bits(key, offset, shape, batch, per_example)
