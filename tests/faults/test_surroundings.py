"""The world around a run goes wrong: disks, clocks, other processes, edited files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from loop_documents import make, run

import sexpgpu as sx
from sexpgpu.loop import events, lock
from sexpgpu.loop.checkpoint import Checkpointer
from sexpgpu.loop.events import read_events
from sexpgpu.loop.run import RunResult
from sexpgpu.loop.status import read_status

ROOT = Path(__file__).parents[2]
DOCUMENT: dict[str, Any] = {"steps": 12, "every": 4, "log_every": 2, "eval_every": 6}


def same(one: RunResult, other: RunResult) -> bool:
    return {n: a.tobytes() for n, a in one.parameters.items()} == {
        n: a.tobytes() for n, a in other.parameters.items()
    }


# -- files ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    return run(make(**DOCUMENT), tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that ended after step 10 without a word; its checkpoints are 4 and 8."""
    from sexpgpu.loop.train import Trainer

    original = Trainer._attend

    def attend(self: Trainer, waited: float) -> None:
        original(self, waited)
        if self.step == 10:
            self.parts.checkpointer.wait()
            raise KeyboardInterrupt

    folder = tmp_path_factory.mktemp("killed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_attend", attend)
        with pytest.raises(KeyboardInterrupt):
            run(make(**DOCUMENT), folder)
    return folder / "run"


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0x10
    path.write_bytes(data)


def missing(path: Path) -> None:
    path.unlink()


