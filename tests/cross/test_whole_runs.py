"""Promises about whole runs: resume to the bit, master weights, sound graphs after every pass."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
import pytest

import sexpgpu as sx
from sexpgpu.passes import pipeline

EXAMPLES = Path(__file__).parents[2] / "examples"
GPT = {"layers": 2, "heads": 2, "width": 16, "context": 16, "batch": 4, "drop": 0.2, "steps": 24}


@pytest.mark.parametrize("device", [pytest.param("cpu", marks=pytest.mark.slow), "interp"])
def test_stopped_and_resumed_is_the_same_to_the_bit(device: str, tmp_path: Path) -> None:
    """Dropout, warm-up and cosine, clipping, an epoch's shuffle: 24 steps, and 11 + 13."""
    text = (EXAMPLES / "gpt-char.sx").read_text()
    text = text.replace(":clip-norm 1.0", ":clip-norm 1.0 :log-every 1 :microbatches 2")
    experiment = sx.compile_text(text, base=str(EXAMPLES), knobs=GPT)
    whole = experiment.run(runs=str(tmp_path / "whole"), device=device)
    parts = tmp_path / "parts"
    first = experiment.run(runs=str(parts), device=device, steps=11)
    second = experiment.run(runs=str(parts), device=device, resume="latest", allow_change=True)
    assert first.directory == second.directory
    for path, value in whole.parameters.items():
        assert value.tobytes() == second.parameters[path].tobytes(), path
    for name in ("train/loss", "train/grad-norm", "optim/default/lr"):
        np.testing.assert_array_equal(second.metrics[name].steps, whole.metrics[name].steps)
        np.testing.assert_array_equal(second.metrics[name].values, whole.metrics[name].values)
    lines = (Path(second.directory) / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(len(lines)))


def test_bf16_keeps_master_weights(tmp_path: Path) -> None:
    """w = 1, gradient 1, lr 6e-4, 100 steps of SGD: 0.94; in pure bf16 w would stay at 1."""
    text = """
(require "sexpgpu/optim" :as optim)
(defloader train :source (inline (x 1.0)) :batch 1)
(defun prepare (batch) (field batch :x))
(defmodel one () (defparam w (1) :init 1.0) (forward (x) (* x w)))
(defun objective (model x) (mean (funcall model x)))
(defrun one :model (one) :optimizer (optim:sgd :lr 6e-4) :steps 100 :precision :bf16)
"""
    for device in ("cpu", "interp"):
        run = sx.compile_text(text).run(runs=str(tmp_path / device), device=device)
        np.testing.assert_allclose(run.parameters["w"], [0.94], rtol=1e-5)


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_every_graph_is_sound_after_every_pass(
    precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    checking = functools.partial(
        pipeline.run, check=True, seen=lambda name, graph: seen.append(graph.name)
    )
    monkeypatch.setattr(pipeline, "run", checking)
    experiment = sx.compile(EXAMPLES / "gpt-char.sx", knobs={**GPT, "precision": f":{precision}"})
    assert {"train/main", "eval/valid", "predict"} <= set(seen) & set(experiment.document.graphs)


def test_adding_a_layer_does_not_change_the_others_initial_values() -> None:
    from sexpgpu.loop.initial import initial_state

    def start(clause: str) -> dict[str, np.ndarray]:
        text = f"""
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train :source (synthetic 4 (x :f32 (3) (normal))) :batch 4)
(defun prepare (batch) (field batch :x))
(defmodel net () {clause} (submodel out (nn:linear 3 1)) (forward (x) (out x)))
(defun objective (model x) (mean (funcall model x)))
(defrun net :model (net) :optimizer (optim:sgd) :steps 1)
"""
        return initial_state(sx.compile_text(text).document)["param"]

    plain, more = start(""), start("(submodel extra (nn:linear 3 3))")
    np.testing.assert_array_equal(plain["out/w"], more["out/w"])
    assert not np.array_equal(more["extra/w"][:, :1], more["out/w"])


LINE = (EXAMPLES / "line.sx").read_text()


def test_a_run_keeps_its_own_curve_and_a_trial_its_own_folder(tmp_path: Path) -> None:
    experiment = sx.compile_text(LINE)
    trial = experiment.run(runs=str(tmp_path), device="interp", steps=20)
    whole = experiment.run(runs=str(tmp_path), device="interp")
    assert trial.directory != whole.directory
    again = experiment.run(runs=str(tmp_path), device="interp", steps=20, fresh=True)
    assert again.directory == trial.directory
    assert trial.metrics["train/loss"].steps[-1] == 20
    assert whole.metrics["train/loss"].steps[-1] == 200


def test_what_a_file_prints_is_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = LINE.replace("(forward (x) (fit x))", '(forward (x) (format t "~s~%" x) (fit x))')
    sx.compile_text('(princ "hello")' + text)
    out = capsys.readouterr().out
    assert out.startswith("hello")
    assert "#<tensor f32 (3 1)" in out


def test_a_loss_term_in_a_model_has_no_effect_on_prediction(tmp_path: Path) -> None:
    text = LINE.replace(
        "(forward (x) (fit x))",
        '(forward (x) (loss-term :size (mean (square (param fit "w")))) (fit x))',
    )
    run = sx.compile_text(text).run(runs=str(tmp_path), device="interp", steps=3)
    assert "train/size" in run.metrics
    assert run.predict(x=[[1.0]]).shape == (1, 1)
