"""Compiling is quick: gradients and all passes of a graph of ten thousand nodes.

0.25 to 0.4 s of processor time where it was written; the bound leaves room for slow machines,
and fails when something becomes quadratic.
"""

from __future__ import annotations

import time

from sexpgpu.ir.graph import Graph
from sexpgpu.ir.types import TensorType
from sexpgpu.ops import new_builder
from sexpgpu.ops.building import full_like, scaled, shifted
from sexpgpu.ops.linalg import dot
from sexpgpu.passes import pipeline
from sexpgpu.passes.autodiff import differentiate

BUDGET = 3.0  # seconds of processor time


def deep(layers: int) -> Graph:
    b = new_builder()
    x = b.input("batch/x", TensorType((8, 16), "f32", 0))
    for layer in range(layers):
        w = b.input(f"param/{layer}/w", TensorType((16, 16), "f32"))
        mean = b.emit("mean", b.emit("mul", x, x), axes=(1,))
        scale = b.emit("rsqrt", shifted(b, mean, 1e-6))
        h = b.emit("mul", x, b.emit("broadcast", scale, shape=x.shape, dims=(0,)))
        h = dot(b, h, w, ((1,), (0,)))
        h = b.emit("mul", h, scaled(b, shifted(b, b.emit("tanh", scaled(b, h, 0.8)), 1.0), 0.5))
        x = b.emit("add", x, b.emit("select", b.emit("gt", h, full_like(b, 0.0, h)), h, x))
    loss = b.emit("mean", x, axes=(0, 1))
    return b.finish("train/0", {"loss/objective/sum": loss})


def test_ten_thousand_nodes() -> None:
    graph = deep(180)
    wrt = {f"grad/{name.removeprefix('param/')}": name for name in graph.inputs if "/w" in name}
    start = time.process_time()
    whole = differentiate(graph, "loss/objective/sum", wrt)
    made = pipeline.run(whole, pipeline.Options("bf16"))
    spent = time.process_time() - start
    assert len(whole.nodes) > 10_000
    assert len(made.outputs) == 181
    assert spent < BUDGET
