"""The safetensors format: named arrays in one file, read without running anything.

Eight bytes of header length (little-endian), a JSON header {name: {dtype, shape, data_offsets}},
then the arrays, row-major and little-endian. Written here, because the format is so small that
another dependency of every installation would cost more; tests read and write it with the
`safetensors` package.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from sexpgpu.diagnostics.codes import system as codes
from sexpgpu.loop.failure import failure
from sexpgpu.lowering.interp.dtypes import IR, NUMPY

METADATA = "__metadata__"

_LONGEST_HEADER = 100_000_000  # bytes; the format's own limit
_NAMES = {
    "f64": "F64", "f32": "F32", "f16": "F16", "bf16": "BF16", "i64": "I64", "i32": "I32",
    "i16": "I16", "i8": "I8", "u64": "U64", "u32": "U32", "u16": "U16", "u8": "U8", "bool": "BOOL",
}  # fmt: skip
_DTYPES = {name: NUMPY[dtype] for dtype, name in _NAMES.items()}


def write(path: str, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    """Write arrays of IR dtypes under their names; `metadata` goes into the header."""
    header: dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    at = 0
    # wide elements first, so that each array lies at a multiple of its element's size
    names = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    for name in names:
        array = tensors[name]
        header[name] = {
            "dtype": _NAMES[IR[array.dtype]],
            "shape": list(array.shape),
            "data_offsets": [at, at + array.nbytes],
        }
        at += array.nbytes
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            file.write(tensors[name].tobytes())


def read(path: str) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays and the metadata of a file. The arrays are views of the mapped file, read-only.

    Raises E-CKPT-011 for a file that does not follow the format.
    """
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(_LONGEST_HEADER, size - 8):
            raise _malformed(path, "its header is cut short")
        text = file.read(length)
    try:
        header = json.loads(text)
    except ValueError:
        raise _malformed(path, "its header is no JSON") from None
    if not isinstance(header, dict):
        raise _malformed(path, "its header is no JSON object")
    metadata = header.pop(METADATA, {})
    body = size - 8 - length
    data = np.memmap(path, np.uint8, "r", 8 + length) if body else np.empty(0, np.uint8)
    return {name: _array(path, name, row, data) for name, row in header.items()}, metadata


def _array(path: str, name: str, row: Any, data: np.ndarray) -> np.ndarray:
    try:
        dtype, shape, (start, stop) = row["dtype"], row["shape"], row["data_offsets"]
        numbers = [*shape, start, stop]
    except (TypeError, KeyError, ValueError):
        raise _malformed(path, f"the entry of {name} is malformed") from None
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise _malformed(path, f"{name} has the dtype {dtype}, which is not known here")
    if any(type(n) is not int or n < 0 for n in numbers) or not start <= stop <= len(data):
        raise _malformed(path, f"the bytes of {name} do not lie within the file")
    count = 1
    for n in shape:
        count *= n
    if count * _DTYPES[dtype].itemsize != stop - start:
        raise _malformed(path, f"{name} of shape {tuple(shape)} has {stop - start} bytes")
    flat = data[start:stop]
    if start % _DTYPES[dtype].itemsize:
        flat = np.array(flat)  # an array of wide elements cannot lie just anywhere
    return np.asarray(flat).view(_DTYPES[dtype]).reshape(shape)


def _malformed(path: str, what: str) -> Exception:
    return failure(codes.E_CKPT_011, f"{path} is no safetensors file: {what}")
