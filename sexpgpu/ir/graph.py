"""Values, nodes, graphs and the builder that tracing, VJP rules and passes use.

A graph is immutable once built. Values are compared by identity, so a new graph may share nodes
and values with the one it was made from. Knows neither the Lisp nor the ops: whoever makes a
Builder gives it type inference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from sexpgpu.ir.types import TensorType
from sexpgpu.source import NOWHERE, Origin

if TYPE_CHECKING:
    from sexpgpu.diagnostics.model import Code

# int, float, bool, str, None, Graph, or tuples of these. Graphs compare by identity.
Attr: TypeAlias = Any
Attrs: TypeAlias = Mapping[str, Attr]
BODY = "body"  # the attribute that is a graph, of an op that runs one
Infer: TypeAlias = Callable[[str, tuple[TensorType, ...], Attrs], tuple[TensorType, ...]]


def kind_of(attr: object) -> type:
    """The Python type of an attribute, exactly: a bool is no int."""
    return type(attr)


class OpError(Exception):
    """Inference refused operands or attributes. `operand` is the index of the one to blame."""

    def __init__(
        self, code: Code, message: str, fix: str | None = None, operand: int | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.fix = fix
        self.operand = operand


class Value:
    """A tensor of a graph: an input, or a result of a node. Compared by identity."""

    __slots__ = ("type",)

    def __init__(self, type: TensorType) -> None:
        self.type = type

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> str:
        return self.type.dtype

    def __repr__(self) -> str:
        return f"<value {self.type}>"


class Node:
    """An op applied to operands, with its results.

    `numerics` is what `with-numerics` said around it (`ir/numerics.py`), or None: the policy.
    """

    __slots__ = ("attrs", "numerics", "op", "operands", "origin", "results")

    def __init__(
        self,
        op: str,
        operands: tuple[Value, ...],
        attrs: Attrs,
        results: tuple[Value, ...],
        origin: Origin,
        numerics: str | None = None,
    ) -> None:
        self.op = op
        self.operands = operands
        self.attrs = attrs
        self.results = results
        self.origin = origin
        self.numerics = numerics

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value

    def __repr__(self) -> str:
        return f"<{self.op} {' '.join(str(v.type) for v in self.operands)}>"


class Graph:
    """Named inputs, nodes in an order of execution, named outputs."""

    __slots__ = ("inputs", "name", "nodes", "outputs")

    def __init__(
        self,
        name: str,
        inputs: Mapping[str, Value],
        nodes: Sequence[Node],
        outputs: Mapping[str, Value],
    ) -> None:
        self.name = name
        self.inputs = dict(inputs)
        self.nodes = tuple(nodes)
        self.outputs = dict(outputs)

    def __repr__(self) -> str:
        return f"<graph {self.name}: {len(self.nodes)} nodes>"


def nodes_within(graph: Graph) -> Iterator[Node]:
    """Every node of a graph, each before those of its body, if it has one."""
    for node in graph.nodes:
        yield node
        body = node.attrs.get(BODY)
        if body is not None:
            yield from nodes_within(body)


def ancestors(graph: Graph, value: Value) -> set[Value]:
    """The values of a graph that one of them is computed from, itself included."""
    found = {value}
    for node in reversed(graph.nodes):
        if not found.isdisjoint(node.results):
            found.update(node.operands)
    return found


class Builder:
    """Appends nodes. `origin` and `numerics` are given to every node until they are changed."""

    __slots__ = ("infer", "inputs", "nodes", "numerics", "origin")

    def __init__(self, infer: Infer, origin: Origin = NOWHERE) -> None:
        self.infer = infer
        self.inputs: dict[str, Value] = {}
        self.nodes: list[Node] = []
        self.origin = origin
        self.numerics: str | None = None

    def input(self, name: str, type: TensorType) -> Value:
        """A new named input. The name must be free."""
        if name in self.inputs:
            raise ValueError(f"graph input {name!r} exists")
        value = self.inputs[name] = Value(type)
        return value

    def emit(self, op: str, *operands: Value, **attrs: Attr) -> Value:
        """Append a node with one result and give that."""
        return self.node(op, operands, attrs).results[0]

    def emit_all(self, op: str, *operands: Value, **attrs: Attr) -> tuple[Value, ...]:
        """Append a node and give all its results."""
        return self.node(op, operands, attrs).results

    def node(self, op: str, operands: tuple[Value, ...], attrs: Attrs) -> Node:
        """Append a node; the result types are inferred (which also checks the operands)."""
        types = self.infer(op, tuple([v.type for v in operands]), attrs)
        results = tuple([Value(t) for t in types])
        node = Node(op, operands, attrs, results, self.origin, self.numerics)
        self.nodes.append(node)
        return node

    def finish(self, name: str, outputs: Mapping[str, Value]) -> Graph:
        return Graph(name, self.inputs, self.nodes, outputs)
