"""Writes loops: dotimes, dolist, do, and the REPEAT of `loop`. `resumed` names what the cold loop
hands over in the middle of its turns: the limit of dotimes, the rest of dolist's list."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any

from sexpgpu.lisp.errors import type_error
from sexpgpu.lisp.hot.parts import Dest, Loop
from sexpgpu.lisp.hot.unit import Line, Unit
from sexpgpu.lisp.hot.writer import (
    WRITERS,
    test,
    value,
    write,
    write_effect,
)
from sexpgpu.lisp.loop_macros import Counted, DoLoop, Listed, OwnFrame
from sexpgpu.lisp.loop_nodes import Repeat
from sexpgpu.lisp.nodes import Constant, Node
from sexpgpu.lisp.state import STATE, Site


def _not_a(kind: str, site: Site) -> Any:
    def fail(item: Any) -> Any:
        STATE.site = site
        raise type_error(item, kind)

    return fail


def _counted(unit: Unit, node: Counted, dest: Dest, resumed: str = "") -> None:
    limit = resumed
    if not resumed:
        limit = unit.held(value(unit, node.count))
        if not (type(node.count) is Constant and type(node.count.value) is int):
            wrong = unit.slow(_not_a("integer", node.site))
            unit.emit(f"if not isinstance({limit}, int): {wrong}({limit})")
    name = unit.variable(node.var) if resumed else unit.bind(node.var)
    unit.assigned.add(node.var)
    if not resumed:
        unit.emit(f"{name} = 0")
    outside = unit.indent
    body, loop, quiet = _body_of(unit, lambda: write_effect(unit, node.body))
    site = unit.constant(node.site)
    if quiet and not (node.var.sets or node.var.captured):
        start, stop = unit.name("n"), unit.name("n")
        with unit.block(f"while {name} < {limit}:"):
            _refuelled(unit, site)
            unit.emit(f"{start} = {name}")
            unit.emit(f"{stop} = {name} + state.fuel")
            unit.emit(f"if {stop} > {limit}: {stop} = {limit}")
            with unit.block("try:"):
                unit.emit(f"for {name} in range({name}, {stop}):")
                unit.put(body or [(outside, "pass")], unit.indent - outside + 1)
                with unit.block("else:"):
                    unit.emit(f"{name} = {stop}")
                    unit.emit("continue")
                unit.emit("break")
            with unit.block("finally:"):
                unit.emit(f"state.fuel -= {name} - {start} + ({name} != {stop})")
    else:
        with unit.block(f"while {name} < {limit}:"):
            unit.take_fuel(site)
            unit.put(body, unit.indent - outside)
            unit.emit(f"{name} = {name} + 1")
    unit.pass_on(loop)
    write(unit, node.result, dest)


def _body_of(unit: Unit, work: Callable[[], None]) -> tuple[list[Line], Loop, bool]:
    """The lines of a loop's body, its Python loop, and whether nothing in the body takes fuel or
    looks at what is left of it: then the turns can be counted by Python, and paid all at once."""
    loop = Loop()
    marks = unit.marks
    unit.loops.append(loop)
    with unit.captured() as lines:
        work()
    unit.loops.pop()
    quiet = unit.marks == marks
    unit.marks += 1
    return lines, loop, quiet


def _refuelled(unit: Unit, site: str) -> None:
    """Make sure that there is fuel for one turn at least, which is still to be paid."""
    with unit.block("if state.fuel <= 0:"):
        unit.emit("state.fuel -= 1")
        unit.emit(f"state.refuel({site})")
        unit.emit("state.fuel += 1")


def _counted_turns(unit: Unit, header: str, site: str, body: list[Line], deeper: int) -> None:
    """A loop whose turns an iterator counts; the body leaves it by `break`."""
    start, turns = unit.name("n"), unit.name("n")
    unit.names["repeat"] = repeat
    with unit.block(header):
        _refuelled(unit, site)
        unit.emit(f"{start} = state.fuel")
        unit.emit(f"{turns} = repeat(None, {start})")
        with unit.block("try:"):
            unit.emit(f"for _ in {turns}:")
            unit.put(body, deeper)
            with unit.block("else:"):
                unit.emit("continue")
            unit.emit("break")
        with unit.block("finally:"):
            unit.emit(f"state.fuel -= {start} - {turns}.__length_hint__()")


def _listed(unit: Unit, node: Listed, dest: Dest, resumed: str = "") -> None:
    at = resumed
    if not resumed:
        at = unit.name("t")
        unit.emit(f"{at} = {value(unit, node.list)}")
    outside = unit.frame
    inner = node.var.frame if node.var.captured else None
    name = unit.bind(node.var)

    def turn() -> None:
        if inner is None:
            unit.emit(f"{name} = {at}.car")
            unit.emit(f"{at} = {at}.cdr")
        else:
            item = unit.held(f"{at}.car")
            unit.emit(f"{at} = {at}.cdr")
            unit.own_frame(inner, {node.var.index: item})
        write_effect(unit, node.body)
        unit.frame = outside

    body, loop, quiet = _body_of(unit, turn)
    header, site = f"while isinstance({at}, Cons):", unit.constant(node.site)
    if quiet:
        body.append((unit.indent, f"if not isinstance({at}, Cons): break"))
        _counted_turns(unit, header, site, body, 3)
    else:
        with unit.block(header):
            unit.take_fuel(site)
            unit.put(body, 1)
    unit.pass_on(loop)
    wrong = unit.slow(_not_a("list", node.site))
    unit.emit(f"if {at} is not NIL: {wrong}({at})")
    if inner is None:
        unit.emit(f"{name} = NIL")
    else:
        unit.own_frame(inner, {node.var.index: "NIL"})
    write(unit, node.result, dest)
    unit.frame = outside


def _do_loop(unit: Unit, node: DoLoop, dest: Dest) -> None:
    with unit.loop("while True:"):
        unit.emit(f"if {test(unit, node.condition)}: break")
        unit.take_fuel(unit.constant(node.site))
        write_effect(unit, node.body)
        write_effect(unit, node.steps)
    write(unit, node.result, dest)


def _repeat(unit: Unit, node: Repeat, dest: Dest) -> None:
    def turn() -> None:
        for item, ends in node.items:
            if ends is None:
                write_effect(unit, item)
            else:
                condition = test(unit, item)
                unit.emit(f"if {condition if ends else f'not {condition}'}: break")

    body, loop, quiet = _body_of(unit, turn)
    site = unit.constant(node.site)
    if quiet:
        _counted_turns(unit, "while True:", site, body or [(unit.indent, "pass")], 3)
    else:
        with unit.block("while True:"):
            unit.take_fuel(site)
            unit.put(body, 1)
    unit.pass_on(loop)
    unit.give("NIL", dest)


def _own_frame(unit: Unit, node: OwnFrame, dest: Dest) -> None:
    saved = unit.frame
    inner = node.node
    assert isinstance(inner, Counted)
    frame = inner.var.frame
    assert frame is not None
    unit.own_frame(frame)
    write(unit, inner, dest)
    unit.frame = saved


WRITERS[Counted] = _counted
WRITERS[Listed] = _listed
WRITERS[DoLoop] = _do_loop
WRITERS[Repeat] = _repeat
WRITERS[OwnFrame] = _own_frame


def write_resumed(unit: Unit, node: Node, dest: Dest) -> str:
    """Write a loop that goes on in the middle; the name of what is handed over, or ""."""
    kind = type(node)
    if kind is Counted:
        _counted(unit, node, dest, "given")  # type: ignore[arg-type]
        return "given"
    if kind is Listed:
        _listed(unit, node, dest, "given")  # type: ignore[arg-type]
        return "given"
    write(unit, node, dest)
    return ""
