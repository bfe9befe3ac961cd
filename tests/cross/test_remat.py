"""`defrun :remat`: the same numbers and less memory, whatever is computed again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sexpgpu as sx
from sexpgpu.explain.summary import summary
from sexpgpu.ir.document_json import document_hash
from sexpgpu.ir.graph import nodes_within
from sexpgpu.loop.feeds import reporting
from sexpgpu.loop.initial import initial_state
from sexpgpu.loop.step import Step
from sexpgpu.lowering.backend import open_backend

FILE = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train
  :source (synthetic 64 (x :f32 (8) (:normal 0.0 1.0)) (y :f32 (1) (:normal 0.0 1.0))) :batch 8)
(defun prepare (batch) (values (field batch :x) (field batch :y)))
(defmodel layer (width)
  (submodel pre (nn:rms-norm width))
  (submodel up (nn:linear width (* 2 width)))
  (submodel down (nn:linear (* 2 width) width))
  (defbuffer seen ())
  (forward (x by)
    (setf seen (+ seen (mean (square x))))
    (metric :size (mean (abs x)))
    NOTED
    (+ x (* by (dropout (down (nn:gelu (up (pre x)))) 0.1)))))
(defmodel net ()
  (submodel in (nn:linear 8 WIDTH))
  (submodel body (repeat BLOCKS (layer WIDTH)))
  (submodel out (nn:linear WIDTH 1))
  (forward (x) (out (body (in x) 0.5))))
(defun objective (model x y)
  (loss-term :small (* 1e-3 (mean (square (part-of model)))))
  (nn:mse (funcall model x) y))
(defun part-of (model) (param model "in/w"))
(defrun net :model (net) :optimizer (optim:adam :lr 0.01) :steps 4 :log-every 1
  :microbatches MICRO :precision PRECISION :remat REMAT SELECT)
"""


def file(remat: str, **words: Any) -> str:
    text = FILE.replace("REMAT", remat)
    defaults = {"WIDTH": 6, "BLOCKS": 3, "MICRO": 1, "PRECISION": ":f32", "SELECT": "", "NOTED": ""}
    for word, value in (defaults | words).items():
        text = text.replace(word, str(value))
    return text


def trained(tmp_path: Path, device: str, remat: str, **words: Any) -> sx.Run:
    return sx.compile_text(file(remat, **words)).run(
        runs=str(tmp_path), slug=remat[1:], device=device
    )


@pytest.mark.parametrize("precision", [":f32", ":bf16"])
@pytest.mark.parametrize("micro", [1, 2])
def test_the_same_to_the_bit_on_interp(tmp_path: Path, precision: str, micro: int) -> None:
    """Gradients, draws, buffers and metrics: four steps of Adam show any difference."""
    plain = trained(tmp_path, "interp", ":none", PRECISION=precision, MICRO=micro)
    assert {"train/body/1/size", "train/small"} <= plain.metrics.keys()
    for remat in (":blocks", ":full"):
        again = trained(tmp_path, "interp", remat, PRECISION=precision, MICRO=micro)
        for path, array in plain.parameters.items():
            assert array.tobytes() == again.parameters[path].tobytes(), (remat, path)
        for name in ("train/loss", "train/grad-norm", "train/body/1/size", "train/small"):
            assert plain.metrics[name].values.tolist() == again.metrics[name].values.tolist()
        assert plain._model["buffer/body/2/seen"] == again._model["buffer/body/2/seen"]


@pytest.mark.slow
@pytest.mark.parametrize("remat", [":blocks", ":full"])
def test_the_same_on_xla(tmp_path: Path, remat: str) -> None:
    plain = trained(tmp_path, "cpu", ":none")
    again = trained(tmp_path, "cpu", remat)
    for path, array in plain.parameters.items():
        # Adam divides by the gradient's size: its last bits move a parameter by a share of lr
        np.testing.assert_allclose(array, again.parameters[path], rtol=2e-4, atol=2e-5)


