"""Diagnostics of a run: free until selected, true when they are, never in the way of training."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sexpgpu as sx
from sexpgpu.compiler import compile_source
from sexpgpu.ir.document import Diagnostics, Document
from sexpgpu.ir.document_json import document_hash
from sexpgpu.loop.feeds import Feeder, reporting
from sexpgpu.loop.initial import initial_state
from sexpgpu.loop.step import Step, context_types
from sexpgpu.lowering.backend import open_backend
from sexpgpu.source import Source

HEAD = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train
  :source (synthetic 64 (x :f32 (4) (:normal 0.0 1.0)) (y :f32 (1) (:normal 0.0 1.0))) :batch 16)
(defun prepare (batch) (values (field batch :x) (field batch :y)))
"""
MODEL = """
(defmodel net () (submodel one (nn:linear 4 8)) (submodel two (nn:linear 8 1))
  (forward (x) (let ((h (relu (one x)))) WATCH (two (dropout h 0.2)))))
(defun objective (model x y) (let ((p (funcall model x))) OBJECTIVE (nn:mse p y)))
(defoptimizer plain (&key (lr 0.05)) (defstate m (param-shape))
  (optimizer-update (p g) (setf m (+ (* 0.9 m) g)) UPDATE (- p (* lr m))))
(defrun net :model (net) :optimizer (plain) :steps 12 :log-every 3 :microbatches MICRO
  :precision PRECISION :checkpoint (:every 4) SELECT)
"""
NOTED = {
    "WATCH": "(diagnostic :hidden (+ h (* 0.0 (dropout h 0.5))) :reduce (list :rms :zeros :max "
    ":min :absmax :l2 :mean :nonfinite :histogram))",
    "OBJECTIVE": "(diagnostic :bias (mean (- p y))) (diagnostic :at (cast (ctx :samples) :f32))",
    "UPDATE": "(diagnostic :momentum m :reduce :l2)",
}


def text(noted: bool = True, select: str = "", micro: int = 1, precision: str = ":f32") -> str:
    made = HEAD + MODEL
    for word, form in NOTED.items():
        made = made.replace(word, form if noted else "")
    made = made.replace("SELECT", f":diagnostics (:select {select})" if select else "")
    return made.replace("MICRO", str(micro)).replace("PRECISION", precision)


def document(source: str, diagnostics: Diagnostics | None = None) -> Document:
    return compile_source(Source("t.sx", source), ".", diagnostics=diagnostics).checked()


def executable(made: Document) -> str:
    """The optimized HLO of the step that trains, less the tables that say which line of Python
    made it: they list lines in the order in which this process first met them."""
    from sexpgpu.loop.context import StepContext
    from sexpgpu.loop.data.loader import TrainingBatches
    from sexpgpu.loop.schedule import Schedule

    backend = open_backend("cpu")
    stage = made.loader("train").stages[0]
    step = Step(made, stage.name, made.run.microbatches)
    batches = TrainingBatches(stage, "train", made.run.seed)
    context = StepContext(batches, 12, made.run.seed, context_types(made, step.train))
    feeder = Feeder(made, batches, context, Schedule(made, [], 12, 1), backend, 0)
    text = backend.compile(reporting(step), (initial_state(made), feeder.one(0), {})).text()
    text = re.sub(r"^(FileNames|FunctionNames|FileLocations|StackFrames)\n(\d+ .*\n)*", "", text,
                  flags=re.MULTILINE)  # fmt: skip
    return re.sub(r" stack_frame_id=\d+", "", text)


@pytest.mark.parametrize("precision", [":f32", ":bf16"])
def test_the_executable_is_the_same_whatever_is_watched(precision: str) -> None:
    bare = document(text(False, precision=precision))
    noted = document(text(True, precision=precision))
    chosen = document(text(True, '"**"', precision=precision))
    assert document_hash(bare) == document_hash(noted) == document_hash(chosen)
    assert [n for n in noted.graphs if n.endswith("/diagnostics")] == []
    assert [n for n in chosen.graphs if n.endswith("/diagnostics")] != []
    hlo = executable(bare)
    assert len(hlo) > 1000
    assert executable(noted) == hlo
    assert executable(chosen) == hlo


def test_training_is_the_same_to_the_bit(tmp_path: Path) -> None:
    runs = {
        name: sx.compile_text(source).run(runs=str(tmp_path), slug=name, device="cpu")
        for name, source in (("bare", text(False)), ("chosen", text(True, '"**"')))
    }
    for path, array in runs["bare"].parameters.items():
        assert array.tobytes() == runs["chosen"].parameters[path].tobytes()
    assert [e["step"] for e in runs["chosen"].events if e["kind"] == "diagnostic"] == list(
        range(1, 13)
    )


