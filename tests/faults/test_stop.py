"""Signals to a run, wherever it is: the documented end, the documented status."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from sexpgpu.loop.checkpoint import list_checkpoints, load

LONG = {"steps": 100_000, "every": None, "log_every": 5, "eval_every": None}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_signal(child: Callable[..., Any], number: signal.Signals) -> None:
    one = child(LONG)
    one.until_step(20)
    one.process.send_signal(number)
    assert one.wait() == 75, one.output
    status = one.status()
    assert status["state"] == "stopped"
    assert status["reason"] == number.name
    events = one.events()
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
    began = time.monotonic()
    assert one.wait() in (75, 130)
    assert time.monotonic() - began < 5


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
    time.sleep(0.5)
    assert one.status()["state"] == "compiling"
    one.process.send_signal(signal.SIGTERM)
    assert one.wait(10) == 75, one.output
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
    assert one.wait(10) == 130
    assert one.status()["reason"] == "a second signal"


def test_while_waiting_for_data(child: Callable[..., Any]) -> None:
    one = child(LONG, {}, "slow", "data")
    one.until_step(15)
    time.sleep(0.2)
    one.process.send_signal(signal.SIGTERM)
    assert one.wait(10) == 75, one.output
    assert [f.step for f in list_checkpoints(str(one.directory))] == [20]


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
