"""`sexpgpu status`, `tail`, `annotate`, and what `run --json` prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FILE = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train :source (inline (x (0.0) (1.0) (2.0) (3.0)) (y (1.0) (3.0) (5.0) (7.0))) :batch 2)
(defun prepare (batch) (values (field batch :x) (field batch :y)))
(defmodel line () (submodel fit (nn:linear 1 1)) (forward (x) (fit x)))
(defun objective (model x y) (nn:mse (funcall model x) y))
(defeval valid :loader train :every 5)
(defrun line :model (line) :optimizer (optim:sgd :lr 0.01) :steps 20)
"""


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sx: Callable[..., Any]) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SEXPGPU_RUNS", raising=False)
    Path("a.sx").write_text(FILE)
    assert sx("run", "a.sx", "--slug", "a", "--device", "interp", "--quiet").code == 0
    return tmp_path / "runs" / "a"


def test_status(trained: Path, sx: Callable[..., Any]) -> None:
    (row,) = sx("status", "runs/a", "--json").json["runs"]
    assert (row["directory"], row["gone"], row["state"]) == ("runs/a", False, "finished")
    assert row == {"directory": "runs/a", "gone": False} | json.loads(
        (trained / "status.json").read_text()
    )
    assert sx("status", "--json").json == sx("status", "runs", "--json").json
    assert "20/20" in sx("status").out
    assert sx("status", "runs/none").code == 3
    assert sx("status", ".").code == 3


def test_a_silent_run_is_gone(trained: Path, sx: Callable[..., Any]) -> None:
    status = json.loads((trained / "status.json").read_text())
    for state, updated, gone in (
        ("running", "2026-01-31T12:00:00.000000Z", True),
        ("running", "2999-01-31T12:00:00.000000Z", False),
        ("running", "yesterday", True),
        ("failed", "2026-01-31T12:00:00.000000Z", False),
    ):
        (trained / "status.json").write_text(
            json.dumps(status | {"state": state, "updated": updated})
        )
        (row,) = sx("status", "runs/a", "--json").json["runs"]
        assert row["gone"] is gone, (state, updated)
        assert ("gone" in sx("status", "runs/a").out.split()) is gone


def test_tail(trained: Path, sx: Callable[..., Any]) -> None:
    events = [json.loads(line) for line in (trained / "events.jsonl").read_text().splitlines()]
    assert sx("tail", "runs/a", "-n", "3", "--json").lines == events[-3:]
    evals = [e for e in events if e["kind"] == "eval"]
    assert sx("tail", "runs/a", "--kind", "eval", "--json", "-n", "99").lines == evals
    text = sx("tail", "runs/a", "-f").out.splitlines()  # it has ended: there is nothing to wait for
    assert text[-1] == "finished at step 20"
    assert sx("tail", "runs").code == 3


def test_annotate(trained: Path, sx: Callable[..., Any]) -> None:
    assert sx("annotate", "runs/a", "look here", "--step", "7").code == 0
    record = sx("annotate", "runs/a", "ünd hier", "--json").json
    assert (record["kind"], record["step"], record["text"]) == ("annotation", 20, "ünd hier")
    assert sx("tail", "runs/a", "-n", "2").out.splitlines() == [
        "step 7  look here",
        "step 20  ünd hier",
    ]
    assert sx("annotate", "runs", "x").code == 3