def values(run: sx.Run) -> dict[int, dict[str, Any]]:
    return {e["step"]: e["values"] for e in run.events if e["kind"] == "diagnostic"}


@pytest.mark.parametrize("device", ["interp", pytest.param("cpu", marks=pytest.mark.slow)])
@pytest.mark.parametrize("micro", [1, 2])
def test_the_numbers_are_true(tmp_path: Path, device: str, micro: int) -> None:
    """Against NumPy, on what the run's own checkpoints say of the state before the step."""
    from sexpgpu.loop.checkpoint import load
    from sexpgpu.loop.data.loader import TrainingBatches

    source = text(True, '(list "**" "**/histogram") :every 5', micro)
    run = sx.compile_text(source).run(runs=str(tmp_path), slug="it", device=device)
    assert list(values(run)) == [5, 10]
    told = values(run)[5]
    before, _ = load(str(tmp_path / "it/checkpoints/4"))
    made = document(source)
    batch = TrainingBatches(made.loader("train").stages[0], "train", 0).read(4)
    w, b = before["param/one/w"], before["param/one/b"]
    one = batch["x"] @ w + b
    hidden = np.maximum(one, 0)
    wanted = {
        "act/one/mean": one.mean(), "act/one/rms": np.sqrt((one**2).mean()),
        "act/one/absmax": np.abs(one).max(), "act/one/zeros": 0.0, "act/one/nonfinite": 0.0,
        "hidden/rms": np.sqrt((hidden**2).mean()), "hidden/zeros": (hidden == 0).mean(),
        "hidden/max": hidden.max(), "hidden/min": 0.0, "hidden/absmax": hidden.max(),
        "hidden/l2": np.sqrt((hidden**2).sum()), "hidden/mean": hidden.mean(),
        "hidden/nonfinite": 0.0, "at": 64.0,
        "param/one/w/l2": np.sqrt((w**2).sum()), "param/one/w/rms": np.sqrt((w**2).mean()),
        "param/one/w/absmax": np.abs(w).max(),
    }  # fmt: skip
    for name, number in wanted.items():
        assert told[name] == pytest.approx(float(number), rel=2e-5, abs=1e-6), name
    counts = np.array(told["act/one/histogram"])
    assert counts.sum() == one.size
    edges = np.abs(one)[..., None] >= 2.0 ** np.arange(-24, 9)
    at_least = edges.reshape(-1, 33).sum(0)
    np.testing.assert_array_equal(counts[1:], at_least - np.append(at_least[1:], 0))
    # the momentum after the step is 0.9 m + g, and the parameter moves by lr times it
    step = sx.compile_text(source).run(runs=str(tmp_path), slug="five", device=device, steps=5)
    after, _ = load(str(tmp_path / "five/checkpoints/5"))
    m, old_m = after["state/one/w#m"], before["state/one/w#m"]
    g = m - 0.9 * old_m
    change = after["param/one/w"] - w
    for name, number in {
        "optim/one/w/momentum/l2": np.sqrt((m**2).sum()),
        "optim/one/w/m/rms": np.sqrt((m**2).mean()),
        "grad/one/w/l2": np.sqrt((g**2).sum()),
        "grad/one/w/absmax": np.abs(g).max(),
        "update/one/w/ratio": np.sqrt((change**2).sum()) / np.sqrt((w**2).sum()),
        "numerics/one/w/bf16-underflow": (np.abs(change) < np.abs(w) * 2.0**-9).mean(),
    }.items():
        assert told[name] == pytest.approx(float(number), rel=1e-3, abs=1e-5), name
    assert step.state == "finished"


def test_microbatches_tell_the_same(tmp_path: Path) -> None:
    one, two = (
        values(
            sx.compile_text(text(True, '(list "**" "**/histogram") :every 4', micro)).run(
                runs=str(tmp_path), slug=str(micro), device="interp"
            )
        )
        for micro in (1, 4)
    )
    assert one.keys() == two.keys()
    for name, value in one[4].items():
        assert two[4][name] == pytest.approx(value, rel=1e-4, abs=1e-5), name


