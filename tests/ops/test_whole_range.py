"""Functions of one number on all magnitudes and both signs: XLA within the stated ulps of NumPy."""

from __future__ import annotations

import re
from pathlib import Path

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


def test_the_page_states_what_is_allowed() -> None:
    page = (Path(__file__).parents[2] / "sexpgpu/docs/numerics.md").read_text()
    rows = re.findall(r"^\| (`.*?) \| (\d+)(?:, f64: (\d+))? \|", page, re.MULTILINE)
    told: dict[str, tuple[int, int]] = {}
    for names, f32, f64 in rows:
        for name in re.findall("`(.*?)`", names):
            told["pow" if name == "expt" else name] = (int(f32), int(f64 or f32))
    held = {
        name: (bound["f32"], bound["f64"]) if isinstance(bound, dict) else (bound, bound)
        for name, bound in ULPS.items()
        if name not in ("atan2", "erf-inv", "mean")  # parts of others
    }
    assert told == held
