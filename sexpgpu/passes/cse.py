"""Common subexpressions: of nodes that compute the same, keeps the first. Knows no Lisp.

Every op is a pure function of its operands and attributes (random bits too), so equal ones are
one. Nodes under different numerics are not.
"""

from __future__ import annotations

from typing import Any

from sexpgpu.ir.graph import Attr, Attrs, Graph, Node, Value, kind_of
from sexpgpu.passes.rewrite import rebuilt, substituted


def run(graph: Graph) -> Graph:
    """The graph without repeated nodes; the graph itself when there are none."""
    replaced: dict[Value, Value] = {}
    seen: dict[Any, Node] = {}
    kept: list[Node] = []
    for node in graph.nodes:
        node = substituted(node, replaced)
        key = (node.op, node.operands, attrs_key(node.attrs), node.numerics)
        first = seen.get(key)
        if first is None:
            seen[key] = node
            kept.append(node)
        else:
            replaced.update(zip(node.results, first.results, strict=True))
    return rebuilt(graph, kept, replaced) if replaced else graph


def attrs_key(attrs: Attrs) -> Any:
    """Attributes as one hashable key. Unlike ==, it tells 0.0 from -0.0, 1 from 1.0 and from true,
    and knows NaN as itself."""
    if not attrs:
        return None
    return tuple([(key, _attr_key(attrs[key])) for key in sorted(attrs)])


def _attr_key(attr: Attr) -> Any:
    kind = kind_of(attr)
    if kind is float:
        return ("float", repr(attr))
    if kind is bool:
        return ("bool", attr)
    if kind is tuple:
        for item in attr:
            if type(item) is not int:
                return tuple([_attr_key(item) for item in attr])
    return attr
