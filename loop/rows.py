"""Buffers with a row for each example of the batch: which rows a graph sees, and where its go."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sexpgpu.ir.document import Buffer, Document
from sexpgpu.ir.graph import Graph
from sexpgpu.ir.types import SCALAR_I32, TensorType
from sexpgpu.loop.keys import domain
from sexpgpu.lowering.backend import Array, Engine
from sexpgpu.lowering.interp.backend import InterpEngine
from sexpgpu.ops import new_builder


def with_rows(document: Document) -> list[Buffer]:
    """The buffers that have a row for each example."""
    return [buffer for buffer in document.buffers if buffer.per is not None]


def first_rows(document: Document, buffer: Buffer, rows: int) -> np.ndarray:
    """What such a buffer holds before its first batch: its initial value in every row."""
    key = np.array(domain(document.run.seed, "init", buffer.path), np.uint32)
    inputs = {"rng/key": key, "rng/offset": np.uint32(0)}
    value = InterpEngine().call(document.graphs[buffer.init], inputs)["value"]
    return np.repeat(value[None], rows, axis=0)


class Rows:
    """Takes `rows` of the `whole` rows of each such buffer, and puts them back."""

    def __init__(self, document: Document, whole: int, rows: int) -> None:
        self._graphs: dict[str, tuple[Graph, Graph]] = {}
        if rows < whole:
            for buffer in with_rows(document):
                type = TensorType((whole, *buffer.shape), buffer.dtype)
                self._graphs[buffer.path] = (_take(type, rows), _put(type, rows))

    def taken(self, engine: Engine, buffers: Mapping[str, Array], start: Array) -> dict[str, Array]:
        """The buffers with the rows from `start`, an i32 scalar; the others as they are."""
        found = dict(buffers)
        for path, (take, _) in self._graphs.items():
            inputs = {"whole": buffers[path], "start": start}
            found[path] = engine.call(take, inputs)["rows"]
        return found

    def put(
        self, engine: Engine, old: Mapping[str, Array], new: Mapping[str, Array], start: Array
    ) -> dict[str, Array]:
        """All buffers after a graph that was given those rows has given `new` ones."""
        found = {path: new.get(path, value) for path, value in old.items()}
        for path, (_, put) in self._graphs.items():
            if path in new:
                inputs = {"whole": old[path], "rows": new[path], "start": start}
                found[path] = engine.call(put, inputs)["whole"]
        return found


def _take(type: TensorType, rows: int) -> Graph:
    b = new_builder()
    whole, start = b.input("whole", type), b.input("start", SCALAR_I32)
    zero = b.emit("full", shape=(), value=0, dtype="i32", batch=None)
    starts = [start, *[zero] * (len(type.shape) - 1)]
    made = b.emit("dynamic-slice", whole, *starts, sizes=(rows, *type.shape[1:]))
    return b.finish("rows", {"rows": made})


def _put(type: TensorType, rows: int) -> Graph:
    b = new_builder()
    whole, start = b.input("whole", type), b.input("start", SCALAR_I32)
    part = b.input("rows", TensorType((rows, *type.shape[1:]), type.dtype))
    zero = b.emit("full", shape=(), value=0, dtype="i32", batch=None)
    starts = [start, *[zero] * (len(type.shape) - 1)]
    return b.finish("rows", {"whole": b.emit("dynamic-update-slice", whole, part, *starts)})
