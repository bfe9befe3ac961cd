"""Runs a graph node by node on NumPy arrays, freeing each value after its last use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from sexpgpu.ir.graph import Graph, Node, Value
from sexpgpu.ir.types import TensorType
from sexpgpu.lowering.interp.dtypes import NUMPY, widen
from sexpgpu.lowering.interp.registry import RULES
from sexpgpu.lowering.interp.rules import elementwise as _all_rules  # noqa: F401

# Called after each node with its results: finds the first that is not finite, or compares.
Watch: TypeAlias = Callable[[Node, tuple[np.ndarray, ...]], None]


class Plan:
    """A graph with, for each node, the values that nothing after it needs."""

    __slots__ = ("dying", "graph")

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        last: dict[Value, int] = {}
        for i, node in enumerate(graph.nodes):
            for value in (*node.results, *node.operands):
                last[value] = i
        for value in graph.outputs.values():
            last.pop(value, None)
        self.dying: list[list[Value]] = [[] for _ in graph.nodes]
        for value, i in last.items():
            self.dying[i].append(value)


def evaluate(
    plan: Plan, inputs: Mapping[str, np.ndarray], watch: Watch | None = None
) -> dict[str, np.ndarray]:
    """The graph's outputs. Inputs it does not have are ignored; a missing one is a KeyError."""
    graph = plan.graph
    results = run(plan, [inputs[name] for name in graph.inputs], watch)
    return dict(zip(graph.outputs, results, strict=True))


def run(plan: Plan, inputs: Sequence[np.ndarray], watch: Watch | None = None) -> list[np.ndarray]:
    """The graph's outputs in order, for inputs in order."""
    graph = plan.graph
    env: dict[Value, np.ndarray] = {}
    for (name, value), given in zip(graph.inputs.items(), inputs, strict=True):
        env[value] = _checked(given, value.type, f"input {name}")
    with np.errstate(all="ignore"):  # infinities and NaN are values like others
        for node, dying in zip(graph.nodes, plan.dying, strict=True):
            results = apply(node, tuple([env[value] for value in node.operands]))
            env.update(zip(node.results, results, strict=True))
            if watch is not None:
                watch(node, results)
            for value in dying:
                del env[value]
    return [env[value] for value in graph.outputs.values()]


_plan_of_body = lru_cache(maxsize=512)(Plan)


def _run_body(graph: Graph, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """A graph that a node has as an attribute. What happens in it is not watched: its values are
    those of one iteration, of which there may be many."""
    return run(_plan_of_body(graph), inputs)


def apply(node: Node, operands: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """One node's results, in the dtypes that were inferred for them."""
    rule = RULES[node.op]
    if rule.runs:
        results = rule.function(_run_body, *operands, **node.attrs)
    elif rule.raw:
        results = rule.function(*operands, **node.attrs)
    else:
        results = rule.function(*map(widen, operands), **node.attrs)
    if not isinstance(results, tuple):
        results = (results,)
    return tuple(
        _checked(_rounded(np.asarray(result), value.type), value.type, node.op)
        for result, value in zip(results, node.results, strict=True)
    )


def _rounded(x: np.ndarray, type: TensorType) -> np.ndarray:
    """What was computed in f32 for a 16-bit float, rounded to it."""
    if type.dtype in ("bf16", "f16") and x.dtype == np.float32:
        return x.astype(NUMPY[type.dtype])
    return x


def _checked(x: np.ndarray, type: TensorType, what: str) -> np.ndarray:
    if x.shape != type.shape or x.dtype != NUMPY[type.dtype]:
        raise TypeError(f"{what}: {type} was inferred, NumPy has {x.dtype} {x.shape}")
    return x
