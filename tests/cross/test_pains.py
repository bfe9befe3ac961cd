"""Faults that users of other frameworks report again and again, with the very numbers."""

from __future__ import annotations

from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sexpgpu as sx
from sexpgpu.loop.checkpoint import load, read_meta

HEAD = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
"""


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("device", ["interp", "cpu"])
def test_clipped_once_after_averaging(parts: int, device: str, tmp_path: Path) -> None:
    """Gradients [2, 0] and [0, 2], greatest norm 1: the mean [1, 1] becomes [0.7071, 0.7071]."""
    text = (
        HEAD
        + f"""
    (defloader train :source (inline (x (2.0 0.0) (0.0 2.0))) :batch 2)
    (defun prepare (batch) (field batch :x))
    (defmodel net () (defparam w (2)) (forward (x) (sum (* x w) :axis 1)))
    (defun objective (model x) (mean (funcall model x)))
    (defrun net :model (net) :optimizer (optim:sgd :lr 1.0) :steps 1 :clip-norm 1.0
      :microbatches {parts})
    """
    )
    run = sx.compile_text(text).run(runs=str(tmp_path), device=device)
    np.testing.assert_allclose(run.parameters["w"], [-(0.5**0.5)] * 2, rtol=1e-6)
    np.testing.assert_allclose(run.metrics["train/grad-norm"].values, [2**0.5], rtol=1e-6)


def test_dropout_differs_by_step_site_and_example(tmp_path: Path) -> None:
    """Two sites of a model, two examples, two steps: masks that agree by chance alone."""
    text = (
        HEAD
        + """
    (defloader train :streams t :batch 2 :source (synthetic 8 (x :f32 (500) (:uniform 1 2))))
    (defun prepare (batch) (field batch :x))
    (defmodel net ()
      (defparam w ())
      (defbuffer one (500) :per :example)
      (defbuffer two (500) :per :example)
      (forward (x)
        (setf one (stop-gradient (dropout (/ x x) 0.5))
              two (stop-gradient (dropout (/ x x) 0.5)))
        (* w (mean x))))
    (defun objective (model x) (square (funcall model x)))
    (defrun net :model (net) :optimizer (optim:sgd :lr 0.1) :steps 2 :checkpoint (:every 1))
    """
    )
    run = sx.compile_text(text).run(runs=str(tmp_path), device="interp")
    masks = [
        mask
        for step in (1, 2)
        for site in ("one", "two")
        for mask in load(f"{run.directory}/checkpoints/{step}")[0][f"buffer/{site}"]
    ]
    assert len(masks) == 8
    for a, b in combinations(masks, 2):
        assert set(a) == {0.0, 2.0}
        assert 0.4 < np.mean(a == b) < 0.6


SCHEDULED = (
    HEAD
    + """
(defknob steps 20)
(defloader train :source (synthetic 40 (x :f32 (3) (:normal 0 1)) (y :f32 (1) (:normal 0 1)))
  :batch 8 :shuffle t)
(defun prepare (batch) (values (field batch :x) (field batch :y)))
(defmodel net () (submodel one (nn:linear 3 4)) (submodel two (nn:linear 4 1))
  (forward (x) (two (dropout (tanh (one x)) 0.3))))
