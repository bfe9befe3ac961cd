"""Lists that a builtin written in place makes for another one: no conses in between, but a Python
list of the elements. `loop … collect` makes them too. What making and walking the conses is charged
is charged here as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.binding_nodes import Let
from sexpgpu.lisp.builtins.designators import walked
from sexpgpu.lisp.callnodes import CallFixed
from sexpgpu.lisp.exits import BlockNode
from sexpgpu.lisp.hot.calls import INLINED
from sexpgpu.lisp.hot.inplace import by_builtin, uses
from sexpgpu.lisp.hot.parts import Dest
from sexpgpu.lisp.hot.unit import Unit
from sexpgpu.lisp.hot.writer import operands, value
from sexpgpu.lisp.loop_accumulation import COLLECT, COLLECTED, MAKE
from sexpgpu.lisp.nodes import Node, Progn
from sexpgpu.lisp.scope import Var
from sexpgpu.lisp.state import CONS, STATE
from sexpgpu.lisp.values import NIL, Function
from sexpgpu.lisp.variable_nodes import LocalRef

# How calls of builtins that make a new list are written: whether one can be, and writing it, which
# gives the name of the Python list.
MAKERS: dict[
    Function, tuple[Callable[[Unit, CallFixed], bool], Callable[[Unit, CallFixed], str]]
] = {}


def is_made(unit: Unit, node: Node) -> bool:
    """Whether a node makes a new list, in place."""
    if isinstance(node, CallFixed):
        maker = MAKERS.get(node.function)
        return maker is not None and maker[0](unit, node)
    return _collector(unit, node) is not None


def elements(unit: Unit, node: Node) -> str:
    """Write a node that makes a new list; the name of the Python list of its elements."""
    if isinstance(node, CallFixed):
        return MAKERS[node.function][1](unit, node)
    collector = _collector(unit, node)
    assert collector is not None
    unit.bare.add(collector)
    return unit.held(value(unit, node))


def walk(items: list[Any]) -> None:
    """Charge what a builtin is charged for going through a list of these elements."""
    for count in range(1024, len(items) + 1, 1024):
        walked(NIL, count)


def pay_conses(items: list[Any]) -> None:
    """Charge what `new_list` charges for a list of these elements."""
    if len(items) > 32:
        STATE.charge_memory(len(items) * CONS)


# ---------------------------------------------------------------- loop's collections


def _collecting(node: CallFixed) -> list[Node]:
    return node.arguments[:1] if node.function is COLLECT else []


def _collector(unit: Unit, node: Node) -> Var | None:
    """The collector of a `loop` that gives what it collects, and at which nothing else looks."""
    at = node
    while not isinstance(at, CallFixed):
        if isinstance(at, Let) or (isinstance(at, BlockNode) and not at.block.exits):
            at = at.body
        elif isinstance(at, Progn):
            at = at.nodes[-1]
        else:
            return None
    if at.function is not COLLECTED or not unit.keeps_bare:
        return None
    (collector,) = at.arguments
    assert isinstance(collector, LocalRef)
    var = collector.var
    alone = uses(node, var, _collecting) + 1 == var.references
    return var if alone and not (var.captured or var.sets) else None


def new_collector(unit: Unit, var: Var, init: Node) -> str | None:
    """The expression of the empty list that a variable is bound to, in place of a collector."""
    made = isinstance(init, CallFixed) and init.function is MAKE
    return "[]" if made and var in unit.bare else None


def _collect(unit: Unit, node: CallFixed, dest: Dest) -> bool:
    collector, item = node.arguments
    if isinstance(collector, LocalRef) and collector.var in unit.bare:
        unit.emit(f"{unit.variable(collector.var)}.append({value(unit, item)})")
        unit.give("NIL", dest)  # a statement of `loop`: nobody looks at its value
        return True
    first, second = operands(unit, node.arguments)
    slow = unit.slow(by_builtin(node.function, node.site))
    last = unit.held(f"{first}.last")
    with unit.block(f"if {last}.cdr is NIL:"):
        cell = unit.cons(second, "NIL")
        unit.emit(f"{last}.cdr = {first}.last = {cell}")
    with unit.block("else:"):
        unit.emit(f"{slow}({first}, {second})")
    if dest.name:
        unit.give(f"{first}.first.cdr", dest)
    return True


def _collected(unit: Unit, node: CallFixed, dest: Dest) -> bool:
    (collector,) = node.arguments
    bare = isinstance(collector, LocalRef) and collector.var in unit.bare
    if bare:
        unit.give(value(unit, collector), dest)
    return bare


INLINED[COLLECT] = _collect
INLINED[COLLECTED] = _collected
