"""NumPy rules of sexpgpu/ops/control.py: plain loops and calls."""

from __future__ import annotations

from typing import Any

import numpy as np

from sexpgpu.ir.graph import Graph
from sexpgpu.lowering.interp.dtypes import NUMPY
from sexpgpu.lowering.interp.registry import Run, evaluates


@evaluates("scan", raw=True, runs=True)
def _scan(
    run: Run,
    *operands: np.ndarray,
    body: Graph,
    carries: int,
    sequences: int,
    length: int,
    reverse: bool,
) -> tuple[np.ndarray, ...]:
    carry = list(operands[:carries])
    xs = operands[carries : carries + sequences]
    captured = operands[carries + sequences :]
    elements = list(body.outputs.values())[carries:]
    stacks = [np.empty((length, *v.shape), NUMPY[v.dtype]) for v in elements]
    for i in reversed(range(length)) if reverse else range(length):
        results = run(body, [*carry, *[np.asarray(x[i]) for x in xs], *captured])
        carry = results[:carries]
        for stack, y in zip(stacks, results[carries:], strict=True):
            stack[i] = y
    return (*carry, *stacks)


@evaluates("recompute", raw=True, runs=True)
def _recompute(
    run: Run, *operands: np.ndarray, body: Graph, arguments: int, again: bool
) -> tuple[np.ndarray, ...]:
    return tuple(run(body, operands))


@evaluates("custom-vjp", raw=True)
def _custom_vjp(*operands: np.ndarray, results: int, **_: Any) -> tuple[np.ndarray, ...]:
    return operands[:results]
