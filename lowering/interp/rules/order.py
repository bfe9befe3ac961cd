"""NumPy rules of sexpgpu/ops/order.py."""

from __future__ import annotations

import numpy as np

from sexpgpu.lowering.interp.dtypes import I32, is_float
from sexpgpu.lowering.interp.registry import evaluates


def _reversed_order(x: np.ndarray) -> np.ndarray:
    """Numbers in the opposite order, NaN still NaN. The complement, as the least integer has no
    negative."""
    return -x if is_float(x.dtype) else ~x


def _taken(x: np.ndarray, places: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    return np.take_along_axis(x, places, axis), places.astype(I32)


@evaluates("sort")
def _sort(x: np.ndarray, *, axis: int, descending: bool) -> tuple[np.ndarray, np.ndarray]:
    """NumPy's own stable sort has NaN last."""
    keys = _reversed_order(x) if descending else x
    return _taken(x, np.argsort(keys, axis, kind="stable"), axis)


@evaluates("top-k")
def _top_k(x: np.ndarray, *, k: int) -> tuple[np.ndarray, np.ndarray]:
    keys = _reversed_order(x)
    if is_float(x.dtype):
        # the NaN first: what is not NaN, sorted, then whether it is
        by_value = np.argsort(keys, -1, kind="stable")
        numbers = np.take_along_axis(~np.isnan(x), by_value, -1)
        first = np.argsort(numbers, -1, kind="stable")
        places = np.take_along_axis(by_value, first, -1)
    else:
        places = np.argsort(keys, -1, kind="stable")
    return _taken(x, places[..., :k], -1)


@evaluates("searchsorted")
def _searchsorted(edges: np.ndarray, x: np.ndarray, *, side: str) -> np.ndarray:
    how = "left" if side == "left" else "right"
    if edges.ndim == 1:
        return np.asarray(np.searchsorted(edges, x, how)).astype(I32)
    found = np.zeros(x.shape, I32)
    for row in np.ndindex(x.shape[:-1]):
        found[row] = np.searchsorted(edges[row], x[row], how)
    return found
