"""A thread with a big stack, for evaluation that nests deeply. Knows nothing of Lisp."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

STACK_SIZES = (512 << 20, 256 << 20, 64 << 20)
RECURSION = 2_000_000

_inside = threading.local()
_turn = threading.RLock()


def inside() -> bool:
    """Whether this thread is one that evaluates."""
    return getattr(_inside, "active", False)


@contextmanager
def alone() -> Generator[None]:
    """While this is open no other thread evaluates: the world that is evaluated in is one."""
    if inside():
        yield  # on the thread of an evaluation, whose caller waits with the turn
        return
    with _turn:
        yield


def run_deep(work: Callable[[], Any], interrupt: Callable[[], None]) -> Any:
    """The result of `work()` on such a thread; exceptions come back as they are. When the caller
    is interrupted (Ctrl-C), `interrupt` is called to make the work stop, which is waited for: what
    it leaves behind must be in order when the next evaluation begins."""
    if inside():
        return work()
    box: list[Any] = []
    failure: list[BaseException] = []
    # `Thread.join` cannot be waited for again once an interrupt has cut it short.
    done = threading.Event()

    def body() -> None:
        _inside.active = True
        try:
            box.append(work())
        except BaseException as error:  # noqa: BLE001  (raised again in the caller's thread)
            failure.append(error)
        finally:
            done.set()

    with alone():
        _wait(body, done, interrupt)
    if failure:
        raise failure[0]
    return box[0]


def _wait(body: Callable[[], None], done: threading.Event, interrupt: Callable[[], None]) -> None:
    """Start `body` and wait until it is done."""
    limit = sys.getrecursionlimit()
    thresholds = gc.get_threshold()
    sys.setrecursionlimit(max(limit, RECURSION))
    gc.set_threshold(500_000, 20, 100)
    try:
        _start(body)
        try:
            done.wait()
        except BaseException:
            interrupt()
            done.wait(5.0)
            raise
    finally:
        sys.setrecursionlimit(limit)
        gc.set_threshold(*thresholds)


def _start(body: Callable[[], None]) -> threading.Thread:
    """A started thread with the biggest stack the system gives."""
    before = threading.stack_size()
    problem: BaseException | None = None
    try:
        for size in STACK_SIZES:
            try:
                threading.stack_size(size)
                thread = threading.Thread(target=body, name="sexpgpu", daemon=True)
                thread.start()
                return thread
            except (ValueError, RuntimeError) as error:
                problem = error
    finally:
        threading.stack_size(before)
    raise RuntimeError("no thread can be started") from problem