def deep(remat: str) -> str:
    return file(remat, WIDTH=32, BLOCKS=12).replace(":batch 8", ":batch 64")


def temporaries(remat: str) -> int:
    """Bytes that XLA plans for a step of 12 blocks, besides its arguments and results."""
    made = sx.compile_text(deep(remat)).document
    step = Step(made, "main", 1)
    batch = {"x": np.zeros((64, 8), np.float32), "y": np.zeros((64, 1), np.float32)}
    feed = {"batch": batch, "key": np.zeros(2, np.uint32), "ctx": {}, "active": {}}
    backend = open_backend("cpu")
    compiled = backend.compile(reporting(step), (initial_state(made), feed, {}))
    plan = compiled.memory()
    assert plan is not None
    return plan["temp"]


@pytest.mark.slow
def test_less_memory_as_xla_plans_it() -> None:
    plain, blocks = temporaries(":none"), temporaries(":blocks")
    assert blocks < 0.6 * plain


def test_explain_says_it_and_estimates_less() -> None:
    found = {remat: sx.compile_text(deep(remat)) for remat in (":none", ":blocks", ":full")}
    data = {remat: summary(e.document) for remat, e in found.items()}
    live = {remat: d["memory"]["live"] for remat, d in data.items()}
    assert live[":blocks"] < 0.6 * live[":none"]
    assert live[":full"] < 1.05 * live[":blocks"]
    flops = {remat: d["graphs"]["train/main"]["flops"] for remat, d in data.items()}
    assert 1.1 * flops[":none"] < flops[":blocks"] < 1.45 * flops[":none"]
    assert "blocks recomputed" in found[":blocks"].explain()
    assert "submodels recomputed" in found[":full"].explain()
    assert "recomputed" not in found[":none"].explain()
    # the draws are told once, and are those of the run without
    assert data[":none"]["draws"] == data[":blocks"]["draws"] == data[":full"]["draws"]
    assert len(data[":none"]["draws"]) == 12


def test_only_training_computes_again() -> None:
    document = sx.compile_text(file(":full") + "(defeval valid :loader train)").document
    again = {
        n for n, g in document.graphs.items() if "recompute" in {m.op for m in nodes_within(g)}
    }
    assert again == {"train/main"}


NOTED = "(diagnostic :hidden (* x (dropout x 0.5)) :reduce (list :rms :l2))"


def test_diagnostics_see_into_what_is_computed_again(tmp_path: Path) -> None:
    selected = {"NOTED": NOTED, "SELECT": ':diagnostics (:select (list "act/**" "body/**"))'}
    told = {
        remat: [
            e["values"]
            for e in trained(tmp_path, "interp", remat, **selected).events
            if e["kind"] == "diagnostic"
        ]
        for remat in (":none", ":blocks", ":full")
    }
    assert {"act/body/1/up/rms", "body/2/hidden/l2", "act/body/rms"} <= told[":none"][0].keys()
    assert told[":blocks"] == told[":none"]
    assert told[":full"] == told[":none"]


@pytest.mark.parametrize("remat", [":blocks", ":full"])
def test_diagnostics_that_are_not_selected_leave_no_trace(remat: str) -> None:
    bare, noted, chosen = (
        sx.compile_text(text).document
        for text in (
            file(remat),
            file(remat, NOTED=NOTED),
            file(remat, NOTED=NOTED, SELECT=':diagnostics (:select "**")'),
        )
    )
    assert document_hash(bare) == document_hash(noted) == document_hash(chosen)


def test_mistakes_and_doubts() -> None:
    with pytest.raises(sx.CompileError) as caught:
        sx.compile_text(file(":block"))
    (found,) = caught.value.diagnostics
    assert found.code.id == "E-RUN-006"
    assert ":blocks" in (found.fix or "")
    lonely = file(":blocks").replace("(repeat 3 (layer 6))", "(layer 6)")
    assert "W-RUN-005" in [d.code.id for d in sx.compile_text(lonely).diagnostics]
