"""The notebooks of the examples run from top to bottom, and hold their outputs."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))

pytestmark = [
    pytest.mark.slow,
    # the kernel's client, on its way out
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


def test_there_are_two() -> None:
    assert len(NOTEBOOKS) == 2


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_it_runs_and_shows_what_it_held(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    held = nbformat.read(path, as_version=4)
    ran = nbformat.read(path, as_version=4)
    folder = {"metadata": {"path": str(path.parent)}}
    NotebookClient(ran, timeout=300, kernel_name="python3", resources=folder).execute()
    kinds = [[output.output_type for output in c.get("outputs", [])] for c in ran.cells]
    assert kinds == [[output.output_type for output in c.get("outputs", [])] for c in held.cells]
    assert "error" not in {kind for cell in kinds for kind in cell}
    shown = [o.data for c in ran.cells for o in c.get("outputs", []) if "data" in o]
    if path.stem == "first-run":
        assert any("<svg" in data.get("text/html", "") for data in shown), "curves, the model"