(defun objective (model x y) (nn:mse (funcall model x) y))
(defrun net :model (net) :optimizer OPTIMIZER :steps steps :log-every 1 :checkpoint (:every EVERY))
"""
)
COSINE = "(optim:warmup-cosine :peak 0.1 :warmup 4 :steps steps)"
STABLE = "(optim:warmup-stable-decay :peak 0.1 :warmup 4 :stable 10 :decay 6)"


@pytest.mark.parametrize("schedule", [COSINE, STABLE])
@pytest.mark.parametrize("at", [5, 7])
def test_dropout_and_schedules_go_on_after_a_resume(schedule: str, at: int, tmp_path: Path) -> None:
    """Also from a checkpoint on the last batch of an epoch (five batches), to the bit."""
    text = SCHEDULED.replace("OPTIMIZER", f"(optim:adamw :lr {schedule})").replace("EVERY", str(at))
    experiment = sx.compile_text(text)
    whole = experiment.run(runs=str(tmp_path), slug="it", device="interp")
    again = experiment.run(runs=str(tmp_path), slug="it", device="interp", resume=at)
    for name in ("train/loss", "optim/default/lr"):
        assert again.metrics[name].steps.tolist() == list(range(1, 21))
        assert again.metrics[name].values.tolist() == whole.metrics[name].values.tolist()
    for path, array in whole.parameters.items():
        assert array.tobytes() == again.parameters[path].tobytes()


def test_raising_the_steps_of_a_cosine_names_the_knob(tmp_path: Path) -> None:
    text = SCHEDULED.replace("OPTIMIZER", f"(optim:adamw :lr {COSINE})").replace("EVERY", "10")
    sx.compile_text(text).run(runs=str(tmp_path), slug="it", device="interp")
    longer = sx.compile_text(text, knobs={"steps": 40})
    with pytest.raises(sx.RunError) as refused:
        longer.run(runs=str(tmp_path), slug="it", device="interp", resume="latest")
    (found,) = refused.value.diagnostics
    assert found.code.id == "E-CKPT-004"
    told = [note.text for note in found.notes]
    assert any("knobs.steps" in line and "20 -> 40" in line for line in told), told
    run = longer.run(
        runs=str(tmp_path), slug="it", device="interp", resume="latest", allow_change=True
    )
    (resumed,) = [e for e in run.events if e["kind"] == "resume"]
    assert resumed["manifest"]["selection"] != resumed["manifest_before"]["selection"]


def test_the_rate_that_is_told_is_the_rate_that_was_used(tmp_path: Path) -> None:
    """SGD with gradient 1: the rate of a step is how far it moves the parameter."""
    text = (
        HEAD
        + f"""
    (defknob steps 12)
    (defloader train :source (inline (x 1.0)) :batch 1)
    (defun prepare (batch) (field batch :x))
    (defmodel net () (defparam w ()) (forward (x) (* x w)))
    (defun objective (model x) (mean (funcall model x)))
    (defrun net :model (net) :optimizer (optim:sgd :lr {COSINE}) :steps steps :log-every 1
      :checkpoint (:every 1))
    """
    )
    run = sx.compile_text(text).run(runs=str(tmp_path), device="interp")
    rates = run.metrics["optim/default/lr"]
    folder = Path(run.directory or "") / "checkpoints"
    w = [0.0, *(float(load(str(folder / str(step)))[0]["param/w"]) for step in rates.steps)]
    np.testing.assert_allclose(-np.diff(w), rates.values, rtol=1e-5, atol=1e-7)
    assert len(set(rates.values.tolist())) > 8


@pytest.mark.parametrize("device", ["interp", "cpu"])
def test_a_zero_gradient_with_low_precision_states_moves_nothing(
    device: str, tmp_path: Path
) -> None:
    text = (
        HEAD
        + """
    (defoptimizer adam16 (&key (lr 0.1))
      (defstate m (param-shape) :dtype :bf16)
      (defstate v (param-shape) :dtype :bf16)
      (optimizer-update (p g)
        (setf m (cast (+ (* 0.9 (cast m :f32)) (* 0.1 g)) :bf16))
        (setf v (cast (+ (* 0.999 (cast v :f32)) (* 0.001 (square g))) :bf16))
        (- p (* lr (/ (cast m :f32) (+ (sqrt (cast v :f32)) 1e-8))))))
    (defloader train :source (inline (x 1.0)) :batch 1)
    (defun prepare (batch) (field batch :x))
    (defmodel net () (defparam w (3) :init 1.0) (forward (x) (* 0.0 (sum (* x w)))))
    (defun objective (model x) (funcall model x))
    (defrun net :model (net) :optimizer (adam16) :steps 3)
    """
    )
    run = sx.compile_text(text).run(runs=str(tmp_path), device=device)
    assert run.parameters["w"].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("device", ["interp", "cpu"])
def test_the_branch_not_taken_sends_no_nan_back(device: str) -> None:
    f = sx.function("(lambda (x) (sum (where (< x 1) x (sqrt x))))", device=device)
    found = f.grad(np.array([0.0, 0.5, 4.0], np.float32))
    np.testing.assert_allclose(found, [1.0, 1.0, 0.25], rtol=1e-6)


@pytest.mark.parametrize("device", ["interp", "cpu"])
def test_a_row_that_is_masked_whole_is_zero_with_finite_gradients(device: str) -> None:
    f = sx.function(
        "(lambda (q k) (sum (square (attention q k k :mask (< (arange 4) 0)))))", device=device
    )
    q, k = np.ones((1, 3, 2, 4), np.float32), np.ones((1, 4, 2, 4), np.float32)
    assert f(q, k) == 0
    for found in f.grad(q, k):
        assert not found.any()


ODD = (
    HEAD
    + """
