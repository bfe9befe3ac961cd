"""Whatever happened to an IR document, reading it ends soon: refused with a code, or sound, and
then it runs or is refused by the loop. SEXPGPU_FUZZ_SEED=S and SEXPGPU_FUZZ_DOCUMENTS=N choose
other mutants and more of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ir_fuzz import Fuzz, Real, outcome, real

import sexpgpu as sx
from sexpgpu.ir.document import Document
from sexpgpu.ir.document_json import document_hash, document_text, read_document
from sexpgpu.ir.document_text import parse_document, print_document
from sexpgpu.loop.run import RunOptions, execute
from sexpgpu.ops import infer

SEED = int(os.environ.get("SEXPGPU_FUZZ_SEED", "1"))
DOCUMENTS = int(os.environ.get("SEXPGPU_FUZZ_DOCUMENTS", "10000"))
RUNS = 100
"""How many of the accepted mutants are run."""

EXAMPLES = Path(__file__).parents[2] / "examples"
PARTS = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train
  :source (inline (x (0.0 1.0) (1.0 3.0) (2.0 5.0) (0.5 0.5)) (y 0 1 1 0)) :batch 2 :shuffle t)
(defun prepare (batch) (values (field batch :x) (field batch :y)))
(defmodel net ()
  (defbuffer seen () :init (zeros shape))
  (submodel up (nn:linear 2 4))
  (submodel norm (nn:layer-norm 4))
  (submodel head (nn:linear 4 2))
  (forward (x)
    (when (ctx :training) (setf seen (+ seen 1.0)))
    (head (scan (lambda (h e) (values (tanh (+ h (* 0.1 e))) nil))
                (recompute (lambda (x) (norm (dropout (relu (up x)) 0.5))) x)
                (ones (list 3 1))))))
(defun objective (model x y)
  (loss-term :size (mean (square x)))
  (metric :right (nn:accuracy (funcall model x) y))
  (nn:cross-entropy (funcall model x) y))
(defeval test :loader train :every 1)
(defrun net :model (net) :steps 2 :microbatches 2 :precision :bf16 :clip-norm 1.0
  :checkpoint (:every 1)
  :optimizer (optim:adamw :lr (optim:warmup-cosine :peak 1e-2 :warmup 1 :steps 2)))
"""
"""A little of everything: bodies, a buffer, terms, metrics, casts, a schedule, an evaluation."""


BODIES = """
(require "sexpgpu/optim" :as optim)
(defloader train :source (inline (x (0.0 1.0) (1.0 3.0))) :batch 2)
(defun prepare (batch) (field batch :x))
(defmodel net () (defparam w (2))
  (forward (x)
    (recompute (lambda (x) (scan (lambda (h e) (values (tanh (+ (* h w) e)) (dropout h 0.5)))
                                 (zeros (list (dim x 1))) x))
               x)))
(defun objective (model x) (mean (funcall model x)))
(defrun net :model (net) :optimizer (optim:sgd :lr 0.1) :steps 2)
"""
"""Graphs in graphs, and little else."""


def documents() -> list[Real]:
    """Most mutants are of the small ones. Only the first keeps the places of its nodes."""
    small = {"layers": 1, "heads": 1, "width": 8, "context": 8, "batch": 2}
    made = {
        "line": sx.compile(EXAMPLES / "line.sx"),
        "bodies": sx.compile_text(BODIES),
        "parts": sx.compile_text(PARTS),
        "digits-conv": sx.compile(EXAMPLES / "digits-conv.sx"),
        "gpt-char": sx.compile(EXAMPLES / "gpt-char.sx", knobs=small),
        "maml": sx.compile(EXAMPLES / "maml.sx"),
    }
    known = [real("line", made.pop("line").document)]
    for name, experiment in made.items():
        known.append(real(name, parse_document(print_document(experiment.document), infer)))
    return known


def trained(document: Document, folder: Path) -> str | None:
    """What is wrong with how one step of a document ended, or None."""
    options: dict[str, Any] = {"device": "interp", "steps": 1, "quiet": True}
    result = execute(
        document,
        RunOptions(runs=str(folder), slug="it", handle_signals=False, fresh=True, **options),
        ir_text=document_text(document),
        ir_hash=document_hash(document),
    )
    codes = [d.code.id for d in result.diagnostics if d.code.id.startswith("E-INT")]
    return f"{codes} {result.diagnostics}" if codes else None


def tried(count: int, runs: int, folder: Path) -> dict[str, str]:
    """What went wrong with that many mutants, each kind once, by what was done."""
    wrong: dict[str, str] = {}
    known = documents()
    whole = {document_hash(read_document(d.json, infer)) for d in known}
    fuzz = Fuzz(SEED, known)
    refused = 0
    for _ in range(count):
        mutant = fuzz.mutant()
        document, problem = outcome(mutant)
        refused += document is None
        if (
            document is not None
            and problem is None
            and runs
            and document_hash(document) not in whole
        ):
            runs -= 1
            try:
                problem = trained(document, folder)
            except Exception as error:  # noqa: BLE001  (that is what is looked for)
                problem = f"running: {type(error).__name__}: {error}"
        if problem is not None:
            wrong.setdefault(problem, mutant.said[:2000])
    assert count / 4 < refused < count
    return wrong


def test_damaged_documents(tmp_path: Path) -> None:
    assert not tried(60, 3, tmp_path)


@pytest.mark.slow
def test_many_damaged_documents(tmp_path: Path) -> None:
    assert not tried(DOCUMENTS, RUNS, tmp_path)
