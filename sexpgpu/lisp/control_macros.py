"""Control macros that are compiled directly: when, cond, and, or, prog1, return, funcall, apply."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.analyze import (
    Tails,
    analyze_car,
    arguments,
    body,
    malformed,
    native,
    parts,
    site_here,
)
from sexpgpu.lisp.callnodes import CallFixed, CallValue
from sexpgpu.lisp.control_forms import return_from
from sexpgpu.lisp.nodes import (
    And,
    Constant,
    If,
    Node,
    Or,
    Progn,
    Run,
    single,
)
from sexpgpu.lisp.scope import Frame, Scope
from sexpgpu.lisp.values import NIL, Cons, Function, T
from sexpgpu.reader.printer import brief


@native("when")
def _when(form: Any, scope: Scope, tails: Tails) -> Node:
    """When TEST is true, evaluates the forms; the values of the last."""
    parts(form, 1, None, "(when test form…)")
    return If(analyze_car(form.cdr, scope), body(form.cdr.cdr, scope, tails), Constant(NIL))


@native("unless")
def _unless(form: Any, scope: Scope, tails: Tails) -> Node:
    """When TEST is false, evaluates the forms; the values of the last."""
    parts(form, 1, None, "(unless test form…)")
    return If(analyze_car(form.cdr, scope), Constant(NIL), body(form.cdr.cdr, scope, tails))


@native("and")
def _and(form: Any, scope: Scope, tails: Tails) -> Node:
    """Evaluates until a form is false; the values of the last form."""
    nodes = _each(form, scope, tails)
    return And(nodes) if len(nodes) > 1 else nodes[0] if nodes else Constant(T)


@native("or")
def _or(form: Any, scope: Scope, tails: Tails) -> Node:
    """Evaluates until a form is true, and gives its value."""
    nodes = _each(form, scope, tails)
    return Or(nodes) if len(nodes) > 1 else nodes[0] if nodes else Constant(NIL)


def _each(form: Any, scope: Scope, tails: Tails) -> list[Node]:
    parts(form, 0, None, f"({form.car.name} form…)")
    nodes: list[Node] = []
    at = form.cdr
    while at is not NIL:
        nodes.append(analyze_car(at, scope, tails if at.cdr is NIL else ()))
        at = at.cdr
    return nodes


@native("cond")
def _cond(form: Any, scope: Scope, tails: Tails) -> Node:
    """Evaluates the forms of the first clause whose test is true."""
    clauses = parts(form, 0, None, "(cond (test form…)…)")
    made: list[tuple[Node, Node | None]] = []
    for clause in clauses:
        if not isinstance(clause, Cons):
            raise malformed(f"{brief(clause)} is not a clause (test form…)", form)
        test = analyze_car(clause, scope)
        made.append((test, None if clause.cdr is NIL else body(clause.cdr, scope, tails)))
    result: Node = Constant(NIL)
    for test, then in reversed(made):
        if then is None:
            result = Or([test, result])
        elif isinstance(test, Constant) and test.value is not NIL:
            result = then
        else:
            result = If(test, then, result)
    return result


@native("prog1")
def _prog1(form: Any, scope: Scope, tails: Tails) -> Node:
    """Evaluates in order; the value of the first form."""
    parts(form, 1, None, "(prog1 form form…)")
    return First(analyze_car(form.cdr, scope), body(form.cdr.cdr, scope))


class First(Node):
    """Several forms, the value (or all values) of the first."""

    __slots__ = ("all_values", "first", "multi", "rest")

    def __init__(self, first: Node, rest: Node, all_values: bool = False) -> None:
        self.first = first
        self.rest = rest
        self.all_values = all_values
        self.multi = all_values and first.multi

    def emit(self, frame: Frame) -> Run:
        first = self.first.emit(frame) if self.all_values else single(self.first, frame)
        rest = self.rest.emit(frame)

        def run(env: Any) -> Any:
            value = first(env)
            rest(env)
            return value

        return run


@native("prog2")
def _prog2(form: Any, scope: Scope, tails: Tails) -> Node:
    """Evaluates in order; the value of the second form."""
    parts(form, 2, None, "(prog2 form form form…)")
    first = analyze_car(form.cdr, scope)
    kept = First(analyze_car(form.cdr.cdr, scope), body(form.cdr.cdr.cdr, scope))
    return Progn([first, kept])


@native("return")
def _return(form: Any, scope: Scope, tails: Tails) -> Node:
    """Leaves the block nil, such as the loop around, with a value."""
    cells = parts(form, 0, 1, "(return [value])")
    return return_from(NIL, form.cdr if cells else None, scope, tails, form)


# ---------------------------------------------------------------- calls


@native("funcall")
def _funcall(form: Any, scope: Scope, tails: Tails) -> Node:
    """Calls a function that is a value."""
    parts(form, 1, None, "(funcall function argument…)")
    function = analyze_car(form.cdr, scope)
    nodes = arguments(form.cdr.cdr, scope, form)
    if isinstance(function, Constant) and type(function.value) is Function:
        return CallFixed(function.value, nodes, site_here())
    return CallValue(function, nodes, site_here())


@native("apply")
def _apply(form: Any, scope: Scope, tails: Tails) -> Node:
    """Calls a function; the last argument is a list of further ones."""
    from sexpgpu.lisp.callnodes import ApplyNode

    parts(form, 2, None, "(apply function argument… list)")
    function = analyze_car(form.cdr, scope)
    nodes = arguments(form.cdr.cdr, scope, form)
    return ApplyNode(function, nodes, site_here())
