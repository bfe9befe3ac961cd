"""`:finish` of metrics: graphs that take a reduced value to the reported one, on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sexpgpu.ir.document import Document
from sexpgpu.ir.graph import Graph
from sexpgpu.lowering.interp.backend import InterpEngine


def finishers(document: Document, graph: str, prefix: str) -> dict[str, Callable[[Any], Any]]:
    """{series: function of the reduced value} for the metrics of a graph that have one."""
    return {
        prefix + metric.name: _finisher(document.graphs[metric.finish])
        for metric in document.metrics.get(graph, [])
        if metric.finish is not None
    }


def _finisher(graph: Graph) -> Callable[[Any], Any]:
    def finish(value: Any) -> Any:
        given = np.asarray(value, np.float32)
        return InterpEngine().call(graph, {"value": given})["value"].astype(np.float64).tolist()

    return finish
