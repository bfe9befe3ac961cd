"""SIGUSR1 in each phase of a run: a checkpoint once there is a step to save, and on it goes."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest
from loop_documents import make, run

from sexpgpu.loop.checkpoint import list_checkpoints, load
from sexpgpu.loop.data import records
from sexpgpu.loop.data.loader import TrainingBatches
from sexpgpu.loop.data.opened import Opened
from sexpgpu.loop.evaluate import Pass
from sexpgpu.loop.events import read_events
from sexpgpu.loop.run import RunResult
from sexpgpu.loop.signals import Requests
from sexpgpu.loop.train import Trainer
from sexpgpu.lowering.interp.backend import InterpBackend

DOCUMENT = make(
    steps=20, every=None, eval_every=10, log_every=5, best=("min", "eval/valid/loss")
)  # saved at steps 10 and 20


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    result = run(DOCUMENT, tmp_path_factory.mktemp("whole"))
    assert [f.step for f in list_checkpoints(str(result.directory))] == [10, 20]
    return result


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Requests]:
    """The requests of the runs of a test, as they are made."""
    made: list[Requests] = []
    init = Requests.__init__

    def noted(self: Requests, *given: Any) -> None:
        init(self, *given)
        made.append(self)

    monkeypatch.setattr(Requests, "__init__", noted)
    return made


def opening(patch: pytest.MonkeyPatch, ask: Any) -> None:
    original = Opened.open
    patch.setattr(Opened, "open", lambda self: (ask(), original(self))[1])


def compiling(patch: pytest.MonkeyPatch, ask: Any) -> None:
    original = InterpBackend.compile

    def compile(self: InterpBackend, *given: Any, **more: Any) -> Any:
        ask()
        return original(self, *given, **more)

    patch.setattr(InterpBackend, "compile", compile)


def reading(patch: pytest.MonkeyPatch, ask: Any) -> None:
    """By the thread that reads ahead, while the loop waits for it."""
    original = TrainingBatches.read
    patch.setattr(records, "AT_ONCE", -1)

    def read(self: TrainingBatches, position: int) -> Any:
        if position == 7:
            ask()
        return original(self, position)

    patch.setattr(TrainingBatches, "read", read)


def evaluating(patch: pytest.MonkeyPatch, ask: Any) -> None:
    original = Pass.run

    def evaluate(self: Pass, *given: Any) -> Any:
        ask()
        return original(self, *given)

    patch.setattr(Pass, "run", evaluate)


def saving(patch: pytest.MonkeyPatch, ask: Any) -> None:
    original = Trainer._save

    def save(self: Trainer) -> None:
        original(self)
        if self.step < 20:
            ask()

    patch.setattr(Trainer, "_save", save)


@pytest.mark.parametrize(
    "phase, first", [(opening, 1), (compiling, 1), (reading, 8), (evaluating, 11), (saving, 11)]
)
def test_in_each_phase(
    whole: RunResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[Requests],
    phase: Any, first: int,
) -> None:  # fmt: skip
    """`first`: the step by the end of which it is saved at the latest."""
    given: list[int] = []

    def ask() -> None:
        if not given:
            given.append(signal.SIGUSR1)
            asked[-1].receive(signal.SIGUSR1)

    phase(monkeypatch, ask)
    result = run(DOCUMENT, tmp_path)
    assert (result.exit_status, result.step) == (0, 20)
    found = list(read_events(str(tmp_path / "run" / "events.jsonl")))
    assert [e["signal"] for e in found if e["kind"] == "signal"] == ["SIGUSR1"]
    saved = [f.step for f in list_checkpoints(str(tmp_path / "run"))]
    (step,) = set(saved) - {10, 20}
    assert step <= first
    assert sorted(e["step"] for e in found if e["kind"] == "checkpoint") == saved
    tensors = [
        {n: a.tobytes() for n, a in load(f"{one.directory}/checkpoints/20")[0].items()}
        for one in (whole, result)
    ]
    assert tensors[0] == tensors[1]


def test_while_data_hang_the_steps_done_are_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[Requests]
) -> None:
    original, folder = TrainingBatches.read, str(tmp_path / "run")
    monkeypatch.setattr(records, "AT_ONCE", -1)

    def read(self: TrainingBatches, position: int) -> Any:
        if position == 7:
            asked[-1].receive(signal.SIGUSR1)
            until = time.monotonic() + 60
            while not list_checkpoints(folder) and time.monotonic() < until:
                time.sleep(0.01)
            assert list_checkpoints(folder)
        return original(self, position)

    monkeypatch.setattr(TrainingBatches, "read", read)
    result = run(DOCUMENT, tmp_path)
    assert (result.exit_status, result.step) == (0, 20)
    (first, *others) = [f.step for f in list_checkpoints(folder)]
    assert others == [10, 20]
    assert first <= 7
    found = list(read_events(f"{folder}/events.jsonl"))
    assert [e["signal"] for e in found if e["kind"] == "signal"] == ["SIGUSR1"]


def test_with_a_stop_there_is_one_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[Requests]
) -> None:
    original = TrainingBatches.read

    def read(self: TrainingBatches, position: int) -> Any:
        if position == 7:
            asked[-1].receive(signal.SIGUSR1)
            asked[-1].receive(signal.SIGTERM)
        return original(self, position)

    monkeypatch.setattr(TrainingBatches, "read", read)
    result = run(DOCUMENT, tmp_path)
    assert (result.exit_status, result.state) == (75, "stopped")
    assert [f.step for f in list_checkpoints(str(tmp_path / "run"))] == [result.step]
    found = list(read_events(str(tmp_path / "run" / "events.jsonl")))
    assert [e["signal"] for e in found if e["kind"] == "signal"] == ["SIGUSR1", "SIGTERM"]
