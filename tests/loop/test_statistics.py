"""Statistics of a field, blocks joined exactly."""

from pathlib import Path

import numpy as np
import pytest
from loop_documents import G, columns, make, t

import sexpgpu as sx
from sexpgpu.loop import statistics
from sexpgpu.loop.data.records import Records


@pytest.mark.parametrize("block", [1, 7, 4096])
def test_against_numpy(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(statistics, "_BLOCK", block)
    document = make()
    g = G()
    names = [f"statistic/train/x/{what}" for what in ("mean", "std", "min", "max")]
    for name in names:
        g.input(name, t("f32", 4))
    document.graphs["extra"] = g.b.finish("extra", {})
    found = statistics.compute(document)
    x = columns(50)["x"].astype(np.float64)
    for name, wanted in zip(names, (x.mean(0), x.std(0), x.min(0), x.max(0)), strict=True):
        assert found[name].dtype == np.float32
        np.testing.assert_allclose(found[name], wanted, rtol=1e-6)


def test_none_wanted() -> None:
    assert statistics.compute(make()) == {}


# -- in a run file ----------------------------------------------------------------------------

FILE = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train :batch 4
  :source (synthetic 20 (x :f32 (3) (:normal 5 2)) (y :f32 (1) (:normal 0 1))))
(defun prepare (batch)
  (values (/ (- (field batch :x) (statistic :train :x :mean)) (statistic :train :x :std))
          (field batch :y)))
(defmodel line () (submodel fit (nn:linear 3 1)) (forward (x) (fit x)))
(defun objective (model x y)
  (metric :least (mean (statistic :train :x :min)))
  (metric :most (mean (statistic :train :x :max)))
  (nn:mse (funcall model x) y))
(defun predict (model x y)
  (values (funcall model x) (ctx :step) (ctx :samples) (ctx :epoch) (ctx :updates)))
(defrun line :model (line) :optimizer (optim:sgd :lr (lambda (step) (* 0.01 (mean (statistic :train
  :x :std))))) :steps 7 :log-every 1)
"""


def test_a_run_uses_those_of_its_loader(tmp_path: Path) -> None:
    """In training, schedules and predictions, of this process or a checkpoint."""
    run = sx.compile_text(FILE).run(runs=str(tmp_path), device="interp")
    records = Records(run.document.loader("train").stages[0], "train", 0)
    x = records.read(np.arange(20))["x"].astype(np.float64)
    last = {name: series.values[-1] for name, series in run.metrics.items()}
    np.testing.assert_allclose(last["train/least"], x.min(0).mean(), rtol=1e-6)
    np.testing.assert_allclose(last["train/most"], x.max(0).mean(), rtol=1e-6)
    np.testing.assert_allclose(last["optim/default/lr"], 0.01 * x.std(0).mean(), rtol=1e-6)
    p = run.parameters
    wanted = (x[:2] - x.mean(0)) / x.std(0) @ p["fit/w"] + p["fit/b"]
    for one in (run, sx.open_run(str(run.directory), device="interp")):
        told, *numbers = one.predict(x=x[:2], y=np.zeros((2, 1)))
        np.testing.assert_allclose(told, wanted, rtol=1e-5, atol=1e-6)
        assert [int(n) for n in numbers] == [7, 28, 1, 7]


@pytest.mark.parametrize(
    "form, code",
    [
        ("(statistic :trian :x :mean)", "E-DATA-002"),
        ("(statistic :train :z :mean)", "E-DATA-002"),
        ("(statistic :train :x :median)", "E-RUN-006"),
        ("(statistic 3 :x :mean)", "E-DATA-002"),
    ],
)
def test_mistakes_name_what_there_is(form: str, code: str) -> None:
    with pytest.raises(sx.CompileError) as caught:
        sx.compile_text(FILE.replace("(statistic :train :x :mean)", form))
    assert code in [d.code.id for d in caught.value.diagnostics]
