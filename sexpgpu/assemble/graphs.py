"""The graphs of a document under construction: equal ones are stored once, and passes that find
no mistakes wait until somebody wants the document."""

from __future__ import annotations

from typing import Any

from sexpgpu.ir.document import is_diagnostic
from sexpgpu.ir.graph import Graph
from sexpgpu.ir.structure import structure
from sexpgpu.passes.pipeline import optimized
from sexpgpu.passes.precision import F32, is_plain


class GraphStore:
    """Named graphs. `shared` gives the name of an equal graph that is already here."""

    __slots__ = ("_names", "_traced", "graphs")

    def __init__(self) -> None:
        self.graphs: dict[str, Graph] = {}
        self._names: dict[Any, str] = {}
        self._traced: list[str] = []  # graphs that have not been through the passes

    def add(self, graph: Graph) -> str:
        """Store a graph under its own name, which must be free."""
        if graph.name in self.graphs:
            raise ValueError(f"two graphs are called {graph.name}")
        self.graphs[graph.name] = graph
        return graph.name

    def passed(self, graph: Graph, precision: str) -> Graph:
        """A traced graph to store, after all passes; where they can find nothing wrong (of plain
        f32 graphs they find nothing), as it is, to go through them in `finish`: a check, which
        only wants to know what is wrong, is done without."""
        if precision != F32 or not is_plain(graph):
            return optimized(graph, precision)
        self._traced.append(graph.name)
        return graph

    def finish(self) -> None:
        """Put through the passes what is still to go there."""
        for name in self._traced:
            self.graphs[name] = optimized(self.graphs[name], F32)
        self._traced.clear()

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
