"""Where the time of a run goes, and how a time limit is met: mostly by a clock of the test."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from loop_documents import make, run

from sexpgpu.loop import executables, recorder, reports, signals, train
from sexpgpu.loop.checkpoint import Checkpointer, list_checkpoints
from sexpgpu.loop.data import records
from sexpgpu.loop.data.loader import EvaluationBatches, TrainingBatches
from sexpgpu.loop.data.opened import Opened
from sexpgpu.loop.events import read_events
from sexpgpu.loop.status import read_status
from sexpgpu.lowering.interp.backend import InterpBackend, InterpCompiled


def test_the_times_that_are_told_are_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock of the test: a step and an evaluation batch take 1 s, a compilation 7 s, and a
    save holds the run up for 3 s. To the last train event no second is missing, or told twice."""
    now, last = [0.0], [0.0]
    clock = SimpleNamespace(perf_counter=lambda: now[0], monotonic=time.monotonic)
    for module in (executables, recorder, train):
        monkeypatch.setattr(module, "time", clock)

    def slowed(owner: type, name: str, seconds: float) -> None:
        original = getattr(owner, name)

        def slow(*given: Any, **more: Any) -> Any:
            now[0] += seconds
            return original(*given, **more)

        monkeypatch.setattr(owner, name, slow)

    slowed(InterpCompiled, "__call__", 1.0)
    slowed(InterpBackend, "compile", 7.0)
    slowed(Checkpointer, "save", 3.0)

    def hear(event: dict[str, Any]) -> None:
        if event["kind"] == "train":
            last[0] = now[0]

    result = run(make(steps=30, every=6, log_every=4), tmp_path, on_event=hear)
    parts = dict.fromkeys(("step", "compile", "eval", "checkpoint"), 0.0)
    before = 0
    for event in read_events(f"{result.directory}/events.jsonl"):
        if event["kind"] == "train":
            told, steps, before = event["metrics"], event["step"] - before, event["step"]
            parts["step"] += steps / told["train/steps-per-second"]
            for what in ("compile", "eval", "checkpoint"):
                parts[what] += told[f"time/{what}"]
    assert parts["step"] == pytest.approx(30.0)
    assert sum(parts.values()) == pytest.approx(last[0])
    assert parts["checkpoint"] == pytest.approx(4 * 3.0)  # but for that of the last step
    assert parts["compile"] >= 7.0


def test_a_report_is_read_while_the_next_step_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = ""

    def noted(owner: type, name: str) -> None:
        original = getattr(owner, name)

        def call(*given: Any) -> Any:
            nonlocal log
            log += name[1]
            return original(*given)

        monkeypatch.setattr(owner, name, call)

    noted(train.Trainer, "_dispatch")
    noted(reports.Reports, "_read")
    run(make(steps=6, every=None, valid=0, log_every=2), tmp_path)
    assert log == "dd" + 4 * "rd" + "rr"


def test_a_time_limit_leaves_room_for_steps_and_the_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps of a second each by a clock of the test: two of them must fit in what is left."""
    now = [0.0]
    original = InterpCompiled.__call__

    def call(self: InterpCompiled, *given: Any) -> Any:
        now[0] += 1.0
        return original(self, *given)

    monkeypatch.setattr(signals, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(InterpCompiled, "__call__", call)
    document = make(steps=100, every=None, valid=0)
    result = run(document, tmp_path, time_limit=60.5)
    assert result.exit_status == 75
    assert 57.0 <= now[0] <= 59.0
    assert list(read_events(f"{result.directory}/events.jsonl"))[-1]["reason"] == "time limit"
    assert [f.step for f in list_checkpoints(str(result.directory))] == [result.step]


@pytest.mark.parametrize("phase", ["opening", "compiling", "reading", "evaluating"])
def test_a_time_limit_is_met_in_every_phase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    """Whatever hangs: the run ends in time, and what it had done is saved."""
    release, now = Event(), [0.0]
    monkeypatch.setattr(signals, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def hang(owner: Any, name: str, hangs: Callable[..., bool] = lambda *_: True) -> None:
        original = getattr(owner, name)

        def late(*given: Any, **more: Any) -> Any:
            if hangs(*given):
                now[0] = 59.0
                release.wait(120)
            return original(*given, **more)

        monkeypatch.setattr(owner, name, late)

    if phase == "opening":
        hang(Opened, "open")
    elif phase == "compiling":
        hang(InterpBackend, "compile")
    elif phase == "reading":
        monkeypatch.setattr(records, "AT_ONCE", -1)  # in a thread of its own
        hang(TrainingBatches, "read", lambda _, position: position == 3)
    else:
        monkeypatch.setattr(records, "AT_ONCE", -1)
        hang(EvaluationBatches, "read", lambda _, index: index == 1)
    began = time.monotonic()
    try:
        result = run(make(steps=20, eval_every=2), tmp_path, time_limit=60.0)
    finally:
        release.set()
    assert time.monotonic() - began < 60  # what hangs would take two minutes
    assert (result.exit_status, result.state) == (75, "stopped")
    status = read_status(str(tmp_path / "run"))
    assert status is not None
    assert (status["state"], status["reason"]) == ("stopped", "time limit")
    saved = [f.step for f in list_checkpoints(str(tmp_path / "run"))]
    at_most = {"opening": 0, "compiling": 0, "reading": 3, "evaluating": 2}[phase]
    assert saved == ([] if phase == "opening" else [result.step])
    assert result.step <= at_most  # data are read ahead
