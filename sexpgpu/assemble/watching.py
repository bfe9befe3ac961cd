"""The diagnostics of a run that were selected, as graphs beside those that train.

A diagnostic that is not selected is dead code of its graph: the document and the executable are
those of a file without it. The selected ones of a graph G are the outputs of `G/diagnostics`.
"""

from __future__ import annotations

from collections.abc import Iterable

from sexpgpu.assemble.graphs import GraphStore
from sexpgpu.diagnostics.codes.data import W_METRIC_001
from sexpgpu.diagnostics.model import Diagnostic, Label
from sexpgpu.diagnostics.suggest import did_you_mean
from sexpgpu.ir.document import DIAGNOSTICS, Metric
from sexpgpu.ir.document import Diagnostics as Selection
from sexpgpu.ir.graph import Graph, Value
from sexpgpu.ir.paths import is_selected
from sexpgpu.ir.types import SCALAR_F32
from sexpgpu.ops import new_builder
from sexpgpu.ops.reducers import GRAD, HOW, PARAM, STATE, parts
from sexpgpu.passes.pipeline import closed, optimized
from sexpgpu.source import Span
from sexpgpu.trace.context import Trace


class Watched:
    """What the selection takes of each graph, and what is on offer."""

    __slots__ = ("metrics", "of_updates", "offered", "select", "store")

    def __init__(self, selection: Selection | None, store: GraphStore) -> None:
        self.select = [] if selection is None else selection.select
        self.store = store
        self.metrics: dict[str, list[Metric]] = {}
        self.offered: list[str] = []
        self.of_updates: dict[str, list[str]] = {}  # update graph -> the names of its diagnostics

    def add(self, trace: Trace, graph: str, precision: str) -> None:
        """Make `GRAPH/diagnostics` of what was noted on a trace and is selected."""
        names = _names(trace)
        self.offered += names
        chosen = [name for name in names if is_selected(name, self.select)]
        if chosen:
            made = optimized(self._traced(trace, graph, chosen), precision)
            self.store.add(Graph(graph + DIAGNOSTICS, made.inputs, made.nodes, made.outputs))

    def add_update(self, trace: Trace, graph: str) -> None:
        """The same for an update. Several parameters may share it, so all that it notes is taken
        where anything is selected; the loop picks those of the selected paths."""
        names = self.of_updates[graph] = _names(trace)
        if names and self.select and graph + DIAGNOSTICS not in self.store.graphs:
            made = closed(self._traced(trace, graph, names))
            self.store.add(Graph(graph + DIAGNOSTICS, made.inputs, made.nodes, made.outputs))

    def offer_update(self, graph: str, path: str) -> None:
        """The diagnostics of an update are on offer for one more parameter."""
        self.offered += [f"optim/{path}/{name}" for name in self.of_updates[graph]]

    def _traced(self, trace: Trace, graph: str, chosen: Iterable[str]) -> Graph:
        outputs: dict[str, Value] = {}
        records: list[Metric] = []
        wanted = set(chosen)
        for name, (value, reducers) in trace.watched.items():
            for reducer in reducers:
                full = f"{name}/{reducer}" if reducer else name
                if value is None or full not in wanted:
                    continue
                trace.builder.origin = trace.watched_at[name]
                outputs[f"metric/{full}/value"] = parts(trace.builder, value, reducer or "mean")
                outputs[f"metric/{full}/weight"] = trace.full(1.0, (), "f32")
                finish = self._root() if reducer == "l2" else None
                records.append(Metric(finish=finish, name=full, reduce=HOW[reducer or "mean"]))
        self.metrics[graph + DIAGNOSTICS] = records
        return trace.finish(outputs)

    def _root(self) -> str:
        """The name of the graph that takes the root of a reduced value."""
        name = f"finish/root{DIAGNOSTICS}"
        if name not in self.store.graphs:
            b = new_builder()
            value = b.input("value", SCALAR_F32)
            self.store.add(b.finish(name, {"value": b.emit("sqrt", value)}))
        return name

    def warnings(self, span: Span | None) -> list[Diagnostic]:
        """A warning for each glob that selects nothing."""
        bare = {name.rpartition("/")[0] for name in self.offered}
        return [
            Diagnostic(
                W_METRIC_001,
                f"no diagnostic matches {glob}",
                [Label(span)] if span is not None else [],
                (),
                did_you_mean(glob, [*self.offered, *bare])
                or "`sexpgpu explain FILE --diagnostics` lists them",
            )
            for glob in self.select
            if not any(is_selected(name, [glob]) for name in self.offered)
        ]


def _names(trace: Trace) -> list[str]:
    return [
        f"{name}/{reducer}" if reducer else name
        for name, (_, reducers) in trace.watched.items()
        for reducer in reducers
    ]


def of_the_loop(
    parameters: Iterable[str], trained: Iterable[str], states: Iterable[tuple[str, str]]
) -> list[str]:
    """The diagnostics that the loop itself takes: of parameters, gradients, updates and states."""
    names = [f"param/{p}/{r}" for p in parameters for r in PARAM]
    for path in trained:
        names += [f"grad/{path}/{r}" for r in GRAD]
        names += [f"update/{path}/ratio", f"numerics/{path}/bf16-underflow"]
    return names + [f"optim/{path}/{state}/{r}" for path, state in states for r in STATE]
