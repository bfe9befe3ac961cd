"""Diagnostics of a run: what was selected, taken at the steps it was selected for.

They are computed by an executable of their own, from the state before the step and the step's own
batch, so that the one that trains is the same to the byte whatever is watched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sexpgpu.ir.document import DIAGNOSTICS, Document
from sexpgpu.ir.graph import Graph, Node, Value
from sexpgpu.ir.paths import is_selected
from sexpgpu.ir.types import SCALAR_F32, TensorType
from sexpgpu.loop.finish import finishers
from sexpgpu.loop.metrics import Accumulator
from sexpgpu.loop.report import Layout
from sexpgpu.loop.step import Arrays, Step, StepState
from sexpgpu.lowering.backend import Array, Engine
from sexpgpu.ops import new_builder
from sexpgpu.ops.reducers import GRAD, PARAM, STATE, whole
from sexpgpu.passes.rewrite import substituted


class Watching(Step):
    """The diagnostics of a step as a function `(engine, state, feed, constants) -> vector`."""

    def __init__(self, document: Document, stage: str, microbatches: int) -> None:
        super().__init__(document, stage, microbatches)
        self._select = document.run.diagnostics.select if document.run.diagnostics else []
        self._watched = document.graphs.get(f"train/{stage}{DIAGNOSTICS}")
        if self._watched is not None:
            # the outputs of both graphs, so that one call of the model gives them
            self.train = _joined(self.train, self._watched)
            self._know_reductions(document.metrics[self._watched.name])
        self._graphs: dict[Any, Graph] = {}
        self._updated = {
            path: document.graphs[name]
            for path, update in document.updates.items()
            if (name := update.graph + DIAGNOSTICS) in document.graphs
        }
        self._of_updates = {
            f"optim/{path}/{metric.name}": metric
            for path, update in document.updates.items()
            for metric in document.metrics.get(update.graph + DIAGNOSTICS, [])
        }
        self.watch_layout = Layout(self._watch_types())
        self._finishers = {}
        if self._watched is not None:
            self._finishers |= finishers(document, self._watched.name, "")
        for path, update in document.updates.items():
            self._finishers |= finishers(document, update.graph + DIAGNOSTICS, f"optim/{path}/")

    @property
    def is_empty(self) -> bool:
        """Whether nothing that the document has was selected."""
        return not self.watch_layout.types

    def take(
        self, engine: Engine, state: StepState, feed: Mapping[str, Any], constants: Arrays
    ) -> Array:
        """The vector of every selected number; `told` unpacks it."""
        seen: Arrays = {}
        self._seen = seen
        shared, sums, _, extremes = self._measured(engine, state, feed, constants)
        clipped = engine.call(
            self.clip, {name: g for name, g in sums.items() if name.startswith("grad/")}
        )
        new = self._updates(engine, state, feed, shared, clipped, engine.scalar(True, "bool"), {})
        values = {n: v for n, v in sums.items() if n in self.watch_layout.types} | seen
        values |= {f"metric/{name}/value": value for name, value in extremes.items()}
        for name, inputs in self._of_loop(state, new, sums).items():
            values[name] = engine.call(self._graph(name, inputs), inputs)["value"]
        return self.watch_layout.pack(
            engine, {name: values[name] for name in self.watch_layout.types}
        )

    def told(self, vector: np.ndarray) -> dict[str, Any]:
        """Name -> number, or a list of counts."""
        values = self.watch_layout.unpack(vector)
        total = Accumulator(self._finishers)
        plain: dict[str, Any] = {}
        for name, value in values.items():
            if not name.startswith("metric/"):
                plain[name] = np.asarray(value, np.float64).tolist()
            elif name.endswith("/value"):
                metric = name.removeprefix("metric/").removesuffix("/value")
                of_update = self._of_updates.get(metric)
                reduce = of_update.reduce if of_update else self.reductions[metric]
                total.add(metric, value, float(values[f"metric/{metric}/weight"]), reduce)
        return dict(sorted({**plain, **total.results()}.items()))

    # -- of the loop ------------------------------------------------------------------------

    def _update_seen(self, engine: Engine, path: str, inputs: Arrays) -> None:
        graph = self._updated.get(path)
        if graph is not None:
            self._seen |= {
                f"metric/optim/{path}/{name.removeprefix('metric/')}": value
                for name, value in engine.call(graph, inputs).items()
            }

    def _of_loop(
        self, state: StepState, new: StepState, sums: Arrays
    ) -> dict[str, dict[str, Array]]:
        """What the loop itself takes: name -> the inputs of its graph."""
        found: dict[str, dict[str, Array]] = {}
        for name, (kind, path, _) in self._own_names().items():
            if kind == "param":
                found[name] = {"x": state["param"][path]}
            elif kind == "grad":
                found[name] = {"x": sums[f"grad/{path}"]}
            elif kind == "optim":
                owner, _, which = path.partition("#")
                found[name] = {"x": new["state"][owner][which]}
            else:
                found[name] = {"old": state["param"][path], "new": new["param"][path]}
        return found

    def _own_names(self) -> dict[str, tuple[str, str, str]]:
        """The selected ones of them: name -> kind, path, reducer."""
        every: dict[str, tuple[str, str, str]] = {}
        for parameter in self.document.parameters:
            every |= {f"param/{parameter.path}/{r}": ("param", parameter.path, r) for r in PARAM}
        for path, update in self.document.updates.items():
            every |= {f"grad/{path}/{r}": ("grad", path, r) for r in GRAD}
            every[f"update/{path}/ratio"] = ("update", path, "ratio")
            every[f"numerics/{path}/bf16-underflow"] = ("numerics", path, "bf16-underflow")
            for s in update.states:
                every |= {
                    f"optim/{path}/{s.name}/{r}": ("optim", f"{path}#{s.name}", r) for r in STATE
                }
        return {name: what for name, what in every.items() if is_selected(name, self._select)}

    def _graph(self, name: str, inputs: Mapping[str, Array]) -> Graph:
        reducer = name.rpartition("/")[2]
        x = next(iter(inputs.values()))
        shape = tuple(x.shape)
        key = (reducer, shape)
        if key not in self._graphs:
            self._graphs[key] = _own_graph(reducer, shape)
        return self._graphs[key]

    def _watch_types(self) -> dict[str, TensorType]:
        types: dict[str, TensorType] = {}
        if self._watched is not None:
            types |= {name: value.type for name, value in self._watched.outputs.items()}
        for path, graph in self._updated.items():
            types |= {
                f"metric/optim/{path}/{name.removeprefix('metric/')}": value.type
                for name, value in graph.outputs.items()
                if is_selected(_series(path, name), self._select)
            }
        for name, (_, _, reducer) in self._own_names().items():
            shape = _own_graph(reducer, (1,)).outputs["value"].type.shape
            types[name] = TensorType(shape, "f32") if shape else SCALAR_F32
        return types


def _series(path: str, output: str) -> str:
    """The diagnostic's name of an output `metric/NAME/value` of an update's graph."""
    return f"optim/{path}/{output.removeprefix('metric/').rpartition('/')[0]}"


def _own_graph(reducer: str, shape: tuple[int, ...]) -> Graph:
    """`x` to `value`; for an update's, `old` and `new` parameter to `value`."""
    b = new_builder()
    type = TensorType(shape, "f32")
    if reducer not in ("ratio", "bf16-underflow"):
        return b.finish("diagnostic", {"value": whole(b, b.input("x", type), reducer)})
    old, new = b.input("old", type), b.input("new", type)
    change = b.emit("sub", new, old)
    if reducer == "ratio":
        zero = b.emit("full", shape=(), value=0.0, dtype="f32", batch=None)
        one = b.emit("full", shape=(), value=1.0, dtype="f32", batch=None)
        norm = whole(b, old, "l2")
        safe = b.emit("select", b.emit("gt", norm, zero), norm, one)
        return b.finish("diagnostic", {"value": b.emit("div", whole(b, change, "l2"), safe)})
    # bf16 has 8 bits of significand: a change of less than half a spacing is lost when it is added
    half = b.emit("full", shape=shape, value=2.0**-9, dtype="f32", batch=None)
    nothing = b.emit("full", shape=shape, value=0.0, dtype="f32", batch=None)
    size = b.emit("abs", change)
    small = b.emit("lt", size, b.emit("mul", b.emit("abs", old), half))
    lost = b.emit("and", small, b.emit("gt", size, nothing))
    return b.finish("diagnostic", {"value": whole(b, b.emit("cast", lost, dtype="f32"), "mean")})


def _joined(one: Graph, other: Graph) -> Graph:
    """The outputs of two graphs, whose inputs of one name are one, in one graph."""
    b = new_builder()
    b.inputs.update(one.inputs)
    same = {value: b.inputs[n] for n, value in other.inputs.items() if n in b.inputs}
    b.inputs.update({n: value for n, value in other.inputs.items() if n not in b.inputs})
    b.nodes.extend(one.nodes)
    # both are of one trace: what both compute is one value already
    made = {result for node in one.nodes for result in node.results}
    for node in other.nodes:
        if made.isdisjoint(node.results):
            b.nodes.append(substituted(node, same))
        elif not made.issuperset(node.results):
            # a node with a body, of which the other graph reads more: run for that once more
            node = substituted(node, same)
            results = tuple([Value(v.type) if v in made else v for v in node.results])
            b.nodes.append(
                Node(node.op, node.operands, node.attrs, results, node.origin, node.numerics)
            )
    outputs = {name: same.get(value, value) for name, value in other.outputs.items()}
    return b.finish(other.name, {**one.outputs, **outputs})
