"""`sexpgpu variants`: the declarations of a file, without evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest

FILE = """\
(defknob lr 3e-4 :doc "peak learning rate" :min 0.0 :max 1.0)
(defknob act :gelu :choices (:gelu :relu))
(defvariant wide "four times the width" (lr 1e-4))
(defsweep lrs (:grid (lr 1e-4 3e-4)))
(error "this must not be evaluated")
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "k.sx"
    path.write_text(FILE, encoding="utf-8")
    return str(path)


def test_json(sx, file: str) -> None:
    result = sx("variants", file, "--json")
    assert result.code == 0
    knobs = {knob["name"]: knob for knob in result.json["knobs"]}
    assert list(knobs) == ["lr", "act"]
    assert knobs["lr"] == {
        "name": "lr", "default": 3e-4, "doc": "peak learning rate", "min": 0.0, "max": 1.0,
        "choices": None,
    }  # fmt: skip
    assert knobs["act"]["choices"] == [":gelu", ":relu"]
    assert result.json["variants"] == [
        {"name": "wide", "doc": "four times the width", "values": {"lr": 1e-4}}
    ]
    assert result.json["sweeps"] == [{"name": "lrs", "clauses": ["(:grid (lr 1.0e-4 3.0e-4))"]}]


def test_text(sx, file: str) -> None:
    out = sx("variants", file).out
    assert "lr   3.0e-4  at least 0.0  at most 1.0  peak learning rate" in out
    assert "act  :gelu  one of :gelu :relu" in out
    assert "wide  lr=1.0e-4  four times the width" in out
    assert sx("variants", "-", stdin="(+ 1 2)").out == "no knobs, variants or sweeps\n"


def test_a_wrong_declaration(sx, tmp_path: Path) -> None:
    path = tmp_path / "bad.sx"
    path.write_text("(defknob lr (+ 1 2))\n", encoding="utf-8")
    result = sx("variants", str(path), "--json")
    assert result.code == 1
    assert result.json["error"]["code"].startswith("E-KNOB-")
