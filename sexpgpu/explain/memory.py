"""An estimate of memory from the document alone: what is kept, and what a step holds at most."""

from __future__ import annotations

from math import prod

from sexpgpu.ir.document import Document
from sexpgpu.ir.graph import Graph
from sexpgpu.ir.types import TensorType

BYTES = {"bool": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "f16": 2, "bf16": 2, "i64": 8, "u64": 8,
         "f64": 8}  # fmt: skip
"""Bytes of an element, where they are not 4."""


def size_of(shape: tuple[int, ...], dtype: str) -> int:
    return prod(shape) * BYTES.get(dtype, 4)


def memory(document: Document) -> dict[str, int]:
    """Bytes of parameters, buffers, optimizer states, gradients, one batch, and `live`: the most
    that the values of one microbatch's training graph hold at once, each freed after its last use
    and nothing fused; of several stages, the one that needs most. `total` is their sum: an upper
    estimate, without the backend's own needs."""
    needs: list[tuple[int, int, Graph]] = []  # of each stage
    for stage in document.loader(document.run.train).stages:
        graph = document.graphs[f"train/{stage.name}"]
        batch = sum(size_of((stage.batch, *f.shape), f.dtype) for f in stage.fields)
        needs.append((batch, live(graph), graph))
    batch, most, train = max(needs, key=lambda need: need[0] + need[1])
    found = {
        "parameters": sum(size_of(tuple(p.shape), p.dtype) for p in document.parameters),
        "buffers": sum(size_of(tuple(b.shape), b.dtype) for b in document.buffers),
        "optimizer": sum(
            size_of(tuple(s.shape), s.dtype) for u in document.updates.values() for s in u.states
        ),
        "gradients": sum(
            size_of(v.shape, v.dtype) for n, v in train.outputs.items() if n.startswith("grad/")
        ),
        "batch": batch,
        "live": most,
    }
    return {**found, "total": sum(found.values())}


def live(graph: Graph) -> int:
    """The most bytes that results of nodes hold at once, in the graph's order; outputs are kept."""
    last: dict[int, int] = {}
    for place, node in enumerate(graph.nodes):
        for value in (*node.operands, *node.results):
            last[id(value)] = place
    kept = {id(value) for value in graph.outputs.values()}
    inputs = {id(value) for value in graph.inputs.values()}
    held = most = 0
    for place, node in enumerate(graph.nodes):
        held += sum(_bytes(value.type) for value in node.results)
        most = max(most, held)
        for value in {id(v): v for v in (*node.operands, *node.results)}.values():
            if last[id(value)] == place and id(value) not in kept | inputs:
                held -= _bytes(value.type)
    return most


def _bytes(type: TensorType) -> int:
    return size_of(type.shape, type.dtype)
