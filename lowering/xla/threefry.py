"""Threefry-2x32 with 20 rounds, in plain lax operations that fuse with what uses the bits."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np
from jax import lax

from sexpgpu.lowering.xla.dtypes import LAX, U32

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def _word(value: int) -> np.ndarray:
    return np.asarray(value & 0xFFFFFFFF, U32)


def _like(scalar: jax.Array, x: jax.Array) -> jax.Array:
    return lax.broadcast_in_dim(scalar, x.shape, ())


def _rotate(x: jax.Array, by: int) -> jax.Array:
    left = lax.shift_left(x, lax.full_like(x, _word(by)))
    return lax.bitwise_or(left, lax.shift_right_logical(x, lax.full_like(x, _word(32 - by))))


@jax.jit  # traced once for each shape, however many draws: XLA inlines the calls again
def threefry2x32(key: jax.Array, x0: jax.Array, x1: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The two u32 words of each counter (x0, x1) under a u32[2] key."""
    k0 = lax.reshape(lax.slice(key, (0,), (1,)), ())
    k1 = lax.reshape(lax.slice(key, (1,), (2,)), ())
    k2 = lax.bitwise_xor(lax.bitwise_xor(k0, k1), _word(0x1BD11BDA))
    keys = (k0, k1, k2)
    x0 = lax.add(x0, _like(k0, x0))
    x1 = lax.add(x1, _like(k1, x1))
    for i in range(5):
        for rotation in _ROTATIONS[i % 2]:
            x0 = lax.add(x0, x1)
            x1 = lax.bitwise_xor(_rotate(x1, rotation), x0)
        x0 = lax.add(x0, _like(keys[(i + 1) % 3], x0))
        x1 = lax.add(x1, _like(lax.add(keys[(i + 2) % 3], _word(i + 1)), x1))
    return x0, x1


def fold(key: jax.Array, integer: Any) -> jax.Array:
    """A new u32[2] key: the words of the counter (0, the integer's low 32 bits)."""
    if isinstance(integer, int):
        integer = _word(integer)
    low = lax.reshape(lax.convert_element_type(integer, U32), (1,))
    x0, x1 = threefry2x32(key, lax.full_like(low, _word(0)), low)
    return lax.concatenate((x0, x1), 0)


def name_hash(name: str) -> int:
    """FNV-1a, 32 bits, of the name's UTF-8."""
    value = 2166136261
    for byte in name.encode():
        value = ((value ^ byte) * 16777619) % (1 << 32)
    return value


def random_bits(
    key: jax.Array, offset: jax.Array, shape: tuple[int, ...], batch: int | None, per_example: int
) -> jax.Array:
    """u32 bits of a draw; the counters are those that `interp` documents."""
    if batch is None:
        if math.prod(shape) < 1 << 32:
            low = _row_major(shape, range(len(shape)), U32)
            high = lax.full_like(low, _word(0))
        else:
            wide = _row_major(shape, range(len(shape)), LAX["u64"])
            low = lax.convert_element_type(wide, U32)
            shift = lax.full_like(wide, np.asarray(32, LAX["u64"]))
            high = lax.convert_element_type(lax.shift_right_logical(wide, shift), U32)
        x0, x1 = threefry2x32(key, high, low)
        return lax.bitwise_xor(x0, x1)
    place = lax.broadcasted_iota(U32, shape, batch)
    first = lax.mul(lax.convert_element_type(offset, U32), _word(per_example))
    rest = [axis for axis in range(len(shape)) if axis != batch]
    x0, x1 = threefry2x32(key, lax.add(place, _like(first, place)), _row_major(shape, rest, U32))
    return lax.bitwise_xor(x0, x1)


def _row_major(shape: tuple[int, ...], axes: Any, dtype: np.dtype) -> jax.Array:
    """Each element's row-major index over some of the axes."""
    index = lax.full(shape, 0, dtype)
    stride = 1
    for axis in reversed(axes):
        if shape[axis] > 1:
            line = lax.broadcasted_iota(dtype, shape, axis)
            step = np.asarray(stride & 0xFFFFFFFF if dtype == U32 else stride, dtype)
            index = lax.add(index, lax.mul(line, lax.full_like(line, step)))
        stride *= shape[axis]
    return index
