"""A graph as jax and XLA see it: jaxpr, StableHLO for any platform, compiled HLO for a device."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from sexpgpu.ir.graph import Graph
from sexpgpu.lowering.xla.dtypes import LAX
from sexpgpu.lowering.xla.engine import XlaEngine
from sexpgpu.lowering.xla.evaluate import opaque_true
from sexpgpu.lowering.xla.options import CpuTuning, Lowering


def _traced(graph: Graph, platform: str) -> Any:
    """The graph traced by jax, with the choices that the platform's lowering makes."""

    def function(zero: jax.Array, inputs: dict[str, jax.Array]) -> dict[str, jax.Array]:
        lowering = Lowering(CpuTuning(), opaque_true(zero)) if platform == "cpu" else Lowering()
        return XlaEngine(lowering).call(graph, inputs)

    types = {
        name: jax.ShapeDtypeStruct(value.shape, LAX[value.dtype])
        for name, value in graph.inputs.items()
    }
    zero = jax.ShapeDtypeStruct((), np.dtype(np.int32))
    return jax.jit(function).trace(zero, types)


def jaxpr(graph: Graph) -> str:
    """The jaxpr of the plain lowering."""
    with jax.enable_x64(True):
        return f"{_traced(graph, 'cuda').jaxpr}\n"


def stablehlo(graph: Graph, platform: str) -> str:
    """The StableHLO text for `cpu` or `cuda`; needs no device of that kind."""
    with jax.enable_x64(True):
        lowered = _traced(graph, platform).lower(lowering_platforms=(platform,))
        return lowered.as_text()


def compiled_hlo(graph: Graph, platform: str) -> str:
    """The optimized HLO text. For cuda it needs a device, or a plugin that compiles without one;
    raises RuntimeError where there is neither."""
    with jax.enable_x64(True):
        traced = _traced(graph, platform)
        if platform == "cpu":
            return traced.lower(lowering_platforms=("cpu",)).compile().as_text() or ""
        if not jax.devices("cuda"):  # raises RuntimeError where jax has no such backend
            raise RuntimeError("no CUDA device")
        return traced.lower(lowering_platforms=("cuda",)).compile().as_text() or ""
