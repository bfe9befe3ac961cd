"""Writes builtins of strings in place: short strings without fill pointers; others go to the
builtin. What a builtin charges is charged here."""

from __future__ import annotations

from sexpgpu.lisp.builtins.sequence_search import LONGEST_PATTERN
from sexpgpu.lisp.builtins.strings import upcase
from sexpgpu.lisp.callnodes import CallFixed
from sexpgpu.lisp.hot.inplace import asking, by_builtin, inplace, tested
from sexpgpu.lisp.hot.numbers import both
from sexpgpu.lisp.hot.parts import Dest
from sexpgpu.lisp.hot.unit import Unit
from sexpgpu.lisp.hot.writer import operands
from sexpgpu.lisp.nodes import Constant, Node
from sexpgpu.lisp.state import STATE, charge_memory
from sexpgpu.lisp.values import CL, String

_SHORT = 16  # letters that comparison and change of case charge nothing for


def _texts(unit: Unit, nodes: list[Node], names: list[str]) -> tuple[list[str], list[str]]:
    """(the texts of strings, the conditions that they are such, without fill pointers). A literal
    never changes."""
    unit.names["String"] = String
    texts: list[str] = []
    checks: list[str] = []
    for node, name in zip(nodes, names, strict=True):
        literal = node.value if isinstance(node, Constant) else None
        if type(literal) is String and literal.literal and literal.fill is None:
            texts.append(unit.constant(literal.text))
        else:
            held = unit.named(name)
            texts.append(f"{held}.text")
            checks.append(f"type({held}) is String and {held}.fill is None")
    return texts, checks


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
    (text,), checks = _texts(unit, node.arguments, [name])
    done = f"len({text})"
    unit.give(f"({done} if {both(checks)} else {slow}({name}))" if checks else done, dest)
    return True


def _compared(unit: Unit, node: CallFixed) -> tuple[str, str, str]:
    """(the comparison, the condition that it may be done in place, the arguments)."""
    names = operands(unit, node.arguments)
    (first, second), checks = _texts(unit, node.arguments, names)
    checks.append(f"len({first}) < {_SHORT}")
    return f"{first} == {second}", both(checks), ", ".join(names)


@inplace("string=")
def _equal(unit: Unit, node: CallFixed, dest: Dest) -> bool:
    if len(node.arguments) != 2:
        return False
    same, condition, given = _compared(unit, node)
    slow = unit.slow(by_builtin(node.function, node.site))
    unit.give(f"((T if {same} else NIL) if {condition} else {slow}({given}))", dest)
    return True


@tested("string=")
def _equal_test(unit: Unit, node: CallFixed) -> str | None:
    if len(node.arguments) != 2:
        return None
    same, condition, given = _compared(unit, node)
    return f"({same} if {condition} else {unit.slow(asking(node))}({given}))"


@inplace("string-upcase")
def _upcase(unit: Unit, node: CallFixed, dest: Dest) -> bool:
    if len(node.arguments) != 1:
        return False
    names = operands(unit, node.arguments)
    (text,), checks = _texts(unit, node.arguments, names)
    slow = unit.slow(by_builtin(node.function, node.site))
    name = unit.name("t")
    upper = f"{unit.constant(upcase)}({text})"
    if not checks:
        upper = unit.constant(upcase(unit.names[text]))
    checks.append(f"len({text}) < {_SHORT}")
    with unit.block(f"if {both(checks)}:"):
        _new(unit, name, upper)
    with unit.block("else:"):
        unit.emit(f"{name} = {slow}({names[0]})")
    unit.give(name, dest)
    return True


@inplace("concatenate")
def _concatenate(unit: Unit, node: CallFixed, dest: Dest) -> bool:
    kind, *parts = node.arguments
    if not isinstance(kind, Constant) or kind.value is not CL.own("string") or not parts:
        return False
    names = operands(unit, parts)
    texts, checks = _texts(unit, parts, names)
    slow = unit.slow(by_builtin(node.function, node.site))
    site, state = node.site, STATE

    def charge(size: int) -> None:
        state.memory += size
        state.site = site
        charge_memory(size)

    name, text = unit.name("t"), unit.name("t")
    joined = "f'" + "".join("{" + part + "}" for part in texts) + "'"
    with unit.block(f"if {both(checks) or True}:"):
        unit.emit(f"{text} = {joined}")
        unit.emit(f"state.memory = f = state.memory - len({text})")
        unit.emit(f"if f < 0: {unit.slow(charge)}(len({text}))")
        _new(unit, name, text)
    with unit.block("else:"):
        unit.emit(f"{name} = {slow}({', '.join([unit.constant(kind.value), *names])})")
    unit.give(name, dest)
    return True


@inplace("search")
def _search(unit: Unit, node: CallFixed, dest: Dest) -> bool:
    if len(node.arguments) != 2:
        return False
    names = operands(unit, node.arguments)
    (pattern, text), checks = _texts(unit, node.arguments, names)
    checks.append(f"len({pattern}) <= {LONGEST_PATTERN}")
    slow = unit.slow(by_builtin(node.function, node.site))
    site, state = node.site, STATE

    def refuel() -> None:
        state.refuel(site)

    name = unit.name("t")
    with unit.block(f"if {both(checks)}:"):
        unit.emit(f"state.fuel = f = state.fuel - (len({text}) >> 3)")
        unit.emit(f"if f < 0: {unit.slow(refuel)}()")
        unit.emit(f"{name} = {text}.find({pattern})")
        unit.emit(f"if {name} < 0: {name} = NIL")
    with unit.block("else:"):
        unit.emit(f"{name} = {slow}({', '.join(names)})")
    unit.give(name, dest)
    return True
