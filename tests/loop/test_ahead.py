"""The step is compiled while data are opened and the state is made, from their types alone."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from jax.errors import JaxRuntimeError

import sexpgpu as sx
from sexpgpu.loop import beginning
from sexpgpu.loop.data import opened
from sexpgpu.lowering.xla.backend import XlaBackend

WAIT = 60.0  # seconds

FILE = """
(require "sexpgpu/optim" :as optim)
(defloader train :batch 2 :source (inline (x 1.0 2.0 3.0 4.0)) STAGES)
(defun prepare (batch) (field batch :x))
(defmodel net () (defparam w () :init 0.5) (forward (x) (* w x)))
(defun objective (model x)
  (diagnostic :at (cast (ctx :samples) :f32))
  (* (+ 1.0 (cast (ctx :progress) :f32)) (mean (square (- (funcall model x) 3.0)))))
(defloader other :batch 2 :source (inline (x 1.0 2.0)))
(defeval valid :loader other :every 3)
CURRICULUM
(defrun net :model (net) :optimizer (optim:sgd :lr 0.1) :steps 6 :log-every 1 MORE)
"""
STAGES = ":stages (few () many (:batch 4))"
CURRICULUM = "(defun curriculum () (mod (+ 1 (ctx :stage)) 2))"


def file(stages: str = "", curriculum: str = "", more: str = "") -> sx.Experiment:
    words = {"STAGES": stages, "CURRICULUM": curriculum, "MORE": more}
    text = FILE
    for word, given in words.items():
        text = text.replace(word, given)
    return sx.compile_text(text)


class Compilations:
    """Counts what is compiled, and holds the first until `go`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.threads: list[str] = []
        self.error: Exception | None = None
        real = XlaBackend.compile

        def compile(*args: Any, **more: Any) -> Any:
            self.threads.append(threading.current_thread().name)
            if len(self.threads) == 1:
                self.begun.set()
                assert self.go.wait(WAIT)
                if self.error is not None:
                    raise self.error
            return real(*args, **more)

        monkeypatch.setattr(XlaBackend, "compile", compile)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Compilations:
    return Compilations(monkeypatch)


def test_before_the_state_is_made(
    seen: Compilations, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = beginning.initial_state

    def made(document: Any) -> Any:
        assert seen.begun.wait(WAIT)  # else this would wait for ever
        seen.go.set()
        return real(document)

    monkeypatch.setattr(beginning, "initial_state", made)
    run = file().run(runs=str(tmp_path), device="cpu")
    assert run.state == "finished"
    assert seen.threads[0] == "sexpgpu-ahead"
    assert len(seen.threads) == 2  # the step, once, and the pass


def test_of_every_feed_that_a_run_has(seen: Compilations, tmp_path: Path) -> None:
    """What a stage or a diagnostic reads of ctx, each step is fed."""
    seen.go.set()
    more = ':diagnostics (:select "**" :every 2)'
    run = file(STAGES, CURRICULUM, more).run(runs=str(tmp_path), device="cpu")
    assert run.state == "finished"
    assert seen.threads.count("sexpgpu-ahead") == 1
    assert len(seen.threads) == 5  # of two stages the step and the diagnostics, and the pass


def test_what_stops_it_is_told(seen: Compilations, tmp_path: Path) -> None:
    seen.error = JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")
    seen.go.set()
    with pytest.raises(sx.RunError) as found:
        file().run(runs=str(tmp_path), device="cpu")
    assert found.value.diagnostics[0].code.id == "E-DEV-004"


def test_what_cannot_be_opened_is_told_meanwhile(
    seen: Compilations, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def missing(*_: Any) -> None:
        assert seen.begun.wait(WAIT)
        raise FileNotFoundError(2, "No such file or directory", "data.npz")

    monkeypatch.setattr(opened, "TrainingBatches", missing)
    with pytest.raises(sx.RunError):  # though the compilation hangs
        file().run(runs=str(tmp_path), device="cpu")
    seen.go.set()


def test_a_resumed_run_compiles_ahead_where_it_runs_step_by_step(
    seen: Compilations, tmp_path: Path
) -> None:
    seen.go.set()
    made = file(more=":steps-per-dispatch 3 :checkpoint (:every 3)")
    made.run(runs=str(tmp_path), device="cpu", steps=3)
    assert seen.threads.count("sexpgpu-ahead") == 1
    made.run(runs=str(tmp_path), device="cpu", resume="latest", allow_change=True)
    assert seen.threads.count("sexpgpu-ahead") == 1
    made = file()
    made.run(runs=str(tmp_path), slug="one", device="cpu", steps=3)
    made.run(runs=str(tmp_path), slug="one", device="cpu", resume="latest", allow_change=True)
    assert seen.threads.count("sexpgpu-ahead") == 3
