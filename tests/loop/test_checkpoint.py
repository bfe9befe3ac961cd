"""Checkpoints: exact, sealed, damage found, kept by policy."""

import json
import os
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from sexpgpu.diagnostics.model import SxError
from sexpgpu.ir.document import Checkpointing
from sexpgpu.loop import checkpoint
from sexpgpu.loop.checkpoint import Checkpointer, list_checkpoints, load, newest_whole, set_aside
from sexpgpu.loop.seal import damage, seal


def policy(**changes: Any) -> Checkpointing:
    given: dict[str, Any] = {"every": 1, "keep": None, "keep_every": None, "best": None}
    return Checkpointing(**given | changes)


def tensors(step: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(step)
    return {
        "param/embed/w": rng.normal(size=(5, 4)).astype(np.float32),
        "state/embed/w#m": rng.normal(size=(5, 4)).astype(ml_dtypes.bfloat16),
        "param/nan": np.array([np.nan, -0.0, np.inf], np.float32),
        "counter/tokens": np.asarray(2**40 + step, np.int64),
        "halted": np.asarray(False),
        "empty": np.zeros((0, 3), np.float32),
        "key": np.array([1, 2**32 - 1], np.uint32),
    }


def saved(directory: Path, *steps: int, **changes: Any) -> Checkpointer:
    saver = Checkpointer(str(directory), policy(**changes))
    for step in steps:
        saver.save(step, lambda step=step: tensors(step), {"note": {"x": float("nan")}})
    saver.wait()
    return saver


def test_everything_comes_back_to_the_bit(tmp_path: Path) -> None:
    saver = saved(tmp_path, 7)
    (done,) = saver.poll()
    assert done.step == 7
    assert done.bytes > 100
    got, meta = load(done.path)
    for name, array in tensors(7).items():
        assert got[name].dtype == array.dtype, name
        assert got[name].shape == array.shape, name
        assert got[name].tobytes() == array.tobytes(), name
    assert meta["step"] == 7
    assert meta["note"] == {"x": "nan"}
    assert not [p for p in (tmp_path / "checkpoints").iterdir() if p.name != "7"]


def files(path: Path) -> list[Path]:
    return sorted(p for p in path.rglob("*") if p.is_file())


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    path = tmp_path / "checkpoints" / "1"
    assert damage(str(path)) is None
    for file in files(path):
        data = file.read_bytes()
        if not data:
            continue
        flipped = bytearray(data)
        flipped[len(data) // 2] ^= 4
        file.write_bytes(flipped)
        if file.name != "MANIFEST.json":
            assert damage(str(path)) is not None, file
            with pytest.raises(SxError) as caught:
                load(str(path))
            assert caught.value.diagnostics[0].code.id == "E-CKPT-002"
        file.write_bytes(data)
    assert damage(str(path)) is None


@pytest.mark.parametrize("how", ["truncated", "missing", "unsealed", "half manifest"])
def test_the_newest_whole_one_is_taken(tmp_path: Path, how: str) -> None:
    saved(tmp_path, 10, 20, 30)
    newest = tmp_path / "checkpoints" / "30"
    data = [p for p in files(newest) if p.name != "MANIFEST.json"]
    victim = max(data, key=lambda p: p.stat().st_size)
    if how == "truncated":
        os.truncate(victim, victim.stat().st_size - 1)
    elif how == "missing":
        victim.unlink()
    elif how == "unsealed":
        (newest / "MANIFEST.json").unlink()
    else:
        text = (newest / "MANIFEST.json").read_text()
        (newest / "MANIFEST.json").write_text(text[: len(text) // 2])
    path, warnings = newest_whole(str(tmp_path))
    assert path == str(tmp_path / "checkpoints" / "20")
    assert [w.code.id for w in warnings] == ["W-CKPT-001"]
    assert "checkpoint 30" in warnings[0].headline


def test_a_partial_one_is_named_and_replaced(tmp_path: Path) -> None:
    saved(tmp_path, 10)
    torn = tmp_path / "checkpoints" / "20.partial"
    (torn / "state").mkdir(parents=True)
    path, warnings = newest_whole(str(tmp_path))
    assert path is not None
    assert path.endswith("10")
    assert "20.partial" in warnings[0].headline
    saved(tmp_path, 20)
    assert newest_whole(str(tmp_path)) == (str(tmp_path / "checkpoints" / "20"), [])
    assert not torn.exists()


def test_bad_ones_are_never_latest(tmp_path: Path) -> None:
    saver = saved(tmp_path, 10)
    saver.save(13, tensors, {}, bad=True)
    saver.wait()
    path, warnings = newest_whole(str(tmp_path))
    assert path is not None
    assert path.endswith("10")
    assert not warnings
    assert [(f.step, f.bad, f.sealed) for f in list_checkpoints(str(tmp_path))] == [
        (10, False, True), (13, True, True)
    ]  # fmt: skip
    assert load(str(tmp_path / "checkpoints" / "bad-13"))[1]["bad"] is True


def steps(directory: Path) -> list[int]:
    return [f.step for f in list_checkpoints(str(directory)) if not f.bad]


@pytest.mark.parametrize(
    "changes, kept",
    [
        ({"keep": None}, [1, 2, 3, 4, 5, 6, 7]),
        ({"keep": 2}, [6, 7]),
        ({"keep": 1}, [7]),
        ({"keep": 2, "keep_every": 3}, [3, 6, 7]),
    ],
)
def test_keep_policy(tmp_path: Path, changes: dict[str, int], kept: list[int]) -> None:
    saved(tmp_path, *range(1, 8), **changes)
    assert steps(tmp_path) == kept
    assert all(damage(f.path) is None for f in list_checkpoints(str(tmp_path)))


def test_the_best_one_is_kept(tmp_path: Path) -> None:
    saver = Checkpointer(str(tmp_path), policy(keep=1))
    for step in (1, 2, 3, 4):
        saver.save(
            step, lambda step=step: tensors(step), {"best": {"step": 2} if step > 1 else None}
        )
    saver.wait()
    assert steps(tmp_path) == [2, 4]
    assert [saved.best for saved in saver.poll()] == [False, True, False, False]


def test_saving_a_step_again(tmp_path: Path) -> None:
    saved(tmp_path, 5)
    saver = Checkpointer(str(tmp_path), policy())
    saver.save(5, lambda: tensors(99), {})
    saver.wait()
    assert load(str(tmp_path / "checkpoints" / "5"))[0]["param/embed/w"].tolist() == (
        tensors(99)["param/embed/w"].tolist()
    )
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["5"]


def test_setting_aside(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2, 3)
    set_aside(str(tmp_path), 1)
    assert steps(tmp_path) == [1]
    assert {p.name for p in (tmp_path / "checkpoints").iterdir()} == {"1", "2.cut", "3.cut"}
    saved(tmp_path, 2)
    assert {p.name for p in (tmp_path / "checkpoints").iterdir()} == {"1", "2", "3.cut"}


def test_a_failed_save_is_raised_and_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = saved(tmp_path, 1)
    saver.poll()

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "seal", full)
    saver.save(2, tensors, {})
    with pytest.raises(SxError) as caught:
        saver.wait()
    assert caught.value.diagnostics[0].code.id == "E-CKPT-006"
    assert "no space left" in caught.value.diagnostics[0].headline
    assert steps(tmp_path) == [1]
    assert not (tmp_path / "checkpoints" / "2.partial").exists()
    saver.wait()


def test_formats_of_the_future(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    path = tmp_path / "checkpoints" / "1"
    meta = json.loads((path / "meta.json").read_text())
    (path / "meta.json").write_text(json.dumps(meta | {"format": 99}))
    (path / "MANIFEST.json").unlink()
    seal(str(path))
    with pytest.raises(SxError) as caught:
        load(str(path))
    assert caught.value.diagnostics[0].code.id == "E-CKPT-009"


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SxError) as caught:
        load(str(tmp_path / "no"))
    assert caught.value.diagnostics[0].code.id == "E-CKPT-001"
    assert newest_whole(str(tmp_path)) == (None, [])
