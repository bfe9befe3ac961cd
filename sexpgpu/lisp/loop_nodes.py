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
    Custom,
    Node,
    Run,
    Test,
    sequence,
)
from sexpgpu.lisp.scope import Frame, Scope
from sexpgpu.lisp.state import STATE, Site
from sexpgpu.lisp.values import NIL, Cons

REPEAT = Operator("%repeat")
UNTIL = Operator("%until")
WHILE = Operator("%while")

Item = tuple[Node, bool | None]  # a statement (None), or a test and the outcome that ends


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
    return Custom(lambda frame: _emit(items, site, frame), False)


def _nothing(env: Any) -> Any:
    return NIL


def _emit(items: list[Item], site: Site, frame: Frame) -> Run:
    """The closure that repeats: the statements between two exits run as one."""
    parts: list[tuple[Run, Test, bool]] = []  # statements, then an exit
    runs: list[Run] = []
    for node, ends in items:
        if ends is None:
            runs.append(node.emit(frame))
        else:
            parts.append((_joined(runs), node.test(frame), ends))
            runs = []
    last = _joined(runs)
    if not parts:
        return _for_ever(last, site)
    if len(parts) == 1:
        return _with_one_exit(*parts[0], last, site)
    return _with_exits(tuple(parts), last, site)


def _joined(runs: list[Run]) -> Run:
    return sequence(list(runs)) if runs else _nothing


def _for_ever(run_all: Run, site: Site) -> Run:
    state = STATE

    def run(env: Any) -> Any:
        while True:
            state.fuel = fuel = state.fuel - 1
            if fuel < 0:
                state.refuel(site)
            run_all(env)

    return run


def _with_one_exit(before: Run, test: Test, ends: bool, after: Run, site: Site) -> Run:
    state = STATE

    def run_until(env: Any) -> Any:
        while True:
            state.fuel = fuel = state.fuel - 1
            if fuel < 0:
                state.refuel(site)
            before(env)
            if test(env):
                return NIL
            after(env)

    def run_until_simple(env: Any) -> Any:
        while True:
            state.fuel = fuel = state.fuel - 1
            if fuel < 0:
                state.refuel(site)
            before(env)
            if test(env):
                return NIL

    def run_while(env: Any) -> Any:
        while True:
            state.fuel = fuel = state.fuel - 1
            if fuel < 0:
                state.refuel(site)
            before(env)
            if not test(env):
                return NIL
            after(env)

    if not ends:
        return run_while
    return run_until_simple if after is _nothing else run_until


def _with_exits(parts: tuple[tuple[Run, Test, bool], ...], last: Run, site: Site) -> Run:
    state = STATE

    def run(env: Any) -> Any:
        while True:
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
