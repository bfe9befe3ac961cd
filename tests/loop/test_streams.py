"""Streams, and buffers whose rows follow them: against a loop in NumPy that keeps its own state."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sexpgpu as sx
from sexpgpu.loop.checkpoint import load
from sexpgpu.loop.data.loader import EvaluationBatches, Streams, TrainingBatches
from sexpgpu.loop.data.records import Records

FILE = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)

(defloader train :streams t :batch 4 :microbatches 2
  :source (synthetic 14 (x :f32 (2) (:normal 0 1)) (y :f32 () (:normal 1 1))))
(defloader valid :streams t :batch 3
  :source (synthetic 8 (x :f32 (2) (:normal 0 1)) (y :f32 () (:normal 0 1))))

(defun prepare (batch)
  (values (field batch :x) (field batch :y) (field batch :stream-start)))

(defmodel memory ()
  "A leaky sum of what a stream has shown, times w."
  (defparam w (2) :init 0.3)
  (defbuffer past (2) :per :example :init 0.25)
  (forward (x start)
    (let ((before (where (expand-dims start 1) 0.0 past)))
      (setf past (stop-gradient (+ (* 0.5 before) x)))
      (einsum "bi,i->b" past w))))

(defun objective (model x y start)
  (mean (square (- (funcall model x start) y))))

(defeval valid :loader valid :every 5)

(defrun memory :model (memory) :optimizer (optim:sgd :lr 0.05) :steps 12 :log-every 1
  :checkpoint (:every 2))
"""


def run(folder: Path, text: str = FILE, **options: Any) -> sx.Run:
    return sx.compile_text(text).run(runs=str(folder), **{"device": "interp", **options})


def columns(document: Any, loader: str) -> tuple[np.ndarray, np.ndarray]:
    records = Records(document.loader(loader).stages[0], loader, 0)
    found = records.read(np.arange(records.count))
    return found["x"].astype(np.float64), found["y"].astype(np.float64)


def valid_loss(document: Any, w: np.ndarray) -> float:
    """Eight records in three streams: 0 1 2, 3 4 5 and 6 7."""
    x, y = columns(document, "valid")
    losses = []
    for stream in ([0, 1, 2], [3, 4, 5], [6, 7]):
        past = np.zeros(2)
        for at in stream:
            past = 0.5 * past + x[at]
            losses.append((past @ w - y[at]) ** 2)
    return float(np.mean(losses))


@pytest.mark.parametrize("device", ["interp", "cpu"])
def test_rows_follow_their_streams(device: str, tmp_path: Path) -> None:
    """Fourteen records in four streams of three, which begin at 0, 4, 8 and 11; what is left of the
    longer two is dropped."""
    found = run(tmp_path, device=device)
    x, y = columns(found.document, "train")
    starts = np.array([0, 4, 8, 11])
    w, past, losses, valid = np.full(2, 0.3), np.zeros((4, 2)), [], []
    for step in range(12):
        place = step % 3
        past = (0.0 if place == 0 else 0.5) * past + x[starts + place]
        error = past @ w - y[starts + place]
        losses.append(np.mean(error**2))
        w = w - 0.05 * 2 * (past * error[:, None]).mean(0)
        if (step + 1) % 5 == 0 or step == 11:
            valid.append(valid_loss(found.document, w))
    np.testing.assert_allclose(found.metrics["train/loss"].values, losses, rtol=1e-5)
    np.testing.assert_allclose(found.metrics["eval/valid/loss"].values, valid, rtol=1e-5)
    np.testing.assert_allclose(found.parameters["w"], w, rtol=1e-5)


def test_a_resume_goes_on_with_the_rows(tmp_path: Path) -> None:
    whole = run(tmp_path, slug="whole")
    last, _ = load(f"{whole.directory}/checkpoints/12")
    assert last["buffer/past"].shape == (4, 2)
    for step in (2, 4, 10):
        again = run(tmp_path, slug=f"{step}", resume=f"{whole.directory}/checkpoints/{step}")
        tensors, _ = load(f"{again.directory}/checkpoints/12")
        assert {n: a.tobytes() for n, a in tensors.items()} == {
            n: a.tobytes() for n, a in last.items()
        }


def test_a_prediction_begins_anew(tmp_path: Path) -> None:
    text = FILE.replace(
        "(defeval", "(defun predict (model x y start) (funcall model x start))\n(defeval"
    )
    found = run(tmp_path, text)
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    told = found.predict(x=x, **{"stream-start": np.array([True, False, True])})
    before = np.array([[0.0], [0.25], [0.0]])
    np.testing.assert_allclose(told, (0.5 * before + x) @ found.parameters["w"], rtol=1e-6)


@pytest.mark.parametrize("count, batch", [(14, 4), (12, 4), (4, 4), (7, 3), (9, 1)])
def test_every_record_is_in_one_stream(count: int, batch: int) -> None:
    streams = Streams(count, batch)
    places = range(-(-count // batch))
    seen = [streams.records(place) for place in places]
    assert sorted(np.concatenate(seen)) == list(range(count))
    for a, b in pairwise(seen):
        np.testing.assert_array_equal(b, a[: len(b)] + 1)
    assert streams.started(0).all()
    assert not any(streams.started(place).any() for place in places if place)


def test_batches_tell_where_streams_begin() -> None:
    document = sx.compile_text(FILE).document
    training = TrainingBatches(document.loader("train").stages[0], "train", 0)
    assert [training.read(p)["stream-start"].all() for p in range(7)] == [
        True, False, False, True, False, False, True,
    ]  # fmt: skip
    valid = EvaluationBatches(document.loader("valid").stages[0], "valid", 0, "valid")
    assert [len(batch["stream-start"]) for _, batch in valid] == [3, 3, 2]


@pytest.mark.parametrize(
    "old, new, code",
    [
        (":streams t :batch 4", ":batch 4", "E-DATA-002"),
        (":streams t :batch 4", ":streams t :shuffle t :batch 4", "E-DATA-006"),
        (":streams t :batch 4", ":streams t :drop-last nil :batch 4", "E-DATA-006"),
        ("(y :f32 () (:normal 1 1))", "(stream-start :f32 () (:normal 1 1))", "E-DATA-006"),
        (":per :example", ":per :batch", "E-PARAM-004"),
        (":per :example", ":pre :example", "E-RUN-002"),
        (":streams t :batch 4 :microbatches 2", ":streams t :stages (a (:batch 4) b (:batch 2))",
         "E-PARAM-009"),
        ("(setf past (stop-gradient (+ (* 0.5 before) x)))", "(setf past (mean x))",
         "E-PARAM-004"),
    ],
)  # fmt: skip
def test_what_is_refused(old: str, new: str, code: str) -> None:
    assert old in FILE
    with pytest.raises(sx.CompileError) as caught:
        sx.compile_text(FILE.replace(old, new))
    assert code in [d.code.id for d in caught.value.diagnostics], caught.value
