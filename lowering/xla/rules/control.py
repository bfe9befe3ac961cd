"""lax rules of sexpgpu/ops/control.py."""

from __future__ import annotations

from typing import Any

import jax
from jax import lax

from sexpgpu.ir.graph import Graph
from sexpgpu.lowering.xla.options import Lowering
from sexpgpu.lowering.xla.registry import Run, lowers

Arrays = tuple[jax.Array, ...]


@lowers("scan", runs=True)
def _scan(
    run: Run,
    *operands: jax.Array,
    body: Graph,
    carries: int,
    sequences: int,
    length: int,
    reverse: bool,
) -> Arrays:
    """One lax.scan; what is captured becomes its constants."""
    captured = operands[carries + sequences :]

    def step(carry: Arrays, x: Arrays) -> tuple[Arrays, Arrays]:
        results = run(body, [*carry, *x, *captured])
        return tuple(results[:carries]), tuple(results[carries:])

    xs = operands[carries : carries + sequences]
    last, stacked = lax.scan(step, operands[:carries], xs, length=length, reverse=reverse)
    return (*last, *stacked)


@lowers("recompute", runs=True)
def _recompute(run: Run, *operands: jax.Array, body: Graph, arguments: int, again: bool) -> Arrays:
    """The body's operations. Those that run again begin from operands that XLA cannot know to be
    those of the first run: else it would share the two and keep what the first one gave."""
    given = _apart(run.lowering, operands, arguments) if again else operands
    return tuple(run(body, given))


def _apart(lowering: Lowering, operands: Arrays, arguments: int) -> Arrays:
    """The operands behind a barrier, which opens when all of them are there. XLA:CPU drops
    barriers before it shares operations: there the arguments pass through a conditional, at the
    price of a copy."""
    tuning = lowering.tuning
    if tuning is None or not tuning.fence or lowering.pred is None:
        return tuple(lax.optimization_barrier(operands))
    if not arguments:
        return operands
    passed = lax.cond(
        lowering.pred,
        lambda *xs: xs,
        lambda *xs: tuple([lax.full_like(x, 0) for x in xs]),
        *operands[:arguments],
    )
    return (*passed, *operands[arguments:])


@lowers("custom-vjp")
def _custom_vjp(*operands: jax.Array, results: int, **_: Any) -> Arrays:
    return operands[:results]
