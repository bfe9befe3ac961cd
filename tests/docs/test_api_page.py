"""The Python of the API page runs as it stands, from the checkout's root."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "sexpgpu" / "docs" / "api.md"


def test_the_page_runs_and_says_the_truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    for block in re.findall(
        r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    ):
        exec(compile(block, "api.md", "exec"), scope)
    np.testing.assert_allclose(scope["run"].predict(x=[[10.0]]), [[21.0]], atol=0.1)
    np.testing.assert_allclose(scope["g"].grad(scope["x"]), 2 * scope["x"])
    np.testing.assert_allclose(scope["y"], np.tanh(np.full((2, 4), 3.0)), rtol=1e-6)
    assert scope["sx"].evaluate("(loop for i below 4 collect (* i i))") == [0, 1, 4, 9]


FLOWERS = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train :source (npz "iris.npz") :batch 4 :shuffle t)
(defun prepare (batch) (values (field batch :x) (field batch :label)))
(defmodel net () (submodel fit (nn:linear 2 2)) (forward (x) (fit x)))
(defun objective (model x labels) (nn:cross-entropy (funcall model x) labels))
(defrun net :model (net) :optimizer (optim:adam :lr 0.1) :steps 150)
"""


def test_a_table_of_text_becomes_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipe of the page on data: the file that it makes trains, to the right answers."""
    import sexpgpu as sx

    monkeypatch.chdir(tmp_path)
    rows = [f"{i % 5}.5,{(i * 7) % 3},{'rose' if i % 5 > 2 else 'aster'}" for i in range(20)]
    (tmp_path / "iris.csv").write_text("\n".join(["length,width,species", *rows]))
    page = (ROOT / "sexpgpu" / "docs" / "data.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    exec(compile(block, "data.md", "exec"), {})
    experiment = sx.compile_text(FLOWERS, base=str(tmp_path))
    run = experiment.run(device="interp", runs=str(tmp_path / "runs"))
    with np.load("iris.npz") as data:
        found = run.predict(x=data["x"]).argmax(axis=1)
        assert (found == data["label"]).all()
        assert data["label"][3] == 1, "names in alphabetical order: rose is 1"