def test_resumed_they_stand_once(tmp_path: Path) -> None:
    source = text(True, '"**" :every 2')
    whole = sx.compile_text(source).run(runs=str(tmp_path), slug="it", device="interp")
    again = sx.compile_text(source).run(runs=str(tmp_path), slug="it", device="interp", resume=4)
    steps = [e["step"] for e in again.events if e["kind"] == "diagnostic"]
    assert steps == [2, 4, 6, 8, 10, 12]
    assert values(again) == values(whole)


def test_selection_may_change_on_resume(tmp_path: Path) -> None:
    """What is watched is no part of the experiment: its slug and hash stay, and so does its run."""
    sx.compile_text(text(True)).run(runs=str(tmp_path), slug="it", device="interp")
    again = sx.compile_text(text(True, '"act/**"')).run(
        runs=str(tmp_path), slug="it", device="interp", resume=8
    )
    assert [e["step"] for e in again.events if e["kind"] == "diagnostic"] == [9, 10, 11, 12]
    assert not [e for e in again.events if e["kind"] == "warning"]


@pytest.mark.parametrize(
    "globs, names",
    [
        (["act/one/rms"], {"act/one/rms"}),
        (["act/one"], {f"act/one/{r}" for r in ("mean", "rms", "absmax", "zeros", "nonfinite")}),
        (["*/one/histogram"], {"act/one/histogram"}),
        (["grad/two/b/l2", "bias"], {"grad/two/b/l2", "bias"}),
        (["optim/two/b/**"], {"optim/two/b/momentum/l2", "optim/two/b/m/rms",
                              "optim/two/b/m/absmax"}),
        (["update/**"], {f"update/{p}/ratio" for p in ("one/w", "one/b", "two/w", "two/b")}),
    ],
)  # fmt: skip
def test_selection(tmp_path: Path, globs: list[str], names: set[str]) -> None:
    made = sx.compile_text(text(True), diagnostics=globs)
    run = made.run(runs=str(tmp_path), device="interp", steps=1)
    assert set(values(run)[1]) == names


def test_a_run_whose_selection_is_empty(tmp_path: Path) -> None:
    """It trains, and tells of no diagnostic."""
    line = str(Path(__file__).parents[2] / "examples" / "line.sx")
    run = sx.compile(line, diagnostics=["nothing/**"]).run(
        device="interp", runs=str(tmp_path), steps=2
    )
    assert run.state == "finished"
    assert "diagnostic" not in {event["kind"] for event in run.events}


def test_one_that_selects_nothing() -> None:
    found = sx.compile_text(text(True), diagnostics=["act/onne/**"]).diagnostics
    assert [d.code.id for d in found] == ["W-METRIC-001"]


@pytest.mark.parametrize(
    "form, said",
    [
        ("(diagnostic :x)", "a name and a tensor are wanted"),
        ("(diagnostic :x h :reduse :rms)", "no keyword :reduse"),
        ("(diagnostic :x h :reduce :rsm)", "wanted one of"),
        ("(diagnostic 3 h)", "wanted a keyword"),
        ("(diagnostic :x :y)", "wanted a tensor or a number"),
    ],
)
def test_mistakes(form: str, said: str) -> None:
    with pytest.raises(sx.CompileError) as caught:
        sx.compile_text(text(False).replace("(two (dropout", f"{form} (two (dropout"))
    assert caught.value.diagnostics[0].code.id == "E-METRIC-002"
    assert said in caught.value.diagnostics[0].headline


# -- the entropy of attention ---------------------------------------------------------------------

LOOK = """
(require "sexpgpu/optim" :as optim)
(defloader train :source (synthetic 2 (q :f32 (5 4 8) (:normal 0 1)) (k :f32 (6 2 8) (:normal 0 1)))
  :batch 2)
(defun prepare (batch) (values (field batch :q) (field batch :k)))
(defmodel look () (defparam s () :init 2.0) (defparam bias (4 5 6) :init #'random-normal)
  (forward (q k) (attention (* s q) k k KEYS)))
(defmodel net () (submodel inner (look)) (forward (q k) (inner q k)))
(defun objective (model q k) (mean (square (funcall model q k))))
(defrun net :model (net) :optimizer (optim:sgd :lr 1e-30) :steps 1 :precision PRECISION
  :microbatches MICRO :remat REMAT :diagnostics (:select "attn/**"))
"""


