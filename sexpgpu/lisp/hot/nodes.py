"""Writes the nodes of lisp.nodes, lambda, labels and their like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sexpgpu.lisp.binding_nodes import BindSpecial, Let, Sequential
from sexpgpu.lisp.control_macros import First
from sexpgpu.lisp.errors import unbound_variable, undefined_function
from sexpgpu.lisp.functions import GlobalFunction, Labels
from sexpgpu.lisp.hot.lists import new_collector
from sexpgpu.lisp.hot.parts import EFFECT, Dest
from sexpgpu.lisp.hot.strings import text_of
from sexpgpu.lisp.hot.unit import Unit
from sexpgpu.lisp.hot.writer import (
    TESTS,
    VALUES,
    WRITERS,
    branches,
    chain,
    is_simple,
    operands,
    test,
    truth_of,
    value,
    write,
    write_effect,
)
from sexpgpu.lisp.inline import ConsNode, ListNode, ValuesNode
from sexpgpu.lisp.lambdas import LambdaNode
from sexpgpu.lisp.nodes import And, If, Node, Or, Progn
from sexpgpu.lisp.scope import Frame, Var
from sexpgpu.lisp.value_macros import BindValues
from sexpgpu.lisp.values import MV, NIL
from sexpgpu.lisp.variable_nodes import GlobalRef, SetGlobal, SetLocal

# ---------------------------------------------------------------- variables


def _global(unit: Unit, node: GlobalRef) -> str:
    symbol, site, scope = node.symbol, node.site, node.scope

    def missing() -> Any:
        raise unbound_variable(symbol, site, scope)

    name = unit.held(f"{unit.constant(symbol)}.value")
    unit.emit(f"if {name} is UNBOUND: {unit.slow(missing)}()")
    return name


def _set_local(unit: Unit, node: SetLocal, dest: Dest) -> None:
    unit.assigned.add(node.var)
    name = unit.variable(node.var)
    write(unit, node.value, Dest(name))
    unit.give(name, dest)


def _set_local_value(unit: Unit, node: SetLocal) -> str:
    _set_local(unit, node, EFFECT)
    return unit.variable(node.var)


def _set_global(unit: Unit, node: SetGlobal, dest: Dest) -> None:
    symbol, site = node.symbol, node.site
    name = unit.held(value(unit, node.value))
    place = unit.constant(symbol)
    if node.check:

        def missing() -> Any:
            raise unbound_variable(symbol, site)

        condition = f"{place}.value is UNBOUND and not {place}.special"
        unit.emit(f"if {condition}: {unit.slow(missing)}()")
    unit.emit(f"keep({place})")
    unit.emit(f"{place}.value = {name}")
    unit.give(name, dest)


VALUES[GlobalRef] = _global
VALUES[SetLocal] = _set_local_value
WRITERS[SetLocal] = _set_local
WRITERS[SetGlobal] = _set_global


# ---------------------------------------------------------------- sequence and choice


def _progn(unit: Unit, node: Progn, dest: Dest) -> None:
    for item in node.nodes[:-1]:
        write_effect(unit, item)
    write(unit, node.nodes[-1], dest)


def _progn_test(unit: Unit, node: Progn) -> str:
    for item in node.nodes[:-1]:
        write_effect(unit, item)
    return test(unit, node.nodes[-1])


def _is_nothing(node: Any, dest: Dest) -> bool:
    return not dest.name and is_simple(node)


def _if(unit: Unit, node: If, dest: Dest) -> None:
    condition = test(unit, node.condition)
    branches(
        unit,
        condition,
        lambda: write(unit, node.yes, dest),
        None if _is_nothing(node.no, dest) else lambda: write(unit, node.no, dest),
    )


def _if_value(unit: Unit, node: If) -> str:
    if is_simple(node.yes) and is_simple(node.no):
        condition = test(unit, node.condition)
        return f"({value(unit, node.yes)} if {condition} else {value(unit, node.no)})"
    name = unit.name("t")
    _if(unit, node, Dest(name))
    return name


def _if_test(unit: Unit, node: If) -> str:
    name = unit.name("c")
    branches(
        unit,
        test(unit, node.condition),
        lambda: unit.emit(f"{name} = {test(unit, node.yes)}"),
        lambda: unit.emit(f"{name} = {test(unit, node.no)}"),
    )
    return name


def _and(unit: Unit, node: And, dest: Dest) -> None:
    condition = chain(unit, node.nodes[:-1], "and")
    branches(
        unit,
        condition,
        lambda: write(unit, node.nodes[-1], dest),
        (lambda: unit.give("NIL", dest)) if dest.name else None,
    )


def _or(unit: Unit, node: Or, dest: Dest, at: int = 0) -> None:
    item = node.nodes[at]
    if at == len(node.nodes) - 1:
        write(unit, item, dest)
        return
    name = unit.held(value(unit, item))
    truth = truth_of(unit, name, getattr(item, "site", None))
    if dest.name:
        branches(
            unit,
            truth,
            lambda: unit.give(name, dest),
            lambda: _or(unit, node, dest, at + 1),
        )
    else:
        branches(unit, f"not {truth}", lambda: _or(unit, node, dest, at + 1), None)


WRITERS[Progn] = _progn
TESTS[Progn] = _progn_test
VALUES[If] = _if_value
WRITERS[If] = _if
TESTS[If] = _if_test
WRITERS[And] = _and
TESTS[And] = lambda unit, node: chain(unit, node.nodes, "and")
WRITERS[Or] = _or
TESTS[Or] = lambda unit, node: chain(unit, node.nodes, "or")


# ---------------------------------------------------------------- binding


def fresh(in_loop: bool, variables: list[Var]) -> Frame | None:
    """The frame that a binding form makes for its variables: a closure may keep them from one
    round of a loop to the next."""
    if in_loop and any(var.captured for var in variables):
        return variables[0].frame
    return None


def _bind(unit: Unit, var: Var, init: Node, inside: list[Node]) -> None:
    """Bind a variable that `inside` looks at."""
    bare = new_collector(unit, var, init) or text_of(unit, var, init, inside)
    if bare is None:
        write(unit, init, Dest(unit.bind(var)))
    else:
        unit.emit(f"{unit.bind(var)} = {bare}")


def _let(unit: Unit, node: Let, dest: Dest) -> None:
    _let_around(unit, node, lambda: write(unit, node.body, dest))


def _let_test(unit: Unit, node: Let) -> str:
    made: list[str] = []
    _let_around(unit, node, lambda: made.append(test(unit, node.body)))
    return made[0]


def _let_around(unit: Unit, node: Let, inside: Any) -> None:
    saved = unit.frame
    frame = fresh(node.in_loop, node.variables)
    if frame is None:
        for var, init in zip(node.variables, node.inits, strict=True):
            _bind(unit, var, init, [node.body])
    else:
        given = operands(unit, node.inits)
        for var in node.variables:
            unit.bind(var)
            unit.boxed.add(var)
        values = {var.index: name for var, name in zip(node.variables, given, strict=True)}
        unit.own_frame(frame, values)
    inside()
    unit.frame = saved


def _sequential(unit: Unit, node: Sequential, dest: Dest) -> None:
    _in_order(unit, node, node.inits, dest)


def _in_order(unit: Unit, node: Sequential | Labels, inits: Sequence[Node], dest: Dest) -> None:
    """Variables that are bound one after the other, all in one frame."""
    saved = unit.frame
    frame = fresh(node.in_loop, node.variables)
    if frame is not None:
        unit.own_frame(frame)
    for var, init in zip(node.variables, inits, strict=True):
        _bind(unit, var, init, [*inits, node.body])
    write(unit, node.body, dest)
    unit.frame = saved


def _bind_values(unit: Unit, node: BindValues, dest: Dest) -> None:
    saved = unit.frame
    source = unit.name("t")
    write(unit, node.source, Dest(source, single=False))
    frame = fresh(node.in_loop, node.variables)
    if frame is not None:
        unit.own_frame(frame)
    count = len(node.variables)
    names = [unit.bind(var) for var in node.variables]
    if count == 1:
        first = f"({source}[0] if {source} else NIL)"
        unit.emit(f"{names[0]} = {first} if type({source}) is MV else {source}")
    elif count:

        def spread(item: Any) -> Any:
            values = item if type(item) is MV else (item,)
            return (*values, *((NIL,) * count))[:count]

        exact = f"type({source}) is MV and len({source}) == {count}"
        other = f"{unit.constant(spread)}({source})"
        unit.emit(f"{', '.join(names)} = {source} if {exact} else {other}")
    write(unit, node.body, dest)
    unit.frame = saved


def _bind_special(unit: Unit, node: BindSpecial, dest: Dest) -> None:
    names = operands(unit, node.inits)
    places = [unit.constant(symbol) for symbol in node.symbols]
    saved = [unit.name("s") for _ in places]
    for name, place in zip(saved, places, strict=True):
        unit.emit(f"{name} = {place}.value")
    for name, place in zip(names, places, strict=True):
        unit.emit(f"keep({place})")
        unit.emit(f"{place}.value = {name}")
    with unit.block("try:"):
        write(unit, node.body, dest)
    with unit.block("finally:"):
        for name, place in zip(saved, places, strict=True):
            unit.emit(f"{place}.value = {name}")


WRITERS[Let] = _let
TESTS[Let] = _let_test
WRITERS[Sequential] = _sequential
WRITERS[BindValues] = _bind_values
WRITERS[BindSpecial] = _bind_special


# ---------------------------------------------------------------- functions


def _lambda(unit: Unit, node: LambdaNode) -> str:
    frame = node.tier.frame
    assert frame is not None
    env = unit.environment() if frame.reaches else "None"
    return f"{unit.constant(node.tier.new)}({env})"


def _labels(unit: Unit, node: Labels, dest: Dest) -> None:
    _in_order(unit, node, node.nodes, dest)


def _function(unit: Unit, node: GlobalFunction) -> str:
    symbol, site = node.symbol, node.site

    def missing() -> Any:
        raise undefined_function(symbol, site)

    name = unit.held(f"{unit.constant(symbol)}.function")
    unit.emit(f"if {name} is None: {unit.slow(missing)}()")
    return name


VALUES[LambdaNode] = _lambda
WRITERS[Labels] = _labels
VALUES[GlobalFunction] = _function


# ---------------------------------------------------------------- values


def _first(unit: Unit, node: First, dest: Dest) -> None:
    if node.all_values:
        name = unit.name("t")
        write(unit, node.first, Dest(name, single=False))
    else:
        name = unit.held(value(unit, node.first))
    write_effect(unit, node.rest)
    unit.give(name, dest, node.all_values and node.first.multi)


def _values(unit: Unit, node: ValuesNode, dest: Dest) -> None:
    names = operands(unit, node.nodes)
    if len(names) == 1:
        unit.give(names[0], dest)
    elif dest.single:
        unit.give(names[0] if names else "NIL", dest)
    else:
        unit.give(f"MV(({', '.join(names)}))" if names else f"{unit.constant(MV())}", dest)


def _cons(unit: Unit, node: ConsNode) -> str:
    first, second = operands(unit, [node.first, node.second])
    return unit.cons(first, second)


def _list(unit: Unit, node: ListNode) -> str:
    names = operands(unit, node.nodes)
    made = "NIL"
    for name in reversed(names):
        made = unit.cons(name, made)
    return made


WRITERS[First] = _first
WRITERS[ValuesNode] = _values
VALUES[ConsNode] = _cons
VALUES[ListNode] = _list
