"""Writes loops: dotimes, dolist, do, and the REPEAT of `loop`. `resumed` names what the cold loop
hands over in the middle of its turns: the limit of dotimes, the rest of dolist's list."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.errors import type_error
from sexpgpu.lisp.hot.unit import Dest, Unit
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
    if not node.var.assigned:
        unit.whole.add(node.var)
    if not resumed:
        unit.emit(f"{name} = 0")
    with unit.loop(f"while {name} < {limit}:"):
        unit.take_fuel(unit.constant(node.site))
        write_effect(unit, node.body)
        unit.emit(f"{name} = {name} + 1")
    write(unit, node.result, dest)


def _listed(unit: Unit, node: Listed, dest: Dest, resumed: str = "") -> None:
    at = resumed
    if not resumed:
        at = unit.name("t")
        unit.emit(f"{at} = {value(unit, node.list)}")
    outside = unit.frame
    inner = node.var.frame if node.var.captured else None
    name = unit.bind(node.var)
    with unit.loop(f"while isinstance({at}, Cons):"):
        unit.take_fuel(unit.constant(node.site))
        if inner is None:
            unit.emit(f"{name} = {at}.car")
            unit.emit(f"{at} = {at}.cdr")
        else:
            item = unit.held(f"{at}.car")
            unit.emit(f"{at} = {at}.cdr")
            unit.own_frame(inner, {node.var.index: item})
        write_effect(unit, node.body)
    wrong = unit.slow(_not_a("list", node.site))
    unit.emit(f"if {at} is not NIL: {wrong}({at})")
    unit.frame = outside
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
    with unit.loop("while True:"):
        unit.take_fuel(unit.constant(node.site))
        for item, ends in node.items:
            if ends is None:
                write_effect(unit, item)
            else:
                condition = test(unit, item)
                unit.emit(f"if {condition if ends else f'not {condition}'}: break")
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
