"""crosscheck finds nothing where the backends agree, and the node where one is made to be wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner
from jax import lax

import sexpgpu as sx
from sexpgpu.cli.main import commands
from sexpgpu.lowering.xla import rules as _all_rules  # noqa: F401
from sexpgpu.lowering.xla.registry import RULES

FILE = """(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defknob precision :f32)
(defloader train
  :source (synthetic 64 (x :f32 (6) (normal)) (y :f32 (2) (normal)))
  :batch 8 :shuffle t)
(defun prepare (batch) (values (field batch :x) (field batch :y)))
(defmodel net ()
  (submodel one (nn:linear 6 5))
  (submodel two (nn:linear 5 2))
  (forward (x)
    (two (dropout
           (tanh (one x))
           0.2))))
(defun objective (model x y) (nn:mse (funcall model x) y))
(defrun net :model (net) :optimizer (optim:adamw :lr 0.01) :steps 20 :microbatches 2
  :clip-norm 1.0 :precision precision)
"""


def wrong(monkeypatch: pytest.MonkeyPatch, op: str, change: Any) -> None:
    """The lax rule of an op, with its result changed."""
    rule = RULES[op]

    def changed(*operands: Any, **attrs: Any) -> Any:
        return change(rule.function(*operands, **attrs))

    monkeypatch.setitem(RULES, op, rule._replace(function=changed))


@pytest.mark.parametrize("precision", [":f32", ":bf16"])
def test_backends_agree(precision: str) -> None:
    found = sx.crosscheck(sx.compile_text(FILE, knobs={"precision": precision}), "cpu", steps=2)
    assert found.agrees, found.diagnostic()
    assert found.calls["train/main"] == 4  # two steps of two microbatches
    assert {"train/main", "clip"} <= set(found.worst)
    assert any(graph.startswith("update/") for graph in found.worst)
    assert found.to_json()["agrees"] is True
    assert not found.nodes


def test_a_wrong_rule_is_found_at_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong(monkeypatch, "tanh", lambda y: lax.mul(y, lax.full_like(y, 1.001)))
    found = sx.crosscheck(sx.compile_text(FILE, name="net.sx"), "cpu", steps=1)
    assert not found.agrees
    assert found.first is not None
    report = found.first.to_json()
    assert (report["op"], report["direction"]) == ("tanh", "forward")
    assert (report["file"], report["line"]) == ("net.sx", 13)
    assert report["error"] == pytest.approx(1e-3, rel=0.1)
    diagnostic = found.diagnostic()
    assert diagnostic is not None
    assert diagnostic.code.id == "E-NUM-002"
    assert "tanh, forward" in diagnostic.headline


def test_a_wrong_rule_of_the_backward_pass_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An op that only the derivatives use."""
    experiment = sx.compile_text(FILE, name="net.sx")
    graph = experiment.document.graphs["train/main"]
    back = [n for n in graph.nodes if n.origin.note.startswith("gradient")]
    forward = {n.op for n in graph.nodes if n not in back}
    only = sorted({n.op for n in back if n.result.dtype == "f32"} - forward)
    assert only
    wrong(monkeypatch, only[0], lambda y: lax.mul(y, lax.full_like(y, 1.01)))
    found = sx.crosscheck(experiment, "cpu", steps=1)
    assert found.first is not None
    assert (found.first.node.op, found.first.direction) == (only[0], "backward")


def test_one_wrong_element_of_many_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong(monkeypatch, "tanh", lambda y: y.at[0, 0].set(float("nan")) if y.ndim == 2 else y)
    found = sx.crosscheck(sx.compile_text(FILE), "cpu", steps=1)
    assert found.first is not None
    assert found.first.node.op == "tanh"
    assert found.to_json()["first"]["error"] == "inf"


def test_by_node_compares_all_of_them() -> None:
    experiment = sx.compile_text(FILE)
    found = sx.crosscheck(experiment, "cpu", steps=1, by_node=True)
    assert found.agrees, found.diagnostic()
    graph = experiment.document.graphs["train/main"]
    assert [n.index for n in found.nodes if n.graph == "train/main"] == list(
        range(len(graph.nodes))
    )


def test_the_command(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.sx").write_text(FILE)
    words = ["crosscheck", "net.sx", "--device", "cpu", "--steps", "1"]
    good = CliRunner().invoke(commands, [*words, "--by-node"], standalone_mode=False)
    assert good.return_value == 0
    assert "cpu and interp agree over 1 step\n" in good.stdout
    wrong(monkeypatch, "tanh", lax.neg)
    bad = CliRunner().invoke(commands, [*words, "--json"], standalone_mode=False)
    assert bad.return_value == 1
    data = json.loads(bad.stdout)
    assert (data["agrees"], data["first"]["op"], data["first"]["line"]) == (False, "tanh", 13)
    assert "E-NUM-002" in bad.stderr


WHOLE = """(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train
  :source (synthetic 64 (x :f32 (6) (normal)) (y :f32 (2) (normal)))
  :batch 8 :shuffle t)
(defloader held-out
  :source (synthetic 21 (x :f32 (6) (normal)) (y :f32 (2) (normal)))
  :batch 8)
(defun prepare (batch)
  (values (field batch :x) (field batch :y)))
(defmodel net ()
  (submodel one (nn:linear 6 5 :bias nil))
  (submodel normed (nn:batch-norm 5))
  (submodel two (nn:linear 5 2))
  (forward (x)
    (two (dropout
           (tanh (normed (one x)))
           0.2))))
(defun objective (model x y)
  (diagnostic :wide x :reduce :absmax)
  (nn:mse (funcall model x) y))
(defun evaluate (model x y)
  (let ((out (funcall model x)))
    (metric :worst (amax (erf (- out y))) :reduce :max)
    (nn:mse out y)))
(defun predict (model x y) (values (funcall model x) (cosh (sum x))))
(defeval held-out :loader held-out :every 10)
(defeval raw :loader held-out :every 10 :batches 1 :weights :raw)
(defrun net :model (net) :optimizer (optim:ema (optim:sgd :lr 0.01) :decay 0.9) :steps 20
  :diagnostics (:select "wide" :every 5))
"""


@pytest.mark.slow
def test_evaluations_prediction_and_diagnostics_are_compared() -> None:
    found = sx.crosscheck(sx.compile_text(WHOLE), "cpu", steps=1, by_node=True)
    assert found.agrees, found.diagnostic()
    calls = found.calls
    assert calls["train/main"] == calls["train/main/diagnostics"] == calls["predict"] == 1
    assert calls["eval/held-out"] == calls["eval/held-out/rest"] == calls["eval/raw"] == 1
    assert any(name.startswith("average/") for name in calls)
    assert {n.graph for n in found.nodes} == set(calls)


@pytest.mark.slow
def test_wrong_rules_outside_of_training(monkeypatch: pytest.MonkeyPatch) -> None:
    for op in ("erf", "cosh"):  # of evaluate, of predict
        wrong(monkeypatch, op, lambda y: lax.mul(y, lax.full_like(y, 1.01)))
    found = sx.crosscheck(sx.compile_text(WHOLE, name="net.sx"), "cpu", steps=1)
    assert found.first is not None
    assert (found.first.graph, found.first.to_json()["line"]) == ("eval/held-out", 24)
    differ = {d.graph: d for d in found.differences}
    assert set(differ) == {"eval/held-out", "eval/held-out/rest", "eval/raw", "predict"}
    assert differ["predict"].place == "batch 0"
