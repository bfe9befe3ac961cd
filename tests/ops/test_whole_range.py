"""Functions of one number on all magnitudes and both signs: XLA within the stated ulps of NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from op_driving import (
    ULPS,
    WIDE,
    graph_of,
    named,
    normal,
    run_lax,
    run_numpy,
    ulps_apart,
    whole_range,
)

from sexpgpu.ir.types import TensorType
from sexpgpu.ops import OPS, Sample


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_the_whole_range(dtype: str) -> None:
    x = named([whole_range(dtype, 8000)])
    graphs = [graph_of(OPS[name], Sample(TensorType((8000,), dtype))) for name in WIDE]
    found = run_lax(graphs, [x] * len(graphs), True)
    beyond: dict[str, int] = {}
    for name, graph, got in zip(WIDE, graphs, found, strict=True):
        apart = ulps_apart(*normal(got["0"], np.asarray(run_numpy(graph, x)["0"])))
        allowed = ULPS.get(name, 0)
        if apart > (allowed[dtype] if isinstance(allowed, dict) else allowed):
            beyond[name] = apart
    assert not beyond
