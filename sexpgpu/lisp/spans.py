"""The places of forms. Only the reader makes places: they live in SrcCons."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.values import Cons, SrcCons
from sexpgpu.source import Span


def span_of(form: Any) -> Span | None:
    """The place of a list that the reader made, else None (atoms have no place of their own)."""
    return form.span if type(form) is SrcCons else None


def car_span(cons: Cons) -> Span | None:
    """The place of the car of a cons that the reader made: an atom's or a list's."""
    if type(cons) is not SrcCons:
        return span_of(cons.car)
    return cons.car_span or span_of(cons.car)


def first_span(*forms: Any) -> Span | None:
    """The place of the first of the forms that has one."""
    for form in forms:
        if type(form) is SrcCons:
            return form.span
    return None
