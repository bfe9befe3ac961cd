"""Writes setf of places: the new value is evaluated last, and goes first."""

from __future__ import annotations

from collections.abc import Callable

from sexpgpu.lisp.callnodes import CallFixed
from sexpgpu.lisp.hot.calls import INLINED, check_count_of, direct
from sexpgpu.lisp.hot.inplace import by_builtin, function_of, known_key
from sexpgpu.lisp.hot.numbers import both, integers
from sexpgpu.lisp.hot.parts import Dest
from sexpgpu.lisp.hot.unit import Unit
from sexpgpu.lisp.hot.writer import WRITERS, operands, value
from sexpgpu.lisp.setf_macros import SetFixed, SetPlace
from sexpgpu.lisp.values import Function, Vector

# How setf functions of CL's own are written in place. They are given the call, and the names of its
# arguments, the new value's first.
Setter = Callable[[Unit, CallFixed, list[str]], None]
SETTERS: dict[Function, Setter] = {}


def _setter(place: str) -> Callable[[Setter], Setter]:
    """Declare how a place is set."""

    def declare(setter: Setter) -> Setter:
        function = function_of(f"(setf {place})")
        SETTERS[function] = setter
        INLINED[function] = _set_first
        return setter

    return declare


def _set_first(unit: Unit, node: CallFixed, dest: Dest) -> bool:
    """A call of the setf function itself."""
    names = operands(unit, node.arguments)
    SETTERS[node.function](unit, node, names)
    unit.give(names[0], dest)
    return True


def _set_fixed(unit: Unit, node: SetFixed, dest: Dest) -> None:
    setter = SETTERS.get(node.function)
    if setter is None:
        direct(unit, node.target(), node.arguments, node.site, dest)
        return
    *place, new = operands(unit, node.arguments)
    nodes = [node.arguments[-1], *node.arguments[:-1]]
    setter(unit, CallFixed(node.function, nodes, node.site), [new, *place])
    unit.give(new, dest)


def _set_place(unit: Unit, node: SetPlace, dest: Dest) -> None:
    *place, new = operands(unit, node.arguments)
    function = unit.name("t")
    if node.local is None:
        unit.emit(f"{function} = {unit.constant(node.symbol)}.setf")
        found = unit.slow(node.function)
        unit.emit(f"if type({function}) is not Function: {function} = {found}()")
    else:
        unit.emit(f"{function} = {value(unit, node.local)}")
    unit.site(node.site)
    check_count_of(unit, function, len(node.arguments))
    unit.give(f"{function}.call({', '.join([new, *place])})", dest, True)


WRITERS[SetFixed] = _set_fixed
WRITERS[SetPlace] = _set_place


@_setter("gethash")
def _set_gethash(unit: Unit, call: CallFixed, names: list[str]) -> None:
    names[2] = unit.named(names[2])
    new, key, table = names[:3]
    slow = unit.slow(by_builtin(call.function, call.site))
    with unit.block(f"if {known_key(unit, call.arguments[1:], table, key)}:"):
        unit.emit(f"{table}.entries[{key}] = {new}")
    with unit.block("else:"):
        unit.emit(f"{slow}({', '.join(names)})")


@_setter("aref")
def _set_aref(unit: Unit, call: CallFixed, names: list[str]) -> None:
    new, vector, index = names
    vector = unit.named(vector)
    unit.names["Vector"] = Vector
    checks = [f"type({vector}) is Vector and not {vector}.literal"]
    checks += integers(unit, [call.arguments[2]], [index])
    checks.append(f"0 <= {index} < len({vector}.items)")
    slow = unit.slow(by_builtin(call.function, call.site))
    with unit.block(f"if {both(checks)}:"):
        unit.emit(f"{vector}.items[{index}] = {new}")
    with unit.block("else:"):
        unit.emit(f"{slow}({new}, {vector}, {index})")
