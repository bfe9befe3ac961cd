"""A step function traced by jax for a device, or for one that is only described."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from sexpgpu.ir.types import TensorType
from sexpgpu.lowering.backend import Tree
from sexpgpu.lowering.xla.dtypes import LAX
from sexpgpu.lowering.xla.engine import XlaEngine
from sexpgpu.lowering.xla.evaluate import Watch, opaque_true
from sexpgpu.lowering.xla.options import Lowering

ZERO = np.zeros((), np.int32)
"""The first argument of every traced function (see `opaque_true`)."""


def trace(
    function: Callable[..., Tree],
    examples: Sequence[Tree],
    donate: Sequence[int],
    lowering: Lowering,
    sharding: Any = None,
    *,
    watch: Watch | None = None,
    names: bool = True,
) -> jax.stages.Traced:
    """`function(engine, *trees)` for trees like the examples (arrays or TensorTypes), on the
    sharding's device (None: on none yet). Called with 64-bit dtypes enabled."""

    def traced(zero: jax.Array, *trees: Tree) -> Tree:
        pred = None if lowering.tuning is None else opaque_true(zero)
        chosen = lowering._replace(pred=pred, kept={})
        return function(XlaEngine(chosen, watch=watch, names=names), *trees)

    def abstract(leaf: Any) -> jax.ShapeDtypeStruct:
        dtype = LAX[leaf.dtype] if isinstance(leaf, TensorType) else np.dtype(leaf.dtype)
        return jax.ShapeDtypeStruct(leaf.shape, dtype, sharding=sharding)

    def is_type(leaf: Any) -> bool:
        return isinstance(leaf, TensorType)

    shapes = [jax.tree.map(abstract, tree, is_leaf=is_type) for tree in examples]
    jitted = jax.jit(traced, donate_argnums=tuple(i + 1 for i in donate))
    return jitted.trace(abstract(ZERO), *shapes)
