"""lax rules of sexpgpu/ops/index.py: out of range, gathers fill and scatters drop."""

from __future__ import annotations

import jax
import numpy as np
from jax import lax

from sexpgpu.lowering.xla.dtypes import F32, I32, is_half, out_of_range_value, value_of
from sexpgpu.lowering.xla.registry import lowers

Ints = tuple[int, ...]
_MODE = lax.GatherScatterMode.FILL_OR_DROP  # below 0 is out of range, too


def _signed(ids: jax.Array) -> jax.Array:
    """Ids as i32. One that i32 does not hold becomes -1 or 2^31 - 1, so it stays out of range:
    lax narrows 64-bit ids itself, by wrapping around, before it compares them."""
    info = np.iinfo(ids.dtype)
    least = np.asarray(max(info.min, -1), ids.dtype)
    most = np.asarray(min(info.max, 2**31 - 1), ids.dtype)
    if info.bits > 32 or info.max > most:
        ids = lax.clamp(least, ids, most)
    return lax.convert_element_type(ids, I32)


def _vectors(ids: jax.Array) -> jax.Array:
    """Ids [...] as index vectors [..., 1]."""
    return lax.expand_dims(_signed(ids), (ids.ndim,))


def _filled(shape: Ints, x: jax.Array) -> jax.Array:
    return lax.full(shape, out_of_range_value(x), x.dtype)


def _pick(
    x: jax.Array, ids: jax.Array, numbers: lax.GatherDimensionNumbers, sizes: Ints
) -> jax.Array:
    return lax.gather(x, ids, numbers, sizes, mode=_MODE, fill_value=out_of_range_value(x).item())


def _add_rows(
    x: jax.Array, ids: jax.Array, values: jax.Array, numbers: lax.ScatterDimensionNumbers
) -> jax.Array:
    """Scatter-add, in f32 for 16-bit floats."""
    if not is_half(x):
        return lax.scatter_add(x, ids, values, numbers, mode=_MODE)
    wide = lax.scatter_add(
        lax.convert_element_type(x, F32),
        ids,
        lax.convert_element_type(values, F32),
        numbers,
        mode=_MODE,
    )
    return lax.convert_element_type(wide, x.dtype)


@lowers("take")
def _take(x: jax.Array, ids: jax.Array, *, axis: int) -> jax.Array:
    shape = x.shape[:axis] + ids.shape + x.shape[axis + 1 :]
    if x.shape[axis] == 0:
        return _filled(shape, x)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(*range(axis), *range(axis + ids.ndim, len(shape))),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
    )
    return _pick(x, _vectors(ids), numbers, (*x.shape[:axis], 1, *x.shape[axis + 1 :]))


@lowers("take-add")
def _take_add(x: jax.Array, ids: jax.Array, values: jax.Array, *, axis: int) -> jax.Array:
    if x.size == 0 or ids.size == 0:
        return x
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=(*range(axis), *range(axis + ids.ndim, values.ndim)),
        inserted_window_dims=(axis,),
        scatter_dims_to_operand_dims=(axis,),
    )
    return _add_rows(x, _vectors(ids), values, numbers)


@lowers("take-along")
def _take_along(x: jax.Array, ids: jax.Array, *, axis: int) -> jax.Array:
    if x.shape[axis] == 0 or ids.size == 0:
        return _filled(ids.shape, x)
    others = tuple(i for i in range(x.ndim) if i != axis)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        operand_batching_dims=others,
        start_indices_batching_dims=others,
    )
    return _pick(x, _vectors(ids), numbers, (1,) * x.ndim)


@lowers("put-along-add")
def _put_along_add(x: jax.Array, ids: jax.Array, values: jax.Array, *, axis: int) -> jax.Array:
    if x.size == 0 or ids.size == 0:
        return x
    if ids.shape[axis] == 1:
        return _put_one(x, _signed(ids), values, axis)
    others = tuple(i for i in range(x.ndim) if i != axis)
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=(),
        inserted_window_dims=(axis,),
        scatter_dims_to_operand_dims=(axis,),
        operand_batching_dims=others,
        scatter_indices_batching_dims=others,
    )
    return _add_rows(x, _vectors(ids), values, numbers)


def _put_one(x: jax.Array, ids: jax.Array, values: jax.Array, axis: int) -> jax.Array:
    """One place a line (the gradient of a cross entropy): compared with every place, which
    fuses with what comes before and after; a scatter would do one element at a time."""
    others = tuple(i for i in range(x.ndim) if i != axis)

    def spread(line: jax.Array) -> jax.Array:
        flat = lax.squeeze(line, (axis,))
        return lax.broadcast_in_dim(flat, x.shape, others)

    here = lax.eq(lax.broadcasted_iota(ids.dtype, x.shape, axis), spread(ids))
    zero = lax.full_like(x, value_of(x, 0))
    return lax.add(x, lax.select(here, spread(values), zero))


def _leading(x: jax.Array, ids: jax.Array) -> tuple[int, Ints, Ints]:
    """How many axes are indexed, the shape of the index vectors, and the axes of a window."""
    count = ids.shape[-1]
    lead = ids.shape[:-1]
    return count, lead, tuple(range(len(lead), len(lead) + x.ndim - count))


@lowers("gather")
def _gather(x: jax.Array, ids: jax.Array) -> jax.Array:
    count, lead, window = _leading(x, ids)
    if 0 in x.shape[:count]:
        return _filled(lead + x.shape[count:], x)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=window,
        collapsed_slice_dims=tuple(range(count)),
        start_index_map=tuple(range(count)),
    )
    return _pick(x, _signed(ids), numbers, (1,) * count + x.shape[count:])


def _leading_numbers(x: jax.Array, ids: jax.Array) -> lax.ScatterDimensionNumbers:
    count, _, window = _leading(x, ids)
    return lax.ScatterDimensionNumbers(
        update_window_dims=window,
        inserted_window_dims=tuple(range(count)),
        scatter_dims_to_operand_dims=tuple(range(count)),
    )


@lowers("scatter")
def _scatter(x: jax.Array, ids: jax.Array, values: jax.Array) -> jax.Array:
    if x.size == 0 or values.size == 0:
        return x
    if ids.shape[-1] == 0:  # no axis is indexed: each of the values is for all of x
        return values.reshape(-1, *x.shape)[-1]
    return lax.scatter(x, _signed(ids), values, _leading_numbers(x, ids), mode=_MODE)


@lowers("scatter-add")
def _scatter_add(x: jax.Array, ids: jax.Array, values: jax.Array) -> jax.Array:
    if x.size == 0 or values.size == 0:
        return x
    if ids.shape[-1] == 0:
        every = lax.concatenate([x[None], values.reshape(-1, *x.shape)], 0)
        wide = every.astype(F32) if is_half(x) else every
        return lax.reduce_sum(wide, (0,)).astype(x.dtype)
    return _add_rows(x, _signed(ids), values, _leading_numbers(x, ids))


def _starts(starts: tuple[jax.Array, ...]) -> list[jax.Array]:
    """Starts of one dtype, as XLA wants them; it clamps them to the extents itself."""
    return [_signed(start) for start in starts]


@lowers("dynamic-slice")
def _dynamic_slice(x: jax.Array, *starts: jax.Array, sizes: Ints) -> jax.Array:
    return lax.dynamic_slice(x, _starts(starts), sizes, allow_negative_indices=False)


@lowers("dynamic-update-slice")
def _dynamic_update_slice(x: jax.Array, y: jax.Array, *starts: jax.Array) -> jax.Array:
    return lax.dynamic_update_slice(x, y, _starts(starts), allow_negative_indices=False)
