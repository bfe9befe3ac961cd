"""Writes builtins that call a function for each element of a list, where the function stands there
as a lambda expression or as one of CL's own: its body is written into the loop. Lists that are no
proper ones, other sequences and other functions are left to the builtin."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any

from sexpgpu.lisp.analyze import INLINE
from sexpgpu.lisp.builtins.designators import new_list, proper_items
from sexpgpu.lisp.callnodes import CallFixed
from sexpgpu.lisp.errors import type_error
from sexpgpu.lisp.hot.inplace import by_builtin, function_of, inplace
from sexpgpu.lisp.hot.parts import EFFECT, Dest
from sexpgpu.lisp.hot.unit import Unit
from sexpgpu.lisp.hot.writer import test, truth_of, value, write
from sexpgpu.lisp.lambdas import LambdaNode
from sexpgpu.lisp.nodes import Constant, LocalRef, Node
from sexpgpu.lisp.scope import Level, Var
from sexpgpu.lisp.state import CONS, STATE, Site
from sexpgpu.lisp.values import CL, Function

_BLOCK = 256  # results of mapcar and its kin that are charged at once


class Applied:
    """A function that is applied to elements: its variables, and the node of its value. `site`: of
    the calls, where these are calls of the program's own function."""

    __slots__ = ("body", "node", "site", "variables")

    def __init__(
        self, node: Node, variables: list[Var], body: Node, site: Site | None = None
    ) -> None:
        self.node = node
        self.variables = variables
        self.body = body
        self.site = site

    def bind(self, unit: Unit, given: list[str]) -> None:
        """Begin a call with these values."""
        if isinstance(self.node, LambdaNode):
            assert self.node.tier.frame is not None
            unit.own_frame(self.node.tier.frame)
        for var, name in zip(self.variables, given, strict=True):
            unit.emit(f"{unit.bind(var)} = {name}")


def _applied(unit: Unit, node: Node, count: int, site: Site) -> Applied | None:
    """How a function of `count` arguments is applied in place; None: it is not."""
    if isinstance(node, LambdaNode):
        if node.minimum == count == node.maximum and node.tier.outer is unit.frame:
            assert node.body is not None
            return Applied(node, node.required, node.body, site)
        return None
    if not isinstance(node, Constant) or not isinstance(node.value, Function):
        return None
    function = node.value
    symbol = CL.symbols.get(function.name)
    if symbol is None or symbol.function is not function:
        return None
    if count < function.minimum or (function.maximum is not None and count > function.maximum):
        return None
    level = Level()
    variables = [Var(symbol, level) for _ in range(count)]
    nodes: list[Node] = [LocalRef(var) for var in variables]
    make = INLINE.get(symbol)
    body = make(nodes, site) if make is not None else None
    return Applied(node, variables, body or CallFixed(function, nodes, site))


def _calls(
    unit: Unit,
    applied: Applied,
    item: str,
    turns: str,
    count: str,
    load: Callable[[], None],
    body: Callable[[], None],
) -> None:
    """Write a loop of calls, for each `item` of an iterator that knows what is left of `count`.
    `load` begins a call, `body` writes the rest of a turn. Calls of a function of the program's
    take fuel: each where its body may take fuel or look at it, else all of them when the loop is
    left."""
    site = applied.site
    marks, frame = unit.marks, unit.frame
    with unit.captured() as lines, unit.loop(f"for {item} in {turns}:"):
        load()
        with unit.captured() as inside:
            body()
        quiet = unit.marks == marks
        if site is not None and not quiet:
            unit.take_fuel(unit.constant(site))
        unit.put(inside)
    unit.frame = frame
    if site is None or not quiet:
        unit.put(lines)
        return
    with unit.block("try:"):
        unit.put(lines, 1)
    with unit.block("finally:"):
        unit.emit(f"state.fuel -= {count} - {turns}.__length_hint__()")
    unit.emit(f"if state.fuel < 0: state.refuel({unit.constant(site)})")
    unit.marks += 1


def _around(unit: Unit, applied: Applied, loop: Callable[[], None]) -> None:
    """A loop with the site of the calls on the stack."""
    if applied.site is None:
        loop()
        return
    unit.site(applied.site)
    unit.emit("stack.append(state.site)")
    with unit.block("try:"):
        loop()
    with unit.block("finally:"):
        unit.emit("state.site = stack.pop()")


def _called(
    unit: Unit,
    applied: Applied,
    item: str,
    turns: str,
    count: str,
    given: list[str],
    body: Callable[[], None],
) -> None:
    """`_calls` with these arguments, and their site on the stack."""

    def loop() -> None:
        _calls(unit, applied, item, turns, count, lambda: applied.bind(unit, given), body)

    _around(unit, applied, loop)


def _function(unit: Unit, applied: Applied) -> str:
    """The expression of the function, for the builtin."""
    return value(unit, applied.node)


