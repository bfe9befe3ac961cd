"""Signalling: the active handlers, and the functions that make and signal conditions.

STATE.handlers is a linked list, (cluster, the ones outside) or (); STATE.restarts likewise. A
cluster is a tuple of (type, action); while an action runs only the clusters outside its own are
active. handler-case is a cluster whose actions leave by HandlerExit; so every condition is offered
in one order, before any unwinding. The forms are in handling, restarts, assertions and
condition_forms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.conditions import TYPES, condition_type, make_condition, slot
from sexpgpu.lisp.control import RestartExit
from sexpgpu.lisp.errors import (
    LispError,
    make_error,
    program_error,
    signal_error,
    type_error,
)
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import (
    CL,
    NIL,
    Condition,
    Function,
    String,
    Symbol,
    lisp_list,
)
from sexpgpu.reader.printer import brief

_STEPS = 32  # of fuel for a condition that is offered to handlers: it takes as long as many calls

Action = Callable[[Condition], None]
Cluster = tuple[tuple[Any, Action], ...]


class Restart:
    """An active restart. `index` is the clause of its restart-case; or it calls `function`.
    With `conditions` it is theirs: it is not found for others."""

    __slots__ = (
        "arguments",
        "conditions",
        "function",
        "index",
        "interactive",
        "name",
        "test",
        "text",
        "token",
    )

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
        self.conditions: list[Condition] = []
        self.arguments: list[Any] | None = None  # `text` is a control string for these

    def describe(self) -> str:
        """What it does, for a person: its report, or its name."""
        text = self.text
        if isinstance(text, String):
            if self.arguments is None:
                return text.text
            from sexpgpu.lisp.format import format_text

            return format_text(text.text, self.arguments)
        if text is None:
            return self.name.name
        from sexpgpu.lisp.format.streams import call_with_string_output

        return call_with_string_output(text, self.arguments or [])


def run_handlers(condition: Condition) -> None:
    """Offer a condition to the active handlers, innermost first; returns when all declined."""
    STATE.charge(_STEPS)
    saved = STATE.handlers
    site = STATE.site
    try:
        at = saved
        while at:
            cluster, at = at
            STATE.handlers = at
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
        filled = kind.initargs.get(key.name, ()) if isinstance(key, Symbol) else ()
        if not filled:
            raise program_error(
                f"the condition type {brief(name)} has no slot {brief(key)}", code="keyword"
            )
        for wanted in filled:
            slots.setdefault(wanted, initargs[at + 1])
    for key, thunk in kind.defaults.items():
        lacking = [wanted for wanted in kind.initargs.get(key, ()) if wanted not in slots]
        if lacking:
            slots.update(dict.fromkeys(lacking, thunk()))
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
    restart.conditions.append(condition)
    saved = STATE.restarts
    STATE.restarts = (restart, saved)
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
    restart.arguments = list(arguments)
    restart.conditions.append(condition)
    saved = STATE.restarts
    STATE.restarts = (restart, saved)
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

    def read(condition: Any) -> Any:
        if not isinstance(condition, Condition) or wanted not in TYPES[condition.type].linear:
            raise type_error(condition, kind)
        value = slot(condition, slot_name)
        if value is None:
            raise make_error("unbound-slot", name=CL.own(slot_name), instance=condition)
        return value

    article = "an" if kind[0] in "aeiou" else "a"
    read.__doc__ = f"The {slot_name} of {article} {kind}."
    builtin(name, "(condition)")(read)


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
