"""assert, check-type, ccase and ctypecase: checks that a restart can mend."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.analyze import (
    Tails,
    analyze_car,
    arguments,
    items_of,
    native,
    parts,
    site_here,
)
from sexpgpu.lisp.conditions import make_condition
from sexpgpu.lisp.control import RestartExit
from sexpgpu.lisp.errors import (
    LispError,
    make_error,
    signal_error,
)
from sexpgpu.lisp.nodes import (
    Constant,
    Custom,
    Node,
    Run,
    single,
)
from sexpgpu.lisp.scope import Frame, Scope
from sexpgpu.lisp.signalling import Restart, coerce_condition
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import (
    CL,
    NIL,
    Cons,
    String,
    Symbol,
    lisp_list,
    new_cons,
)
from sexpgpu.reader.printer import brief

# ---------------------------------------------------------------- assert, check-type


@native("assert")
def _assert(form: Any, scope: Scope, tails: Tails) -> Node:
    """An error when the test is false."""
    parts(form, 1, None, "(assert test [(place…) [datum argument…]])")
    test = analyze_car(form.cdr, scope)
    more: list[Node] = []
    rest = form.cdr.cdr
    if isinstance(rest, Cons):
        items_of(rest.car)  # the places, which only a debugger could set
        more = arguments(rest.cdr, scope, form)
    site = site_here()
    shown = brief(form.cdr.car)

    def make(frame: Frame) -> Run:
        run_test = test.test(frame)
        runs = [single(node, frame) for node in more]

        def run(env: Any) -> Any:
            while not run_test(env):
                STATE.charge(1)
                STATE.site = site
                values = [one(env) for one in runs]
                if values:
                    condition = coerce_condition(values[0], tuple(values[1:]), "simple-error")
                else:
                    condition = make_condition(
                        "simple-error", message=f"the assertion {shown} failed", code="assert"
                    )
                token = object()
                saved = STATE.restarts
                STATE.restarts = (Restart(CL.own("continue"), token, 0), saved)
                try:
                    raise signal_error(LispError(condition, site))
                except RestartExit as leaving:
                    if leaving.token is not token:
                        raise
                finally:
                    STATE.restarts = saved
            return NIL

        return run

    return Custom(make, False)


def _setter(place: Any, scope: Scope) -> tuple[Node, Symbol]:
    """A node that stores the value of a hidden symbol's dynamic slot into a place."""
    from sexpgpu.lisp.analyze import analyze

    hidden = Symbol("new")
    hidden.special = True
    if not isinstance(place, Symbol | Cons):
        return Constant(NIL), hidden  # a constant: nothing can be stored, and the test will do
    return analyze(lisp_list([CL.own("setf"), place, hidden]), scope), hidden


@native("check-type")
def _check_type(form: Any, scope: Scope, tails: Tails) -> Node:
    """An error when the value of a place is not of a type."""
    cells = parts(form, 2, 3, "(check-type place type [text])")
    value = analyze_car(form.cdr, scope)
    text = analyze_car(form.cdr.cdr.cdr, scope) if len(cells) == 3 else None
    store, hidden = _setter(cells[0], scope)
    site = site_here()
    kind = cells[1]
    shown = brief(cells[0])

    def make(frame: Frame) -> Run:
        from sexpgpu.lisp.builtins.type_specifiers import typep

        run_value, run_store = single(value, frame), store.emit(frame)
        run_text = single(text, frame) if text is not None else None

        def run(env: Any) -> Any:
            while True:
                now = run_value(env)
                STATE.site = site
                if typep(now, kind):
                    return NIL
                STATE.charge(1)
                wanted = brief(kind)
                if run_text is not None:
                    said = run_text(env)
                    wanted = said.text if isinstance(said, String) else brief(said)
                token = object()
                saved = STATE.restarts
                STATE.restarts = (Restart(CL.own("store-value"), token, 0), saved)
                try:
                    raise make_error(
                        "type-error",
                        site,
                        datum=now,
                        expected_form=kind,
                        message=f"{shown} is {brief(now)}, which is not {_article(wanted)}",
                    )
                except RestartExit as leaving:
                    if leaving.token is not token:
                        raise
                    hidden.value = leaving.arguments[0] if leaving.arguments else NIL
                    run_store(env)
                finally:
                    STATE.restarts = saved

        return run

    return Custom(make, False)


def _article(text: str) -> str:
    return text if text.startswith(("a ", "an ", "(")) else f"of type {text}"


def _correctable(form: Any, scope: Scope, strict_name: str) -> Node:
    """ccase and ctypecase: like the strict ones, with a store-value restart that tries again."""
    from sexpgpu.lisp.analyze import analyze

    cells = parts(form, 1, None, f"({form.car.name} place (keys form…)…)")
    store, hidden = _setter(cells[0], scope)
    strict = analyze(new_cons(CL.own(strict_name), form.cdr), scope)

    def make(frame: Frame) -> Run:
        run_strict, run_store = strict.emit(frame), store.emit(frame)

        def run(env: Any) -> Any:
            while True:
                STATE.charge(1)
                token = object()
                saved = STATE.restarts
                STATE.restarts = (Restart(CL.own("store-value"), token, 0), saved)
                try:
                    return run_strict(env)
                except RestartExit as leaving:
                    if leaving.token is not token:
                        raise
                    hidden.value = leaving.arguments[0] if leaving.arguments else NIL
                finally:
                    STATE.restarts = saved
                run_store(env)

        return run

    return Custom(make)


@native("ccase")
def _ccase(form: Any, scope: Scope, tails: Tails) -> Node:
    """As ecase, of a place: the restart store-value gives it another value."""
    return _correctable(form, scope, "ecase")


@native("ctypecase")
def _ctypecase(form: Any, scope: Scope, tails: Tails) -> Node:
    """As etypecase, of a place: the restart store-value gives it another value."""
    return _correctable(form, scope, "etypecase")
