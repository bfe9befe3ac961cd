"""What README shows: its example checks, trains, and its mistake is told in the words that stand
there."""

from __future__ import annotations

import re
from pathlib import Path

import sexpgpu as sx
from sexpgpu.compiler import check_text
from sexpgpu.diagnostics import render

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
EXAMPLE = re.search(r"^```lisp\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def test_the_example_trains(tmp_path: Path) -> None:
    assert EXAMPLE is not None
    assert len([line for line in EXAMPLE[1].splitlines() if line]) <= 20
    run = sx.compile_text(EXAMPLE[1]).run(device="interp", runs=str(tmp_path), steps=5)
    assert run.state == "finished"


def test_the_mistake_is_told_as_shown() -> None:
    assert EXAMPLE is not None
    shown = re.search(r"^```text\n(error.*?)\n```$", README, re.DOTALL | re.MULTILINE)
    assert shown is not None
    (found,) = check_text(
        EXAMPLE[1].replace("(nn:linear 4 width)", "(nn:linear 3 width)"), "net.sx"
    )
    assert render.text(found) == shown[1]
