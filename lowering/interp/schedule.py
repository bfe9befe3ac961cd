"""A graph of the step evaluated at many steps: what a schedule gives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sexpgpu.ir.graph import Graph
from sexpgpu.lowering.interp.dtypes import NUMPY
from sexpgpu.lowering.interp.evaluate import Plan, evaluate


def at_steps(graph: Graph, steps: Sequence[int], last: int | None) -> dict[str, list[float]]:
    """The scalar outputs by name at each step; `last` is the run's number of steps."""
    plan = Plan(graph)
    found: dict[str, list[float]] = {name: [] for name in graph.outputs}
    for step in steps:
        progress = step / last if last else 0.0
        given = {"ctx/step": step, "ctx/steps": last or 0, "ctx/progress": progress}
        inputs = {n: np.asarray(given[n], NUMPY[v.dtype]) for n, v in graph.inputs.items()}
        for name, value in evaluate(plan, inputs).items():
            found[name].append(float(value))
    return found
