"""Draws: distributions, names, and what each example gets however the batch is split."""

from __future__ import annotations

import math

import numpy as np
import pytest
from trace_driving import call, refused, run, world

import sexpgpu as sx
from sexpgpu.trace.marked import MarkedInt

SHAPE = [400, 250]


def draw(name: str, *arguments, **keys) -> np.ndarray:
    with world() as w:
        return w.numbers(name, *arguments, **keys)


def test_uniform() -> None:
    u = draw("random-uniform", SHAPE)
    assert u.dtype == np.float32
    assert (u >= 0).all()
    assert (u < 1).all()
    assert np.array_equal(u * 2**24, np.floor(u * 2**24))
    assert abs(u.mean() - 0.5) < 0.005
    assert abs(u.var() - 1 / 12) < 0.001
    v = draw("random-uniform", SHAPE, low=-2, high=3)
    assert -2 <= v.min() < -1.99
    assert 2.99 < v.max() <= 3
    wide = draw("random-uniform", SHAPE, dtype=":f64")
    assert wide.dtype == np.float64
    assert not np.array_equal(wide.astype(np.float32).astype(np.float64), wide)
    assert draw("random-uniform", SHAPE, dtype=":bf16").astype(np.float32).max() < 1


RANGES = [
    (0.6, 1.4), (1, 2), (1e8, 1e8 + 8), (1000, 1001), (-3e38, 3e38), (0, 1e-30), (5, 5),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "f64"])
def test_uniforms_stay_below_high_and_are_equal_on_both_backends(dtype: str) -> None:
    """Also where a sum would round up to high, and where the range itself is beyond the dtype."""
    ranges = [r for r in RANGES if dtype != "f16" or max(map(abs, r)) < 6e4]
    forms = [f"(random-uniform '(3000) :low {a} :high {b} :dtype :{dtype})" for a, b in ranges]
    text = f"(lambda () (values {' '.join(forms)}))"
    drawn = sx.function(text)()
    for (low, high), x, other in zip(ranges, drawn, sx.function(text, device="cpu")(), strict=True):
        low, high = (np.asarray(bound).astype(x.dtype) for bound in (low, high))
        assert np.isfinite(x.astype(np.float64)).all()
        assert (x >= low).all()
        assert (x < high).all() or low == high
        if dtype == "f64":
            bound = 4e-16 * float(np.abs([low, high]).max())  # joined with the sum, or not
            np.testing.assert_allclose(x, other, rtol=0, atol=bound)
        else:
            np.testing.assert_array_equal(x, other)
        start, end = float(low), float(high)
        if abs(start) < 100 or end > 1e38:  # else only few numbers lie between them
            middle = (start + end) / 2
            assert abs(x.astype(np.float64).mean() - middle) <= 0.03 * (end - start)


def test_bounds_may_be_tensors() -> None:
    text = "(lambda (a b) (random-uniform '(2000 2) :low a :high b))"
    low, high = np.float32([1, -3]), np.float32([1.0000001, 3])
    u = sx.function(text)(low, high)
    np.testing.assert_array_equal(u, sx.function(text, device="cpu")(low, high))
    assert (u[:, 0] == 1).all()
    assert u[:, 1].min() < -2.9
    assert u[:, 1].max() > 2.9
    same = sx.function("(lambda () (random-uniform '(2000 2) :low -3 :high 3))")()
    np.testing.assert_array_equal(u[:, 1], same[:, 1])


def test_normal_and_its_kin() -> None:
    z = draw("random-normal", SHAPE)
    assert abs(z.mean()) < 0.01
    assert abs(z.std() - 1) < 0.01
    assert abs((z**3).mean()) < 0.05
    assert abs((z**4).mean() - 3) < 0.1
    assert abs((np.abs(z) < 1).mean() - math.erf(1 / math.sqrt(2))) < 0.005
    t = draw("random-truncated-normal", SHAPE)
    assert np.abs(t).max() <= 2
    assert abs(t.std() - 0.8796) < 0.005
    g = draw("random-gumbel", SHAPE)
    assert np.isfinite(g).all()
    assert abs(g.mean() - 0.5772) < 0.02
    assert abs(g.var() - math.pi**2 / 6) < 0.05


