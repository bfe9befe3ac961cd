"""What a dialogue remembers, as Common Lisp says: `-` is the form being evaluated, `+` the one
before, `*` its value and `/` the list of its values; `++ +++ ** *** // ///` go further back.

In files these names have no value, so that a `*` where `#'*` was meant is an error.
"""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.journal import keep
from sexpgpu.lisp.values import CL, NIL, Symbol, lisp_list

_FORMS, _PRIMARY, _VALUES = (
    tuple(CL.own(mark * times) for times in (1, 2, 3)) for mark in ("+", "*", "/")
)
_CURRENT = CL.own("-")


class Listener:
    """Keeps the variables of one dialogue. To be used while its session is active."""

    def __init__(self) -> None:
        for symbol in (_CURRENT, *_FORMS, *_PRIMARY, *_VALUES):
            keep(symbol)
            symbol.special = True
            symbol.value = NIL

    def before(self, form: Any) -> None:
        """A form is about to be evaluated."""
        _CURRENT.value = form

    def after(self, values: list[Any]) -> None:
        """It was evaluated, and gave these values."""
        _push(_FORMS, _CURRENT.value)
        _push(_PRIMARY, values[0] if values else NIL)
        _push(_VALUES, lisp_list(values))


def _push(symbols: tuple[Symbol, ...], value: Any) -> None:
    for symbol in symbols:
        symbol.value, value = value, symbol.value
