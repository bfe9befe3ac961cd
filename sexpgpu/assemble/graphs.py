"""The graphs of a document under construction: equal ones are stored once."""

from __future__ import annotations

from typing import Any

from sexpgpu.ir.document import is_diagnostic
from sexpgpu.ir.graph import Graph
from sexpgpu.ir.structure import structure


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
            # those for diagnostics do not count: nothing may depend on what is watched
            others = [n for n in self.graphs if n.startswith(f"{prefix}/") and not is_diagnostic(n)]
            name = f"{prefix}/{len(others)}"
            self._names[key] = name
            self.graphs[name] = Graph(name, graph.inputs, graph.nodes, graph.outputs)
        return name
