"""A thread with a big stack, for evaluation that nests deeply. Knows nothing of Lisp."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from typing import Any

STACK_SIZES = (512 << 20, 256 << 20, 64 << 20)
RECURSION = 2_000_000

_inside = threading.local()


def run_deep(work: Callable[[], Any], interrupt: Callable[[], None]) -> Any:
    """The result of `work()` on such a thread; exceptions come back as they are. When the caller
    is interrupted (Ctrl-C), `interrupt` is called to make the work stop."""
    if getattr(_inside, "active", False):
        return work()
    box: list[Any] = []
    failure: list[BaseException] = []

    def body() -> None:
        _inside.active = True
        try:
            box.append(work())
        except BaseException as error:  # noqa: BLE001  (raised again in the caller's thread)
            failure.append(error)

    limit = sys.getrecursionlimit()
    thresholds = gc.get_threshold()
    sys.setrecursionlimit(max(limit, RECURSION))
    gc.set_threshold(100_000, 20, 100)
    try:
        thread = _start(body)
        try:
            thread.join()
        except KeyboardInterrupt:
            interrupt()
            thread.join(5.0)
            raise
    finally:
        sys.setrecursionlimit(limit)
        gc.set_threshold(*thresholds)
    if failure:
        raise failure[0]
    return box[0]


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
