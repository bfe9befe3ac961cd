"""Directives that choose what is done next: ~* ~? ~[ ~{ ~^."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.builtins.designators import list_items
from sexpgpu.lisp.calls import call
from sexpgpu.lisp.errors import type_error
from sexpgpu.lisp.format.parse import Directive, Node, parse
from sexpgpu.lisp.format.run import STEPS, Leave, Run, does, format_to
from sexpgpu.lisp.format.streams import OutputStream
from sexpgpu.lisp.printer import princ_text
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import NIL, Function, String


@does("*")
def _goto(run: Run, directive: Directive) -> None:
    """~*"""
    if directive.at:
        (target,) = run.parameters(directive, 0)
    else:
        (count,) = run.parameters(directive, 1)
        target = run.at - count if directive.colon else run.at + count
    if not 0 <= target <= len(run.items):
        raise run.error("~* leads outside the arguments", directive)
    run.at = target


@does("?")
def _nested(run: Run, directive: Directive) -> None:
    """~?"""
    control = run.next(directive)
    if directive.at:
        items = run.items[run.at :]
        left = _run_control(control, items, run.out)
        run.at = len(run.items) - len(left)
    else:
        _run_control(control, list_items(run.next(directive)), run.out)


def _run_control(control: Any, items: list[Any], out: OutputStream) -> list[Any]:
    """Do a control string or a formatter; gives the arguments not used."""
    if isinstance(control, Function):
        return list_items(call(control, out, *items))
    if type(control) is not String:
        raise type_error(control, "(or string function)")
    return format_to(princ_text(control), items, out)


@does("[")
def _choose(run: Run, directive: Directive) -> None:
    """~[ ~]"""
    clauses = directive.clauses
    if directive.colon:
        run.run(clauses[0 if run.next(directive) is NIL else 1])
        return
    if directive.at:
        if run.next(directive) is NIL:
            return
        run.at -= 1
        run.run(clauses[0])
        return
    (chosen,) = run.parameters(directive, None)
    if chosen is None:
        chosen = run.next(directive)
        if not isinstance(chosen, int):
            raise type_error(chosen, "integer")
    separators = directive.separators
    last_is_default = bool(separators) and separators[-1].colon
    if 0 <= chosen < len(clauses) - last_is_default:
        run.run(clauses[chosen])
    elif last_is_default:
        run.run(clauses[-1])


@does("{")
def _iterate(run: Run, directive: Directive) -> None:
    """~{ ~}"""
    (most,) = run.parameters(directive, None)
    nodes, control = directive.clauses[0], run.control
    function: Any = None
    if directive.bare:
        given = run.next(directive)
        if isinstance(given, Function):
            function = given
        elif type(given) is String:
            control = princ_text(given)
            nodes = parse(control)
        else:
            raise type_error(given, "(or string function)")
    items = run.items[run.at :] if directive.at else list_items(run.next(directive))
    closer = directive.closer
    at_least_once = closer is not None and closer.colon
    used = 0
    if directive.colon:
        used = _over_sublists(run, control, nodes, function, items, most, at_least_once)
    else:
        inner = Run(control, items, run.out)
        rounds = 0
        try:
            while (most is None or rounds < most) and (
                inner.at < len(items) or (at_least_once and rounds == 0)
            ):
                STATE.charge(STEPS)
                rounds += 1
                if function is not None:
                    left = _run_control(function, items[inner.at :], run.out)
                    inner.at = len(items) - len(left)
                else:
                    inner.run(nodes)
        except Leave:
            pass
        used = inner.at
    if directive.at:
        run.at += used


def _over_sublists(
    run: Run,
    control: str,
    nodes: list[Node],
    function: Any,
    items: list[Any],
    most: int | None,
    at_least_once: bool,
) -> int:
    """~:{: one round for each sublist; gives how many were used."""
    used = 0
    while (most is None or used < most) and (used < len(items) or (at_least_once and used == 0)):
        STATE.charge(STEPS)
        arguments = list_items(items[used]) if used < len(items) else []
        used += 1
        if function is not None:
            _run_control(function, arguments, run.out)
            continue
        inner = Run(control, arguments, run.out, items[used:])
        try:
            inner.run(nodes)
        except Leave as leave:
            if leave.all:
                break
    return min(used, len(items))


@does("^")
def _escape(run: Run, directive: Directive) -> None:
    """~^"""
    parameters = run.parameters(directive, None, None, None)
    given = [
        ord(value) if isinstance(value, str) else value
        for value in parameters[: len(directive.parameters)]
        if value is not None
    ]
    if not given:
        if directive.colon:
            leaves = not run.outer
        else:
            leaves = run.at >= len(run.items)
    elif len(given) == 1:
        leaves = given[0] == 0
    elif len(given) == 2:
        leaves = given[0] == given[1]
    else:
        leaves = given[0] <= given[1] <= given[2]
    if leaves:
        raise Leave(directive.colon)
