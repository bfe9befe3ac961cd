"""Restarts: finding and invoking them, and the forms that establish them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from sexpgpu.lisp.analyze import (
    Tails,
    analyze,
    analyze_car,
    arguments,
    body,
    items_of,
    malformed,
    native,
    parts,
    site_here,
)
from sexpgpu.lisp.builtins.designators import list_items
from sexpgpu.lisp.callnodes import evaluate_arguments
from sexpgpu.lisp.calls import as_function, call_values, primary
from sexpgpu.lisp.control import RestartExit
from sexpgpu.lisp.errors import (
    LispError,
    control_error,
    type_error,
)
from sexpgpu.lisp.functions import lambda_node
from sexpgpu.lisp.handling import protected
from sexpgpu.lisp.macros import is_native, macroexpand
from sexpgpu.lisp.nodes import (
    Constant,
    Custom,
    Node,
    Run,
    single,
)
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.scope import Frame, Scope
from sexpgpu.lisp.signalling import Restart, cerror, coerce_condition, error, signal, warn
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import (
    CL,
    MV,
    NIL,
    Condition,
    Cons,
    String,
    Symbol,
    T,
    keyword,
    lisp_list,
    new_cons,
)
from sexpgpu.reader.printer import brief

# ---------------------------------------------------------------- restarts


def _visible(restart: Restart, condition: Any) -> bool:
    if isinstance(condition, Condition) and restart.conditions:
        if not any(own is condition for own in restart.conditions):
            return False
    if restart.test is None:
        return True
    argument = condition if isinstance(condition, Condition) else NIL
    return primary(call_values(as_function(restart.test), argument)) is not NIL


def active_restarts() -> Iterator[Restart]:
    """The active restarts, innermost first."""
    at = STATE.restarts
    while at:
        restart, at = at
        yield restart


def _linked(fresh: list[Restart], outer: tuple[Any, ...]) -> tuple[Any, ...]:
    """The restarts of one form in front of the outer ones; the first clause comes first."""
    for restart in reversed(fresh):
        outer = (restart, outer)
    return outer


def find_restart_named(name: Any, condition: Any = None) -> Restart | None:
    """The innermost active restart of that name (or that restart itself)."""
    for restart in active_restarts():
        if (restart is name or restart.name is name) and _visible(restart, condition):
            return restart
    return None


def invoke(restart: Restart, arguments: tuple[Any, ...]) -> Any:
    """Transfer control to a restart."""
    if restart.function is not None:
        return call_values(as_function(restart.function), *arguments)
    raise RestartExit(restart.token, restart.index, arguments)


@builtin("find-restart", "(name &optional condition)")
def find_restart(name: Any, condition: Any = None) -> Any:
    """The active restart of that name, or nil."""
    return find_restart_named(name, condition) or NIL


@builtin("compute-restarts", "(&optional condition)")
def compute_restarts(condition: Any = None) -> Any:
    """The active restarts, innermost first."""
    return lisp_list([r for r in active_restarts() if _visible(r, condition)])


@builtin("restart-name", "(restart)")
def restart_name(restart: Any) -> Any:
    """The name of a restart."""
    if not isinstance(restart, Restart):
        raise type_error(restart, "restart")
    return restart.name


@builtin("invoke-restart", "(restart &rest arguments)")
def invoke_restart(restart: Any, *arguments: Any) -> Any:
    """Transfer control to a restart, given by name or itself."""
    found = find_restart_named(restart)
    if found is None:
        raise control_error(f"no restart {brief(restart)} is active")
    return invoke(found, arguments)


@builtin("invoke-restart-interactively", "(restart)")
def invoke_restart_interactively(restart: Any) -> Any:
    """Transfer control to a restart, its arguments from its :interactive function."""
    found = find_restart_named(restart)
    if found is None:
        raise control_error(f"no restart {brief(restart)} is active")
    arguments: tuple[Any, ...] = ()
    if found.interactive is not None:
        arguments = tuple(list_items(primary(call_values(as_function(found.interactive)))))
    return invoke(found, arguments)


def _standard_restart(name: str, arguments: int, must: bool) -> None:
    symbol = CL.own(name)
    value = "value " if arguments else ""

    def use(*given: Any) -> Any:
        condition = given[arguments] if len(given) > arguments else None
        found = find_restart_named(symbol, condition)
        if found is not None:
            return invoke(found, given[:arguments])
        if must:
            raise control_error(f"no restart {name} is active")
        return NIL

    use.__doc__ = f"Invoke the restart {name}" + ("." if must else ", if one is active.")
    builtin(name, f"({value}&optional condition)")(use)


_standard_restart("continue", 0, False)
_standard_restart("abort", 0, True)
_standard_restart("muffle-warning", 0, True)
_standard_restart("use-value", 1, False)
_standard_restart("store-value", 1, False)


_SIGNALLERS = {
    CL.own("signal"): (signal, "simple-condition"),
    CL.own("error"): (error, "simple-error"),
    CL.own("cerror"): (cerror, "simple-error"),
    CL.own("warn"): (warn, "simple-warning"),
}


def _signalling(cell: Any, scope: Scope, count: int) -> Node | None:
    """The node of a call of error, signal, cerror or warn inside a restart-case of `count`
    clauses, or None when the form is none. The clauses are then its condition's restarts."""
    form = cell.car
    if not (isinstance(form, Cons) and isinstance(form.car, Symbol) and is_native(form.car)):
        form, _ = macroexpand(form, scope)
    head = form.car if isinstance(form, Cons) else None
    if head not in _SIGNALLERS or scope.function(head) is not None:
        return None
    function, simple = _SIGNALLERS[head]
    nodes = arguments(form.cdr, scope, form)
    first = 1 if function is cerror else 0
    if len(nodes) <= first:
        return None  # too few arguments: the ordinary call says so
    site = site_here()

    def make(frame: Frame) -> Run:
        runs = tuple(node.emit(frame) for node in nodes)

        def run(env: Any) -> Any:
            fresh = islice(active_restarts(), count)
            given = evaluate_arguments(runs, env)
            STATE.site = site
            condition = coerce_condition(given[first], tuple(given[first + 1 :]), simple)
            for restart in fresh:
                restart.conditions.append(condition)
            return function(*given[:first], condition)

        return run

    return Custom(make, False)


