"""`sexpgpu checkpoint`, and `run --init-from`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

FILE = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defknob rate 0.1)
(defloader train :source (inline (x (0.0) (1.0) (2.0) (3.0)) (y (1.0) (3.0) (5.0) (7.0))) :batch 2)
(defun prepare (batch) (values (field batch :x) (field batch :y)))
(defmodel line () (submodel fit (nn:linear 1 1)) (forward (x) (fit x)))
(defun objective (model x y) (nn:mse (funcall model x) y))
(defeval valid :loader train :every 5)
(defrun line :model (line) :optimizer (optim:adam :lr rate) :steps 20 INIT
  :checkpoint (:every 10 :best (:min :eval/valid/loss)))
"""


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sx: Callable[..., Any]) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("a.sx").write_text(FILE.replace("INIT", ""))
    assert sx("run", "a.sx", "--slug", "a", "--device", "interp", "--quiet").code == 0
    return tmp_path / "runs" / "a"


def test_list_and_show(trained: Path, sx: Callable[..., Any]) -> None:
    listed = sx("checkpoint", "list", "runs/a", "--json").json["checkpoints"]
    assert [row["step"] for row in listed] == [5, 10, 15, 20]
    assert [row["best"] for row in listed] == [False, False, False, True]
    assert all(row["sealed"] and row["bytes"] > 100 for row in listed)
    text = sx("checkpoint", "list", "runs/a").out.splitlines()
    assert len(text) == 5
    assert text[-1].endswith("best")
    shown = sx("checkpoint", "show", "runs/a@10", "--json").json
    assert shown["step"] == 10
    assert shown["run"] == "line"
    names = {row["name"] for row in shown["tensors"]}
    assert {"param/fit/w", "state/fit/w#m", "step"} <= names
    assert "param/fit/w" in sx("checkpoint", "show", "runs/a@best").out


def test_verify_finds_a_flipped_bit(trained: Path, sx: Callable[..., Any]) -> None:
    assert sx("checkpoint", "verify", "runs/a").code == 0
    flip(trained / "checkpoints/10")
    found = sx("checkpoint", "verify", "runs/a", "--json")
    assert found.code == 3
    wrong = [row for row in found.json["checkpoints"] if row["problem"]]
    assert [os.path.basename(row["path"]) for row in wrong] == ["10"]
    assert sx("checkpoint", "show", "runs/a@10").code == 3


def lines_of(log: Path) -> list[str]:
    return log.read_text().splitlines(keepends=True)


@pytest.mark.parametrize(
    "damage, said",
    [
        (lambda log: log.unlink(), "bytes and had"),
        (lambda log: log.write_text(""), "bytes and had"),
        (lambda log: log.write_text("".join(lines_of(log)[:-1])), "close event is missing"),
        (lambda log: log.write_text("".join(lines_of(log)[1:])), "bytes and had"),
        (lambda log: log.write_text(log.read_text() + "nonsense\n"), "is no event"),
        (lambda log: log.write_text(log.read_text() + lines_of(log)[-1]), "in place of"),
    ],
)
def test_verify_finds_what_is_wrong_with_the_events(
    trained: Path, sx: Callable[..., Any], damage: Callable[[Path], Any], said: str
) -> None:
    assert sx("checkpoint", "verify", "runs/a", "--json").json["logs"] == [
        {"path": "runs/a/events.jsonl", "problem": None}
    ]
    damage(trained / "events.jsonl")
    found = sx("checkpoint", "verify", "runs/a", "--json")
    assert found.code == 3
    assert said in found.json["logs"][0]["problem"]
    assert not [row for row in found.json["checkpoints"] if row["problem"]]
    assert said in sx("checkpoint", "verify", "runs/a").out


def test_a_finished_run_without_its_events_is_not_called_finished(
    trained: Path, sx: Callable[..., Any]
) -> None:
    again = ("run", "a.sx", "--slug", "a", "--device", "interp", "--quiet", "--resume", "latest")
    assert sx(*again).code == 0
    (trained / "events.jsonl").unlink()
    refused = sx(*again)
    assert refused.code == 3
    assert "E-CKPT-010" in refused.err


