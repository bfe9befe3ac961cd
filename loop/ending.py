"""What a run leaves to its caller when it ends: tensors, and the figures of its summary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sexpgpu.ir.document import Document
from sexpgpu.loop.averages import model_of
from sexpgpu.loop.predict import surroundings
from sexpgpu.loop.run import RunResult
from sexpgpu.loop.train import Trainer


def give(
    result: RunResult,
    document: Document,
    tensors: Mapping[str, np.ndarray],
    known: Mapping[str, Any],
) -> None:
    """Fill in the parameters and the model, of the tensors of a checkpoint or of a run as it
    stands. `known`: the ctx values there (of a checkpoint's meta data)."""
    result.parameters = {
        name.removeprefix("param/"): array
        for name, array in tensors.items()
        if name.startswith("param/")
    }
    result.model = model_of(document, tensors) | surroundings(document, tensors, known)


def remaining(trainer: Trainer) -> dict[str, np.ndarray]:
    """The tensors as they stand, of the model, of averages, counters and statistics; none when a
    failed step took them with it."""
    state, backend = trainer.state, trainer.parts.backend
    updates = trainer.parts.document.updates
    averaged = {path for path, update in updates.items() if update.average is not None}
    parts = {
        **{name: state[name] for name in ("param", "buffer", "counter")},
        "updates": state["updates"],
        "state": {path: states for path, states in state["state"].items() if path in averaged},
    }
    try:
        host = backend.get(parts)
    except RuntimeError:
        return {}
    found = {
        f"{part}/{path}": np.array(array)
        for part in ("param", "buffer", "counter")
        for path, array in host[part].items()
    }
    found |= {"updates": np.array(host["updates"]), **trainer.host_constants}
    for path, states in host["state"].items():
        found |= {f"state/{path}#{name}": np.array(a) for name, a in states.items()}
    return found


def summary(trainer: Trainer | None, steps: int, seconds: float) -> dict[str, Any]:
    """The final and best metrics, totals, and seconds of wall time: of a run that stands at so many
    steps, or, without a trainer, that has taken so long to come to nothing."""
    if trainer is None:
        totals = {"steps": steps, "samples": 0, "nonfinite": 0}
        return {"metrics": {}, "best": None, "totals": totals, "wall_s": seconds}
    return {
        "metrics": dict(trainer.reports.last),
        "best": trainer.best,
        "totals": {
            "steps": steps,
            "samples": trainer.course.samples(steps),
            "nonfinite": trainer.parts.recorder.nonfinite,
        },
        "wall_s": trainer.wall(),
    }
