"""Calling a file's contract functions inside a trace, and reading what they return."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from sexpgpu.diagnostics.codes import lisp as lisp_codes
from sexpgpu.diagnostics.codes import run as codes
from sexpgpu.diagnostics.model import Diagnostic, Label, SxError
from sexpgpu.forms.callbacks import call_given
from sexpgpu.forms.parse import is_list
from sexpgpu.ir.graph import Value
from sexpgpu.ir.types import FLOATS
from sexpgpu.lisp.calls import values_list
from sexpgpu.lisp.printer import prin1_text as print_value
from sexpgpu.lisp.values import NIL, Function
from sexpgpu.trace.context import Trace
from sexpgpu.trace.promote import constant
from sexpgpu.trace.tensor import Tensor, TensorSource, resolve


def call_all(function: Function, *arguments: Any, what: str) -> list[Any]:
    """All the values of a call; `what` names the arguments."""
    return values_list(call_given(function, arguments, what))


def call_with_model(
    function: Function, model: Any, prepare: Function, arguments: list[Any]
) -> list[Any]:
    """All the values of objective, evaluate or predict for the model and what prepare returned.

    E-ARG-001 names both functions where the one returns another number than the other takes."""
    count = len(arguments)
    least, most = function.minimum - 1, function.maximum
    if most == 0 or (least <= count and (most is None or count < most)):
        return call_all(function, model, *arguments, what="the model and the values of prepare")
    takes = str(max(least, 0))
    if most is None:
        takes = f"at least {takes}"
    elif most - 1 > least:
        takes = f"{takes} to {most - 1}"
    listed = count == 1 and is_list(arguments[0]) and arguments[0] is not NIL
    returned = "a list" if listed else f"{count} value{'' if count == 1 else 's'}"
    if listed:
        fix = f"return several values from {prepare.name}: (values …) in place of the list"
    elif count < least:
        fix = (
            f"end {prepare.name} with (values …), one for each parameter of {function.name} "
            "after the model"
        )
    else:
        fix = f"give {function.name} a parameter for each value of {prepare.name}, after the model"
    ends = [(prepare, f"returns {returned}"), (function, f"takes the model and {takes} more")]
    if not listed and count > least:
        ends.reverse()  # the one to mend comes first
    labels = [Label(at.origin, said) for at, said in ends if at.origin is not None]
    raise SxError(
        Diagnostic(
            lisp_codes.E_ARG_001,
            f"{prepare.name} returns {returned}; {function.name} takes {takes} after the model",
            labels,
            fix=fix,
        )
    )


def bad_result(function: Function, what: str, got: Any, fix: str | None = None) -> SxError:
    shown = str(got.type) if isinstance(got, Tensor) else print_value(got)
    span = function.origin
    return SxError(
        Diagnostic(
            codes.E_RUN_008,
            f"{function.name} returned {shown}; {what} was expected",
            [Label(span, "this function")] if span is not None else [],
            fix=fix,
        )
    )


def scalar_f32(trace: Trace, function: Function, value: Any, what: str) -> Value:
    """A scalar float tensor (or a number) as an f32 value; otherwise E-RUN-008."""
    if isinstance(value, int | float | Fraction):
        return constant(trace, function.name, value, (), "f32")
    if not isinstance(value, Tensor | TensorSource):
        raise bad_result(function, what, value)
    made = resolve(value)
    if made.value.shape != () or made.value.dtype == "bool":
        raise bad_result(function, what, made)
    if made.value.dtype == "f32":
        return made.value
    return trace.emit("cast", made.value, dtype="f32")


def tensors_of(trace: Trace, function: Function, values: list[Any]) -> list[Value]:
    """What a call gave as values of the trace: tensors, and numbers as f32 scalars; nil is left
    out. Otherwise E-RUN-008."""
    made: list[Value] = []
    for value in values:
        if isinstance(value, Tensor | TensorSource):
            made.append(resolve(value).value)
        elif isinstance(value, int | float | Fraction):
            made.append(constant(trace, function.name, value, (), "f32"))
        elif value is not NIL:
            fix = "return a tensor, or several: (values a b), (values-list list)"
            raise bad_result(function, "tensors", value, fix)
    return made


def is_scalar_float(value: Any) -> bool:
    if not isinstance(value, Tensor | TensorSource):
        return False
    made = resolve(value)
    return made.value.shape == () and made.value.dtype in FLOATS


def mean_and_weight(trace: Trace, function: Function, values: list[Any]) -> tuple[Value, Value]:
    """The mean and the weight (default: the number of examples) that a loss returned, f32."""
    if not values or values[0] is NIL:
        raise bad_result(function, "a scalar float tensor", NIL)
    what = "a scalar float tensor, the mean over examples,"
    if isinstance(values[0], Tensor | TensorSource) and not is_scalar_float(values[0]):
        raise bad_result(function, what, resolve(values[0]))
    mean = scalar_f32(trace, function, values[0], what)
    if len(values) > 1 and values[1] is not NIL:
        if isinstance(values[1], int | float | Fraction) and values[1] < 0:
            raise bad_result(function, "(values mean weight), a weight from 0 up,", values[1])
        weight = scalar_f32(trace, function, values[1], "(values mean weight), a scalar weight,")
    else:
        weight = trace.full(float(trace.batch or 1), (), "f32")
    return mean, weight
