"""lax rules of sexpgpu/ops/make.py."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import lax

from sexpgpu.lowering.xla.dtypes import LAX
from sexpgpu.lowering.xla.registry import lowers


@lowers("full")
def _full(*, shape: tuple[int, ...], value: float, dtype: str, **_: Any) -> jax.Array:
    return lax.full(shape, np.asarray(value).astype(LAX[dtype]), LAX[dtype])


@lowers("iota")
def _iota(*, shape: tuple[int, ...], axis: int, dtype: str, **_: Any) -> jax.Array:
    return lax.broadcasted_iota(LAX[dtype], shape, axis)


@lowers("literal")
def _literal(
    *, shape: tuple[int, ...], dtype: str, values: tuple[float, ...], **_: Any
) -> np.ndarray:
    return np.array(values, dtype=LAX[dtype]).reshape(shape)
