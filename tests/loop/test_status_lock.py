"""The status file and the lock of a run directory."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sexpgpu.diagnostics.model import SxError
from sexpgpu.loop import lock as lock_module
from sexpgpu.loop import status as status_module
from sexpgpu.loop.lock import RunLock, job_id
from sexpgpu.loop.status import Status, read_status


def test_status_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_module, "_PERIOD", 0.01)
    status = Status(str(tmp_path), run="x")
    seen = []
    stop = threading.Event()

    def reader() -> None:
        while not stop.is_set():
            seen.append(read_status(str(tmp_path)))  # a torn file would not parse

    thread = threading.Thread(target=reader)
    thread.start()
    for step in range(200):
        status.update(state="running", step=step, metrics={"loss": float("nan")})
    stop.set()
    thread.join()
    status.close()
    assert seen
    last = read_status(str(tmp_path))
    assert last is not None
    assert last["step"] == 199
    assert last["metrics"] == {"loss": "nan"}
    assert last["pid"] == os.getpid()
    assert [p.name for p in tmp_path.iterdir()] == ["status.json"]


def test_status_beats_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_module, "_PERIOD", 0.02)
    beats: list[int] = []
    status = Status(str(tmp_path), lambda: beats.append(1))
    before = read_status(str(tmp_path))
    status.note(step=7)
    deadline = time.monotonic() + 60
    while len(beats) < 4:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    after = read_status(str(tmp_path))
    status.close()
    assert before is not None
    assert after is not None
    assert after["step"] == 7
    assert after["updated"] > before["updated"]


def code(caught: pytest.ExceptionInfo[SxError]) -> str:
    return caught.value.diagnostics[0].code.id


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    lock = RunLock(str(tmp_path))
    with pytest.raises(SxError) as caught:
        RunLock(str(tmp_path))
    assert code(caught) == "E-CKPT-007"
    assert str(os.getpid()) in caught.value.diagnostics[0].headline
    lock.release()
    RunLock(str(tmp_path)).release()
    assert not list(tmp_path.iterdir())


def test_a_killed_process_leaves_no_lock_behind(tmp_path: Path) -> None:
    program = (
        "import os,signal,sys; from sexpgpu.loop.lock import RunLock;"
        "lock = RunLock(sys.argv[1]); os.kill(os.getpid(), signal.SIGKILL)"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=root, check=False)
    assert (tmp_path / "lock.json").exists()
    lock = RunLock(str(tmp_path))
    assert lock.warning is not None
    assert lock.warning.code.id == "W-CKPT-003"
    lock.release()


def other_machine(path: Path, age: float, job: str | None = None) -> None:
    (path / "lock.json").write_text(
        json.dumps(
            {"host": "far", "pid": 1, "machine": "other", "job": job, "started": 1.0,
             "heartbeat": time.time() - age}
        )
    )  # fmt: skip


def test_another_machine_counts_as_alive_for_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    other_machine(tmp_path, 30)
    with pytest.raises(SxError) as caught:
        RunLock(str(tmp_path))
    assert code(caught) == "E-CKPT-007"
    assert "far" in caught.value.diagnostics[0].headline
    other_machine(tmp_path, 61)
    lock = RunLock(str(tmp_path))
    assert lock.warning is not None
    lock.release()


@pytest.mark.parametrize(
    "text", ["{}", "[]", "", "{", '{"heartbeat": "now"}', '{"heartbeat": null}']
)
def test_a_damaged_lock_holds_nobody_back(tmp_path: Path, text: str) -> None:
    (tmp_path / "lock.json").write_text(text)
    RunLock(str(tmp_path)).release()
    assert not list(tmp_path.iterdir())


def test_a_heartbeat_of_tomorrow_is_told_with_what_to_do(tmp_path: Path) -> None:
    """The clock of the other machine was a day ahead: nobody can tell whether it is alive."""
    other_machine(tmp_path, -86400)
    with pytest.raises(SxError) as caught:
        RunLock(str(tmp_path))
    (found,) = caught.value.diagnostics
    assert found.code.id == "E-CKPT-007"
    assert "from now: the clocks" in found.notes[0].text
    assert str(tmp_path / "lock.json") in (found.fix or "")


def test_the_same_job_takes_over_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    other_machine(tmp_path, 1, job_id())
    RunLock(str(tmp_path)).release()


def test_a_lock_that_was_taken_over_is_noticed(tmp_path: Path) -> None:
    lock = RunLock(str(tmp_path))
    lock.beat()
    assert not lock.lost
    os.unlink(tmp_path / "lock.json")
    other = RunLock(str(tmp_path))
    lock.beat()
    assert lock.lost
    lock.release()  # must not remove the other's
    assert (tmp_path / "lock.json").exists()
    other.beat()
    assert not other.lost
    other.release()


def test_heartbeat_is_written(tmp_path: Path) -> None:
    lock = RunLock(str(tmp_path))
    first = json.loads((tmp_path / "lock.json").read_text())
    time.sleep(0.01)
    lock.beat()
    second = json.loads((tmp_path / "lock.json").read_text())
    assert second["heartbeat"] > first["heartbeat"]
    assert lock_module.STALE == 60.0
    lock.release()


@pytest.mark.parametrize("by", ["another thread", "this thread"])
def test_last_words_are_the_last(by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second signal comes while the status is being written: by the thread that keeps it fresh,
    or by the very code that the signal interrupts (which never goes on). What it says stands."""
    monkeypatch.setattr(status_module, "_PERIOD", 100.0)
    if by == "another thread":
        monkeypatch.setattr(status_module, "_PATIENCE", 60.0)
    status = Status(str(tmp_path), steps=3)
    writing = threading.Event()
    plain_replace = os.replace

    def slow_replace(source: str, target: str) -> None:
        if source.endswith(".tmp"):
            writing.set()
            if by == "this thread":
                status.last_words(state="stopped")
                raise SystemExit  # the handler ends the process here
            time.sleep(0.2)
        plain_replace(source, target)

    monkeypatch.setattr(os, "replace", slow_replace)
    if by == "this thread":
        with pytest.raises(SystemExit):
            status.update(step=1)
    else:
        writer = threading.Thread(target=status.update, kwargs={"step": 1})
        writer.start()
        writing.wait()
        status.last_words(state="stopped")
        writer.join()
    assert read_status(str(tmp_path))["state"] == "stopped"
    monkeypatch.undo()
    status.close()
