"""Writes builtins of strings in place: short strings without fill pointers; others go to the
builtin. What a builtin charges is charged here.

A string that a builtin here makes for another one here is no object of the Lisp in between, but
its text; so is that of a variable which only they look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.builtins.sequence_search import LONGEST_PATTERN
from sexpgpu.lisp.builtins.strings import upcase
from sexpgpu.lisp.callnodes import CallFixed
from sexpgpu.lisp.hot.inplace import asking, by_builtin, function_of, inplace, tested, uses
from sexpgpu.lisp.hot.lists import elements, is_made, walk
from sexpgpu.lisp.hot.numbers import both
from sexpgpu.lisp.hot.parts import Dest
from sexpgpu.lisp.hot.unit import Unit
from sexpgpu.lisp.hot.writer import is_simple, value
from sexpgpu.lisp.nodes import Constant, Node
from sexpgpu.lisp.scope import Var
from sexpgpu.lisp.state import STATE, charge_memory
from sexpgpu.lisp.values import CL, Function, String
from sexpgpu.lisp.variable_nodes import LocalRef

_SHORT = 16  # letters that comparison and change of case charge nothing for

# How many arguments those builtins take that are written in place.
_COUNTS = {"length": 1, "string=": 2, "string-upcase": 1, "search": 2}
_TAKEN: dict[Function, int] = {function_of(name): count for name, count in _COUNTS.items()}
_JOIN, _UPCASE = function_of("concatenate"), function_of("string-upcase")


def _parts(node: CallFixed) -> list[Node]:
    """The arguments whose texts are taken; none where the call is left to the builtin."""
    if node.function is _JOIN and node.arguments:
        kind = node.arguments[0]
        is_string = isinstance(kind, Constant) and kind.value is CL.own("string")
        return node.arguments[1:] if is_string else []
    taken = len(node.arguments) == _TAKEN.get(node.function)
    return list(node.arguments) if taken else []


def _makes_text(node: Node) -> bool:
    """Whether a node makes a new string, in place."""
    if not isinstance(node, CallFixed) or node.function not in (_JOIN, _UPCASE):
        return False
    return bool(_parts(node))


def _text(unit: Unit, node: CallFixed) -> str:
    """Write a call that makes a new string; its text as a name."""
    return _joined(unit, node) if node.function is _JOIN else _upper(unit, node)


class _Texts:
    """Strings as operands: their values, for the builtin; their texts; the conditions that they
    are strings without fill pointers; the texts that are known."""

    __slots__ = ("checks", "known", "texts", "values")

    def __init__(self, unit: Unit, nodes: list[Node]) -> None:
        self.values: list[str] = []
        self.texts: list[str] = []
        self.checks: list[str] = []
        self.known: list[str | None] = []
        unit.names["String"] = String
        for at, node in enumerate(nodes):
            last = all(is_simple(later) for later in nodes[at + 1 :])
            self._add(unit, node, last)

    def _add(self, unit: Unit, node: Node, last: bool) -> None:
        literal = node.value if isinstance(node, Constant) else None
        if type(literal) is String and literal.literal and literal.fill is None:
            # A literal never changes.
            self._put(unit.constant(literal), unit.constant(literal.text), literal.text)
        elif isinstance(node, LocalRef) and node.var in unit.bare:
            name = unit.variable(node.var)
            self._put(f"String({name})", name)
        elif _makes_text(node):
            assert isinstance(node, CallFixed)
            name = _text(unit, node)
            self._put(f"String({name})", name, unit.names.get(name))
        else:
            made = value(unit, node)
            name = unit.named(made if last else unit.held(made))
            self._put(name, f"{name}.text")
            self.checks.append(f"type({name}) is String and {name}.fill is None")

    def _put(self, value: str, text: str, known: str | None = None) -> None:
        self.values.append(value)
        self.texts.append(text)
        self.known.append(known)


# ---------------------------------------------------------------- variables


def text_of(unit: Unit, var: Var, init: Node, body: list[Node]) -> str | None:
    """Write the text that a variable is bound to; None where it is to hold a value like others."""
    if not unit.keeps_bare or var.captured or var.sets or not _makes_text(init):
        return None
    if uses(body, var, _parts) != var.references:
        return None
    assert isinstance(init, CallFixed)
    unit.bare.add(var)
    return _text(unit, init)


# ---------------------------------------------------------------- strings made


def _new(unit: Unit, text: str, dest: Dest) -> bool:
    """Deliver a new string."""
    name = unit.name("t")
    unit.emit(f"{name} = new(String)")
    unit.emit(f"{name}.text = {text}")
    unit.emit(f"{name}.literal = {name}.adjustable = False")
    unit.emit(f"{name}.fill = None")
    unit.give(name, dest)
    return True


def _made(unit: Unit, node: CallFixed, dest: Dest) -> bool:
    return _makes_text(node) and _new(unit, _text(unit, node), dest)


inplace("string-upcase")(_made)
inplace("concatenate")(_made)


def _upper(unit: Unit, node: CallFixed) -> str:
    given = _Texts(unit, _parts(node))
    text, known = given.texts[0], given.known[0]
    if known is not None and len(known) < _SHORT:
        return unit.constant(upcase(known))
    slow = unit.slow(by_builtin(node.function, node.site))
    name = unit.name("t")
    with unit.block(f"if {both([*given.checks, f'len({text}) < {_SHORT}'])}:"):
        unit.emit(f"{name} = {unit.constant(upcase)}({text})")
    with unit.block("else:"):
        unit.emit(f"{name} = {slow}({given.values[0]}).text")
    return name


def _joined(unit: Unit, node: CallFixed) -> str:
    given = _Texts(unit, _parts(node))
    slow = unit.slow(by_builtin(node.function, node.site))
    name = unit.name("t")
    whole = None if None in given.known else "".join(filter(None, given.known))
    if whole is not None:
        name = unit.constant(whole)
        _pay(unit, node, str(len(whole)))
        return name
    joined = "f'" + "".join("{" + part + "}" for part in given.texts) + "'"
    if not given.checks:
        unit.emit(f"{name} = {joined}")
        _pay(unit, node, f"len({name})")
        return name
    with unit.block(f"if {both(given.checks)}:"):
        unit.emit(f"{name} = {joined}")
        _pay(unit, node, f"len({name})")
    with unit.block("else:"):
        kind = unit.constant(CL.own("string"))
        unit.emit(f"{name} = {slow}({', '.join([kind, *given.values])}).text")
    return name


def _pay(unit: Unit, node: CallFixed, size: str) -> None:
    """Take the memory of a new string."""
    site, state = node.site, STATE

    def charge(size: int) -> None:
        state.memory += size
        state.site = site
        charge_memory(size)

    unit.emit(f"state.memory = f = state.memory - {size}")
    unit.emit(f"if f < 0: {unit.slow(charge)}({size})")


# ---------------------------------------------------------------- strings asked


@inplace("length")
def _length(unit: Unit, node: CallFixed, dest: Dest) -> bool:
    (argument,) = node.arguments
    if is_made(unit, argument):  # a list
        items = elements(unit, argument)
        unit.site(node.site)
        unit.emit(f"{unit.constant(walk)}({items})")
        unit.give(f"len({items})", dest)
        return True
    given = _Texts(unit, _parts(node))
    slow = unit.slow(by_builtin(node.function, node.site))
    done = f"len({given.texts[0]})"
    other = f"{slow}({given.values[0]})"
    unit.give(f"({done} if {both(given.checks)} else {other})" if given.checks else done, dest)
    return True


def _compared(unit: Unit, node: CallFixed) -> tuple[str, str, str]:
    """(the comparison, the condition that it may be done in place, the arguments)."""
    given = _Texts(unit, _parts(node))
    first, second = given.texts
    checks = list(given.checks)
    known = given.known[0]
    if known is None or len(known) >= _SHORT:
        checks.append(f"len({first}) < {_SHORT}")
    condition = both(checks) or "True"
    return f"{first} == {second}", condition, ", ".join(given.values)


@inplace("string=")
def _equal(unit: Unit, node: CallFixed, dest: Dest) -> bool:
    if not _parts(node):
        return False
    same, condition, given = _compared(unit, node)
    slow = unit.slow(by_builtin(node.function, node.site))
    unit.give(f"((T if {same} else NIL) if {condition} else {slow}({given}))", dest)
    return True


@tested("string=")
def _equal_test(unit: Unit, node: CallFixed) -> str | None:
    if not _parts(node):
        return None
    same, condition, given = _compared(unit, node)
    return f"({same} if {condition} else {unit.slow(asking(node))}({given}))"


def _found(
    unit: Unit, node: CallFixed, found: Callable[[str, str], str], slow: Callable[..., Any]
) -> str:
    """Write a search; the name of what `found` says of the pattern and the text."""
    given = _Texts(unit, _parts(node))
    pattern, text = given.texts
    known = given.known[0]
    checks = list(given.checks)
    if known is None or len(known) > LONGEST_PATTERN:
        checks.append(f"len({pattern}) <= {LONGEST_PATTERN}")
    site, state = node.site, STATE

    def refuel() -> None:
        state.refuel(site)

    name = unit.name("t")
    other = f"{name} = {unit.slow(slow)}({', '.join(given.values)})"
    with unit.block(f"if {both(checks) or True}:"):
        unit.emit(f"state.fuel = f = state.fuel - (len({text}) >> 3)")
        unit.emit(f"if f < 0: {unit.slow(refuel)}()")
        unit.emit(f"{name} = {found(pattern, text)}")
    with unit.block("else:"):
        unit.emit(other)
    return name


@inplace("search")
def _search(unit: Unit, node: CallFixed, dest: Dest) -> bool:
    if not _parts(node):
        return False
    slow = by_builtin(node.function, node.site)

    def found(pattern: str, text: str) -> str:
        return f"NIL if (f := {text}.find({pattern})) < 0 else f"

    unit.give(_found(unit, node, found, slow), dest)
    return True


@tested("search")
def _search_test(unit: Unit, node: CallFixed) -> str | None:
    if not _parts(node):
        return None
    return _found(unit, node, lambda pattern, text: f"{pattern} in {text}", asking(node))
