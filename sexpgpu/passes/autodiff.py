"""Reverse-mode differentiation of graphs: the ops' VJP rules, composed. Knows no Lisp.

What it emits are ordinary ops, so it applies to its own output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from sexpgpu.diagnostics.codes.tensor import E_GRAD_001, E_GRAD_002, E_GRAD_003
from sexpgpu.diagnostics.model import Diagnostic, SxError, located
from sexpgpu.ir.graph import Builder, Graph, Node, Value
from sexpgpu.ir.numerics import ISLAND_F32
from sexpgpu.ir.types import FLOATS
from sexpgpu.ops import OPS, infer
from sexpgpu.ops.building import full_like, zeros_like
from sexpgpu.ops.schema import Cotangents, NoGrad, OfBody
from sexpgpu.passes.body_vjp import custom_vjp, recompute_vjp
from sexpgpu.passes.scan_vjp import scan_vjp
from sexpgpu.source import NOWHERE, Origin

NOTE = "gradient"

# Of the ops that compute in f32, those whose derivative is no more than a sum or a move. The
# derivatives of the others compute in f32 too.
_LINEAR = frozenset({"cumsum", "mean", "put-along-add", "scatter-add", "sum", "take-add"})

# Element by element, a cotangent times something that may be infinite or NaN. Where a `select`
# has put a cotangent of 0, that must come out as 0: 0 * inf would bring the branch not taken back.
_SINGULAR = frozenset(
    {
        "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh",
        "div", "erf", "erf-inv", "erfc", "exp", "expm1", "lgamma", "log", "log1p", "mod", "mul",
        "pow", "rem", "rsqrt", "sigmoid", "sin", "sinh", "softplus", "sqrt", "tan", "tanh",
    }
)  # fmt: skip


def gradients(
    b: Builder, outputs: Sequence[tuple[Value, Value]], wrt: Sequence[Value]
) -> list[Value | None]:
    """The cotangents of `wrt`, given those of some outputs, appended to the builder's nodes.

    outputs   (value, its cotangent of the same shape and dtype)
    wrt       float values of the builder: inputs, or results of nodes
    returns   for each of `wrt` a value of its shape and dtype, or None where no output depends on
              it by a path that carries gradient

    Only nodes on a path from `wrt` to an output are visited. A value that is used several times
    gets the sum of the cotangents, in the order of its uses from the last. Nodes made carry the
    origin of what they differentiate, noted "gradient", and its numerics. Of a `select`, no NaN
    comes back through the branch that is not taken, unless through a product of matrices.
    Raises SxError (E-GRAD-001, E-GRAD-003).
    """
    for value in wrt:
        if value.dtype not in FLOATS:
            raise SxError(
                Diagnostic(E_GRAD_003, f"gradient with respect to {value.type}, wanted a float")
            )
    kept_origin, kept_numerics = b.origin, b.numerics
    try:
        return Reverse(b, wrt).run(outputs)
    finally:
        b.origin, b.numerics = kept_origin, kept_numerics


class Reverse:
    """One backward walk. The rules of ops with bodies take part in it: they differentiate graphs
    of their own (`within`), and may put another node in place of theirs (`replace`)."""

    __slots__ = ("active", "b", "constants", "masked", "nodes", "origins", "pending", "wrt")

    def __init__(self, b: Builder, wrt: Sequence[Value]) -> None:
        self.b = b
        self.wrt = wrt
        self.pending: dict[Value, list[Value]] = {}
        self.origins: dict[int, Origin] = {}
        self.active: set[Value] = set(wrt)
        self.nodes: list[Node] = []
        self.constants: set[Value] = set()
        self.masked: set[Value] = set()  # their cotangents have zeros that a select has put
        self._find_paths()

    def _find_paths(self) -> None:
        """The nodes that carry a gradient of `wrt` forward, and their float results."""
        active = self.active
        for node in self.b.nodes:
            for operand in node.operands:
                if operand in active:
                    break
            else:
                if node.op == "full":
                    self.constants.add(node.results[0])
                continue
            rule = OPS[node.op].vjp
            if isinstance(rule, NoGrad) and not rule.refuses:
                continue
            results = [value for value in node.results if value.dtype in FLOATS]
            if results:
                active.update(results)
                self.nodes.append(node)

    def within(self, b: Builder, wrt: Sequence[Value]) -> Reverse:
        """A walk of a body."""
        return Reverse(b, wrt)

    def replace(self, node: Node, other: Node) -> None:
        """Put a node with the same results, and more, in place of one of the builder."""
        nodes = self.b.nodes
        nodes[next(at for at, found in enumerate(nodes) if found is node)] = other

    def run(self, outputs: Sequence[tuple[Value, Value]]) -> list[Value | None]:
        """The cotangents of `wrt` for those of some outputs."""
        self.walk(outputs)
        self.b.origin, self.b.numerics = self.origin(NOWHERE), ISLAND_F32
        return [self.total(value) for value in self.wrt]

    def walk(self, outputs: Sequence[tuple[Value, Value]]) -> None:
        """From the outputs back to `wrt`, whose cotangents are then pending."""
        for value, cotangent in outputs:
            if not value.type.same_value(cotangent.type):
                raise ValueError(f"cotangent {cotangent.type} of a value {value.type}")
            self.give(value, cotangent)
        wanted = set(self.wrt)
        for node in reversed(self.nodes):
            for value in node.results:
                if value in self.pending:
                    break
            else:
                continue
            self.visit(node, wanted)

    def give(self, value: Value, cotangent: Value) -> None:
        if value in self.active:
            found = self.pending.get(value)
            if found is None:
                self.pending[value] = [cotangent]
            else:
                found.append(cotangent)

    def uses(self, value: Value) -> Sequence[Value]:
        """The cotangents given to a value, one for each use from the last."""
        return self.pending.get(value, ())

    def total(self, value: Value) -> Value | None:
        """The sum of the cotangents given to a value, which from now on is one."""
        found = self.pending.get(value)
        if found is None:
            return None
        if len(found) > 1:
            added = found[0]
            for more in found[1:]:
                added = self.b.emit("add", added, more)
            self.pending[value] = found = [added]
        return found[0]

    def visit(self, node: Node, wanted: set[Value]) -> None:
        b = self.b
        b.origin, b.numerics = self.origin(node.origin), node.numerics
        op = OPS[node.op]
        if b.numerics is None and op.precision == "f32" and node.op not in _LINEAR:
            b.numerics = ISLAND_F32
        rule = op.vjp
        if isinstance(rule, NoGrad):
            headline = f"{node.op} has no derivative: {rule.reason}"
            raise SxError(Diagnostic(E_GRAD_001, headline, *located(node.origin)))
        cotangents = tuple([self.total(value) for value in node.results])
        for value in node.results:
            if value not in wanted:
                self.pending.pop(value, None)
        if isinstance(rule, OfBody):
            self.hand_on(node, BODY_RULES[node.op](self, node, cotangents))
            return
        found = rule(b, node, cotangents)
        if node.op == "select":
            self.masked.update(node.operands[1:])
        elif op.precision != "matmul" and not self.masked.isdisjoint(node.results):
            self.masked.update(node.operands)
            if node.op in _SINGULAR and self.constants.isdisjoint(node.operands):
                found = self.guarded(cotangents[0], found)
        self.hand_on(node, found)

    def hand_on(self, node: Node, found: Cotangents) -> None:
        for operand, cotangent in zip(node.operands, found, strict=True):
            if cotangent is not None:
                self.give(operand, cotangent)

    def guarded(self, dy: Value | None, found: Cotangents) -> Cotangents:
        """Cotangents of operands that are 0 where that of the result is."""
        assert dy is not None
        b = self.b
        zero = zeros_like(b, dy)
        still = b.emit("eq", dy, zero)
        return tuple([b.emit("select", still, zero, v) if v is not None else None for v in found])

    def origin(self, origin: Origin) -> Origin:
        made = self.origins.get(id(origin))
        if made is None:
            note = NOTE if not origin.note else f"{NOTE} of {origin.note}"
            made = self.origins[id(origin)] = origin.derived(note)
        return made


BodyRule: TypeAlias = "Callable[[Reverse, Node, Cotangents], Cotangents]"

BODY_RULES: dict[str, BodyRule] = {
    "custom-vjp": custom_vjp,
    "recompute": recompute_vjp,
    "scan": scan_vjp,
}
"""Op with a body -> its derivative."""


def vjp(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """The cotangents of one node's operands, appended to the builder that has the node."""
    rule = OPS[node.op].vjp
    if isinstance(rule, OfBody):
        floats = [value for value in node.operands if value.dtype in FLOATS]
        reverse = Reverse(b, floats)
        reverse.hand_on(node, BODY_RULES[node.op](reverse, node, cotangents))
        return tuple([reverse.total(value) for value in node.operands])
    assert not isinstance(rule, NoGrad)
    return rule(b, node, cotangents)


def extended(graph: Graph) -> Builder:
    """A builder that goes on where a graph ends. The graph itself is not changed."""
    b = Builder(infer)
    b.inputs.update(graph.inputs)
    b.nodes.extend(graph.nodes)
    return b


def differentiate(graph: Graph, output: str, wrt: Mapping[str, str]) -> Graph:
    """The graph with the gradients of one scalar float output as further outputs.

    wrt   name of the new output -> name of a float input; an input that the output does not depend
          on gets zeros
    Raises SxError (E-GRAD-001 to E-GRAD-003).
    """
    value = graph.outputs[output]
    if value.shape != () or value.dtype not in FLOATS:
        headline = f"gradient of {output!r}, {value.type}, wanted a float scalar"
        raise SxError(Diagnostic(E_GRAD_002, headline))
    b = extended(graph)
    b.origin = NOWHERE.derived(NOTE)
    seed = full_like(b, 1.0, value)
    inputs = [graph.inputs[name] for name in wrt.values()]
    outputs = dict(graph.outputs)
    for name, input, found in zip(wrt, inputs, gradients(b, [(value, seed)], inputs), strict=True):
        outputs[name] = found if found is not None else zeros_like(b, input)
    return b.finish(graph.name, outputs)
