"""Writes calls: of global functions, builtins, local functions, and computed ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.callnodes import (
    ApplyNode,
    CallFixed,
    CallGlobal,
    CallLocal,
    CallValue,
    Direct,
    target_of,
)
from sexpgpu.lisp.calls import as_function, check_count
from sexpgpu.lisp.errors import undefined_function
from sexpgpu.lisp.hot.leaves import early_return, leaf
from sexpgpu.lisp.hot.parts import Dest
from sexpgpu.lisp.hot.unit import Unit
from sexpgpu.lisp.hot.writer import WRITERS, operands, value, write_closure
from sexpgpu.lisp.state import STATE, Site
from sexpgpu.lisp.values import Function, Symbol

# How some builtins are written in place, by their functions (hot.builtins). A writer that leaves a
# call to its builtin gives False.
INLINED: dict[Function, Callable[[Unit, CallFixed, Dest], bool]] = {}
SINGLE: set[Function] = set()  # builtins that give one value


UNKNOWN = Function("unknown", as_function)  # no symbol has it


def _resolver(
    names: dict[str, Any], known: str, symbol: Symbol, site: Site, scope: Any, count: int
) -> Callable[[], None]:
    """Takes note of the function that a symbol has now."""

    def resolve() -> None:
        function = symbol.function
        STATE.site = site
        if function is None:
            raise undefined_function(symbol, site, scope)
        check_count(function, count)
        names[known] = function

    return resolve


def _call_global(unit: Unit, node: CallGlobal, dest: Dest) -> None:
    symbol = node.symbol
    given = operands(unit, node.arguments)
    early = early_return(unit, node, given)
    if early is None:
        _call_symbol(unit, node, given, dest)
        return
    condition, result = early
    assert unit.own is not None
    with unit.block(f"if {unit.constant(symbol)}.function is {unit.constant(unit.own[0])}:"):
        with unit.block(f"if {condition}:"):
            unit.take_ticket(f"{unit.constant(leaf)}({unit.constant(node.site)})")
            unit.give(result, dest)
        with unit.block("else:"):
            unit.site(node.site)
            unit.give(f"hot({', '.join(given)})", dest, True)
    with unit.block("else:"):
        _call_symbol(unit, node, given, dest)


def _call_symbol(unit: Unit, node: CallGlobal, given: list[str], dest: Dest) -> None:
    symbol, count = node.symbol, len(given)
    known = unit.name("F")
    function = symbol.function
    unit.names[known] = UNKNOWN
    if function is not None and function.minimum <= count:
        high = function.maximum
        if high is None or count <= high:
            unit.names[known] = function
    resolve = _resolver(unit.names, known, symbol, node.site, node.scope, count)
    place = unit.constant(symbol)
    unit.emit(f"if {place}.function is not {known}: {unit.constant(resolve)}()")
    _finish(unit, known, given, node.site, dest)


def _finish(unit: Unit, function: str, given: list[str], site: Site, dest: Dest) -> None:
    """The call of a function whose count of arguments was checked."""
    call = unit.name("c")
    unit.emit(f"{call} = {function}.call")
    unit.site(site)
    unit.give(f"{call}({', '.join(given)})", dest, True)


def _call_fixed(unit: Unit, node: CallFixed, dest: Dest) -> None:
    function, count = node.function, len(node.arguments)
    high = function.maximum
    if count < function.minimum or (high is not None and count > high):
        write_closure(unit, node, dest)
        return
    inlined = INLINED.get(function)
    if inlined is not None and inlined(unit, node, dest):
        return
    target = target_of(function, count)
    direct(unit, target, node.arguments, node.site, dest, function not in SINGLE)


def direct(
    unit: Unit,
    target: Callable[..., Any],
    arguments: list[Any],
    site: Site,
    dest: Dest,
    multi: bool = True,
) -> None:
    """The call of a Python callable."""
    given = operands(unit, arguments)
    unit.site(site)
    unit.give(f"{unit.constant(target)}({', '.join(given)})", dest, multi)


def _direct(unit: Unit, node: Direct, dest: Dest) -> None:
    direct(unit, node.target, node.arguments, node.site, dest)


def _call_local(unit: Unit, node: CallLocal, dest: Dest) -> None:
    local, count = node.local, len(node.arguments)
    given = operands(unit, node.arguments)
    function = unit.held(unit.variable(local.var))
    if not (
        local.lambda_list is not None
        and count >= local.minimum
        and (local.maximum is None or count <= local.maximum)
    ):
        unit.site(node.site)
        _check(unit, function, count)
    _finish(unit, function, given, node.site, dest)


def _check(unit: Unit, function: str, count: int) -> None:
    """Make sure that a value is a Function that takes so many arguments."""
    unit.emit(
        f"if type({function}) is not Function: {function} = {unit.constant(as_function)}"
        f"({function})"
    )
    check_count_of(unit, function, count)


def check_count_of(unit: Unit, function: str, count: int) -> None:
    """Make sure that a Function takes so many arguments."""
    exact = f"{function}.minimum == {count} == {function}.maximum"
    unit.emit(f"if not ({exact}): {unit.constant(check_count)}({function}, {count})")


def _call_value(unit: Unit, node: CallValue, dest: Dest) -> None:
    function = unit.name("t")
    unit.emit(f"{function} = {value(unit, node.function)}")
    given = operands(unit, node.arguments)
    unit.site(node.site)
    _check(unit, function, len(given))
    call = unit.name("c")
    unit.emit(f"{call} = {function}.call")
    unit.give(f"{call}({', '.join(given)})", dest, True)


def _apply(unit: Unit, node: ApplyNode, dest: Dest) -> None:
    from sexpgpu.lisp.evaluation import spread
    from sexpgpu.lisp.hot.lists import elements, is_made, walk

    function = unit.name("t")
    unit.emit(f"{function} = {value(unit, node.function)}")
    values = unit.name("t")
    *first, last = node.arguments
    if is_made(unit, last):
        given = [unit.held(value(unit, item)) for item in first]
        items = elements(unit, last)
        unit.emit(f"{values} = [{', '.join([*given, f'*{items}'])}]")
        spreading = f"{unit.constant(walk)}({items})"
    else:
        unit.emit(f"{values} = [{', '.join(operands(unit, node.arguments))}]")
        spreading = f"{unit.constant(spread)}({values})"
    unit.site(node.site)
    as_one = unit.constant(as_function)
    unit.emit(f"if type({function}) is not Function: {function} = {as_one}({function})")
    unit.emit(spreading)
    unit.emit(f"{unit.constant(check_count)}({function}, len({values}))")
    unit.give(f"{function}.call(*{values})", dest, True)


WRITERS[CallGlobal] = _call_global
WRITERS[CallFixed] = _call_fixed
WRITERS[Direct] = _direct
WRITERS[CallLocal] = _call_local
WRITERS[CallValue] = _call_value
WRITERS[ApplyNode] = _apply
