"""The last thing done to a traced graph: the passes, and inputs that nothing reads left out."""

from __future__ import annotations

from sexpgpu.ir.graph import Graph
from sexpgpu.passes.pipeline import Options, run


def optimized(graph: Graph, precision: str, keep: tuple[str, ...] = ()) -> Graph:
    """The graph after all passes, without unread inputs but for those in `keep`."""
    done = run(graph, Options(precision))
    used = {value for node in done.nodes for value in node.operands}
    used.update(done.outputs.values())
    inputs = {n: v for n, v in done.inputs.items() if v in used or n in keep}
    return Graph(done.name, inputs, done.nodes, done.outputs)


def closed(graph: Graph) -> Graph:
    """A graph that the precision policy does not touch: initial values, schedules, updates."""
    return optimized(graph, "f32")
