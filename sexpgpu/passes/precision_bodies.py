"""The precision policy for ops with bodies. Knows no Lisp.

A body is rewritten as a graph of its own, told what is known of its operands. A carry of a scan is
kept in 16 bits when what it starts from is, or when the body computes it in 16 bits; else in f32.
Elements are stacked as they are computed. A cast of a captured tensor is done once, before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sexpgpu.ir.graph import Graph, Node, Value
from sexpgpu.ir.types import TensorType
from sexpgpu.ops import infer
from sexpgpu.ops.control import ScanParts

if TYPE_CHECKING:
    from sexpgpu.passes.precision import Precision

F32 = "f32"


class _Body:
    """A body while it is rewritten: `inner` holds what became of its values, `new` its inputs."""

    __slots__ = ("inner", "new")

    def __init__(self, p: Precision, body: Graph) -> None:
        self.inner = type(p)(body, p.policy)
        self.new: list[Value] = []

    def enter(self, old: Value, dtype: str, low: bool, master: bool) -> None:
        """Give an input the dtype in which its operand comes."""
        inner = self.inner
        if old.dtype != F32:
            self.new.append(old)
            return
        value = old if dtype == F32 else Value(TensorType(old.shape, dtype, old.type.batch))
        self.new.append(value)
        inner.versions[old] = {dtype: value}
        if low:
            inner.low.add(old)
        if master:
            inner.masters.add(old)

    def visit(self) -> None:
        for node in self.inner.graph.nodes:
            self.inner.visit(node)

    def computed(self, old: Value) -> str:
        """The dtype in which an f32 value of the body was computed."""
        versions = self.inner.versions.get(old)
        return old.dtype if versions is None else next(iter(versions))

    def leave(self, old: Value, dtype: str | None, why: str) -> Value:
        inner = self.inner
        inner.origin = inner.graph.nodes[-1].origin if inner.graph.nodes else inner.origin
        inner.numerics = None
        return inner.read(old, dtype, why)


def scan_precision(p: Precision, node: Node) -> None:
    """Append the scan under the policy."""
    parts = ScanParts(node.attrs)
    sixteen: set[int] = {at for at in range(parts.carries) if node.operands[at] in p.low}
    while True:
        body = _entered(p, node, parts, sixteen)
        body.visit()
        more = {
            at
            for at in range(parts.carries)
            if parts.inputs[at].dtype == F32 and body.computed(parts.outputs[at]) == p.policy
        } - sixteen
        if p.policy == F32 or not more:
            break
        sixteen |= more
    operands = [
        p.read(operand, p.policy if at in sixteen else None, f"carry {at} is {p.policy}")
        for at, operand in enumerate(node.operands)
    ]
    outputs: dict[str, Value] = {}
    for at, (name, old) in enumerate(parts.body.outputs.items()):
        dtype = None
        if at < parts.carries and old.dtype == F32:
            dtype = operands[at].dtype
        outputs[name] = body.leave(old, dtype, f"carry {at} is {dtype}")
    inputs = dict(zip(parts.body.inputs, body.new, strict=True))
    nodes = _hoisted(p, node, parts, body, inputs, operands)
    low = [parts.outputs[at] in body.inner.low for at in range(len(parts.outputs))]
    _emit(p, node, inputs, nodes, outputs, operands, low)


def _entered(p: Precision, node: Node, parts: ScanParts, sixteen: set[int]) -> _Body:
    body = _Body(p, parts.body)
    for at, (old, operand) in enumerate(zip(parts.inputs, node.operands, strict=True)):
        dtype = F32
        if operand in p.versions:
            dtype = p.policy if at in sixteen else next(iter(p.versions[operand]))
        low = operand in p.low or at in sixteen
        # a carry is a parameter in the first iteration at most
        body.enter(old, dtype, low, operand in p.masters and at >= parts.carries)
    return body


def _hoisted(
    p: Precision,
    node: Node,
    parts: ScanParts,
    body: _Body,
    inputs: dict[str, Value],
    operands: list[Value],
) -> list[Node]:
    """The body's nodes without the casts of captured tensors that the policy added: they become
    captured tensors of their own, cast outside."""
    captured = {
        body.new[at]: node.operands[at]
        for at in range(parts.first_captured, len(parts.inputs))
        if node.operands[at] in p.versions
    }
    kept: list[Node] = []
    number = len(inputs)
    for made in body.inner.nodes:
        why = body.inner.added.get(made)
        outer = captured.get(made.operands[0]) if why is not None else None
        if outer is None or why is None:
            kept.append(made)
            continue
        p.origin, p.numerics = made.origin, made.numerics
        while f"outer/{number}" in inputs:
            number += 1
        inputs[f"outer/{number}"] = made.result
        operands.append(p.read(outer, made.result.dtype, why))
    p.origin, p.numerics = node.origin, node.numerics
    return kept


def _emit(
    p: Precision,
    node: Node,
    inputs: dict[str, Value],
    nodes: list[Node],
    outputs: dict[str, Value],
    operands: list[Value],
    low: list[bool],
) -> None:
    old = node.attrs["body"]
    same = (
        tuple(operands) == node.operands
        and inputs == old.inputs
        and outputs == old.outputs
        and len(nodes) == len(old.nodes)
        and all(a is b for a, b in zip(nodes, old.nodes, strict=True))
    )
    made = node
    if not same:
        attrs = {**node.attrs, "body": Graph(old.name, inputs, nodes, outputs)}
        types = infer(node.op, tuple([v.type for v in operands]), attrs)
        results = tuple([Value(type) for type in types])
        made = Node(node.op, tuple(operands), attrs, results, node.origin, node.numerics)
    p.nodes.append(made)
    for before, after, is_low in zip(node.results, made.results, low, strict=True):
        if before.dtype == F32:
            p.versions[before] = {after.dtype: after}
            if is_low:
                p.low.add(before)
        elif after is not before:
            p.others[before] = after


def recompute_precision(p: Precision, node: Node) -> None:
    """Append the recompute under the policy. Casts stay inside: they are run again, too."""
    graph: Graph = node.attrs["body"]
    body = _Body(p, graph)
    for old, operand in zip(graph.inputs.values(), node.operands, strict=True):
        dtype = next(iter(p.versions[operand])) if operand in p.versions else F32
        body.enter(old, dtype, operand in p.low, operand in p.masters)
    body.visit()
    operands = [p.read(operand, None, "") for operand in node.operands]
    outputs = {name: body.leave(old, None, "") for name, old in graph.outputs.items()}
    inputs = dict(zip(graph.inputs, body.new, strict=True))
    low = [old in body.inner.low for old in graph.outputs.values()]
    _emit(p, node, inputs, body.inner.nodes, outputs, operands, low)


def custom_precision(p: Precision, node: Node) -> None:
    """What the function gave, as it was computed: its derivative has been taken."""
    for operand, result in zip(node.operands, node.results, strict=False):
        if operand in p.versions:
            p.versions[result] = p.versions[operand]
            if operand in p.low:
                p.low.add(result)
        else:
            p.others[result] = p.others.get(operand, operand)


BODY_PRECISION = {
    "custom-vjp": custom_precision,
    "recompute": recompute_precision,
    "scan": scan_precision,
}
"""Op with a body -> what the policy makes of it."""