def entropy_of(q: np.ndarray, k: np.ndarray, bias: np.ndarray, keys: str) -> float:
    """The mean entropy of the weights, written out."""
    scores = np.einsum("bthd,bshd->bhts", 2.0 * q, np.repeat(k, 2, axis=2)) / np.sqrt(8)
    if ":softcap" in keys:
        scores = 3.0 * np.tanh(scores / 3.0)
    if ":bias" in keys:
        scores = scores + bias
    place, key = np.arange(5)[:, None] + 1, np.arange(6)[None]
    seen = np.ones((5, 6), bool)
    if ":causal" in keys:
        seen &= key <= place
    if ":window" in keys:
        seen &= np.abs(place - key) < 2 if ":causal" not in keys else place - key < 2
    if ":mask" in keys:
        seen &= key > 3  # the first queries of a causal attention see none of those
    scores = np.where(seen, scores, -np.inf)
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        p = powers / powers.sum(-1, keepdims=True)
        surprise = np.where(p > 0, -p * np.log(np.where(p > 0, p, 1)), 0)
    return float(np.where(seen.any(-1), surprise.sum(-1), 0).mean())


@pytest.mark.parametrize(
    "keys",
    [
        "", ":causal t", ":window 2", ":causal t :window 2", ":softcap 3.0", ":bias bias",
        ":causal t :bias bias :softcap 3.0", ":mask (> (arange 6) 3) :causal t",
        ":mask (> (arange 6) 3) :causal t :bias bias",
    ],
)  # fmt: skip
def test_the_entropy_of_attention(tmp_path: Path, keys: str) -> None:
    text = LOOK.replace("KEYS", keys)
    found = []
    for precision, micro, remat in (
        (":f32", 1, ":none"),
        (":f32", 2, ":full"),
        (":bf16", 1, ":none"),
    ):
        source = text.replace("PRECISION", precision).replace("MICRO", str(micro))
        run = sx.compile_text(source.replace("REMAT", remat)).run(
            runs=str(tmp_path), device="interp", fresh=True
        )
        assert list(values(run)[1]) == ["attn/inner/entropy"]
        found.append(values(run)[1]["attn/inner/entropy"])
    from sexpgpu.loop.data.loader import TrainingBatches

    batch = TrainingBatches(run.document.loader("train").stages[0], "train", 0).read(0)
    wanted = entropy_of(batch["q"], batch["k"], run.parameters["inner/bias"], keys)
    assert 0.01 < wanted < np.log(6)
    assert found[:2] == pytest.approx([wanted] * 2, rel=1e-5)
    assert found[2] == pytest.approx(wanted, rel=0.03)


def test_the_entropy_is_on_offer_and_costs_nothing_before_it_is_selected() -> None:
    text = LOOK.replace("KEYS", "").replace("PRECISION", ":f32").replace("MICRO", "1")
    text = text.replace("REMAT", ":none")
    chosen, bare = (
        sx.compile_text(t).document
        for t in (text, text.replace(':diagnostics (:select "attn/**")', ""))
    )
    assert document_hash(chosen) == document_hash(bare)
    found = sx.compile_text(text, diagnostics=["attn/inner/entropi"]).diagnostics
    assert "attn/inner/entropy" in (found[-1].fix or "")


def test_every_so_many_steps_by_the_api(tmp_path: Path) -> None:
    made = sx.compile_text(text(False), diagnostics=["act/one/rms"], diagnostics_every=5)
    assert list(values(made.run(runs=str(tmp_path), device="interp"))) == [5, 10]
    with pytest.raises(sx.CompileError) as refused:
        sx.compile_text(text(False), diagnostics=["act/**"], diagnostics_every=0)
    assert refused.value.diagnostics[0].code.id == "E-RUN-033"


def test_a_scan_whose_results_only_a_diagnostic_reads(tmp_path: Path) -> None:
    """The training graph has the scan without them, the diagnostics' with them."""
    source = text(False).replace(
        "(h (relu (one x)))", "(h (relu (one x))) (steps nil) (last nil)"
    ).replace(
        "(two (dropout h 0.2))",
        """(progn
           (multiple-value-setq (last steps)
             (scan (lambda (c e) (values (+ c e) (* c e))) (zeros (list 8)) h))
           (diagnostic :last last :reduce :l2) (diagnostic :steps steps :reduce :l2)
           (two (+ (dropout h 0.2) last)))""",
    )  # fmt: skip
    made = sx.compile_text(
        source.replace("(let ((h", "(let* ((h"), diagnostics=["last/**", "steps/**"]
    )
    told = values(made.run(runs=str(tmp_path), device="interp", steps=1))[1]
    assert set(told) == {"last/l2", "steps/l2"}
    assert all(value > 0 for value in told.values())
