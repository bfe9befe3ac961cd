"""Feeds the targets of a run, each from a thread of its own, so that none can slow or stop it.

Each target has every record at least once: how far it is stands in `targets.json`, and what it
lacks after a kill is given again from `events.jsonl`.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from sexpgpu.diagnostics.codes.system import W_STORE_002
from sexpgpu.diagnostics.model import Diagnostic
from sexpgpu.loop import events
from sexpgpu.loop.failure import warning
from sexpgpu.loop.targets.target import open_target

FILE = "targets.json"

_DEPTH = 20_000  # records a target may be behind
_FLUSH = 2.0  # seconds between flushes
_PATIENCE = 10.0  # seconds that the end of a run waits for its targets


class Fan:
    """The targets of a run. `take` never waits and never raises."""

    def __init__(self, specs: Sequence[str], directory: str) -> None:
        self._directory = directory
        self._warnings: list[Diagnostic] = []
        self._lock = threading.Lock()
        self._done = _read(directory)
        self._feeds = [_Feed(spec, self) for spec in dict.fromkeys(specs)]

    def begin(self, kept: int, seq: int) -> None:
        """The log goes on with the record `seq`. What targets have from `kept` on is of a history
        that was cut. They are started, with what they lack."""
        for feed in self._feeds:
            feed.start(min(self._done.get(feed.spec, -1), kept - 1), seq)

    def take(self, record: Mapping[str, Any]) -> None:
        for feed in self._feeds:
            feed.take(record)

    def take_warnings(self) -> list[Diagnostic]:
        """What went wrong since the last call."""
        with self._lock:
            found, self._warnings = self._warnings, []
        return found

    def close(self) -> list[Diagnostic]:
        """Let targets finish, but not for long; gives what went wrong."""
        deadline = time.monotonic() + _PATIENCE
        for feed in self._feeds:
            feed.end()
        for feed in self._feeds:
            feed.wait(deadline)
        return self.take_warnings()

    def _warn(self, headline: str) -> None:
        with self._lock:
            self._warnings.append(warning(W_STORE_002, headline))

    def _reached(self, spec: str, seq: int) -> None:
        """Note that a target has everything to `seq`."""
        with self._lock, contextlib.suppress(OSError):
            self._done[spec] = seq
            path = os.path.join(self._directory, FILE)
            with open(f"{path}.tmp", "w", encoding="utf-8") as file:
                json.dump(self._done, file)
            os.replace(f"{path}.tmp", path)


class _Feed:
    """One target and its thread."""

    def __init__(self, spec: str, fan: Fan) -> None:
        self.spec = spec
        self._fan = fan
        self._queue: queue.Queue[Mapping[str, Any] | None] = queue.Queue(_DEPTH)
        self._thread: threading.Thread | None = None
        self._failed = False

    def start(self, have: int, seq: int) -> None:
        self._thread = threading.Thread(
            target=self._work, args=(have, seq), name=f"sexpgpu-log-{self.spec}", daemon=True
        )
        self._thread.start()

    def take(self, record: Mapping[str, Any]) -> None:
        if self._failed or self._thread is None:
            return
        try:
            self._queue.put_nowait(record)
        except queue.Full:
            self._fail(f"it is {_DEPTH} records behind")

    def end(self) -> None:
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(None)

    def wait(self, deadline: float) -> None:
        if self._thread is None or self._failed:
            return
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            self._fail("it did not finish in time")

    def _fail(self, why: str) -> None:
        if not self._failed:
            self._failed = True
            self._fan._warn(f"--log {self.spec} is given up: {why}")

    def _work(self, have: int, seq: int) -> None:
        try:
            target = open_target(self.spec, self._fan._directory, have)
            path = os.path.join(self._fan._directory, events.FILE)
            for record in events.read_events(path) if have + 1 < seq else ():
                if have < record["seq"] < seq:
                    target.take(record)
            reached, flushed = seq - 1, time.monotonic()
            record: Mapping[str, Any] | None = {}
            while record is not None and not self._failed:
                with contextlib.suppress(queue.Empty):
                    record = self._queue.get(timeout=_FLUSH)
                    if record is not None:
                        target.take(record)
                        reached = record["seq"]
                if record is None or time.monotonic() - flushed > _FLUSH:
                    target.flush()
                    self._fan._reached(self.spec, reached)
                    flushed = time.monotonic()
            target.close()
        except Exception as error:  # noqa: BLE001  whatever a target does, the run goes on
            said = str(error).strip().splitlines()
            self._fail(f"{type(error).__name__}: {said[0][:200] if said else ''}")


def _read(directory: str) -> dict[str, int]:
    try:
        with open(os.path.join(directory, FILE), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return {k: v for k, v in found.items() if type(v) is int} if isinstance(found, dict) else {}
