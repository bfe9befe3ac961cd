"""Which lax rule lowers which op.

A rule is `rule(*operands, **attributes) -> array | tuple of arrays`, traced inside one jit. One
that has another form on CPU is declared `by_device` and takes the `Lowering` first. One that `runs`
graphs takes first what runs one: `run(graph, arrays for its inputs in order) -> its outputs`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from sexpgpu.ir.graph import Graph
from sexpgpu.lowering.xla.options import Lowering

RuleFunction: TypeAlias = Callable[..., Any]


class Run(Protocol):
    """Traces a graph inside the one that is traced."""

    @property
    def lowering(self) -> Lowering: ...

    def __call__(self, graph: Graph, values: Sequence[Any]) -> list[Any]: ...


class Rule(NamedTuple):
    function: RuleFunction
    by_device: bool
    runs: bool


RULES: dict[str, Rule] = {}


def lowers(
    op: str, *, by_device: bool = False, runs: bool = False
) -> Callable[[RuleFunction], RuleFunction]:
    """Declare the lax rule of an op."""

    def add(function: RuleFunction) -> RuleFunction:
        if op in RULES:
            raise ValueError(f"two lax rules for {op!r}")
        RULES[op] = Rule(function, by_device, runs)
        return function

    return add
