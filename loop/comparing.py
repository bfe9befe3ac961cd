"""One graph on two backends with the same numbers: its outputs, and node by node.

`Comparing` is the NumPy evaluator that runs every graph on another device as well, *on the same
inputs*, so that no difference is carried on and grows. Where outputs differ beyond tolerance, the
graph's nodes are compared one by one, each on the evaluator's operands: the first that differs is
to blame.

A difference is measured against the largest magnitude of its tensor; of a sum, against that of
the sum of the terms' magnitudes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from sexpgpu.diagnostics.codes.tensor import E_NUM_002
from sexpgpu.diagnostics.model import Diagnostic, Note, located
from sexpgpu.ir.graph import Graph, Node, Value
from sexpgpu.lowering.backend import Array, Backend, Compiled
from sexpgpu.lowering.interp.backend import InterpEngine
from sexpgpu.lowering.interp.dtypes import is_float, widen
from sexpgpu.lowering.interp.evaluate import Plan, apply, evaluate
from sexpgpu.passes.autodiff import NOTE as GRADIENT

TOLERANCE = {"f32": 1e-5, "bf16": 3e-2, "f16": 3e-2}
"""Of a graph's outputs, by the run's precision, as a share of the tensor's largest magnitude."""

_OF_NODE = {"f32": 1e-5, "f64": 1e-12, "bf16": 2.0**-7, "f16": 2.0**-10}  # of one op, by dtype
_GRADIENT_FLOOR = 1e-3  # a gradient that vanishes is known to within the others'
_BATCH_BYTES = 1 << 27  # operands and results of nodes that are compared in one compilation
_SUMS = frozenset(
    {
        "dot", "sum", "mean", "cumsum", "conv", "conv-input-grad", "conv-weight-grad", "avg-pool",
        "avg-pool-grad", "take-add", "put-along-add", "scatter-add",
    }
)  # fmt: skip


class NodeError(NamedTuple):
    """How far a node's result is from the evaluator's, on equal operands."""

    graph: str
    index: int
    node: Node
    error: float
    tolerance: float

    @property
    def direction(self) -> str:
        """forward or backward"""
        return "backward" if self.node.origin.note.startswith(GRADIENT) else "forward"

    def to_json(self) -> dict[str, Any]:
        span = self.node.origin.user_span
        return {
            "graph": self.graph,
            "node": self.index,
            "op": self.node.op,
            "type": str(self.node.results[0].type),
            "direction": self.direction,
            "path": self.node.origin.path,
            "file": None if span is None else span.source.name,
            "line": None if span is None else span.line,
            "error": _number(self.error),
            "tolerance": self.tolerance,
        }


class OutputError(NamedTuple):
    """How far an output of a graph is from the evaluator's, on equal inputs. `step`: of training;
    of a pass the number of the batch."""

    step: int
    graph: str
    output: str
    error: float
    tolerance: float

    @property
    def place(self) -> str:
        """`step 2`, `batch 0`"""
        of_batch = self.graph.startswith(("eval/", "predict"))
        return f"{'batch' if of_batch else 'step'} {self.step}"

    def to_json(self) -> dict[str, Any]:
        return {**self._asdict(), "error": _number(self.error)}


class Crosscheck:
    """What was compared. `worst`: of each graph's outputs the one nearest to, or beyond, its
    tolerance; `differences`: all beyond it; `first`: the first node to blame; `nodes`: every node,
    where they were asked for."""

    def __init__(self, device: str, steps: int) -> None:
        self.device = device
        self.steps = steps
        self.calls: dict[str, int] = {}
        self.worst: dict[str, OutputError] = {}
        self.differences: list[OutputError] = []
        self.nodes: list[NodeError] = []
        self.first: NodeError | None = None

    @property
    def agrees(self) -> bool:
        return not self.differences and self.first is None

    def to_json(self) -> dict[str, Any]:
        return {
            "agrees": self.agrees,
            "device": self.device,
            "reference": "interp",
            "steps": self.steps,
            "graphs": [
                {"calls": self.calls[graph], **worst.to_json()}
                for graph, worst in self.worst.items()
            ],
            "differences": [d.to_json() for d in self.differences],
            "first": None if self.first is None else self.first.to_json(),
            "nodes": [n.to_json() for n in self.nodes],
        }

    def diagnostic(self) -> Diagnostic | None:
        """E-NUM-002 with the place of the first difference; None where the two agree."""
        if self.agrees:
            return None
        notes: list[Note] = []
        labels: Any = ()
        headline = f"{self.device} and interp differ"
        if self.first is not None:
            found = self.first
            what = f"{found.node.op}, {found.direction}: {_share(found.error, found.tolerance)}"
            labels, notes = located(found.node.origin, what)
            headline += f": node {found.index} of {found.graph}, {what}"
        notes += [
            Note(f"{d.place}: {d.output} of {d.graph}, {_share(d.error, d.tolerance)}")
            for d in self.differences[:4]
        ]
        if self.first is None:
            first = self.differences[0]
            headline += f": {first.output} of {first.graph}, {_share(first.error, first.tolerance)}"
            notes.append(Note("no node alone differs: small differences have added up"))
        return Diagnostic(E_NUM_002, headline, labels, notes)

    def __repr__(self) -> str:
        found = "agree" if self.agrees else "differ"
        return f"<crosscheck: {self.device} and interp {found} over {self.steps} steps>"


