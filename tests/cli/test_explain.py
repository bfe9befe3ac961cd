"""`sexpgpu explain FILE`: which parameters decay."""

from __future__ import annotations

import pytest

from sexpgpu.api import compile_text
from sexpgpu.explain.summary import parameters, summary
from sexpgpu.explain.text import explain_text

FILE = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train :source (inline (x (0.0) (1.0)) (y (1.0) (3.0))) :batch 2)
(defun prepare (batch) (values (field batch :x) (field batch :y)))
(defmodel line () (submodel fit (nn:linear 1 1)) (forward (x) (fit x)))
(defun objective (model x y) (nn:mse (funcall model x) y))
(defoptimizer mine (&key (lr 0.1) (decay 0.3)) (optimizer-update (p g) (- p (* lr g))))
(defrun line :model (line) :optimizer OPTIMIZER :steps 2)
"""


@pytest.mark.parametrize(
    "optimizer, w, b",
    [
        ("(optim:adamw :decay 0.25)", 0.25, 0.0),
        ("(optim:adamw :decay 0.25 :decay-all t)", 0.25, 0.25),
        ("(optim:sgd)", 0.0, 0.0),
        ("(optim:adam)", 0.0, 0.0),
        ("(optim:adamw :decay (optim:constant 0.25))", None, 0.0),
        ("(mine)", None, None),
        (
            '(optimizer-groups (optim:adamw :decay 0.25) (group still "**/w" :frozen t))',
            None,
            0.0,
        ),
        (
            "(optimizer-groups (mine) (group m (rank 2) :optimizer (optim:sgd :decay 0.5)))",
            0.5,
            None,
        ),
    ],
)
def test_decay(optimizer: str, w: float | None, b: float | None) -> None:
    document = compile_text(FILE.replace("OPTIMIZER", optimizer)).document
    assert {p["path"]: p["decay"] for p in parameters(document)} == {"fit/w": w, "fit/b": b}
    lines = explain_text(summary(document)).splitlines()
    head, row = (next(x for x in lines if x.startswith(s)) for s in ("path ", "fit/w "))
    end = head.index("decay") + len("decay")
    assert row[end - 5 : end].strip() == ("" if w is None else f"{w:g}")
