"""What a step tells the host: many small numbers, packed into one vector by a graph of their own,
so that reading them is one transfer.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import TypeAlias

import numpy as np

from sexpgpu.ir.graph import Graph
from sexpgpu.ir.types import TensorType
from sexpgpu.lowering.backend import Array, Engine
from sexpgpu.ops import new_builder

Told: TypeAlias = float | np.ndarray
"""A value of a report."""


class Layout:
    """Where each named f32 value lies in the vector. Values of other dtypes are cast."""

    def __init__(self, types: Mapping[str, TensorType]) -> None:
        self.types = dict(types)
        self.size = sum(type.size for type in types.values())
        stops = accumulate(type.size for type in types.values())
        self._places = [
            (name, stop - type.size, stop, type.shape)
            for (name, type), stop in zip(types.items(), stops, strict=True)
        ]
        self._graph = self._pack_graph()

    def pack(self, engine: Engine, values: Mapping[str, Array]) -> Array:
        """The vector, f32 (size)."""
        floats = {
            name: value if self.types[name].dtype == "f32" else engine.cast(value, "f32")
            for name, value in values.items()
        }
        return engine.call(self._graph, floats)["packed"]

    def unpack(self, vector: np.ndarray) -> dict[str, Told]:
        """The values by name: numbers, and arrays f32 in their shapes (views of the vector)."""
        numbers = vector.tolist()
        return {
            name: vector[start:stop].reshape(shape) if shape else numbers[start]
            for name, start, stop, shape in self._places
        }

    def _pack_graph(self) -> Graph:
        builder = new_builder()
        flat = [
            builder.emit(
                "reshape", builder.input(name, TensorType(type.shape, "f32")), shape=(type.size,)
            )
            for name, type in self.types.items()
        ]
        if not flat:  # diagnostics of which nothing was selected
            flat = [builder.emit("full", shape=(0,), value=0.0, dtype="f32", batch=None)]
        packed = flat[0] if len(flat) == 1 else builder.emit("concat", *flat, axis=0)
        return builder.finish("report", {"packed": packed})


def extremes_graph(reductions: Mapping[str, str], types: Mapping[str, TensorType]) -> Graph:
    """The max, min or last of a metric over microbatches: `old/NAME` and `new/NAME` -> NAME."""
    builder = new_builder()
    outputs = {}
    for name, reduce in reductions.items():
        old = builder.input(f"old/{name}", types[name])
        new = builder.input(f"new/{name}", types[name])
        outputs[name] = new if reduce == "last" else builder.emit(reduce, old, new)
    return builder.finish("extremes", outputs)


def extremes_start(reductions: Mapping[str, str], types: Mapping[str, TensorType]) -> Graph:
    """What `extremes_graph` starts from: -inf for max, inf for min."""
    builder = new_builder()
    outputs = {}
    for name, reduce in reductions.items():
        value = float("-inf") if reduce == "max" else float("inf") if reduce == "min" else 0.0
        type = types[name]
        outputs[name] = builder.emit(
            "full", shape=type.shape, value=value, dtype=type.dtype, batch=None
        )
    return builder.finish("extremes-start", outputs)
