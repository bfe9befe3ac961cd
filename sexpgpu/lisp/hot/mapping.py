"""Writes mapcar and mapc. Lists that are no proper ones, and other functions, are left to the
builtin."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any

from sexpgpu.lisp.callnodes import CallFixed
from sexpgpu.lisp.errors import type_error
from sexpgpu.lisp.hot.applied import (
    Applied,
    find_applied,
    function_expression,
    takes_elements,
    write_around,
    write_calls,
)
from sexpgpu.lisp.hot.inplace import by_builtin, function_of, inplace
from sexpgpu.lisp.hot.lists import MAKERS, elements, is_made
from sexpgpu.lisp.hot.parts import EFFECT, Dest
from sexpgpu.lisp.hot.unit import Unit
from sexpgpu.lisp.hot.writer import value, write
from sexpgpu.lisp.state import CONS, STATE, Site
from sexpgpu.lisp.values import lisp_list

_BLOCK = 256  # results that are charged at once


def _charging(applied: Applied, site: Site) -> Callable[[], None]:
    """Pays for a block of results, as the builtin does: the site of the calls is not on the stack
    then."""
    state, stack, inside = STATE, STATE.stack, applied.site is not None

    def charge() -> None:
        state.site = site
        if inside:
            stack.pop()
        try:
            state.charge(_BLOCK)
            state.charge_memory(_BLOCK * CONS)
        finally:
            if inside:
                stack.append(site)

    return charge


def _map(unit: Unit, node: CallFixed, dest: Dest) -> bool:
    if not takes_elements(unit, node):
        return False
    if node.function is function_of("mapcar"):
        unit.give(f"{unit.constant(lisp_list)}({_mapped(unit, node, True)})", dest)
    else:
        unit.give(_mapped(unit, node, False), dest)
    return True


def _mapped(unit: Unit, node: CallFixed, collects: bool) -> str:
    """Write mapcar or mapc; the name of the Python list of results, or the one of the list."""
    applied = find_applied(unit, node.arguments[0], 1, node.site)
    assert applied is not None
    made = unit.name("t")
    charge = f"{unit.slow(_charging(applied, node.site))}()"

    def body() -> None:
        if not collects:
            write(unit, applied.body, EFFECT)
            return
        unit.emit(f"{made}.append({value(unit, applied.body)})")

    if collects and is_made(unit, node.arguments[1]):
        items = elements(unit, node.arguments[1])
        unit.emit(f"{made} = []")
        write_around(unit, applied, lambda: _over_elements(unit, applied, items, charge, body))
        return made
    first, at = unit.named(unit.held(value(unit, node.arguments[1]))), unit.name("t")
    with unit.block(f"if {first} is not NIL and not isinstance({first}, Cons):"):
        wrong = unit.slow(by_builtin(node.function, node.site))
        unit.emit(f"{wrong}({function_expression(unit, applied)}, {first})")
    unit.emit(f"{at} = {first}")
    if collects:
        unit.emit(f"{made} = []")
    write_around(unit, applied, lambda: _over_conses(unit, applied, at, charge, body))
    name = node.function.name

    def dotted(end: Any) -> Any:
        raise type_error(end, "list", operator=name)

    unit.emit(f"if {at} is not NIL: {unit.slow(dotted)}({at})")
    return made if collects else first


def _over_elements(
    unit: Unit, applied: Applied, items: str, charge: str, body: Callable[[], None]
) -> None:
    """The turns for the elements of a Python list."""
    at, block, turns, item = (unit.name("t") for _ in range(4))
    with unit.loop(f"for {at} in range(0, len({items}), {_BLOCK}):"):
        unit.emit(f"{block} = {items}[{at}:{at} + {_BLOCK}]")
        unit.emit(f"{turns} = iter({block})")
        count = f"len({block})"
        write_calls(unit, applied, item, turns, count, lambda: applied.bind(unit, [item]), body)
        unit.emit(f"if len({block}) == {_BLOCK}: {charge}")


def _over_conses(
    unit: Unit, applied: Applied, at: str, charge: str, body: Callable[[], None]
) -> None:
    """The turns for the elements of a list; `at` is left at its end."""
    turns = unit.name("t")
    unit.names["repeat"] = repeat

    def load() -> None:
        with unit.captured() as lines:
            applied.bind(unit, [f"{at}.car"])
        unit.put(lines[:-1])
        with unit.block("try:"):
            unit.put(lines[-1:], 1)
        with unit.block("except AttributeError:"):  # no cons: cheaper than to ask each
            unit.emit(f"{turns} = repeat(None, {turns}.__length_hint__() + 1)")
            unit.emit("break")

    def turn() -> None:
        body()
        unit.emit(f"{at} = {at}.cdr")
        unit.emit(f"if {at} is NIL: break")

    with unit.loop(f"while isinstance({at}, Cons):"):
        unit.emit(f"{turns} = repeat(None, {_BLOCK})")
        write_calls(unit, applied, "_", turns, str(_BLOCK), load, turn)
        unit.emit(f"if not {turns}.__length_hint__(): {charge}")


for _name in ("mapcar", "mapc"):
    inplace(_name)(_map)
MAKERS[function_of("mapcar")] = takes_elements, lambda unit, node: _mapped(unit, node, True)
