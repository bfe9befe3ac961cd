"""SIGKILL at any point: what is resumed is what was never interrupted."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from told import series

from sexpgpu.loop.checkpoint import list_checkpoints, load, newest_whole

DOCUMENT = {"steps": 150, "every": 5, "log_every": 3, "eval_every": 40, "keep": 3}


def last_tensors(directory: Path) -> dict[str, bytes]:
    tensors, _ = load(str(directory / "checkpoints" / "150"))
    return {name: array.tobytes() for name, array in tensors.items()}


def killed_and_resumed(child: Callable[..., Any], tmp_path: Path, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    whole = child(DOCUMENT, runs=tmp_path / "whole")
    assert whole.wait() == 0, whole.output
    for _ in range(kills):
        one = child(DOCUMENT, {"resume": "latest"}, runs=tmp_path / "parts")
        before = len(one.events())
        one.until(lambda events, before=before: len(events) != before)
        time.sleep(rng.uniform(0.0, 0.5))
        one.process.send_signal(signal.SIGKILL)
        one.process.wait()
        path, warnings = newest_whole(str(one.directory))
        torn = [f for f in list_checkpoints(str(one.directory)) if not f.sealed]
        newer = [f for f in torn if path is None or f.step >= int(Path(path).name)]
        assert len(warnings) == len(newer)
    last = child(DOCUMENT, {"resume": "latest"}, runs=tmp_path / "parts")
    assert last.wait() == 0, last.output
    assert last_tensors(last.directory) == last_tensors(whole.directory)
    assert series(last.directory) == series(whole.directory)
    events = last.events()
    assert [e["seq"] for e in events] == list(range(len(events)))
    saved = [e["step"] for e in events if e["kind"] == "checkpoint"]
    assert len(saved) == len(set(saved))
    assert not list((last.directory / "checkpoints").glob("*.partial"))


@pytest.mark.slow
def test_killed_three_times(child: Callable[..., Any], tmp_path: Path) -> None:
    killed_and_resumed(child, tmp_path, 3, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_killed_ten_times(child: Callable[..., Any], tmp_path: Path, seed: int) -> None:
    killed_and_resumed(child, tmp_path, 10, seed)


def test_killed_between_the_checkpoints(child: Callable[..., Any], tmp_path: Path) -> None:
    document = {"steps": 120, "every": 50, "log_every": 1, "eval_every": None}
    one = child(document)
    one.until_step(75)
    one.process.send_signal(signal.SIGKILL)
    one.process.wait()
    assert one.status()["state"] in ("running", "checkpointing")
    again = child(document, {"resume": "latest"})
    assert again.wait() == 0, again.output
    train = [e["step"] for e in again.events() if e["kind"] == "train"]
    assert train == list(range(1, 121))
    assert (again.directory / "events.cut.jsonl").exists()
