"""Arrays of an .npz file, memory-mapped where the archive stores them uncompressed.

The layout is that of `numpy.savez`: a zip archive with one .npy member per array
(https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html). Pickled members are
refused: a data file can run no code.
"""

from __future__ import annotations

import zipfile
import zlib
from typing import BinaryIO

import numpy as np

from sexpgpu.diagnostics.codes import data as codes
from sexpgpu.loop.data.files import LocalFile, unreadable
from sexpgpu.loop.failure import failure

_LOCAL_HEADER = 30  # bytes of a zip member's local header before its name


def open_arrays(file: LocalFile) -> dict[str, np.ndarray]:
    """The arrays of the archive by name (`.npy` left out), read-only.

    Raises E-DATA-001 for a damaged archive or a pickled member, E-STORE-… for the file itself.
    """
    try:
        with zipfile.ZipFile(file.path) as archive, open(file.path, "rb") as raw:
            return {
                member.filename.removesuffix(".npy"): _array(file, archive, member, raw)
                for member in archive.infolist()
                if member.filename.endswith(".npy")
            }
    except zipfile.BadZipFile as error:
        raise failure(codes.E_DATA_001, f"{file.name} is no whole .npz file: {error}") from None
    except OSError as error:
        raise unreadable(file.name, error) from None


def checksums(file: LocalFile) -> bytes:
    """The names, sizes and checksums of all that is in the archive, as it tells them itself: what
    stands for its bytes, and is read in no time. Raises as `open_arrays`."""
    try:
        with zipfile.ZipFile(file.path) as archive:
            told = [(m.filename, m.file_size, m.CRC) for m in archive.infolist()]
    except zipfile.BadZipFile as error:
        raise failure(codes.E_DATA_001, f"{file.name} is no whole .npz file: {error}") from None
    except OSError as error:
        raise unreadable(file.name, error) from None
    return repr(told).encode()


def _array(
    file: LocalFile, archive: zipfile.ZipFile, member: zipfile.ZipInfo, raw: BinaryIO
) -> np.ndarray:
    stored = member.compress_type == zipfile.ZIP_STORED
    try:
        with archive.open(member) as stream:
            version = np.lib.format.read_magic(stream)
            shape, fortran, dtype = _header(stream, version)
            if dtype.hasobject:
                raise ValueError("it holds Python objects, not numbers")
            data_at = stream.tell()
            if not stored or dtype.itemsize == 0 or 0 in shape:
                data = stream.read()
                array = np.frombuffer(data, dtype, count=int(np.prod(shape)))
                return array.reshape(shape, order="F" if fortran else "C")
        raw.seek(member.header_offset)
        header = raw.read(_LOCAL_HEADER)
        start = (
            member.header_offset
            + _LOCAL_HEADER
            + int.from_bytes(header[26:28], "little")
            + int.from_bytes(header[28:30], "little")
        )
        return np.memmap(
            file.path, dtype, "r", start + data_at, shape, order="F" if fortran else "C"
        )
    except (ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise failure(
            codes.E_DATA_001, f"{file.name}: the array {member.filename} cannot be read: {error}"
        ) from None


def _header(stream, version: tuple[int, int]) -> tuple[tuple[int, ...], bool, np.dtype]:
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read is None:
        raise ValueError(f"version {version[0]}.{version[1]} of the .npy format is not known")
    return read(stream)
