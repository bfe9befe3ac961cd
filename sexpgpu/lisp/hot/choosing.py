"""Writes builtins that go through a list with a function: remove-if, find-if, every, reduce and
their kin. Lists that are no proper ones, other sequences and other functions are left to the
builtin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.builtins.designators import new_list, proper_items
from sexpgpu.lisp.callnodes import CallFixed
from sexpgpu.lisp.hot.applied import (
    Applied,
    find_applied,
    function_expression,
    takes_elements,
    write_calls_of,
    write_item,
)
from sexpgpu.lisp.hot.inplace import by_builtin, function_of, inplace
from sexpgpu.lisp.hot.lists import MAKERS, elements, is_made, pay_conses, walk
from sexpgpu.lisp.hot.parts import Dest
from sexpgpu.lisp.hot.unit import Unit
from sexpgpu.lisp.hot.writer import test, truth_of, value, write
from sexpgpu.lisp.lambdas import LambdaNode
from sexpgpu.lisp.nodes import Constant
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import lisp_list

# Builtins whose first argument is no function, but what elements are compared with.
_BY_ITEM = frozenset(function_of(name) for name in ("find", "count", "remove", "delete"))


def _source(unit: Unit, node: CallFixed) -> tuple[str, str]:
    """Write the sequence of a call: the name of the Python list of its elements (None at run time
    when it is no proper list), and that of its value, "" when there is none (lisp.hot.lists)."""
    argument = node.arguments[1]
    if is_made(unit, argument):
        items = elements(unit, argument)
        unit.site(node.site)
        unit.emit(f"{unit.constant(walk)}({items})")
        return items, ""
    sequence = unit.held(value(unit, argument))
    items = unit.name("t")
    unit.site(node.site)
    unit.emit(f"{items} = {unit.constant(proper_items)}({sequence})")
    return items, sequence


def _each(
    unit: Unit,
    node: CallFixed,
    turn: Callable[[Applied, str, str], None],
    initial: str,
    charges: bool = False,
) -> str | None:
    """Write a loop over the elements of a proper list, which leaves the name that is given back
    set; what is no such list goes to the builtin. `turn` writes what is done with an element: it is
    given the function, the element, and that name. None: the call is left to the builtin."""
    if len(node.arguments) != 2:
        return None
    if node.function in _BY_ITEM:
        applied = write_item(unit, node.arguments[0], node.site)
    else:
        applied = find_applied(unit, node.arguments[0], 1, node.site)
    if applied is None:
        return None
    items, sequence = _source(unit, node)
    result, item = unit.name("t"), unit.name("t")

    def work() -> None:
        if charges:
            unit.emit(f"if len({items}) > 32: {unit.constant(STATE.charge)}(len({items}))")
        unit.emit(f"{result} = {initial}")
        turns = unit.name("t")
        unit.emit(f"{turns} = iter({items})")
        count = f"len({items})"
        write_calls_of(
            unit, applied, item, turns, count, [item], lambda: turn(applied, item, result)
        )
        if initial == "[]":
            unit.site(node.site)
            same = f"len({result}) == len({items})"
            if sequence:
                made = f"{unit.constant(new_list)}({result})"
                unit.emit(f"{result} = {sequence} if {same} else {made}")
            else:
                unit.emit(f"if not {same}: {unit.constant(pay_conses)}({result})")

    if not sequence:
        work()
        return result
    with unit.block(f"if {items} is None:"):
        slow = unit.slow(by_builtin(node.function, node.site))
        unit.emit(f"{result} = {slow}({function_expression(unit, applied)}, {sequence})")
    with unit.block("else:"):
        work()
    return result


def _delivered(unit: Unit, result: str | None, dest: Dest) -> bool:
    if result is not None:
        unit.give(result, dest)
    return result is not None


def _chooser(name: str, initial: str, chosen: Callable[[str, str], str], negate: str = "") -> None:
    """A builtin that does something, a line of Python, with the elements that pass a test."""

    def chooses(unit: Unit, node: CallFixed, dest: Dest) -> bool:
        def turn(applied: Applied, item: str, result: str) -> None:
            with unit.block(f"if {negate}{test(unit, applied.body)}:"):
                unit.emit(chosen(item, result))
                if initial in ("NIL", "T"):
                    unit.emit("break")

        return _delivered(unit, _each(unit, node, turn, initial, name == "every"), dest)

    inplace(name)(chooses)


_chooser("find", "NIL", lambda item, result: f"{result} = {item}")
_chooser("count", "0", lambda item, result: f"{result} = {result} + 1")
_chooser("find-if", "NIL", lambda item, result: f"{result} = {item}")
_chooser("find-if-not", "NIL", lambda item, result: f"{result} = {item}", "not ")
_chooser("count-if", "0", lambda item, result: f"{result} = {result} + 1")
_chooser("count-if-not", "0", lambda item, result: f"{result} = {result} + 1", "not ")
_chooser("every", "T", lambda item, result: f"{result} = NIL", "not ")


def _remover(name: str, negate: str) -> None:
    """A builtin that leaves elements out."""

    def left(unit: Unit, node: CallFixed) -> str | None:
        def turn(applied: Applied, item: str, result: str) -> None:
            with unit.block(f"if {negate}{test(unit, applied.body)}:"):
                unit.emit(f"{result}.append({item})")

        return _each(unit, node, turn, "[]")

    def is_new(unit: Unit, node: CallFixed) -> bool:
        if len(node.arguments) != 2 or not is_made(unit, node.arguments[1]):
            return False
        return node.function in _BY_ITEM or takes_elements(unit, node)

    def removes(unit: Unit, node: CallFixed, dest: Dest) -> bool:
        new = is_new(unit, node)
        result = left(unit, node)
        return _delivered(unit, f"{unit.constant(lisp_list)}({result})" if new else result, dest)

    inplace(name)(removes)
    MAKERS[function_of(name)] = is_new, lambda unit, node: left(unit, node) or ""


for _name in ("remove", "delete"):
    _remover(_name, "not ")
    _remover(f"{_name}-if", "not ")
    _remover(f"{_name}-if-not", "")


def _some(unit: Unit, node: CallFixed, dest: Dest) -> bool:
    def turn(applied: Applied, item: str, result: str) -> None:
        name = unit.held(value(unit, applied.body))
        with unit.block(f"if {truth_of(unit, name, node.site)}:"):
            unit.emit(f"{result} = {name}")
            unit.emit("break")

    return _delivered(unit, _each(unit, node, turn, "NIL", True), dest)


inplace("some")(_some)


# ---------------------------------------------------------------- reduce


def _reduce(unit: Unit, node: CallFixed, dest: Dest) -> bool:
    if len(node.arguments) != 2:
        return False
    function, sequence = node.arguments
    if isinstance(function, Constant) and is_made(unit, sequence):
        items = elements(unit, sequence)
        unit.site(node.site)
        unit.give(f"{unit.constant(_combining(node, function.value))}({items})", dest)
        return True
    if not isinstance(function, LambdaNode):
        return False  # the builtin knows the functions of CL's own
    applied = find_applied(unit, function, 2, node.site)
    if applied is None:
        return False
    items, sequence = _source(unit, node)
    item, total = unit.name("t"), unit.name("t")
    with unit.block(f"if not {items}:"):
        slow = unit.slow(by_builtin(node.function, node.site))
        unit.emit(f"{total} = {slow}({function_expression(unit, applied)}, {sequence or 'NIL'})")
    with unit.block("else:"):
        turns = unit.name("t")
        unit.emit(f"{turns} = iter({items})")
        unit.emit(f"{total} = next({turns})")
        count = f"(len({items}) - 1)"
        write_calls_of(
            unit,
            applied,
            item,
            turns,
            count,
            [total, item],
            lambda: write(unit, applied.body, Dest(total)),
        )
    unit.give(total, dest)
    return True


def _combining(node: CallFixed, function: Any) -> Callable[[list[Any]], Any]:
    """Combines elements by a function of CL's own: the builtin does, but for the commonest sum."""
    by_reduce = by_builtin(node.function, node.site)
    adds = function is function_of("+")

    def combine(items: list[Any]) -> Any:
        if adds and set(map(type, items)) == {int}:
            walk(items)
            return sum(items)
        return by_reduce(function, lisp_list(items))

    return combine


inplace("reduce")(_reduce)
