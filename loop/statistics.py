"""Statistics of a loader's field (`statistic/LOADER/FIELD/WHAT`), taken once before step 1.

Over every record of the loader's first stage, in f64: mean, std (of the population, by the
pairwise update of Chan, Golub and LeVeque, 1979), min, max; each of the field's shape.
"""

from __future__ import annotations

import numpy as np

from sexpgpu.ir.document import Document
from sexpgpu.ir.types import TensorType
from sexpgpu.loop.data.records import Records
from sexpgpu.lowering.interp.dtypes import NUMPY

_BLOCK = 4096  # records read at once


def wanted(document: Document) -> dict[str, TensorType]:
    """The statistics that the document's graphs read, by the full name of the input."""
    return {
        name: value.type
        for graph in document.graphs.values()
        for name, value in graph.inputs.items()
        if name.startswith("statistic/")
    }


def compute(document: Document) -> dict[str, np.ndarray]:
    """Each wanted statistic in the dtype that the graphs read it in."""
    out: dict[str, np.ndarray] = {}
    of_loader: dict[str, dict[str, dict[str, np.ndarray]]] = {}
    for name, type in sorted(wanted(document).items()):
        _, loader, rest = name.split("/", 2)
        field, _, what = rest.rpartition("/")
        if loader not in of_loader:
            of_loader[loader] = _moments(document, loader)
        out[name] = of_loader[loader][field][what].astype(NUMPY[type.dtype])
    return out


def _moments(document: Document, loader: str) -> dict[str, dict[str, np.ndarray]]:
    records = Records(document.loader(loader).stages[0], loader, document.run.seed)
    moments: dict[str, dict[str, np.ndarray]] = {}
    for start in range(0, records.count, _BLOCK):
        block = records.read(np.arange(start, min(start + _BLOCK, records.count)))
        for field, values in block.items():
            x = values.astype(np.float64)
            count, mean = len(x), x.mean(axis=0)
            squares = ((x - mean) ** 2).sum(axis=0)
            low, high = x.min(axis=0), x.max(axis=0)
            if field in moments:
                m = moments[field]
                delta, total = mean - m["mean"], start + count
                squares = m["squares"] + squares + delta**2 * (start * count / total)
                mean = m["mean"] + delta * (count / total)
                low, high = np.minimum(m["min"], low), np.maximum(m["max"], high)
            moments[field] = {
                "mean": mean, "squares": squares, "std": np.sqrt(squares / (start + count)),
                "min": low, "max": high,
            }  # fmt: skip
    records.close()
    return moments
