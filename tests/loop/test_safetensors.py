"""The safetensors format, against the package of that name."""

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from sexpgpu.diagnostics.model import SxError
from sexpgpu.loop import safetensors
from sexpgpu.lowering.interp.dtypes import NUMPY


def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    made = {
        f"of/{name}": rng.integers(0, 2 if name == "bool" else 100, (3, 5)).astype(dtype)
        for name, dtype in NUMPY.items()
    }
    return made | {
        "scalar": np.asarray(1.5, np.float32),
        "empty": np.zeros((0, 4), np.float32),
        "odd": np.arange(3, dtype=np.uint8),
        "nan": np.array([np.nan, -0.0, np.inf], np.float32),
        "turned": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "ünï": np.zeros(1, np.int64),
    }


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def test_they_read_what_is_written_here(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    safetensors.write(str(path), arrays(), {"step": "7"})
    with safe_open(path, "np") as file:
        assert file.metadata() == {"step": "7"}
    found = load_file(path)
    assert found.keys() == arrays().keys()
    for name, array in arrays().items():
        assert same(found[name], array), name


def test_what_they_write_is_read_here(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    ours = {n: np.ascontiguousarray(a) for n, a in arrays().items()}
    save_file(ours, path, {"who": "they"})
    found, metadata = safetensors.read(str(path))
    assert metadata == {"who": "they"}
    assert found.keys() == ours.keys()
    for name, array in ours.items():
        assert same(found[name], array), name


def test_both_ways_here(tmp_path: Path) -> None:
    path = str(tmp_path / "w.safetensors")
    for given in (arrays(), {}, {"x": np.zeros((0,), ml_dtypes.bfloat16)}):
        safetensors.write(path, given, {})
        found, _ = safetensors.read(path)
        assert found.keys() == given.keys()
        assert all(same(found[n], given[n]) for n in given)


def damaged(data: bytes) -> dict[str, bytes]:
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])

    def with_row(**row: object) -> bytes:
        text = json.dumps(header | {"x": header["x"] | row}).encode()
        return len(text).to_bytes(8, "little") + text + data[8 + length :]

    return {
        "empty": b"",
        "seven bytes": data[:7],
        "half a header": data[: 8 + length // 2],
        "half an array": data[:-1],
        "long header": (1 << 62).to_bytes(8, "little") + data[8:],
        "no JSON": data[:8] + b"x" * length + data[8 + length :],
        "a list": (2).to_bytes(8, "little") + b"[]",
        "past the end": with_row(data_offsets=[0, 9999]),
        "backwards": with_row(data_offsets=[8, 0]),
        "negative": with_row(shape=[-2, -3]),
        "other shape": with_row(shape=[7]),
        "other dtype": with_row(dtype="F8"),
        "no shape": with_row(shape=None),
        "fraction": with_row(shape=[1.5, 4]),
    }


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    safetensors.write(str(path), {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}, {})
    for how, data in damaged(path.read_bytes()).items():
        path.write_bytes(data)
        with pytest.raises(SxError) as caught:
            safetensors.read(str(path))
        assert caught.value.diagnostics[0].code.id == "E-CKPT-011", how
        with pytest.raises(Exception, match=r"."):  # they refuse it too
            load_file(path)
