"""Calling the functions that a run file hands over: objective, updates, schedules, initialisers.

No form of the file makes these calls, so what is wrong with the number of arguments is told at the
function itself.
"""

from __future__ import annotations

from typing import Any

from sexpgpu.diagnostics.codes import lisp as codes
from sexpgpu.diagnostics.model import Diagnostic, Label, SxError
from sexpgpu.lisp.calls import call_values
from sexpgpu.lisp.values import Function


def call_given(function: Function, arguments: tuple[Any, ...], what: str) -> Any:
    """The value (or values) of a call. `what` says which arguments these are, for E-ARG-001."""
    count = len(arguments)
    most = function.maximum
    if count < function.minimum or (most is not None and count > most):
        raise SxError(_refusal(function, count, what))
    return call_values(function, *arguments)


def _refusal(function: Function, count: int, what: str) -> Diagnostic:
    least, most = function.minimum, function.maximum
    if most is None:
        takes = f"at least {least}"
    elif least == most:
        takes = str(least) if least else "no"
    else:
        takes = f"{least} to {most}"
    noun = "argument" if takes == "1" else "arguments"
    labels = [Label(function.origin, "this function")] if function.origin is not None else []
    return Diagnostic(
        codes.E_ARG_001,
        f"{function.name} takes {takes} {noun}; it is called with {count}: {what}",
        labels,
        fix=f"give {function.name} one parameter for each",
    )
