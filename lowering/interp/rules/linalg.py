"""NumPy rules of sexpgpu/ops/linalg.py."""

from __future__ import annotations

import math

import numpy as np

from sexpgpu.lowering.interp.registry import evaluates

Ints = tuple[int, ...]


@evaluates("dot")
def _dot(
    a: np.ndarray,
    b: np.ndarray,
    *,
    a_contract: Ints,
    b_contract: Ints,
    a_batch: Ints,
    b_batch: Ints,
    accumulate: str | None,
    mode: str,
) -> np.ndarray:
    """Contract paired axes; the result has the batch axes, then a's free ones, then b's.

    Both operands are brought to [batch, rows, columns] and multiplied there. `mode` allows less
    precision than this on some devices.
    """
    a_free = [i for i in range(a.ndim) if i not in a_contract and i not in a_batch]
    b_free = [i for i in range(b.ndim) if i not in b_contract and i not in b_batch]
    batch = [a.shape[i] for i in a_batch]
    rows = [a.shape[i] for i in a_free]
    columns = [b.shape[i] for i in b_free]
    inner = math.prod(a.shape[i] for i in a_contract)
    dtype = a.dtype
    if accumulate == "f64":
        a, b = a.astype(np.float64), b.astype(np.float64)
    left = np.transpose(a, (*a_batch, *a_free, *a_contract))
    right = np.transpose(b, (*b_batch, *b_contract, *b_free))
    product = np.matmul(
        left.reshape(math.prod(batch), math.prod(rows), inner),
        right.reshape(math.prod(batch), inner, math.prod(columns)),
    )
    return product.reshape((*batch, *rows, *columns)).astype(dtype, copy=False)
