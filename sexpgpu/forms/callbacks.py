"""Calling the functions that a run file hands over: objective, updates, schedules, initialisers.

No form of the file makes these calls, so what is wrong with the number of arguments is told at the
function itself, and what goes wrong within is told where the file asked for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any

from sexpgpu.diagnostics.codes import lisp as codes
from sexpgpu.diagnostics.model import Diagnostic, Label, SxError
from sexpgpu.forms.parse import is_list
from sexpgpu.lisp.calls import call_values
from sexpgpu.lisp.state import STATE, Site, current_origin
from sexpgpu.lisp.values import Function, Symbol, python_list
from sexpgpu.source import Origin


def call_given(function: Function, arguments: tuple[Any, ...], what: str) -> Any:
    """The value (or values) of a call. `what` says which arguments these are, for E-ARG-001."""
    count = len(arguments)
    most = _most(function)
    if count < function.minimum or (most is not None and count > most):
        raise SxError(_refusal(function, count, what))
    return call_values(function, *arguments)


@contextlib.contextmanager
def asked_for(origin: Origin) -> Generator[None]:
    """While this is open, what goes wrong in a standard module is told at the user's part of an
    origin: the declaration that has its function called."""
    saved, span = STATE.site, origin.user_span
    if span is not None and not span.source.standard:
        STATE.site = Site((span.source, span.start, span.end))
    try:
        yield
    finally:
        STATE.site = saved


def _most(function: Function) -> int | None:
    """How many arguments it takes by place, or None: any number."""
    parameters: Any = function.lambda_list  # of the Lisp's own functions a text
    if function.maximum is not None or not is_list(parameters):
        return function.maximum
    names = [item.name if isinstance(item, Symbol) else "" for item in python_list(parameters)]
    if "&key" not in names or "&rest" in names:
        return None
    return sum(name != "&optional" for name in names[: names.index("&key")])


def _refusal(function: Function, count: int, what: str) -> Diagnostic:
    least, most = function.minimum, _most(function)
    if most is None:
        takes = f"at least {least}"
    elif least == most:
        takes = str(least) if least else "no"
    else:
        takes = f"{least} to {most}"
    noun = "argument" if takes == "1" else "arguments"
    place, text = function.origin, "this function"
    fix = f"give {function.name} one parameter for each"
    if place is not None and place.source.standard:
        place, text = current_origin().user_span, ""
        fix = f"call it: ({function.name} …) gives the function that is wanted here"
    return Diagnostic(
        codes.E_ARG_001,
        f"{function.name} takes {takes} {noun}; it is called with {count}: {what}",
        [Label(place, text)] if place is not None else [],
        fix=fix,
    )
