"""Whole runs: resume to the bit, events exactly once, evaluations, the finite guard."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loop_documents import columns, make, run

from sexpgpu.loop.checkpoint import list_checkpoints, load
from sexpgpu.loop.events import read_events
from sexpgpu.loop.recorder import is_of_the_machine
from sexpgpu.loop.run import RunResult
from sexpgpu.loop.status import read_status


def events(result: RunResult) -> list[dict[str, Any]]:
    return list(read_events(f"{result.directory}/events.jsonl"))


def series(result: RunResult) -> dict[tuple[int, str], Any]:
    """(step, series) -> value of everything but what the machine measures; each stands once."""
    found: dict[tuple[int, str], Any] = {}
    for event in events(result):
        for name, value in event.get("metrics", {}).items():
            key = (event["step"], name)
            assert key not in found, key
            found[key] = None if is_of_the_machine(name) else value
    return found


def tensors(result: RunResult, step: int) -> dict[str, bytes]:
    return {
        name: array.tobytes()
        for name, array in load(f"{result.directory}/checkpoints/{step}")[0].items()
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    return run(make(steps=40), tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("stop", [10, 20, 33, 36])  # 36: the end of an epoch
@pytest.mark.parametrize("cut", ["stopped", "killed"])
def test_resumed_is_uninterrupted(
    whole: RunResult, tmp_path: Path, stop: int, cut: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sexpgpu.loop.train import Trainer

    class Killed(Exception):
        pass

    original = Trainer._attend

    def attend(self: Trainer, waited: float) -> None:
        original(self, waited)
        if self.step == stop:
            if cut == "killed":
                raise Killed
            self.parts.requests.receive(15)

    monkeypatch.setattr(Trainer, "_attend", attend)
    if cut == "killed":
        with pytest.raises(Killed):
            run(make(steps=40), tmp_path)
    else:
        stopped = run(make(steps=40), tmp_path)
        assert stopped.exit_status == 75
        assert stopped.step == stop
    monkeypatch.undo()
    resumed = run(make(steps=40), tmp_path, resume="latest")
    assert resumed.exit_status == 0, resumed.diagnostics
    assert tensors(resumed, 40) == tensors(whole, 40)
    assert series(resumed) == series(whole)
    found = events(resumed)
    assert [e["seq"] for e in found] == list(range(len(found)))
    saved = [e["step"] for e in found if e["kind"] == "checkpoint"]
    wanted = {10, 20, 30, 40} | ({stop} if cut == "stopped" else set())
    assert sorted(saved) == sorted(wanted)
    assert [e["kind"] for e in found].count("open") == 1
    assert [e["kind"] for e in found].count("resume") == 1
    assert found[-1]["kind"] == "close"
    assert found[-1]["reason"] == "finished"


def test_on_xla_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(make(steps=30), tmp_path, slug="whole", device="cpu")
    from sexpgpu.loop.train import Trainer

    original = Trainer._attend

    def attend(self: Trainer, waited: float) -> None:
        original(self, waited)
        if self.step == 17:
            self.parts.requests.receive(15)

    monkeypatch.setattr(Trainer, "_attend", attend)
    assert run(make(steps=30), tmp_path, slug="parts", device="cpu").exit_status == 75
    monkeypatch.undo()
    resumed = run(make(steps=30), tmp_path, slug="parts", device="cpu", resume="latest")
    assert tensors(resumed, 30) == tensors(whole, 30)
    assert series(resumed) == series(whole)


def test_evaluation_is_the_mean_over_every_record(whole: RunResult) -> None:
    parameters = whole.parameters
    arrays = columns(21, 2)
    error = arrays["x"] @ parameters["fit/w"] + parameters["fit/b"] - arrays["y"]
    wanted = (arrays["m"] * (error**2).mean(1)).sum() / arrays["m"].sum()
    last = [e for e in events(whole) if e["kind"] == "eval"][-1]
    assert last["step"] == 40
    assert last["records"] == 21
    assert last["metrics"]["eval/valid/loss"] == pytest.approx(wanted, rel=1e-6)
    assert [e["step"] for e in events(whole) if e["kind"] == "eval"] == [10, 20, 30, 40]


@pytest.mark.parametrize("eval_batch", [1, 5, 21, 50])
def test_evaluation_batches_do_not_matter(
    whole: RunResult, tmp_path: Path, eval_batch: int
) -> None:
    other = run(make(steps=40, eval_batch=eval_batch), tmp_path)
    a, b = (
        [e["metrics"]["eval/valid/loss"] for e in events(r) if e["kind"] == "eval"]
        for r in (whole, other)
    )
    np.testing.assert_allclose(a, b, rtol=1e-6)
    assert tensors(other, 40) == tensors(whole, 40)


def test_evaluations_change_nothing(whole: RunResult, tmp_path: Path) -> None:
    for options in ({"valid": 0}, {"eval_every": 1, "at_start": True}):
        other = run(make(steps=40, **options), tmp_path, fresh=True)
        assert tensors(other, 40) == tensors(whole, 40)


def test_at_start(tmp_path: Path) -> None:
    result = run(make(steps=4, at_start=True, eval_every=None), tmp_path)
    assert [e["step"] for e in events(result) if e["kind"] == "eval"] == [0, 4]


def test_epochs(tmp_path: Path) -> None:
    result = run(make(epochs=2, count=50, batch=8), tmp_path)
    assert result.step == 12
    assert read_status(str(result.directory))["steps"] == 12  # type: ignore[index]


def test_status_and_result_at_the_end(whole: RunResult) -> None:
    status = read_status(str(whole.directory))
    assert status is not None
    assert status["state"] == whole.state == "finished"
    assert status["step"] == status["steps"] == whole.step == 40
    assert status["progress"] == 1.0
    assert status["checkpoint"]["step"] == 40
    assert status["summary"]["metrics"]["eval/valid/loss"] > 0
    assert status["reason"] == "finished"
    names = {p.name for p in Path(str(whole.directory)).iterdir()}
    assert names == {
        "status.json", "events.jsonl", "checkpoints", "experiment.ir.json", "manifest.json",
        "sources",
    }  # fmt: skip


def test_every_series_is_there(whole: RunResult) -> None:
    names = {name for (_, name) in series(whole)}
    assert names >= {
        "train/loss", "train/grad-norm", "train/steps-per-second", "train/samples-per-second",
        "train/data-wait", "train/nonfinite", "train/bias", "optim/default/lr",
        "optim/fit/w/size", "counter/records", "counter/records-per-second", "memory/peak",
        "time/compile", "time/eval", "time/checkpoint", "eval/valid/loss",
    }  # fmt: skip


def test_a_run_that_exists(whole: RunResult) -> None:
    directory = Path(str(whole.directory))
    before = {p: p.read_bytes() for p in directory.rglob("*") if p.is_file()}
    again = run(make(steps=40), directory.parent)
    assert again.exit_status == 3
    assert again.diagnostics[0].code.id == "E-CKPT-003"
    for way in ("--resume latest", "--fresh"):
        assert way in again.diagnostics[0].code.fix
    finished = run(make(steps=40), directory.parent, resume="latest")
    assert finished.exit_status == 0
    assert np.array_equal(finished.parameters["fit/w"], whole.parameters["fit/w"])
    for change in ({"clip": 0.5}, {"seed": 9}):
        refused = run(make(steps=40, **change), directory.parent, resume="latest")
        assert refused.diagnostics[0].code.id == "E-CKPT-004"
        assert refused.exit_status == 3
    longer = run(make(steps=40), directory.parent, resume="latest", steps=60)
    assert longer.diagnostics[0].code.id == "E-CKPT-004"
    assert any("run.steps: 40 -> 60" in n.text for n in longer.diagnostics[0].notes)
    assert {p: p.read_bytes() for p in directory.rglob("*") if p.is_file()} == before


def test_a_longer_run_by_permission(tmp_path: Path) -> None:
    run(make(steps=20), tmp_path)
    longer = run(make(steps=20), tmp_path, resume="latest", steps=30, allow_change=True)
    assert longer.exit_status == 0
    assert longer.step == 30
    assert [d.code.id for d in longer.diagnostics] == ["W-CKPT-004"]
    found = events(longer)
    (resumed,) = [e for e in found if e["kind"] == "resume"]
    assert resumed["step"] == 20
    assert resumed["manifest_before"] == resumed["manifest"]
    assert any(
        "run.steps: 20 -> 30" in note
        for e in found if e["kind"] == "warning" for note in e["diagnostic"]["notes"]
    )  # fmt: skip


def test_a_shorter_run_by_permission(tmp_path: Path) -> None:
    run(make(steps=20), tmp_path)
    before = (tmp_path / "run" / "events.jsonl").read_bytes()
    past = run(make(steps=20), tmp_path, resume="latest", steps=15, allow_change=True)
    assert (past.exit_status, past.diagnostics[0].code.id) == (3, "E-RUN-033")
    assert "has 20 done" in past.diagnostics[0].headline
    assert (tmp_path / "run" / "events.jsonl").read_bytes() == before
    shorter = run(make(steps=20), tmp_path, resume="10", steps=15, allow_change=True)
    assert (shorter.exit_status, shorter.step) == (0, 15)
    exactly = run(make(steps=20), tmp_path, resume="10", steps=10, allow_change=True)
    assert (exactly.state, exactly.step) == ("finished", 10)
    status = read_status(str(exactly.directory))
    assert status is not None
    assert (status["steps"], status["progress"]) == (10, 1.0)


def test_a_change_of_shapes_is_refused(tmp_path: Path) -> None:
    run(make(steps=10), tmp_path)
    document = make(steps=10, clip=0.5)
    document.buffers = []
    refused = run(document, tmp_path, resume="latest", allow_change=True)
    assert refused.diagnostics[0].code.id == "E-CKPT-005"
    assert "buffer/seen" in refused.diagnostics[0].headline


def test_fresh_and_first_latest(tmp_path: Path) -> None:
    first = run(make(steps=10), tmp_path, resume="latest")
    assert first.exit_status == 0
    assert [d.code.id for d in first.diagnostics] == ["W-CKPT-002"]
    fresh = run(make(steps=20), tmp_path, fresh=True)
    assert fresh.exit_status == 0
    assert [e["kind"] for e in events(fresh)].count("open") == 1
    assert not (tmp_path / "run" / "events.cut.jsonl").exists()
    both = run(make(), tmp_path, fresh=True, resume="latest")
    assert both.diagnostics[0].code.id == "E-RUN-033"


def test_going_back_to_a_step(whole: RunResult, tmp_path: Path) -> None:
    run(make(steps=40), tmp_path)
    back = run(make(steps=40), tmp_path, resume="20")
    assert back.exit_status == 0
    assert tensors(back, 40) == tensors(whole, 40)
    assert series(back) == series(whole)
    missing = run(make(steps=40), tmp_path, resume="21")
    assert missing.diagnostics[0].code.id == "E-CKPT-001"
    assert "10, 20, 30, 40" in missing.diagnostics[0].notes[0].text


def test_from_another_run(whole: RunResult, tmp_path: Path) -> None:
    source = f"{whole.directory}/checkpoints/20"
    other = run(make(steps=40), tmp_path, resume=source, slug="copy")
    assert other.exit_status == 0
    assert tensors(other, 40) == tensors(whole, 40)
    kinds = [e["kind"] for e in events(other)]
    assert kinds[:2] == ["open", "resume"]


def test_from_another_run_a_kill_before_the_first_save_loses_nothing(
    whole: RunResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sexpgpu.loop.train import Trainer

    original = Trainer._attend

    def attend(self: Trainer, waited: float) -> None:
        original(self, waited)
        if self.step == 23:
            self.parts.checkpointer.wait()
            raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "_attend", attend)
    with pytest.raises(KeyboardInterrupt):
        run(make(steps=40), tmp_path, resume=f"{whole.directory}/checkpoints/20", slug="copy")
    monkeypatch.undo()
    again = run(make(steps=40), tmp_path, resume="latest", slug="copy")
    assert [e["step"] for e in events(again) if e["kind"] == "resume"] == [20, 20]
    assert tensors(again, 40) == tensors(whole, 40)


def test_best_is_saved_and_kept(tmp_path: Path) -> None:
    document = make(steps=24, every=None, eval_every=3, keep=1, best=("min", ":eval/valid/loss"))
    result = run(document, tmp_path)
    losses = {e["step"]: e["metrics"]["eval/valid/loss"] for e in events(result)
              if e["kind"] == "eval"}  # fmt: skip
    best = min(losses, key=lambda s: losses[s])
    assert result.summary["best"] == {
        "series": "eval/valid/loss", "value": losses[best], "step": best
    }  # fmt: skip
    assert {f.step for f in list_checkpoints(str(result.directory))} == {best, 24}
    wrong = run(make(steps=4, best=("min", "eval/valid/los")), tmp_path, slug="wrong")
    assert wrong.diagnostics[0].code.id == "E-METRIC-031"
    assert wrong.exit_status == 3


# -- the finite guard -----------------------------------------------------------------------


def bad_step(count: int = 50, batch: int = 8, record: int = 20) -> int:
    """The first step of whose batch the record is, without shuffling."""
    return record // batch


@pytest.mark.parametrize("device", ["interp", "cpu"])
def test_abort(tmp_path: Path, device: str) -> None:
    document = make(bad=20, shuffle=False, steps=10, log_every=1, every=2)
    result = run(document, tmp_path, device=device)
    assert result.exit_status == 4
    assert result.state == "failed"
    found = result.diagnostics[0]
    assert found.code.id == "E-RUN-031"
    assert "step 2: the loss is nan" in found.headline
    assert "log gives nan" in found.headline
    notes = " ".join(note.text for note in found.notes)
    assert "records 16 17 18 19 20" in notes
    assert "--resume" in notes
    reference = run(make(shuffle=False, steps=2), tmp_path, slug="two", device=device)
    bad, meta = load(f"{result.directory}/checkpoints/bad-2")
    good, _ = load(f"{reference.directory}/checkpoints/2")
    assert meta["bad"] is True
    for name in good:
        if name != "step":
            assert bad[name].tobytes() == good[name].tobytes(), name
    status = read_status(str(result.directory))
    assert status is not None
    assert status["state"] == "failed"
    assert status["diagnostic"]["code"] == "E-RUN-031"
    close = events(result)[-1]
    assert close["exit"] == 4
    again = run(document, tmp_path, resume=f"{result.directory}/checkpoints/bad-2", slug="again")
    assert again.exit_status == 4
    assert "step 2" in again.diagnostics[0].headline


@pytest.mark.parametrize("device", ["interp", "cpu"])
def test_skip_drops_the_update_whole(tmp_path: Path, device: str) -> None:
    from sexpgpu.loop.checkpoint import load

    document = make(bad=20, shuffle=False, steps=3, every=1, log_every=1, finite="skip")
    result = run(document, tmp_path, device=device)
    assert result.exit_status == 0, result.diagnostics
    before = load(f"{result.directory}/checkpoints/2")[0]
    after = load(f"{result.directory}/checkpoints/3")[0]
    for name in before:
        if name not in ("step", "bad"):
            assert before[name].tobytes() == after[name].tobytes(), name
    assert after["updates"] == 2
    assert after["step"] == 3
    nonfinite = [e["metrics"]["train/nonfinite"] for e in events(result) if e["kind"] == "train"]
    assert nonfinite == [0, 0, 1]
    warnings = [e["diagnostic"]["code"] for e in events(result) if e["kind"] == "warning"]
    assert warnings == ["W-RUN-031"]
    assert result.summary["totals"]["nonfinite"] == 1


def test_skip_gives_up_after_ten_in_a_row(tmp_path: Path) -> None:
    document = make(finite="skip", steps=30, shuffle=False, every=None)
    stage = document.loaders[0].stages[0]
    z = stage.source["columns"]["z"]
    z["values"] = [1.0] * 16 + [-1.0] * 34  # steps 2 to 5 of every epoch of 6: four in a row
    lucky = run(document, tmp_path, slug="four")
    assert lucky.exit_status == 0
    z["values"] = [-1.0] * 50
    given_up = run(document, tmp_path, slug="all")
    assert given_up.exit_status == 4
    assert given_up.diagnostics[0].code.id == "E-RUN-032"
    assert "step 9" in given_up.diagnostics[0].headline


def test_ignore(tmp_path: Path) -> None:
    result = run(make(bad=20, shuffle=False, steps=10, finite="ignore"), tmp_path)
    assert result.exit_status == 0
    assert np.isnan(result.parameters["fit/w"]).all()
    text = Path(f"{result.directory}/events.jsonl").read_text()
    assert "NaN" not in text
    assert any(json.loads(line).get("metrics", {}).get("train/loss") == "nan"
               for line in text.splitlines())  # fmt: skip


# -- failures of data and options -------------------------------------------------------------


def test_a_bad_record_stops_the_run_with_its_place(tmp_path: Path) -> None:
    from sexpgpu.ir.document import Field

    document = make(steps=20, shuffle=False, every=2)
    stage = document.loaders[0].stages[0]
    stage.source["columns"]["m"]["values"][37] = 99.0
    stage.fields[2] = Field(name="m", dtype="f32", shape=(), range=(1, 8))
    result = run(document, tmp_path)
    assert result.exit_status == 3
    assert result.diagnostics[0].code.id == "E-DATA-031"
    assert "record 37" in result.diagnostics[0].headline
    status = read_status(str(result.directory))
    assert status is not None
    assert status["diagnostic"]["code"] == "E-DATA-031"
    assert events(result)[-1]["reason"] == "failed"


def test_a_run_that_never_began_may_be_started_again(tmp_path: Path) -> None:
    broken = make(count=4)
    failed = run(broken, tmp_path)
    assert failed.diagnostics[0].code.id == "E-DATA-004"
    status = read_status(str(failed.directory))
    assert status is not None
    assert status["diagnostic"]["code"] == "E-DATA-004"
    again = run(make(steps=4), tmp_path)
    assert again.exit_status == 0
    assert events(again)[0]["kind"] == "open"


@pytest.mark.parametrize(
    "options",
    [
        {"steps": 0},
        {"steps": -1},
        {"time_limit": 0.0},
        {"slug": "a/b"},
        {"slug": ""},
        {"resume": ""},
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, options: dict[str, Any]) -> None:
    result = run(make(), tmp_path, **options)
    assert result.diagnostics[0].code.id == "E-RUN-033"
    assert result.exit_status == 3
    assert not list(tmp_path.iterdir())


def test_no_such_device(tmp_path: Path) -> None:
    result = run(make(), tmp_path, device="tpu")
    assert result.diagnostics[0].code.id == "E-DEV-001"
    assert result.exit_status == 5


def test_a_stop_while_a_pass_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compilation goes on in a thread of its own: whoever ends the process has to know."""
    from threading import Event

    from sexpgpu.loop.evaluate import EvaluationGraph
    from sexpgpu.loop.signals import Requests
    from sexpgpu.lowering.interp.backend import InterpBackend

    release, made = Event(), list[Requests]()
    original, init = InterpBackend.compile, Requests.__init__

    def noted(self: Requests, *given: Any) -> None:
        init(self, *given)
        made.append(self)

    def compile(self: InterpBackend, function: Any, *given: Any, **more: Any) -> Any:
        if isinstance(function, EvaluationGraph):
            made[-1].receive(15)
            release.wait(120)
        return original(self, function, *given, **more)

    monkeypatch.setattr(Requests, "__init__", noted)
    monkeypatch.setattr(InterpBackend, "compile", compile)
    result = run(make(steps=20), tmp_path)
    release.set()
    assert (result.exit_status, result.step, result.abandoned) == (75, 10, True)
    monkeypatch.undo()
    assert run(make(steps=20), tmp_path, resume="latest").exit_status == 0


