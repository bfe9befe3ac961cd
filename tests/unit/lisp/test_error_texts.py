"""The whole texts of errors in ordinary code, as golden files: tests/golden/errors/NAME.sx holds
files with a mistake, one after another; NAME.txt what is said of each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sexpgpu.diagnostics import render
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.state import Limits
from sexpgpu.source import Source

FILES = sorted((Path(__file__).parents[2] / "golden" / "errors").glob("*.sx"))


def said_of(text: str) -> str:
    session = Session(Limits(fuel=1_000_000))
    try:
        found = session.load_all(Source("file.sx", text)).diagnostics
        return "\n".join(render.text(d) for d in found) or "no error"
    finally:
        session.close()


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_texts(path: Path, golden: Callable[[Path, str], None]) -> None:
    mistakes = path.read_text(encoding="utf-8").split("====\n")
    golden(path.with_suffix(".txt"), "\n====\n".join(map(said_of, mistakes)) + "\n")


def test_no_orphans() -> None:
    assert {p.stem for p in FILES} == {p.stem for p in FILES[0].parent.glob("*.txt")}
