"""The exceptions of the Lisp, and one function for each kind of error a builtin can raise.

A builtin writes `raise type_error(datum, "list")`. The function makes the condition and offers it
to the active handlers of handler-bind and handler-case *before* it returns, that is before any
unwinding and in the dynamic scope of the error, as CL demands; a handler that takes the error
leaves by an exception of its own. So: call these only in a `raise`, and never catch LispError to
go on (nothing but the session does).
Expected types are written as Lisp text ("list", "(integer 0)") or as a form.
"""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.blame import blame
from sexpgpu.lisp.state import STATE, Site
from sexpgpu.lisp.values import Condition, String, Symbol

MAX_FRAMES = 50


class LispError(Exception):
    """A Lisp error that nobody handled: carries the condition, the place, and the calls.

    `frames` are the sites of the active calls, innermost first, at most MAX_FRAMES; `hidden` says
    how many more there were. `signalled` is true once the handlers were asked.
    """

    def __init__(self, condition: Condition, site: Site | None = None) -> None:
        super().__init__(condition.type)
        self.condition = condition
        self.site = STATE.site if site is None else site
        stack = STATE.stack
        self.frames = stack[: -MAX_FRAMES - 1 : -1]
        self.hidden = max(0, len(stack) - MAX_FRAMES)
        self.signalled = False
        self.uses: list[tuple[str, Site]] = []  # macros that were being expanded, innermost first

    def __str__(self) -> str:
        from sexpgpu.lisp.conditions import report

        return report(self.condition)


class LimitError(BaseException):
    """A limit was reached. No Lisp form can catch it, and cleanup forms do not run."""

    def __init__(self, kind: str, amount: float, site: Site | None = None) -> None:
        super().__init__(kind)
        self.kind = kind
        self.amount = amount
        self.site = STATE.site if site is None else site
        stack = STATE.stack
        self.frames = stack[: -MAX_FRAMES - 1 : -1]
        self.hidden = max(0, len(stack) - MAX_FRAMES)


def signal_error(exception: LispError) -> LispError:
    """Offer an error to the active handlers (once), then give it back to be raised."""
    if not exception.signalled:
        exception.signalled = True
        if STATE.handlers:
            from sexpgpu.lisp.signalling import run_handlers

            run_handlers(exception.condition)
    return exception


def make_error(type: Any, site: Site | None = None, **slots: Any) -> LispError:
    """The exception of a condition of that type with those slots, offered to the handlers."""
    return signal_error(LispError(Condition(type, slots), site))


def type_error(
    datum: Any, expected: Any, message: str | None = None, operator: str = ""
) -> LispError:
    """`datum` is not of the expected type. `message` replaces the standard report. `operator` is
    the function that got it, where that is no builtin's own frame."""
    call = ""
    if not operator:
        operator, call = blame(datum)
    if operator and message is not None:
        message = f"{operator}: {message}"
    slots: dict[str, Any] = {"datum": datum, "operator": operator, "call": call}
    slots["expected" if isinstance(expected, str) else "expected_form"] = expected
    return make_error("type-error", message=message, **slots)


def index_error(sequence: Any, index: Any) -> LispError:
    """`index` is not a valid index of the sequence (a type-error)."""
    operator, call = blame(index)
    return make_error(
        "type-error",
        datum=index,
        expected="a valid index",
        sequence=sequence,
        message=None,
        operator=operator,
        call=call,
    )


def program_error(message: str, site: Site | None = None, **slots: Any) -> LispError:
    """Wrong use of an operator: number of arguments, bad keywords, malformed forms."""
    return make_error("program-error", site, message=message, **slots)


def control_error(message: str) -> LispError:
    """A transfer of control to a place that no longer exists."""
    return make_error("control-error", message=message)


def arithmetic_error(
    message: str, operation: str = "", operands: tuple[Any, ...] = (), type: str = ""
) -> LispError:
    """An arithmetic error; `type` may name a more specific one (floating-point-overflow …)."""
    return make_error(
        type or "arithmetic-error", message=message, operation=operation, operands=operands
    )


def division_by_zero(operation: str, operands: tuple[Any, ...] = ()) -> LispError:
    """Division by zero in the function named `operation`."""
    return make_error("division-by-zero", operation=operation, operands=operands)


def unbound_variable(symbol: Symbol, site: Site | None = None, scope: Any = None) -> LispError:
    """The variable has no value. `scope` knows the names around it."""
    return make_error("unbound-variable", site, name=symbol, scope=scope)


def undefined_function(name: Any, site: Site | None = None, scope: Any = None) -> LispError:
    """The function is not defined. `name` is a symbol, or a list (setf symbol). `scope` knows the
    variables around the call."""
    return make_error("undefined-function", site, name=name, scope=scope)


def simple_error(message: str) -> LispError:
    """An error with a message and no further structure. The message is taken as it is."""
    return make_error("simple-error", message=message)


def parse_error(message: str) -> LispError:
    """Text that does not parse (parse-integer …)."""
    return make_error("parse-error", message=message)


def reader_error(message: str) -> LispError:
    """Text that is not a Lisp expression (read-from-string)."""
    return make_error("reader-error", message=message)


def end_of_file(message: str = "end of the text inside an expression", **slots: Any) -> LispError:
    """The text ended too early."""
    return make_error("end-of-file", message=message, **slots)


def stream_error(message: str, **slots: Any) -> LispError:
    """An operation that the stream cannot do."""
    return make_error("stream-error", message=message, **slots)


def package_error(message: str, **slots: Any) -> LispError:
    """A module or symbol that is not there."""
    return make_error("package-error", message=message, **slots)


def literal_change(value: Any) -> LispError:
    """An attempt to change a literal constant of the program."""
    kind = "string" if isinstance(value, String) else "constant"
    return make_error(
        "program-error", message=f"a literal {kind} may not be changed", code="literal"
    )
