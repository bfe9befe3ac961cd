"""Between evaluations nothing is timed: what is read or printed then has no deadline."""

from __future__ import annotations

from contextlib import suppress

import pytest

from sexpgpu.diagnostics.model import SxError
from sexpgpu.lisp import state
from sexpgpu.lisp.printer import prin1_text
from sexpgpu.lisp.session import Session
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