def _restartable(cell: Any, scope: Scope, count: int) -> Node:
    try:
        found = _signalling(cell, scope, count)
    except LispError:
        found = None  # what is wrong is signalled when the form is reached
    return found or protected(cell, scope)


@native("restart-case")
def _restart_case(form: Any, scope: Scope, tails: Tails) -> Node:
    """Evaluates a form with restarts, which handlers may invoke."""
    parts(form, 1, None, "(restart-case form (name (parameter…) form…)…)")
    clauses: list[tuple[Symbol, Node, dict[str, Any]]] = []
    for clause in items_of(form.cdr.cdr):
        if (
            not isinstance(clause, Cons)
            or not isinstance(clause.cdr, Cons)
            or not isinstance(clause.car, Symbol)
        ):
            raise malformed(f"{brief(clause)} is not (name (parameter…) form…)", form)
        forms = clause.cdr.cdr
        options: dict[str, Any] = {}
        while (
            isinstance(forms, Cons)
            and isinstance(forms.car, Symbol)
            and forms.car in (keyword("report"), keyword("test"), keyword("interactive"))
            and isinstance(forms.cdr, Cons)
        ):
            options[forms.car.name] = _option(forms.cdr, scope)
            forms = forms.cdr.cdr
        node = lambda_node(clause.car.name, clause.cdr.car, forms, scope, None, clause)
        clauses.append((clause.car, node, options))
    main = _restartable(form.cdr, scope, len(clauses))

    def make(frame: Frame) -> Run:
        run_main = main.emit(frame)
        made = [
            (name, node.emit(frame), {k: single(n, frame) for k, n in options.items()})
            for name, node, options in clauses
        ]
        state = STATE

        def run(env: Any) -> Any:
            token = object()
            saved, handlers = state.restarts, state.handlers
            fresh = [
                Restart(
                    name,
                    token,
                    index,
                    text=options["report"](env) if "report" in options else None,
                    test=options["test"](env) if "test" in options else None,
                    interactive=options["interactive"](env) if "interactive" in options else None,
                )
                for index, (name, _, options) in enumerate(made)
            ]
            state.restarts = _linked(fresh, saved)
            try:
                return run_main(env)
            except RestartExit as leaving:
                if leaving.token is not token:
                    raise
                state.restarts, state.handlers = saved, handlers
                return call_values(made[leaving.index][1](env), *leaving.arguments)
            finally:
                state.restarts = saved

        return run

    return Custom(make)


