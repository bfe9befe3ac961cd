"""Runs in processes of their own, to be killed, stopped and starved."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests" / "loop"), str(Path(__file__).parent)]


WAIT = 120.0  # seconds, as long as anything may take on a machine that does much else


class Child:
    """A run in a process of its own."""

    def __init__(self, runs: Path, document: dict[str, Any], options: dict[str, Any], *slow: str):
        self.directory = runs / "run"
        self.process = subprocess.Popen(
            [
                sys.executable, str(ROOT / "tests/loop/loop_documents.py"), str(runs),
                json.dumps(document), json.dumps(options), *slow,
            ],
            cwd=ROOT, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(runs)},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def events(self) -> list[dict[str, Any]]:
        from sexpgpu.loop.events import read_events

        path = self.directory / "events.jsonl"
        return list(read_events(str(path))) if path.exists() else []

    def until(self, condition: Callable[[list[dict[str, Any]]], bool]) -> None:
        """Wait until the events fulfil a condition."""
        deadline = time.monotonic() + WAIT
        while not condition(self.events()):
            assert self.process.poll() is None, self.process.stdout.read()  # type: ignore[union-attr]
            assert time.monotonic() < deadline, self.events()
            time.sleep(0.01)

    def until_step(self, step: int) -> None:
        self.until(lambda events: any(e["step"] >= step for e in events))

    def until_status(self, **fields: Any) -> None:
        """Wait until the status has these fields: it is written every two seconds at least."""
        self.until(lambda _: fields.items() <= self.status_so_far().items())

    def status_so_far(self) -> dict[str, Any]:
        return self.status() if (self.directory / "status.json").exists() else {}

    def status(self) -> dict[str, Any]:
        return json.loads((self.directory / "status.json").read_text())

    def wait(self, seconds: float = WAIT) -> int:
        return self.process.wait(seconds)

    @property
    def output(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.read()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Callable[..., Child]]:
    """`child(document, options, *slow)`: start one; all are ended after the test."""
    started: list[Child] = []

    def start(
        document: dict[str, Any], options: dict[str, Any] | None = None, *slow: str,
        runs: Path = tmp_path,
    ) -> Child:  # fmt: skip
        started.append(Child(runs, document, options or {}, *slow))
        return started[-1]

    yield start
    for one in started:
        one.end()
