"""Signals to a run, wherever it is: the documented end, the documented status."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sexpgpu.loop.checkpoint import list_checkpoints, load

ROOT = Path(__file__).parents[2]
LONG = {"steps": 10_000_000, "every": None, "log_every": 5, "eval_every": None}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_stop_signal(child: Callable[..., Any], number: signal.Signals) -> None:
    one = child(LONG)
    one.until_step(20)
    one.process.send_signal(number)
    assert one.wait() == 75, one.output
    status = one.status()
    assert status["state"] == "stopped"
    assert status["reason"] == number.name
    # the report of the step in flight, a train event, may come after the signal
    events = [e for e in one.events() if e["kind"] != "train"]
    assert [e["kind"] for e in events][-3:] == ["signal", "checkpoint", "close"]
    assert events[-3]["signal"] == number.name
    assert events[-1]["exit"] == 75
    (found,) = list_checkpoints(str(one.directory))
    assert found.step == status["step"] == events[-1]["step"]
    assert load(found.path)[0]["step"] == found.step
    again = child({**LONG}, {"resume": "latest"})
    again.until_step(found.step + 10)
    again.process.send_signal(signal.SIGTERM)
    assert again.wait() == 75


def test_a_second_one_ends_it_at_once(child: Callable[..., Any]) -> None:
    one = child(LONG, {}, "slow", "data")
    one.until_step(15)
    one.process.send_signal(signal.SIGTERM)
    one.process.send_signal(signal.SIGINT)
    assert one.wait() in (75, 130)  # what it reads comes much later


def test_usr1_saves_and_goes_on(child: Callable[..., Any]) -> None:
    one = child(LONG)
    one.until_step(20)
    one.process.send_signal(signal.SIGUSR1)
    one.until(lambda events: any(e["kind"] == "checkpoint" for e in events))
    step = one.events()[-1]["step"]
    one.until_step(step + 10)
    assert any(e["kind"] == "signal" and e["signal"] == "SIGUSR1" for e in one.events())
    one.process.send_signal(signal.SIGTERM)
    assert one.wait() == 75
    assert len(list_checkpoints(str(one.directory))) == 2


def test_while_compiling(child: Callable[..., Any]) -> None:
    one = child(LONG, {}, "slow", "compile")
    one.until(lambda events: any(e["kind"] == "open" for e in events))
    time.sleep(0.5)  # until it hangs, most often; before that a signal ends it likewise
    assert one.status()["state"] == "compiling"
    one.process.send_signal(signal.SIGTERM)
    assert one.wait() == 75, one.output
    assert one.status()["state"] == "stopped"
    assert [f.step for f in list_checkpoints(str(one.directory))] == [0]
    document = {**LONG, "steps": 30, "log_every": 10}
    whole = child(document, {"slug": "whole"})
    assert whole.wait() == 0


def test_a_second_one_while_compiling(child: Callable[..., Any]) -> None:
    one = child(LONG, {}, "slow", "compile")
    one.until(lambda events: any(e["kind"] == "open" for e in events))
    one.process.send_signal(signal.SIGSTOP)  # both signals are pending when it goes on
    one.process.send_signal(signal.SIGTERM)
    one.process.send_signal(signal.SIGINT)
    one.process.send_signal(signal.SIGCONT)
    assert one.wait() == 130
    assert one.status()["reason"] == "a second signal"


def test_while_waiting_for_data(child: Callable[..., Any]) -> None:
    one = child(LONG, {}, "slow", "data")
    one.until_status(step=20)
    one.process.send_signal(signal.SIGTERM)
    assert one.wait() == 75, one.output
    assert [f.step for f in list_checkpoints(str(one.directory))] == [20]


@pytest.mark.parametrize("where", ["open", "passes"])
def test_while_data_is_opened(child: Callable[..., Any], where: str) -> None:
    one = child(LONG, {}, "slow", where)
    one.until_status(state="compiling")
    time.sleep(0.3)  # until it hangs, most often; before that a signal ends it likewise
    one.process.send_signal(signal.SIGTERM)
    assert one.wait() == 75, one.output
    status = one.status()
    assert (status["state"], status["reason"], status["step"]) == ("stopped", "SIGTERM", 0)
    assert [e["kind"] for e in one.events()] == ["signal", "close"]
    assert list_checkpoints(str(one.directory)) == []
    again = child({**LONG, "steps": 10}, {"resume": "latest"})  # the one command of a requeued job
    assert again.wait() == 0, again.output
    assert again.events()[0]["kind"] == "open"
    assert [e["seq"] for e in again.events()] == list(range(len(again.events())))


def until_it_heeds_signals(pid: int) -> None:
    """Wait until a process has a handler for SIGTERM, as Linux tells; elsewhere for a while."""
    told = Path(f"/proc/{pid}/status")
    if not told.exists():
        time.sleep(5.0)
        return
    deadline = time.monotonic() + 120
    while not int(told.read_text().partition("SigCgt:")[2].split()[0], 16) & (1 << 14):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("number, status", [(signal.SIGTERM, 75), (signal.SIGINT, 130)])
def test_before_there_is_a_run(tmp_path: Path, number: signal.Signals, status: int) -> None:
    """While the file is compiled: nothing is there to save, and nothing is left behind."""
    (tmp_path / "a.sx").write_text('(format t "begun~%")\n(defun f () (loop))\n(f)\n')
    words = ["run", "a.sx", "--limit", "fuel=100000000000", "--device", "interp"]
    with subprocess.Popen(
        [sys.executable, "-m", "sexpgpu", *words], cwd=tmp_path, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:  # fmt: skip
        until_it_heeds_signals(process.pid)
        process.send_signal(number)
        assert process.wait(60) == status
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
    assert [p.name for p in tmp_path.iterdir()] == ["a.sx"]


def test_two_processes_cannot_write_one_run(child: Callable[..., Any]) -> None:
    one = child(LONG)
    one.until_step(10)
    for options in ({"resume": "latest"}, {"fresh": True}):
        other = child(LONG, options)
        assert other.wait() == 3
        assert "E-CKPT-007" in other.output
    # refused as existing, or as being written while nothing of it is saved yet
    assert {"E-CKPT-003", "E-CKPT-007"} & set(_refused(child(LONG)).split())
    one.until_step(one.events()[-1]["step"] + 10)
    one.process.send_signal(signal.SIGTERM)
    assert one.wait() == 75


def _refused(other: Any) -> str:
    assert other.wait() == 3
    return other.output
