"""What tells data from other data, and what a resume says where they differ."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loop_documents import columns, make, run, stage

from sexpgpu.ir.document import Document
from sexpgpu.loop.archive import compared
from sexpgpu.loop.checkpoint import read_meta
from sexpgpu.loop.data import identity
from sexpgpu.loop.data.files import LocalFile, local_files
from sexpgpu.loop.data.identity import changed, identities
from sexpgpu.loop.data.npz import checksums


def told(folder: Path, pattern: str) -> list[dict[str, Any]]:
    files = local_files(pattern, str(folder))
    found = identities(files, checksums if pattern.endswith(".npz") else None)
    return [one.to_json() for one in found]


def lines(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[str]:
    return changed({"train": {"main": before}}, {"train": {"main": now}})


@pytest.fixture(params=["whole", "large"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Files that are digested whole, and the same files as if they were large ones."""
    if request.param == "large":
        monkeypatch.setattr(identity, "WHOLE", 100)
        monkeypatch.setattr(identity, "BLOCK", 20)
    return request.param


@pytest.mark.parametrize("name", ["a.txt", "a.npz"])
def test_a_copy_is_the_same_data(tmp_path: Path, size: str, name: str) -> None:
    (tmp_path / "a.txt").write_bytes(os.urandom(5000))
    np.savez(tmp_path / "a.npz", x=np.arange(500, dtype=np.float32))
    before = told(tmp_path, name)
    os.utime(tmp_path / name, (1, 1))
    assert told(tmp_path, name) == before
    (tmp_path / "other").mkdir()
    shutil.copy(tmp_path / name, tmp_path / "other" / f"b{name}")
    assert lines(before, told(tmp_path / "other", f"b{name}")) == []


def test_other_bytes_are_other_data(tmp_path: Path, size: str) -> None:
    data = bytearray(np.random.default_rng(1).bytes(5000))
    (tmp_path / "a.txt").write_bytes(data)
    np.savez(tmp_path / "a.npz", x=np.arange(500, dtype=np.float32))
    text, archive = told(tmp_path, "a.txt"), told(tmp_path, "a.npz")
    np.savez(tmp_path / "a.npz", x=np.arange(500, dtype=np.float32) + 1)
    told_of = [
        f"data of train: a.{kind}: other bytes, as many as before" for kind in ("npz", "txt")
    ]
    assert lines(archive, told(tmp_path, "a.npz")) == told_of[:1]
    for at in (0, 4999):  # both ends, of a large text too
        (tmp_path / "a.txt").write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert lines(text, told(tmp_path, "a.txt")) == told_of[1:]
    (tmp_path / "a.txt").write_bytes(data[1:] + data[:1])  # regenerated, shifted, shuffled
    assert lines(text, told(tmp_path, "a.txt")) == told_of[1:]
    (tmp_path / "a.txt").write_bytes(data + b"more")
    assert lines(text, told(tmp_path, "a.txt")) == [
        "data of train: a.txt: 5000 bytes -> 5004 bytes"
    ]


def test_of_several_files_the_changed_one_is_named(tmp_path: Path, size: str) -> None:
    for name in "abc":
        (tmp_path / f"{name}.txt").write_bytes(os.urandom(3000))
    before = told(tmp_path, "?.txt")
    (tmp_path / "b.txt").write_bytes(os.urandom(3000))
    assert lines(before, told(tmp_path, "?.txt")) == [
        "data of train: b.txt: other bytes, as many as before"
    ]
    (tmp_path / "b.txt").write_bytes(os.urandom(2000))  # of a large source other blocks are read
    assert lines(before, told(tmp_path, "?.txt")) == [
        "data of train: b.txt: 3000 bytes -> 2000 bytes"
    ]
    (tmp_path / "b.txt").unlink()
    assert lines(before, told(tmp_path, "?.txt")) == [
        "data of train: 3 files of 9000 bytes -> 2 files of 6000 bytes"
    ]


