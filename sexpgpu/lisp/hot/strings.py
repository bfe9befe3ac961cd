"""Writes builtins of strings in place: short strings without fill pointers; others go to the
builtin. What a builtin charges is charged here."""

from __future__ import annotations

from sexpgpu.lisp.builtins.strings import upcase
from sexpgpu.lisp.callnodes import CallFixed
from sexpgpu.lisp.hot.inplace import by_builtin, inplace
from sexpgpu.lisp.hot.numbers import both
from sexpgpu.lisp.hot.unit import Dest, Unit
from sexpgpu.lisp.hot.writer import operands
from sexpgpu.lisp.nodes import Constant
from sexpgpu.lisp.state import STATE, charge_memory
from sexpgpu.lisp.values import CL, String

_SHORT = 16  # letters that comparison and change of case charge nothing for
_LONG = 1 << 16


def _plain(unit: Unit, names: list[str]) -> list[str]:
    """The conditions that values are strings without fill pointers."""
    unit.names["String"] = String
    return [f"type({name}) is String and {name}.fill is None" for name in names]


def _new(unit: Unit, name: str, text: str) -> None:
    """A new string."""
    unit.emit(f"{name} = new(String)")
    unit.emit(f"{name}.text = {text}")
    unit.emit(f"{name}.literal = {name}.adjustable = False")
    unit.emit(f"{name}.fill = None")


@inplace("length")
def _length(unit: Unit, node: CallFixed, dest: Dest) -> bool:
    (name,) = operands(unit, node.arguments)
    slow = unit.slow(by_builtin(node.function, node.site))
    plain = both(_plain(unit, [name]))
    unit.give(f"(len({name}.text) if {plain} else {slow}({name}))", dest)
    return True


@inplace("string=")
def _equal(unit: Unit, node: CallFixed, dest: Dest) -> bool:
    if len(node.arguments) != 2:
        return False
    first, second = operands(unit, node.arguments)
    slow = unit.slow(by_builtin(node.function, node.site))
    plain = both([*_plain(unit, [first, second]), f"len({first}.text) < {_SHORT}"])
    done = f"(T if {first}.text == {second}.text else NIL)"
    unit.give(f"({done} if {plain} else {slow}({first}, {second}))", dest)
    return True


@inplace("string-upcase")
def _upcase(unit: Unit, node: CallFixed, dest: Dest) -> bool:
    if len(node.arguments) != 1:
        return False
    (given,) = operands(unit, node.arguments)
    slow = unit.slow(by_builtin(node.function, node.site))
    name = unit.name("t")
    plain = [*_plain(unit, [given]), f"len({given}.text) < {_SHORT}"]
    with unit.block(f"if {both(plain)}:"):
        _new(unit, name, f"{unit.constant(upcase)}({given}.text)")
    with unit.block("else:"):
        unit.emit(f"{name} = {slow}({given})")
    unit.give(name, dest)
    return True


@inplace("concatenate")
def _concatenate(unit: Unit, node: CallFixed, dest: Dest) -> bool:
    kind = node.arguments[0]
    if type(kind) is not Constant or kind.value is not CL.own("string") or len(node.arguments) < 2:
        return False
    names = operands(unit, node.arguments)
    slow = unit.slow(by_builtin(node.function, node.site))
    site, state = node.site, STATE

    def charge(size: int) -> None:
        state.memory += size
        state.site = site
        charge_memory(size)

    name, text = unit.name("t"), unit.name("t")
    with unit.block(f"if {both(_plain(unit, names[1:]))}:"):
        unit.emit(f"{text} = {' + '.join(f'{item}.text' for item in names[1:])}")
        unit.emit(f"state.memory = f = state.memory - len({text})")
        unit.emit(f"if f < 0: {unit.slow(charge)}(len({text}))")
        _new(unit, name, text)
    with unit.block("else:"):
        unit.emit(f"{name} = {slow}({', '.join(names)})")
    unit.give(name, dest)
    return True


@inplace("search")
def _search(unit: Unit, node: CallFixed, dest: Dest) -> bool:
    if len(node.arguments) != 2:
        return False
    pattern, text = operands(unit, node.arguments)
    slow = unit.slow(by_builtin(node.function, node.site))
    site, state = node.site, STATE

    def refuel() -> None:
        state.refuel(site)

    name = unit.name("t")
    plain = [
        *_plain(unit, [pattern, text]),
        f"len({pattern}.text) <= 64",
        f"len({text}.text) < {_LONG}",
    ]
    with unit.block(f"if {both(plain)}:"):
        unit.emit(f"state.fuel = f = state.fuel - (len({text}.text) >> 3)")
        unit.emit(f"if f < 0: {unit.slow(refuel)}()")
        unit.emit(f"{name} = {text}.text.find({pattern}.text)")
        unit.emit(f"if {name} < 0: {name} = NIL")
    with unit.block("else:"):
        unit.emit(f"{name} = {slow}({pattern}, {text})")
    unit.give(name, dest)
    return True
