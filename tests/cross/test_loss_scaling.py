"""f16: the loss's scale backs off and grows, skips what overflows, and resumes to the bit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import sexpgpu as sx
from sexpgpu.loop import scaling

FILE = """(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defknob precision :f16)
(defknob height 1.0)
(defloader train
  :source (synthetic 64 (x :f32 (6) (normal)) (y :f32 (2) (normal)))
  :batch 8 :shuffle t)
(defun prepare (batch) (values (field batch :x) (field batch :y)))
(defmodel net ()
  (submodel one (nn:linear 6 16))
  (submodel two (nn:linear 16 2))
  (forward (x) (two (tanh (one x)))))
(defun objective (model x y) (* height (nn:mse (funcall model x) y)))
(defrun net :model (net) :optimizer (optim:adamw :lr 0.01) :steps 24 :log-every 1
  :clip-norm 1.0 :precision precision)
"""


def test_f16_follows_f32(tmp_path: Path) -> None:
    """Gradients reach the optimizer unscaled: the curve is that of f32, to f16's rounding."""
    losses = {}
    for precision in (":f32", ":f16"):
        experiment = sx.compile_text(FILE, knobs={"precision": precision})
        run = experiment.run(runs=str(tmp_path / precision[1:]), device="cpu")
        losses[precision] = run.metrics["train/loss"].values
        norms = run.metrics["train/grad-norm"].values
        assert norms.max() < 10
    assert len(losses[":f16"]) == 24
    np.testing.assert_allclose(losses[":f16"], losses[":f32"], rtol=2e-2)


@pytest.mark.parametrize("device", ["cpu", "interp"])
def test_an_overflow_is_skipped_and_the_scale_halved(device: str, tmp_path: Path) -> None:
    """Gradients of about 1 times 2000 times 65536 do not fit into f16: 65504."""
    experiment = sx.compile_text(FILE, knobs={"height": 2000.0})
    run = experiment.run(runs=str(tmp_path), device=device, steps=12)
    assert run.state == "finished"
    skipped, scales = run.metrics["train/skipped"].values, run.metrics["train/loss-scale"].values
    count = int(skipped.sum())
    assert 1 <= count < 12
    assert skipped[0] == 1
    np.testing.assert_array_equal(scales, 2.0**16 / 2.0 ** np.cumsum([0, *skipped[:-1]]))
    assert run.metrics["train/nonfinite"].values.sum() == 0
    assert all(np.isfinite(x).all() for x in run.parameters.values())


def test_steps_that_overflow_tell_their_loss_and_no_norm(tmp_path: Path) -> None:
    """The forward pass of a skipped step is sound: its loss counts. Its gradients have no norm."""
    knobs = {"height": 2000.0}
    run = sx.compile_text(FILE, knobs=knobs).run(runs=str(tmp_path), device="interp", steps=12)
    skipped = run.metrics["train/skipped"].values == 1
    assert 0 < skipped.sum() < 12
    plain = sx.compile_text(FILE, knobs={**knobs, "precision": ":f32"})
    first = plain.run(runs=str(tmp_path / "f32"), device="interp", steps=1)
    losses = run.metrics["train/loss"].values
    assert np.isfinite(losses).all()
    np.testing.assert_allclose(losses[0], first.metrics["train/loss"].values[0], rtol=1e-2)
    np.testing.assert_array_equal(
        run.metrics["train/grad-norm"].steps, np.flatnonzero(~skipped) + 1
    )


def test_the_scale_grows_and_resumes_to_the_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scaling, "GROWTH_STEPS", 4)
    experiment = sx.compile_text(FILE, knobs={"height": 500.0})
    whole = experiment.run(runs=str(tmp_path / "whole"), device="cpu")
    scales = whole.metrics["train/loss-scale"].values
    assert (np.diff(scales) > 0).any()
    assert (np.diff(scales) < 0).any()
    parts = str(tmp_path / "parts")
    experiment.run(runs=parts, device="cpu", steps=11)
    second = experiment.run(runs=parts, device="cpu", resume="latest", allow_change=True)
    for path, value in whole.parameters.items():
        assert value.tobytes() == second.parameters[path].tobytes(), path
    for name in ("train/loss-scale", "train/skipped", "train/loss"):
        np.testing.assert_array_equal(second.metrics[name].values, whole.metrics[name].values)


def test_a_loss_that_is_not_finite_is_no_matter_of_scaling(tmp_path: Path) -> None:
    text = FILE.replace("(* height (nn:mse", "(/ height (* 0.0 (nn:mse").replace(
        "x) y)))", "x) y))))"
    )
    with pytest.raises(sx.RunError) as caught:
        sx.compile_text(text).run(runs=str(tmp_path), device="cpu", steps=3)
    assert [d.code.id for d in caught.value.diagnostics] == ["E-RUN-031"]


def test_other_precisions_have_no_scale(tmp_path: Path) -> None:
    run = sx.compile_text(FILE, knobs={"precision": ":bf16"}).run(
        runs=str(tmp_path), device="interp", steps=2
    )
    text = Path(run.directory or "", "events.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert not any("train/loss-scale" in line.get("metrics", {}) for line in lines)
