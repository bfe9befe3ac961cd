"""Stages and curriculum: which batches are read in which stage, what the curriculum knows, and that
a resumed run turns where an uninterrupted one does."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sexpgpu as sx
from sexpgpu.ir.document_json import document_text, read_document
from sexpgpu.ir.document_text import parse_document, print_document
from sexpgpu.loop.checkpoint import load
from sexpgpu.loop.data.loader import TrainingBatches
from sexpgpu.loop.initial import initial_state
from sexpgpu.loop.recorder import is_of_the_machine
from sexpgpu.loop.stages import programs
from sexpgpu.ops import infer

ROOT = Path(__file__).parents[2]
EVERY, STEPS = 7, 40

# Round and round through three stages, at each evaluation to the next; `first` and `last` have
# steps that are alike.
FILE = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)

(defloader train
  :batch 4 :shuffle t
  :source (synthetic 13 (x :f32 (3) (:normal 0 1)) (y :f32 () (:normal 1 2)))
  :stages (first ()
           many (:batch 6 :microbatches 2
                 :source (synthetic 20 (x :f32 (3) (:uniform -1 1)) (y :f32 () (:normal 0 1))))
           last (:drop-last nil
                 :source (synthetic 9 (x :f32 (3) (:normal 0 1)) (y :f32 () (:normal 5 1))))))

(defloader valid :batch 2
  :source (synthetic 5 (x :f32 (3) (:normal 0 1)) (y :f32 () (:normal 0 1))))

(defun prepare (batch) (values (field batch :x) (field batch :y)))

(defmodel line ()
  (defparam w (3))
  (defbuffer seen ())
  (forward (x)
    (setf seen (+ seen (mean x)))
    (einsum "bi,i->b" x w)))

(defun objective (model x y)
  (incf (counter :records) (dim x 0))
  (metric :stage-step (cast (ctx :stage-step) :f32))
  (metric :samples (cast (ctx :samples) :f32))
  (metric :epoch (cast (ctx :epoch) :f32))
  (metric :in-many (if (eq (ctx :stage) :many) 1.0 0.0))
  (mean (square (- (funcall model x) y))))

(defun evaluate (model x y)
  (metric :stage (cast (ctx :stage) :f32) :reduce :last)
  (mean (square (- (funcall model x) y))))

(defeval valid :loader valid :every 7)

(defun curriculum ()
  (defstate rounds () :dtype :i32)
  (defstate total (2) :init 0.5)
  (setf rounds (+ rounds 1)
        total (+ total (stack-tensors (list (ctx :train/loss) (ctx :eval/valid/loss)))))
  (metric :loss (ctx :train/loss))
  (metric :least (ctx :min/eval/valid/loss))
  (metric :most (ctx :max/train/loss))
  (metric :total (sum total))
  (metric :records (cast (ctx :counter/records) :f32))
  (metric :here (cast (ctx :stage) :f32))
  (mod rounds 3))

(defrun turns
  :model (line)
  :optimizer (optim:sgd :lr 0.05)
  :steps 40
  :log-every 1
  :checkpoint (:every 3))
"""


QUICK = FILE.replace("\n  :checkpoint (:every 3)", "")  # saved at the end only


def compiled(text: str = QUICK) -> sx.Experiment:
    return sx.compile_text(text)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> sx.Run:
    runs = str(tmp_path_factory.mktemp("whole"))
    return compiled(FILE).run(runs=runs, slug="run", device="interp")


def of_kind(run: sx.Run, kind: str) -> list[dict[str, Any]]:
    return [event for event in run.events if event["kind"] == kind]


def series(events: list[dict[str, Any]], after: int = -1) -> dict[tuple[int, str], Any]:
    return {
        (event["step"], name): value
        for event in events
        if event["step"] > after
        for name, value in event.get("metrics", {}).items()
        if not is_of_the_machine(name)
    }