def test_tail_follows_a_run_to_its_end(trained: Path, tmp_path: Path) -> None:
    """What is followed while it is written is what stands there in the end."""
    path = trained / "events.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4]))
    words = [sys.executable, "-m", "sexpgpu", "tail", str(trained), "-f", "-n", "99", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    follower = subprocess.Popen(words, stdout=subprocess.PIPE, env=environment)
    for line in lines[4:]:
        with path.open("ab") as file:  # half lines are not shown before they are whole
            file.write(line[: len(line) // 2])
            file.flush()
            time.sleep(0.05)
            file.write(line[len(line) // 2 :])
    out, _ = follower.communicate(timeout=60)
    assert follower.returncode == 0
    assert [json.loads(line) for line in out.splitlines()] == [json.loads(x) for x in lines]


def test_a_finished_run_says_so_in_json(trained: Path, sx: Callable[..., Any]) -> None:
    words = ("run", "a.sx", "--slug", "a", "--device", "interp", "--resume", "latest", "--json")
    (told,) = sx(*words).lines
    assert told["kind"] == "finished"
    assert (told["directory"], told["step"]) == ("runs/a", 20)
    assert "eval/valid/loss" in told["summary"]["metrics"]


def test_mfu_needs_a_peak(trained: Path, sx: Callable[..., Any]) -> None:
    run = ("run", "a.sx", "--device", "interp", "--quiet", "--slug")
    assert sx(*run, "b", "--peak-flops", "1e9").code == 0
    for slug, known in (("a", False), ("b", True)):
        train = sx("tail", f"runs/{slug}", "--kind", "train", "--json").lines[-1]["metrics"]
        assert ("train/mfu" in train) is known
        if known:
            rate = train["train/flops-per-second"]
            assert train["train/mfu"] == pytest.approx(rate / 1e9)
            # three products of 2x1x1 forward and back, and the elementwise work around them
            assert 20 < rate / train["train/steps-per-second"] < 200
    assert sx(*run, "c", "--peak-flops", "-1").code == 3


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '{"state": 5, "step": 1}', '{"state": "running"}', '{"step": 3}',
             '{"state": "running", "step": "x"}'],
)  # fmt: skip
def test_a_damaged_status_is_told(trained: Path, sx: Callable[..., Any], text: str) -> None:
    (trained / "status.json").write_text(text)
    found = sx("status", "runs/a")
    assert (found.code, "no whole status.json" in found.err) == (3, True)
    assert "sexpgpu tail runs/a" in found.err
    assert sx("status", "runs").code == 3  # it was the only one
    assert sx("tail", "runs/a").code == 0


def test_half_a_status_is_shown(trained: Path, sx: Callable[..., Any]) -> None:
    (trained / "status.json").write_text('{"state": "running", "step": 3}')
    assert "3/?" in sx("status", "runs/a").out
    (trained / "status.json").unlink()
    assert "no whole status.json" in sx("status", "runs/a").err


@pytest.mark.parametrize(
    "record", ['{"kind": "train", "seq": 90, "step": 1}', '{"kind": "eval", "seq": 90, "step": 1}',
               '{"kind": "train", "seq": 90, "step": 1, "metrics": 5}',
               '{"kind": "warning", "seq": 90, "step": 1, "diagnostic": []}'],
)  # fmt: skip
def test_damaged_events_are_passed_over(trained: Path, sx: Callable[..., Any], record: str) -> None:
    log = trained / "events.jsonl"
    log.write_text(log.read_text() + record + '\n{"kind": "train"}\n[3]\n{"kind": "tra')
    assert "damaged" in sx("tail", "runs/a", "-n", "1").out
    assert sx("annotate", "runs/a", "still here").code == 0
    assert "still here" in sx("tail", "runs/a", "-n", "1").out
    assert sx("status", "runs/a").code == 0


def test_a_stop_before_a_run_goes_on_is_told(
    trained: Path, sx: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the checkpoint is read: nothing is written, so no event tells it."""
    from sexpgpu.loop.session import Session

    def hang(self: Session, *_: Any) -> None:
        self._requests.receive(15)
        time.sleep(1.0)

    monkeypatch.setattr(Session, "_open_and_begin", hang)
    monkeypatch.setattr(os, "_exit", sys.exit)  # a read goes on in its thread
    before = (trained / "events.jsonl").read_bytes()
    words = ("run", "a.sx", "--slug", "a", "--device", "interp", "--resume", "20", "--json")
    found = sx(*words)
    assert (found.code, found.lines[0]["kind"]) == (75, "stopped")
    assert "stopped by SIGTERM: runs/a is as it was" in found.err
    assert (trained / "events.jsonl").read_bytes() == before
