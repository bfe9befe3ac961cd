"""The reading thread: order, bounds, errors, interruption, a clean end."""

import threading
import time
from collections.abc import Callable

import pytest

from sexpgpu.loop.data import prefetch
from sexpgpu.loop.data.prefetch import Prefetcher, items


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that can end are waited for, however busy the machine is."""
    monkeypatch.setattr(prefetch, "_PATIENCE", 60.0)


def threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name == "sexpgpu-prefetch"]


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize("at_hand", [False, True])
def test_items_in_order(at_hand: bool) -> None:
    with items(lambda i: i * i, 3, 40, at_hand=at_hand) as squares:
        assert [squares.take() for _ in range(37)] == [i * i for i in range(3, 40)]
        assert squares.waited > 0
        assert len(threads()) <= (not at_hand)
    assert not threads()


def test_there_is_nothing_after_the_last() -> None:
    with Prefetcher(lambda i: i, 0, 2) as numbers:
        assert [numbers.take(), numbers.take()] == [0, 1]
        with pytest.raises(RuntimeError):
            numbers.take()


def test_what_is_at_hand_is_made_when_it_is_taken() -> None:
    made: list[int] = []
    with items(made.append, 5, at_hand=True) as numbers:
        assert made == []
        numbers.take()
        numbers.take(lambda: True)
        assert made == [5, 6]


def test_it_reads_no_further_ahead_than_told() -> None:
    made: list[int] = []
    with Prefetcher(made.append, 0, depth=2) as items:
        eventually(lambda: len(made) >= 3)
        time.sleep(0.2)
        assert len(made) == 3  # two in the queue, one in hand
        items.take()
    assert not threads()


def test_an_error_is_raised_where_its_item_is_taken() -> None:
    def make(i: int) -> int:
        if i == 2:
            raise OSError("a bad sector")
        return i

    with Prefetcher(make, 0) as items:
        assert items.take() == 0
        assert items.take() == 1
        with pytest.raises(OSError, match="a bad sector"):
            items.take()


def test_waiting_can_be_interrupted_and_is_measured() -> None:
    release = threading.Event()
    with Prefetcher(lambda _: release.wait(), 0) as items:
        began = time.monotonic()
        stop = began + 0.2
        assert items.take(lambda: time.monotonic() > stop) is None
        assert 0.19 <= items.waited <= time.monotonic() - began + 0.01
        release.set()
    assert not threads()


def test_a_read_that_hangs_is_left_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetch, "_PATIENCE", 0.1)
    release = threading.Event()
    items = Prefetcher(lambda _: release.wait(), 0)
    items.close()
    assert items.abandoned
    release.set()
    eventually(lambda: not threads())