def emptied(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [truncated, flipped, missing, emptied])
def test_damage_to_any_file(
    whole: RunResult, killed: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """Each file of a run directory in turn: the run goes on and ends as it would have, or is
    refused with a code; then nothing that was there is gone."""
    ends: dict[str, str] = {}
    files = [p for p in killed.rglob("*") if p.is_file() and p.stat().st_size]
    for number, file in enumerate(sorted(files)):
        name = str(file.relative_to(killed))
        if "/state/" in name and number % 4:
            continue  # Orbax's many small files are all alike to the seal
        copy = tmp_path / str(number)
        shutil.copytree(killed, copy / "run")
        damage(copy / "run" / name)
        before = {p for p in copy.rglob("*") if "checkpoints" in str(p)}
        again = run(make(**DOCUMENT), copy, resume="latest")
        if again.exit_status == 0:
            assert same(again, whole), name
            ends[name] = "finished"
            found = list(read_events(str(copy / "run" / "events.jsonl")))
            if name != "events.jsonl":
                assert [e["seq"] for e in found] == list(range(len(found))), name
        else:
            assert again.exit_status == 3, name
            ends[name] = again.diagnostics[0].code.id
            assert before <= set(copy.rglob("*")), name
    wrong = {name: end for name, end in ends.items() if end != "finished"}
    assert wrong.keys() <= {"events.jsonl"}, wrong
    assert ends["events.jsonl"] == ("finished" if damage is flipped else "E-CKPT-010")


# -- disks ----------------------------------------------------------------------------------------


def test_a_file_size_limit_ends_the_run(tmp_path: Path) -> None:
    """RLIMIT_FSIZE, as quotas behave: the same errors, wherever they come from."""
    script = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (90000, 90000));"
        f"sys.path.insert(0, {str(ROOT / 'tests/loop')!r});"
        "from loop_documents import make, run;"
        "r = run(make(steps=400, every=None, log_every=1, eval_every=None), "
        f"{str(tmp_path)!r});"
        "print(r.exit_status, *[d.code.id for d in r.diagnostics])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["3", "E-STORE-006"]
    status = read_status(str(tmp_path / "run"))
    assert status is not None
    assert (status["state"], status["diagnostic"]["code"]) == ("failed", "E-STORE-006")
    found = list(read_events(str(tmp_path / "run" / "events.jsonl")))
    assert [e["seq"] for e in found] == list(range(len(found)))
    again = run(make(**DOCUMENT), tmp_path, resume="latest")
    assert again.exit_status == 0, again.diagnostics


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_read_only_place(tmp_path: Path) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    options = ["-t", "tmpfs", "-o", "ro,size=1m", "tmpfs", str(place)]
    if subprocess.run(["mount", *options], check=False).returncode:
        pytest.skip("mounting is not permitted")
    try:
        result = run(make(**DOCUMENT), place)
        assert result.exit_status == 3
        assert result.diagnostics[0].code.id == "E-STORE-002"
        subprocess.run(["mount", "-o", "remount,rw", str(place)], check=True)
        assert run(make(**DOCUMENT), place).exit_status == 0
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        again = run(make(**DOCUMENT), place, resume="4")
        assert again.exit_status == 3
        assert again.diagnostics[0].code.id in ("E-STORE-002", "E-STORE-006")
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_writer_that_raises_ends_the_run(
    whole: RunResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Checkpointer._write

    def write(self: Checkpointer, directory: str, step: int, *rest: Any) -> int:
        if step == 8:
            raise PermissionError(13, "Permission denied")
        return original(self, directory, step, *rest)

    monkeypatch.setattr(Checkpointer, "_write", write)
    result = run(make(**DOCUMENT), tmp_path)
    assert result.exit_status == 3
    assert result.diagnostics[0].code.id == "E-CKPT-006"
    status = read_status(str(tmp_path / "run"))
    assert status is not None
    assert status["diagnostic"]["code"] == "E-CKPT-006"
    last = list(read_events(str(tmp_path / "run" / "events.jsonl")))[-1]
    assert (last["kind"], last["exit"]) == ("close", 3)
    monkeypatch.undo()
    assert same(run(make(**DOCUMENT), tmp_path, resume="latest"), whole)


def test_a_fault_of_ours_in_a_writer_is_told_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(*_: Any) -> int:
        raise ZeroDivisionError("made for the test")

    monkeypatch.setattr(Checkpointer, "_write", write)
    with pytest.raises(ZeroDivisionError):
        run(make(**DOCUMENT), tmp_path)
    status = read_status(str(tmp_path / "run"))
    assert status is not None
    assert (status["state"], status["diagnostic"]["code"]) == ("failed", "E-INT-001")


# -- clocks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("jump", [-86400.0, 86400.0])
def test_a_clock_that_jumps(
    whole: RunResult, tmp_path: Path, jump: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sexpgpu.loop.train import Trainer

    shift = [0.0]
    monkeypatch.setattr(lock.time, "time", lambda real=time.time: real() + shift[0])
    monkeypatch.setattr(
        events,
        "now",
        lambda: str(datetime.now(UTC) + timedelta(seconds=shift[0])),
    )
    original = Trainer._attend

    def attend(self: Trainer, waited: float) -> None:
        if self.step == 5:
            shift[0] = jump
        original(self, waited)
        if self.step == 7:
            self.parts.requests.receive(15)

    monkeypatch.setattr(Trainer, "_attend", attend)
    assert run(make(**DOCUMENT), tmp_path, time_limit=3600.0).exit_status == 75
    shift[0] = 0.0
    monkeypatch.setattr(Trainer, "_attend", original)
    again = run(make(**DOCUMENT), tmp_path, resume="latest", time_limit=3600.0)
    assert again.exit_status == 0, again.diagnostics
    assert same(again, whole)
    found = list(read_events(str(tmp_path / "run" / "events.jsonl")))
    assert [e["seq"] for e in found] == list(range(len(found)))


# -- other processes ------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"resume": "latest"}])
def test_two_processes_on_one_run(
    child: Callable[..., Any], tmp_path: Path, options: dict[str, Any]
) -> None:
    document = {"steps": 60, "every": 20, "log_every": 10, "eval_every": None}
    both = [child(document, options, "data"), child(document, options, "data")]
    # the one that has the run stands still at step 20: the other must be gone meanwhile
    deadline = time.monotonic() + 120
    while all(one.process.poll() is None for one in both):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    loser, winner = sorted(both, key=lambda one: one.process.poll() is None)
    assert loser.process.returncode == 3
    output = loser.output
    assert "E-CKPT-007" in output or "E-CKPT-003" in output
    assert output.count("E-") == 1
    assert winner.process.poll() is None
    winner.process.kill()
    winner.process.wait()
    last = child(document, {"resume": "latest"})
    assert last.wait() == 0, last.output
    opened = [e["kind"] for e in last.events()].count("open")
    assert opened == 1


def test_a_run_that_ends_while_the_next_process_comes(
    whole: RunResult, killed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock is free, as the other process has saved the last step: so there the run stands."""
    from sexpgpu.loop.session import Session

    shutil.copytree(killed, tmp_path / "run")
    original = Session._claim

    def claim(self: Session, *given: Any) -> Any:
        monkeypatch.setattr(Session, "_claim", original)
        assert run(make(**DOCUMENT), tmp_path, resume="latest").exit_status == 0
        return original(self, *given)

    monkeypatch.setattr(Session, "_claim", claim)
    last = run(make(**DOCUMENT), tmp_path, resume="latest")
    assert (last.exit_status, last.state, last.step) == (0, "finished", 12)
    assert same(last, whole)
    found = list(read_events(str(tmp_path / "run" / "events.jsonl")))
    assert [e["kind"] for e in found].count("resume") == 1
    assert not (tmp_path / "run" / "lock.json").exists()


# -- edited files ---------------------------------------------------------------------------------

TEXT = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train :source (inline (x (0.0) (1.0)) (y (1.0) (3.0))) :batch 2)
(defun prepare (batch) (values (field batch :x) (field batch :y)))
(defmodel line () (submodel fit (nn:linear 1 1)) (forward (x) (fit x)))
(defun objective (model x y) (nn:mse (funcall model x) y))
(defrun line :model (line) :optimizer (optim:adam :lr 0.1) :steps 6 :checkpoint (:every 2))
"""

CHANGES = {
    "a longer run": (":steps 6", ":steps 9", "run.steps: 6 -> 9", True),
    "another rate": (":lr 0.1", ":lr 0.2", "groups.default.constants.lr: 0.1 -> 0.2", True),
    "another seed": (":steps 6", ":steps 6 :seed 4", "run.seed: 0 -> 4", True),
    "clipped": (":steps 6", ":steps 6 :clip-norm 1.0", "run.clip_norm: None -> 1.0", True),
    "other data": ("(y (1.0) (3.0))", "(y (1.0) (4.0))", "loaders.train.stages", True),
    "another loss": ("(nn:mse (f", "(nn:mse (* 2.0 (f", None, True),
    "other states": ("optim:adam :lr 0.1", "optim:sgd :lr 0.1", "optimizer: adam -> sgd", False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_resumed_under_an_edited_file(tmp_path: Path, change: str) -> None:
    old, new, told, fits = CHANGES[change]
    assert old in TEXT
    edited = TEXT.replace(old, new)
    if change == "another loss":
        edited = edited.replace("(funcall model x) y))", "(funcall model x)) y))")
    options: dict[str, Any] = {"runs": str(tmp_path), "slug": "it", "device": "interp"}
    sx.compile_text(TEXT).run(**options)
    before = (tmp_path / "it" / "events.jsonl").read_bytes()
    with pytest.raises(sx.RunError) as refused:
        sx.compile_text(edited).run(**options, resume=4)
    (found,) = refused.value.diagnostics
    assert found.code.id == "E-CKPT-004"
    lines = [note.text for note in found.notes]
    if told is not None:
        assert any(told in line for line in lines), lines
    else:
        assert lines == ["the graphs differ"]
    assert (tmp_path / "it" / "events.jsonl").read_bytes() == before
    if not fits:
        with pytest.raises(sx.RunError) as refused:
            sx.compile_text(edited).run(**options, resume=4, allow_change=True)
        assert refused.value.diagnostics[0].code.id == "E-CKPT-005"
        return
    again = sx.compile_text(edited).run(**options, resume=4, allow_change=True)
    resumed = next(e for e in again.events if e["kind"] == "resume")
    assert resumed["ir"] != resumed["ir_before"] or change == "a longer run"
    warned = [e["diagnostic"] for e in again.events if e["kind"] == "warning"]
    assert [w["code"] for w in warned] == ["W-CKPT-004"]
    assert warned[0]["notes"] == lines
