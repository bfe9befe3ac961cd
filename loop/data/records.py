"""Records as a loader declares them: fields by name, of the declared dtype, shape and range.

What a file holds is brought to the declared dtype where that loses nothing (integers that fit,
floats rounded); every value that does not fit is an error that names file, record and field.
"""

from __future__ import annotations

import math

import numpy as np

from sexpgpu.diagnostics.codes import data as codes
from sexpgpu.diagnostics.model import SxError
from sexpgpu.ir.document import Field, Stage
from sexpgpu.loop.data.sources import Source, described, open_source
from sexpgpu.loop.failure import failure
from sexpgpu.lowering.interp.dtypes import NUMPY, is_float

AT_ONCE = 1 << 20
"""Bytes of a batch up to which a copy of it takes less than handing it from thread to thread."""


class Records:
    """The checked records of one stage of a loader. `at_hand`: a batch is read in no time; `files`:
    which files they are read from."""

    def __init__(self, stage: Stage, loader: str, seed: int) -> None:
        self.loader = loader
        self._source, self.files = open_source(stage, loader, seed)
        self.count = self._source.count
        self._fields = [
            (field, _find(field, self._source, loader), NUMPY[field.dtype])
            for field in stage.fields
        ]
        size = sum(math.prod(f.shape) * t.itemsize for f, _, t in self._fields)
        self.at_hand = self._source.at_hand and stage.batch * size <= AT_ONCE
        if stage.records is not None and stage.records != self.count:
            raise failure(
                codes.E_DATA_003,
                f"loader {loader} has {self.count} records, and had {stage.records} when the "
                "file was compiled",
                fix="compile the file again; a run records which data it was made for",
            )

    def read(self, records: np.ndarray) -> dict[str, np.ndarray]:
        """Every declared field of the records, `(len(records), *shape)`, in the declared dtype."""
        raw = self._source.read(records, [found for _, found, _ in self._fields])
        return {
            field.name: self._fit(field, _typed(raw[found], dtype), dtype, records)
            for field, found, dtype in self._fields
        }

    def close(self) -> None:
        self._source.close()

    def _fit(
        self, field: Field, values: np.ndarray, dtype: np.dtype, records: np.ndarray
    ) -> np.ndarray:
        if dtype.kind in "iu" and values.dtype != dtype and values.size:
            info = np.iinfo(dtype)
            if not np.can_cast(values.dtype, dtype):
                self._check(
                    field, values, info.min, info.max, records, f"does not fit {field.dtype}"
                )
        if field.range is not None and values.size:
            low, high = field.range
            self._check(field, values, low, high, records, f"is outside {low:g} to {high:g}")
        if values.dtype == dtype:
            return values
        if is_float(dtype):
            with np.errstate(over="ignore"):
                cast = values.astype(dtype)
            lost = np.isinf(cast) & np.isfinite(values)
            if lost.any():
                raise self._misfit(field, values, lost, records, f"does not fit {field.dtype}")
            return cast
        return values.astype(dtype)

    def _check(
        self,
        field: Field,
        values: np.ndarray,
        low: float,
        high: float,
        records: np.ndarray,
        what: str,
    ) -> None:
        """Raise unless low <= every value <= high. NaN is in no range."""
        if values.min() >= low and values.max() <= high:
            return
        outside = ~((values >= low) & (values <= high))
        raise self._misfit(field, values, outside, records, what)

    def _misfit(
        self, field: Field, values: np.ndarray, bad: np.ndarray, records: np.ndarray, what: str
    ) -> SxError:
        row, *element = (int(i) for i in np.argwhere(bad)[0])
        file, number = self._source.place(int(records[row]))
        at = f" at ({' '.join(map(str, element))})" if element else ""
        return failure(
            codes.E_DATA_031,
            f"record {number} of {file}: field {field.name}: {values[(row, *element)]}{at} {what}",
            f"loader {self.loader}, record {int(records[row])} counted through its files",
        )


def _find(field: Field, source: Source, loader: str) -> str:
    """The source's name of a declared field, whose dtype and shape must suit."""
    folded = {_fold(name): name for name in source.fields}
    found = field.name if field.name in source.fields else folded.get(field.name)
    if found is None:
        raise failure(
            codes.E_DATA_002,
            f"loader {loader}: the source has no field {field.name}",
            f"it has {described(source.fields)}",
        )
    dtype, shape = source.fields[found]
    if tuple(field.shape) != tuple(shape):
        raise failure(
            codes.E_DATA_003,
            f"loader {loader}: field {field.name} is declared "
            f"({' '.join(map(str, field.shape))}) and is ({' '.join(map(str, shape))}) in the data",
        )
    if not _suits(dtype, NUMPY[field.dtype]):
        raise failure(
            codes.E_DATA_003,
            f"loader {loader}: field {field.name} is declared {field.dtype} and is {dtype} "
            "in the data",
            fix="declare what the data holds, and `cast` it in prepare",
        )
    return found


def _fold(name: str) -> str:
    """A field's name as the Lisp has it: lower case, other characters than a-z 0-9 as `-`."""
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in name.lower())


def _typed(values: np.ndarray, declared: np.dtype) -> np.ndarray:
    """Values with their dtype: numpy writes bfloat16 as two bytes of no type."""
    return values.view(declared) if values.dtype.kind == "V" else values


def _suits(found: np.dtype, declared: np.dtype) -> bool:
    """Whether values of `found` may be read as `declared`: one kind (integer, float, bool)."""
    if declared.kind == "b" or found.kind == "b":
        return found.kind == declared.kind
    if declared.kind in "iu":
        return found.kind in "iu"
    if found.kind == "V":
        return declared == NUMPY["bf16"] and found.itemsize == 2
    return is_float(found.newbyteorder("="))
