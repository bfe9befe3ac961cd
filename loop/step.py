"""The training step, written once over an Engine: what every device runs.

batch -> weights -> gradients (summed over microbatches) -> clip -> schedules -> one update per
parameter -> finite guard -> report. Everything numeric of the experiment is an IR graph called
from here; this file only joins graphs. The contract of their inputs and outputs: docs/ir.md.

State of a run, a tree of arrays:
    param    {path: f32 master weights}      buffer   {path: …}
    state    {path: {name: …}}               counter  {name: i64[]}
    group    {name: i32[] updates of a group of `:every n`, n > 1}
    scale    {value: f32[], good: i32[]} of the loss, in f16 (`scaling.py`); else empty
    step     i32[] steps done                updates  i32[] steps not skipped
    bad      i32[] non-finite steps in a row halted   bool[] the guard has stopped the run
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from sexpgpu.ir.document import LOSS_SCALE, Document, Metric, Update
from sexpgpu.ir.graph import Graph
from sexpgpu.ir.types import SCALAR_F32, TensorType
from sexpgpu.loop.guarded import APPLIED
from sexpgpu.loop.handed import update_graphs
from sexpgpu.loop.keys import domain
from sexpgpu.loop.report import Layout, extremes_graph, extremes_start
from sexpgpu.loop.rows import Rows
from sexpgpu.loop.scaling import is_scaled, next_scale, overflowed, unscaling
from sexpgpu.lowering.backend import Array, Engine
from sexpgpu.ops.totals import graph_cost

Arrays: TypeAlias = "dict[str, Array]"
StepState: TypeAlias = "dict[str, Any]"

SKIPS_IN_A_ROW = 10
"""After that many non-finite steps in a row, `:finite :skip` stops the run."""

_FOLDED = ("mean", "sum", "rms")  # reductions that add up over microbatches


class Step:
    """The step function of one stage. `step(engine, state, feed, constants)` gives the new state
    and the report's vector.

    feed: {"batch": {field: (batch, …)}, "key": u32[2], "ctx": {key: scalar},
           "active": {group: bool}}, all worked out by the host from the step's number.
    constants: inputs that never change in a run, by their full name (`statistic/…`).
    """

    def __init__(self, document: Document, stage: str, microbatches: int) -> None:
        self.document = document
        self.microbatches = microbatches
        self.batch = _batch_extent(document, stage)
        self.train = document.graphs[f"train/{stage}"]
        weights = document.graphs.get(f"weights/{stage}")
        needs_totals = any(name.startswith("total/") for name in self.train.inputs)
        self.weights = weights if needs_totals else None
        self.clip = document.graphs["clip"]
        self.unscale = unscaling(self.clip) if is_scaled(self.train) else None
        self.terms = document.terms[f"train/{stage}"]
        self.reductions: dict[str, str] = {}
        self._know_reductions(document.metrics.get(f"train/{stage}", []))
        self._finite = document.run.finite
        self._part = self.batch // microbatches
        self._rows = Rows(document, self.batch, self._part)
        self._update_graphs = update_graphs(document)
        self._active = sorted(group.name for group in document.groups if group.every > 1)
        self._members = {
            group.name: [p for p, u in document.updates.items() if u.group == group.name]
            for group in document.groups
        }
        self.update_reductions: dict[str, str] = {}
        self.layout = Layout(self._report_types())

    def __call__(
        self, engine: Engine, state: StepState, feed: Mapping[str, Any], constants: Arrays
    ) -> tuple[StepState, Array]:
        shared, sums, buffers, extremes = self._measured(engine, state, feed, constants)
        loss = self._loss(engine, sums)
        clipped = engine.call(
            self.clip, {name: g for name, g in sums.items() if name.startswith("grad/")}
        )
        report: Arrays = {n: v for n, v in sums.items() if n.startswith(("loss/", "metric/"))}
        report |= {f"metric/{name}/value": value for name, value in extremes.items()}
        report["loss"], report["grad-norm"] = loss, clipped["grad-norm"]
        report |= {
            f"optim/{name.removeprefix('grad-norm/')}/grad-norm": value
            for name, value in clipped.items()
            if name.startswith("grad-norm/")
        }
        finite = engine.logical_and(engine.is_finite(loss), engine.is_finite(clipped["grad-norm"]))
        finite = engine.settled({"finite": finite})["finite"]
        applied = engine.logical_and(finite, engine.logical_not(state["halted"]))
        if self._finite == "ignore":
            applied = engine.scalar(True, "bool")
        overflow = None
        if self.unscale is not None:
            overflow = overflowed(engine, state["scale"], loss, clipped["grad-norm"])
            overflow = engine.logical_and(overflow, engine.logical_not(state["halted"]))
            applied = engine.logical_and(applied, engine.logical_not(overflow))
            report["overflow"], report["loss-scale"] = overflow, state["scale"]["value"]
        moved = self._updates(engine, state, feed, shared, clipped, applied, report)
        moved["buffer"] = buffers
        moved["counter"] = {
            name: engine.add(value, engine.cast(sums[f"counter/{name}"], "i64"))
            if f"counter/{name}" in sums
            else value
            for name, value in state["counter"].items()
        }
        moved["scale"] = {}
        if overflow is not None:
            moved["scale"] = next_scale(engine, state["scale"], applied, overflow)
            finite = engine.select(overflow, engine.scalar(True, "bool"), finite)
        new_state = self._guard(engine, state, moved, finite, applied)
        report["finite"], report["halted"] = finite, new_state["halted"]
        return new_state, self.layout.pack(engine, report)

    @property
    def flops(self) -> int:
        """Floating point operations of a step's training graph, all microbatches together."""
        return graph_cost(self.train)[0] * self.microbatches

    def _know_reductions(self, metrics: Iterable[Metric]) -> None:
        """How further metrics of the training graph add up over microbatches."""
        self.reductions |= {metric.name: metric.reduce for metric in metrics}
        self._extremes = {n: r for n, r in self.reductions.items() if r not in _FOLDED}
        if self.microbatches > 1 and self._extremes:
            types = {n: self.train.outputs[f"metric/{n}/value"].type for n in self._extremes}
            self._extremes_graph = extremes_graph(self._extremes, types)
            self._extremes_start = extremes_start(self._extremes, types)

    def _measured(
        self, engine: Engine, state: StepState, feed: Mapping[str, Any], constants: Arrays
    ) -> tuple[Arrays, Arrays, Arrays, Arrays]:
        """The inputs that all graphs share, and `_gradients`, with the loss's scale taken out."""
        shared = {**constants, **_under("param", state["param"]), "rng/key": feed["key"]}
        shared |= self._context(engine, state, feed)
        if self.unscale is not None:
            shared[LOSS_SCALE] = state["scale"]["value"]
        sums, buffers, extremes = self._gradients(engine, state, feed, shared)
        if self.unscale is not None:
            sums |= engine.call(self.unscale, {**sums, LOSS_SCALE: state["scale"]["value"]})
        return shared, sums, buffers, extremes

    # -- gradients --------------------------------------------------------------------------

    def _gradients(
        self, engine: Engine, state: StepState, feed: Mapping[str, Any], shared: Arrays
    ) -> tuple[Arrays, Arrays, Arrays]:
        """Sums over the microbatches of everything additive, the buffers after the last one,
        and the metrics that do not add up."""
        n = self.microbatches
        shared = {**shared, **self._totals(engine, state, feed, shared)}

        def body(part: Arrays, index: Array, carry: Any) -> tuple[Arrays, Any]:
            inputs = self._microbatch(engine, part, index, shared)
            start = self._start(engine, index)
            inputs |= _under("buffer", self._rows.taken(engine, carry["buffer"], start))
            out = engine.call(self.train, inputs)
            given = [path for path in carry["buffer"] if f"buffer/{path}" in out]
            new = {path: out.pop(f"buffer/{path}") for path in given}
            buffers = self._rows.put(engine, carry["buffer"], new, start)
            new = {name: out.pop(f"metric/{name}/value") for name in self._extremes}
            if n > 1 and new:
                new = engine.call(
                    self._extremes_graph,
                    {**_under("old", carry["extreme"]), **_under("new", new)},
                )
            return out, {"buffer": buffers, "extreme": new}

        if n == 1:
            sums, carry = body(
                feed["batch"], engine.scalar(0, "i32"), {"buffer": state["buffer"], "extreme": {}}
            )
        else:
            start = engine.call(self._extremes_start, {}) if self._extremes else {}
            sums, carry = engine.fold_accumulate(
                body, {"buffer": state["buffer"], "extreme": start}, feed["batch"], n
            )
        return sums, carry["buffer"], carry["extreme"]

    def _totals(
        self, engine: Engine, state: StepState, feed: Mapping[str, Any], shared: Arrays
    ) -> Arrays:
        """`total/TERM`: each term's weight summed over the whole batch, where it is not a
        constant of the graph."""
        graph = self.weights
        if graph is None:
            return {}

        def body(part: Arrays, index: Array) -> Arrays:
            inputs = self._microbatch(engine, part, index, shared)
            start = self._start(engine, index)
            buffers = self._rows.taken(engine, state["buffer"], start)
            return engine.call(graph, inputs | _under("buffer", buffers))

        sums = engine.accumulate(body, feed["batch"], self.microbatches)
        return {f"total/{term}": sums[f"loss/{term}/weight"] for term in self.terms}

    def _microbatch(self, engine: Engine, part: Arrays, index: Array, shared: Arrays) -> Arrays:
        """The inputs of a graph for one microbatch; its draws go on where the last one's end."""
        inputs = {**shared, **_under("batch", part)}
        inputs["rng/offset"] = engine.cast(self._start(engine, index), "u32")
        wanted = self.train.inputs.get("ctx/microbatch")
        if wanted is not None:
            inputs["ctx/microbatch"] = engine.cast(index, wanted.dtype)
        return inputs

    def _start(self, engine: Engine, index: Array) -> Array:
        """The place of a microbatch's first example in the batch."""
        return engine.mul(index, engine.scalar(self._part, "i32"))

    def _loss(self, engine: Engine, sums: Arrays) -> Array:
        """Σ over terms of Σ weight·mean / Σ weight; a term without weight counts 0."""
        loss = engine.scalar(0.0, "f32")
        one = engine.scalar(1.0, "f32")
        zero = engine.scalar(0.0, "f32")
        for term in self.terms:
            weight = sums[f"loss/{term}/weight"]
            divisor = engine.select(engine.less(zero, weight), weight, one)
            loss = engine.add(loss, engine.div(sums[f"loss/{term}/sum"], divisor))
        return loss

    # -- updates ----------------------------------------------------------------------------

    def _updates(
        self,
        engine: Engine,
        state: StepState,
        feed: Mapping[str, Any],
        shared: Arrays,
        clipped: Arrays,
        applied: Array,
        report: Arrays,
    ) -> StepState:
        """The parameters and states after their updates, which take place where `applied`; what
        updates report goes to `report`."""
        context = {n: v for n, v in shared.items() if n.startswith(("ctx/", "statistic/"))}
        if "clipped-norm" in clipped:
            context["global/grad-norm"] = clipped["clipped-norm"]
        params, states = dict(state["param"]), dict(state["state"])
        counts = dict(state["group"])
        for group in self.document.groups:
            given, due = dict(context), applied
            if group.name in self._active:
                # what a group has seen so far is its own count, not that of the steps
                count = counts[group.name]
                if "ctx/updates" in given:
                    given["ctx/updates"] = count
                due = engine.logical_and(applied, feed["active"][group.name])
                more = engine.add(count, engine.scalar(1, "i32"))
                counts[group.name] = engine.select(due, more, count)
            if group.hyper is not None:
                values = engine.settled(engine.call(self.document.graphs[group.hyper], given))
                report |= {f"optim/{group.name}/{name}": v for name, v in values.items()}
                given |= _under("hyper", values)
            sums, kept = self._sums(engine, group.name, state, clipped, given)
            given |= sums
            for path in self._members[group.name]:
                update = self.document.updates[path]
                inputs = given | kept.pop(path, {}) | self._own(engine, path, state, clipped)
                inputs[APPLIED] = due
                out = engine.call_often(self._update_graphs[path][-1], inputs)
                self._update_seen(engine, path, inputs)
                params[path] = out["p"]
                if update.states:
                    states[path] = {s.name: out[f"state/{s.name}"] for s in update.states}
                report |= {
                    f"metric/optim/{path}/{name.removeprefix('metric/')}": value
                    for name, value in out.items()
                    if name.startswith("metric/")
                }
        return {"param": params, "state": states, "group": counts}

    def _update_seen(self, engine: Engine, path: str, inputs: Arrays) -> None:
        """What else is to be taken of an update: nothing here (see `watching.py`)."""

    def _own(self, engine: Engine, path: str, state: StepState, clipped: Arrays) -> Arrays:
        """The inputs of an update that are the parameter's own."""
        inputs = _under("state", state["state"].get(path, {}))
        inputs["p"], inputs["g"] = state["param"][path], clipped[f"grad/{path}"]
        update = self.document.updates[path]
        if any("rng/key" in self.document.graphs[n].inputs for n in (update.graph, *update.sums)):
            key = np.array(domain(self.document.run.seed, "opti", path), np.uint32)
            inputs["rng/key"] = engine.fold_key(key, state["step"])
            inputs["rng/offset"] = engine.scalar(0, "u32")
        return inputs

    def _sums(
        self, engine: Engine, group: str, state: StepState, clipped: Arrays, given: Arrays
    ) -> tuple[Arrays, dict[str, Arrays]]:
        """`global/K`: what the updates of a group sum over its parameters; a later sum may read
        the ones before it. And by path what was computed for them and is wanted again."""
        members = self._members[group]
        sums: Arrays = {}
        kept: dict[str, Arrays] = {}
        for k in range(len(self._update_graphs[members[0]]) - 1 if members else 0):
            total = engine.scalar(0.0, "f32")
            for path in members:
                own = kept.setdefault(path, {})
                inputs = given | sums | own | self._own(engine, path, state, clipped)
                out = engine.call_often(self._update_graphs[path][k], inputs)
                total = engine.add(total, out.pop("part"))
                own |= out
            sums[f"global/{k}"] = total
        return sums, kept

    def _guard(
        self, engine: Engine, state: StepState, moved: StepState, finite: Array, applied: Array
    ) -> StepState:
        """The state after the step, or the one before it, to the bit, where the loss or the
        gradient norm is not finite (`:finite`), or where an earlier step has halted the run.
        Parameters and states of updates are guarded already (`guarded.py`)."""
        one = engine.scalar(1, "i32")
        if self._finite == "ignore":
            return {
                **moved,
                "buffer": engine.select(applied, moved["buffer"], state["buffer"]),
                "counter": engine.select(applied, moved["counter"], state["counter"]),
                "step": engine.add(state["step"], one),
                "updates": engine.select(
                    applied, engine.add(state["updates"], one), state["updates"]
                ),
                "bad": state["bad"],
                "halted": state["halted"],
            }
        running = engine.logical_not(state["halted"])
        limit = 1 if self._finite == "abort" else SKIPS_IN_A_ROW
        in_a_row = engine.select(
            running,
            engine.select(finite, engine.scalar(0, "i32"), engine.add(state["bad"], one)),
            state["bad"],
        )
        # an aborted step never was: its number is the one the reproduction starts from
        counted = engine.logical_and(finite, running) if self._finite == "abort" else running
        return {
            "param": moved["param"],
            "state": moved["state"],
            "group": moved["group"],
            "scale": moved["scale"],
            "buffer": engine.select(applied, moved["buffer"], state["buffer"]),
            "counter": engine.select(applied, moved["counter"], state["counter"]),
            "step": engine.select(counted, engine.add(state["step"], one), state["step"]),
            "updates": engine.select(applied, engine.add(state["updates"], one), state["updates"]),
            "bad": in_a_row,
            "halted": engine.logical_not(engine.less(in_a_row, engine.scalar(limit, "i32"))),
        }

    # -- context and report -----------------------------------------------------------------

    def _context(self, engine: Engine, state: StepState, feed: Mapping[str, Any]) -> Arrays:
        """`ctx/…`: what the host knows, and the counts that only the device knows."""
        values = _under("ctx", feed["ctx"])
        for key, type in context_types(self.document, self.train).items():
            if key == "updates":
                values["ctx/updates"] = engine.cast(state["updates"], type.dtype)
            elif key.startswith("counter/"):
                name = key.removeprefix("counter/")
                values[f"ctx/{key}"] = engine.cast(state["counter"][name], type.dtype)
        return values

    def _report_types(self) -> dict[str, TensorType]:
        types = {
            name: value.type
            for name, value in self.train.outputs.items()
            if name.startswith(("loss/", "metric/"))
        }
        types |= dict.fromkeys(("loss", "grad-norm"), SCALAR_F32)
        types |= {name: TensorType((), "bool") for name in ("finite", "halted")}
        if self.unscale is not None:
            types |= {"overflow": TensorType((), "bool"), "loss-scale": SCALAR_F32}
        types |= {
            f"optim/{name.removeprefix('grad-norm/')}/grad-norm": SCALAR_F32
            for name in self.clip.outputs
            if name.startswith("grad-norm/")
        }
        for group in self.document.groups:
            if group.hyper is not None:
                graph = self.document.graphs[group.hyper]
                types |= {
                    f"optim/{group.name}/{name}": value.type
                    for name, value in graph.outputs.items()
                }
        for path, update in self.document.updates.items():
            types |= self._update_report_types(path, update)
        return types

    def _update_report_types(self, path: str, update: Update) -> dict[str, TensorType]:
        for metric in self.document.metrics.get(update.graph, []):
            self.update_reductions[f"optim/{path}/{metric.name}"] = metric.reduce
        return {
            f"metric/optim/{path}/{name.removeprefix('metric/')}": value.type
            for name, value in self.document.graphs[update.graph].outputs.items()
            if name.startswith("metric/")
        }


def context_types(document: Document, train: Graph) -> dict[str, TensorType]:
    """The ctx keys that a training step's graphs read, with their types."""
    named = [name for u in document.updates.values() for name in (u.graph, *u.sums)]
    graphs = [train, *(document.graphs[name] for name in named)]
    graphs += [document.graphs[g.hyper] for g in document.groups if g.hyper is not None]
    return {
        name.removeprefix("ctx/"): value.type
        for graph in graphs
        for name, value in graph.inputs.items()
        if name.startswith("ctx/")
    }


def _under(prefix: str, values: Mapping[str, Array]) -> Arrays:
    return {f"{prefix}/{name}": value for name, value in values.items()}


def _batch_extent(document: Document, stage: str) -> int:
    loader = document.loader(document.run.train)
    return next(s.batch for s in loader.stages if s.name == stage)