class XlaRuntimeError(RuntimeError):
    """As jaxlib raises it."""


XlaRuntimeError.__module__ = "jaxlib._jax"


@pytest.mark.parametrize(
    "error, code",
    [
        (
            XlaRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes.\nmore"),
            "E-DEV-004",
        ),
        (MemoryError("Unable to allocate 9 TiB"), "E-DEV-004"),
        (XlaRuntimeError("INTERNAL: the driver went away"), "E-DEV-006"),
    ],
)
def test_a_device_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: str
) -> None:
    from sexpgpu.lowering.interp.backend import InterpCompiled

    def fail(*_: object) -> object:
        raise error

    monkeypatch.setattr(InterpCompiled, "__call__", fail)
    result = run(make(), tmp_path)
    assert result.diagnostics[0].code.id == code
    assert result.exit_status == 5
    status = read_status(str(result.directory))
    assert status is not None
    assert status["diagnostic"]["code"] == code


def test_a_fault_of_ours_is_told_and_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sexpgpu.lowering.interp.backend import InterpCompiled

    def fail(*_: object) -> object:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(InterpCompiled, "__call__", fail)
    with pytest.raises(ZeroDivisionError):
        run(make(), tmp_path)
    status = read_status(str(tmp_path / "run"))
    assert status is not None
    assert status["state"] == "failed"
    assert status["diagnostic"]["code"] == "E-INT-001"
    assert not (tmp_path / "run" / "lock.json").exists()


