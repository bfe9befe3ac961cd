"""What the sums of a group and its updates both compute, computed once.

The graphs of `global-sum` and of the update are cut from one trace: what a part of a sum is made of
is often what the update goes on with. Each graph hands such values on to those after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sexpgpu.ir.document import Document
from sexpgpu.ir.graph import Graph, Node, Value
from sexpgpu.ir.structure import attrs_key
from sexpgpu.loop.guarded import guarded

KEPT = "kept"  # an output `kept/N` of a graph, and an input of that name of those after it

_FREE = frozenset({"full", "iota", "broadcast", "reshape"})
"""Ops that compute nothing: done again rather than kept in memory."""


def handed_on(graphs: Sequence[Graph]) -> list[Graph]:
    """Graphs that are called in this order with equal inputs, less what an earlier one computes:
    that is an output `kept/N` of it, and an input of the later."""
    known: dict[Any, int] = {}
    numbers: dict[Value, int] = {}
    makers: dict[int, tuple[int, Value]] = {}  # number -> the first graph that makes it, the value
    for at, graph in enumerate(graphs):
        for name, value in graph.inputs.items():
            numbers[value] = known.setdefault(("input", name, value.type), len(known))
        for node in graph.nodes:
            operands = tuple([numbers[value] for value in node.operands])
            key = (node.op, operands, attrs_key(node.attrs), node.numerics)
            for i, value in enumerate(node.results):
                number = numbers[value] = known.setdefault((key, i), len(known))
                if node.op not in _FREE:
                    makers.setdefault(number, (at, value))
    kept: dict[int, str] = {}
    later = [_without(graph, at, numbers, makers, kept) for at, graph in enumerate(graphs)]
    result: list[Graph] = []
    for at, graph in enumerate(later):
        own = {name: makers[n][1] for n, name in kept.items() if makers[n][0] == at}
        result.append(Graph(graph.name, graph.inputs, graph.nodes, {**graph.outputs, **own}))
    return result


def _without(
    graph: Graph,
    at: int,
    numbers: dict[Value, int],
    makers: dict[int, tuple[int, Value]],
    kept: dict[int, str],
) -> Graph:
    """The graph with what earlier ones make as inputs; notes in `kept` how these are called."""
    given: dict[str, Value] = {}
    needed = set(graph.outputs.values())
    nodes: list[Node] = []
    for node in reversed(graph.nodes):
        wanted = [value for value in node.results if value in needed]
        if not wanted:
            continue
        makes = [makers.get(numbers[value]) for value in wanted]
        if all(made is not None and made[0] < at for made in makes):
            for value in wanted:
                name = kept.setdefault(numbers[value], f"{KEPT}/{len(kept)}")
                given[name] = value
        else:
            nodes.append(node)
            needed.update(node.operands)
    used = {operand for node in nodes for operand in node.operands} | set(graph.outputs.values())
    inputs = {name: value for name, value in graph.inputs.items() if value in used}
    return Graph(graph.name, {**inputs, **given}, nodes[::-1], graph.outputs)


def update_graphs(document: Document) -> dict[str, list[Graph]]:
    """Of each parameter the graphs of its group's sums, in order, and last its guarded update."""
    made: dict[tuple[str, ...], list[Graph]] = {}
    found: dict[str, list[Graph]] = {}
    for path, update in document.updates.items():
        names = (*update.sums, update.graph)
        if names not in made:
            *sums, last = handed_on([document.graphs[name] for name in names])
            made[names] = [*sums, guarded(last)]
        found[path] = made[names]
    return found
