"""Floating point operations and bytes of graphs, by model path and by source line.

Counts are those of the graph as it is written: an op's own rule (`ops/`), every operand read and
every result written once. A backend that fuses ops moves fewer bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from sexpgpu.ir.graph import Graph, Node
from sexpgpu.ops.control import runs_of
from sexpgpu.ops.totals import node_cost


class Cost:
    """FLOPs and bytes that add up."""

    __slots__ = ("bytes", "flops", "nodes")

    def __init__(self) -> None:
        self.flops = 0
        self.bytes = 0
        self.nodes = 0

    def add(self, node: Node, times: int = 1) -> None:
        flops, moved = node_cost(node)
        self.flops += flops * times
        self.bytes += moved * times
        self.nodes += 1

    def to_json(self) -> dict[str, int]:
        return {"flops": self.flops, "bytes": self.bytes, "nodes": self.nodes}


def nodes_run(graph: Graph, times: int = 1) -> Iterator[tuple[Node, int]]:
    """Every node that a graph runs, those of bodies in place of what has them, and how often."""
    for node in graph.nodes:
        runs = runs_of(node)
        for body, often in runs:
            yield from nodes_run(body, times * often)
        if not runs:
            yield node, times


def nodes_once(graph: Graph) -> Iterator[Node]:
    """Every node, each before those of its body, but for what the backward pass runs again."""
    for node in graph.nodes:
        yield node
        if not node.attrs.get("again", False):
            for body, _ in runs_of(node):
                yield from nodes_once(body)


def whole_cost(graph: Graph) -> Cost:
    """The cost of a graph: that of its paths, or of its lines, together."""
    total = Cost()
    for node, times in nodes_run(graph):
        total.add(node, times)
    return total


def cost_by_path(graph: Graph) -> dict[str, Cost]:
    """Cost by model path; "" is what belongs to no model. Backward nodes count where their
    forward node does."""
    found: dict[str, Cost] = {}
    for node, times in nodes_run(graph):
        found.setdefault(node.origin.path, Cost()).add(node, times)
    return found


def cost_by_line(graph: Graph) -> dict[tuple[str, int], Cost]:
    """Cost by source line of the user's files (name, line); ("", 0) for what has no place."""
    found: dict[tuple[str, int], Cost] = {}
    for node, times in nodes_run(graph):
        span = node.origin.user_span
        key = ("", 0) if span is None else (span.source.name, span.line)
        found.setdefault(key, Cost()).add(node, times)
    return found
