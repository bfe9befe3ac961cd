"""What a graph costs by the ops' own cost model."""

from __future__ import annotations

from sexpgpu.ir.graph import Graph
from sexpgpu.ops.schema import OPS


def graph_cost(graph: Graph) -> tuple[int, int]:
    """FLOPs (a multiply-add is two) and bytes read and written by one call, node by node."""
    flops = moved = 0
    for node in graph.nodes:
        node_flops, node_bytes = OPS[node.op].cost(
            tuple([value.type for value in node.operands]),
            tuple([value.type for value in node.results]),
            node.attrs,
        )
        flops += node_flops
        moved += node_bytes
    return flops, moved
