"""The types of what a training step takes, from the document alone: to compile a step while data
are opened and a state is made, or without any (`explain --lowering`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sexpgpu.ir.document import STREAM_START, Document, Stage
from sexpgpu.ir.types import SCALAR_F32, TensorType
from sexpgpu.loop.feeds import reporting
from sexpgpu.loop.scaling import is_scaled
from sexpgpu.loop.stages import Program, context_read
from sexpgpu.loop.statistics import wanted

_I32 = TensorType((), "i32")
_BOOL = TensorType((), "bool")


def planned_step(
    document: Document, made: Sequence[Program]
) -> tuple[Callable[..., Any], list[Any]]:
    """The step of the first stage as a run of these programs compiles it, and TensorTypes in the
    shape of its trees: state, feed, constants (see `step.py`)."""
    stage = document.loader(document.run.train).stages[0]
    feed = feed_types(document, stage, context_read(document, made))
    return reporting(made[0].step), [state_types(document), feed, wanted(document)]


def state_types(document: Document) -> dict[str, Any]:
    """The types of `initial_state(document)`."""

    def type_of(init: str, rows: int | None = None) -> TensorType:
        type = document.graphs[init].outputs["value"].type
        return type if rows is None else TensorType((rows, *type.shape), type.dtype)

    batch = document.loader(document.run.train).stages[0].batch
    scaled = any(map(is_scaled, document.graphs.values()))
    return {
        "param": {p.path: type_of(p.init) for p in document.parameters},
        "buffer": {
            b.path: type_of(b.init, None if b.per is None else batch) for b in document.buffers
        },
        "state": {
            path: {s.name: type_of(s.init) for s in update.states}
            for path, update in document.updates.items()
            if update.states
        },
        "group": {g.name: _I32 for g in document.groups if g.every > 1},
        "scale": {"value": SCALAR_F32, "good": _I32} if scaled else {},
        "counter": {name: TensorType((), "i64") for name in document.counters},
        "step": _I32,
        "updates": _I32,
        "bad": _I32,
        "halted": _BOOL,
    }


def feed_types(document: Document, stage: Stage, read: Mapping[str, TensorType]) -> dict[str, Any]:
    """The types of a feed of one step of a run whose steps read these ctx keys: what the host works
    out."""
    batch = {f.name: TensorType((stage.batch, *f.shape), f.dtype) for f in stage.fields}
    if stage.streams:
        batch[STREAM_START] = TensorType((stage.batch,), "bool")
    on_device = {"updates", "microbatch", *(f"counter/{name}" for name in document.counters)}
    return {
        "batch": batch,
        "key": TensorType((2,), "u32"),
        "ctx": {key: type for key, type in read.items() if key not in on_device},
        "active": {g.name: _BOOL for g in document.groups if g.every > 1},
    }
