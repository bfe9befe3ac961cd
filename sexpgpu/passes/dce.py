"""Dead code: leaves out the nodes that no output depends on. Inputs stay. Knows no Lisp."""

from __future__ import annotations

from sexpgpu.ir.graph import Graph, Node, Value


def run(graph: Graph) -> Graph:
    """The graph without dead nodes; the graph itself when there are none."""
    live: set[Value] = set(graph.outputs.values())
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        for value in node.results:
            if value in live:
                kept.append(node)
                live.update(node.operands)
                break
    if len(kept) == len(graph.nodes):
        return graph
    kept.reverse()
    return Graph(graph.name, graph.inputs, kept, graph.outputs)


def without_unused_inputs(graph: Graph) -> Graph:
    """The graph without the inputs that nothing reads: whoever runs it need not have them."""
    used = set(graph.outputs.values())
    for node in graph.nodes:
        used.update(node.operands)
    inputs = {name: value for name, value in graph.inputs.items() if value in used}
    if len(inputs) == len(graph.inputs):
        return graph
    return Graph(graph.name, inputs, graph.nodes, graph.outputs)
