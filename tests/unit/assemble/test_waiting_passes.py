"""Passes that find no mistakes wait for the document: a check goes without them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sexpgpu.compiler import compile_file
from sexpgpu.ir.structure import structure
from sexpgpu.passes.pipeline import optimized, recorded

DIGITS = str(Path(__file__).resolve().parents[3] / "examples" / "digits.sx")


def test_the_document_has_been_through_all_passes() -> None:
    compiled = compile_file(DIGITS)
    assert compiled.assembly is not None
    before = dict(compiled.assembly.store.graphs)
    document = compiled.checked()
    assert document.graphs.keys() == before.keys()
    waited = {name for name, graph in document.graphs.items() if graph is not before[name]}
    assert waited >= {"train/main", "eval/test", "predict"}
    assert len(document.graphs["train/main"].nodes) < len(before["train/main"].nodes)
    for name in waited:
        assert structure(document.graphs[name]) == structure(optimized(before[name], "f32"))
    again = dict(document.graphs)
    assert compiled.checked().graphs == again, "once"


@pytest.mark.parametrize("precision, waits", [(":bf16", False), (":f32", True)])
def test_passes_that_may_find_something_do_not_wait(precision: str, waits: bool) -> None:
    gpt = DIGITS.replace("digits.sx", "gpt-char.sx")
    knobs = {"layers": "1", "precision": precision}
    with recorded("share") as seen:
        compiled = compile_file(gpt, variants=["tiny"], knobs=knobs)
        assert not compiled.errors
        assert ("train/main" not in seen) is waits
        assert compiled.document is not None
    assert "train/main" in seen
