"""Reading ahead: a thread makes the next items while the device computes. Or, where making one
takes less than handing it over does, no thread.

Knows nothing of what an item is. An error of the thread is raised where its item is taken.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")

_POLL = 0.05  # seconds between looks at `interrupted` while waiting
_PATIENCE = 1.0  # seconds that `close` waits for a read that hangs


def items(
    make: Callable[[int], Item],
    start: int,
    stop: int | None = None,
    *,
    depth: int = 3,
    at_hand: bool = False,
) -> Prefetcher[Item] | AtOnce[Item]:
    """The items of `make`; `at_hand`: each is made when it is taken, without a thread.

    A handing over costs two switches of threads, each of which may wait for a core that the
    device (XLA:CPU takes them all) has."""
    return AtOnce(make, start) if at_hand else Prefetcher(make, start, stop, depth)


class AtOnce(Generic[Item]):
    """`make(i)` for i = start, start + 1, …, each when it is taken. As a Prefetcher to its user."""

    def __init__(self, make: Callable[[int], Item], start: int) -> None:
        self._make = make
        self._index = start
        self.waited = 0.0
        self.abandoned = False

    def take(self, interrupted: Callable[[], bool] = lambda: False) -> Item | None:
        began = time.perf_counter()
        item = self._make(self._index)
        self._index += 1
        self.waited += time.perf_counter() - began
        return item

    def close(self, gives_up: Callable[[], bool] | None = None) -> None: ...

    def __enter__(self) -> AtOnce[Item]:
        return self

    def __exit__(self, *_: object) -> None: ...


class Prefetcher(Generic[Item]):
    """`make(i)` for i = start, start + 1, … up to `stop` (exclusive), at most `depth` ahead.

    `waited` is how long `take` has waited in all, in seconds: the time the loop stood without
    data. Use as a context manager, or call `close`.
    """

    def __init__(
        self, make: Callable[[int], Item], start: int, stop: int | None = None, depth: int = 3
    ) -> None:
        self._make = make
        self._queue: queue.Queue[tuple[Item | None, BaseException | None]] = queue.Queue(depth)
        self._closing = threading.Event()
        self.waited = 0.0
        self.abandoned = False
        self._thread = threading.Thread(
            target=self._work, args=(start, stop), name="sexpgpu-prefetch", daemon=True
        )
        self._thread.start()

    def take(self, interrupted: Callable[[], bool] = lambda: False) -> Item | None:
        """The next item; None as soon as `interrupted()` holds while none is ready.

        Raises what making it raised; StopIteration-like ends do not exist: taking past `stop` is
        a fault of the caller.
        """
        began = time.perf_counter()
        try:
            while True:
                try:
                    item, error = self._queue.get(timeout=_POLL)
                except queue.Empty:
                    if interrupted():
                        return None
                    if not self._thread.is_alive() and self._queue.empty():
                        raise RuntimeError("no item is left to take") from None
                    continue
                if error is not None:
                    raise error
                return item
        finally:
            self.waited += time.perf_counter() - began

    def close(self, gives_up: Callable[[], bool] | None = None) -> None:
        """Stop the thread; items made ahead are dropped. A read that hangs is left to itself after
        a second, or as soon as `gives_up()`: then `abandoned` is true, and the thread ends with its
        read or with the process."""
        self._closing.set()
        deadline = time.monotonic() + _PATIENCE
        leaves = gives_up or (lambda: time.monotonic() >= deadline)
        while self._thread.is_alive() and not leaves():
            while not self._queue.empty():
                self._queue.get_nowait()
            self._thread.join(_POLL)
        self.abandoned = self._thread.is_alive()

    def __enter__(self) -> Prefetcher[Item]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _work(self, start: int, stop: int | None) -> None:
        index = start
        while not self._closing.is_set() and (stop is None or index < stop):
            try:
                made: tuple[Item | None, BaseException | None] = (self._make(index), None)
            except BaseException as error:  # noqa: BLE001  raised again in the loop's thread
                made = (None, error)
            while not self._closing.is_set():
                try:
                    self._queue.put(made, timeout=_POLL)
                    break
                except queue.Full:
                    continue
            if made[1] is not None:
                return
            index += 1
