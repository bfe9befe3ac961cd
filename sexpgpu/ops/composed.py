"""Derivatives of an op by way of an equal composition of simpler ops. Knows no backend.

For ops whose derivative is seldom wanted: the composition is emitted where the derivative is asked
for, and its nodes are walked backward with their own rules. What only the composition's value
needed is dead code afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sexpgpu.ir.graph import Builder, Node, Value
from sexpgpu.ops.schema import OPS, Cotangents, VjpRule

# compose(builder, node) -> values equal to the node's results, made of its operands
Compose: TypeAlias = "Callable[[Builder, Node], tuple[Value, ...]]"


def vjp_by_composition(compose: Compose) -> VjpRule:
    """The VJP rule of an op that `compose` states in other ops."""

    def vjp(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
        start = len(b.nodes)
        results = compose(b, node)
        made = b.nodes[start:]
        pending: dict[Value, Value] = {}

        def give(value: Value, cotangent: Value) -> None:
            before = pending.get(value)
            pending[value] = cotangent if before is None else b.emit("add", before, cotangent)

        for value, cotangent in zip(results, cotangents, strict=True):
            if cotangent is not None:
                give(value, cotangent)
        for inner in reversed(made):
            rule = OPS[inner.op].vjp
            found = tuple([pending.pop(value, None) for value in inner.results])
            if not callable(rule) or all(cotangent is None for cotangent in found):
                continue
            for operand, cotangent in zip(inner.operands, rule(b, inner, found), strict=True):
                if cotangent is not None:
                    give(operand, cotangent)
        # a value that is several operands gets all that is its due as the first of them
        return tuple([pending.pop(operand, None) for operand in node.operands])

    return vjp
