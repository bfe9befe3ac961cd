"""Between evaluations nothing is limited: what is read or printed then has no deadline, and does
not pay for what an evaluation before it has used."""

from __future__ import annotations

from contextlib import suppress

import pytest

from sexpgpu.diagnostics.model import SxError
from sexpgpu.lisp import state
from sexpgpu.lisp.printer import prin1_text
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.state import Limits
from sexpgpu.lisp.values import lisp_list


@pytest.mark.parametrize("text", ["(+ 1 2)", '(error "no")', "(dotimes (i 100000) i)"])
def test_a_past_deadline_stops_nothing_later(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session()
    with suppress(SxError):
        session.evaluate(text, session.new_module("main"))
    session.close()
    now = state.monotonic()
    monkeypatch.setattr(state, "monotonic", lambda: now + 1e6)
    numbers = lisp_list(list(range(5_000)))  # takes more fuel than is handed out at once
    assert prin1_text(numbers).endswith(" 4999)")


@pytest.mark.parametrize(
    "limits", [Limits(fuel=300), Limits(memory=300, seconds=0.2), Limits(objects=300, seconds=0.2)]
)
@pytest.mark.parametrize("text", ["(+ 1 2)", "(loop)", "(let ((x nil)) (loop (push 1 x)))"])
def test_small_limits_stop_nothing_later(text: str, limits: Limits) -> None:
    session = Session(limits=limits)
    with suppress(SxError):
        session.evaluate(text, session.new_module("main"))
    session.close()
    kept = [object() for _ in range(1000)]
    numbers = lisp_list(list(range(10_000)))
    for _ in range(2):
        assert prin1_text(numbers).endswith(" 9999)")
    assert kept
