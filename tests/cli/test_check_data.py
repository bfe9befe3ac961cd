"""`sexpgpu check --data`: the loaders are opened and read, errors stand at their loader."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

FILE = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train :source (npz "a.npz") :batch 4
  :fields ((x :f32 (2)) (label :i32 () :range (list 0 2))))
(defloader valid :source (npz "b.npz") :batch 4
  :fields ((x :f32 (2)) (label :i32 () :range (list 0 2))))
(defun prepare (batch) (values (field batch :x) (field batch :label)))
(defmodel net () (submodel fit (nn:linear 2 3)) (forward (x) (fit x)))
(defun objective (model x labels) (nn:cross-entropy (funcall model x) labels))
(defeval valid :loader valid)
(defrun net :model (net) :optimizer (optim:sgd :lr 0.1) :steps 4)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.sx").write_text(FILE)
    for name in ("a", "b"):
        save(tmp_path / f"{name}.npz", np.arange(10) % 3)
    return tmp_path


def save(path: Path, label: np.ndarray) -> None:
    np.savez(path, x=np.ones((len(label), 2), np.float32), label=label.astype(np.int64))


def test_sound_data_are_no_finding(sx, folder: Path) -> None:
    assert sx("check", "net.sx", "--data").out == "net.sx: no errors\n"


@pytest.mark.parametrize("bad", [1, 9])
def test_a_value_out_of_range_is_found_in_the_first_batch_and_the_last_record(
    sx, folder: Path, bad: int
) -> None:
    label = np.arange(10) % 3
    label[bad] = 7
    save(folder / "b.npz", label)
    assert sx("check", "net.sx").code == 0, "the header does not tell"
    found = sx("check", "net.sx", "--data", "--json")
    assert found.code == 1
    (diagnostic,) = found.json["diagnostics"]
    assert diagnostic["code"] == "E-DATA-031"
    assert f"record {bad} of b.npz" in diagnostic["message"]
    assert (
        diagnostic["line"]
        == FILE.split("\n").index('(defloader valid :source (npz "b.npz") :batch 4') + 1
    )


@pytest.mark.parametrize("how", ["zeros", "ones"])
def test_a_file_damaged_behind_its_headers_is_found(sx, folder: Path, how: str) -> None:
    """The zip directory and the headers are whole; the compressed bytes of an array are not."""
    path = folder / "a.npz"
    x = np.random.default_rng(0).normal(size=(2000, 2)).astype(np.float32)
    np.savez_compressed(path, x=x, label=np.zeros(2000, np.int64))
    data = bytearray(path.read_bytes())
    at = data.index(b"x.npy") + 4000
    data[at : at + 40] = (b"\0" if how == "zeros" else b"\xff") * 40
    path.write_bytes(data)
    assert sx("check", "net.sx").code == 0
    found = sx("check", "net.sx", "--data", "--json")
    assert found.code == 1
    assert [d["code"] for d in found.json["diagnostics"]] == ["E-DATA-001"]


def test_every_loader_is_told_of(sx, folder: Path) -> None:
    for name in ("a", "b"):
        save(folder / f"{name}.npz", np.full(10, 5))
    found = sx("check", "net.sx", "--data", "--json").json
    assert [d["code"] for d in found["diagnostics"]] == ["E-DATA-031"] * 2


def test_a_file_with_errors_is_not_asked_for_its_data(sx, folder: Path) -> None:
    save(folder / "a.npz", np.full(10, 5))
    (folder / "net.sx").write_text(FILE + "(car 5)\n")
    codes = [d["code"] for d in sx("check", "net.sx", "--data", "--json").json["diagnostics"]]
    assert codes
    assert "E-DATA-031" not in codes


def test_a_document_has_no_places_and_is_read_all_the_same(sx, folder: Path) -> None:
    (folder / "net.ir.json").write_text(sx("ir", "net.sx", "--json").out)
    assert sx("check", "net.ir.json", "--data").code == 0
    (folder / "a.npz").unlink()
    found = sx("check", "net.ir.json", "--data", "--json")
    assert [d["code"] for d in found.json["diagnostics"]] == ["E-STORE-001"]