def _option(cell: Any, scope: Scope) -> Node:
    value = cell.car
    if isinstance(value, String):
        return Constant(value)
    return analyze(lisp_list([CL.own("function"), value]), scope)


@native("restart-bind")
def _restart_bind(form: Any, scope: Scope, tails: Tails) -> Node:
    """Evaluates forms with restarts that call functions where they are invoked."""
    cells = parts(form, 1, None, "(restart-bind ((name function)…) form…)")
    bindings: list[tuple[Symbol, Node, dict[str, Node]]] = []
    for item in items_of(cells[0]):
        if not isinstance(item, Cons) or not isinstance(item.cdr, Cons):
            raise malformed(f"{brief(item)} is not (name function)", form)
        options: dict[str, Node] = {}
        at = item.cdr.cdr
        while isinstance(at, Cons) and isinstance(at.cdr, Cons):
            if not isinstance(at.car, Symbol):
                raise malformed(f"{brief(at.car)} is no keyword of restart-bind", form)
            options[at.car.name] = analyze_car(at.cdr, scope)
            at = at.cdr.cdr
        bindings.append((item.car, analyze_car(item.cdr, scope), options))
    main = body(form.cdr.cdr, scope)

    def make(frame: Frame) -> Run:
        runs = tuple(
            (name, single(node, frame), {k: single(n, frame) for k, n in options.items()})
            for name, node, options in bindings
        )
        run_main = main.emit(frame)

        def run(env: Any) -> Any:
            saved = STATE.restarts
            fresh = [
                Restart(
                    name,
                    None,
                    0,
                    one(env),
                    text=options["report-function"](env) if "report-function" in options else None,
                    test=options["test-function"](env) if "test-function" in options else None,
                    interactive=options["interactive-function"](env)
                    if "interactive-function" in options
                    else None,
                )
                for name, one, options in runs
            ]
            STATE.restarts = _linked(fresh, saved)
            try:
                return run_main(env)
            finally:
                STATE.restarts = saved

        return run

    return Custom(make)


@native("with-simple-restart")
def _with_simple_restart(form: Any, scope: Scope, tails: Tails) -> Node:
    """Evaluates forms with a restart that gives nil and t."""
    cells = parts(form, 1, None, "(with-simple-restart (name control argument…) form…)")
    spec = cells[0]
    if not isinstance(spec, Cons) or not isinstance(spec.car, Symbol):
        raise malformed(f"{brief(spec)} is not (name control argument…)", form)
    main = body(form.cdr.cdr, scope)
    name = spec.car
    stream = Symbol("stream")
    written = new_cons(CL.own("format"), new_cons(stream, spec.cdr))
    report = analyze(lisp_list([CL.own("lambda"), lisp_list([stream]), written]), scope)

    def make(frame: Frame) -> Run:
        run_main = main.emit(frame)
        report_of = single(report, frame)

        def run(env: Any) -> Any:
            token = object()
            saved = STATE.restarts
            STATE.restarts = (Restart(name, token, 0, text=report_of(env)), saved)
            try:
                return run_main(env)
            except RestartExit as leaving:
                if leaving.token is not token:
                    raise
                return MV((NIL, T))
            finally:
                STATE.restarts = saved

        return run

    return Custom(make)


@native("with-condition-restarts")
def _with_condition_restarts(form: Any, scope: Scope, tails: Tails) -> Node:
    """Evaluates forms with restarts kept for one condition."""
    parts(form, 2, None, "(with-condition-restarts condition restarts form…)")
    nodes = [analyze_car(form.cdr, scope), analyze_car(form.cdr.cdr, scope)]
    main = body(form.cdr.cdr.cdr, scope)

    def make(frame: Frame) -> Run:
        condition_of, restarts_of = (single(node, frame) for node in nodes)
        run_main = main.emit(frame)

        def run(env: Any) -> Any:
            condition = condition_of(env)
            restarts = list_items(restarts_of(env))
            for restart in restarts:
                if not isinstance(restart, Restart):
                    raise type_error(restart, "restart")
            for restart in restarts:
                restart.conditions.append(condition)
            try:
                return run_main(env)
            finally:
                for restart in restarts:
                    restart.conditions.pop()

        return run

    return Custom(make)
