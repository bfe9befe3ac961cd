"""The reverse of ops whose body runs once, and of functions with a derivative of their own. Knows
no Lisp."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sexpgpu.diagnostics.codes.tensor import E_GRAD_004
from sexpgpu.diagnostics.model import Diagnostic, SxError, located
from sexpgpu.ir.graph import Builder, Graph, Node, Value
from sexpgpu.ir.types import FLOATS
from sexpgpu.ops import infer
from sexpgpu.ops.building import zeros_like
from sexpgpu.ops.control import CustomParts
from sexpgpu.ops.schema import Cotangents
from sexpgpu.passes.rewrite import inlined

if TYPE_CHECKING:
    from sexpgpu.passes.autodiff import Reverse


def recompute_vjp(reverse: Reverse, node: Node, cotangents: Cotangents) -> Cotangents:
    """A recompute whose body is the forward part, run again, and the backward part.

    The cotangents that an operand gets from several uses come out one by one, and are added up
    outside: in the order in which they would be without the recompute, so to the same bits."""
    body: Graph = node.attrs["body"]
    outer = reverse.b
    b = Builder(infer, outer.origin)
    b.numerics = outer.numerics
    b.nodes.extend(body.nodes)
    inputs = list(body.inputs.values())
    wanted = [
        input
        for input, operand in zip(inputs, node.operands, strict=True)
        if operand in reverse.active and input.dtype in FLOATS
    ]
    inner = reverse.within(b, wanted)
    seeds: list[tuple[Value, Value]] = []
    for value, result, given in zip(body.outputs.values(), node.results, cotangents, strict=True):
        if result in reverse.masked:
            inner.masked.add(value)
        if given is not None and value.dtype in FLOATS:
            seeds.append((value, Value(value.type)))
    inner.walk(seeds)
    names = {f"cotangent/{at}": seed for at, (_, seed) in enumerate(seeds, len(inputs))}
    count = node.attrs["arguments"]
    own = list(body.inputs.items())
    given = [c for c in cotangents if c is not None and c.dtype in FLOATS]
    uses = {value: inner.uses(value) for value in wanted}
    outputs = {
        f"value/{at}": value for at, value in enumerate(v for found in uses.values() for v in found)
    }
    attrs = {
        "body": Graph(
            f"{body.name}'", {**dict(own[:count]), **names, **dict(own[count:])}, b.nodes, outputs
        ),
        "arguments": count + len(given),
        "again": True,
    }
    operands = (*node.operands[:count], *given, *node.operands[count:])
    results = iter(outer.node("recompute", operands, attrs).results) if outputs else iter(())
    for input, operand in zip(inputs, node.operands, strict=True):
        if input in inner.masked:
            reverse.masked.add(operand)
        for _ in uses.get(input, ()):
            reverse.give(operand, next(results))
    return (None,) * len(node.operands)


def custom_vjp(reverse: Reverse, node: Node, cotangents: Cotangents) -> Cotangents:
    """The body of the derivative, in line: it can be differentiated as any other nodes can. So can
    then the forward function: its own derivative has been taken."""
    b = reverse.b
    parts = CustomParts(node.operands, node.attrs)
    if node.attrs["taken"]:
        return (*cotangents, *[None] * (len(node.operands) - len(parts.results)))
    attrs = {**node.attrs, "taken": True}
    reverse.replace(
        node, Node(node.op, node.operands, attrs, node.results, node.origin, node.numerics)
    )
    for value in parts.others:
        if value in reverse.active:
            name = next((n for n, v in b.inputs.items() if v is value), "")
            what = name.removeprefix("param/") or str(value.type)
            raise SxError(
                Diagnostic(
                    E_GRAD_004,
                    f"custom-vjp: the forward function uses {what}, which is none of its arguments",
                    *located(node.origin),
                    fix="make it an argument, or cut its gradient with stop-gradient",
                )
            )
    given = [
        cotangent if cotangent is not None else zeros_like(b, result)
        for cotangent, result in zip(cotangents, node.results, strict=True)
        if result.dtype in FLOATS
    ]
    found = inlined(b, parts.body, [*parts.residuals, *given])
    made: list[Value | None] = [None] * len(node.operands)
    for at, value in zip(parts.given, found, strict=True):
        made[len(parts.results) + at] = value
    return tuple(made)
