"""Dead code: leaves out the nodes that no output depends on. Inputs stay. Of a node with a body the
results that nothing reads go too, with all that was done for them. Knows no Lisp."""

from __future__ import annotations

from collections.abc import Callable

from sexpgpu.ir.graph import Graph, Node, Value
from sexpgpu.ops.control import ScanParts
from sexpgpu.passes.rewrite import with_bodies


def run(graph: Graph) -> Graph:
    """The graph without dead nodes; the graph itself when there are none."""
    live: set[Value] = set(graph.outputs.values())
    kept: list[Node] = []
    changed = False
    for node in reversed(graph.nodes):
        for value in node.results:
            if value in live:
                prune = PRUNE.get(node.op)
                if prune is not None:
                    before, node = node, prune(node, live)
                    changed = changed or node is not before
                kept.append(node)
                live.update(node.operands)
                break
    if len(kept) == len(graph.nodes) and not changed:
        return graph
    kept.reverse()
    return Graph(graph.name, graph.inputs, kept, graph.outputs)


def _used(graph: Graph, outputs: list[Value]) -> set[Value]:
    """The values that some outputs depend on, themselves included."""
    live = set(outputs)
    for node in reversed(graph.nodes):
        if not live.isdisjoint(node.results):
            live.update(node.operands)
    return live


def _prune_scan(node: Node, live: set[Value]) -> Node:
    """The scan without stacked results that nothing reads, and without carries that neither are
    read nor feed what is."""
    parts = ScanParts(node.attrs)
    inputs, outputs, results = parts.inputs, parts.outputs, node.results
    carries = {at for at in range(parts.carries) if results[at] in live}
    elements = [at for at in range(parts.carries, len(results)) if results[at] in live]
    while True:
        kept = [*sorted(carries), *elements]
        used = _used(parts.body, [outputs[at] for at in kept])
        more = {at for at in range(parts.carries) if inputs[at] in used} - carries
        if not more:
            break
        carries |= more
    fed = [at for at, value in enumerate(inputs) if value in used or at in carries]
    names, ends = list(parts.body.inputs), list(parts.body.outputs)
    if len(kept) < len(outputs) or len(fed) < len(inputs):
        body = Graph(
            parts.body.name,
            {names[at]: inputs[at] for at in fed},
            parts.body.nodes,
            {ends[at]: outputs[at] for at in kept},
        )
        attrs = {
            **node.attrs,
            "body": run(body),
            "carries": len(carries),
            "sequences": sum(1 for at in fed if parts.carries <= at < parts.first_captured),
        }
        operands = tuple([node.operands[at] for at in fed])
        found = tuple([results[at] for at in kept])
        return Node(node.op, operands, attrs, found, node.origin, node.numerics)
    return with_bodies(node, run)


def _prune_recompute(node: Node, live: set[Value]) -> Node:
    """The recompute without results that nothing reads and operands that then are of no use."""
    body: Graph = node.attrs["body"]
    names = [name for name, r in zip(body.outputs, node.results, strict=True) if r in live]
    outputs = {name: body.outputs[name] for name in names}
    used = _used(body, list(outputs.values()))
    fed = [at for at, value in enumerate(body.inputs.values()) if value in used]
    if len(outputs) == len(body.outputs) and len(fed) == len(body.inputs):
        return with_bodies(node, run)
    inputs = list(body.inputs.items())
    attrs = {
        **node.attrs,
        "body": run(Graph(body.name, dict([inputs[at] for at in fed]), body.nodes, outputs)),
        "arguments": sum(1 for at in fed if at < node.attrs["arguments"]),
    }
    operands = tuple([node.operands[at] for at in fed])
    results = tuple([value for value in node.results if value in live])
    return Node(node.op, operands, attrs, results, node.origin, node.numerics)


PRUNE: dict[str, Callable[[Node, set[Value]], Node]] = {
    "recompute": _prune_recompute,
    "scan": _prune_scan,
}
"""Op with a body -> the node for the results that are live."""


def without_unused_inputs(graph: Graph) -> Graph:
    """The graph without the inputs that nothing reads: whoever runs it need not have them."""
    used = set(graph.outputs.values())
    for node in graph.nodes:
        used.update(node.operands)
    inputs = {name: value for name, value in graph.inputs.items() if value in used}
    if len(inputs) == len(graph.inputs):
        return graph
    return Graph(graph.name, inputs, graph.nodes, graph.outputs)
