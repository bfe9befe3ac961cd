"""The special operators that bind variables and the simplest ones."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.analyze import (
    AT,
    Tails,
    analyze,
    analyze_car,
    body,
    hygiene,
    items_of,
    malformed,
    parts,
    site_here,
    special,
)
from sexpgpu.lisp.binding_nodes import BindSpecial, Let, Sequential
from sexpgpu.lisp.builtins.designators import list_items
from sexpgpu.lisp.calls import primary
from sexpgpu.lisp.declarations import split_body
from sexpgpu.lisp.errors import program_error, type_error
from sexpgpu.lisp.journal import keep
from sexpgpu.lisp.nodes import Constant, Custom, If, Node, Run, progn, single
from sexpgpu.lisp.scope import (
    DYNAMIC,
    Frame,
    Scope,
    SymbolMacro,
    Var,
)
from sexpgpu.lisp.values import (
    CL,
    NIL,
    UNBOUND,
    Cons,
    SrcCons,
    Symbol,
    new_cons,
)
from sexpgpu.lisp.variable_nodes import LocalRef, SetGlobal, SetLocal
from sexpgpu.reader.printer import brief

SETF = CL.own("setf")

_CONSTANT_FIX = "choose another name, or define a variable with defvar"


def declared_scope(scope: Scope, specials: set[Symbol]) -> Scope:
    """The scope with free special declarations."""
    inner = Scope(scope, scope.level, False)
    if specials:
        inner.variables = dict.fromkeys(specials, DYNAMIC)
    inner.top_level = scope.top_level
    return inner


def is_now(situations: Any, form: Any) -> bool:
    if not isinstance(situations, Cons) and situations is not NIL:
        raise malformed("malformed eval-when: write (eval-when (situation…) form…)", form)
    names = {s.name for s in items_of(situations) if isinstance(s, Symbol)}
    unknown = names - {"compile-toplevel", "load-toplevel", "execute", "compile", "load", "eval"}
    if unknown:
        raise malformed(f"eval-when knows no situation {min(unknown)}", form)
    return bool(names & {"execute", "eval"})


# ---------------------------------------------------------------- simple operators


@special("quote")
def _quote(form: Any, scope: Scope, tails: Tails) -> Node:
    """The object itself, unevaluated."""
    return Constant(parts(form, 1, 1, "(quote object)")[0])


@special("progn")
def _progn_form(form: Any, scope: Scope, tails: Tails) -> Node:
    """Evaluates in order; the values of the last form."""
    return body(form.cdr, scope, tails)


@special("if")
def _if(form: Any, scope: Scope, tails: Tails) -> Node:
    """Chooses by the truth of TEST."""
    cells = parts(form, 2, 3, "(if test then [else])")
    test = form.cdr
    condition = analyze_car(test, scope)
    yes = analyze_car(test.cdr, scope, tails)
    no = analyze_car(test.cdr.cdr, scope, tails) if len(cells) == 3 else Constant(NIL)
    return If(condition, yes, no)


@special("setq")
def _setq(form: Any, scope: Scope, tails: Tails) -> Node:
    """Sets variables, in order."""
    cells = parts(form, 0, None, "(setq variable value …)")
    if len(cells) % 2:
        raise malformed("setq takes variables and values in pairs", form)
    nodes: list[Node] = []
    at = form.cdr
    while at is not NIL:
        nodes.append(set_variable(at.car, at.cdr, scope, form))
        at = at.cdr.cdr
    return progn(nodes)


def set_variable(name: Any, value_cell: Any, scope: Scope, form: Any) -> Node:
    """The node that sets a variable to the value of a cons's car."""
    if not isinstance(name, Symbol):
        fix = "write ((variable value)…)" if isinstance(form, Cons) else None
        raise malformed(f"{brief(name)} is not a variable", form, fix)
    found = scope.variable(name)
    if type(found) is SymbolMacro or (found is None and name.symbol_macro is not UNBOUND):
        expansion = found.expansion if type(found) is SymbolMacro else name.symbol_macro
        return analyze(new_cons(SETF, new_cons(expansion, new_cons(value_cell.car, NIL))), scope)
    return assign(name, analyze_car(value_cell, scope), scope, form)


def assign(name: Symbol, value: Node, scope: Scope, form: Any) -> Node:
    """The node that sets a variable (no symbol macro) to a node's value."""
    found = scope.variable(name)
    if type(found) is Var:
        found.touch(scope.level)
        found.sets.append(value)
        return SetLocal(found, value)
    if name.constant:
        raise malformed(f"{brief(name)} is a constant and cannot be set", form, _CONSTANT_FIX)
    return SetGlobal(name, value, site_here(), found is not DYNAMIC)


