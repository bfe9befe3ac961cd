"""Sorting, top-k and searchsorted against NumPy: axes, ties, NaN, directions, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from trace_driving import call, refused, said, world

NAN, INF = np.nan, np.inf
RNG = np.random.default_rng(3)
TIES = RNG.integers(-2, 3, (3, 8, 2)).astype(np.float32)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_sorts_are_numpys(axis: int) -> None:
    with world() as w:
        x = w.tensor(TIES)
        np.testing.assert_array_equal(w.run(call("tensor-sort", x, axis=axis)), np.sort(TIES, axis))
        np.testing.assert_array_equal(
            w.run(call("argsort", x, axis=axis)), np.argsort(TIES, axis, kind="stable")
        )
        np.testing.assert_array_equal(
            w.run(call("argsort", x, axis=axis, descending=True)),
            np.argsort(-TIES, axis, kind="stable"),
        )


def test_nan_is_last_and_equals_keep_their_order() -> None:
    x = np.array([NAN, 1, -0.0, INF, 0.0, -INF, NAN, 1], np.float32)
    with world() as w:
        t = w.tensor(x)
        np.testing.assert_array_equal(w.run(call("argsort", t)), [5, 2, 4, 1, 7, 3, 0, 6])
        down = w.run(call("argsort", t, descending=True))
        np.testing.assert_array_equal(down, [3, 1, 7, 2, 4, 5, 0, 6])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint32])
def test_the_least_and_greatest_integers_sort_both_ways(dtype: type) -> None:
    info = np.iinfo(dtype)
    x = np.array([0, info.max, info.min, 1, info.max - 1], dtype)
    with world() as w:
        t = w.tensor(x)
        np.testing.assert_array_equal(w.run(call("tensor-sort", t)), np.sort(x))
        down = w.run(call("tensor-sort", t, descending=True))
        np.testing.assert_array_equal(down, np.sort(x)[::-1])


def test_bools_sort_false_first() -> None:
    with world() as w:
        np.testing.assert_array_equal(
            w.numbers("tensor-sort", np.array([True, False, True])), [False, True, True]
        )


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_the_greatest_and_the_least_few(axis: int) -> None:
    with world() as w:
        x = w.tensor(TIES)
        k = 2
        values, places = call("top-k", x, k, axis=axis)
        order = np.argsort(-TIES, axis, kind="stable")
        np.testing.assert_array_equal(w.run(places), np.take(order, range(k), axis))
        np.testing.assert_array_equal(
            w.run(values), np.take(np.take_along_axis(TIES, order, axis), range(k), axis)
        )
        values, places = call("top-k", x, k, axis=axis, smallest=True)
        order = np.argsort(TIES, axis, kind="stable")
        np.testing.assert_array_equal(w.run(places), np.take(order, range(k), axis))


def test_the_first_of_the_greatest_is_argmax() -> None:
    x = np.array([[1, NAN, 3, NAN], [4, 4, INF, 1], [-0.0, 0.0, -1, -INF]], np.float32)
    with world() as w:
        _, places = call("top-k", w.tensor(x), 4)
        got = w.run(places)
        np.testing.assert_array_equal(got, [[1, 3, 2, 0], [2, 0, 1, 3], [0, 1, 2, 3]])
        np.testing.assert_array_equal(got[:, 0], np.argmax(x, 1))


@pytest.mark.parametrize("side", ["left", "right"])
def test_places_among_edges(side: str) -> None:
    edges = np.array([-1, 0, 0, 2, 2, 2, 5, NAN, NAN], np.float32)
    x = np.array([[-2, -1, -0.0, 0], [2, 4, 9, NAN], [INF, -INF, 5, 1]], np.float32)
    with world() as w:
        np.testing.assert_array_equal(
            w.numbers("searchsorted", edges, x, side=f":{side}"), np.searchsorted(edges, x, side)
        )
        rows = np.sort(RNG.normal(size=(2, 3, 5)), -1)
        points = RNG.normal(size=(2, 3, 4))
        want = [
            [np.searchsorted(e, p, side) for e, p in zip(a, b, strict=True)]
            for a, b in zip(rows, points, strict=True)
        ]
        np.testing.assert_array_equal(
            w.numbers("searchsorted", rows, points, side=f":{side}"), want
        )


def test_numbers_take_the_edges_dtype_or_make_them_floats() -> None:
    with world() as w:
        edges = w.tensor(np.array([1, 2, 3], np.int32))
        assert w.run(call("searchsorted", edges, 2)) == 1
        assert w.run(call("searchsorted", edges, 2.5)) == 2
        assert w.run(call("searchsorted", w.tensor(np.zeros(0, np.float32)), 2.5)) == 0


def test_refusals_say_what_to_do() -> None:
    with world() as w:
        x = w.tensor(np.zeros((2, 3), np.float32))
        assert "k is at most 3" in said(refused("E-SHAPE-006", lambda: call("top-k", x, 4)))
        refused("E-SHAPE-003", lambda: call("argsort", x, axis=2))
        refused("E-SHAPE-005", lambda: call("tensor-sort", w.tensor(np.float32(1))))
        refused("E-SHAPE-001", lambda: call("searchsorted", x, w.tensor(np.zeros((3, 3), "f"))))
        refused("E-DTYPE-002", lambda: call("searchsorted", x, w.tensor(np.zeros((2, 3), "i"))))
        text = said(refused("E-OP-001", lambda: call("searchsorted", x, x, side=":rigth")))
        assert ":right" in text


def test_examples_ordered_among_themselves_are_no_batch() -> None:
    with world(batch=4) as w:
        x = w.tensor(np.zeros((4, 3), np.float32), batch=0)
        assert call("argsort", x).type.batch == 0
        assert call("argsort", x, axis=0).type.batch is None
        assert call("top-k", x, 2)[1].type.batch == 0
        assert call("searchsorted", w.tensor(np.zeros(3, "f")), x).type.batch == 0
