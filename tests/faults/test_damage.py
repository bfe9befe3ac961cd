"""What lies in a run directory, or in an IR document, is damaged."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sexpgpu as sx
from sexpgpu.diagnostics.model import SxError
from sexpgpu.ir.document_json import document_text, read_document
from sexpgpu.ops import infer

TEXT = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train :source (inline (x (0.0) (1.0)) (y (1.0) (3.0))) :batch 2)
(defun prepare (batch) (values (field batch :x) (field batch :y)))
(defmodel line () (submodel fit (nn:linear 1 1)) (forward (x) (fit x)))
(defun objective (model x y) (nn:mse (funcall model x) y))
(defeval v :loader train)
(defrun line :model (line) :optimizer (optim:sgd :lr 0.1) :steps 6 :checkpoint (:every 2))
"""


def run(folder: Path, **options: Any) -> sx.Run:
    return sx.compile_text(TEXT).run(runs=str(folder), slug="it", device="interp", **options)


def test_a_run_whose_checkpoints_are_all_damaged_is_not_started_over(tmp_path: Path) -> None:
    run(tmp_path)
    for meta in (tmp_path / "it/checkpoints").glob("*/meta.json"):
        meta.write_text("{")
    before = sorted(str(p) for p in tmp_path.rglob("*"))
    with pytest.raises(sx.RunError) as refused:
        run(tmp_path, resume="latest")
    assert refused.value.diagnostics[0].code.id == "E-CKPT-002"
    after = sorted(str(p) for p in tmp_path.rglob("*") if p.name not in ("lock.json", ".reserve"))
    assert [p for p in before if "checkpoints" in p] == [p for p in after if "checkpoints" in p]


@pytest.mark.parametrize("status", ["garbage", "[1]", ""])
def test_a_damaged_status_stops_no_resume(tmp_path: Path, status: str) -> None:
    whole = run(tmp_path).parameters
    (tmp_path / "it/status.json").write_text(status)
    again = run(tmp_path, resume="4")
    assert {k: v.tobytes() for k, v in again.parameters.items()} == {
        k: v.tobytes() for k, v in whole.items()
    }


def test_a_damaged_last_event_stops_no_resume(tmp_path: Path) -> None:
    run(tmp_path)
    with (tmp_path / "it/events.jsonl").open("a") as events:
        events.write("garbage\n")
    again = run(tmp_path, resume="4")
    assert again.state == "finished"
    assert [e["seq"] for e in again.events] == list(range(len(again.events)))


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return json.loads(document_text(sx.compile_text(TEXT).document))


def _inline(data: dict[str, Any]) -> Any:
    return data["loaders"][0]["stages"][0]["source"]


DAMAGE: list[Callable[[dict[str, Any]], Any]] = [
    lambda d: d["graphs"]["update/0"]["inputs"][0].update(name="zz"),
    lambda d: d["graphs"]["eval/v"]["inputs"][0].update(name="param/none"),
    lambda d: _inline(d).update(columns=[]),
    lambda d: _inline(d).update(count="2"),
    lambda d: _inline(d)["columns"]["x"].update(dtype="x"),
    lambda d: _inline(d)["columns"]["x"].update(values=[[1], 2]),
    lambda d: _inline(d)["columns"]["x"].update(values=[1.0]),
    lambda d: _inline(d).update(kind="npz"),
    lambda d: d["run"].update(evaluations=["none"]),
    lambda d: d["graphs"]["train/main"]["outputs"][2].update(value=0),
]


@pytest.mark.parametrize("change", [{"version": 1}, {"version": 99}, {"format": "other"}])
def test_a_document_of_another_version_is_refused(
    document: dict[str, Any], change: dict[str, Any]
) -> None:
    with pytest.raises(SxError) as refused:
        read_document(json.dumps(document | change), infer)
    (found,) = refused.value.diagnostics
    assert found.code.id == "E-IR-002"
    assert str(next(iter(change.values()))) in found.headline or "format" in change
    assert "compile" in (found.fix or found.code.fix)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_document_is_refused(
    document: dict[str, Any], damage: Callable[[dict[str, Any]], Any]
) -> None:
    changed = copy.deepcopy(document)
    damage(changed)
    assert changed != document
    with pytest.raises(SxError) as refused:
        read_document(json.dumps(changed), infer)
    assert refused.value.diagnostics[0].code.id.startswith("E-IR-")
