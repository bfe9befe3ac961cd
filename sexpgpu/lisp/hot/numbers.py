"""Writes arithmetic, comparisons, car and cdr, and the tests done in place: what is common in the
line itself, everything else (ratios, overflow, tensors, errors) by the builtin."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from sexpgpu.lisp.builtins.equality import eql
from sexpgpu.lisp.callnodes import CallFixed
from sexpgpu.lisp.calls import primary, truth
from sexpgpu.lisp.hot.parts import Dest
from sexpgpu.lisp.hot.unit import Unit
from sexpgpu.lisp.hot.writer import (
    TESTS,
    VALUES,
    WRITERS,
    operands,
    test,
    value,
)
from sexpgpu.lisp.inline import Access, Endp, Kind, Not, Same
from sexpgpu.lisp.inline_numbers import BIG, Arithmetic, Comparison, ZeroTest
from sexpgpu.lisp.nodes import Constant, If, Node
from sexpgpu.lisp.scope import Var
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import CL, NIL, Char, Cons, SrcCons, Symbol
from sexpgpu.lisp.variable_nodes import LocalRef

SMALL = -BIG
LONGEST = 1 << 48  # elements of a sequence, turns of a loop
_LONG = 400  # letters of an expression, and so of parentheses in it, of which Python takes 200
Operation = Callable[[Any, Any], Any]


def is_integer(unit: Unit, node: Node) -> bool:
    """Whether the node is known to give an ordinary integer."""
    kind = type(node)
    if kind is Constant:
        return type(node.value) is int  # type: ignore[attr-defined]
    if kind is LocalRef:
        return is_whole(unit, node.var)  # type: ignore[attr-defined]
    if isinstance(node, Arithmetic):
        return is_integer(unit, node.first) and is_integer(unit, node.second)
    if isinstance(node, CallFixed):
        if node.function is CL.own("mod").function:
            return all(is_integer(unit, item) for item in node.arguments)
        return node.function is CL.own("length").function
    if isinstance(node, If):
        return is_integer(unit, node.yes) and is_integer(unit, node.no)
    return False


def is_whole(unit: Unit, var: Var) -> bool:
    """Whether a variable is known to hold ordinary integers only: everything that it is bound or
    set to is one, if the variable itself is."""
    if var in unit.whole:
        return True
    if var.inits is None or var in unit.unknown:
        return False
    before = set(unit.whole)
    unit.whole.add(var)
    if all(is_integer(unit, node) for node in (*var.inits, *var.sets)):
        return True
    unit.whole = before  # and what was only true with it
    unit.unknown.add(var)
    return False


def bound(unit: Unit, node: Node, seen: tuple[Var, ...] = ()) -> int | None:
    """A number that no value of a node, known to give integers, exceeds in size; None: unknown."""
    if isinstance(node, Constant):
        return abs(node.value)
    if isinstance(node, LocalRef):
        var = node.var
        if var in seen or var.inits is None or not is_whole(unit, var):
            return None
        most = _greatest(unit, [*var.inits, *var.sets], (*seen, var))
        return None if most is None else max(most, LONGEST)  # dotimes counts on
    if isinstance(node, If):
        return _greatest(unit, [node.yes, node.no], seen)
    if isinstance(node, Arithmetic):
        first, second = bound(unit, node.first, seen), bound(unit, node.second, seen)
        if first is None or second is None:
            return None
        return first * second if node.name == "*" else first + second
    if isinstance(node, CallFixed):
        if node.function is CL.own("mod").function:
            return bound(unit, node.arguments[1], seen)
        return LONGEST
    return None


def _greatest(unit: Unit, nodes: list[Node], seen: tuple[Var, ...]) -> int | None:
    bounds = [bound(unit, node, seen) for node in nodes]
    return max((b for b in bounds if b is not None), default=0) if None not in bounds else None


def both(checks: list[str]) -> str:
    """A condition of several."""
    return " and ".join(checks)


def integers(unit: Unit, nodes: list[Node], names: list[str]) -> list[str]:
    """The conditions that all values are ordinary integers; none for those known to be."""
    checks: list[str] = []
    for node, name in zip(nodes, names, strict=True):
        if not is_integer(unit, node):
            checks.append(f"type({name}) is int")
            if isinstance(node, LocalRef) and not (node.var.sets or node.var.captured):
                unit.asked[node.var] = unit.asked.get(node.var, 0) + 1
    return checks


def _is_short(unit: Unit, node: Node) -> bool:
    """Whether a node is known to give an integer that may be multiplied without charge."""
    if not is_integer(unit, node):
        return False
    most = bound(unit, node)
    return most is not None and most < BIG


def in_order(unit: Unit, nodes: list[Node]) -> tuple[str, str]:
    """The values of two nodes as expressions, to be used once each, one after the other."""
    first = value(unit, nodes[0])
    with unit.captured() as lines:
        second = value(unit, nodes[1])
    if lines or len(first) + len(second) > _LONG:
        first = unit.held(first)
        unit.put(lines)
    return first, unit.held(second) if len(second) > _LONG else second


def _whole_arithmetic(unit: Unit, node: Arithmetic) -> str | None:
    """The expression of arithmetic of what is known to be integers; None where it is not."""
    nodes = [node.first, node.second]
    if not (is_integer(unit, node.first) and is_integer(unit, node.second)):
        return None
    if node.name == "*" and not all(_is_short(unit, item) for item in nodes):
        return None
    first, second = in_order(unit, nodes)
    return f"({first} {node.name} {second})"


def _arithmetic_value(unit: Unit, node: Arithmetic) -> str:
    whole = _whole_arithmetic(unit, node)
    if whole is not None:
        return whole
    name = unit.name("t")
    _arithmetic(unit, node, Dest(name))
    return name


def _arithmetic(unit: Unit, node: Arithmetic, dest: Dest) -> None:
    whole = _whole_arithmetic(unit, node)
    if whole is not None:
        unit.give(whole, dest)
        return
    nodes = [node.first, node.second]
    first, second = operands(unit, nodes, raw=True)
    slow = unit.slow(node.generic())
    sum_of = f"{first} {node.name} {second}"
    other = f"{slow}({first}, {second})"
    checks = integers(unit, nodes, [first, second])
    if node.name == "*":
        big, small = unit.constant(BIG), unit.constant(SMALL)
        checks += [
            f"{small} < {name} < {big}"
            for item, name in zip(nodes, (first, second), strict=True)
            if not _is_short(unit, item)
        ]
    name = dest.name if dest.name not in ("", "return", first, second) else unit.name("t")
    floats = [
        f"type({text}) is float"
        for item, text in zip(nodes, (first, second), strict=True)
        if type(item) is not Constant
    ]
    if not checks or not floats:
        unit.emit(f"{name} = {sum_of if not checks else other}")
    elif len(checks) == 2 and node.name != "*":
        # One look at the result instead of one at each operand.
        with unit.block("try:"):
            unit.emit(f"{name} = {sum_of}")
        with unit.block("except NUMERIC:"):
            unit.emit(f"{name} = None")
        plain = f"type({name}) is float and {name} - {name} == 0.0"
        unit.emit(f"if type({name}) is not int and not ({plain}): {name} = {other}")
    else:
        if not any(type(item) is Constant and type(item.value) is float for item in nodes):
            with unit.block(f"if {both(checks)}:"):
                unit.emit(f"{name} = {sum_of}")
            floats[0] = f"elif {floats[0]}"
        else:
            floats[0] = f"if {floats[0]}"
        with unit.block(f"{both(floats)}:"):
            unit.emit(f"{name} = {sum_of}")
            unit.emit(f"if {name} - {name} != 0.0: {name} = {other}")
        with unit.block("else:"):
            unit.emit(f"{name} = {other}")
    if name != dest.name:
        unit.give(name, dest)


VALUES[Arithmetic] = _arithmetic_value
WRITERS[Arithmetic] = _arithmetic


# ---------------------------------------------------------------- comparison


def _slow_comparison(node: Comparison) -> Operation:
    function = CL.own("zerop" if type(node) is ZeroTest else node.name).function
    assert function is not None
    generic, site, state = function.call, node.site, STATE

    def slow(a: Any, b: Any) -> Any:
        state.site = site
        return generic(primary(a), primary(b))

    def slow_zero(a: Any, b: Any) -> Any:
        state.site = site
        return generic(primary(a))

    return slow_zero if type(node) is ZeroTest else slow


SIGNS = {"=": "=="}
_NUMBERS = frozenset((int, float))


def _compared(unit: Unit, node: Comparison) -> tuple[str, str, str]:
    """(condition that it may be done in place, the comparison, the arguments)."""
    nodes = [node.first, node.second]
    sign = SIGNS.get(node.name, node.name)
    if is_integer(unit, node.first) and is_integer(unit, node.second):
        first, second = in_order(unit, nodes)
        return "", f"{first} {sign} {second}", ""
    first, second = operands(unit, nodes, raw=True)
    checks = integers(unit, nodes, [first, second])
    return both(checks), f"{first} {sign} {second}", f"{first}, {second}"


def _comparison(unit: Unit, node: Comparison) -> str:
    checks, compared, given = _compared(unit, node)
    if not checks:
        return f"(T if {compared} else NIL)"
    slow = _slow_comparison(node)
    return f"((T if {compared} else NIL) if {checks} else {unit.slow(slow)}({given}))"


def _comparison_test(unit: Unit, node: Comparison) -> str:
    checks, compared, given = _compared(unit, node)
    if not checks:
        return f"({compared})"
    slow = _slow_comparison(node)
    zero = type(node) is ZeroTest
    compare = node.compare

    def ask(a: Any, b: Any) -> bool:
        if not zero and type(a) in _NUMBERS and type(b) in _NUMBERS:
            return compare(a, b)
        return truth(slow(a, b))

    return f"({compared} if {checks} else {unit.slow(ask)}({given}))"


VALUES[Comparison] = VALUES[ZeroTest] = _comparison
TESTS[Comparison] = TESTS[ZeroTest] = _comparison_test


# ---------------------------------------------------------------- conses


def _access(unit: Unit, node: Access) -> str:
    function = CL.own(node.name).function
    assert function is not None
    generic, site, state = function.call, node.site, STATE
    part = "car" if node.name in ("car", "first") else "cdr"
    taken = attrgetter(part)

    def other(item: Any) -> Any:
        if type(item) is SrcCons:
            return taken(item)
        if item is NIL:
            return NIL
        state.site = site
        return generic(primary(item))

    name = unit.named(value(unit, node.argument, raw=True))
    slow = unit.slow(other)
    return f"({name}.{part} if type({name}) is Cons else {slow}({name}))"


VALUES[Access] = _access


# ---------------------------------------------------------------- tests


def _not(unit: Unit, node: Not) -> str:
    return f"(not {test(unit, node.node)})"


def _kind(unit: Unit, node: Kind) -> str:
    name = unit.named(value(unit, node.node))
    if node.name == "null":
        return f"({name} is NIL)"
    return f"{'' if node.name == 'consp' else 'not '}isinstance({name}, Cons)"


def _endp(unit: Unit, node: Endp) -> str:
    function = CL.own("endp").function
    assert function is not None
    generic, site, state = function.call, node.site, STATE

    def ask(item: Any) -> bool:
        if type(item) is SrcCons:
            return False
        state.site = site
        return generic(item) is not NIL

    name = unit.named(value(unit, node.node))
    return f"(type({name}) is not Cons and ({name} is NIL or {unit.slow(ask)}({name})))"


def _is_small(node: Node) -> bool:
    return type(node) is Constant and type(node.value) is int


def _same(unit: Unit, node: Same) -> str:
    first, second = operands(unit, [node.first, node.second])
    for item in (node.first, node.second):
        if type(item) is Constant and isinstance(item.value, Symbol | Char | Cons):
            return f"({unit.named(first)} is {unit.named(second)})"
        if _is_small(item):
            other = second if item is node.first else first
            return f"(type({other}) is int and {first} == {second})"
    first, second = unit.named(first), unit.named(second)
    return f"({first} is {second} or {unit.constant(eql)}({first}, {second}))"


TESTS[Not] = _not
TESTS[Kind] = _kind
TESTS[Endp] = _endp
TESTS[Same] = _same
