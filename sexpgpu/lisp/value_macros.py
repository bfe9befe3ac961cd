"""Macros of multiple values and destructuring that are compiled directly."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.analyze import (
    AT,
    Tails,
    analyze,
    analyze_car,
    body,
    hygiene,
    malformed,
    native,
    parts,
    site_here,
)
from sexpgpu.lisp.binding_nodes import BindSpecial
from sexpgpu.lisp.calls import values_list
from sexpgpu.lisp.control_macros import First
from sexpgpu.lisp.declarations import split_body
from sexpgpu.lisp.errors import type_error
from sexpgpu.lisp.nodes import Constant, Custom, Node, Run, single
from sexpgpu.lisp.patterns import pattern
from sexpgpu.lisp.scope import Frame, Scope, Var
from sexpgpu.lisp.special import (
    check_bindable,
    is_dynamic,
)
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import CL, MV, NIL, Cons, Symbol, new_cons
from sexpgpu.lisp.variable_nodes import LocalRef
from sexpgpu.reader.printer import brief

SETF = CL.own("setf")


# ---------------------------------------------------------------- multiple values


@native("multiple-value-bind")
def _multiple_value_bind(form: Any, scope: Scope, tails: Tails) -> Node:
    """Binds variables to the values of a form."""
    cells = parts(form, 2, None, "(multiple-value-bind (variable…) form form…)")
    names = [check_bindable(item, form) for item in _list_of(cells[0], form)]
    source = analyze_car(form.cdr.cdr, scope)
    forms, specials, _ = split_body(form.cdr.cdr.cdr, False)
    level = scope.level
    inner = Scope(scope, level)
    written = hygiene().names(form.cdr.car, scope) if AT.checks else None
    table: dict[Symbol, Any] = {}
    from sexpgpu.lisp.scope import DYNAMIC

    table.update(dict.fromkeys(specials, DYNAMIC))
    variables: list[Var] = []
    dynamic: list[tuple[Symbol, Var]] = []
    for name in names:
        var = Var(name, level)
        if written is not None:
            var.written = written.get(name)
        variables.append(var)
        if is_dynamic(name, specials):
            dynamic.append((name, var))
            table[name] = DYNAMIC
        else:
            table[name] = var
    inner.variables = table or None
    in_loop = level.loops > 0
    made = body(forms, inner, tails)
    if dynamic:
        made = BindSpecial([n for n, _ in dynamic], [LocalRef(v) for _, v in dynamic], made)
    return BindValues(variables, source, made, in_loop)


class BindValues(Node):
    """Bind variables to the values of one form."""

    __slots__ = ("body", "in_loop", "multi", "source", "variables")

    def __init__(self, variables: list[Var], source: Node, body: Node, in_loop: bool) -> None:
        self.variables = variables
        self.source = source
        self.body = body
        self.in_loop = in_loop
        self.multi = body.multi

    def emit(self, frame: Frame) -> Run:
        source = self.source.emit(frame)
        inner = frame
        if self.in_loop and any(var.captured for var in self.variables):
            inner = Frame(frame)
        indices = [var.place(inner) for var in self.variables]
        run_body = self.body.emit(inner)
        count = len(indices)
        low = indices[0] if indices else 1
        high = low + count
        fresh = inner is not frame
        padding = (None,) * (inner.size - 1)
        missing = (NIL,) * count

        def run(env: Any) -> Any:
            value = source(env)
            if fresh:
                env = [env, *padding]
            if count:
                values = value if type(value) is MV else (value,)
                env[low:high] = (
                    values[:count] if len(values) >= count else (*values, *missing)[:count]
                )
            return run_body(env)

        return run


def _list_of(value: Any, form: Any) -> list[Any]:
    result: list[Any] = []
    at = value
    while isinstance(at, Cons):
        result.append(at.car)
        at = at.cdr
    if at is not NIL:
        raise malformed(f"{brief(value)} is not a list of variables", form)
    return result


@native("multiple-value-list")
def _multiple_value_list(form: Any, scope: Scope, tails: Tails) -> Node:
    """The list of the values of a form."""
    parts(form, 1, 1, "(multiple-value-list form)")
    source = analyze_car(form.cdr, scope)

    def make(frame: Frame) -> Run:
        from sexpgpu.lisp.values import lisp_list

        run = source.emit(frame)
        return lambda env: lisp_list(values_list(run(env)))

    return Custom(make, False)


@native("multiple-value-setq")
def _multiple_value_setq(form: Any, scope: Scope, tails: Tails) -> Node:
    """Sets variables to the values of a form."""
    cells = parts(form, 2, 2, "(multiple-value-setq (variable…) form)")
    names = _list_of(cells[0], form)
    if not names:
        return First(analyze_car(form.cdr.cdr, scope), Constant(NIL))
    from sexpgpu.lisp.values import lisp_list

    places = new_cons(CL.own("values"), lisp_list(names))
    setting = new_cons(SETF, new_cons(places, form.cdr.cdr))
    return First(analyze(setting, scope), Constant(NIL))


@native("nth-value")
def _nth_value(form: Any, scope: Scope, tails: Tails) -> Node:
    """The Nth value of a form, from 0."""
    parts(form, 2, 2, "(nth-value n form)")
    number, source = analyze_car(form.cdr, scope), analyze_car(form.cdr.cdr, scope)
    site = site_here()

    def make(frame: Frame) -> Run:
        run_number, run_source = single(number, frame), source.emit(frame)

        def run(env: Any) -> Any:
            index = run_number(env)
            values = values_list(run_source(env))
            if not isinstance(index, int) or index < 0:
                STATE.site = site
                raise type_error(index, "(integer 0)")
            return values[index] if index < len(values) else NIL

        return run

    return Custom(make, False)


@native("destructuring-bind")
def _destructuring_bind(form: Any, scope: Scope, tails: Tails) -> Node:
    """Binds the variables of a pattern, a macro's lambda list, to the parts of a list."""
    cells = parts(form, 2, None, "(destructuring-bind (pattern…) form form…)")
    source = analyze_car(form.cdr.cdr, scope)
    forms, specials, _ = split_body(form.cdr.cdr.cdr, False)
    level = scope.level
    made = pattern(cells[0], "destructuring-bind", Scope(scope, level), specials)
    inner = made.scope
    in_loop = level.loops > 0
    inside = made.wrap(body(forms, inner, tails))
    site = site_here()

    def emit(frame: Frame) -> Run:
        run_source = single(source, frame)
        target = frame
        if in_loop and any(var.captured for var in made.variables):
            target = Frame(frame)
        bind = made.emit(target)
        run_body = inside.emit(target)
        fresh = target is not frame
        padding = (None,) * (target.size - 1)

        def run(env: Any) -> Any:
            value = run_source(env)
            STATE.site = site
            if fresh:
                env = [env, *padding]
            bind(env, value)
            return run_body(env)

        return run

    return Custom(emit, inside.multi)
