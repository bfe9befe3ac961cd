"""The interpreter as a backend: a step function runs as it is, on NumPy arrays."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from sexpgpu.ir.graph import Graph
from sexpgpu.ir.types import TensorType
from sexpgpu.lowering.backend import Array, Tree
from sexpgpu.lowering.interp import threefry
from sexpgpu.lowering.interp.dtypes import NUMPY
from sexpgpu.lowering.interp.evaluate import Plan, Watch, evaluate
from sexpgpu.lowering.memory import process_memory_peak
from sexpgpu.ops.totals import graph_cost


def map_tree(function: Callable[..., Any], tree: Tree, *rest: Tree) -> Tree:
    """Apply a function to the arrays of trees of one structure."""
    if isinstance(tree, Mapping):
        return {key: map_tree(function, tree[key], *(r[key] for r in rest)) for key in tree}
    if isinstance(tree, list | tuple):
        parts = [map_tree(function, *leaves) for leaves in zip(tree, *rest, strict=True)]
        return parts if isinstance(tree, list) else tuple(parts)
    return function(tree, *rest)


class InterpEngine:
    """Runs graphs at once. `watch` sees every node's results (see `evaluate`)."""

    def __init__(self, watch: Watch | None = None) -> None:
        self.watch = watch
        self.flops = 0
        self.bytes = 0
        self._plans: dict[Graph, Plan] = {}
        self._costs: dict[Graph, tuple[int, int]] = {}

    def call(self, graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
        plan = self._plans.get(graph)
        if plan is None:
            plan = self._plans[graph] = Plan(graph)
            self._costs[graph] = graph_cost(graph)
        flops, moved = self._costs[graph]
        self.flops += flops
        self.bytes += moved
        return evaluate(plan, inputs, self.watch)

    def call_often(self, graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
        return self.call(graph, inputs)

    def accumulate(
        self,
        body: Callable[[Tree, Array], dict[str, Array]],
        batch: Tree,
        n: int,
        example: Mapping[str, TensorType] | None = None,
    ) -> dict[str, Array]:
        totals, _ = self.fold_accumulate(
            lambda part, index, carry: (body(part, index), carry), (), batch, n, example
        )
        return totals

    def fold_accumulate(
        self,
        body: Callable[[Tree, Array, Tree], tuple[dict[str, Array], Tree]],
        carry: Tree,
        batch: Tree,
        n: int,
        example: Mapping[str, TensorType] | None = None,
    ) -> tuple[dict[str, Array], Tree]:
        totals: dict[str, Array] = {}
        for i in range(n):
            part = map_tree(lambda x, i=i: np.split(x, n)[i], batch)
            results, carry = body(part, np.asarray(i, np.int32), carry)
            # the sum starts at zero, as the loop on xla does
            totals = {
                name: self.add(totals[name], value) if i else self.add(np.zeros_like(value), value)
                for name, value in results.items()
            } if n > 1 else dict(results)  # fmt: skip
        return totals, carry

    def scan_steps(
        self, body: Callable[[Tree, Tree], tuple[Tree, Tree]], state: Tree, batches: Tree, k: int
    ) -> tuple[Tree, Tree]:
        outputs: list[Tree] = []
        for i in range(k):
            state, output = body(state, map_tree(lambda x, i=i: x[i], batches))
            outputs.append(output)
        return state, map_tree(lambda *xs: np.stack(xs), *outputs)

    def select(self, pred: Array, new: Tree, old: Tree) -> Tree:
        return map_tree(lambda a, b: a if pred else b, new, old)

    def settled(self, values: dict[str, Array]) -> dict[str, Array]:
        return values

    def scalar(self, value: float | int | bool, dtype: str) -> Array:
        return np.asarray(value).astype(NUMPY[dtype])

    def cast(self, x: Array, dtype: str) -> Array:
        return np.asarray(x).astype(NUMPY[dtype])

    def add(self, a: Array, b: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.add(a, b, dtype=np.asarray(a).dtype)

    def mul(self, a: Array, b: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.multiply(a, b, dtype=np.asarray(a).dtype)

    def div(self, a: Array, b: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.divide(a, b, dtype=np.asarray(a).dtype)

    def less(self, a: Array, b: Array) -> Array:
        return np.less(a, b)

    def logical_and(self, a: Array, b: Array) -> Array:
        return np.logical_and(a, b)

    def logical_not(self, a: Array) -> Array:
        return np.logical_not(a)

    def is_finite(self, x: Array) -> Array:
        return np.isfinite(x)

    def fold_key(self, key: Array, integer: Array | int) -> Array:
        return threefry.fold(key, int(integer))


class InterpCompiled:
    """A step function with its own interpreter. Nothing is compiled."""

    def __init__(self, function: Callable[..., Tree], engine: InterpEngine) -> None:
        self._function = function
        self._engine = engine
        self._cost: dict[str, float] | None = None
        self.seconds: Mapping[str, float] = {"trace": 0.0, "lower": 0.0, "compile": 0.0}

    def __call__(self, *trees: Tree) -> Tree:
        self._engine.flops = self._engine.bytes = 0
        results = self._function(self._engine, *trees)
        self._cost = {"flops": float(self._engine.flops), "bytes": float(self._engine.bytes)}
        return results

    def cost(self) -> dict[str, float] | None:
        return self._cost

    def memory(self) -> dict[str, int] | None:
        return None

    def text(self) -> str:
        return ""


class InterpBackend:
    """The NumPy evaluator. `watch` sees every node of every graph that runs."""

    name = "interp"
    profile = None

    def __init__(self, watch: Watch | None = None) -> None:
        self.watch = watch

    def compile(
        self,
        function: Callable[..., Tree],
        examples: Sequence[Tree],
        donate: Sequence[int] = (0,),
    ) -> InterpCompiled:
        return InterpCompiled(function, InterpEngine(self.watch))

    def put(self, tree: Tree) -> Tree:
        return map_tree(np.asarray, tree)

    def stage(self, tree: Tree) -> Tree:
        return tree

    def snapshot(self, tree: Tree) -> Callable[[], Tree]:
        return lambda: map_tree(np.asarray, tree)  # the evaluator never writes to an array

    def get(self, tree: Tree) -> Tree:
        return map_tree(np.asarray, tree)

    def block(self, tree: Tree) -> Tree:
        return tree

    def memory_peak(self) -> int | None:
        return process_memory_peak()

    def describe(self) -> dict[str, Any]:
        return {
            "device": "interp",
            "kind": platform.machine(),
            "count": 1,
            "numpy": np.__version__,
            "ml_dtypes": ml_dtypes.__version__,
        }