class Comparing(InterpEngine):
    """Runs graphs by NumPy, and each on the device as well."""

    def __init__(self, backend: Backend, result: Crosscheck, limit: float, by_node: bool) -> None:
        super().__init__()
        self.backend = backend
        self.result = result
        self.limit = limit
        self.by_node = by_node
        self.step = 0
        self._programs: dict[Graph, Compiled] = {}
        self._looked_at: set[Graph] = set()

    def call(self, graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
        given = {name: np.asarray(inputs[name]) for name in graph.inputs}
        wanted = evaluate(Plan(graph), given)
        got = self._on_device(graph, given)
        self.result.calls[graph.name] = self.result.calls.get(graph.name, 0) + 1
        differs = self._compare(graph, got, wanted)
        if (
            self.by_node or (differs and self.result.first is None)
        ) and graph not in self._looked_at:
            self._looked_at.add(graph)
            self._by_node(graph, given)
        return wanted

    def _on_device(self, graph: Graph, given: Mapping[str, Array]) -> dict[str, Array]:
        program = self._programs.get(graph)
        if program is None:
            program = self._programs[graph] = self.backend.compile(
                lambda engine, inputs: engine.call(graph, inputs), [given], ()
            )
        return self.backend.get(program(self.backend.put(given)))

    def _compare(self, graph: Graph, got: Mapping[str, Array], wanted: Mapping[str, Array]) -> bool:
        floor = _GRADIENT_FLOOR * max(
            [_largest(x) for name, x in wanted.items() if name.startswith("grad/")], default=0.0
        )
        differs = False
        for name, want in wanted.items():
            scale = max(_largest(want), floor if name.startswith("grad/") else 0.0)
            found = OutputError(
                self.step, graph.name, name, _apart(got[name], want, scale), self.limit
            )
            worst = self.result.worst.get(graph.name)
            if worst is None or not found.error <= worst.error:
                self.result.worst[graph.name] = found
            if not found.error <= found.tolerance:
                differs = True
                self.result.differences.append(found)
        return differs

    # -- node by node -----------------------------------------------------------------------

    def _by_node(self, graph: Graph, given: Mapping[str, Array]) -> None:
        """Each node on the evaluator's operands, in an order of execution."""
        env: dict[Value, np.ndarray] = {v: given[name] for name, v in graph.inputs.items()}
        waiting: list[tuple[int, Node, tuple[Any, ...], tuple[Any, ...]]] = []
        size = 0
        with np.errstate(all="ignore"):
            for i, (node, dying) in enumerate(zip(graph.nodes, Plan(graph).dying, strict=True)):
                operands = tuple([env[value] for value in node.operands])
                results = apply(node, operands)
                env.update(zip(node.results, results, strict=True))
                waiting.append((i, node, operands, results))
                size += sum(x.nbytes for x in (*operands, *results))
                for value in dying:
                    del env[value]
                if size > _BATCH_BYTES or i + 1 == len(graph.nodes):
                    self._compare_nodes(graph, waiting)
                    waiting, size = [], 0

    def _compare_nodes(self, graph: Graph, waiting: list[Any]) -> None:
        nodes = [node for _, node, _, _ in waiting]
        operands = [list(given) for _, _, given, _ in waiting]

        def alone(engine: Any, operands: Any) -> Any:
            return [
                list(engine.apply(node, tuple(given)))
                for node, given in zip(nodes, operands, strict=True)
            ]

        program = self.backend.compile(alone, [operands], ())
        got = self.backend.get(program(self.backend.put(operands)))
        for (i, node, given, results), found in zip(waiting, got, strict=True):
            error = NodeError(graph.name, i, node, 0.0, 0.0)
            for value, have, want in zip(node.results, found, results, strict=True):
                limit = _OF_NODE.get(value.dtype, 0.0)
                apart = _apart(have, want, _scale(node, given, results))
                if not apart <= error.error or not error.tolerance:
                    error = error._replace(error=apart, tolerance=limit)
            if self.by_node:
                self.result.nodes.append(error)
            if self.result.first is None and not error.error <= error.tolerance:
                self.result.first = error


def _scale(node: Node, operands: Any, results: Any) -> float:
    """The magnitude that a node's error is measured against."""
    if node.op in _SUMS and is_float(results[0].dtype):
        sizes = tuple(np.abs(x) if is_float(x.dtype) else x for x in operands)
        results = apply(node, sizes)
    return max(_largest(x) for x in results)


def _largest(x: Array) -> float:
    """The largest finite magnitude."""
    x = widen(np.asarray(x))
    if not is_float(x.dtype):
        return 1.0
    return float(np.max(np.abs(x), initial=0.0, where=np.isfinite(x)))


def _apart(got: Array, want: Array, scale: float) -> float:
    """The largest difference as a share of `scale`; infinite where one of the two is not finite,
    or where integers or bools are not the same."""
    got, want = widen(np.asarray(got)), widen(np.asarray(want))
    if got.shape != want.shape or got.dtype != want.dtype:
        return float("inf")
    if not is_float(want.dtype):
        return 0.0 if np.array_equal(got, want) else float("inf")
    ill = ~np.isfinite(want)
    if not np.array_equal(got[ill], want[ill], equal_nan=True) or not np.isfinite(got[~ill]).all():
        return float("inf")
    largest = float(np.max(np.abs(got[~ill] - want[~ill]), initial=0.0))
    # XLA:CPU flushes subnormal numbers to zero, NumPy does not
    return largest / max(scale, float(np.finfo(want.dtype).tiny) * 1e3)


def _share(error: float, tolerance: float) -> str:
    if error == float("inf"):
        return "other values altogether"
    return f"apart by {error:.1e} of the largest, allowed {tolerance:.1e}"


def _number(x: float) -> float | str:
    return x if np.isfinite(x) else "inf"
