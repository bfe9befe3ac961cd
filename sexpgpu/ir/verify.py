"""Checks a graph: references, order, names, limits, and every type inferred again.

Knows no ops: whoever asks brings their inference.
"""

from __future__ import annotations

from typing import Any, NoReturn

from sexpgpu.diagnostics.codes.tensor import (
    E_IR_003,
    E_IR_004,
    E_IR_005,
    E_IR_006,
    E_IR_007,
    E_IR_008,
)
from sexpgpu.diagnostics.model import Code, Diagnostic, Label, Note, SxError, located
from sexpgpu.ir.graph import Attr, Graph, Infer, Node, OpError, Value, kind_of
from sexpgpu.ir.numerics import parse_numerics
from sexpgpu.ir.types import ITEMSIZE, TensorType


class Limits:
    """How large a graph may be: nodes (those of graphs within graphs count), bytes of one tensor,
    and depth of graphs and lists within attributes."""

    __slots__ = ("nbytes", "nesting", "nodes")

    def __init__(self, nodes: int = 1_000_000, nbytes: int = 1 << 42, nesting: int = 16) -> None:
        self.nodes = nodes
        self.nbytes = nbytes
        self.nesting = nesting


LIMITS = Limits()


def verify(graph: Graph, infer: Infer, limits: Limits = LIMITS) -> None:
    """Raise SxError, with an IR code and the node's place, when the graph is not sound."""
    _Verifier(infer, limits).graph(graph, 0)


class _Verifier:
    """One check of a graph and the graphs in its attributes."""

    __slots__ = ("count", "infer", "limits")

    def __init__(self, infer: Infer, limits: Limits) -> None:
        self.infer = infer
        self.limits = limits
        self.count = 0

    def graph(self, graph: Graph, depth: int) -> None:
        if depth > self.limits.nesting:
            _refuse(E_IR_006, f"graph {graph.name}: over {self.limits.nesting} graphs deep")
        self.count += len(graph.nodes)
        if self.count > self.limits.nodes:
            _refuse(E_IR_006, f"graph {graph.name}: over {self.limits.nodes} nodes")
        defined: set[Value] = set()
        for name, value in graph.inputs.items():
            where = f"graph {graph.name}, input {name!r}"
            if value in defined:
                _refuse(E_IR_008, f"{where} is another input too")
            self.type(value.type, where)
            defined.add(value)
        for index, node in enumerate(graph.nodes):
            self.node(graph, index, node, defined, depth)
            defined.update(node.results)
        for name, value in graph.outputs.items():
            if value not in defined:
                _refuse(E_IR_004, f"graph {graph.name}: output {name!r} is no value of the graph")

    def node(self, graph: Graph, index: int, node: Node, defined: set[Value], depth: int) -> None:
        def where() -> str:
            return f"graph {graph.name}, node {index} ({node.op})"

        for place, operand in enumerate(node.operands):
            if operand not in defined:
                _refuse(E_IR_004, f"{where()}: operand {place} is not defined before", node)
        for key, attr in node.attrs.items():
            self.attr(attr, f"{where()}, attribute {key}", node, depth)
        try:
            parse_numerics(node.numerics)
        except ValueError as error:
            _refuse(E_IR_003, f"{where()}: {error}", node)
        try:
            types = self.infer(node.op, tuple([v.type for v in node.operands]), node.attrs)
        except OpError as error:
            note = Note(f"{error.code.id}: {error.code.title}")
            _refuse(E_IR_007, f"{where()}: {error.message}", node, note)
        if len(types) != len(node.results):
            _refuse(
                E_IR_005,
                f"{where()}: gives {len(types)} results, {len(node.results)} are written",
                node,
            )
        for type, result in zip(types, node.results, strict=True):
            if result.type != type:
                _refuse(
                    E_IR_005,
                    f"{where()}: gives {_text(type)}, {_text(result.type)} is written",
                    node,
                )
            if type.nbytes > self.limits.nbytes:
                _refuse(E_IR_006, f"{where()}: a tensor of {type.nbytes} bytes", node)
            if result in defined:
                _refuse(E_IR_008, f"{where()}: a result is defined before", node)

    def attr(self, attr: Attr, where: str, node: Node, depth: int) -> None:
        if kind_of(attr) is tuple:
            if depth >= self.limits.nesting:
                _refuse(E_IR_006, f"{where}: over {self.limits.nesting} lists deep", node)
            items: tuple[Any, ...] = attr
            for item in items:
                if type(item) is tuple or type(item) is Graph:
                    self.attr(item, where, node, depth + 1)
        elif type(attr) is Graph:
            self.graph(attr, depth + 1)

    def type(self, type: TensorType, where: str) -> None:
        shape, dtype, batch = type
        if dtype not in ITEMSIZE:
            _refuse(E_IR_003, f"{where}: there is no dtype {dtype!r}")
        if any(extent < 0 for extent in shape):
            _refuse(E_IR_003, f"{where}: shape {shape} has a negative extent")
        if batch is not None and not 0 <= batch < len(shape):
            _refuse(E_IR_003, f"{where}: batch axis {batch} of shape {shape}")
        if type.nbytes > self.limits.nbytes:
            _refuse(E_IR_006, f"{where}: a tensor of {type.nbytes} bytes")


def _text(type: TensorType) -> str:
    return str(type) if type.batch is None else f"{type} with batch axis {type.batch}"


def _refuse(code: Code, headline: str, node: Node | None = None, *notes: Note) -> NoReturn:
    labels: list[Label] = []
    found: list[Note] = list(notes)
    if node is not None:
        labels, more = located(node.origin)
        found += more
    raise SxError(Diagnostic(code, headline, labels, found))
