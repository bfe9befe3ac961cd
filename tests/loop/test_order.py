"""Every epoch is a permutation, a function of (key, epoch, place) alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexpgpu.loop.data.order import Order, permute

KEY = (12, 34567)


@given(st.integers(1, 5000), st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)))
def test_it_is_a_permutation(count: int, key: tuple[int, int]) -> None:
    assert sorted(permute(np.arange(count), count, key).tolist()) == list(range(count))


@pytest.mark.parametrize("count", [1, 2, 3, 65_536, 65_537, 200_003])
def test_large_and_edge_counts(count: int) -> None:
    assert np.array_equal(np.sort(permute(np.arange(count), count, KEY)), np.arange(count))


def test_it_mixes() -> None:
    n = 50_000
    order = permute(np.arange(n), n, KEY)
    assert abs(np.abs(order - np.arange(n)).mean() / n - 1 / 3) < 0.01
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.02


@given(st.integers(1, 40_000), st.data())
def test_pieces_are_pieces_of_the_whole(count: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, count))
    stop = data.draw(st.integers(start, min(count, start + 20_000)))
    order = Order(count, KEY)
    whole = Order(count, KEY).records(3, 0, count)
    assert np.array_equal(order.records(3, start, stop), whole[start:stop])


def test_epochs_differ_and_repeat() -> None:
    order = Order(100, KEY)
    first, second = order.records(0, 0, 100), order.records(1, 0, 100)
    assert not np.array_equal(first, second)
    assert np.array_equal(order.records(0, 0, 100), first)


def test_running_crosses_epochs() -> None:
    order = Order(10, KEY)
    epochs = np.concatenate([order.records(e, 0, 10) for e in range(4)])
    assert np.array_equal(order.running(7, 33), epochs[7:33])
    assert np.array_equal(Order(3, None).running(1, 8), [1, 2, 0, 1, 2, 0, 1])