@pytest.mark.parametrize("change", [("size", "sizf"), ("sha256", "sha255"), ("files", "fires")])
def test_a_damaged_seal_is_a_damaged_checkpoint(
    trained: Path, sx: Callable[..., Any], change: tuple[str, str]
) -> None:
    seal = trained / "checkpoints/20/MANIFEST.json"
    seal.write_text(seal.read_text().replace(f'"{change[0]}"', f'"{change[1]}"', 1))
    assert sx("checkpoint", "verify", "runs/a").code == 3
    shown = sx("checkpoint", "show", "runs/a@20")
    assert (shown.code, "E-CKPT" in shown.err) == (3, True)
    assert sx("checkpoint", "show", "runs/a", "--json").json["step"] == 15


def test_diff(trained: Path, sx: Callable[..., Any]) -> None:
    same = sx("checkpoint", "diff", "runs/a@10", "runs/a@10", "--exit-code")
    assert same.code == 0
    assert "equal to the bit" in same.out
    found = sx("checkpoint", "diff", "runs/a@10", "runs/a@20", "--exit-code", "--json")
    assert found.code == 1
    changed = {row["name"]: row for row in found.json["changed"]}
    assert changed["step"]["max"] == 10
    before = load_after(sx, "runs/a@10")
    after = load_after(sx, "runs/a@20")
    wanted = abs(before["fit/w"] - after["fit/w"]).max()
    assert changed["param/fit/w"]["max"] == pytest.approx(wanted)


def load_after(sx: Callable[..., Any], reference: str) -> Any:
    target = reference.replace("/", "-") + ".safetensors"
    assert sx("checkpoint", "export", reference, "-o", target).code == 0
    return load_file(target)


def test_diff_tells_of_the_experiment(trained: Path, sx: Callable[..., Any]) -> None:
    words = ("--slug", "b", "--set", "rate=0.2", "--device", "interp", "--quiet")
    assert sx("run", "a.sx", *words).code == 0
    found = sx("checkpoint", "diff", "runs/a", "runs/b", "--json").json
    assert any("rate" in line and "0.1 -> 0.2" in line for line in found["experiment"])


def test_prune(trained: Path, sx: Callable[..., Any]) -> None:
    torn = trained / "checkpoints" / "17.partial"
    torn.mkdir()
    (trained / "checkpoints" / "18.cut").mkdir()
    (trained / "checkpoints" / "16.partial.dropped").mkdir()  # of a prune that was killed
    (trained / "far").mkdir()
    (trained / "checkpoints" / "19.cut").symlink_to(trained / "far")
    (trained / "checkpoints" / "20-good").mkdir()  # a person's own
    would = sx("checkpoint", "prune", "runs/a", "--keep-every", "10", "--dry-run", "--json").json
    assert {os.path.basename(p) for p in would["removed"]} == {
        "5", "15", "16.partial.dropped", "17.partial", "18.cut", "19.cut",
    }  # fmt: skip
    assert torn.exists()
    assert sx("checkpoint", "prune", "runs/a", "--keep-every", "10").code == 0
    assert {p.name for p in (trained / "checkpoints").iterdir()} == {"10", "20", "20-good"}
    assert (trained / "far").exists()
    assert sx("checkpoint", "verify", "runs/a").code == 0


def flip(checkpoint: Path) -> None:
    """One bit of the largest file of tensors of a checkpoint."""
    files = [p for p in (checkpoint / "state").rglob("*") if p.is_file()]
    victim = max(files, key=lambda p: p.stat().st_size)
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)


def test_prune_keeps_what_is_whole(trained: Path, sx: Callable[..., Any]) -> None:
    """A damaged checkpoint is not the newest one; where all are damaged none goes."""
    flip(trained / "checkpoints/15")
    (trained / "checkpoints/20/meta.json").write_text("{")
    assert sx("checkpoint", "prune", "runs/a").code == 0
    assert {p.name for p in (trained / "checkpoints").iterdir()} == {"10", "15"}  # 15: the best
    flip(trained / "checkpoints/10")
    refused = sx("checkpoint", "prune", "runs/a")
    assert (refused.code, "E-CKPT-002" in refused.err) == (3, True)
    assert {p.name for p in (trained / "checkpoints").iterdir()} == {"10", "15"}