def test_many_files_are_one_entry(tmp_path: Path) -> None:
    for number in range(identity.SHOWN + 1):
        (tmp_path / f"{number:03}.txt").write_bytes(b"%d" % number)
    before = told(tmp_path, "*.txt")
    assert [one["name"] for one in before] == [f"{identity.SHOWN + 1} files"]
    (tmp_path / "007.txt").write_bytes(b"8")
    (found,) = lines(before, told(tmp_path, "*.txt"))
    assert found.endswith("files: other bytes, as many as before")


def test_of_large_files_little_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of 4 GiB (a hole in the disk), and one of many: 64 blocks, whatever the size."""
    for name in ("a", "b"):
        with (tmp_path / f"{name}.txt").open("wb") as file:
            file.truncate(1 << 32)
    read: list[int] = []

    class Counting:
        def update(self, data: bytes) -> None:
            read.append(len(data))

        def hexdigest(self) -> str:
            return ""

    monkeypatch.setattr(identity, "blake2b", lambda **_: Counting())
    told(tmp_path, "?.txt")
    assert len(read) == identity.BLOCKS
    assert sum(read) == identity.BLOCKS * identity.BLOCK


# -- runs -----------------------------------------------------------------------------------------


def on_files(folder: Path) -> Document:
    """A document whose loaders read files of a folder."""
    document = make(steps=20)
    for loader, count, batch in ((document.loaders[0], 50, 8), (document.loaders[1], 21, 4)):
        source = {"kind": "npz", "path": f"{loader.name}.npz"}
        np.savez(folder / f"{loader.name}.npz", **columns(count, batch))
        loader.stages = [stage(source, batch, base=str(folder), shuffle=batch == 8)]
    return document


@pytest.mark.parametrize("loader, count", [("train", 50), ("valid", 21)])
def test_a_resume_with_other_data(tmp_path: Path, loader: str, count: int) -> None:
    document = on_files(tmp_path)
    assert run(document, tmp_path).exit_status == 0
    np.savez(tmp_path / f"{loader}.npz", **columns(count, 99))
    before = {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()}
    refused = run(document, tmp_path, resume="10")
    (found,) = refused.diagnostics
    assert (refused.exit_status, found.code.id) == (3, "E-CKPT-004")
    assert "the data are not those that checkpoint 10" in found.headline
    line = f"data of {loader}: {loader}.npz: other bytes, as many as before"
    assert [note.text for note in found.notes] == [line]
    assert "--allow-change" in (found.fix or "")
    assert {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()} == before
    allowed = run(document, tmp_path, resume="10", allow_change=True)
    assert allowed.exit_status == 0
    assert [(d.code.id, [n.text for n in d.notes]) for d in allowed.diagnostics] == [
        ("W-CKPT-004", [line])
    ]
    # from here on these are the run's data
    assert run(document, tmp_path, resume="20").exit_status == 0
    assert line in compared(f"{tmp_path}/run/checkpoints/10", f"{tmp_path}/run/checkpoints/20")[
        "experiment"
    ]  # fmt: skip


def test_a_resume_with_a_copy_of_the_data(tmp_path: Path) -> None:
    """Other folder, other dates: another node, after an rsync."""
    document = on_files(tmp_path)
    assert run(document, tmp_path).exit_status == 0
    (tmp_path / "node").mkdir()
    for loader in document.loaders:
        shutil.copy(tmp_path / f"{loader.name}.npz", tmp_path / "node")
        (tmp_path / f"{loader.name}.npz").unlink()
        loader.stages = [loader.stages[0].changed(base=str(tmp_path / "node"))]
    again = run(document, tmp_path, resume="10")
    assert (again.exit_status, again.diagnostics) == (0, [])


def test_a_checkpoint_tells_its_data(tmp_path: Path) -> None:
    run(on_files(tmp_path), tmp_path)
    data = read_meta(f"{tmp_path}/run/checkpoints/20")["experiment"]["data"]
    assert data.keys() == {"train", "valid"}
    (entry,) = data["train"]["only"]
    assert (entry["name"], entry["bytes"]) == (
        "train.npz", LocalFile("train.npz", f"{tmp_path}/train.npz").size
    )  # fmt: skip
