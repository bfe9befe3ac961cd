"""A look at the data before a run: the first batch of a loader as numbers for people, and whether
every loader can be opened and read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sexpgpu.diagnostics.model import Diagnostic, Label, SxError
from sexpgpu.ir.document import Document, Loader
from sexpgpu.loop.data.loader import TrainingBatches
from sexpgpu.loop.data.records import Records
from sexpgpu.source import Span

SHOWN = 8
"""Numbers of a field's first record that are shown."""


def first_batch(document: Document) -> dict[str, Any]:
    """The batch of step 0: `loader`, `records` (their numbers) and `fields`, each with `name`,
    `dtype`, `shape`, `first` (the first numbers of its first record), `min`, `max`, `mean` over
    the finite ones (None where there are none), `nonfinite` (how many are not), and `text`, what
    the first record says where it is bytes of a text, else None. SxError for data that fail."""
    run = document.run
    stage = document.loader(run.train).stages[0]
    batches = TrainingBatches(stage, run.train, run.seed)
    try:
        batch = batches.read(0)
        records = [int(number) for number in batches.record_numbers(0)]
    finally:
        batches.close()
    is_text = stage.source["kind"] == "text"
    fields = [_described(f.name, f.dtype, batch[f.name], is_text) for f in stage.fields]
    return {"loader": run.train, "records": records, "fields": fields}


def _described(name: str, dtype: str, values: np.ndarray, is_text: bool) -> dict[str, Any]:
    first = values[0].reshape(-1)
    whole = values.dtype.kind in "iub"
    cast: Callable[[Any], Any] = int if whole else float
    finite = values if whole else values[np.isfinite(values)]
    return {
        "name": name,
        "dtype": dtype,
        "shape": list(values.shape),
        "first": [cast(v) if np.isfinite(v) else str(float(v)) for v in first[:SHOWN]],
        "min": cast(finite.min()) if finite.size else None,
        "max": cast(finite.max()) if finite.size else None,
        "mean": float(finite.mean(dtype=np.float64)) if finite.size else None,
        "nonfinite": int(values.size - finite.size),
        "text": bytes(first).decode("utf-8", errors="replace") if is_text else None,
    }


def data_problems(document: Document, places: dict[str, Span | None]) -> list[Diagnostic]:
    """What is wrong with the data of the loaders: every stage opened, its fields compared with
    what is declared, its first batch and its last record read. `places`: where each loader is
    declared, for diagnostics that have no place of their own."""
    found: list[Diagnostic] = []
    for loader in document.loaders:
        try:
            _read_some(loader, document.run.seed)
        except SxError as error:
            for diagnostic in error.diagnostics:
                place = places.get(loader.name)
                if not diagnostic.labels and place is not None:
                    diagnostic.labels.append(Label(place))
                found.append(diagnostic)
    return found


def _read_some(loader: Loader, seed: int) -> None:
    for stage in loader.stages:
        records = Records(stage, loader.name, seed)
        try:
            count = records.count
            wanted = [
                *range(min(stage.batch, count)),
                *([count - 1] if count > stage.batch else []),
            ]
            if wanted:
                records.read(np.array(wanted, np.int64))
        finally:
            records.close()