@special("the")
def _the(form: Any, scope: Scope, tails: Tails) -> Node:
    """The values of the form; the type is not checked."""
    parts(form, 2, 2, "(the type form)")
    return analyze_car(form.cdr.cdr, scope, tails)


@special("locally")
def _locally(form: Any, scope: Scope, tails: Tails) -> Node:
    """Evaluates forms under declarations."""
    forms, specials, _ = split_body(form.cdr, False)
    inner = declared_scope(scope, specials)
    inner.top_level = False
    return body(forms, inner, tails)


@special("eval-when")
def _eval_when(form: Any, scope: Scope, tails: Tails) -> Node:
    """Evaluates the forms when a situation holds; execute does."""
    cells = parts(form, 1, None, "(eval-when (situation…) form…)")
    return body(form.cdr.cdr, scope, tails) if is_now(cells[0], form) else Constant(NIL)


@special("load-time-value")
def _load_time_value(form: Any, scope: Scope, tails: Tails) -> Node:
    """The value of a form that is evaluated once."""
    cells = parts(form, 1, 2, "(load-time-value form)")
    from sexpgpu.lisp.toplevel import evaluate_top_level

    return Constant(primary(evaluate_top_level(cells[0])))


@special("declare")
def _declare(form: Any, scope: Scope, tails: Tails) -> Node:
    """At the beginning of a body: special counts, the rest is accepted."""
    raise malformed("declare stands only at the beginning of a body", form)


# ---------------------------------------------------------------- binding


def check_bindable(name: Any, form: Any) -> Symbol:
    """The variable of a binding."""
    if not isinstance(name, Symbol):
        raise malformed(
            f"{brief(name)} is not a variable", form, "bindings are ((variable value)…)"
        )
    if name.constant:
        raise malformed(f"{brief(name)} is a constant and cannot be bound", form, _CONSTANT_FIX)
    return name


def is_dynamic(name: Symbol, specials: set[Symbol]) -> bool:
    """Whether a new binding of the name is dynamic."""
    return name.special or name in specials


def _bindings(form: Any, operator: str) -> list[tuple[Symbol, Any]]:
    """(variable, cons whose car is the init form, or None) of a let."""
    parts(form, 1, None, f"({operator} ((variable value)…) form…)")
    cells = form.cdr.car
    result: list[tuple[Symbol, Any]] = []
    while isinstance(cells, Cons):
        item = cells.car
        if isinstance(item, Cons):
            if item.cdr is NIL:
                init = None
            elif isinstance(item.cdr, Cons) and item.cdr.cdr is NIL:
                init = item.cdr
            else:
                raise malformed(
                    f"{brief(item)} is not a binding (variable value)",
                    item if type(item) is SrcCons else form,
                )
            result.append((check_bindable(item.car, form), init))
        else:
            result.append((check_bindable(item, form), None))
        cells = cells.cdr
    if cells is not NIL:
        raise malformed(f"malformed {operator}: write ({operator} ((variable value)…) form…)", form)
    return result


def _init(cell: Any, scope: Scope) -> Node:
    return Constant(NIL) if cell is None else analyze_car(cell, scope)


@special("let")
def _let(form: Any, scope: Scope, tails: Tails) -> Node:
    """Binds variables, all at once."""
    bindings = _bindings(form, "let")
    forms, specials, _ = split_body(form.cdr.cdr, False)
    names = [name for name, _ in bindings]
    if len(set(names)) != len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise malformed(f"let binds {twice.name} twice", form)
    inits = [_init(cell, scope) for _, cell in bindings]
    written = hygiene().names(form.cdr.car, scope) if AT.checks else None
    return bind_parallel(names, inits, specials, forms, scope, tails, written)


def bind_parallel(
    names: list[Symbol],
    inits: list[Node],
    specials: set[Symbol],
    forms: Any,
    scope: Scope,
    tails: Tails = (),
    written: dict[Symbol, Any] | None = None,
) -> Node:
    """A node that binds variables, lexical or dynamic, around a body. `written`: those that a
    macro's text names."""
    level = scope.level
    inner = Scope(scope, level)
    table: dict[Symbol, Any] = dict.fromkeys(specials, DYNAMIC)
    variables: list[Var] = []
    dynamic: list[tuple[Symbol, Var]] = []
    for name in names:
        var = Var(name, level)
        if written is not None:
            var.written = written.get(name)
        variables.append(var)
        if is_dynamic(name, specials):
            table[name] = DYNAMIC
            dynamic.append((name, var))
        else:
            table[name] = var
    inner.variables = table or None
    in_loop = level.loops > 0
    if not names:
        return body(forms, inner, tails)
    if dynamic and len(dynamic) == len(names):
        return BindSpecial(names, inits, body(forms, inner, tails))
    made = body(forms, inner, tails)
    if dynamic:
        made = BindSpecial([n for n, _ in dynamic], [LocalRef(v) for _, v in dynamic], made)
    return Let(variables, inits, made, in_loop)


