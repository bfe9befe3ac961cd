"""The batches that a peer draws, written in their order for the product to read.

Both sides then train on the very same numbers, so their losses can be compared step by step.
"""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "peers"))

import common  # noqa: E402 - one of the peers' own modules, found by the line above

SHAPES = {"mlp": (784,), "conv": (28, 28, 1)}


def write_batches(kind: str, count: int, path: Path) -> None:
    """The first `count` batches of seed 0 as one .npz: `tokens`, or `x` and `y`."""
    if kind in common.GPT_SIZES:
        batches = common.token_batches(common.GPT_SIZES[kind], 0)
        tokens = np.concatenate(list(islice(batches, count)))
        np.savez(path, tokens=tokens.astype(np.uint16))
        return
    x, y = common.image_data("synthetic", SHAPES[kind])
    drawn = list(islice(common.image_batches(x, y, 128, 0), count))
    np.savez(path, x=np.concatenate([b for b, _ in drawn]), y=np.concatenate([b for _, b in drawn]))
