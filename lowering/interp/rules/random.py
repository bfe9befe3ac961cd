"""NumPy rules of sexpgpu/ops/random.py."""

from __future__ import annotations

import numpy as np

from sexpgpu.lowering.interp import threefry
from sexpgpu.lowering.interp.registry import evaluates


@evaluates("random-key", raw=True)
def _random_key(key: np.ndarray, *, name: str) -> np.ndarray:
    return threefry.fold(key, threefry.name_hash(name))


@evaluates("random-fold", raw=True)
def _random_fold(key: np.ndarray, integer: np.ndarray) -> np.ndarray:
    return threefry.fold(key, int(integer))


@evaluates("random-bits", raw=True)
def _random_bits(
    key: np.ndarray,
    offset: np.ndarray,
    *,
    shape: tuple[int, ...],
    batch: int | None,
    per_example: int,
) -> np.ndarray:
    return threefry.random_bits(key, int(offset), shape, batch, per_example)