@pytest.mark.parametrize("change", ["shorter", "missing"])
def test_events_that_do_not_match_leave_the_run_as_it_was(tmp_path: Path, change: str) -> None:
    result = run(make(steps=20), tmp_path)
    directory = Path(str(result.directory))
    log = directory / "events.jsonl"
    if change == "shorter":
        log.write_text("\n".join(log.read_text().splitlines()[:2]) + "\n")
    else:
        log.unlink()
    before = {p: p.read_bytes() for p in directory.rglob("*") if p.is_file()}
    again = run(make(steps=20), tmp_path, resume="20")
    assert again.diagnostics[0].code.id == "E-CKPT-010"
    assert {p: p.read_bytes() for p in directory.rglob("*") if p.is_file()} == before


def test_damaged_checkpoints_are_named_and_passed_over(whole: RunResult, tmp_path: Path) -> None:
    run(make(steps=20), tmp_path)
    newest = tmp_path / "run" / "checkpoints" / "20"
    files = [p for p in (newest / "state").rglob("*") if p.is_file()]
    victim = max(files, key=lambda p: p.stat().st_size)
    data = bytearray(victim.read_bytes())
    data[-1] ^= 1
    victim.write_bytes(data)
    again = run(make(steps=20), tmp_path, resume="latest")
    assert again.exit_status == 0
    assert [d.code.id for d in again.diagnostics] == ["W-CKPT-001"]
    resumed = next(e for e in events(again) if e["kind"] == "resume")
    assert resumed["step"] == 10
    assert load(str(newest))[0]["step"] == 20
    named = run(make(steps=20), tmp_path, resume="20", fresh=False)
    assert named.exit_status == 0


