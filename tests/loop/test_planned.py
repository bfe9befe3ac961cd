"""The types that a step is compiled for without data are those that a run gives it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sexpgpu as sx
from sexpgpu.loop.context import StepContext
from sexpgpu.loop.data.loader import TrainingBatches
from sexpgpu.loop.feeds import Feeder
from sexpgpu.loop.initial import initial_state
from sexpgpu.loop.planned import planned_step
from sexpgpu.loop.schedule import Schedule
from sexpgpu.loop.stages import programs
from sexpgpu.loop.statistics import compute
from sexpgpu.loop.step import Step, context_types
from sexpgpu.lowering.interp.dtypes import NUMPY

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ["line", "digits-batchnorm", "digits-gan", "digits-vae", "moe-char"]

EVERYTHING = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train
  :source (synthetic 64 (x :f32 (4) (:normal 1 2)) (label :u8 () (:integers 0 3)))
  :batch 8 :streams t)
(defun prepare (batch)
  (values (- (field batch :x) (statistic :train :x :mean)) (cast (field batch :label) :i32)))
(defmodel net ()
  (submodel up (nn:linear 4 8))
  (submodel even (nn:batch-norm 8))
  (submodel head (nn:linear 8 3))
  (defbuffer past (4) :per :example :init 0.25)
  (forward (x)
    (let ((seen (stop-gradient (+ past x))))
      (setf past seen)
      (head (even (up (+ x (* 0.1 seen))))))))
(defun objective (model x labels)
  (incf (counter :seen) (dim x 0))
  (* (cast (ctx :updates) :f32) (nn:cross-entropy (funcall model x) labels)))
(defrun net :model (net) :steps 4 :microbatches 2 :precision :f16
  :optimizer (optimizer-groups (optim:adamw :lr (lambda (s) (/ 1.0 (+ 1.0 s))))
               (group heads "head/**" :every 2)))
"""


def kinds(tree: Any) -> Any:
    """A tree of arrays or TensorTypes as a tree of (shape, NumPy dtype)."""
    if isinstance(tree, dict):
        return {name: kinds(part) for name, part in tree.items()}
    dtype = NUMPY[tree.dtype] if isinstance(tree.dtype, str) else tree.dtype
    return tuple(tree.shape), np.dtype(dtype)


@pytest.mark.parametrize("name", [*EXAMPLES, "everything"])
def test_planned_types_are_those_of_a_run(name: str) -> None:
    if name == "everything":
        document = sx.compile_text(EVERYTHING).document
    else:
        knobs = {"steps": 4} if name != "line" else {}
        document = sx.compile(ROOT / "examples" / f"{name}.sx", knobs=knobs).document
    stage = document.loader(document.run.train).stages[0]
    step = Step(document, stage.name, stage.microbatches or document.run.microbatches)
    batches = TrainingBatches(stage, document.run.train, document.run.seed)
    context = StepContext(batches, 4, 0, context_types(document, step.train))
    feeder = Feeder(document, batches, context, Schedule(document, [], 4, 1), None, 0)  # type: ignore[arg-type]
    _, (state, feed, constants) = planned_step(document, programs(document))
    assert kinds(state) == kinds(initial_state(document))
    assert kinds(feed) == kinds(feeder.one(0))
    assert kinds(constants) == kinds(compute(document))
    batches.close()
