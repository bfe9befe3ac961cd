"""The split into microbatches changes nothing that is a mean over examples or tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sexpgpu as sx

# Row 0 has 10 tokens that count and gradient 1 each, row 1 has 100 and gradient 0: the gradient of
# the mean over tokens is 10/110, and never the mean of the rows' means, 0.5.
UNEQUAL = """
(require "sexpgpu/optim" :as optim)
(defknob parts 1)
(defloader train :source (inline (g {first} {second}) (m {mask1} {mask2})) :batch 2)
(defun prepare (batch) (values (field batch :g) (field batch :m)))
(defmodel scale () (defparam w (1)) (forward (g) (* g w)))
(defun objective (model g m)
  (let ((y (* m (funcall model g))))
    (values (/ (sum y) (sum m)) (sum m))))
(defrun unequal :model (scale) :optimizer (optim:sgd :lr 1.0) :steps 1 :microbatches parts)
"""


def numbers(values) -> str:
    return "(" + " ".join(f"{v:.1f}" for v in values) + ")"


def run_once(text: str, tmp_path: Path, device: str, **knobs):
    experiment = sx.compile_text(text, knobs=knobs)
    name = "-".join(f"{k}{v}" for k, v in knobs.items())
    return experiment.run(runs=str(tmp_path / name / device), device=device)


@pytest.mark.parametrize("device", ["interp", "cpu"])
@pytest.mark.parametrize("parts", [1, 2])
def test_unequal_token_counts(parts: int, device: str, tmp_path: Path) -> None:
    text = UNEQUAL.format(
        first=numbers([1.0] * 100),
        second=numbers([0.0] * 100),
        mask1=numbers([1.0] * 10 + [0.0] * 90),
        mask2=numbers([1.0] * 100),
    )
    run = run_once(text, tmp_path, device, parts=parts)
    np.testing.assert_allclose(run.parameters["w"], [-10 / 110], rtol=1e-6)
    np.testing.assert_allclose(run.metrics["train/grad-norm"].values, [10 / 110], rtol=1e-6)


@pytest.mark.parametrize("parts", [1, 2])
def test_a_step_without_weight_has_loss_zero_and_changes_nothing(parts, tmp_path) -> None:
    text = UNEQUAL.format(
        first=numbers([1.0] * 4), second=numbers([1.0] * 4), mask1=numbers([0.0] * 4),
        mask2=numbers([0.0] * 4),
    ).replace("(/ (sum y) (sum m))", "(/ (sum y) (max (sum m) 1.0))")  # fmt: skip
    run = run_once(text, tmp_path, "interp", parts=parts)
    assert run.parameters["w"] == [0.0]
    assert run.metrics["train/loss"].values == [0.0]


LAWS = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defknob parts 1)
(defloader train
  :source (synthetic 24 (x :f32 (6) (normal)) (n :i32 () (integers 0 5)) (y :i32 () (integers 0 3)))
  :batch 12 :shuffle t)
(defun prepare (batch) (values (field batch :x) (field batch :n) (field batch :y)))
(defmodel net ()
  (submodel a (nn:linear 6 8))
  (submodel drop (nn:dropout-layer 0.5))
  (submodel b (nn:linear 8 3))
  (forward (x)
    (let ((h (drop (tanh (a x)))))
      (loss-term :size (mean (square h)) :weight (* 1.0 (size h)))
      (metric :largest (amax (abs h)) :reduce :max)
      (metric :noise (mean (random-normal (shape x))))
      (b h))))
(defun objective (model x n y)
  (nn:cross-entropy (funcall model x) y :weight (cast n :f32)))
(defrun laws :model (net) :optimizer (optim:adamw :lr 0.05) :steps 4 :log-every 1
  :microbatches parts :clip-norm 0.5)
"""


@pytest.mark.parametrize("device", ["interp", pytest.param("cpu", marks=pytest.mark.slow)])
def test_weights_terms_dropout_clipping_and_metrics(device: str, tmp_path: Path) -> None:
    """Unequal weights, a second term with its own weight, dropout and noise: four steps with 1, 2,
    3 and 4 microbatches end in the same place and report the same."""
    whole = run_once(LAWS, tmp_path, device, parts=1)
    for parts in (2, 3, 4):
        split = run_once(LAWS, tmp_path, device, parts=parts)
        for name, series in whole.metrics.items():
            if name.startswith(("train/loss", "train/objective", "train/grad", "train/size")) or (
                name in ("train/largest", "train/noise", "train/size")
            ):
                np.testing.assert_allclose(
                    split.metrics[name].values, series.values, rtol=2e-5, atol=2e-6, err_msg=name
                )
        for path, value in whole.parameters.items():
            np.testing.assert_allclose(split.parameters[path], value, rtol=2e-4, atol=2e-5)


def test_what_mixes_examples_is_named_with_its_line() -> None:
    text = LAWS.replace("(b h)", "(b (- h (mean h :axis 0 :keep t)))")
    assert [d.code.id for d in sx.compile_text(text).diagnostics] == []
    found = sx.compile_text(text, knobs={"parts": 2}).diagnostics
    assert [d.code.id for d in found] == ["W-RUN-002"]
    assert "(- h (mean h" in found[0].span.text


@pytest.mark.parametrize("parts", [1, 3])
def test_a_metric_is_finished_after_it_is_reduced(parts: int, tmp_path: Path) -> None:
    """Perplexity is the exponential of the mean over all tokens, not a mean of exponentials."""
    extra = "(metric :scale (mean (square h)){}) (metric :largest"
    finished, plain = (
        run_once(
            LAWS.replace("(metric :largest", extra.format(end)), tmp_path / f"{i}", "interp",
            parts=parts,
        )
        for i, end in enumerate((" :finish #'exp", ""))
    )  # fmt: skip
    np.testing.assert_allclose(
        finished.metrics["train/scale"].values,
        np.exp(plain.metrics["train/scale"].values),
        rtol=1e-6,
    )