@pytest.mark.parametrize("stop", [0, 20, 40])
def test_a_stop_during_an_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int
) -> None:
    from sexpgpu.loop.evaluate import Pass

    document = make(steps=40, at_start=True)
    whole = run(document, tmp_path, slug="whole")
    original = Pass.run

    def evaluate(self: Pass, state: Any, context: Any, constants: Any, requests: Any) -> Any:
        if int(state["updates"]) == stop:
            requests.receive(15)
        return original(self, state, context, constants, requests)

    monkeypatch.setattr(Pass, "run", evaluate)
    stopped = run(document, tmp_path)
    assert stopped.exit_status == 75
    assert stopped.step == stop
    assert load(f"{stopped.directory}/checkpoints/{stop}")[1]["due"] == ["valid"]
    monkeypatch.undo()
    resumed = run(document, tmp_path, resume="latest")
    assert resumed.exit_status == 0
    assert series(resumed) == series(whole)
    assert tensors(resumed, 40) == tensors(whole, 40)
    assert run(document, tmp_path, resume="latest").exit_status == 0


def test_several_events_share_a_run_with_annotations(tmp_path: Path) -> None:
    from sexpgpu.loop.events import annotate

    first = run(make(steps=20), tmp_path)
    annotate(str(first.directory), "a thought")
    again = run(make(steps=20), tmp_path, resume="latest", steps=30, allow_change=True)
    found = events(again)
    (note,) = [e for e in found if e["kind"] == "annotation"]
    assert note["text"] == "a thought"
    assert note["step"] == 20
    assert [e["seq"] for e in found] == list(range(len(found)))


def test_a_remainder_without_a_graph(tmp_path: Path) -> None:
    document = make()
    document.evaluations[0].rest = None
    result = run(document, tmp_path)
    assert result.diagnostics[0].code.id == "E-EVAL-032"
    assert "the last 1 of its 21 records" in result.diagnostics[0].headline


def test_a_lock_that_was_lost_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sexpgpu.loop.train import Trainer

    original = Trainer._show

    def show(self: Trainer) -> None:
        original(self)
        if self.step == 7:
            lock = tmp_path / "run" / "lock.json"
            lock.write_text(json.dumps(json.loads(lock.read_text()) | {"started": 1.0}))
            self.parts.status._also()

    monkeypatch.setattr(Trainer, "_show", show)
    result = run(make(), tmp_path)
    assert result.exit_status == 3
    assert result.diagnostics[0].code.id == "E-CKPT-007"
    assert result.step == 7
