"""NumPy rules of sexpgpu/ops/conv.py.

Each is a loop over the positions of the kernel or window: for one position, the entries of x that
meet it are a strided slice of x with its borders filled in.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from sexpgpu.lowering.interp.dtypes import lowest
from sexpgpu.lowering.interp.registry import evaluates

Ints = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


def _bordered(x: np.ndarray, pads: Pairs, value: Any) -> np.ndarray:
    """x [B, ...spatial, C] with borders of `value`."""
    return np.pad(x, [(0, 0), *pads, (0, 0)], constant_values=value)


def _unbordered(x: np.ndarray, pads: Pairs, spatial: Ints) -> np.ndarray:
    """The transpose of `_bordered`: the border is dropped."""
    inner = [slice(low, low + n) for (low, _), n in zip(pads, spatial, strict=True)]
    return x[(slice(None), *inner, slice(None))]


def _positions(
    size: Ints, strides: Ints, dilation: Ints, out: Ints
) -> Iterator[tuple[Ints, tuple[slice, ...]]]:
    """Each position of the window, and the slice of a bordered array that it meets."""
    for position in itertools.product(*map(range, size)):
        at = tuple(
            slice(k * d, k * d + (n - 1) * s + 1, s) if n else slice(0, 0)
            for k, d, s, n in zip(position, dilation, strides, out, strict=True)
        )
        yield position, (slice(None), *at, slice(None))


def _extents(spatial: Ints, size: Ints, strides: Ints, pads: Pairs, dilation: Ints) -> Ints:
    return tuple(
        max(0, (n + low + high - (k - 1) * d - 1) // s + 1)
        for n, k, s, (low, high), d in zip(spatial, size, strides, pads, dilation, strict=True)
    )


def _grouped(x: np.ndarray, groups: int) -> np.ndarray:
    """[rows..., groups * n] as [groups, rows, n]."""
    rows = math.prod(x.shape[:-1])
    return np.moveaxis(x.reshape(rows, groups, x.shape[-1] // groups), 1, 0)


def _ungrouped(x: np.ndarray, lead: Ints) -> np.ndarray:
    """[groups, rows, n] as [lead..., groups * n]."""
    return np.moveaxis(x, 0, 1).reshape(*lead, x.shape[0] * x.shape[2])


def _accumulated(dtype: str | None, *xs: np.ndarray) -> list[np.ndarray]:
    """Operands in the dtype that their products are added in. `mode`, beside it, allows less
    precision than this on some devices."""
    return [x.astype(np.float64) if dtype == "f64" else x for x in xs]


@evaluates("conv")
def _conv(
    x: np.ndarray,
    w: np.ndarray,
    *,
    strides: Ints,
    pads: Pairs,
    dilation: Ints,
    groups: int,
    accumulate: str | None,
    mode: str,
) -> np.ndarray:
    """x [B, ...spatial, C], w [...spatial, C/groups, O] -> [B, ...spatial, O]."""
    dtype = x.dtype
    x, w = _accumulated(accumulate, x, w)
    size = w.shape[:-2]
    out = _extents(x.shape[1:-1], size, strides, pads, dilation)
    lead = (x.shape[0], *out)
    bordered = _bordered(x, pads, 0)
    total = np.zeros((groups, math.prod(lead), w.shape[-1] // groups), x.dtype)
    for position, at in _positions(size, strides, dilation, out):
        total += np.matmul(_grouped(bordered[at], groups), _grouped(w[position], groups))
    return _ungrouped(total, lead).astype(dtype, copy=False)


@evaluates("conv-input-grad")
def _conv_input_grad(
    dy: np.ndarray,
    w: np.ndarray,
    *,
    input_shape: Ints,
    strides: Ints,
    pads: Pairs,
    dilation: Ints,
    groups: int,
    accumulate: str | None,
    mode: str,
) -> np.ndarray:
    """The cotangent of conv's x: every product put back where its factor came from."""
    dtype = dy.dtype
    dy, w = _accumulated(accumulate, dy, w)
    size, out = w.shape[:-2], dy.shape[1:-1]
    spatial = input_shape[1:-1]
    extents = [n + low + high for n, (low, high) in zip(spatial, pads, strict=True)]
    dx = np.zeros((input_shape[0], *extents, input_shape[-1]), dy.dtype)
    rows = _grouped(dy, groups)
    for position, at in _positions(size, strides, dilation, out):
        part = np.matmul(rows, np.swapaxes(_grouped(w[position], groups), 1, 2))
        dx[at] += _ungrouped(part, dy.shape[:-1])
    return _unbordered(dx, pads, spatial).astype(dtype, copy=False)


