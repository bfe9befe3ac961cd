"""What passes share: a graph with some values put in place of others. Knows no Lisp."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sexpgpu.ir.graph import BODY, Builder, Graph, Node, Value


def substituted(node: Node, replaced: Mapping[Value, Value]) -> Node:
    """The node with replaced operands; the node itself when none is. Its results are kept."""
    for value in node.operands:
        if value in replaced:
            operands = tuple([replaced.get(v, v) for v in node.operands])
            return Node(node.op, operands, node.attrs, node.results, node.origin, node.numerics)
    return node


def with_bodies(node: Node, rewrite: Callable[[Graph], Graph]) -> Node:
    """The node with its body rewritten; itself when it has none, or that does not change. The
    body's inputs and outputs stay."""
    body = node.attrs.get(BODY)
    if body is None:
        return node
    made = rewrite(body)
    if made is body:
        return node
    attrs = {**node.attrs, BODY: made}
    return Node(node.op, node.operands, attrs, node.results, node.origin, node.numerics)


def rebuilt(graph: Graph, nodes: Sequence[Node], replaced: Mapping[Value, Value]) -> Graph:
    """The graph with those nodes, and with outputs replaced."""
    outputs = {name: replaced.get(value, value) for name, value in graph.outputs.items()}
    return Graph(graph.name, graph.inputs, nodes, outputs)


def inlined(b: Builder, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
    """The outputs of a graph for these inputs, its nodes appended to the builder."""
    known = dict(zip(graph.inputs.values(), inputs, strict=True))
    kept = b.origin, b.numerics
    for node in graph.nodes:
        b.origin, b.numerics = node.origin, node.numerics
        operands = tuple([known[value] for value in node.operands])
        known.update(zip(node.results, b.node(node.op, operands, node.attrs).results, strict=True))
    b.origin, b.numerics = kept
    return [known[value] for value in graph.outputs.values()]