def test_a_truncated_normal_between_other_bounds() -> None:
    t = draw("random-truncated-normal", SHAPE, low=0.5, high=3)
    assert 0.5 <= t.min() < 0.51
    assert 2.9 < t.max() <= 3
    text = "(lambda () (random-truncated-normal '(4000) :low 0.5 :high 3))"
    both = [sx.function(text, device=device)() for device in ("interp", "cpu")]
    np.testing.assert_array_max_ulp(*both, 3)
    # the mean is (phi(a) - phi(b)) / (Phi(b) - Phi(a))
    density = [math.exp(-x * x / 2) / math.sqrt(2 * math.pi) for x in (0.5, 3.0)]
    mass = (math.erf(3 / math.sqrt(2)) - math.erf(0.5 / math.sqrt(2))) / 2
    assert abs(t.mean() - (density[0] - density[1]) / mass) < 0.005
    refused("E-OP-001", lambda: draw("random-truncated-normal", SHAPE, low=3))
    refused("E-OP-001", lambda: draw("random-truncated-normal", SHAPE, low=6, high=7))


def test_permutations() -> None:
    made = draw("random-permutation", 1000)
    assert made.dtype == np.int32
    np.testing.assert_array_equal(np.sort(made), np.arange(1000))
    assert abs(np.corrcoef(made, np.arange(1000))[0, 1]) < 0.1
    np.testing.assert_array_equal(draw("random-permutation", 0), np.zeros(0, np.int32))
    # every order of four is as likely
    counts: dict[tuple, int] = {}
    with world() as w:
        many = w.run(call("stack-tensors", [call("random-permutation", 4) for _ in range(720)]))
    for order in many:
        counts[tuple(order)] = counts.get(tuple(order), 0) + 1
    assert len(counts) == 24
    assert sum((n - 30) ** 2 / 30 for n in counts.values()) < 50  # chi squared, 23 degrees


def test_slices_in_another_order() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    with world(batch=3) as w:
        made = w.run(call("random-permutation", w.tensor(x), axis=1))
        np.testing.assert_array_equal(np.sort(made, 1), x)
        assert (np.argsort(made, 1) == np.argsort(made, 1)[0]).all()
        call("random-permutation", w.tensor(x, batch=0))
        assert [d.mixed for d in w.trace.draws] == [False, True]


def test_discrete() -> None:
    b = draw("random-bernoulli", 0.3, SHAPE)
    assert b.dtype == bool
    assert abs(b.mean() - 0.3) < 0.005
    assert not draw("random-bernoulli", 0, SHAPE).any()
    assert draw("random-bernoulli", 1, SHAPE).all()
    p = np.linspace(0, 1, 250, dtype=np.float32)
    with world() as w:
        made = w.run(call("random-bernoulli", w.tensor(p), SHAPE, dtype=":f32"))
    np.testing.assert_allclose(made.mean(0), p, atol=0.09)
    i = draw("random-int", -3, 4, SHAPE)
    assert i.dtype == np.int32
    counts = np.bincount(i.reshape(-1) + 3)
    assert len(counts) == 7
    np.testing.assert_allclose(counts / i.size, 1 / 7, atol=0.005)
    big = draw("random-int", -(2**31), 2**31, SHAPE)
    assert big.min() < -(2**30)
    assert big.max() > 2**30
    assert set(np.unique(draw("random-int", 250, 256, [50], dtype=":u8"))) == set(range(250, 256))
    highs = np.int32([1, 5, 9])
    with world() as w:
        made = w.run(call("random-int", 0, w.tensor(highs), [1000, 3]))
    np.testing.assert_array_equal(made.max(0), highs - 1)


def test_categorical_follows_softmax() -> None:
    logits = np.log(np.float32([0.1, 0.2, 0.7]))
    with world() as w:
        ids = w.numbers("random-categorical", np.tile(logits, (20000, 1)))
        np.testing.assert_allclose(np.bincount(ids) / 20000, [0.1, 0.2, 0.7], atol=0.015)
        other = w.numbers("random-categorical", np.tile(logits[:, None], (1, 20000)), axis=0)
        np.testing.assert_allclose(np.bincount(other) / 20000, [0.1, 0.2, 0.7], atol=0.015)


def test_dropout() -> None:
    x = np.ones(SHAPE, np.float32)
    with world(training=True) as w:
        y = w.numbers("dropout", x, 0.25)
    assert set(np.unique(y)) == {0, np.float32(1 / 0.75)}
    assert abs((y == 0).mean() - 0.25) < 0.005
    with world(training=True) as w:
        z = w.run(call("dropout", w.tensor(x), w.tensor(np.float32(0.25))))
    np.testing.assert_array_equal(y == 0, z == 0)
    np.testing.assert_allclose(z.max(), 1 / 0.75)
    with world(training=False) as w:
        t = w.tensor(x)
        assert call("dropout", t, 0.25) is t
        refused("E-OP-001", lambda: call("dropout", t, 1))
    with world(training=True) as w:
        t = w.tensor(x)
        assert call("dropout", t, 0) is t
        assert w.trace.draws == []
        call("dropout", t, 0.5)
        assert names(w) == ["#1"]
        refused("E-DTYPE-001", lambda: w("dropout", np.int32([1]), 0.5))


