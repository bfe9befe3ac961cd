"""Long elementwise computations in blocks that stay in the cache, on two threads when large.

NumPy makes one pass over memory for every operation. A random draw or an inverse error function
is dozens of operations an element: run block by block, all but the first and last stay in L2.
NumPy releases the interpreter's lock inside its loops, so two threads do help.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

BLOCK = 1 << 14  # elements: a handful of 64 KiB arrays
PARALLEL = 1 << 20  # elements below which a second thread does not pay
THREADS = min(2, os.cpu_count() or 1)


def over_blocks(size: int, run: Callable[[int, int], None], block: int = BLOCK) -> None:
    """Call `run(start, stop)` for blocks that cover range(size), in no particular order."""

    def stretch(first: int, last: int) -> None:
        # each thread needs it: the error state of NumPy is the thread's own
        with np.errstate(all="ignore"):
            for start in range(first, last, block):
                run(start, min(start + block, last))

    if size < PARALLEL or THREADS == 1:
        stretch(0, size)
        return
    share = -(-size // THREADS)
    with ThreadPoolExecutor(THREADS) as pool:
        parts = [
            pool.submit(stretch, first, min(first + share, size)) for first in range(0, size, share)
        ]
        for part in parts:
            part.result()


def blockwise(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """`function(x)` for an elementwise function that keeps the dtype, block by block."""
    flat = np.ascontiguousarray(x).reshape(-1)
    out = np.empty_like(flat)

    def run(start: int, stop: int) -> None:
        out[start:stop] = function(flat[start:stop])

    over_blocks(flat.size, run, BLOCK // 2)  # these compute in f64 within
    return out.reshape(x.shape)
