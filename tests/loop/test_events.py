"""events.jsonl: whole lines, one seq each, cut on resume, shared with `annotate`."""

import json
import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from sexpgpu.diagnostics.model import SxError
from sexpgpu.loop import events
from sexpgpu.loop.events import EventLog, Follower, annotate, read_events


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in (path / "events.jsonl").read_text().splitlines()]


def test_records(tmp_path: Path) -> None:
    heard: list[dict] = []
    log = EventLog(str(tmp_path), heard.append)
    log.append("open", 0, run="x")
    log.append("train", 1, metrics={"a": np.float32(0.1), "b": float("nan"), "c": -np.inf})
    log.append("train", 2, metrics={"v": np.array([1.0, np.inf]), "n": np.int64(2**40), "é": True})
    log.close()
    found = lines(tmp_path)
    assert found == heard
    assert [r["seq"] for r in found] == [0, 1, 2]
    assert found[1]["metrics"] == {"a": float(np.float32(0.1)), "b": "nan", "c": "-inf"}
    assert found[2]["metrics"] == {"v": [1.0, "inf"], "n": 2**40, "é": True}
    assert list(found[0])[:4] == ["kind", "seq", "time", "step"]
    assert found[0]["time"].endswith("Z")


def test_a_half_line_is_ignored_and_dropped(tmp_path: Path) -> None:
    log = EventLog(str(tmp_path))
    log.append("open", 0)
    log.close()
    with open(tmp_path / "events.jsonl", "a") as file:
        file.write('{"kind": "train", "seq": 1, "ti')
    assert [r["kind"] for r in read_events(str(tmp_path / "events.jsonl"))] == ["open"]
    log = EventLog(str(tmp_path))
    log.append("train", 1)
    log.close()
    assert [(r["kind"], r["seq"]) for r in lines(tmp_path)] == [("open", 0), ("train", 1)]


def test_cut_moves_the_tail_and_keeps_annotations(tmp_path: Path) -> None:
    log = EventLog(str(tmp_path))
    log.append("open", 0)
    log.append("train", 5)
    mark = log.mark()
    log.append("checkpoint", 5, path="x")
    log.append("annotation", 6, text="look here")
    log.append("train", 10)
    log.close()
    log = EventLog(str(tmp_path))
    cut = log.cut(mark)
    log.keep_annotations(cut)
    log.append("resume", 5)
    log.close()
    assert [r["kind"] for r in cut] == ["checkpoint", "annotation", "train"]
    found = lines(tmp_path)
    assert [r["kind"] for r in found] == ["open", "train", "annotation", "resume"]
    assert [r["seq"] for r in found] == [0, 1, 2, 3]
    assert found[2]["text"] == "look here"
    moved = [json.loads(x) for x in (tmp_path / "events.cut.jsonl").read_text().splitlines()]
    assert moved == cut


@pytest.mark.parametrize("change", ["shorter", "other"])
def test_a_log_that_is_not_the_checkpoints(tmp_path: Path, change: str) -> None:
    log = EventLog(str(tmp_path))
    for step in range(4):
        log.append("train", step)
    mark = log.mark()
    log.close()
    path = tmp_path / "events.jsonl"
    if change == "shorter":
        os.truncate(path, mark["offset"] - 3)
    else:
        path.write_text(path.read_text().replace('"seq": 3', '"seq": 7'))
    before = path.read_bytes()
    log = EventLog(str(tmp_path))
    with pytest.raises(SxError) as caught:
        log.cut(mark)
    log.close()
    assert caught.value.diagnostics[0].code.id == "E-CKPT-010"
    assert path.read_bytes() == before


@pytest.mark.parametrize("how", ["removed", "replaced", "cut", "emptied"])
def test_a_log_that_somebody_takes_away(tmp_path: Path, how: str) -> None:
    """The run goes on, with the numbers that follow, and tells so: once."""
    path = tmp_path / "events.jsonl"
    log = EventLog(str(tmp_path))
    for step in range(5):
        log.append("train", step)
    whole = path.read_bytes().splitlines(keepends=True)
    if how == "removed":
        path.unlink()
    elif how == "replaced":
        (tmp_path / "copy").write_bytes(b"".join(whole))
        os.replace(tmp_path / "copy", path)
    else:
        os.truncate(path, 0 if how == "emptied" else len(whole[0]) + 7)
    for step in range(5, 8):
        log.append("train", step)
    mark = log.mark()
    log.append("train", 8)
    found = list(read_events(str(path)))
    assert b"\0" not in path.read_bytes()
    kept = {"replaced": 5, "cut": 1}.get(how, 0)
    assert [e["seq"] for e in found] == [*range(kept), *range(5, 10)]
    assert [e["kind"] for e in found[kept:]] == ["train", "warning", "train", "train", "train"]
    assert found[kept + 1]["diagnostic"]["code"] == "W-CKPT-005"
    events.check_mark(str(tmp_path), mark)  # what is saved from now on can be resumed
    shutil.rmtree(tmp_path)
    with pytest.raises(SxError) as caught:
        log.append("train", 9)
    assert caught.value.diagnostics[0].code.id == "E-STORE-006"
    log.close()


def test_two_writers_share_the_numbering(tmp_path: Path) -> None:
    log = EventLog(str(tmp_path))
    log.append("open", 0)

    def write() -> None:
        for i in range(20):
            annotate(str(tmp_path), f"note {i}")

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    for step in range(40):
        log.append("train", step)
    for thread in threads:
        thread.join()
    log.append("close", 40)
    log.close()
    assert [r["seq"] for r in lines(tmp_path)] == list(range(102))


def test_a_follower_goes_on_after_a_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a resume writes is given, however much it is by then, and whatever its clock says; what
    was kept is not repeated."""
    hours = iter(range(99, 9, -1))
    monkeypatch.setattr(events, "now", lambda: f"2026-01-31T{next(hours)}:00:00.000000Z")
    log = EventLog(str(tmp_path))
    follower = Follower(str(tmp_path / "events.jsonl"))
    log.append("train", 1)
    mark = log.mark()
    for step in (2, 3):
        log.append("train", step)
    log.append("annotation", 3, text="looked at")
    assert [e["step"] for e in follower.read()] == [1, 2, 3, 3]
    assert follower.read() == []
    log.keep_annotations(log.cut(mark))
    log.append("resume", 1)
    assert [e["kind"] for e in follower.read()] == ["resume"]
    log.cut(mark)
    for step in range(2, 9):  # longer than it was
        log.append("train", step)
    assert [e["step"] for e in follower.read()] == list(range(2, 9))
    log.cut({"seq": 0, "offset": 0})
    assert follower.read() == []
    log.append("open", 0)
    assert [e["kind"] for e in follower.read()] == ["open"]
    log.close()


def test_annotating_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(SxError) as caught:
        annotate(str(tmp_path), "hello")
    assert caught.value.diagnostics[0].code.id == "E-CKPT-008"
    assert not list(tmp_path.iterdir())
