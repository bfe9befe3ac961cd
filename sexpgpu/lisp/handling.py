"""The forms that handle conditions: handler-case, handler-bind, ignore-errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.analyze import (
    Tails,
    analyze_car,
    body,
    items_of,
    malformed,
    native,
    parts,
)
from sexpgpu.lisp.calls import as_function, call_values, values_list
from sexpgpu.lisp.control import HandlerExit
from sexpgpu.lisp.errors import (
    LispError,
)
from sexpgpu.lisp.functions import lambda_node
from sexpgpu.lisp.lambdas import LambdaNode
from sexpgpu.lisp.nodes import (
    Custom,
    Failure,
    Node,
    Run,
    single,
)
from sexpgpu.lisp.scope import Frame, Scope
from sexpgpu.lisp.signalling import Action
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import (
    CL,
    MV,
    NIL,
    Condition,
    Cons,
    Symbol,
    keyword,
)
from sexpgpu.reader.printer import brief

# ---------------------------------------------------------------- handling


def protected(cell: Any, scope: Scope, forms: bool = False) -> Node:
    """The node of a form inside a form that handles errors: a form that cannot be analysed
    signals its error when it is reached."""
    try:
        return body(cell, scope) if forms else analyze_car(cell, scope)
    except LispError as failure:
        return Failure(failure)


@native("handler-case")
def _handler_case(form: Any, scope: Scope, tails: Tails) -> Node:
    """Evaluates a form; a condition of a clause's type ends it, and the clause is evaluated."""
    parts(form, 1, None, "(handler-case form (type ([variable]) form…)…)")
    main = protected(form.cdr, scope)
    clauses: list[tuple[Any, LambdaNode]] = []
    no_error: Node | None = None
    for clause in items_of(form.cdr.cdr):
        if not isinstance(clause, Cons) or not isinstance(clause.cdr, Cons):
            raise malformed(f"{brief(clause)} is not (type ([variable]) form…)", form)
        handler = lambda_node("handler", clause.cdr.car, clause.cdr.cdr, scope, None, clause)
        if clause.car is keyword("no-error"):
            no_error = handler
            continue
        if len(handler.required) > 1 or not parse_simple(clause.cdr.car):
            raise malformed(f"{brief(clause.cdr.car)} is not ([variable])", form)
        clauses.append((clause.car, handler))

    def make(frame: Frame) -> Run:
        run_main = main.emit(frame)
        kinds = [kind for kind, _ in clauses]
        makers = [handler.maker(frame) for _, handler in clauses]
        counts = [len(handler.required) for _, handler in clauses]
        after = no_error.emit(frame) if no_error is not None else None
        state = STATE

        def run(env: Any) -> Any:
            token = object()
            saved, restarts, site = state.handlers, state.restarts, state.site

            def leave(index: int) -> Action:
                def action(condition: Condition) -> None:
                    raise HandlerExit(token, index, condition)

                return action

            cluster = tuple((kind, leave(i)) for i, kind in enumerate(kinds))
            state.handlers = (cluster, saved)
            try:
                result = run_main(env)
            except HandlerExit as leaving:
                if leaving.token is not token:
                    raise
                state.handlers = saved
                state.restarts = restarts
                state.site = site
                call: Callable[..., Any] = makers[leaving.index](env)
                return call(leaving.condition) if counts[leaving.index] else call()
            finally:
                state.handlers = saved
            if after is not None:
                return call_values(after(env), *values_list(result))
            return result

        return run

    return Custom(make)


def parse_simple(lambda_list: Any) -> bool:
    """Whether a lambda list has required parameters only."""
    return all(
        isinstance(item, Symbol) and not item.name.startswith("&") for item in items_of(lambda_list)
    )


@native("ignore-errors")
def _ignore_errors(form: Any, scope: Scope, tails: Tails) -> Node:
    """Evaluates forms; an error gives nil and the condition."""
    parts(form, 0, None, "(ignore-errors form…)")
    main = protected(form.cdr, scope, True)

    def make(frame: Frame) -> Run:
        run_main = main.emit(frame)
        state = STATE
        error_type = CL.own("error")

        def run(env: Any) -> Any:
            token = object()
            saved, restarts = state.handlers, state.restarts

            def action(condition: Condition) -> None:
                raise HandlerExit(token, 0, condition)

            state.handlers = (((error_type, action),), saved)
            try:
                return run_main(env)
            except HandlerExit as leaving:
                if leaving.token is not token:
                    raise
                state.restarts = restarts
                return MV((NIL, leaving.condition))
            finally:
                state.handlers = saved

        return run

    return Custom(make)


@native("handler-bind")
def _handler_bind(form: Any, scope: Scope, tails: Tails) -> Node:
    """Calls a handler where a condition is signalled, before anything is unwound."""
    cells = parts(form, 1, None, "(handler-bind ((type handler)…) form…)")
    bindings: list[tuple[Any, Node]] = []
    for item in items_of(cells[0]):
        if not isinstance(item, Cons) or not isinstance(item.cdr, Cons) or item.cdr.cdr is not NIL:
            raise malformed(f"{brief(item)} is not (type handler)", form)
        bindings.append((item.car, analyze_car(item.cdr, scope)))
    main = protected(form.cdr.cdr, scope, True)

    def make(frame: Frame) -> Run:
        runs = tuple((kind, single(node, frame)) for kind, node in bindings)
        run_main = main.emit(frame)
        state = STATE

        def run(env: Any) -> Any:
            def calling(function: Any) -> Action:
                def action(condition: Condition) -> None:
                    call_values(as_function(function), condition)

                return action

            cluster = tuple((kind, calling(one(env))) for kind, one in runs)
            saved = state.handlers
            state.handlers = (cluster, saved)
            try:
                return run_main(env)
            finally:
                state.handlers = saved

        return run

    return Custom(make)
