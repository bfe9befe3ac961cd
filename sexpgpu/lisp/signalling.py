"""Signalling: handlers, restarts, error and its kin, and the forms that handle conditions.

STATE.handlers is a tuple of clusters, innermost last. A cluster is a tuple of (type test, action);
while an action runs only the clusters outside its own are active. handler-case is a cluster whose
actions leave by HandlerExit; so every condition is offered in one order, before any unwinding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.analyze import (
    Tails,
    analyze_car,
    body,
    malformed,
    native,
    parts,
    site_here,
)
from sexpgpu.lisp.calls import as_function, call_values, primary, values_list
from sexpgpu.lisp.conditions import TYPES, condition_type, make_condition, report, slot
from sexpgpu.lisp.control import HandlerExit, RestartExit
from sexpgpu.lisp.errors import (
    LispError,
    control_error,
    make_error,
    program_error,
    signal_error,
    type_error,
)
from sexpgpu.lisp.nodes import Constant, Custom, Failure, Node, Run, single
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.scope import Frame, Scope
from sexpgpu.lisp.special import lambda_node
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import (
    CL,
    MV,
    NIL,
    Condition,
    Cons,
    Function,
    String,
    Symbol,
    T,
    keyword,
    lisp_list,
    python_list,
)
from sexpgpu.reader.printer import brief

Action = Callable[[Condition], None]
Cluster = tuple[tuple[Any, Action], ...]


def run_handlers(condition: Condition) -> None:
    """Offer a condition to the active handlers, innermost first; returns when all declined."""
    saved = STATE.handlers
    site = STATE.site
    try:
        at = len(saved)
        while at:
            at -= 1
            cluster = saved[at]
            STATE.handlers = saved[:at]
            for kind, action in cluster:
                if _matches(condition, kind):
                    action(condition)
    finally:
        STATE.handlers = saved
        STATE.site = site


def _matches(condition: Condition, kind: Any) -> bool:
    found = condition_type(kind) if isinstance(kind, Symbol) else None
    if found is not None:
        return found in TYPES[condition.type].linear
    from sexpgpu.lisp.builtins.type_specifiers import typep

    return typep(condition, kind)


# ---------------------------------------------------------------- making conditions


def coerce_condition(datum: Any, arguments: tuple[Any, ...], simple: str) -> Condition:
    """The condition that error, signal and kin mean by their arguments."""
    if isinstance(datum, Condition):
        if arguments:
            raise type_error(lisp_list(arguments), "null")
        return datum
    if isinstance(datum, Symbol):
        return new_condition(datum, arguments)
    if isinstance(datum, String | Function):
        made = make_condition(simple)
        made.slots["format-control"] = datum
        made.slots["format-arguments"] = lisp_list(arguments)
        return made
    raise type_error(datum, "condition designator (a condition, a type's name or a text)")


def new_condition(name: Any, initargs: tuple[Any, ...]) -> Condition:
    """make-condition."""
    kind = condition_type(name)
    if kind is None:
        raise type_error(name, "name of a condition type")
    if len(initargs) % 2:
        raise program_error("make-condition: the slots are not given in pairs", code="keyword")
    slots: dict[str, Any] = {}
    for at in range(0, len(initargs), 2):
        key = initargs[at]
        wanted = kind.initargs.get(key.name) if isinstance(key, Symbol) else None
        if wanted is None:
            raise program_error(
                f"the condition type {brief(name)} has no slot {brief(key)}", code="keyword"
            )
        slots.setdefault(wanted, initargs[at + 1])
    for key, thunk in kind.defaults.items():
        wanted = kind.initargs.get(key)
        if wanted is not None and wanted not in slots:
            slots[wanted] = thunk()
    for wanted, thunk in kind.slots.items():
        if wanted not in slots and thunk is not None:
            slots[wanted] = thunk()
    return Condition(kind.name, slots)


@builtin("make-condition", "(type &rest slots)")
def make_condition_(type: Any, *slots: Any) -> Any:
    """A condition of a type, with slots given by keyword."""
    return new_condition(type, slots)


@builtin("error", "(datum &rest arguments)")
def error(datum: Any, *arguments: Any) -> Any:
    """Signal an error; unless a handler takes it, evaluation ends."""
    condition = coerce_condition(datum, arguments, "simple-error")
    raise signal_error(LispError(condition))


@builtin("signal", "(datum &rest arguments)")
def signal(datum: Any, *arguments: Any) -> Any:
    """Offer a condition to the handlers; nil when all decline."""
    condition = coerce_condition(datum, arguments, "simple-condition")
    if STATE.handlers:
        run_handlers(condition)
    return NIL


@builtin("warn", "(datum &rest arguments)")
def warn(datum: Any, *arguments: Any) -> Any:
    """Signal a warning; unless a handler muffles it, it is reported. Gives nil."""
    condition = coerce_condition(datum, arguments, "simple-warning")
    if condition_type("warning") not in TYPES[condition.type].linear:
        raise type_error(datum, "warning")
    token = object()
    restart = Restart(CL.own("muffle-warning"), token, 0)
    saved = STATE.restarts
    STATE.restarts = (*saved, restart)
    try:
        if STATE.handlers:
            run_handlers(condition)
    except RestartExit as leaving:
        if leaving.token is not token:
            raise
        return NIL
    finally:
        STATE.restarts = saved
    if STATE.session is not None:
        STATE.session.warned(condition, STATE.site)
    return NIL


@builtin("cerror", "(continue-text datum &rest arguments)")
def cerror(continue_text: Any, datum: Any, *arguments: Any) -> Any:
    """Signal an error that the restart `continue` can end; then gives nil."""
    condition = coerce_condition(datum, arguments, "simple-error")
    token = object()
    restart = Restart(CL.own("continue"), token, 0, text=continue_text)
    saved = STATE.restarts
    STATE.restarts = (*saved, restart)
    try:
        raise signal_error(LispError(condition))
    except RestartExit as leaving:
        if leaving.token is not token:
            raise
        return NIL
    finally:
        STATE.restarts = saved


@builtin("invoke-debugger", "(condition)")
def invoke_debugger(condition: Any) -> Any:
    """There is no debugger: evaluation ends with the condition."""
    if not isinstance(condition, Condition):
        raise type_error(condition, "condition")
    made = LispError(condition)
    made.signalled = True
    raise made


def _reader(name: str, kind: str, slot_name: str) -> None:
    wanted = condition_type(kind)

    @builtin(name, "(condition)")
    def read(condition: Any) -> Any:
        if not isinstance(condition, Condition) or wanted not in TYPES[condition.type].linear:
            raise type_error(condition, kind)
        value = slot(condition, slot_name)
        if value is None:
            raise make_error("unbound-slot", name=CL.own(slot_name), instance=condition)
        return value

    read.__doc__ = f"The {slot_name} of a {kind}."


for _reader_name, _kind, _slot in (
    ("type-error-datum", "type-error", "datum"),
    ("type-error-expected-type", "type-error", "expected-type"),
    ("cell-error-name", "cell-error", "name"),
    ("unbound-slot-instance", "unbound-slot", "instance"),
    ("arithmetic-error-operation", "arithmetic-error", "operation"),
    ("arithmetic-error-operands", "arithmetic-error", "operands"),
    ("stream-error-stream", "stream-error", "stream"),
    ("package-error-package", "package-error", "package"),
    ("simple-condition-format-control", "simple-condition", "format-control"),
    ("simple-condition-format-arguments", "simple-condition", "format-arguments"),
):
    _reader(_reader_name, _kind, _slot)


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
    parts(form, 1, None, "(handler-case form (type ([variable]) form…)…)")
    main = protected(form.cdr, scope)
    clauses: list[tuple[Any, Node]] = []
    no_error: Node | None = None
    for clause in python_list(form.cdr.cdr):
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
        makers = [handler.maker(frame) for _, handler in clauses]  # type: ignore[attr-defined]
        counts = [len(handler.required) for _, handler in clauses]  # type: ignore[attr-defined]
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
            state.handlers = (*saved, cluster)
            try:
                result = run_main(env)
            except HandlerExit as leaving:
                if leaving.token is not token:
                    raise
                state.handlers = saved
                state.restarts = restarts
                state.site = site
                call = makers[leaving.index](env)
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
        isinstance(item, Symbol) and not item.name.startswith("&")
        for item in python_list(lambda_list)
    )


@native("ignore-errors")
def _ignore_errors(form: Any, scope: Scope, tails: Tails) -> Node:
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

            state.handlers = (*saved, ((error_type, action),))
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
    cells = parts(form, 1, None, "(handler-bind ((type handler)…) form…)")
    bindings: list[tuple[Any, Node]] = []
    for item in python_list(cells[0]):
        if (
            not isinstance(item, Cons)
            or not isinstance(item.cdr, Cons)
            or item.cdr.cdr is not NIL
        ):
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
            state.handlers = (*saved, cluster)
            try:
                return run_main(env)
            finally:
                state.handlers = saved

        return run

    return Custom(make)


# ---------------------------------------------------------------- restarts


class Restart:
    """An active restart. `index` is the clause of its restart-case; or it calls `function`."""

    __slots__ = ("function", "index", "interactive", "name", "report", "test", "text", "token")

    def __init__(
        self,
        name: Symbol,
        token: Any,
        index: int,
        function: Any = None,
        text: Any = None,
        test: Any = None,
        interactive: Any = None,
    ) -> None:
        self.name = name
        self.token = token
        self.index = index
        self.function = function
        self.text = text
        self.test = test
        self.interactive = interactive
        self.report: Any = None


def _visible(restart: Restart, condition: Any) -> bool:
    if restart.test is None:
        return True
    argument = condition if isinstance(condition, Condition) else NIL
    return primary(call_values(as_function(restart.test), argument)) is not NIL


def find_restart_named(name: Any, condition: Any = None) -> Restart | None:
    """The innermost active restart of that name (or that restart itself)."""
    for restart in reversed(STATE.restarts):
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
    return lisp_list([r for r in reversed(STATE.restarts) if _visible(r, condition)])


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
        arguments = tuple(python_list(primary(call_values(as_function(found.interactive)))))
    return invoke(found, arguments)


def _standard_restart(name: str, arguments: int, must: bool) -> None:
    symbol = CL.own(name)
    value = "value " if arguments else ""

    @builtin(name, f"({value}&optional condition)")
    def use(*given: Any) -> Any:
        condition = given[arguments] if len(given) > arguments else None
        found = find_restart_named(symbol, condition)
        if found is not None:
            return invoke(found, given[:arguments])
        if must:
            raise control_error(f"no restart {name} is active")
        return NIL

    use.__doc__ = f"Invoke the restart {name}" + ("." if must else ", if one is active.")


_standard_restart("continue", 0, False)
_standard_restart("abort", 0, True)
_standard_restart("muffle-warning", 0, True)
_standard_restart("use-value", 1, False)
_standard_restart("store-value", 1, False)


@native("restart-case")
def _restart_case(form: Any, scope: Scope, tails: Tails) -> Node:
    parts(form, 1, None, "(restart-case form (name (parameter…) form…)…)")
    main = protected(form.cdr, scope)
    clauses: list[tuple[Symbol, Node, dict[str, Any]]] = []
    for clause in python_list(form.cdr.cdr):
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
            and forms.car
            in (keyword("report"), keyword("test"), keyword("interactive"))
            and isinstance(forms.cdr, Cons)
        ):
            options[forms.car.name] = _option(forms.cdr, scope)
            forms = forms.cdr.cdr
        node = lambda_node(clause.car.name, clause.cdr.car, forms, scope, None, clause)
        clauses.append((clause.car, node, options))

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
            state.restarts = (*saved, *reversed(fresh))
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
    from sexpgpu.lisp.analyze import analyze

    return analyze(lisp_list([CL.own("function"), value]), scope)


@native("restart-bind")
def _restart_bind(form: Any, scope: Scope, tails: Tails) -> Node:
    cells = parts(form, 1, None, "(restart-bind ((name function)…) form…)")
    bindings: list[tuple[Symbol, Node, dict[str, Node]]] = []
    for item in python_list(cells[0]):
        if not isinstance(item, Cons) or not isinstance(item.cdr, Cons):
            raise malformed(f"{brief(item)} is not (name function)", form)
        options: dict[str, Node] = {}
        at = item.cdr.cdr
        while isinstance(at, Cons) and isinstance(at.cdr, Cons):
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
                    test=options["test-function"](env) if "test-function" in options else None,
                    interactive=options["interactive-function"](env)
                    if "interactive-function" in options
                    else None,
                )
                for name, one, options in runs
            ]
            STATE.restarts = (*saved, *reversed(fresh))
            try:
                return run_main(env)
            finally:
                STATE.restarts = saved

        return run

    return Custom(make)


@native("with-simple-restart")
def _with_simple_restart(form: Any, scope: Scope, tails: Tails) -> Node:
    cells = parts(form, 1, None, "(with-simple-restart (name control argument…) form…)")
    spec = cells[0]
    if not isinstance(spec, Cons) or not isinstance(spec.car, Symbol):
        raise malformed(f"{brief(spec)} is not (name control argument…)", form)
    main = body(form.cdr.cdr, scope)
    name = spec.car

    def make(frame: Frame) -> Run:
        run_main = main.emit(frame)

        def run(env: Any) -> Any:
            token = object()
            saved = STATE.restarts
            STATE.restarts = (*saved, Restart(name, token, 0))
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
    parts(form, 2, None, "(with-condition-restarts condition restarts form…)")
    site_here()
    nodes = [analyze_car(form.cdr, scope), analyze_car(form.cdr.cdr, scope)]
    from sexpgpu.lisp.nodes import progn

    return progn([*nodes, body(form.cdr.cdr.cdr, scope)])


# ---------------------------------------------------------------- assert, check-type


@native("assert")
def _assert(form: Any, scope: Scope, tails: Tails) -> Node:
    parts(form, 1, None, "(assert test [(place…) [datum argument…]])")
    test = analyze_car(form.cdr, scope)
    more: list[Node] = []
    rest = form.cdr.cdr
    places: list[Any] = []
    if isinstance(rest, Cons):
        places = python_list(rest.car)
        at = rest.cdr
        while at is not NIL:
            more.append(analyze_car(at, scope))
            at = at.cdr
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
                STATE.restarts = (*saved, Restart(CL.own("continue"), token, 0))
                try:
                    raise signal_error(LispError(condition, site))
                except RestartExit as leaving:
                    if leaving.token is not token:
                        raise
                finally:
                    STATE.restarts = saved
            return NIL

        return run

    del places
    return Custom(make, False)


def _setter(place: Any, scope: Scope) -> tuple[Node, Symbol]:
    """A node that stores the value of a hidden symbol's dynamic slot into a place."""
    from sexpgpu.lisp.analyze import analyze

    hidden = Symbol("new")
    hidden.special = True
    return analyze(lisp_list([CL.own("setf"), place, hidden]), scope), hidden


