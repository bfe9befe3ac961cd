"""Host means: weighted, independent of the split, saved to the bit."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexpgpu.loop.metrics import Accumulator

finite = st.floats(-1e6, 1e6, width=32)


def test_a_mean_of_batches_of_four() -> None:
    losses = np.arange(1.0, 11.0)
    total = Accumulator()
    for start in range(0, 10, 4):
        part = losses[start : start + 4]
        total.add("loss", part.sum(), len(part))
    assert total.results() == {"loss": 5.5}


@given(st.lists(st.tuples(finite, st.integers(0, 9)), min_size=1, max_size=30), st.integers(1, 30))
def test_the_split_does_not_matter(pairs: list[tuple[float, int]], at: int) -> None:
    whole, resumed = Accumulator(), Accumulator()
    for value, weight in pairs:
        whole.add("m", value * weight, weight)
        whole.add("top", value, reduce="max")
        whole.add("low", value, reduce="min")
        whole.add("r", value * value * weight, weight, "rms")
    first = Accumulator()
    for i, (value, weight) in enumerate(pairs):
        if i == at:
            saved = json.loads(json.dumps(first.save()))
            first = resumed
            first.restore(saved)
        first.add("m", value * weight, weight)
        first.add("top", value, reduce="max")
        first.add("low", value, reduce="min")
        first.add("r", value * value * weight, weight, "rms")
    assert first.results() == whole.results()
    assert whole.results()["top"] == max(v for v, _ in pairs)
    assert whole.results()["low"] == min(v for v, _ in pairs)


def test_reductions() -> None:
    total = Accumulator()
    for value in (3.0, -1.0, 2.0):
        for reduce in ("sum", "last", "max", "min"):
            total.add(reduce, value, reduce=reduce)
        total.add("rms", value * value * 2, 2, "rms")
    assert total.results() == {
        "sum": 4.0, "last": 2.0, "max": 3.0, "min": -1.0,
        "rms": pytest.approx(math.sqrt(14 / 3)),
    }  # fmt: skip


def test_shapes_nan_and_no_weight() -> None:
    total = Accumulator()
    total.add("v", np.array([1.0, math.nan]), 2.0)
    total.add("none", 0.0, 0.0)
    saved = json.loads(json.dumps(total.save()))
    again = Accumulator()
    again.restore(saved)
    assert again.results()["none"] == 0.0
    assert again.results()["v"][0] == 0.5
    assert math.isnan(again.results()["v"][1])
