"""Which NumPy rule evaluates which op.

A rule is `rule(*operands, **attributes) -> array | tuple of arrays`. 16-bit floats reach it as
f32 and what it gives is rounded to the result's dtype, unless it is declared `raw`: a rule that
only moves values, or whose meaning is the representation itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from sexpgpu.ir.graph import Graph

RuleFunction: TypeAlias = Callable[..., Any]
Run: TypeAlias = Callable[[Graph, Sequence[Any]], list[Any]]


class Rule(NamedTuple):
    function: RuleFunction
    raw: bool
    runs: bool


RULES: dict[str, Rule] = {}


def evaluates(
    op: str, *, raw: bool = False, runs: bool = False
) -> Callable[[RuleFunction], RuleFunction]:
    """Declare the NumPy rule of an op."""

    def add(function: RuleFunction) -> RuleFunction:
        if op in RULES:
            raise ValueError(f"two NumPy rules for {op!r}")
        RULES[op] = Rule(function, raw, runs)
        return function

    return add
