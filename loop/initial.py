"""The state before step 0: parameters, buffers and optimizer states from their `init/…` graphs.

Always computed by the NumPy evaluator on the host, so that every device starts from the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sexpgpu.ir.document import Document
from sexpgpu.loop.keys import Key, domain, of_state
from sexpgpu.loop.rows import first_rows
from sexpgpu.loop.scaling import initial_scale, is_scaled
from sexpgpu.loop.step import StepState
from sexpgpu.lowering.interp.backend import InterpEngine


def initial_state(document: Document) -> StepState:
    """The state tree (see `step.py`) as NumPy arrays."""
    seed = document.run.seed
    engine = InterpEngine()

    def value(graph: str, key: Key) -> np.ndarray:
        inputs = {"rng/key": np.array(key, np.uint32), "rng/offset": np.uint32(0)}
        return engine.call(document.graphs[graph], inputs)["value"]

    return {
        "param": {p.path: value(p.init, domain(seed, "init", p.path)) for p in document.parameters},
        "buffer": {
            b.path: value(b.init, domain(seed, "init", b.path))
            if b.per is None
            else first_rows(document, b, document.loader(document.run.train).stages[0].batch)
            for b in document.buffers
        },
        "state": {
            path: {s.name: value(s.init, of_state(seed, path, s.name)) for s in update.states}
            for path, update in document.updates.items()
            if update.states
        },
        "group": {g.name: np.zeros((), np.int32) for g in document.groups if g.every > 1},
        "scale": initial_scale(any(map(is_scaled, document.graphs.values()))),
        "counter": {name: np.zeros((), np.int64) for name in document.counters},
        "step": np.zeros((), np.int32),
        "updates": np.zeros((), np.int32),
        "bad": np.zeros((), np.int32),
        "halted": np.zeros((), np.bool_),
    }


def flattened(state: Mapping[str, Any]) -> dict[str, Any]:
    """The tree, of tensors or of types, by the names that a checkpoint gives them: `param/PATH`,
    `state/PATH#NAME`, `step`, …"""
    flat: dict[str, np.ndarray] = {}
    for part in ("param", "buffer", "group", "scale", "counter"):
        flat |= {f"{part}/{name}": array for name, array in state[part].items()}
    for path, states in state["state"].items():
        flat |= {f"state/{path}#{name}": array for name, array in states.items()}
    for name in ("step", "updates", "bad", "halted"):
        flat[name] = state[name]
    return flat


def unflattened(flat: Mapping[str, np.ndarray], like: Mapping[str, Any]) -> StepState:
    """The tree of the structure of `like` from named tensors. KeyError when one is missing."""
    state: StepState = {
        part: {name: flat[f"{part}/{name}"] for name in like[part]}
        for part in ("param", "buffer", "group", "scale", "counter")
    }
    state["state"] = {
        path: {name: flat[f"state/{path}#{name}"] for name in states}
        for path, states in like["state"].items()
    }
    for name in ("step", "updates", "bad", "halted"):
        state[name] = flat[name]
    return state
