"""Integers near the ends of their dtypes: indices, starts and counts that another dtype would not
hold, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from trace_driving import world

WIDE = np.arange(3 * 400, dtype=np.float32).reshape(3, 400)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint64])
def test_a_written_index_beside_narrow_ids(dtype: type) -> None:
    ids = np.array([2, 0], dtype)
    with world() as w:
        np.testing.assert_array_equal(w.numbers("at", WIDE, ids, 399), WIDE[ids.astype(int), 399])
        np.testing.assert_array_equal(w.numbers("at", WIDE, ids, -1), WIDE[ids.astype(int), -1])


@pytest.mark.parametrize(
    "starts, dtype", [([[255], [7]], np.uint8), ([[2**40], [-(2**40)]], np.int64),
                      ([[2**63], [3]], np.uint64)],
)  # fmt: skip
def test_crops_hold_starts_of_any_dtype(starts: list[list[int]], dtype: type) -> None:
    x = np.arange(2 * 300, dtype=np.float32).reshape(2, 300)
    held = [min(max(int(s[0]), 0), 298) for s in starts]
    wanted = np.stack([row[at : at + 2] for row, at in zip(x, held, strict=True)])
    with world() as w:
        np.testing.assert_array_equal(w.numbers("crop", x, np.array(starts, dtype), [2]), wanted)


@pytest.mark.parametrize("start, wanted", [(2**63 + 5, 3), (1, 1)])
def test_dynamic_slices_hold_unsigned_starts(start: int, wanted: int) -> None:
    x = np.arange(5, dtype=np.float32)
    with world() as w:
        found = w.numbers("dynamic-slice", x, [w.tensor(np.uint64(start))], [2])
        np.testing.assert_array_equal(found, x[wanted : wanted + 2])


def test_more_classes_than_the_ids_dtype_counts() -> None:
    ids = np.array([0, 255, 7], np.uint8)
    with world() as w:
        found = w.numbers("one-hot", ids, 300)
        np.testing.assert_array_equal(found, np.eye(300, dtype=np.float32)[ids])


def test_ranges_of_64_bits() -> None:
    with world() as w:
        found = w.numbers("arange", 0, 5 * 10**9, 25 * 10**8, dtype=":i64")
        np.testing.assert_array_equal(found, [0, 25 * 10**8])
        found = w.numbers("arange", 2**32 - 2, 2**32, dtype=":u32")
        np.testing.assert_array_equal(found, np.array([2**32 - 2, 2**32 - 1], np.uint32))


def test_diagonals_far_away() -> None:
    x = np.ones((3, 4), np.float32)
    with world() as w:
        for k in (2**31 - 1, 2**40, 4, -3, -(2**31), -(2**40)):
            at = max(-10, min(10, k))
            np.testing.assert_array_equal(w.numbers("tril", x, k=k), np.tril(x, at))
            np.testing.assert_array_equal(w.numbers("triu", x, k=k), np.triu(x, at))
            np.testing.assert_array_equal(w.numbers("eye", 3, 4, ":k", k), np.eye(3, 4, at))


def test_random_integers_of_the_upper_half_of_u64() -> None:
    with world() as w:
        low = 2**64 - 10
        found = w.numbers("random-int", low, 2**64, [200], dtype=":u64")
        assert set(found.tolist()) == set(range(low, 2**64))
