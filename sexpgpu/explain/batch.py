"""The batch of step 0, as data of `explain`. Loads NumPy, when it is asked for."""

from __future__ import annotations

from typing import Any

from sexpgpu.diagnostics import render
from sexpgpu.diagnostics.model import SxError
from sexpgpu.ir.document import Document


def example_batch(document: Document) -> dict[str, Any]:
    """`loader`, `records`, `fields` (see `loop.data.sample.first_batch`), and `problem`: the
    diagnostic of data that cannot be read here, as JSON, else None."""
    from sexpgpu.loop.data.sample import first_batch

    try:
        return {**first_batch(document), "problem": None}
    except SxError as error:
        problem = render.to_json(error.diagnostics[0])
        return {"loader": document.run.train, "records": [], "fields": [], "problem": problem}
