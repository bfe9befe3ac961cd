"""An estimate of memory from the document alone: what is kept, and what a step holds at most."""

from __future__ import annotations

from collections.abc import Iterable

from sexpgpu.ir.document import Document
from sexpgpu.ir.graph import Graph
from sexpgpu.ir.types import TensorType
from sexpgpu.ops.control import runs_of


def memory(document: Document) -> dict[str, int]:
    """Bytes of parameters, buffers, optimizer states, gradients, one batch, and `live`: the most
    that the values of one microbatch's training graph hold at once, each freed after its last use
    and nothing fused; of several stages, the one that needs most. `total` is their sum: an upper
    estimate, without the backend's own needs."""
    needs: list[tuple[int, int, Graph]] = []  # of each stage
    for stage in document.loader(document.run.train).stages:
        graph = document.graphs[f"train/{stage.name}"]
        batch = _bytes(((stage.batch, *f.shape), f.dtype) for f in stage.fields)
        needs.append((batch, live(graph), graph))
    batch, most, train = max(needs, key=lambda need: need[0] + need[1])
    states = [s for u in document.updates.values() for s in u.states]
    found = {
        "parameters": _bytes((tuple(p.shape), p.dtype) for p in document.parameters),
        "buffers": _bytes((tuple(b.shape), b.dtype) for b in document.buffers),
        "optimizer": _bytes((tuple(s.shape), s.dtype) for s in states),
        "gradients": sum(v.type.nbytes for n, v in train.outputs.items() if n.startswith("grad/")),
        "batch": batch,
        "live": most,
    }
    return {**found, "total": sum(found.values())}


def _bytes(tensors: Iterable[tuple[tuple[int, ...], str]]) -> int:
    return sum(TensorType(shape, dtype).nbytes for shape, dtype in tensors)


def live(graph: Graph) -> int:
    """The most bytes that results of nodes hold at once, in the graph's order, those in bodies
    included; outputs are kept."""
    last: dict[int, int] = {}
    for place, node in enumerate(graph.nodes):
        for value in (*node.operands, *node.results):
            last[id(value)] = place
    kept = {id(value) for value in graph.outputs.values()}
    inputs = {id(value) for value in graph.inputs.values()}
    held = most = 0
    for place, node in enumerate(graph.nodes):
        inside = max((live(body) for body, _ in runs_of(node)), default=0)
        made = sum(value.type.nbytes for value in node.results)
        most = max(most, held + max(inside, made))
        held += made
        for value in {id(v): v for v in (*node.operands, *node.results)}.values():
            if last[id(value)] == place and id(value) not in kept | inputs:
                held -= value.type.nbytes
    return most
