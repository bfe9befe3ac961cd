"""Runs Lisp in one tier of the evaluator or the other, for the tests that hold them together."""

from __future__ import annotations

from typing import Any

from sexpgpu.diagnostics import render
from sexpgpu.diagnostics.model import SxError
from sexpgpu.lisp.batch import Batch
from sexpgpu.lisp.printer import prin1_text
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.state import STATE, Limits
from sexpgpu.lisp.tiers import FOREVER, thresholds
from sexpgpu.source import Source

LIMITS = Limits(fuel=300_000, seconds=20)
MODES = {"cold": (FOREVER, FOREVER), "hot": (0, 0), "switched": (2, 2)}


def answers(programs: list[str], mode: str) -> list[tuple[Any, int]]:
    """What a batch answers to each program, and the fuel that it took."""
    batch = Batch(LIMITS)
    given: list[tuple[Any, int]] = []

    def work() -> None:
        for text in programs:
            answer = batch.answer(text)
            given.append((answer, LIMITS.fuel - STATE.left()))

    with thresholds(*MODES[mode]):
        batch.session.run(work)
    return given


def shown(text: str, mode: str, **limits: float) -> tuple[str, str]:
    """The printed values of the last form of a text, or the whole report of its error; and what
    the program wrote."""
    session = Session(Limits(**{"fuel": 2_000_000, "seconds": 20, **limits}))
    module = session.new_module("main")
    source = Source("t.sx", text)
    with thresholds(*MODES[mode]):
        try:
            values = session.evaluate(source, module)
            result = " ".join(prin1_text(value) for value in values)
        except SxError as error:
            result = render.texts(error.diagnostics)
        written = STATE.output.take()
    session.close()
    return result, written
