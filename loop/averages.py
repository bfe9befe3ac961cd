"""The averaged parameters of optimizers that keep an average (`evaluation-parameter`): what
evaluations, predictions and exports see in place of the parameters that are trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sexpgpu.ir.document import Document
from sexpgpu.lowering.backend import Array, Backend, Compiled, Engine
from sexpgpu.lowering.interp.backend import InterpEngine


def averaged(
    engine: Engine,
    document: Document,
    params: Mapping[str, Array],
    states: Mapping[str, Mapping[str, Array]],
) -> dict[str, Array]:
    """Every parameter by its path: its average where the optimizer keeps one, else itself."""
    found = dict(params)
    for path, update in document.updates.items():
        if update.average is not None:
            graph = document.graphs[update.average]
            inputs = {f"state/{name}": value for name, value in states.get(path, {}).items()}
            inputs["p"] = params[path]
            found[path] = engine.call(graph, {name: inputs[name] for name in graph.inputs})["p"]
    return found


def model_of(document: Document, tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Of the tensors of a checkpoint, the model as evaluations see it: `param/PATH`, averaged, and
    `buffer/PATH`. Computed on the host."""
    params = {p.path: tensors[f"param/{p.path}"] for p in document.parameters}
    states = {
        path: {s.name: tensors[f"state/{path}#{s.name}"] for s in update.states}
        for path, update in document.updates.items()
        if update.average is not None
    }
    seen = averaged(InterpEngine(), document, params, states)
    buffers = [f"buffer/{b.path}" for b in document.buffers]
    return {f"param/{path}": np.asarray(a) for path, a in seen.items()} | {
        name: tensors[name] for name in buffers
    }


class Averages:
    """Averages the state of a run on its device, for evaluations."""

    def __init__(self, document: Document, backend: Backend) -> None:
        self._document = document
        self._backend = backend
        self._kept = any(update.average is not None for update in document.updates.values())
        self._compiled: Compiled | None = None

    def seen(self, state: Mapping[str, Any], weights: str) -> Mapping[str, Any]:
        """The state as an evaluation with these weights ("averaged" or "raw") sees it."""
        if not self._kept or weights == "raw":
            return state
        given = (state["param"], state["state"])
        if self._compiled is None:
            self._compiled = self._backend.compile(
                lambda engine, params, states: averaged(engine, self._document, params, states),
                given,
                donate=(),
            )
        return {**state, "param": self._compiled(*given)}
