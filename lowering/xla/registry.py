"""Which lax rule lowers which op.

A rule is `rule(*operands, **attributes) -> array | tuple of arrays`, traced inside one jit. One
that has another form on CPU is declared `by_device` and takes the `Lowering` first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

RuleFunction: TypeAlias = Callable[..., Any]


class Rule(NamedTuple):
    function: RuleFunction
    by_device: bool


RULES: dict[str, Rule] = {}


def lowers(op: str, *, by_device: bool = False) -> Callable[[RuleFunction], RuleFunction]:
    """Declare the lax rule of an op."""

    def add(function: RuleFunction) -> RuleFunction:
        if op in RULES:
            raise ValueError(f"two lax rules for {op!r}")
        RULES[op] = Rule(function, by_device)
        return function

    return add