@evaluates("conv-weight-grad")
def _conv_weight_grad(
    x: np.ndarray,
    dy: np.ndarray,
    *,
    filter_shape: Ints,
    strides: Ints,
    pads: Pairs,
    dilation: Ints,
    groups: int,
    accumulate: str | None,
    mode: str,
) -> np.ndarray:
    """The cotangent of conv's w."""
    dtype = x.dtype
    x, dy = _accumulated(accumulate, x, dy)
    size, out = filter_shape[:-2], dy.shape[1:-1]
    bordered = _bordered(x, pads, 0)
    rows = _grouped(dy, groups)
    dw = np.zeros(filter_shape, x.dtype)
    for position, at in _positions(size, strides, dilation, out):
        part = np.matmul(np.swapaxes(_grouped(bordered[at], groups), 1, 2), rows)
        dw[position] = _ungrouped(part, (filter_shape[-2],))
    return dw.astype(dtype, copy=False)


# ---- pooling -------------------------------------------------------------------------------
@evaluates("max-pool")
def _max_pool(x: np.ndarray, *, size: Ints, strides: Ints, pads: Pairs) -> np.ndarray:
    """The maximum of each window; a border never wins."""
    ones = (1,) * len(size)
    out = _extents(x.shape[1:-1], size, strides, pads, ones)
    bordered = _bordered(x, pads, lowest(x.dtype))
    y = np.full((x.shape[0], *out, x.shape[-1]), lowest(x.dtype))
    for _, at in _positions(size, strides, ones, out):
        y = np.maximum(y, bordered[at])
    return y


@evaluates("max-pool-grad")
def _max_pool_grad(
    x: np.ndarray, y: np.ndarray, dy: np.ndarray, *, size: Ints, strides: Ints, pads: Pairs
) -> np.ndarray:
    """dy shared equally among the entries of each window that equal its maximum y."""
    ones = (1,) * len(size)
    out = y.shape[1:-1]
    bordered = _bordered(x, pads, lowest(x.dtype))
    # a window of -inf alone ties with its border: the border's share is dropped
    ties = np.zeros(y.shape, dy.dtype)
    for _, at in _positions(size, strides, ones, out):
        ties += bordered[at] == y
    share = dy / np.maximum(ties, dy.dtype.type(1))
    dx = np.zeros(bordered.shape, dy.dtype)
    for _, at in _positions(size, strides, ones, out):
        dx[at] += np.where(bordered[at] == y, share, dy.dtype.type(0))
    return _unbordered(dx, pads, x.shape[1:-1])


def _window_counts(
    spatial: Ints, size: Ints, strides: Ints, pads: Pairs, count_pads: bool, dtype: np.dtype
) -> np.ndarray:
    """How many entries each window's mean is over, as [1, ...out, 1]."""
    ones = (1,) * len(size)
    out = _extents(spatial, size, strides, pads, ones)
    if count_pads:
        return np.full((1, *out, 1), math.prod(size), dtype)
    inside = _bordered(np.ones((1, *spatial, 1), dtype), pads, 0)
    counts = np.zeros((1, *out, 1), dtype)
    for _, at in _positions(size, strides, ones, out):
        counts += inside[at]
    return counts


@evaluates("avg-pool")
def _avg_pool(
    x: np.ndarray, *, size: Ints, strides: Ints, pads: Pairs, count_pads: bool
) -> np.ndarray:
    ones = (1,) * len(size)
    out = _extents(x.shape[1:-1], size, strides, pads, ones)
    bordered = _bordered(x, pads, 0)
    total = np.zeros((x.shape[0], *out, x.shape[-1]), x.dtype)
    for _, at in _positions(size, strides, ones, out):
        total += bordered[at]
    return total / _window_counts(x.shape[1:-1], size, strides, pads, count_pads, x.dtype)


@evaluates("avg-pool-grad")
def _avg_pool_grad(
    dy: np.ndarray,
    *,
    input_shape: Ints,
    size: Ints,
    strides: Ints,
    pads: Pairs,
    count_pads: bool,
) -> np.ndarray:
    spatial = input_shape[1:-1]
    ones = (1,) * len(size)
    share = dy / _window_counts(spatial, size, strides, pads, count_pads, dy.dtype)
    extents = [n + low + high for n, (low, high) in zip(spatial, pads, strict=True)]
    dx = np.zeros((input_shape[0], *extents, input_shape[-1]), dy.dtype)
    for _, at in _positions(size, strides, ones, dy.shape[1:-1]):
        dx[at] += share
    return _unbordered(dx, pads, spatial)