# ---------------------------------------------------------------- mapcar, mapc


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
    if len(node.arguments) != 2:
        return False
    applied = _applied(unit, node.arguments[0], 1, node.site)
    if applied is None:
        return False
    collects = node.function is function_of("mapcar")
    name = node.function.name

    def dotted(end: Any) -> Any:
        raise type_error(end, "list", operator=name)

    unit.names["repeat"] = repeat
    first = unit.held(value(unit, node.arguments[1]))
    with unit.block(f"if {first} is not NIL and not isinstance({first}, Cons):"):
        wrong = unit.slow(by_builtin(node.function, node.site))
        unit.emit(f"{wrong}({_function(unit, applied)}, {first})")
    at, head, last = (unit.name("t") for _ in range(3))
    unit.emit(f"{at} = {first}")
    if collects:
        unit.emit(f"{head} = {last} = Cons()")
    charge = unit.slow(_charging(applied, node.site))
    keep = last if collects else ""
    _around(unit, applied, lambda: _mapped(unit, applied, at, keep, f"{charge}()"))
    unit.emit(f"if {at} is not NIL: {unit.slow(dotted)}({at})")
    if collects:
        unit.emit(f"{last}.cdr = NIL")
        unit.give(f"{head}.cdr", dest)
    else:
        unit.give(first, dest)
    return True


def _mapped(unit: Unit, applied: Applied, at: str, last: str, charge: str) -> None:
    turns = unit.name("t")

    def load() -> None:
        with unit.captured() as lines:
            applied.bind(unit, [f"{at}.car"])
        unit.put(lines[:-1])
        with unit.block("try:"):
            unit.put(lines[-1:], 1)
        with unit.block("except AttributeError:"):  # no cons: cheaper than to ask each
            unit.emit(f"{turns} = repeat(None, {turns}.__length_hint__() + 1)")
            unit.emit("break")

    def body() -> None:
        if last:
            made = unit.name("t")
            write(unit, applied.body, Dest(made))
            cell = unit.name("t")
            unit.emit(f"{last}.cdr = {cell} = Cons()")
            unit.emit(f"{cell}.car = {made}")
            unit.emit(f"{last} = {cell}")
        else:
            write(unit, applied.body, EFFECT)
        unit.emit(f"{at} = {at}.cdr")
        unit.emit(f"if {at} is NIL: break")

    with unit.loop(f"while isinstance({at}, Cons):"):
        unit.emit(f"{turns} = repeat(None, {_BLOCK})")
        _calls(unit, applied, "_", turns, str(_BLOCK), load, body)
        unit.emit(f"if not {turns}.__length_hint__(): {charge}")


for _name in ("mapcar", "mapc"):
    inplace(_name)(_map)


# ---------------------------------------------------------------- remove-if, find-if, every


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
    applied = _applied(unit, node.arguments[0], 1, node.site)
    if applied is None:
        return None
    sequence = unit.held(value(unit, node.arguments[1]))
    result, items, item = unit.name("t"), unit.name("t"), unit.name("t")
    unit.site(node.site)
    unit.emit(f"{items} = {unit.constant(proper_items)}({sequence})")
    with unit.block(f"if {items} is None:"):
        slow = unit.slow(by_builtin(node.function, node.site))
        unit.emit(f"{result} = {slow}({_function(unit, applied)}, {sequence})")
    with unit.block("else:"):
        if charges:
            unit.emit(f"if len({items}) > 32: {unit.constant(STATE.charge)}(len({items}))")
        unit.emit(f"{result} = {initial}")
        turns = unit.name("t")
        unit.emit(f"{turns} = iter({items})")
        count = f"len({items})"
        _called(unit, applied, item, turns, count, [item], lambda: turn(applied, item, result))
        if initial == "[]":
            unit.site(node.site)
            made = f"{unit.constant(new_list)}({result})"
            unit.emit(f"{result} = {sequence} if len({result}) == len({items}) else {made}")
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


for _name in ("remove", "delete"):
    _chooser(f"{_name}-if", "[]", lambda item, result: f"{result}.append({item})", "not ")
    _chooser(f"{_name}-if-not", "[]", lambda item, result: f"{result}.append({item})")
_chooser("find-if", "NIL", lambda item, result: f"{result} = {item}")
_chooser("find-if-not", "NIL", lambda item, result: f"{result} = {item}", "not ")
_chooser("count-if", "0", lambda item, result: f"{result} = {result} + 1")
_chooser("count-if-not", "0", lambda item, result: f"{result} = {result} + 1", "not ")
_chooser("every", "T", lambda item, result: f"{result} = NIL", "not ")


def _some(unit: Unit, node: CallFixed, dest: Dest) -> bool:
    def turn(applied: Applied, item: str, result: str) -> None:
        name = unit.held(value(unit, applied.body))
        with unit.block(f"if {truth_of(unit, name, node.site)}:"):
            unit.emit(f"{result} = {name}")
            unit.emit("break")

    return _delivered(unit, _each(unit, node, turn, "NIL", True), dest)


inplace("some")(_some)


def _reduce(unit: Unit, node: CallFixed, dest: Dest) -> bool:
    if len(node.arguments) != 2 or not isinstance(node.arguments[0], LambdaNode):
        return False  # the builtin knows the functions of CL's own
    applied = _applied(unit, node.arguments[0], 2, node.site)
    if applied is None:
        return False
    sequence = unit.held(value(unit, node.arguments[1]))
    items, item, total = unit.name("t"), unit.name("t"), unit.name("t")
    unit.site(node.site)
    unit.emit(f"{items} = {unit.constant(proper_items)}({sequence})")
    with unit.block(f"if not {items}:"):
        slow = unit.slow(by_builtin(node.function, node.site))
        unit.emit(f"{total} = {slow}({_function(unit, applied)}, {sequence})")
    with unit.block("else:"):
        turns = unit.name("t")
        unit.emit(f"{turns} = iter({items})")
        unit.emit(f"{total} = next({turns})")
        count = f"(len({items}) - 1)"
        _called(
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


inplace("reduce")(_reduce)
