"""The composed functions differentiate: our gradient against central differences in f64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from trace_driving import call, run, world

from sexpgpu.passes.autodiff import gradients

RNG = np.random.default_rng(4)
IDS = np.array([[0, 2], [2, 1]], np.int32)
STEP = 1e-6


def part(*ends: int | None) -> Any:
    return call("slice", *ends)


# What is differentiated: a function of the world and the tensors, and the shapes of those.
CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "norm": (lambda w, x: call("norm", x, axis=1), [(3, 4)]),
    "norm of order 3": (lambda w, x: call("norm", x, ord=3, axis=1), [(3, 4)]),
    "norm inf": (lambda w, x: call("norm", x, ord=":inf", axis=1), [(3, 4)]),
    "std": (lambda w, x: call("std", x, axis=0, keep=True), [(3, 4)]),
    "at ids": (lambda w, x: call("at", x, w.tensor(IDS), part(None, None, -2)), [(3, 4)]),
    "at two ids": (lambda w, x: call("at", x, w.tensor(IDS), w.tensor(IDS)), [(3, 4)]),
    "set-at strided": (
        lambda w, x, v: call("set-at", x, v, part(0, 3, 2), part(3, None, -1)),
        [(3, 4), (2, 4)],
    ),
    "set-at column": (lambda w, x, v: call("set-at", x, v, ":all", 1), [(3, 4), (3,)]),
    "add-at": (
        lambda w, x, v: call("add-at", x, v, w.tensor(IDS), part(1, 3)),
        [(3, 4), (2, 2, 2)],
    ),
    "conv": (
        lambda w, x, k: call("conv", x, k, stride=2, padding=":same", groups=2),
        [(1, 5, 4), (3, 2, 4)],
    ),
    "transposed conv": (
        lambda w, x, k: call("conv", x, k, stride=2, padding=":same", groups=2, transposed=True),
        [(1, 5, 4), (3, 2, 4)],
    ),
    "einsum": (
        lambda w, x, y, z: call("einsum", "ii,ij,j->i", x, y, z),
        [(3, 3), (3, 4), (4,)],
    ),
    "resize": (lambda w, x: call("resize", x, [7, 2]), [(1, 4, 3, 1)]),
    "nearest": (lambda w, x: call("resize", x, [8, 2], method=":nearest"), [(1, 4, 3, 1)]),
    "unfold": (lambda w, x: call("unfold", x, 2), [(1, 4, 3, 1)]),
    "max-pool": (lambda w, x: call("max-pool", x, 2, stride=1), [(1, 4, 3, 1)]),
    "avg-pool": (
        lambda w, x: call("avg-pool", x, 3, stride=1, padding=":same", count_pads=None),
        [(1, 4, 3, 1)],
    ),
    "expt": (lambda w, x, y: call("expt", call("abs", x), y), [(3, 4), (4,)]),
    "reflect": (lambda w, x: call("pad", x, [[1, 2], [2, 1]], mode=":reflect"), [(3, 4)]),
    "roll": (lambda w, x: call("roll", x, 2, axis=1), [(3, 4)]),
    "tile": (lambda w, x: call("tile", x, [2, 3]), [(3, 4)]),
    "matmul": (lambda w, x, y: call("matmul", x, y), [(2, 1, 3, 4), (3, 4, 2)]),
    "clip": (lambda w, x: call("clip", x, -0.5, 0.5), [(3, 4)]),
    "where": (
        lambda w, x, y: call("where", call(">", x, 0), call("*", x, y), call("exp", y)),
        [(3, 4), (4,)],
    ),
    "dropout": (lambda w, x: call("dropout", x, 0.5), [(3, 4)]),
    "crop": (lambda w, x: call("crop", x, w.tensor(IDS[:, 1:]), [2]), [(2, 4)]),
    "take-along": (lambda w, x: call("take-along", x, w.tensor(IDS[:1])), [(3, 4)]),
    "scatter": (
        lambda w, x, v: call("scatter", x, w.tensor(np.int32([[0], [2]])), v),
        [(3, 4), (2, 4)],
    ),
}


@pytest.mark.parametrize("label", CASES)
def test_gradient(label: str) -> None:
    build, shapes = CASES[label]
    arrays = [RNG.normal(size=s) for s in shapes]
    with world(training=True) as w:
        tensors = [w.tensor(a) for a in arrays]
        y = build(w, *tensors)
        loss = call("sum", call("*", y, w.tensor(RNG.normal(size=y.type.shape)))).value
        seeds = [(loss, w.trace.full(1.0, (), "f64"))]
        found = gradients(w.trace.builder, seeds, [t.value for t in tensors])
        assert None not in found
        graph = w.trace.finish({"loss": loss, **{f"g{i}": g for i, g in enumerate(found) if g}})
        results = run(graph, w.given)
        for i, a in enumerate(arrays):
            slopes = np.zeros_like(a)
            for place in np.ndindex(a.shape):
                ends = []
                for step in (STEP, -STEP):
                    moved = a.copy()
                    moved[place] += step
                    ends.append(run(graph, {**w.given, f"x{i}": moved})["loss"])
                slopes[place] = (ends[0] - ends[1]) / (2 * STEP)
            np.testing.assert_allclose(results[f"g{i}"], slopes, rtol=1e-6, atol=1e-7)
