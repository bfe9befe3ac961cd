"""What the sums of a group share with its updates is computed once, and gives the same bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import sexpgpu as sx
from sexpgpu.loop.handed import handed_on, update_graphs
from sexpgpu.lowering.interp.backend import InterpEngine

if TYPE_CHECKING:
    from pathlib import Path

    from sexpgpu.ir.graph import Graph

FILE = """
(require "sexpgpu/optim" :as optim)
(defoptimizer rooted (&key (lr 0.1))
  (defstate m (param-shape))
  (optimizer-update (p g)
    (setf m (+ (* 0.9 m) (sqrt (abs g))))
    (let* ((size (global-sum (sum m)))
           (part (tanh (/ m (+ 1 size))))
           (other (global-sum (sum (square part)))))
      (- p (* lr part (/ (+ 1 other)))))))
(defloader train :source (inline (x (0.0 1.0) (1.0 2.0)) (y 1.0 2.0)) :batch 2)
(defun prepare (batch) (values (field batch :x) (field batch :y)))
(defmodel line () (defparam w (2) :init 0.5) (defparam b ())
  (forward (x) (+ b (einsum "bi,i->b" x w))))
(defun objective (model x y) (mean (square (- (funcall model x) y))))
(defrun line :model (line) :optimizer (rooted) :steps 3 :log-every 1)
"""


def ops(graphs: list[Graph], name: str) -> int:
    return sum(node.op == name for graph in graphs for node in graph.nodes)


def test_each_value_is_computed_once_to_the_same_bits() -> None:
    document = sx.compile_text(FILE).document
    update = document.updates["w"]
    graphs = [document.graphs[name] for name in (*update.sums, update.graph)]
    assert ops(graphs, "sqrt") == 3
    handed = handed_on(graphs)
    assert (ops(handed, "sqrt"), ops(handed, "tanh")) == (1, 1)
    engine = InterpEngine()
    random = np.random.default_rng(0)
    given = {
        name: random.standard_normal(value.shape).astype(np.float32)
        for graph in graphs
        for name, value in graph.inputs.items()
    }
    kept: dict[str, np.ndarray] = {}
    for before, after in zip(graphs, handed, strict=True):
        wanted = engine.call(before, given)
        found = engine.call(after, given | kept)
        for name, value in wanted.items():
            assert found.pop(name).tobytes() == value.tobytes(), name
        kept |= found
    assert len(kept) == 2  # m, and part


def test_graphs_that_share_nothing_stay() -> None:
    document = sx.compile_text(FILE.replace("(sqrt (abs g))", "g").replace(
        "(global-sum (sum m))", "(global-sum (sum (abs p)))"
    ).replace("(rooted)", "(optim:sgd)")).document  # fmt: skip
    graphs = update_graphs(document)
    assert [len(each) for each in graphs.values()] == [1, 1]
    assert not any(name.startswith("kept/") for each in graphs.values() for name in each[0].inputs)


def test_a_draw_that_only_a_sum_reads(tmp_path: Path) -> None:
    text = FILE.replace("(sum m)", "(sum (* g (random-normal (shape g))))")
    losses = [
        sx.compile_text(text).run(runs=str(tmp_path / device), device=device).metrics["train/loss"]
        for device in ("interp", "cpu")
    ]
    np.testing.assert_allclose(losses[0].values, losses[1].values, rtol=1e-5)
