"""NumPy rules of sexpgpu/ops/reduce.py. 16-bit floats arrive as f32: they accumulate there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sexpgpu.lowering.interp.dtypes import I32, highest, is_float, lowest
from sexpgpu.lowering.interp.registry import evaluates


@evaluates("sum")
def _sum(x: np.ndarray, *, axes: tuple[int, ...]) -> np.ndarray:
    return np.sum(x, axis=axes, dtype=x.dtype)


@evaluates("mean")
def _mean(x: np.ndarray, *, axes: tuple[int, ...]) -> np.ndarray:
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    return np.sum(x, axis=axes, dtype=x.dtype) / x.dtype.type(count)


@evaluates("prod")
def _prod(x: np.ndarray, *, axes: tuple[int, ...]) -> np.ndarray:
    return np.prod(x, axis=axes, dtype=x.dtype)


@evaluates("max-reduce")
def _max(x: np.ndarray, *, axes: tuple[int, ...]) -> np.ndarray:
    return np.max(x, axis=axes, initial=lowest(x.dtype))


@evaluates("min-reduce")
def _min(x: np.ndarray, *, axes: tuple[int, ...]) -> np.ndarray:
    return np.min(x, axis=axes, initial=highest(x.dtype))


@evaluates("any")
def _any(x: np.ndarray, *, axes: tuple[int, ...]) -> np.ndarray:
    return np.any(x, axis=axes)


@evaluates("all")
def _all(x: np.ndarray, *, axes: tuple[int, ...]) -> np.ndarray:
    return np.all(x, axis=axes)


@evaluates("argmax")
def _argmax(x: np.ndarray, *, axis: int) -> np.ndarray:
    return np.argmax(x, axis=axis).astype(I32)


@evaluates("argmin")
def _argmin(x: np.ndarray, *, axis: int) -> np.ndarray:
    return np.argmin(x, axis=axis).astype(I32)


def _scan(function: Callable[..., np.ndarray], x: np.ndarray, axis: int, reverse: bool) -> Any:
    if not reverse:
        return function(x, axis=axis, dtype=x.dtype)
    return np.flip(function(np.flip(x, axis), axis=axis, dtype=x.dtype), axis)


@evaluates("cumsum")
def _cumsum(x: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
    return _scan(np.cumsum, x, axis, reverse)


@evaluates("cumprod")
def _cumprod(x: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
    return _scan(np.cumprod, x, axis, reverse)


@evaluates("cummax")
def _cummax(x: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
    return _scan(np.maximum.accumulate, x, axis, reverse)


def _shifted(x: np.ndarray, axes: int | tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The maximum over axes (kept; 0 where it is not finite) and x less it."""
    top = np.max(x, axis=axes, keepdims=True, initial=lowest(x.dtype))
    top = np.where(np.isfinite(top), top, x.dtype.type(0))
    return top, x - top


@evaluates("softmax")
def _softmax(x: np.ndarray, *, axis: int) -> np.ndarray:
    shifted = x - np.max(x, axis=axis, keepdims=True, initial=lowest(x.dtype))
    powers = np.exp(shifted)
    return powers / np.sum(powers, axis=axis, keepdims=True)


@evaluates("log-softmax")
def _log_softmax(x: np.ndarray, *, axis: int) -> np.ndarray:
    shifted = x - np.max(x, axis=axis, keepdims=True, initial=lowest(x.dtype))
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


@evaluates("logsumexp")
def _logsumexp(x: np.ndarray, *, axes: tuple[int, ...]) -> np.ndarray:
    assert is_float(x.dtype)
    top, shifted = _shifted(x, axes)
    return np.log(np.sum(np.exp(shifted), axis=axes)) + np.squeeze(top, axis=axes)
