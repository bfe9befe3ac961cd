"""Common subexpressions: of nodes that compute the same, keeps the first. Knows no Lisp.

Every op is a pure function of its operands and attributes (random bits too), so equal ones are
one. Nodes under different numerics are not.
"""

from __future__ import annotations

from typing import Any

from sexpgpu.ir.graph import Graph, Node, Value
from sexpgpu.ir.structure import attrs_key
from sexpgpu.passes.rewrite import rebuilt, substituted, with_bodies


def run(graph: Graph) -> Graph:
    """The graph without repeated nodes; the graph itself when there are none."""
    replaced: dict[Value, Value] = {}
    seen: dict[Any, Node] = {}
    kept: list[Node] = []
    changed = False
    for old in graph.nodes:
        node = with_bodies(substituted(old, replaced), run)
        changed = changed or node is not old
        key = (node.op, node.operands, attrs_key(node.attrs), node.numerics)
        first = seen.get(key)
        if first is None:
            seen[key] = node
            kept.append(node)
        else:
            replaced.update(zip(node.results, first.results, strict=True))
    return rebuilt(graph, kept, replaced) if replaced or changed else graph