@native("check-type")
def _check_type(form: Any, scope: Scope, tails: Tails) -> Node:
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
                STATE.restarts = (*saved, Restart(CL.own("store-value"), token, 0))
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
    strict = analyze(Cons(CL.own(strict_name), form.cdr), scope)

    def make(frame: Frame) -> Run:
        run_strict, run_store = strict.emit(frame), store.emit(frame)

        def run(env: Any) -> Any:
            while True:
                STATE.charge(1)
                token = object()
                saved = STATE.restarts
                STATE.restarts = (*saved, Restart(CL.own("store-value"), token, 0))
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
    return _correctable(form, scope, "ecase")


@native("ctypecase")
def _ctypecase(form: Any, scope: Scope, tails: Tails) -> Node:
    return _correctable(form, scope, "etypecase")


# ---------------------------------------------------------------- define-condition


@native("define-condition")
def _define_condition(form: Any, scope: Scope, tails: Tails) -> Node:
    from sexpgpu.lisp.definitions import definable

    cells = parts(form, 2, None, "(define-condition name (parent…) (slot…) option…)")
    if not isinstance(cells[0], Symbol):
        raise malformed(f"{brief(cells[0])} is not a name", form)
    name = definable(cells[0], "condition type", form)
    parents = python_list(cells[1]) or [CL.own("condition")]
    slots: list[tuple[str, list[str], list[Symbol], list[Symbol], Node | None]] = []
    for spec in python_list(cells[2]) if len(cells) > 2 else ():
        slots.append(_slot_spec(spec, scope, form))
    shown: Node | None = None
    text: Any = None
    defaults: list[tuple[str, Node]] = []
    at = form.cdr.cdr.cdr.cdr if len(cells) > 2 else NIL
    while isinstance(at, Cons):
        option = at.car
        if isinstance(option, Cons) and option.car is keyword("report"):
            if isinstance(option.cdr.car, String):
                text = option.cdr.car
            else:
                from sexpgpu.lisp.analyze import analyze

                shown = analyze(lisp_list([CL.own("function"), option.cdr.car]), scope)
        elif isinstance(option, Cons) and option.car is keyword("default-initargs"):
            pair = option.cdr
            while isinstance(pair, Cons):
                defaults.append((pair.car.name, analyze_car(pair.cdr, scope)))
                pair = pair.cdr.cdr
        at = at.cdr
    site = site_here()

    def make(frame: Frame) -> Run:
        inits = [single(init, frame) if init is not None else None for *_, init in slots]
        run_shown = single(shown, frame) if shown is not None else None
        run_defaults = [(key, single(node, frame)) for key, node in defaults]

        def run(env: Any) -> Any:
            kinds: list[Any] = []
            for parent in parents:
                kind = condition_type(parent)
                if kind is None:
                    STATE.site = site
                    raise type_error(parent, "name of a condition type")
                kinds.append(kind)
            _define(name, kinds, slots, inits, run_shown, text, run_defaults, env)
            return name

        return run

    return Custom(make, False)


