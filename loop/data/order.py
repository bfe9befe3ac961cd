"""The order of records: a permutation of each epoch that is a pure function of (key, epoch, place).

Shuffling is a Feistel network over the smallest even-bit domain that holds the records, with
cycle walking back into range (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002,
method 2): a bijection for every count, in constant memory however many records there are.
"""

from __future__ import annotations

import numpy as np

from sexpgpu.loop.keys import Key, fold

_ROUNDS = 6
_BLOCK = 8192  # indices worked out at once: a lone batch is slower by numpy's overhead a call


def _mix(x: np.ndarray, key: np.uint64) -> np.ndarray:
    """A 64-bit finaliser (multiply, xor-shift), the Feistel network's round function."""
    x = (x ^ key) * np.uint64(0x9E3779B97F4A7C15)
    x = x ^ (x >> np.uint64(32))
    x = x * np.uint64(0xD6E8FEB86659FD93)
    return x ^ (x >> np.uint64(29))


def permute(places: np.ndarray, count: int, key: Key) -> np.ndarray:
    """The records at `places` (integers in [0, count)) of the permutation that `key` names."""
    half = np.uint64(max(1, (int(count - 1).bit_length() + 1) // 2))
    mask = np.uint64((1 << int(half)) - 1)
    seed = key[0] << 32 | key[1]
    rounds = [
        np.uint64((seed * 0x9E3779B97F4A7C15 + r * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF)
        for r in range(_ROUNDS)
    ]

    def network(x: np.ndarray) -> np.ndarray:
        left, right = x >> half, x & mask
        for k in rounds:
            left, right = right, left ^ (_mix(right, k) & mask)
        return (left << half) | right

    x = network(np.asarray(places, np.uint64))
    outside = x >= np.uint64(count)
    while outside.any():
        x[outside] = network(x[outside])
        outside = x >= np.uint64(count)
    return x.astype(np.int64)


class Order:
    """The endless sequence of record numbers of a loader's stage: epoch after epoch.

    `key` is the loader's shuffling key, or None for the order of the files. Each epoch is a
    permutation of its own: nothing is repeated or left out within one.
    """

    def __init__(self, count: int, key: Key | None) -> None:
        self.count = count
        self.key = key
        self._block: tuple[int, int] = (-1, -1)  # (epoch, first place) of the block at hand
        self._records = np.empty(0, np.int64)

    def records(self, epoch: int, start: int, stop: int) -> np.ndarray:
        """The record numbers at places [start, stop) of an epoch, int64."""
        if self.key is None:
            return np.arange(start, stop, dtype=np.int64)
        parts: list[np.ndarray] = []
        while start < stop:
            first = start - start % _BLOCK
            self._load(epoch, first)
            end = min(stop, first + _BLOCK)
            parts.append(self._records[start - first : end - first])
            start = end
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def running(self, start: int, stop: int) -> np.ndarray:
        """The record numbers at places [start, stop) counted through all epochs, int64."""
        parts: list[np.ndarray] = []
        while start < stop:
            epoch, place = divmod(start, self.count)
            end = min(self.count, place + stop - start)
            parts.append(self.records(epoch, place, end))
            start += end - place
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def _load(self, epoch: int, first: int) -> None:
        if self._block != (epoch, first) and self.key is not None:
            places = np.arange(first, min(first + _BLOCK, self.count))
            self._records = permute(places, self.count, fold(self.key, epoch))
            self._block = (epoch, first)