def test_parameters_are_checked() -> None:
    with world():
        refused("E-OP-001", lambda: call("random-bernoulli", 1.5, [2]))
        refused("E-OP-001", lambda: call("random-int", 3, 3, [2]))
        refused("E-OP-001", lambda: call("random-int", 0, 300, [2], dtype=":u8"))
        refused("E-OP-001", lambda: call("random-uniform", [2], low=1, high=0))
        refused("E-OP-001", lambda: call("random-normal", [2], dtype=":i32"))
        refused("E-OP-001", lambda: call("random-normal", [2], name=3))
        refused("E-SHAPE-008", lambda: call("random-normal", 3))


# ---------------------------------------------------------------------------- names


def names(w) -> list[str]:
    return [d.name for d in w.trace.draws]


def test_names_are_chains_of_calls_and_ordinals() -> None:
    with world() as w:
        call("random-normal", [2])
        call("random-normal", [2])
        call("random-normal", [2], name=":noise")
        for _ in range(2):
            with w.trace.model("body"), w.trace.model("body/drop"):
                call("random-uniform", [2])
        with w.trace.model("body/drop"):
            call("random-uniform", [2])
        assert names(w) == [
            "#0", "#1", "noise#0", "body>body/drop>#0", "body@1>body/drop>#0", "body/drop>#0",
        ]  # fmt: skip


def test_unrelated_edits_move_no_draw() -> None:
    def program(more: bool) -> tuple[list[str], np.ndarray]:
        with world() as w:
            if more:
                call("random-normal", [2], name=":extra")
                with w.trace.model("added"):
                    call("random-normal", [2])
            with w.trace.model("body"):
                call("ones", [2])
                if more:
                    call("zeros", [3])
                return names(w), w.run(call("random-normal", [5]))

    np.testing.assert_array_equal(program(False)[1], program(True)[1])


def test_draws_of_different_names_differ() -> None:
    with world() as w:
        made = [
            w.run(call("random-uniform", [50])),
            w.run(call("random-uniform", [50])),
            w.run(call("random-uniform", [50], name=":a")),
        ]
        with w.trace.model("m"):
            made.append(w.run(call("random-uniform", [50])))
    for i in range(4):
        for j in range(i):
            assert not np.array_equal(made[i], made[j])


# ---------------------------------------------------------------------------- the batch


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("place", [0, 1])
def test_each_example_gets_what_it_gets_in_the_whole_batch(rows: int, place: int) -> None:
    def part(batch: int, offset: int) -> np.ndarray:
        with world(batch=batch) as w:
            extent = MarkedInt(batch) * rows
            shape = [extent, 5] if place == 0 else [5, extent]
            y = call("random-normal", shape)
            assert y.type.batch == place
            return w.run(y, **{"rng/offset": np.uint32(offset)})

    whole = part(8, 0)
    halves = np.concatenate([part(4, 0), part(4, 4)], place)
    np.testing.assert_array_equal(whole, halves)


def test_an_unmarked_draw_is_one_for_the_step() -> None:
    with world(batch=4) as w:
        y = call("random-normal", [4, 5])
        assert y.type.batch is None
        graph = w.trace.finish({"y": y.value})
    assert "rng/offset" not in graph.inputs
    assert run(graph, {})["y"].shape == (4, 5)


def test_marks_that_cannot_be_attributed_are_noted() -> None:
    with world(batch=4) as w:
        call("random-normal", [MarkedInt(4), MarkedInt(4)])
        call("random-normal", [MarkedInt(6), 2])
        call("random-normal", [MarkedInt(8), 2])
        assert [(d.batch, d.mixed) for d in w.trace.draws] == [
            (None, True),
            (None, True),
            (0, False),
        ]


def test_dropout_follows_the_batch_of_its_operand() -> None:
    x = np.ones((8, 6), np.float32)

    def part(array: np.ndarray, offset: int) -> np.ndarray:
        with world(batch=len(array), training=True) as w:
            y = call("dropout", w.tensor(array, 0), 0.5)
            return w.run(y, **{"rng/offset": np.uint32(offset)})

    np.testing.assert_array_equal(part(x, 0)[4:], part(x[4:], 4))