def _slot_spec(
    spec: Any, scope: Scope, form: Any
) -> tuple[str, list[str], list[Symbol], list[Symbol], Node | None]:
    if isinstance(spec, Symbol):
        return spec.name, [], [], [], None
    if not isinstance(spec, Cons) or not isinstance(spec.car, Symbol):
        raise malformed(f"{brief(spec)} is not a slot", form)
    initargs: list[str] = []
    readers: list[Symbol] = []
    writers: list[Symbol] = []
    init: Node | None = None
    at = spec.cdr
    while isinstance(at, Cons) and isinstance(at.cdr, Cons):
        option, value = at.car.name, at.cdr.car
        if option == "initarg":
            initargs.append(value.name)
        elif option in ("reader", "accessor"):
            readers.append(value)
            if option == "accessor":
                writers.append(value)
        elif option == "initform":
            init = analyze_car(at.cdr, scope)
        at = at.cdr.cdr
    return spec.car.name, initargs, readers, writers, init


def _define(
    name: Symbol,
    kinds: list[Any],
    slots: list[tuple[str, list[str], list[Symbol], list[Symbol], Node | None]],
    inits: list[Run | None],
    shown: Run | None,
    text: Any,
    defaults: list[tuple[str, Run]],
    env: Any,
) -> None:
    from sexpgpu.lisp.conditions import ConditionType
    from sexpgpu.lisp.journal import keep, keep_entry

    made = ConditionType(name, tuple(kinds))
    for (slot_name, initargs, readers, writers, _), init in zip(slots, inits, strict=True):
        made.slots[slot_name] = (lambda init=init: init(env)) if init is not None else None
        for initarg in initargs:
            made.initargs[initarg] = slot_name
        for reader in readers:
            keep(reader)
            reader.function = Function(
                reader.name, _slot_reader(made, slot_name, name), 1, 1, "(condition)"
            )
        for writer in writers:
            keep(writer)
            writer.setf = Function(
                f"(setf {writer.name})", _slot_writer(slot_name), 2, 2, "(new condition)"
            )
    for key, run in defaults:
        made.defaults[key] = lambda run=run: run(env)
    if text is not None:
        made.report = lambda condition: text.text
    elif shown is not None:
        function = as_function(shown(env))

        def reported(condition: Condition) -> str:
            from sexpgpu.lisp.format.streams import printed_by

            return printed_by(function, condition)

        made.report = reported
    keep_entry(TYPES, name)
    TYPES[name] = made


def _slot_reader(kind: Any, slot_name: str, name: Symbol) -> Callable[[Any], Any]:
    def read(condition: Any) -> Any:
        if not isinstance(condition, Condition) or kind not in TYPES[condition.type].linear:
            raise type_error(condition, name)
        if slot_name not in condition.slots:
            raise make_error("unbound-slot", name=CL.own(slot_name), instance=condition)
        return condition.slots[slot_name]

    return read


def _slot_writer(slot_name: str) -> Callable[[Any, Any], Any]:
    def write(new: Any, condition: Any) -> Any:
        if not isinstance(condition, Condition):
            raise type_error(condition, "condition")
        condition.slots[slot_name] = new
        return new

    return write


__all__ = ["report"]
