"""The graphs of a document under construction: equal ones are stored once."""

from __future__ import annotations

from typing import Any

from sexpgpu.ir.graph import Graph


def structure(graph: Graph) -> Any:
    """What makes two graphs equal: everything but names of the graph and origins. Hashable."""
    numbers: dict[int, int] = {}
    inputs: list[Any] = []
    for name, value in graph.inputs.items():
        numbers[id(value)] = len(numbers)
        inputs.append((name, value.type))
    nodes: list[Any] = []
    for node in graph.nodes:
        attrs = tuple(sorted((k, _attr(v)) for k, v in node.attrs.items()))
        nodes.append(
            (node.op, tuple([numbers[id(v)] for v in node.operands]), attrs, node.numerics)
        )
        for value in node.results:
            numbers[id(value)] = len(numbers)
    outputs = tuple((name, numbers[id(value)]) for name, value in graph.outputs.items())
    return tuple(inputs), tuple(nodes), outputs


def _attr(value: Any) -> Any:
    if isinstance(value, Graph):
        return structure(value)
    # True == 1 == 1.0 in Python, and 0.0 == -0.0: the repr tells them apart
    return (type(value).__name__, repr(value))


class GraphStore:
    """Named graphs. `shared` gives the name of an equal graph that is already here."""

    __slots__ = ("_names", "graphs")

    def __init__(self) -> None:
        self.graphs: dict[str, Graph] = {}
        self._names: dict[Any, str] = {}

    def add(self, graph: Graph) -> str:
        """Store a graph under its own name, which must be free."""
        if graph.name in self.graphs:
            raise ValueError(f"two graphs are called {graph.name}")
        self.graphs[graph.name] = graph
        return graph.name

    def shared(self, prefix: str, graph: Graph) -> str:
        """The name (`prefix/n`) of this graph, or of an equal one stored before."""
        key = (prefix, structure(graph))
        name = self._names.get(key)
        if name is None:
            name = f"{prefix}/{sum(1 for n in self.graphs if n.startswith(prefix + '/'))}"
            self._names[key] = name
            self.graphs[name] = Graph(name, graph.inputs, graph.nodes, graph.outputs)
        return name