(defloader train :source (inline (x 1.0 2.0 3.0 4.0)) :batch 4)
(defun prepare (batch) (field batch :x))
(defmodel net () (defparam w ()) (forward (x) (* x w)))
(defun objective (model x) (mean (funcall model x)))
(defrun net :model (net) :optimizer (optim:sgd :lr LR) :steps 4 OTHERS)
"""
)


@pytest.mark.parametrize(
    "rate, others, severity",
    [
        ("0.1", ":microbatches 3", "error"),
        ("0.1", ":clip-norm 0", "error"),
        ("0.1", ":clip-norm -1.0", "error"),
        ("0.0", "", "warning"),
        ("-0.1", "", "warning"),
    ],
)
def test_numbers_that_nobody_means(rate: str, others: str, severity: str) -> None:
    text = ODD.replace("LR", rate).replace("OTHERS", others)
    try:
        found = sx.compile_text(text).diagnostics
    except sx.CompileError as error:
        found = error.diagnostics
    assert [d.severity for d in found] == [severity], [d.headline for d in found]


def test_no_steps_are_an_error() -> None:
    with pytest.raises(sx.CompileError):
        sx.compile_text(
            ODD.replace("LR", "0.1").replace("OTHERS", "").replace(":steps 4", ":steps 0")
        )


def test_a_run_gives_back_every_byte_of_its_text(tmp_path: Path) -> None:
    """And one character changed in a required module, be it of a comment, changes the manifest."""
    module = "; ünï\r\n(defun rate () 0.1)\n"
    text = ODD.replace("(defrun", '(require "./mine.sx" :as mine)\n(defrun').replace(
        "LR", "(mine:rate)"
    )
    file = tmp_path / "a.sx"
    file.write_text(text.replace("OTHERS", ""))
    manifests: list[Any] = []
    for said in (module, module.replace("ünï", "üni")):
        (tmp_path / "mine.sx").write_bytes(said.encode())
        run = sx.compile(file).run(runs=str(tmp_path), slug="run", device="interp", fresh=True)
        meta = read_meta(f"{run.directory}/checkpoints/4")
        kept = {Path(one["name"]).name: one["text"] for one in meta["sources"]}
        assert (kept["a.sx"], kept["mine.sx"]) == (file.read_text(), said)
        (copy,) = Path(str(run.directory)).glob("sources/**/mine.sx")
        assert copy.read_bytes() == said.encode()
        manifests.append({Path(e["name"]).name: e["sha256"] for e in meta["manifest"]["sources"]})
    assert manifests[0]["a.sx"] == manifests[1]["a.sx"] == sha256(file.read_bytes()).hexdigest()
    assert manifests[1]["mine.sx"] == sha256((tmp_path / "mine.sx").read_bytes()).hexdigest()
    assert manifests[0]["mine.sx"] != manifests[1]["mine.sx"]
