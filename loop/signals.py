"""Signals of a run: SIGTERM, SIGINT and SIGHUP stop it after the step in flight, a second one at
once; SIGUSR1 asks for a checkpoint; a time limit acts as SIGTERM.

Python runs a handler only between two of its own instructions, and a compilation or a device wait
may hold the main thread for minutes. So the C-level wake-up descriptor is read by a thread, which
notes the request at once and, on the second stop signal, ends the process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from sexpgpu.loop.failure import KILLED

T = TypeVar("T")

_STOP = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_POLL = 0.05


class Requests:
    """What was asked of the run from outside. `stop` is the reason to stop (a signal's name or
    "time limit") or None; SIGUSR1 is told by `take_checkpoint`.

    A time limit is met by twice what the longest dispatch and save so far took, as two dispatches
    may be in flight and a save may wait for the one before; but by 5% of it, or 10 s, at least."""

    def __init__(self, time_limit: float | None = None) -> None:
        self._began = time.monotonic()
        self._limit = time_limit
        self._least = min(10.0, 0.05 * time_limit) if time_limit is not None else 0.0
        self._dispatch = self._save = 0.0  # seconds, of the longest
        self._dispatched = self._began
        self._signal: str | None = None
        self._checkpoint = threading.Event()
        self._received: deque[str] = deque()

    @property
    def stop(self) -> str | None:
        if self._signal is None and self._limit is not None:
            reserve = max(self._least, 2.0 * (self._dispatch + self._save))
            if time.monotonic() - self._began + reserve >= self._limit:
                return "time limit"
        return self._signal

    def stopping(self) -> bool:
        return self.stop is not None

    def begin_dispatch(self) -> None:
        """A dispatch begins now."""
        self._dispatched = time.monotonic()

    def end_dispatch(self) -> None:
        """The dispatch is done, or the one before it, where they overlap."""
        self._dispatch = max(self._dispatch, time.monotonic() - self._dispatched)

    def note_save(self, seconds: float) -> None:
        """How long a save took, or has held up the run so far."""
        self._save = max(self._save, seconds)

    def take_checkpoint(self) -> bool:
        """Whether a checkpoint was asked for since the last call."""
        asked = self._checkpoint.is_set()
        self._checkpoint.clear()
        return asked

    def take_received(self) -> list[str]:
        """The names of the signals received since the last call, for the events."""
        return [self._received.popleft() for _ in range(len(self._received))]

    def receive(self, number: int) -> bool:
        """Note a signal; true when it is the second that asks to stop. A SIGHUP is no second one:
        a terminal that is closed sends several."""
        name = signal.Signals(number).name
        self._received.append(name)
        if number == signal.SIGUSR1:
            self._checkpoint.set()
            return False
        if self._signal is not None:
            return number != signal.SIGHUP
        self._signal = name
        return False


@contextlib.contextmanager
def listening(requests: Requests, last_words: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Deliver signals to `requests` while the block runs; then restore what was there.

    On a second stop signal: `last_words()`, then the process exits with status 130. Only the main
    thread can install handlers: elsewhere (a notebook's worker) this does nothing. A
    SIGHUP that is ignored stays so: the process was started to outlive its terminal (nohup).
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    receiver, sender = os.pipe()
    os.set_blocking(sender, False)
    previous_wakeup = signal.set_wakeup_fd(sender, warn_on_full_buffer=False)
    previous: dict[int, Any] = {
        number: signal.signal(number, _nothing)
        for number in (*_STOP, signal.SIGUSR1)
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN
    }

    def read() -> None:
        while data := os.read(receiver, 64):
            for number in data:
                if number not in previous:
                    continue  # 0 ends the thread's work; others are not ours
                if requests.receive(number):
                    with contextlib.suppress(Exception):
                        last_words()
                    os._exit(KILLED)

    thread = threading.Thread(target=read, name="sexpgpu-signals", daemon=True)
    thread.start()
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(previous_wakeup)
        os.close(sender)
        thread.join()
        os.close(receiver)


def interruptible(action: Callable[[], T], requests: Requests) -> T | None:
    """`action()` in a thread of its own; None as soon as the run is asked to stop meanwhile.

    For compilation, which cannot be called off: its thread is then left to finish by itself, and
    the process should end by `os._exit` once all is written.
    """
    result: list[T] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            result.append(action())
        except BaseException as error:  # noqa: BLE001  raised again in the caller's thread
            failed.append(error)

    thread = threading.Thread(target=work, name="sexpgpu-compile", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_POLL)
        if requests.stopping() and thread.is_alive():
            return None
    if failed:
        raise failed[0]
    return result[0]


def _nothing(*_: object) -> None:
    """Python's part of a handler: the descriptor's reader does the work."""
