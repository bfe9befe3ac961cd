"""make, reduce, shape, index and assignment functions against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from trace_driving import call, refused, said, world

from sexpgpu.lisp.values import Vector, python_list

RNG = np.random.default_rng(2)
X = RNG.normal(size=(3, 4, 5)).astype(np.float32)
M = RNG.normal(size=(4, 5)).astype(np.float32)
N = np.arange(60, dtype=np.int32).reshape(3, 4, 5)


def same(a: object, b: object) -> None:
    np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    assert np.asarray(a).dtype == np.asarray(b).dtype


def close(a: object, b: object, rtol: float = 1e-5) -> None:
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=1e-5)
    assert np.asarray(a).dtype == np.asarray(b).dtype


# ---------------------------------------------------------------------------- make


def test_filled() -> None:
    with world() as w:
        same(w.numbers("zeros", [2, 3]), np.zeros((2, 3), np.float32))
        same(w.numbers("ones", [2], dtype=":bool"), np.ones(2, bool))
        same(w.numbers("full", [2, 2], 7), np.full((2, 2), 7, np.int32))
        same(w.numbers("full", [], 0.5), np.float32(0.5))
        same(w.numbers("full", [2], True), np.ones(2, bool))
        same(w.numbers("full", [2], w.tensor(np.float32(3))), np.float32([3, 3]))
        refused("E-OP-001", lambda: call("full", [2], 0.5, dtype=":i32"))
        refused("E-SHAPE-005", lambda: w("full", [2], M))
        assert "(list 5)" in said(refused("E-SHAPE-008", lambda: call("zeros", 5)))
        refused("E-SHAPE-008", lambda: call("zeros", [2, -1]))
        refused("E-SHAPE-008", lambda: call("zeros", [2, 1.5]))
        refused("E-SHAPE-008", lambda: call("zeros", [1 << 30, 1 << 30]))
        assert ":f32" in said(refused("E-DTYPE-004", lambda: call("zeros", [2], dtype=":f23")))


def test_constant() -> None:
    with world() as w:
        same(w.numbers("constant", [[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]], np.int32))
        same(w.numbers("constant", [1, 0.5]), np.float32([1, 0.5]))
        same(w.numbers("constant", Vector([1, 2]), dtype=":u8"), np.uint8([1, 2]))
        same(w.numbers("constant", 3.5), np.float32(3.5))
        same(w.numbers("constant", [[True, True]]), np.array([[True, True]]))
        refused("E-SHAPE-008", lambda: call("constant", [[1, 2], [3]]))
        refused("E-DTYPE-003", lambda: call("constant", [1, 300], dtype=":u8"))
        refused("E-OP-001", lambda: call("constant", ["a"]))
        assert "stack-tensors" in said(refused("E-OP-001", lambda: call("constant", [w.tensor(M)])))


def test_sequences() -> None:
    with world() as w:
        same(w.numbers("arange", 5), np.arange(5, dtype=np.int32))
        same(w.numbers("arange", 2, 11, 3), np.arange(2, 11, 3, dtype=np.int32))
        same(w.numbers("arange", 5, 0, -2), np.arange(5, 0, -2, dtype=np.int32))
        close(w.numbers("arange", 0, 1, 0.1), np.arange(0, 1, 0.1, dtype=np.float32))
        same(w.numbers("arange", 4, dtype=":f32"), np.arange(4, dtype=np.float32))
        same(w.numbers("arange", 3, 1), np.arange(0, dtype=np.int32))
        close(w.numbers("linspace", -1, 2, 7), np.linspace(-1, 2, 7, dtype=np.float32))
        same(w.numbers("linspace", 3, 4, 1), np.float32([3]))
        want = np.linspace(-1, 2, 7, endpoint=False)
        close(w.numbers("linspace", -1, 2, 7, endpoint=False, dtype=":f64"), want)
        same(w.numbers("eye", 2, 3), np.eye(2, 3, dtype=np.float32))
        same(w.numbers("eye", 3, 4, k=-1, dtype=":i8"), np.eye(3, 4, -1, dtype=np.int8))
        same(w.numbers("eye", 3, k=1), np.eye(3, k=1, dtype=np.float32))
        same(w.numbers("iota", [2, 3], 1), np.tile(np.arange(3, dtype=np.int32), (2, 1)))
        same(w.numbers("eye", 3), np.eye(3, dtype=np.float32))
        same(w.numbers("eye", 2, 3), np.eye(2, 3, dtype=np.float32))
        same(
            w.numbers("one-hot", np.int32([0, 2, 5]), 3),
            np.float32([[1, 0, 0], [0, 0, 1], [0, 0, 0]]),
        )
        for k in (-1, 0, 2):
            same(w.numbers("tril", X, k=k), np.tril(X, k))
            same(w.numbers("triu", X, k=k), np.triu(X, k))
        assert ":dtype" in said(refused("E-OP-001", lambda: call("arange", 3, dtyp=":f32")))
        refused("E-OP-001", lambda: call("arange", 3, 4, 0))


# ---------------------------------------------------------------------------- reduce


@pytest.mark.parametrize("axis", [None, 0, -1, [0, 2], [1, 0, 2], []])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(
    "name, numpy",
    [
        ("sum", np.sum), ("mean", np.mean), ("prod", np.prod), ("amax", np.max),
        ("amin", np.min), ("var", np.var),
        ("std", np.std), ("logsumexp", lambda x, **how: np.log(np.sum(np.exp(x), **how))),
        ("norm", lambda x, **how: np.sqrt(np.sum(x * x, **how))),
        ("count-nonzero", lambda x, **how: np.sum(x != 0, **how, dtype=np.int32)),
    ],
)  # fmt: skip
def test_reductions(name: str, numpy, axis, keep: bool) -> None:
    keys = {"axis": tuple(axis) if isinstance(axis, list) else axis, "keepdims": keep}
    if axis == []:
        keys["axis"] = tuple(range(3))  # an empty list is nil: all axes
    with world() as w:
        close(w.numbers(name, X, axis=axis, keep=keep), numpy(X, **keys))


def test_reductions_of_bools_and_integers() -> None:
    with world() as w:
        same(w.numbers("any", X > 1, axis=1), np.any(X > 1, axis=1))
        same(w.numbers("all", X > -9), np.bool_(np.all(X > -9)))
        same(w.numbers("sum", X > 0), np.int32(np.sum(X > 0)))
        same(w.numbers("sum", np.full(300, 255, np.uint8)), np.int32(300 * 255))
        close(w.numbers("mean", N, axis=0), N.mean(axis=0, dtype=np.float32))
        same(w.numbers("amax", N, axis=[0, 1]), N.max(axis=(0, 1)))
        refused("E-DTYPE-001", lambda: w("any", X))


@pytest.mark.parametrize("order", [0, 0.5, 1, 2, 3, 2.5, -1, ":inf", ":-inf"])
def test_norms(order) -> None:
    p = float(order[1:]) if isinstance(order, str) else order
    with world() as w:
        close(w.numbers("norm", M, ord=order, axis=1), np.linalg.norm(M, p, axis=1), 1e-4)


@pytest.mark.parametrize("order, numpy", [(2, "fro"), (":nuclear", "nuc"), (":spectral", 2)])
def test_norms_of_matrices(order, numpy) -> None:
    with world() as w:
        for axes in ([0, 1], [0, 2], [-2, -1]):
            want = np.linalg.norm(X, numpy, axis=tuple(axes), keepdims=True)
            close(w.numbers("norm", X, ord=order, axis=axes, keep=True), want, 1e-4)
        if order != 2:
            close(w.numbers("norm", X, ord=order), np.linalg.norm(X, numpy, axis=(1, 2)), 1e-4)
            refused("E-OP-001", lambda: w("norm", X, ord=order, axis=1))
        refused("E-OP-001", lambda: w("norm", X, ord=":frobenius"))


def test_variances_of_samples() -> None:
    with world() as w:
        close(w.numbers("var", X, axis=1, ddof=1), X.var(1, ddof=1))
        close(w.numbers("std", X, ddof=2, keep=True), X.std(ddof=2, keepdims=True))
        refused("E-OP-001", lambda: w("var", X, axis=0, ddof=3))


def test_running_minima_and_kept_positions() -> None:
    least = np.array([[3, -128, 5, 127], [-128, 127, 0, 0]], np.int8)
    with world() as w:
        same(w.numbers("cummin", X, axis=1), np.minimum.accumulate(X, 1))
        same(w.numbers("cummin", least), np.minimum.accumulate(least, 1))
        backwards = np.minimum.accumulate(least[:, ::-1], 1)[:, ::-1]
        same(w.numbers("cummin", least, reverse=True), backwards)
        same(w.numbers("argmax", X, axis=1, keep=True), X.argmax(1, keepdims=True).astype("i"))
        same(w.numbers("argmin", X, keep=True), X.argmin(keepdims=True).astype("i"))


def test_positions_and_running() -> None:
    with world() as w:
        same(w.numbers("argmax", X, axis=1), X.argmax(1).astype(np.int32))
        same(w.numbers("argmin", X), np.int32(X.argmin()))
        same(w.numbers("argmax", np.float32(3)), np.int32(0))
        close(w.numbers("cumsum", X), X.cumsum(-1))
        close(w.numbers("cumsum", X, axis=0, reverse=True), X[::-1].cumsum(0)[::-1])
        close(w.numbers("cumprod", X, axis=1), X.cumprod(1))
        same(w.numbers("cummax", X, axis=1), np.maximum.accumulate(X, 1))
        e = np.exp(X - X.max(1, keepdims=True))
        close(w.numbers("softmax", X, axis=1), e / e.sum(1, keepdims=True))
        close(w.numbers("log-softmax", X, axis=1), np.log(e / e.sum(1, keepdims=True)))


def test_axes_are_checked() -> None:
    with world() as w:
        diagnostic = refused("E-SHAPE-003", lambda: w("sum", X, axis=3))
        assert "axis 3 of a tensor of rank 3" in diagnostic.headline
        assert "0 to 2" in said(diagnostic)
        refused("E-SHAPE-003", lambda: w("sum", X, axis=[0, -3]))
        refused("E-OP-001", lambda: w("softmax", X, axis=None))
        refused("E-OP-001", lambda: w("sum", X, axis=1.0))
        refused("E-SHAPE-007", lambda: w("amax", np.zeros((2, 0), np.float32), axis=1))


# ---------------------------------------------------------------------------- shape


def test_rearranging() -> None:
    with world() as w:
        same(w.numbers("reshape", X, [12, 5]), X.reshape(12, 5))
        same(w.numbers("reshape", X, [-1, 10]), X.reshape(-1, 10))
        same(w.numbers("reshape", np.float32([3]), []), np.float32(3))
        same(w.numbers("flatten", X), X.reshape(-1))
        same(w.numbers("flatten", X, **{"from": 1}), X.reshape(3, -1))
        same(w.numbers("flatten", X, **{"from": -2}), X.reshape(3, -1))
        same(w.numbers("transpose", X), X.swapaxes(-1, -2))
        same(w.numbers("transpose", X, [2, 0, -2]), X.transpose(2, 0, 1))
        same(w.numbers("broadcast-to", M, [2, 4, 5]), np.broadcast_to(M, (2, 4, 5)))
        same(w.numbers("expand-dims", M, -1), M[..., None])
        same(w.numbers("expand-dims", M, 0), M[None])
        same(w.numbers("squeeze", M[None, :, None]), M)
        same(w.numbers("squeeze", M[None, :, None], axis=-2), M[None])
        same(w.numbers("flip", X), X[::-1, ::-1, ::-1])
        same(w.numbers("flip", X, axis=[0, -1]), X[::-1, :, ::-1])
        same(w.numbers("roll", X, -2, axis=1), np.roll(X, -2, 1))
        same(w.numbers("tile", M, [2, 1, 3]), np.tile(M, (2, 1, 3)))
        same(w.numbers("tile", X, [2]), np.tile(X, 2))
        same(w.numbers("repeat-elements", M, 3, axis=1), np.repeat(M, 3, 1))


def test_joining_and_splitting() -> None:
    with world() as w:
        a, b = w.tensor(M), w.tensor(M + 1)
        same(w.run(call("concat", [a, b], axis=1)), np.concatenate([M, M + 1], 1))
        same(w.run(call("concat", [a])), M)
        same(w.run(call("stack-tensors", [a, b], axis=-1)), np.stack([M, M + 1], -1))
        for part, expected in zip(w.numbers("split", X, 2, axis=1), np.split(X, 2, 1), strict=True):
            same(part, expected)
        for part, expected in zip(
            w.numbers("split", M, [1, 0, 4], axis=1), np.split(M, [1, 1], 1), strict=True
        ):
            same(part, expected)
        refused("E-SHAPE-006", lambda: w("split", M, 3))
        refused("E-SHAPE-006", lambda: w("split", M, [1, 2]))
        refused("E-SHAPE-001", lambda: call("concat", [a, w.tensor(X)]))
        refused("E-SHAPE-001", lambda: call("concat", [a, w.tensor(M[:, :2])], axis=0))
        refused("E-SHAPE-001", lambda: call("stack-tensors", [a, w.tensor(M[:2])]))
        refused("E-OP-001", lambda: call("concat", []))
        assert "(list a b)" in said(refused("E-OP-001", lambda: call("concat", a)))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
def test_padding(mode: str) -> None:
    with world() as w:
        how = {} if mode == "constant" else {"mode": f":{mode}"}
        same(w.numbers("pad", M, [[1, 2], [0, 3]], **how), np.pad(M, [(1, 2), (0, 3)], mode))
        same(w.numbers("pad", M, [1, 0], **how), np.pad(M, [(1, 1), (0, 0)], mode))
        refused("E-SHAPE-006", lambda: w("pad", M, [[1, 2]]))
    if mode == "constant":
        with world() as w:
            same(
                w.numbers("pad", M, [0, 1], value=2.5),
                np.pad(M, [(0, 0), (1, 1)], constant_values=2.5),
            )
            refused("E-DTYPE-003", lambda: w("pad", np.uint8([1]), [1], value=300))
    elif mode != "edge":
        with world() as w:
            refused("E-SHAPE-006", lambda: w("pad", M, [0, 6], mode=f":{mode}"))


def test_shapes_that_do_not_fit() -> None:
    with world() as w:
        assert "60 elements" in refused("E-SHAPE-004", lambda: w("reshape", X, [7, 9])).headline
        refused("E-SHAPE-004", lambda: w("reshape", X, [-1, 7]))
        refused("E-SHAPE-008", lambda: w("reshape", X, [-1, -1]))
        refused("E-SHAPE-003", lambda: w("transpose", X, [0, 0, 1]))
        refused("E-SHAPE-005", lambda: w("transpose", np.float32([1])))
        refused("E-SHAPE-001", lambda: w("broadcast-to", M, [4, 6]))
        refused("E-SHAPE-003", lambda: w("squeeze", M, axis=0))
        refused("E-SHAPE-003", lambda: w("expand-dims", M, 4))


# ---------------------------------------------------------------------------- index


def part(*ends: int | None):
    return call("slice", *ends)


IDS = np.array([[2, 0], [1, 3]], np.int32)
ROW = np.array([0, 2], np.int32)
CASES = [
    ((1,), np.s_[1]),
    ((-1, ":all", 2), np.s_[-1, :, 2]),
    ((part(1, 3),), np.s_[1:3]),
    ((":rest", part(None, None, 2)), np.s_[..., ::2]),
    ((":all", part(-3, None), ":new"), np.s_[:, -3:, None]),
    ((":all", part(None, None, -1), part(4, 0, -2)), np.s_[:, ::-1, 4:0:-2]),
    ((":new", ":rest", 0), np.s_[None, ..., 0]),
    ((part(5, 9),), np.s_[5:9]),
    ((IDS % 3,), np.s_[IDS % 3]),
    ((":all", IDS), np.s_[:, IDS]),
    ((":all", IDS, part(1, 4)), np.s_[:, IDS, 1:4]),
    ((":rest", IDS), np.s_[..., IDS]),
    ((IDS % 3, IDS), np.s_[IDS % 3, IDS]),
    ((":all", IDS, IDS + 1), np.s_[:, IDS, IDS + 1]),
    ((IDS % 3, ":all", IDS), np.s_[IDS % 3, :, IDS]),
    ((0, ":all", ROW), np.s_[0, :, ROW]),
    ((0, ROW), np.s_[0, ROW]),
    ((":all", 1, ROW), np.s_[:, 1, ROW]),
    ((ROW, ":new", IDS), np.s_[ROW, None, IDS]),
    ((IDS % 3, ROW, IDS), np.s_[IDS % 3, ROW, IDS]),
    ((":new", ROW, part(0, 2), 3), np.s_[None, ROW, 0:2, 3]),
    ((np.int32(2),), np.s_[2]),
    ((":all", np.int32(1), part(0, 2)), np.s_[:, 1, 0:2]),
]  # fmt: skip


@pytest.mark.parametrize("specs, index", CASES)
def test_at_is_numpys_indexing(specs, index) -> None:
    with world() as w:
        same(w.numbers("at", X, *specs), X[index])


@pytest.mark.parametrize("specs, index", CASES)
@pytest.mark.parametrize("name", ["set-at", "add-at"])
def test_set_at_and_add_at(name: str, specs, index) -> None:
    value = RNG.normal(size=X[index].shape).astype(np.float32)
    with world() as w:
        if name == "set-at":
            expected = X.copy()
            expected[index] = 7
            same(w.numbers(name, X, 7, *specs), expected)
            if X[index].size == np.unique(N[index]).size:
                expected[index] = value
                same(w.numbers(name, X, value, *specs), expected)
        else:
            expected = X.copy()
            np.add.at(expected, index, value)
            close(w.numbers(name, X, value, *specs), expected)


def test_values_broadcast_into_their_place() -> None:
    with world() as w:
        expected = X.copy()
        expected[:, 1:3] = M[0]
        same(w.numbers("set-at", X, M[0], ":all", part(1, 3)), expected)
        refused("E-SHAPE-006", lambda: w("set-at", X, M, 0, 0))
        refused("E-SHAPE-001", lambda: w("set-at", X, M[:, :3], 0))
        refused("E-OP-001", lambda: w("set-at", X, N, ":all"))
        refused("E-OP-001", lambda: w("set-at", X, True, 0))
        refused("E-DTYPE-003", lambda: w("set-at", np.uint8([1]), 300, 0))


def test_subscripts_are_checked() -> None:
    with world() as w:
        assert "extent is 3" in refused("E-SHAPE-006", lambda: w("at", X, 3)).headline
        refused("E-SHAPE-005", lambda: w("at", X, 0, 0, 0, 0))
        refused("E-OP-001", lambda: w("at", X, ":rest", ":rest"))
        assert ":all" in said(refused("E-OP-001", lambda: w("at", X, ":al")))
        assert "where" in said(refused("E-DTYPE-001", lambda: w("at", X, X[:, 0, 0] > 0)))
        refused("E-DTYPE-001", lambda: w("at", X, M))
        refused("E-OP-001", lambda: w("at", X, 1.5))
        refused("E-OP-001", lambda: call("slice", 0, 3, 0))
        refused("E-SHAPE-001", lambda: w("at", X, np.int32([0, 1]), np.int32([0, 1, 2])))


def test_taking() -> None:
    with world() as w:
        same(w.numbers("take", M, IDS), M[IDS])
        same(w.numbers("take", M, IDS, axis=1), M[:, IDS])
        rows = np.int32([[0, 1], [2, 0], [1, 1], [4, 3]])
        same(w.numbers("take-along", M, rows), np.take_along_axis(M, rows, 1))
        same(w.numbers("take-along", M, rows[:1]), np.take_along_axis(M, rows[:1].repeat(4, 0), 1))
        pairs = np.int32([[0, 1], [3, 4], [2, 2]])
        same(w.numbers("gather", M, pairs), M[pairs[:, 0], pairs[:, 1]])
        same(w.numbers("gather", X, pairs[:1]), X[0, 1][None])
        expected = M.copy()
        expected[pairs[:, 0], pairs[:, 1]] = [1, 2, 3]
        same(w.numbers("scatter", M, pairs, np.float32([1, 2, 3])), expected)
        twice = np.int32([[1], [1]])
        expected = M.copy()
        np.add.at(expected, twice[:, 0], 2)
        close(w.numbers("scatter-add", M, twice, 2), expected)
        refused("E-DTYPE-001", lambda: w("take", M, M))
        refused("E-SHAPE-005", lambda: w("take-along", M, rows[0]))
        refused("E-SHAPE-005", lambda: w("gather", M, np.int32([[0, 0, 0]])))
        refused("E-SHAPE-001", lambda: w("scatter", M, pairs, np.float32([1, 2])))


def test_out_of_range_reads_nan_and_writes_nothing() -> None:
    out = np.int32([0, 4, -1])
    with world() as w:
        made = w.numbers("take", M, out)
        same(made[0], M[0])
        assert np.isnan(made[1:]).all()
        assert w.numbers("take", N[0], out)[1, 0] == 2**31 - 1
        same(w.numbers("set-at", M, 0, w.tensor(out[1:])), M)


def test_dynamic_slices() -> None:
    with world() as w:
        i = w.tensor(np.int32(2))
        same(w.numbers("dynamic-slice", X, [0, i, 1], [2, 2, 3]), X[0:2, 2:4, 1:4])
        same(w.numbers("dynamic-slice", X, [0, 9, 0], [3, 2, 5]), X[:, 2:4])
        same(w.numbers("dynamic-slice", M, w.tensor(np.int32([1, 2])), [2, 2]), M[1:3, 2:4])
        expected = X.copy()
        expected[1:3, 2:4, 0:5] = 0
        zero = w.tensor(np.zeros((2, 2, 5), np.float32))
        same(w.numbers("dynamic-update-slice", X, zero, [1, i, 0]), expected)
        refused("E-SHAPE-006", lambda: w("dynamic-slice", M, [0, 0], [5, 1]))
        refused("E-OP-001", lambda: w("dynamic-slice", M, [0], [1, 1]))
        refused("E-SHAPE-006", lambda: w("dynamic-update-slice", M, zero, [0, 0]))


def test_crop_takes_a_block_of_each_example() -> None:
    images = RNG.normal(size=(3, 6, 7, 2)).astype(np.float32)
    starts = np.int32([[0, 1], [3, 4], [9, -2]])
    with world() as w:
        made = w.numbers("crop", images, starts, [3, 2])
        for i, (y, x) in enumerate([(0, 1), (3, 4), (3, 0)]):
            same(made[i], images[i, y : y + 3, x : x + 2])
        refused("E-SHAPE-005", lambda: w("crop", images, starts[0], [3, 2]))
        refused("E-SHAPE-001", lambda: w("crop", images, starts[:2], [3, 2]))


def test_shapes_are_ordinary() -> None:
    with world() as w:
        x = w.tensor(X)
        assert python_list(call("shape", x)) == [3, 4, 5]
        assert (call("dim", x, -1), call("rank", x), call("size", x)) == (5, 3, 60)
        assert call("dtype", x).name == "f32"
        refused("E-SHAPE-003", lambda: call("dim", x, 3))


def test_casts() -> None:
    with world() as w:
        same(w.numbers("cast", X, ":i32"), X.astype(np.int32))
        same(w.numbers("cast", np.int32([300, -1]), ":u8"), np.uint8([44, 255]))
        same(w.numbers("cast", np.float32([300, -1, np.nan]), ":u8"), np.uint8([255, 0, 0]))
        same(w.numbers("bitcast", M, ":u32"), M.view(np.uint32))
        same(w.numbers("stop-gradient", M), M)
        assert ":f16" in said(refused("E-DTYPE-004", lambda: w("cast", X, ":f61")))
        refused("E-DTYPE-002", lambda: w("bitcast", M, ":f64"))