@special("let*")
def _let_star(form: Any, scope: Scope, tails: Tails) -> Node:
    """Binds variables in order: each sees those before it."""
    bindings = _bindings(form, "let*")
    forms, specials, _ = split_body(form.cdr.cdr, False)
    written = hygiene().names(form.cdr.car, scope) if AT.checks else None
    return bind_sequential(bindings, specials, forms, scope, tails, written)


def bind_sequential(
    bindings: list[tuple[Symbol, Any]],
    specials: set[Symbol],
    forms: Any,
    scope: Scope,
    tails: Tails = (),
    written: dict[Symbol, Any] | None = None,
) -> Node:
    """let*: each init sees the variables before it."""
    free = specials - {name for name, _ in bindings}
    steps: list[tuple[Symbol, Var | None, Node]] = []
    level = scope.level
    for name, cell in bindings:
        init = _init(cell, scope)
        inner = Scope(scope, level)
        if is_dynamic(name, specials):
            inner.variables = {name: DYNAMIC}
            steps.append((name, None, init))
        else:
            var = Var(name, level)
            if written is not None:
                var.written = written.get(name)
            inner.variables = {name: var}
            steps.append((name, var, init))
        scope = inner
    if free:
        scope = declared_scope(scope, free)
        scope.top_level = False
    elif not bindings:
        scope = Scope(scope, level)
    made = body(forms, scope, tails)
    in_loop = level.loops > 0
    at = len(steps)
    while at:
        start = at - 1
        name, var, init = steps[start]
        if var is None:
            made = BindSpecial([name], [init], made)
            at = start
            continue
        while start > 0 and steps[start - 1][1] is not None:
            start -= 1
        run = steps[start:at]
        variables = [v for _, v, _ in run if v is not None]
        inits = [n for _, _, n in run]
        if len(run) == 1:
            made = Let(variables, inits, made, in_loop)
        else:
            made = Sequential(variables, inits, made, in_loop)
        at = start
    return made


@special("progv")
def _progv(form: Any, scope: Scope, tails: Tails) -> Node:
    """Binds dynamic variables that are named at run time."""
    parts(form, 2, None, "(progv symbols values form…)")
    symbols = analyze_car(form.cdr, scope)
    values = analyze_car(form.cdr.cdr, scope)
    inside = body(form.cdr.cdr.cdr, scope)

    def make(frame: Frame) -> Run:
        names_of, values_of = single(symbols, frame), single(values, frame)
        run_body = inside.emit(frame)

        def run(env: Any) -> Any:
            names = list_items(names_of(env))
            given = list_items(values_of(env))
            for name in names:
                if not isinstance(name, Symbol):
                    raise type_error(name, "symbol")
                if name.constant:
                    raise program_error(f"{brief(name)} is a constant and cannot be bound")
            saved = [(name, name.value) for name in names]
            for index, name in enumerate(names):
                keep(name)
                name.value = given[index] if index < len(given) else UNBOUND
            try:
                return run_body(env)
            finally:
                for name, value in reversed(saved):
                    name.value = value

        return run

    return Custom(make)


def symbol_macrolet_scope(form: Any, scope: Scope) -> Scope:
    """The scope of a symbol-macrolet's body."""
    inner = Scope(scope, scope.level)
    table: dict[Symbol, Any] = {}
    for item in items_of(form.cdr.car):
        if (
            not isinstance(item, Cons)
            or not isinstance(item.cdr, Cons)
            or item.cdr.cdr is not NIL
            or not isinstance(item.car, Symbol)
        ):
            raise malformed(f"{brief(item)} is not (symbol expansion)", form)
        if item.car.special or item.car.constant:
            raise malformed(f"{brief(item.car)} is a dynamic variable or constant", form)
        table[item.car] = SymbolMacro(item.cdr.car)
    _, specials, _ = split_body(form.cdr.cdr, False)
    if any(name in table for name in specials):
        raise malformed("symbol-macrolet: a name is declared special", form)
    inner.variables = table or None
    return inner


@special("symbol-macrolet")
def _symbol_macrolet(form: Any, scope: Scope, tails: Tails) -> Node:
    """Makes names stand for forms in the body."""
    parts(form, 1, None, "(symbol-macrolet ((symbol expansion)…) form…)")
    inner = symbol_macrolet_scope(form, scope)
    forms, specials, _ = split_body(form.cdr.cdr, False)
    declared = declared_scope(inner, specials)
    declared.top_level = False
    return body(forms, declared, tails)
