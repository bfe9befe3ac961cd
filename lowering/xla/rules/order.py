"""lax rules of sexpgpu/ops/order.py.

XLA:CPU sorts several operands, or floats, with a comparison that it calls back: five times slower
than one operand of integers. There, elements of up to 32 bits are packed with their places into
64-bit integers, all different, whose order is the stable one.
"""

from __future__ import annotations

import jax
import numpy as np
from jax import lax

from sexpgpu.lowering.xla.dtypes import F32, I32, LAX, is_float, is_half, value_of
from sexpgpu.lowering.xla.options import Lowering
from sexpgpu.lowering.xla.registry import lowers

_I64, _U32 = LAX["i64"], LAX["u32"]


def _reversed_order(x: jax.Array) -> jax.Array:
    """Numbers in the opposite order, NaN still NaN."""
    return lax.neg(x) if is_float(x) else lax.bitwise_not(x)


def _wide(x: jax.Array) -> jax.Array:
    """16-bit floats as f32, and narrow integers as 32-bit ones: the same order."""
    if is_half(x):
        return lax.convert_element_type(x, F32)
    if not is_float(x) and x.dtype.itemsize < 4:
        return lax.convert_element_type(x, I32)
    return x


def _integers(x: jax.Array) -> jax.Array:
    """i64 that i32 holds, in the order of numbers of 32 bits: 0 and -0 are equal, and every NaN is
    above all."""
    if x.dtype == _U32:
        wide = lax.convert_element_type(x, _I64)
        return lax.sub(wide, lax.full_like(wide, 1 << 31))
    if not is_float(x):
        return lax.convert_element_type(x, _I64)
    x = lax.select(lax.eq(x, lax.full_like(x, value_of(x, 0))), lax.full_like(x, 0), x)
    x = lax.select(lax.ne(x, x), lax.full_like(x, value_of(x, np.nan)), x)
    bits = lax.bitcast_convert_type(x, I32)
    # a negative float's magnitude grows with its bits
    flipped = lax.bitwise_xor(bits, lax.full_like(bits, np.iinfo(np.int32).max))
    ordered = lax.select(lax.lt(bits, lax.full_like(bits, 0)), flipped, bits)
    return lax.convert_element_type(ordered, _I64)


def _places(x: jax.Array, axis: int, packed: bool) -> jax.Array:
    """Where the elements in increasing order stood, i32; equal ones in the order they had."""
    x = _wide(x)
    index = lax.broadcasted_iota(I32, x.shape, axis)
    if not packed or x.dtype.itemsize > 4:
        return lax.sort((x, index), dimension=axis, num_keys=1, is_stable=True)[1]
    high = lax.shift_left(_integers(x), lax.full(x.shape, 32, _I64))
    both = lax.bitwise_or(high, lax.convert_element_type(index, _I64))
    ordered = lax.sort(both, dimension=axis, is_stable=False)
    low = lax.bitwise_and(ordered, lax.full_like(ordered, np.int64(0x7FFFFFFF)))
    return lax.convert_element_type(low, I32)


def along(x: jax.Array, places: jax.Array, axis: int) -> jax.Array:
    """x at places along an axis, all in range."""
    if places.size == 0:
        return lax.full(places.shape, value_of(x, 0), x.dtype)
    others = tuple(i for i in range(x.ndim) if i != axis)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        operand_batching_dims=others,
        start_indices_batching_dims=others,
    )
    index = lax.expand_dims(places, (places.ndim,))
    sizes = (1,) * x.ndim
    return lax.gather(x, index, numbers, sizes, mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS)


@lowers("sort", by_device=True)
def _sort(
    lowering: Lowering, x: jax.Array, *, axis: int, descending: bool
) -> tuple[jax.Array, jax.Array]:
    tuning = lowering.tuning
    keys = _reversed_order(x) if descending else x
    places = _places(keys, axis, tuning is not None and tuning.packed_sort)
    return along(x, places, axis), places


@lowers("top-k")
def _top_k(x: jax.Array, *, k: int) -> tuple[jax.Array, jax.Array]:
    """lax.top_k of keys whose zeros have one sign, as have their NaN."""
    keys = _wide(x)
    if is_float(keys):
        zero = lax.full_like(keys, value_of(keys, 0))
        keys = lax.select(lax.eq(keys, zero), zero, keys)
        keys = lax.select(lax.ne(keys, keys), lax.full_like(keys, value_of(keys, np.nan)), keys)
    if k == 0 or x.size == 0:
        places = lax.full((*x.shape[:-1], k), np.int32(0), I32)
    else:
        places = lax.top_k(keys, k)[1]
    return along(x, places, x.ndim - 1), places


def _is_before(a: jax.Array, b: jax.Array, or_equal: bool) -> jax.Array:
    """a < b (or a <= b), NaN above all."""
    if not is_float(a):
        return lax.le(a, b) if or_equal else lax.lt(a, b)
    a_nan, b_nan = lax.ne(a, a), lax.ne(b, b)
    if or_equal:
        return lax.bitwise_or(lax.le(a, b), b_nan)
    return lax.bitwise_or(lax.lt(a, b), lax.bitwise_and(b_nan, lax.bitwise_not(a_nan)))


@lowers("searchsorted")
def _searchsorted(edges: jax.Array, x: jax.Array, *, side: str) -> jax.Array:
    """By bisection: `low` counts edges known to be before x, and each round asks whether the edge
    `step` further is, too."""
    edges, x = _wide(edges), _wide(x)
    rows, shape = edges.ndim > 1, x.shape
    if not rows:
        x = lax.reshape(x, (x.size,))
    extent = edges.shape[-1]
    low = lax.full(x.shape, np.int32(0), I32)
    if extent == 0 or x.size == 0:
        return lax.full(shape, np.int32(0), I32)
    step = 1 << (extent.bit_length() - 1)
    while step:
        tried = lax.add(low, lax.full_like(low, np.int32(step)))
        place = lax.sub(lax.min(tried, lax.full_like(low, np.int32(extent))), lax.full_like(low, 1))
        edge = along(edges, place, edges.ndim - 1)
        fits = lax.le(tried, lax.full_like(low, np.int32(extent)))
        taken = lax.bitwise_and(fits, _is_before(edge, x, side == "right"))
        low = lax.select(taken, tried, low)
        step >>= 1
    return lax.reshape(low, shape)
