"""Dynamic loss scaling of `:precision :f16` (Micikevicius et al., 2018).

Half precision has no numbers below 6e-8: small gradients would vanish. The loss's cotangent is
multiplied by a scale, a power of two, and gradients are divided by it again in f32: exact in both
directions. A step whose loss is finite and whose gradients are not has overflowed: it is skipped
whole and the scale halved. After GROWTH_STEPS updates in a row the scale is doubled.

State: `value` f32[], `good` i32[] updates since the scale last changed. Only a run in f16 has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sexpgpu.ir.document import LOSS_SCALE
from sexpgpu.ir.graph import Graph
from sexpgpu.ir.types import SCALAR_F32
from sexpgpu.ops import new_builder

if TYPE_CHECKING:
    from sexpgpu.lowering.backend import Array, Engine

START = 2.0**16
GROWTH_STEPS = 2000
LEAST, MOST = 1.0, 2.0**24
"""At the least scale an overflow is no matter of scaling any more: the finite guard has it."""


def is_scaled(graph: Graph) -> bool:
    """Whether a training graph multiplies its gradients by a scale."""
    return LOSS_SCALE in graph.inputs


def initial_scale(scaled: bool) -> dict[str, np.ndarray]:
    """The state before step 0; empty where nothing is scaled."""
    if not scaled:
        return {}
    return {"value": np.asarray(START, np.float32), "good": np.zeros((), np.int32)}


def unscaling(clip: Graph) -> Graph:
    """The gradients that a graph takes, divided by a scale (`LOSS_SCALE`)."""
    b = new_builder()
    one = b.emit("full", shape=(), value=1.0, dtype="f32", batch=None)
    inverse = b.emit("div", one, b.input(LOSS_SCALE, SCALAR_F32))
    outputs: dict[str, Any] = {}
    for name, value in clip.inputs.items():
        if name.startswith("grad/"):
            each = inverse
            if value.shape:
                each = b.emit("broadcast", inverse, shape=value.shape, dims=())
            outputs[name] = b.emit("mul", b.input(name, value.type), each)
    return b.finish("unscale", outputs)


def overflowed(engine: Engine, scale: Mapping[str, Array], loss: Array, norm: Array) -> Array:
    """Whether a step's gradients are not finite for their scale."""
    above = engine.less(engine.scalar(LEAST, "f32"), scale["value"])
    ill = engine.logical_not(engine.is_finite(norm))
    return engine.logical_and(above, engine.logical_and(engine.is_finite(loss), ill))


def next_scale(
    engine: Engine, scale: Mapping[str, Array], applied: Array, overflow: Array
) -> dict[str, Array]:
    """The scale after a step that was applied, has overflowed, or neither."""
    value, good = scale["value"], scale["good"]
    more = engine.add(good, engine.scalar(1, "i32"))
    ripe = engine.logical_not(engine.less(more, engine.scalar(GROWTH_STEPS, "i32")))
    doubled = engine.mul(value, engine.scalar(2.0, "f32"))
    most = engine.scalar(MOST, "f32")
    grown = engine.select(engine.less(doubled, most), doubled, most)
    halved = engine.mul(value, engine.scalar(0.5, "f32"))
    zero = engine.scalar(0, "i32")
    after = {
        "value": engine.select(ripe, grown, value),
        "good": engine.select(ripe, zero, more),
    }
    kept = engine.select(applied, after, {"value": value, "good": good})
    return engine.select(overflow, {"value": halved, "good": zero}, kept)
