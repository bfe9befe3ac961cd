"""The analysers of the operator objects of lisp/hostforms.py, and the macros of native forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.analyze import (
    NATIVE,
    Analyzer,
    Tails,
    analyze_car,
    arguments,
    body,
    items_of,
    malformed,
    parts,
    site_here,
)
from sexpgpu.lisp.binding_nodes import Let
from sexpgpu.lisp.callnodes import CallValue, Direct
from sexpgpu.lisp.calls import as_function
from sexpgpu.lisp.errors import undefined_function
from sexpgpu.lisp.hostforms import (
    FLET_VALUES,
    THUNK,
    VALUES_CALL,
    HostCall,
    Operator,
    analyze_host_call,
)
from sexpgpu.lisp.nodes import Constant, Custom, Node, Run, single
from sexpgpu.lisp.scope import (
    Frame,
    Level,
    LocalFunction,
    Scope,
    Var,
    environment_scope,
    null_scope,
)
from sexpgpu.lisp.values import CL, NIL, Cons, Function, SrcCons, Symbol, T, lisp_list, new_cons


def _flet_values(form: Any, scope: Scope, tails: Tails) -> Node:
    cells = parts(form, 1, None, "(%flet-values ((name form)…) form…)")
    level = scope.level
    inner = Scope(scope, level)
    inner.functions = {}
    variables: list[Var] = []
    nodes: list[Node] = []
    for item in items_of(cells[0]):
        if len(items_of(item)) != 2 or not isinstance(item.car, Symbol):
            raise malformed("%flet-values takes pairs (name form)", form)
        value = analyze_car(item.cdr, scope)
        nodes.append(_function_of(value, item.car))
        var = Var(item.car, level)
        variables.append(var)
        inner.functions[item.car] = LocalFunction(var)
    in_loop = level.loops > 0
    made = body(form.cdr.cdr, inner, tails)
    return Let(variables, nodes, made, in_loop) if nodes else made


def _function_of(value: Node, name: Symbol) -> Node:
    """The function that a value acts as; nil acts as one that is not defined."""

    def missing(*_: Any) -> Any:
        raise undefined_function(name)

    absent = Function(name.name, missing)

    def make(frame: Frame) -> Run:
        run = single(value, frame)

        def function(env: Any) -> Function:
            found = run(env)
            return absent if found is NIL else as_function(found)

        return function

    return Custom(make, False)


def _values_call(form: Any, scope: Scope, tails: Tails) -> Node:
    parts(form, 1, None, "(%values-call function argument…)")
    function = analyze_car(form.cdr, scope)
    return CallValue(function, arguments(form.cdr.cdr, scope, form), site_here())


def _call_host(operator: HostCall, form: Any, scope: Scope) -> Node:
    given = items_of(form.cdr)
    forms = operator.forms
    if len(given) != len(forms) or any(a is not b for a, b in zip(given, forms, strict=True)):
        # A program took the expansion apart: the callable takes what it was made for.
        raise malformed("%call-host stands only in the form that a macro made with it", form)
    nodes = arguments(form.cdr, scope, form)
    for at, value in operator.constants.items():
        nodes[at] = Constant(value)
    target, site = operator.function, site_here()
    return Direct(target, nodes, site)


def _thunk(form: Any, scope: Scope, tails: Tails) -> Node:
    level = Level(scope.level)
    inside = body(form.cdr, Scope(scope, level))

    def make(frame: Frame) -> Run:
        inner = Frame(frame)
        run = inside.emit(inner)
        padding = (None,) * (inner.size - 1)

        def thunk(env: Any) -> Any:
            return lambda: run([env, *padding])

        return thunk

    return Custom(make, False)


FLET_VALUES.analyze = _flet_values
VALUES_CALL.analyze = _values_call
analyze_host_call[0] = _call_host
THUNK.analyze = _thunk


def _body(forms: Any) -> Any:
    return forms.car if isinstance(forms, Cons) and forms.cdr is NIL else new_cons(_PROGN, forms)


def _expand_when(form: Any) -> Any:
    return lisp_list([_IF, form.cdr.car, _body(form.cdr.cdr)])


def _expand_unless(form: Any) -> Any:
    return lisp_list([_IF, form.cdr.car, NIL, _body(form.cdr.cdr)])


def _expand_return(form: Any) -> Any:
    parts(form, 0, 1, "(return [value])")
    return new_cons(CL.own("return-from"), new_cons(NIL, form.cdr))


def _expand_and(form: Any) -> Any:
    if form.cdr is NIL:
        return T
    if form.cdr.cdr is NIL:
        return form.cdr.car
    return lisp_list([_IF, form.cdr.car, new_cons(form.car, form.cdr.cdr), NIL])


def _expand_or(form: Any) -> Any:
    if form.cdr is NIL:
        return NIL
    if form.cdr.cdr is NIL:
        return form.cdr.car
    value = Symbol("value")
    rest = new_cons(form.car, form.cdr.cdr)
    chosen = lisp_list([_IF, value, value, rest])
    return lisp_list([_LET, lisp_list([lisp_list([value, form.cdr.car])]), chosen])


def _expand_cond(form: Any) -> Any:
    if form.cdr is NIL:
        return NIL
    clause = form.cdr.car
    rest = new_cons(form.car, form.cdr.cdr)
    if clause.cdr is NIL:
        return lisp_list([CL.own("or"), clause.car, rest])
    return lisp_list([_IF, clause.car, _body(clause.cdr), rest])


_IF = CL.own("if")
_PROGN = CL.own("progn")
_LET = CL.own("let")
# What a person sees of the simplest ones is plain CL.
_EXPANDERS: dict[str, Callable[[Any], Any]] = {
    "when": _expand_when,
    "unless": _expand_unless,
    "return": _expand_return,
    "and": _expand_and,
    "or": _expand_or,
    "cond": _expand_cond,
}


def _macro_of(symbol: Symbol, analyzer: Analyzer) -> Function:
    """The macro of a form that is analysed directly: it expands into an operator object that no
    program can name, with the same subforms."""
    operator = Operator(f"%{symbol.name}")

    def run(form: Any, scope: Scope, tails: Tails) -> Node:
        if type(form) is SrcCons:
            return analyzer(SrcCons(symbol, form.cdr, form.place), scope, tails)
        return analyzer(new_cons(symbol, form.cdr), scope, tails)

    operator.analyze = run

    def expand(form: Any, environment: Any = NIL) -> Any:
        if not isinstance(form, Cons):
            raise malformed(f"{symbol.name}: not a call of the macro")
        if not isinstance(form.cdr, Cons):  # nothing to expand: an error, or a matter of a constant
            analyzer(form, null_scope(), ())
        items_of(form.cdr)
        expander = _EXPANDERS.get(symbol.name)
        if expander is not None:
            try:
                return expander(form)
            except AttributeError:  # a malformed call
                analyzer(form, environment_scope(environment), ())
        if type(form) is SrcCons:
            return SrcCons(operator, form.cdr, form.place)
        return new_cons(operator, form.cdr)

    return Function(
        symbol.name, expand, 2, 2, "(form environment)", (analyzer.__doc__ or "").strip()
    )


def install_macros() -> None:
    """Give every natively analysed macro its macro function."""
    for symbol, analyzer in NATIVE.items():
        if symbol.function is None and symbol.macro is None:
            symbol.macro = _macro_of(symbol, analyzer)
