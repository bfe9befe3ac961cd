"""NumPy rules of sexpgpu/ops/make.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from sexpgpu.lowering.interp.dtypes import NUMPY
from sexpgpu.lowering.interp.registry import evaluates


@evaluates("full", raw=True)
def _full(*, shape: tuple[int, ...], value: float, dtype: str, **_: Any) -> np.ndarray:
    # broadcast: a constant of any shape costs one element
    return np.broadcast_to(np.asarray(value).astype(NUMPY[dtype]), shape)


@evaluates("iota", raw=True)
def _iota(*, shape: tuple[int, ...], axis: int, dtype: str, **_: Any) -> np.ndarray:
    line = np.arange(shape[axis]).astype(NUMPY[dtype])
    return np.broadcast_to(line.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)


@evaluates("literal", raw=True)
def _literal(
    *, shape: tuple[int, ...], dtype: str, values: tuple[float, ...], **_: Any
) -> np.ndarray:
    return np.array(values, dtype=NUMPY[dtype]).reshape(shape)
