"""NumPy rules of sexpgpu/ops/index.py.

One rule for indices out of range (below 0, or not below the extent): gathers give NaN (the
maximum of an integer dtype, true for bools), scatters drop. Dynamic slices clamp their starts.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sexpgpu.lowering.interp.dtypes import out_of_range_value
from sexpgpu.lowering.interp.registry import evaluates


def _checked(ids: np.ndarray, extent: int) -> tuple[np.ndarray, np.ndarray]:
    """Which ids are in range, and ids usable for indexing (0 where not)."""
    inside = (ids >= 0) & (ids < extent)
    return inside, np.where(inside, ids, 0).astype(np.int64)


@evaluates("take", raw=True)
def _take(x: np.ndarray, ids: np.ndarray, *, axis: int) -> np.ndarray:
    inside, at = _checked(ids, x.shape[axis])
    if x.shape[axis] == 0:
        shape = x.shape[:axis] + ids.shape + x.shape[axis + 1 :]
        return np.full(shape, out_of_range_value(x.dtype))
    out = np.take(x, at, axis=axis)
    if inside.all():
        return out
    mask = inside.reshape([1] * axis + list(ids.shape) + [1] * (x.ndim - axis - 1))
    return np.where(mask, out, out_of_range_value(x.dtype))


@evaluates("take-add")
def _take_add(x: np.ndarray, ids: np.ndarray, values: np.ndarray, *, axis: int) -> np.ndarray:
    inside, at = _checked(ids, x.shape[axis])
    out = np.moveaxis(x, axis, 0).copy()
    rows = np.moveaxis(values, range(axis, axis + ids.ndim), range(ids.ndim))
    np.add.at(out, at[inside], rows[inside])
    return np.moveaxis(out, 0, axis)


@evaluates("take-along", raw=True)
def _take_along(x: np.ndarray, ids: np.ndarray, *, axis: int) -> np.ndarray:
    if x.shape[axis] == 0:
        return np.full(ids.shape, out_of_range_value(x.dtype))
    inside, at = _checked(ids, x.shape[axis])
    out = np.take_along_axis(x, at, axis=axis)
    return out if inside.all() else np.where(inside, out, out_of_range_value(x.dtype))


@evaluates("put-along-add")
def _put_along_add(x: np.ndarray, ids: np.ndarray, values: np.ndarray, *, axis: int) -> np.ndarray:
    inside, at = _checked(ids, x.shape[axis])
    places = list(np.nonzero(inside))
    places[axis] = at[inside]
    out = x.copy()
    np.add.at(out, tuple(places), values[inside])
    return out


def _gather_places(x: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Which index vectors are in range, and the index arrays of the first axes of x."""
    inside = np.ones(ids.shape[:-1], bool)
    for k in range(ids.shape[-1]):
        inside &= (ids[..., k] >= 0) & (ids[..., k] < x.shape[k])
    at = tuple(np.where(inside, ids[..., k], 0).astype(np.int64) for k in range(ids.shape[-1]))
    return inside, at


@evaluates("gather", raw=True)
def _gather(x: np.ndarray, ids: np.ndarray) -> np.ndarray:
    count = ids.shape[-1]
    inside, at = _gather_places(x, ids)
    fill = out_of_range_value(x.dtype)
    if 0 in x.shape[:count]:
        return np.full(ids.shape[:-1] + x.shape[count:], fill)
    mask = inside.reshape(inside.shape + (1,) * (x.ndim - count))
    return np.where(mask, x[at] if count else np.broadcast_to(x, inside.shape + x.shape), fill)


@evaluates("scatter", raw=True)
def _scatter(x: np.ndarray, ids: np.ndarray, values: np.ndarray) -> np.ndarray:
    if ids.shape[-1] == 0:  # no axis is indexed: each of the values is for all of x
        return values.reshape(-1, *x.shape)[-1] if values.size else x
    inside, at = _gather_places(x, ids)
    out = x.copy()
    out[tuple(a[inside] for a in at)] = values[inside]
    return out


@evaluates("scatter-add")
def _scatter_add(x: np.ndarray, ids: np.ndarray, values: np.ndarray) -> np.ndarray:
    if ids.shape[-1] == 0:
        whole = values.reshape(math.prod(ids.shape[:-1]), *x.shape)
        return x + np.sum(whole, axis=0, dtype=x.dtype)
    inside, at = _gather_places(x, ids)
    out = x.copy()
    np.add.at(out, tuple(a[inside] for a in at), values[inside])
    return out


def _clamped(x: np.ndarray, sizes: tuple[int, ...], starts: tuple[np.ndarray, ...]) -> Any:
    return tuple(
        slice(first := min(max(int(start), 0), extent - size), first + size)
        for start, size, extent in zip(starts, sizes, x.shape, strict=True)
    )


@evaluates("dynamic-slice", raw=True)
def _dynamic_slice(x: np.ndarray, *starts: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    return x[_clamped(x, sizes, starts)]


@evaluates("dynamic-update-slice", raw=True)
def _dynamic_update_slice(x: np.ndarray, y: np.ndarray, *starts: np.ndarray) -> np.ndarray:
    out = x.copy()
    out[_clamped(x, y.shape, starts)] = y
    return out
