"""Evaluation passes: every record once, means weighted by what each record weighs.

Whole batches run through `eval/PASS`, the remainder through `eval/PASS/rest`, a graph of its own:
nothing is padded into a mean. Sums are kept in f64 on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sexpgpu.diagnostics.codes import data as codes
from sexpgpu.ir.document import Document, Evaluation
from sexpgpu.ir.graph import Graph
from sexpgpu.loop.data.loader import EvaluationBatches
from sexpgpu.loop.data.prefetch import items
from sexpgpu.loop.failure import failure
from sexpgpu.loop.finish import finishers
from sexpgpu.loop.keys import domain
from sexpgpu.loop.metrics import Accumulator
from sexpgpu.loop.report import Layout
from sexpgpu.loop.rows import Rows, first_rows, with_rows
from sexpgpu.loop.signals import Requests, interruptible
from sexpgpu.lowering.backend import Array, Backend, Compiled, Engine
from sexpgpu.lowering.interp.dtypes import NUMPY


class EvaluationGraph:
    """One graph of a pass as a function of (engine, state, feed, constants), which gives its report
    and the buffers that have a row for each example, for the next batch: `batch` rows, of which a
    remainder of `rows` sees the first."""

    def __init__(self, document: Document, name: str, batch: int, rows: int) -> None:
        self.graph: Graph = document.graphs[name]
        self._carried = [buffer.path for buffer in with_rows(document)]
        self._rows = Rows(document, batch, rows)
        self.layout = Layout(
            {n: v.type for n, v in self.graph.outputs.items() if n.startswith("metric/")}
        )
        self.reductions = {m.name: m.reduce for m in document.metrics.get(name, [])}

    def __call__(
        self,
        engine: Engine,
        state: Mapping[str, Any],
        feed: Mapping[str, Any],
        constants: Mapping[str, Array],
    ) -> tuple[Array, dict[str, Array]]:
        inputs = dict(constants)
        inputs |= {f"param/{name}": value for name, value in state["param"].items()}
        start = engine.scalar(0, "i32")
        buffers = self._rows.taken(engine, state["buffer"], start)
        inputs |= {f"buffer/{name}": value for name, value in buffers.items()}
        inputs |= {f"batch/{name}": value for name, value in feed["batch"].items()}
        inputs |= {f"ctx/{name}": value for name, value in feed["ctx"].items()}
        for name, value in self.graph.inputs.items():
            if name == "ctx/updates":
                inputs[name] = engine.cast(state["updates"], value.dtype)
            elif name.startswith("ctx/counter/"):
                counter = state["counter"][name.removeprefix("ctx/counter/")]
                inputs[name] = engine.cast(counter, value.dtype)
        inputs["rng/key"], inputs["rng/offset"] = feed["key"], feed["offset"]
        out = engine.call(self.graph, inputs)
        report = self.layout.pack(engine, {name: out[name] for name in self.layout.types})
        new = {p: out[f"buffer/{p}"] for p in self._carried if f"buffer/{p}" in out}
        carried = {path: state["buffer"][path] for path in self._carried}
        return report, self._rows.put(engine, carried, new, start)

    def add(self, to: Accumulator, prefix: str, vector: np.ndarray) -> None:
        """Take a batch's report into the pass's sums."""
        values = self.layout.unpack(vector)
        for name in values:
            if name.endswith("/value"):
                metric = name.removeprefix("metric/").removesuffix("/value")
                weight = values.get(f"metric/{metric}/weight")
                to.add(
                    prefix + metric,
                    values[name],
                    1.0 if weight is None else float(weight),
                    self.reductions.get(metric, "mean"),
                )


class Pass:
    """An evaluation pass over `batches`: its one or two compiled graphs. `abandoned`: it was asked
    to stop, and a read or a compilation goes on in a thread of its own."""

    def __init__(
        self,
        document: Document,
        evaluation: Evaluation,
        batches: EvaluationBatches,
        backend: Backend,
    ) -> None:
        self.evaluation = evaluation
        self.name = evaluation.name
        self._backend = backend
        self.batches = batches
        self._key = np.array(domain(document.run.seed, "eval", evaluation.name), np.uint32)
        batch = self.batches.batch
        self._whole = (
            EvaluationGraph(document, evaluation.graph, batch, batch)
            if self.batches.whole
            else None
        )
        self._carried = {b.path: first_rows(document, b, batch) for b in with_rows(document)}
        self._rest = self._rest_graph(document) if self.batches.rest else None
        self._compiled: dict[int, Compiled] = {}
        self._finishers = finishers(document, evaluation.graph, f"eval/{self.name}/")
        self.compile_seconds = 0.0
        self.abandoned = False

    def due(self, step: int, steps: int) -> bool:
        """Whether the pass runs after that many steps."""
        evaluation = self.evaluation
        if step == 0:
            return evaluation.at_start or (steps == 0 and evaluation.at_end)
        if step == steps and evaluation.at_end:
            return True
        return evaluation.every is not None and step % evaluation.every == 0

    def context_keys(self) -> dict[str, Any]:
        """The ctx keys that the graphs read, with their types."""
        return {
            name.removeprefix("ctx/"): value.type
            for graph in (self._whole, self._rest)
            if graph is not None
            for name, value in graph.graph.inputs.items()
            if name.startswith("ctx/")
        }

    def run(
        self,
        state: Mapping[str, Any],
        context: Mapping[str, np.ndarray],
        constants: Mapping[str, Array],
        requests: Requests,
        progress: Callable[[int, int], None] = lambda _done, _of: None,
    ) -> dict[str, Any] | None:
        """`eval/PASS/NAME` -> value over all records; None when asked to stop before the end."""
        seen = self.first_seen(state)
        carried = self._backend.put(dict(self._carried))
        total = Accumulator(self._finishers)
        reports: list[tuple[EvaluationGraph, Array]] = []

        def make(index: int) -> Any:
            return self._backend.put(self.feed(index, context))

        at_hand = self.batches.records.at_hand
        feeds = items(make, 0, len(self.batches), at_hand=at_hand)
        try:
            for index in range(len(self.batches)):
                feed = feeds.take(requests.stopping)
                if feed is None or requests.stopping():
                    return None
                seen["buffer"] = {**state["buffer"], **carried}
                graph = self.graph_of(index)
                compiled = self._compile(graph, seen, feed, constants, requests)
                if compiled is None:
                    return None
                report, carried = compiled(seen, feed, constants)
                reports.append((graph, report))
                if index:  # a batch late, so that the device always has work
                    self._read(reports[index - 1], total)
                progress(index + 1, len(self.batches))
        finally:
            feeds.close()
            self.abandoned |= feeds.abandoned
        self._read(reports[-1], total)
        return total.results()

    def first_seen(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """What of a state the graph of the first batch sees; rows for each example begin anew."""
        seen = {part: state[part] for part in ("param", "buffer", "counter", "updates")}
        return {**seen, "buffer": {**seen["buffer"], **self._carried}}

    def graph_of(self, index: int) -> EvaluationGraph:
        """The graph for the batch of that index."""
        graph = self._whole if index < self.batches.whole else self._rest
        assert graph is not None
        return graph

    def feed(self, index: int, context: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """The batch of that index as its graph takes it, on the host. It is never cut."""
        ctx = dict(context)
        place = self.context_keys().get("microbatch")
        if place is not None:
            ctx["microbatch"] = np.zeros((), NUMPY[place.dtype])
        return {
            "batch": self.batches.read(index),
            "key": self._key,
            "offset": np.asarray(index * self.batches.batch, np.uint32),
            "ctx": ctx,
        }

    def _read(self, report: tuple[EvaluationGraph, Array], total: Accumulator) -> None:
        graph, vector = report
        graph.add(total, f"eval/{self.name}/", self._backend.get(vector))

    def _compile(self, graph: EvaluationGraph, *rest: Any) -> Compiled | None:
        seen, feed, constants, requests = rest
        compiled = self._compiled.get(id(graph))
        if compiled is None:
            compiled = interruptible(
                lambda: self._backend.compile(graph, (seen, feed, constants), donate=()), requests
            )
            if compiled is None:
                self.abandoned = True
                return None
            self._compiled[id(graph)] = compiled
            self.compile_seconds += sum(compiled.seconds.values())
        return compiled

    def _rest_graph(self, document: Document) -> EvaluationGraph:
        name, evaluation = self.evaluation.rest, self.evaluation
        if name is None or evaluation.rest_batch != self.batches.rest:
            raise failure(
                codes.E_EVAL_032,
                f"pass {self.name}: the last {self.batches.rest} of its {self.batches.count} "
                "records fill no batch, and the document has no graph for so many",
                fix="compile the file where its data can be read, or choose a :batch that divides "
                "the records",
            )
        return EvaluationGraph(document, name, self.batches.batch, self.batches.rest)
