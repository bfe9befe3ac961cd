"""Shapes, dtypes and counts from the headers of local data files, without numpy."""

from __future__ import annotations

import glob
import os
from typing import BinaryIO

# numpy's type codes (kind and item size) -> dtypes
_DTYPES = {
    "b1": "bool", "i1": "i8", "i2": "i16", "i4": "i32", "i8": "i64",
    "u1": "u8", "u2": "u16", "u4": "u32", "u8": "u64", "f2": "f16", "f4": "f32", "f8": "f64",
}  # fmt: skip


class HeaderError(Exception):
    """The file is missing, unreadable, or not of its format."""


def expand(path: str, base: str) -> list[str]:
    """The files that a path or glob names, sorted; absolute. An empty match is a HeaderError."""
    full = os.path.join(base, path)
    if any(c in path for c in "*?["):
        found = sorted(glob.glob(full, recursive=True))
        if not found:
            raise HeaderError(f"no file matches {path}")
        return found
    if not os.path.exists(full):
        raise HeaderError(f"there is no file {path}")
    if os.path.isdir(full):
        raise HeaderError(f"{path} is a folder")
    return [full]


def npy_header(stream: BinaryIO, name: str) -> tuple[str, tuple[int, ...]]:
    """dtype and shape of an array in npy format."""
    magic = stream.read(8)
    if len(magic) < 8 or magic[:6] != b"\x93NUMPY":
        raise HeaderError(f"{name} is not an npy array")
    size = int.from_bytes(stream.read(2 if magic[6] == 1 else 4), "little")
    if size > 1 << 16:
        raise HeaderError(f"{name} has a damaged npy header")
    header = stream.read(size).decode("latin-1")
    descr = _between(header, "'descr':", ",").strip().strip("'\"")
    shape_text = _between(header, "'shape':", ")").strip().lstrip("(")
    code = descr.lstrip("<>|=")
    if code not in _DTYPES:
        raise HeaderError(f"{name} holds {descr or 'something else than numbers'}")
    if descr.startswith(">"):
        raise HeaderError(f"{name} is big-endian; save it little-endian")
    try:
        shape = tuple(int(n) for n in shape_text.split(",") if n.strip())
    except ValueError:
        raise HeaderError(f"{name} has a damaged npy header") from None
    if any(n < 0 for n in shape):
        raise HeaderError(f"{name} has a damaged npy header")
    return _DTYPES[code], shape


def _between(text: str, start: str, end: str) -> str:
    at = text.find(start)
    if at < 0:
        return ""
    at += len(start)
    stop = text.find(end, at)
    return text[at : stop if stop >= 0 else len(text)]


def npz_columns(path: str) -> tuple[dict[str, tuple[str, tuple[int, ...]]], int]:
    """{field: (dtype, shape without the records axis)} and the number of records of an npz file."""
    import zipfile
    import zlib

    columns: dict[str, tuple[str, tuple[int, ...]]] = {}
    counts: dict[str, int] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                name = member.removesuffix(".npy")
                with archive.open(member) as stream:
                    dtype, shape = npy_header(stream, f"{os.path.basename(path)}:{name}")  # type: ignore[arg-type]
                if not shape:
                    raise HeaderError(f"{os.path.basename(path)}:{name} has no axis of records")
                columns[name] = (dtype, shape[1:])
                counts[name] = shape[0]
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as error:
        # RuntimeError: encrypted, or compressed in a way that Python does not know
        raise HeaderError(f"{os.path.basename(path)} is not a readable npz file: {error}") from None
    if not counts:
        raise HeaderError(f"{os.path.basename(path)} holds no arrays")
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{k} {n}" for k, n in counts.items())
        raise HeaderError(f"{os.path.basename(path)}: the arrays have different counts: {listed}")
    return columns, next(iter(counts.values()))


def file_size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError as error:
        raise HeaderError(f"{os.path.basename(path)}: {error.strerror}") from None
