"""Where records come from: one protocol over npz files, text windows, inline and synthetic data.

A source gives raw arrays; `records.py` checks them against the declared fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from sexpgpu.diagnostics.codes import data as codes
from sexpgpu.ir.document import Stage
from sexpgpu.loop.data.files import LocalFile, local_files
from sexpgpu.loop.data.identity import Identity, identities
from sexpgpu.loop.data.memory import Synthetic, inline_arrays
from sexpgpu.loop.data.npz import checksums, open_arrays
from sexpgpu.loop.failure import failure

KEPT = 1 << 28
"""Bytes of all files of a loader up to which the system's memory is taken to keep them."""

FieldTypes: TypeAlias = Mapping[str, tuple[np.dtype, tuple[int, ...]]]


class Source(Protocol):
    """Numbered records of named fields, readable in any order."""

    @property
    def count(self) -> int:
        """How many records."""
        ...

    @property
    def fields(self) -> FieldTypes:
        """The dtype and the shape (without the axis of records) of each field found."""
        ...

    def read(self, records: np.ndarray, names: Sequence[str]) -> dict[str, np.ndarray]:
        """The named fields of the records (int64 numbers, in any order), stacked."""
        ...

    @property
    def at_hand(self) -> bool:
        """Whether the records lie in memory, or in files so small that the system keeps them
        there: reading some takes no longer than copying them."""
        ...

    def place(self, record: int) -> tuple[str, int]:
        """The file that holds a record, and its number in that file (for messages)."""
        ...

    def close(self) -> None:
        """Let go of files."""
        ...


class Arrays:
    """Records as slices of equally long arrays, in memory or mapped."""

    def __init__(
        self,
        name: str,
        arrays: Mapping[str, np.ndarray],
        file: LocalFile | None,
        at_hand: bool = True,
    ) -> None:
        self.at_hand = at_hand
        for field, array in arrays.items():
            if array.ndim == 0:
                raise failure(
                    codes.E_DATA_003,
                    f"{name}: the array {field} is a single number, not a row of records",
                )
        lengths = {field: len(array) for field, array in arrays.items()}
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{field} has {n}" for field, n in lengths.items())
            raise failure(codes.E_DATA_003, f"{name}: its arrays differ in length: {told}")
        self._name = name
        self._file = file
        # a plain view: numpy.memmap is slower to index, and its class would leak into batches
        self._arrays = {field: array.view(np.ndarray) for field, array in arrays.items()}
        self.count = next(iter(lengths.values()), 0)
        self.fields = {f: (a.dtype, a.shape[1:]) for f, a in self._arrays.items()}

    def read(self, records: np.ndarray, names: Sequence[str]) -> dict[str, np.ndarray]:
        if self._file is not None:
            self._file.check_unchanged()
        return {name: self._arrays[name][records] for name in names}

    def place(self, record: int) -> tuple[str, int]:
        return self._name, record

    def close(self) -> None:
        self._arrays = {}


class TextWindows:
    """Windows of bytes of a file: field `tokens`, u8 (window), one every `stride` bytes."""

    def __init__(self, file: LocalFile, window: int, stride: int, at_hand: bool) -> None:
        self.at_hand = at_hand
        self._file = file
        self._stride = stride
        self._offsets = np.arange(window, dtype=np.int64)
        self.count = 0 if file.size < window else (file.size - window) // stride + 1
        self._bytes = (
            np.memmap(file.path, np.uint8, "r").view(np.ndarray)
            if file.size
            else np.empty(0, np.uint8)  # an empty file cannot be mapped
        )
        self.fields = {"tokens": (np.dtype(np.uint8), (window,))}

    def read(self, records: np.ndarray, names: Sequence[str]) -> dict[str, np.ndarray]:
        self._file.check_unchanged()
        starts = records * self._stride
        return dict.fromkeys(names, self._bytes[starts[:, None] + self._offsets])

    def place(self, record: int) -> tuple[str, int]:
        return self._file.name, record

    def close(self) -> None:
        self._bytes = np.empty(0, np.uint8)


class Concatenated:
    """Several sources of the same fields, one after the other."""

    def __init__(self, parts: Sequence[Source]) -> None:
        self._parts = list(parts)
        self.at_hand = all(part.at_hand for part in parts)
        self._ends = np.cumsum([part.count for part in parts])
        self.count = int(self._ends[-1])
        self.fields = parts[0].fields
        for part in parts[1:]:
            if dict(part.fields) != dict(self.fields):
                raise failure(
                    codes.E_DATA_003,
                    f"{part.place(0)[0]} holds other fields than {parts[0].place(0)[0]}",
                    f"{parts[0].place(0)[0]}: {described(self.fields)}",
                    f"{part.place(0)[0]}: {described(part.fields)}",
                )

    def read(self, records: np.ndarray, names: Sequence[str]) -> dict[str, np.ndarray]:
        which = np.searchsorted(self._ends, records, side="right")
        out = {
            name: np.empty((len(records), *self.fields[name][1]), self.fields[name][0])
            for name in names
        }
        for index in np.unique(which):
            rows = np.nonzero(which == index)[0]
            part = self._parts[index]
            first = int(self._ends[index]) - part.count
            for name, values in part.read(records[rows] - first, names).items():
                out[name][rows] = values
        return out

    def place(self, record: int) -> tuple[str, int]:
        index = int(np.searchsorted(self._ends, record, side="right"))
        part = self._parts[index]
        return part.place(record - (int(self._ends[index]) - part.count))

    def close(self) -> None:
        for part in self._parts:
            part.close()


def described(fields: FieldTypes) -> str:
    """`image uint8 (64), label int32 ()`: for messages."""
    return ", ".join(
        f"{name} {dtype} ({' '.join(map(str, shape))})" for name, (dtype, shape) in fields.items()
    )


def open_source(stage: Stage, loader: str, seed: int) -> tuple[Source, list[Identity]]:
    """The source of a loader's stage, and which files it reads. Raises E-DATA-… and E-STORE-…."""
    source: Mapping[str, Any] = stage.source
    kind = source["kind"]
    if kind == "inline":
        return Arrays("the inline source", inline_arrays(source), None), []
    if kind == "synthetic":
        return Synthetic(source, seed, loader), []
    parts: list[Source] = []
    files = local_files(source["path"], stage.base)
    at_hand = sum(file.size for file in files) <= KEPT
    for file in files:
        if at_hand:
            file.call_in()
        if kind == "npz":
            parts.append(Arrays(file.name, open_arrays(file), file, at_hand))
        elif kind == "text":
            stride = source.get("stride") or source["window"]
            parts.append(TextWindows(file, source["window"], stride, at_hand))
        else:
            raise failure(codes.E_DATA_005, f"a source of kind {kind!r} is not known")
    told = identities(files, checksums if kind == "npz" else None)
    return parts[0] if len(parts) == 1 else Concatenated(parts), told
