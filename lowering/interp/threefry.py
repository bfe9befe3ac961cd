"""Threefry-2x32 with 20 rounds, in NumPy.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). Counter
based: the bits of an element depend on the key and on the element's counter, on nothing else.
"""

from __future__ import annotations

import math

import numpy as np

from sexpgpu.lowering.interp.blocks import over_blocks

_U = np.uint32
_PARITY = 0x1BD11BDA
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_MASK = 0xFFFFFFFF


def _rounds(k0: int, k1: int, x0: np.ndarray, x1: np.ndarray, spare: np.ndarray) -> None:
    """The 20 rounds, in place on u32 arrays; `spare` is scratch of their shape."""
    keys = (k0, k1, k0 ^ k1 ^ _PARITY)
    np.add(x0, _U(keys[0]), out=x0)
    np.add(x1, _U(keys[1]), out=x1)
    for i in range(5):
        for rotation in _ROTATIONS[i % 2]:
            np.add(x0, x1, out=x0)
            np.left_shift(x1, _U(rotation), out=spare)
            np.right_shift(x1, _U(32 - rotation), out=x1)
            np.bitwise_or(x1, spare, out=x1)
            np.bitwise_xor(x1, x0, out=x1)
        np.add(x0, _U(keys[(i + 1) % 3]), out=x0)
        np.add(x1, _U((keys[(i + 2) % 3] + i + 1) & _MASK), out=x1)


def threefry2x32(key: np.ndarray, x0: np.ndarray, x1: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two u32 words of each counter (x0, x1) under a u32[2] key."""
    y0 = np.array(x0, dtype=_U)
    y1 = np.array(x1, dtype=_U)
    _rounds(int(key[0]), int(key[1]), y0, y1, np.empty_like(y0))
    return y0, y1


def fold(key: np.ndarray, integer: int) -> np.ndarray:
    """A new u32[2] key: the words of the counter (0, the integer's low 32 bits)."""
    x0, x1 = threefry2x32(key, np.zeros(1, _U), np.array([int(integer) & _MASK], _U))
    return np.concatenate((x0, x1))


def name_hash(name: str) -> int:
    """FNV-1a, 32 bits, of the name's UTF-8."""
    value = 0x811C9DC5
    for byte in name.encode():
        value = ((value ^ byte) * 0x01000193) & _MASK
    return value


def random_bits(
    key: np.ndarray, offset: int, shape: tuple[int, ...], batch: int | None, per_example: int
) -> np.ndarray:
    """u32 bits of a draw.

    Without a batch axis an element's counter is its 64-bit row-major index (high word, low word).
    With one, x0 is its place along that axis, counted from `offset` examples of `per_example`
    rows each, and x1 its row-major index over the other axes: so a part of a batch draws what it
    would have drawn in the whole.
    """
    if batch is None:
        return _bits(key, math.prod(shape), high_from=0, low_from=0).reshape(shape)
    extent = shape[batch]
    rest = math.prod(shape[:batch] + shape[batch + 1 :])
    first = int(offset) * per_example
    bits = _bits(key, extent * rest, high_from=first, row=rest).reshape(
        (extent, *shape[:batch], *shape[batch + 1 :])
    )
    return np.moveaxis(bits, 0, batch)


def _bits(
    key: np.ndarray, size: int, *, high_from: int, low_from: int = 0, row: int | None = None
) -> np.ndarray:
    """The xor of both words for `size` consecutive counters.

    row None: the counter is a 64-bit number; else x0 counts rows of that many elements (from
    `high_from`) and x1 the elements of a row.
    """
    k0, k1 = int(key[0]), int(key[1])
    out = np.empty(size, _U)

    def run(start: int, stop: int) -> None:
        index = np.arange(start, stop, dtype=np.uint64)
        if row is None:
            x0 = (index >> np.uint64(32)).astype(_U)
            x1 = index.astype(_U)
        else:
            rows, columns = np.divmod(index, np.uint64(row))
            x0 = (rows + np.uint64(high_from)).astype(_U)
            x1 = columns.astype(_U)
        _rounds(k0, k1, x0, x1, np.empty_like(x0))
        np.bitwise_xor(x0, x1, out=out[start:stop])

    over_blocks(size, run)
    return out
