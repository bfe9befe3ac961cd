"""What an op costs: floating point operations, and bytes read and written if nothing is fused.

Counts are of the arithmetic, not of instructions: an add, a multiply, an exp are one each.
"""

from __future__ import annotations

from math import prod

from sexpgpu.ir.graph import Attrs
from sexpgpu.ops.schema import CostRule, Types


def moved(types: Types, results: Types) -> int:
    """Bytes of all operands and results."""
    return sum(t.nbytes for t in types) + sum(t.nbytes for t in results)


def per_element(operations: int = 1) -> CostRule:
    """So many operations for each element of the result."""

    def cost(types: Types, results: Types, attrs: Attrs) -> tuple[int, int]:
        return operations * results[0].size, moved(types, results)

    return cost


def per_operand_element(operations: int = 1) -> CostRule:
    """So many operations for each element of the first operand: reductions."""

    def cost(types: Types, results: Types, attrs: Attrs) -> tuple[int, int]:
        return operations * types[0].size, moved(types, results)

    return cost


def movement(types: Types, results: Types, attrs: Attrs) -> tuple[int, int]:
    """No arithmetic: operands are read, results written."""
    return 0, moved(types, results)


def gathered(types: Types, results: Types, attrs: Attrs) -> tuple[int, int]:
    """Reads only what it picks: the result twice (read, written), and the indices."""
    return 0, 2 * results[0].nbytes + sum(t.nbytes for t in types[1:])


def scattered(types: Types, results: Types, attrs: Attrs) -> tuple[int, int]:
    """Adds each of `values` (the last operand) in its place of a copy of the first."""
    return types[-1].size, moved(types, results)


def windowed(size_key: str) -> CostRule:
    """One operation for each element of a window, for each element of the smaller tensor."""

    def cost(types: Types, results: Types, attrs: Attrs) -> tuple[int, int]:
        places = min(results[0].size, types[-1].size)
        return places * prod(attrs[size_key]), moved(types, results)

    return cost
