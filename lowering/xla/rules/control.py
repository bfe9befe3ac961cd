"""lax rules of sexpgpu/ops/control.py."""

from __future__ import annotations

import jax
from jax import lax

from sexpgpu.ir.graph import Graph
from sexpgpu.lowering.xla.registry import Run, lowers


@lowers("scan", runs=True)
def _scan(
    run: Run,
    *operands: jax.Array,
    body: Graph,
    carries: int,
    sequences: int,
    length: int,
    reverse: bool,
) -> tuple[jax.Array, ...]:
    """One lax.scan; what is captured becomes its constants."""
    captured = operands[carries + sequences :]

    def step(
        carry: tuple[jax.Array, ...], x: tuple[jax.Array, ...]
    ) -> tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]:
        results = run(body, [*carry, *x, *captured])
        return tuple(results[:carries]), tuple(results[carries:])

    xs = operands[carries : carries + sequences]
    last, stacked = lax.scan(step, operands[:carries], xs, length=length, reverse=reverse)
    return (*last, *stacked)
