"""Records without a file: written in the run file (`inline`), or drawn at random (`synthetic`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sexpgpu.loop.keys import Key, domain
from sexpgpu.lowering.interp.dtypes import NUMPY
from sexpgpu.lowering.interp.threefry import threefry2x32

_WORD = 2.0**-32


def inline_arrays(source: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The columns of an inline source, each with a leading axis of its count."""
    count = int(source["count"])
    return {
        name: np.array(column["values"], NUMPY[column["dtype"]]).reshape((count, *column["shape"]))
        for name, column in source["columns"].items()
    }


class Synthetic:
    """Seeded random records: element j of record i is a function of (seed, loader, field, i, j).

    Distributions: `["normal", mean, std]` (Box and Muller, 1958, in f64), `["uniform", lo, hi]`
    in [lo, hi), `["integers", lo, hi]` in [lo, hi).
    """

    def __init__(self, source: Mapping[str, Any], seed: int, loader: str) -> None:
        self.count = int(source["count"])
        self.at_hand = False  # drawing takes longer than copying
        self._columns: dict[str, Any] = source["columns"]
        self._keys: dict[str, Key] = {
            name: domain(seed, "synt", f"{loader}/{name}") for name in self._columns
        }
        self.fields = {
            name: (NUMPY[column["dtype"]], tuple(column["shape"]))
            for name, column in self._columns.items()
        }

    def read(self, records: np.ndarray, names: Sequence[str]) -> dict[str, np.ndarray]:
        return {name: self._draw(name, records) for name in names}

    def place(self, record: int) -> tuple[str, int]:
        return "the synthetic source", record

    def close(self) -> None: ...

    def _draw(self, name: str, records: np.ndarray) -> np.ndarray:
        dtype, shape = self.fields[name]
        size = math.prod(shape)
        word0, word1 = threefry2x32(
            np.array(self._keys[name], np.uint32),
            np.repeat(records.astype(np.uint32), size),
            np.tile(np.arange(size, dtype=np.uint32), len(records)),
        )
        kind, low, high = self._columns[name]["distribution"]
        if kind == "normal":
            radius = np.sqrt(-2.0 * np.log((word0 + 0.5) * _WORD))
            values = low + high * radius * np.cos((2.0 * math.pi * _WORD) * word1)
        elif kind == "uniform":
            values = low + (high - low) * (_WORD * word0)
        else:
            span = np.uint64(int(high) - int(low))
            long = word0.astype(np.uint64) << np.uint64(32) | word1
            values = (long % span).astype(np.int64) + int(low)
        if (dtype.kind == "f" and dtype.itemsize < 8) or dtype == NUMPY["bf16"]:
            values = values.astype(np.float32)
        made = values.astype(dtype)
        if kind == "uniform":  # what rounds up to high is low, as in random-uniform
            least, most = np.array([low, high]).astype(dtype)
            made = np.where(made < most, made, least)
        return made.reshape((len(records), *shape))
