"""What a graph costs by the ops' own cost model."""

from __future__ import annotations

from sexpgpu.ir.graph import Graph, Node
from sexpgpu.ops.schema import OPS


def node_cost(node: Node) -> tuple[int, int]:
    """FLOPs (a multiply-add is two) and bytes read and written by a node."""
    return OPS[node.op].cost(
        tuple([value.type for value in node.operands]),
        tuple([value.type for value in node.results]),
        node.attrs,
    )


def graph_cost(graph: Graph) -> tuple[int, int]:
    """FLOPs and bytes of one call of a graph, node by node."""
    flops = moved = 0
    for node in graph.nodes:
        node_flops, node_bytes = node_cost(node)
        flops += node_flops
        moved += node_bytes
    return flops, moved
