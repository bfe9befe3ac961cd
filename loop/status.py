"""`status.json`: the state of a run at a glance, replaced whole at each change and every 2 s."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

from sexpgpu.loop.events import now, plain

FILE = "status.json"
STATES = (
    "compiling", "running", "evaluating", "checkpointing", "finished", "stopped", "failed",
)  # fmt: skip

_PERIOD = 2.0  # seconds; readers are promised 5
_PATIENCE = 0.5  # seconds that last words wait for a write


class Status:
    """The status file and the thread that keeps it fresh. `also` is called at each beat (the
    lock's heartbeat). Writing never stops a run: a full disk shows at the next checkpoint."""

    def __init__(
        self, directory: str, also: Callable[[], None] = lambda: None, **fields: Any
    ) -> None:
        self._path = os.path.join(directory, FILE)
        self._also = also
        self._fields: dict[str, Any] = {
            "state": "compiling", "step": 0, "steps": None, "progress": 0.0, "eta_s": None,
            "updated": now(), "host": socket.gethostname(), "pid": os.getpid(),
            "metrics": {}, "checkpoint": None, "best": None, **fields,
        }  # fmt: skip
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="sexpgpu-status", daemon=True)
        self.update()
        self._thread.start()

    @property
    def fields(self) -> dict[str, Any]:
        with self._lock:
            return dict(self._fields)

    def note(self, **fields: Any) -> None:
        """Change fields that can wait for the next beat (step, progress, last metrics)."""
        with self._lock:
            self._fields.update(fields)

    def update(self, **fields: Any) -> None:
        """Change fields and write the file now."""
        with self._lock:
            self._fields.update(fields)
            self._write()

    def last_words(self, **fields: Any) -> None:
        """`update` from a signal's handler that ends the process. Another thread that is writing
        is waited for, or it would have the last word; a write of the thread that the signal
        interrupted never goes on, so the wait is short, and its file is left alone."""
        held = self._lock.acquire(timeout=_PATIENCE)
        self._fields.update(fields)
        self._write("last")
        if held:
            self._lock.release()

    def close(self) -> None:
        """Stop the thread; the file keeps what `update` last said."""
        self._closing.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._closing.wait(_PERIOD):
            with self._lock:
                self._write()
            self._also()

    def _write(self, suffix: str = "tmp") -> None:
        self._fields["updated"] = now()
        text = json.dumps(plain(self._fields), indent=1, ensure_ascii=False, allow_nan=False)
        temporary = f"{self._path}.{os.getpid()}.{suffix}"
        with contextlib.suppress(OSError):
            try:
                with open(temporary, "w", encoding="utf-8") as file:
                    file.write(text + "\n")
                os.replace(temporary, self._path)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise


def read_status(directory: str) -> dict[str, Any] | None:
    """The status of a run directory; None when there is none."""
    try:
        with open(os.path.join(directory, FILE), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):  # none, or a damaged one
        return None
    whole = isinstance(found, dict) and found.get("state") in STATES
    return found if whole and isinstance(found.get("step"), int) else None