def test_a_run_that_is_written_is_not_pruned(trained: Path, sx: Callable[..., Any]) -> None:
    from sexpgpu.loop.lock import RunLock

    lock = RunLock(str(trained))
    found = sx("checkpoint", "prune", "runs/a")
    lock.release()
    assert found.code == 3
    assert "E-CKPT-007" in found.err
    assert len(list((trained / "checkpoints").iterdir())) == 4


@pytest.mark.parametrize(
    "words, code",
    [
        (("show", "runs/none"), "E-CKPT-001"),
        (("show", "runs/a@7"), "E-CKPT-001"),
        (("show", "a.sx"), "E-CKPT-008"),
        (("list", "runs"), "E-CKPT-008"),
        (("export", "runs/a", "-o", "w.txt"), "E-CKPT-013"),
        (("export", "runs/a", "-o", "a.npz", "--only", "none"), "E-CKPT-013"),
    ],
)
def test_mistakes(trained: Path, sx: Callable[..., Any], words: tuple[str, ...], code: str) -> None:
    found = sx("checkpoint", *words)
    assert found.code == 3 or (found.code == 1 and code.startswith("E-STORE"))
    assert code in found.err


def test_init_from(trained: Path, sx: Callable[..., Any]) -> None:
    Path("b.sx").write_text(FILE.replace("INIT", ':init-from (checkpoint "runs/a@10")'))
    run = ("--device", "interp", "--quiet", "--steps", "1")
    assert sx("run", "b.sx", "--slug", "b", *run).code == 0
    assert sx("run", "a.sx", "--slug", "c", "--init-from", "runs/a@10", *run).code == 0
    assert sx("run", "a.sx", "--slug", "d", *run).code == 0
    b, c, d = (load_after(sx, f"runs/{name}") for name in "bcd")
    assert b["fit/w"].tobytes() == c["fit/w"].tobytes()
    assert b["fit/w"].tobytes() != d["fit/w"].tobytes()
    flags = ("--init-from", "runs/a", "--init-map", "fit/w=fit/ww")
    wrong = sx("run", "a.sx", "--slug", "e", *flags, *run)
    assert wrong.code == 3
    assert "nothing gives fit/w: did you mean fit/ww?" in wrong.err
    assert sx("run", "a.sx", "--init-map", "a=b").code == 2


def test_a_head_of_another_size_is_left_out(tmp_path: Path, sx: Callable[..., Any]) -> None:
    """As for fine-tuning: the old head by an empty name, the new one as it begins."""
    old = "(submodel fit (nn:linear 1 1)) (forward (x) (fit x))"
    new = "(submodel fit (nn:linear 1 4)) (submodel head (nn:linear 4 %d))"
    forward = " (forward (x) (sum (head (fit x)) :axis 1 :keep t))"
    for name, size in (("a", 2), ("b", 3)):
        text = FILE.replace("INIT", "").replace(old, new % size + forward)
        (tmp_path / f"{name}.sx").write_text(text)
    run = ("--device", "interp", "--quiet", "--steps", "1", "--runs", str(tmp_path))
    assert sx("run", str(tmp_path / "a.sx"), "--slug", "a", *run).code == 0
    flags = ("--init-from", str(tmp_path / "a"), "--init-missing", "head/*")
    refused = sx("run", str(tmp_path / "b.sx"), "--slug", "b", *flags, *run)
    assert refused.code == 3
    assert "has shape" in refused.err
    left_out = ("--init-map", "head/*=")
    assert sx("run", str(tmp_path / "b.sx"), "--slug", "b", *flags, *left_out, *run).code == 0
    begun = json.loads((tmp_path / "b" / "events.jsonl").read_text().splitlines()[0])["init_from"]
    assert begun["taken"] == 2
    assert sorted(begun["initialized"]) == ["head/b", "head/w"]
