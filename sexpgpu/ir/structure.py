"""What makes two graphs equal: everything but their names and origins."""

from __future__ import annotations

from typing import Any

from sexpgpu.ir.graph import Attr, Attrs, Graph, Value, kind_of


def structure(graph: Graph) -> Any:
    """One hashable key of a graph: equal for graphs that compute the same in the same way."""
    numbers: dict[Value, int] = {}
    inputs: list[Any] = []
    for name, value in graph.inputs.items():
        numbers[value] = len(numbers)
        inputs.append((name, value.type))
    nodes: list[Any] = []
    for node in graph.nodes:
        operands = tuple([numbers[value] for value in node.operands])
        nodes.append((node.op, operands, attrs_key(node.attrs), node.numerics))
        for value in node.results:
            numbers[value] = len(numbers)
    outputs = tuple([(name, numbers[value]) for name, value in graph.outputs.items()])
    return tuple(inputs), tuple(nodes), outputs


def attrs_key(attrs: Attrs) -> Any:
    """Attributes as one hashable key. Unlike ==, it tells 0.0 from -0.0, 1 from 1.0 and from true,
    and knows NaN as itself. Graphs are equal when their structure is."""
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
    if kind is Graph:
        return ("graph", structure(attr))
    return attr
