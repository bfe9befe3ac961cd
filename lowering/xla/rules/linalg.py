"""lax rules of sexpgpu/ops/linalg.py."""

from __future__ import annotations

import jax
import numpy as np
from jax import lax

from sexpgpu.lowering.xla.dtypes import F32, LAX, is_half
from sexpgpu.lowering.xla.options import PRECISION, Lowering
from sexpgpu.lowering.xla.registry import lowers

Ints = tuple[int, ...]


@lowers("dot", by_device=True)
def _dot(
    lowering: Lowering,
    a: jax.Array,
    b: jax.Array,
    *,
    a_contract: Ints,
    b_contract: Ints,
    a_batch: Ints,
    b_batch: Ints,
    accumulate: str | None,
    mode: str,
) -> jax.Array:
    """`mode` highest: products of f32 in full f32, also where the device would round its
    operands to TF32. 16-bit floats accumulate in f32 (in f64 where `accumulate` says so)."""
    dtype = a.dtype
    wide = F32 if is_half(a) else np.dtype(dtype)
    if accumulate == "f64":
        wide = LAX["f64"]
    if wide == LAX["f64"] or (is_half(a) and lowering.tuning and lowering.tuning.widen_halves):
        a, b = lax.convert_element_type(a, wide), lax.convert_element_type(b, wide)
    dimensions = ((a_contract, b_contract), (a_batch, b_batch))
    product = lax.dot_general(
        a, b, dimensions, precision=PRECISION[mode], preferred_element_type=wide
    )
    return lax.convert_element_type(product, dtype)
