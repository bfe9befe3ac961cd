"""Records that come from and go to a file or a stream: npz and JSON."""

from __future__ import annotations

import json
from typing import Any
from zipfile import BadZipFile
from zlib import error as BadDeflate

import numpy as np

from sexpgpu.diagnostics.codes import data as codes
from sexpgpu.loop.failure import failure
from sexpgpu.lowering.interp.dtypes import NUMPY, widen

JSON_FORMS = '{"field": [record, ...], ...} or [{"field": value, ...}, ...]'


def read_npz(path: str) -> dict[str, Any]:
    """The arrays of an .npz file by name. E-DATA-001 where it is none."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, BadZipFile, BadDeflate, EOFError, AttributeError) as error:
        raise failure(codes.E_DATA_001, f"{path} is no npz file: {error}") from None


def read_json(data: bytes, name: str) -> dict[str, Any]:
    """Records by field from JSON in UTF-8: an object of lists, or a list of objects. E-DATA-001."""
    try:
        given = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        said = f"{name} is not UTF-8 text: byte {error.start} cannot be decoded"
        raise failure(codes.E_DATA_001, said, fix="write the JSON in UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise failure(codes.E_DATA_001, f"{name} is no JSON: {error}") from None
    if isinstance(given, list) and given and all(isinstance(record, dict) for record in given):
        fields = list(given[0])
        if any(list(record) != fields for record in given):
            raise failure(codes.E_DATA_003, f"{name}: the records have different fields")
        return {field: [record[field] for record in given] for field in fields}
    if isinstance(given, dict) and all(isinstance(v, list) for v in given.values()):
        return given
    raise failure(codes.E_DATA_001, f"{name} holds no records", fix=f"write {JSON_FORMS}")


def outputs_of(found: Any) -> dict[str, np.ndarray]:
    """What a prediction gave, by name: `out`, or `out0`, `out1`, …; 16-bit floats as f32."""
    arrays = (
        {"out": found}
        if not isinstance(found, tuple)
        else {f"out{i}": array for i, array in enumerate(found)}
    )
    return {n: widen(a) if a.dtype == NUMPY["bf16"] else a for n, a in arrays.items()}


def write_npz(path: str, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays to an .npz file."""
    with open(path, "wb") as file:
        np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]


def as_json(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Arrays as nested lists; what is no finite number as the text NaN, Infinity or -Infinity."""
    return {name: _listed(array.tolist()) for name, array in arrays.items()}


def _listed(value: Any) -> Any:
    if isinstance(value, list):
        return [_listed(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value
