"""The operator that `loop` repeats with: statements and exits, without tags, jumps or blocks.

    (REPEAT item…)   each item is a form, (UNTIL test) or (WHILE test); runs the items again and
                     again until one of the exits says so

Both are operator objects that only expansions can hold. It is what makes `loop` as quick as `do`.
"""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.analyze import analyze_car, site_here
from sexpgpu.lisp.hostforms import Operator
from sexpgpu.lisp.nodes import (
    Node,
    Run,
    Test,
    sequence,
)
from sexpgpu.lisp.scope import Frame, Scope
from sexpgpu.lisp.state import STATE, Site
from sexpgpu.lisp.tiers import LoopTier
from sexpgpu.lisp.values import NIL, Cons

REPEAT = Operator("%repeat")
UNTIL = Operator("%until")
WHILE = Operator("%while")

Item = tuple[Node, bool | None]  # a statement (None), or a test and the outcome that ends
Part = tuple[Run, Test, bool]  # statements as one, then an exit


def _repeat(form: Any, scope: Scope, tails: Any) -> Node:
    level = scope.level
    site = site_here()
    level.loops += 1
    items: list[Item] = []
    try:
        at = form.cdr
        while isinstance(at, Cons):
            item = at.car
            if isinstance(item, Cons) and (item.car is UNTIL or item.car is WHILE):
                items.append((analyze_car(item.cdr, scope), item.car is UNTIL))
            else:
                items.append((analyze_car(at, scope), None))
            at = at.cdr
    finally:
        level.loops -= 1
    return Repeat(items, site)


class Repeat(Node):
    """The items again and again; gives nil."""

    __slots__ = ("items", "site", "tier")
    multi = False

    def __init__(self, items: list[Item], site: Site) -> None:
        self.items = items
        self.site = site
        self.tier = LoopTier(self)

    def emit(self, frame: Frame) -> Run:
        parts: list[Part] = []
        runs: list[Run] = []
        for node, ends in self.items:
            if ends is None:
                runs.append(node.emit(frame))
            else:
                parts.append((_joined(runs), node.test(frame), ends))
                runs = []
        last = _joined(runs)
        self.tier.frame = frame
        return _looping(tuple(parts), last, self.site, self.tier)


def _nothing(env: Any) -> Any:
    return NIL


def _joined(runs: list[Run]) -> Run:
    return sequence(list(runs)) if runs else _nothing


def _looping(parts: tuple[Part, ...], last: Run, site: Site, tier: LoopTier) -> Run:
    state = STATE

    def run(env: Any) -> Any:
        while True:
            tier.left = left = tier.left - 1
            if left < 0:
                hot = tier.heat()
                if hot is not None:
                    return hot(env)
            state.fuel = fuel = state.fuel - 1
            if fuel < 0:
                state.refuel(site)
            for statements, test, ends in parts:
                statements(env)
                if test(env) is ends:
                    return NIL
            last(env)

    return run


REPEAT.analyze = _repeat
