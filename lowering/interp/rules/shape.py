"""NumPy rules of sexpgpu/ops/shape.py. They only move values, so 16-bit floats stay as they are."""

from __future__ import annotations

import numpy as np

from sexpgpu.lowering.interp.registry import evaluates

Ints = tuple[int, ...]


@evaluates("reshape", raw=True)
def _reshape(x: np.ndarray, *, shape: Ints) -> np.ndarray:
    return np.reshape(x, shape)


@evaluates("transpose", raw=True)
def _transpose(x: np.ndarray, *, perm: Ints) -> np.ndarray:
    return np.transpose(x, perm)


@evaluates("broadcast", raw=True)
def _broadcast(x: np.ndarray, *, shape: Ints, dims: Ints) -> np.ndarray:
    """`dims[i]` is the axis of the result that axis i of x becomes."""
    aligned = [1] * len(shape)
    for extent, axis in zip(x.shape, dims, strict=True):
        aligned[axis] = extent
    return np.broadcast_to(x.reshape(aligned), shape)


@evaluates("concat", raw=True)
def _concat(*xs: np.ndarray, axis: int) -> np.ndarray:
    return np.concatenate(xs, axis=axis)


@evaluates("slice", raw=True)
def _slice(x: np.ndarray, *, starts: Ints, limits: Ints, strides: Ints) -> np.ndarray:
    return x[tuple(map(slice, starts, limits, strides))]


@evaluates("pad", raw=True)
def _pad(x: np.ndarray, *, low: Ints, high: Ints, interior: Ints, value: float) -> np.ndarray:
    """`interior` values between neighbours, then `low` and `high` ones at the ends; negative
    low and high cut off."""
    spread = [max(n + (n - 1) * gap, 0) for n, gap in zip(x.shape, interior, strict=True)]
    out = np.full(
        [n + a + b for n, a, b in zip(spread, low, high, strict=True)], value, dtype=x.dtype
    )
    source: list[slice] = []
    target: list[slice] = []
    for count, before, gap, extent in zip(x.shape, low, interior, out.shape, strict=True):
        step = gap + 1
        # element j of x stands at before + j*step: keep those within the result
        first = max(0, -(before // step)) if before < 0 else 0
        last = min(count, -(-(extent - before) // step))
        last = max(first, last)
        source.append(slice(first, last))
        target.append(slice(before + first * step, before + last * step, step))
    if all(s.stop > s.start for s in source):
        out[tuple(target)] = x[tuple(source)]
    return out


@evaluates("reverse", raw=True)
def _reverse(x: np.ndarray, *, axes: Ints) -> np.ndarray:
    return np.flip(x, axes)