def test_each_step_reads_the_batch_of_its_stage(whole: sx.Run) -> None:
    """A twin in NumPy that keeps a place in each stage by itself."""
    document = whole.document
    stages = document.loader("train").stages
    readers = [TrainingBatches(stage, "train", 0) for stage in stages]
    w, places, losses, samples = np.zeros(3), [0, 0, 0], [], []
    entered = 0
    told = {(e["step"], n): v for e in of_kind(whole, "train") for n, v in e["metrics"].items()}
    for step in range(STEPS):
        at = (step // EVERY) % 3
        if step % EVERY == 0:
            entered = step
        batch = readers[at].read(places[at])
        epochs = readers[at].epoch(places[at])
        x, y = batch["x"].astype(np.float64), batch["y"].astype(np.float64)
        error = x @ w - y
        losses.append(np.mean(error**2))
        w = w - 0.05 * 2 * (x * error[:, None]).mean(0)
        samples.append(len(y))
        places[at] += 1
        assert told[step + 1, "train/stage-step"] == step - entered
        assert told[step + 1, "train/samples"] == sum(samples[:-1])
        assert told[step + 1, "train/epoch"] == epochs
        assert told[step + 1, "train/in-many"] == (at == 1)
        assert told[step + 1, "counter/records"] == sum(samples)
    np.testing.assert_allclose(whole.metrics["train/loss"].values, losses, rtol=1e-4)
    np.testing.assert_allclose(whole.parameters["w"], w, rtol=1e-4)
    for event in of_kind(whole, "train"):
        assert event["stage"] == stages[((event["step"] - 1) // EVERY) % 3].name


def test_events_and_status_tell_the_stage(whole: sx.Run) -> None:
    names = ["first", "many", "last"]
    turns = of_kind(whole, "stage")
    assert [e["step"] for e in turns] == [7, 14, 21, 28, 35, 40]
    for i, event in enumerate(turns):
        assert (event["before"], event["stage"]) == (names[i % 3], names[(i + 1) % 3])
        assert event["metrics"]["curriculum/stage"] == (i + 1) % 3
        assert event["metrics"]["curriculum/here"] == i % 3
        assert whole.metrics["eval/valid/stage"].values[i] == i % 3
    status = json.loads((Path(str(whole.directory)) / "status.json").read_text())
    assert status["stage"] == names[len(turns) % 3]
    assert status["summary"]["totals"]["samples"] == whole.metrics["counter/records"].values[-1]


def test_the_order_after_a_step_is_fixed(whole: sx.Run) -> None:
    """Metrics, evaluations, the curriculum, then the checkpoint, which holds what they gave."""
    at = [event for event in whole.events if event["step"] == 3 * EVERY]
    assert [event["kind"] for event in at] == ["train", "eval", "stage", "checkpoint"]
    _, meta = load(f"{whole.directory}/checkpoints/{3 * EVERY}")
    assert meta["events"]["seq"] > at[2]["seq"]
    assert meta["loader"]["train"]["stage"] == at[2]["stage"]
    assert meta["last"]["eval/valid/loss"] == at[1]["metrics"]["eval/valid/loss"]


def test_the_curriculum_sees_means_and_extremes(whole: sx.Run) -> None:
    losses = whole.metrics["train/loss"].values
    valid = whole.metrics["eval/valid/loss"].values
    own = {name: whole.metrics[f"curriculum/{name}"].values for name in ("loss", "least", "most")}
    ends = [7, 14, 21, 28, 35, 40]
    means = [losses[a:b].mean() for a, b in zip([0, *ends], ends, strict=False)]
    np.testing.assert_allclose(own["loss"], means, rtol=1e-6)
    np.testing.assert_allclose(own["least"], np.minimum.accumulate(valid), rtol=1e-6)
    np.testing.assert_allclose(own["most"], np.maximum.accumulate(means), rtol=1e-6)
    total = 1.0 + np.cumsum(np.asarray(means) + valid)
    np.testing.assert_allclose(whole.metrics["curriculum/total"].values, total, rtol=1e-5)
    np.testing.assert_array_equal(
        whole.metrics["curriculum/records"].values, whole.metrics["counter/records"].values[
            np.array(ends) - 1
        ],
    )  # fmt: skip


def test_resumed_anywhere_it_is_the_same_to_the_bit(whole: sx.Run, tmp_path: Path) -> None:
    """From checkpoints within each stage and at turns (21 is both)."""
    base = Path(str(whole.directory)) / "checkpoints"
    last, _ = load(str(base / "40"))
    assert {"curriculum/rounds", "curriculum/total"} <= set(last)
    for step in (3, 15, 21, 39):
        run = compiled().run(
            runs=str(tmp_path), slug=f"from-{step}", device="interp", resume=str(base / str(step)),
            allow_change=True,
        )  # fmt: skip
        tensors, _ = load(f"{run.directory}/checkpoints/40")
        assert {n: a.tobytes() for n, a in tensors.items()} == {
            n: a.tobytes() for n, a in last.items()
        }
        assert series(run.events) == series(whole.events, after=step)


def test_train_events_end_with_their_stage(whole: sx.Run, tmp_path: Path) -> None:
    """Of 5 steps each, but for those that a turn ends; each step is in one event."""
    text = QUICK.replace(":log-every 1", ":log-every 5")
    run = compiled(text).run(runs=str(tmp_path), device="interp")
    steps = [e["step"] for e in of_kind(run, "train")]
    assert steps == [5, 7, 10, 14, 15, 20, 21, 25, 28, 30, 35, 40]
    losses = whole.metrics["train/loss"].values
    means = [losses[a:b].mean() for a, b in zip([0, *steps], steps, strict=False)]
    np.testing.assert_allclose(run.metrics["train/loss"].values, means, rtol=1e-6)


def test_both_backends_turn_alike(whole: sx.Run, tmp_path: Path) -> None:
    other = compiled().run(runs=str(tmp_path), device="cpu")
    assert [e["stage"] for e in of_kind(other, "stage")] == [
        e["stage"] for e in of_kind(whole, "stage")
    ]
    np.testing.assert_allclose(
        other.metrics["train/loss"].values, whole.metrics["train/loss"].values, rtol=1e-5
    )


def test_stages_that_are_alike_share_an_executable() -> None:
    document = compiled().document
    first, many, last = programs(document)
    assert first.compiled is last.compiled
    assert first.compiled is not many.compiled
    assert (many.step.microbatches, many.step.batch) == (2, 6)


def test_several_steps_a_dispatch_change_nothing(whole: sx.Run, tmp_path: Path) -> None:
    text = QUICK.replace(":log-every 1", ":log-every 1 :steps-per-dispatch 2")
    run = compiled(text).run(runs=str(tmp_path), device="interp")
    assert series(run.events) == series(whole.events)


def test_the_document_is_read_back() -> None:
    document = compiled().document
    text = document_text(document)
    assert document_text(read_document(text, infer)) == text
    printed = print_document(document, origins=False)
    assert print_document(parse_document(printed, infer), origins=False) == printed
    states = initial_state(document)
    assert not any("rounds" in name for name in states["state"])


def test_nothing_is_known_before_the_first(tmp_path: Path) -> None:
    """At the start training has no mean yet; a comparison with NaN is false."""
    text = QUICK.replace(":every 7)", ":every 7 :at-start t)").replace(
        "(mod rounds 3)", "(where (< (ctx :train/loss) 1e9) 2 1)"
    )
    run = compiled(text).run(runs=str(tmp_path), device="interp", steps=8)
    turns = of_kind(run, "stage")
    assert [(e["step"], e["stage"]) for e in turns] == [(0, "many"), (7, "last"), (8, "last")]
    assert turns[0]["metrics"]["curriculum/loss"] == "nan"
    assert of_kind(run, "train")[0]["stage"] == "many"


def test_an_index_out_of_range_is_clamped_and_told_once(tmp_path: Path) -> None:
    text = QUICK.replace("(mod rounds 3)", "(where (= rounds 1) 7 -2)")
    run = compiled(text).run(runs=str(tmp_path), device="interp")
    assert [e["stage"] for e in of_kind(run, "stage")] == ["last", *["first"] * 5]
    found = of_kind(run, "warning")
    assert [(w["step"], w["diagnostic"]["code"]) for w in found] == [(7, "W-RUN-032")]


def test_a_stage_that_is_no_more_is_refused(whole: sx.Run, tmp_path: Path) -> None:
    text = QUICK.replace("many (:batch", "lots (:batch").replace(":many", ":lots")
    with pytest.raises(sx.RunError) as caught:
        compiled(text).run(
            runs=str(tmp_path), slug="other", device="interp", allow_change=True,
            resume=f"{whole.directory}/checkpoints/9",
        )  # fmt: skip
    assert caught.value.diagnostics[0].code.id == "E-CKPT-005"


def test_explain_and_the_command_line_show_the_stages(whole: sx.Run, tmp_path: Path) -> None:
    told = compiled().explain()
    assert "train many" in told
    assert "stages  first many last" in told
    assert ":max/train/loss" in told
    shown = command("status", str(whole.directory))
    assert "finished (first)" in shown


@pytest.mark.parametrize(
    "old, new, code",
    [
        ("(mod rounds 3)", "(* 1.0 rounds)", "E-RUN-008"),
        ("(mod rounds 3)", ":many", "E-RUN-008"),
        ("(mod rounds 3)", "nil", "E-RUN-008"),
        ("(mod rounds 3)", "(ctx :eval/vaild/loss)", "E-RUN-021"),
        ("(mod rounds 3)", "(if (< (ctx :train/loss) 1) 0 1)", "E-FLOW-001"),
        ("(mod rounds 3)", "(stage :mani)", "E-RUN-010"),
        ("(mod rounds 3)", '(progn (setf total (sum (param *m* "w"))) 0)', "E-RUN-012"),
        ("(metric :total (sum total))", '(metric :total (sum (param *m* "w")))', "E-RUN-009"),
        ("(metric :total", "(metric :stage", "E-METRIC-001"),
        ("(metric :total", "(loss-term :total", "E-METRIC-002"),
        ("(defun curriculum ()", "(defun curriculum (x)", "E-ARG-001"),
        ("(defstate rounds ()", "(defstate total ()", "E-RUN-003"),
        ("(defstate rounds () :dtype :i32)", "(defstate rounds () :dtyp :i32)", "E-RUN-002"),
        ("(defstate rounds () :dtype :i32)", "(defstate rounds)", "E-RUN-005"),
        ("(defstate total (2) :init 0.5)", "(defstate total (2) :init (zeros (list 3)))",
         "E-PARAM-004"),
        (":stages (first ()", ":stages (first () first ()", "E-RUN-003"),
        (":stages (first ()", ":stages (first", "E-RUN-005"),
        (":stages (first ()", ":stages (first 3", "E-RUN-005"),
        (":microbatches 2", ":microbatches 4", "E-RUN-007"),
        (":microbatches 2", ":microbatche 2", "E-RUN-002"),
        ("(:batch 6", "(:batch 21", "E-RUN-007"),
        (":batch 4 :shuffle t", ":shuffle t", "E-RUN-005"),
        (":steps 40", ":epochs 40", "E-RUN-011"),
        ("(defrun turns", "(defstate more ()) (defrun turns", "E-RUN-009"),
        ("(defun evaluate (model x y)", "(defun evaluate (model x y) (defstate more ())",
         "E-RUN-009"),
    ],
)  # fmt: skip
def test_what_is_refused(old: str, new: str, code: str) -> None:
    text = FILE.replace("(defrun turns", "(defparameter *m* (line))\n(defrun turns").replace(
        ":model (line)", ":model *m*"
    )
    assert old in text
    with pytest.raises(sx.CompileError) as caught:
        compiled(text.replace(old, new))
    assert code in [d.code.id for d in caught.value.diagnostics], caught.value


def test_a_macro_may_write_the_states() -> None:
    text = FILE.replace(
        "(defun curriculum ()\n  (defstate rounds () :dtype :i32)",
        "(defmacro counting (name) `(defstate ,name () :dtype :i32))\n"
        "(defun curriculum ()\n  (counting rounds)",
    )
    document = compiled(text).document
    assert [s.name for s in document.curriculum.states] == ["rounds", "total"]


def command(*words: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "sexpgpu", *words], cwd=ROOT, check=True, text=True,
        capture_output=True,
    ).stdout  # fmt: skip


def _turned_after_a_checkpoint(events: Path) -> bool:
    text = events.read_text() if events.exists() else ""
    return '"kind": "stage"' in text.partition('"kind": "checkpoint"')[2]


@pytest.mark.slow
def test_killed_after_a_turn_and_resumed(tmp_path: Path) -> None:
    """SIGKILL between a turn and the next checkpoint: the turn is made again, once."""
    file = tmp_path / "turns.sx"
    file.write_text(
        FILE.replace("(:every 3)", "(:every 120)")
        .replace(":steps 40", ":steps 1200")
        .replace(":log-every 1", ":log-every 5")
    )
    words = ["run", str(file), "--runs", str(tmp_path), "--device", "interp", "--quiet", "--slug"]
    events = tmp_path / "killed" / "events.jsonl"
    child = subprocess.Popen([sys.executable, "-m", "sexpgpu", *words, "killed"], cwd=ROOT)
    try:
        deadline = time.monotonic() + 120
        while not _turned_after_a_checkpoint(events):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert child.poll() is None, "it must be killed on its way"
        child.send_signal(signal.SIGKILL)
    finally:
        child.kill()
        child.wait()
    command(*words, "killed", "--resume", "latest")
    whole = sx.compile(file).run(runs=str(tmp_path), slug="whole", device="interp")
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    assert [(e["step"], e["stage"]) for e in lines if e["kind"] == "stage"] == [
        (e["step"], e["stage"]) for e in of_kind(whole, "stage")
    ]
    assert series(lines) == series(whole.events)
    assert "resume" in [e["kind"] for e in lines]
