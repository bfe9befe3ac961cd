"""Writes nodes: one function a kind, found by the node's class.

`VALUES[kind](unit, node)` gives the expression of the primary value, to be evaluated at once;
`WRITERS[kind](unit, node, dest)` writes statements that deliver the value;
`TESTS[kind](unit, node)` gives the expression of the truth, a Python bool. Each may write lines
before. A kind needs one of the three. The functions are in nodes, numbers, calls, blocks, loops.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from sexpgpu.lisp.calls import truth
from sexpgpu.lisp.hot.parts import EFFECT, Dest
from sexpgpu.lisp.hot.unit import Unit
from sexpgpu.lisp.nodes import Constant, Node
from sexpgpu.lisp.state import Site
from sexpgpu.lisp.values import (
    NIL,
    Char,
    Cons,
    Function,
    SrcCons,
    String,
    Structure,
    Symbol,
    TemplateCons,
    Vector,
)
from sexpgpu.lisp.variable_nodes import LocalRef

VALUES: dict[type, Callable[[Unit, Any], str]] = {}
WRITERS: dict[type, Callable[[Unit, Any, Dest], None]] = {}
TESTS: dict[type, Callable[[Unit, Any], str]] = {}

# Classes whose values are true, and need not be asked.
PLAIN = frozenset(
    (
        int,
        float,
        Fraction,
        Symbol,
        Cons,
        SrcCons,
        TemplateCons,
        String,
        Char,
        Vector,
        Structure,
        Function,
    )
)


def write(unit: Unit, node: Node, dest: Dest) -> None:
    """Write statements that deliver the node's value to `dest`."""
    kind = type(node)
    writer = WRITERS.get(kind)
    if writer is not None:
        writer(unit, node, dest)
    elif kind is Constant or kind is LocalRef or kind in VALUES:
        unit.give(value(unit, node), dest)
    elif kind in TESTS:
        unit.give(f"T if {TESTS[kind](unit, node)} else NIL", dest)
    else:
        write_closure(unit, node, dest)


def value(unit: Unit, node: Node, raw: bool = False) -> str:
    """The expression of the node's primary value, to be evaluated at once. `raw`: it may be an MV
    still where that is cheaper."""
    kind = type(node)
    if kind is Constant:
        return unit.constant(node.value)  # type: ignore[attr-defined]
    if kind is LocalRef:
        return unit.variable(node.var)  # type: ignore[attr-defined]
    made = VALUES.get(kind)
    if made is not None:
        return made(unit, node)
    name = unit.name("t")
    write(unit, node, Dest(name, raw=raw))
    return name


def is_simple(node: Node) -> bool:
    """Whether evaluating the node does nothing: its value may be taken later."""
    return type(node) is Constant or type(node) is LocalRef


def operands(unit: Unit, nodes: list[Node], raw: bool = False) -> list[str]:
    """The values of nodes, evaluated in order, as names and numbers."""
    made: list[str] = []
    quiet = [True]  # from here on everything is simple
    for node in reversed(nodes[1:]):
        quiet.append(quiet[-1] and is_simple(node))
    for node in nodes:
        expression = value(unit, node, raw)
        made.append(unit.atom(expression) if quiet.pop() else unit.held(expression))
    return made


def write_closure(unit: Unit, node: Node, dest: Dest) -> None:
    """A node that nobody writes: its closure is called. As a statement of a tagbody it may give
    a Jump."""
    call = unit.closure(node)
    if dest.statement:
        from sexpgpu.lisp.hot.blocks import take_jump

        name = unit.held(call)
        take_jump(unit, name)
        return
    unit.give(call, dest, node.multi)


def write_effect(unit: Unit, node: Node) -> None:
    """Evaluate a node for what it does."""
    if not is_simple(node):
        write(unit, node, EFFECT)


# ---------------------------------------------------------------- truth


def test(unit: Unit, node: Node) -> str:
    """The expression of a node's truth."""
    made = TESTS.get(type(node))
    if made is not None:
        return made(unit, node)
    return truth_of(unit, value(unit, node, raw=True), getattr(node, "site", None))


def truth_of(unit: Unit, expression: str, site: Site | None) -> str:
    """The expression of the truth of a value."""
    name = unit.named(expression)
    unit.names["PLAIN"] = PLAIN

    def ask(item: Any) -> bool:
        return truth(item, site)

    asked = unit.slow(ask)
    return f"({name} is not NIL and ({name} is T or type({name}) in PLAIN or {asked}({name})))"


def constant_test(unit: Unit, node: Constant) -> str:
    if node.value is NIL:
        return "False"
    if type(node.value) in PLAIN:
        return "True"
    return truth_of(unit, unit.constant(node.value), None)


TESTS[Constant] = constant_test


def chain(unit: Unit, nodes: list[Node], word: str) -> str:
    """The truth of `and` or `or`: tests that need statements run only when it comes to them."""
    expression = test(unit, nodes[0])
    for node in nodes[1:]:
        with unit.captured() as lines:
            unit.indent += 1
            more = test(unit, node)
            unit.indent -= 1
        if not lines:
            expression = f"({expression} {word} {more})"
            continue
        name = unit.name("c")
        unit.emit(f"{name} = {expression}")
        with unit.block(f"if {name}:" if word == "and" else f"if not {name}:"):
            unit.put(lines)
            unit.emit(f"{name} = {more}")
        expression = name
    return expression


def branches(
    unit: Unit, condition: str, yes: Callable[[], None], no: Callable[[], None] | None
) -> None:
    """An `if` of Python."""
    with unit.block(f"if {condition}:"):
        yes()
    if no is None:
        return
    with unit.captured() as lines:
        unit.indent += 1
        no()
        unit.indent -= 1
    if lines:
        unit.emit("else:")
        unit.put(lines)
