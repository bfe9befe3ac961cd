"""matmul, einsum, tensordot, convolution, pooling, resizing against NumPy and written-out loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from trace_driving import call, refused, said, world

RNG = np.random.default_rng(3)


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def close(a: object, b: object, tolerance: float = 2e-5) -> None:
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)
    assert np.asarray(a).dtype == np.asarray(b).dtype


MATMULS = [
    ((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 6, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)),
    ((4,), (4, 5)),
    ((3, 4), (4,)), ((2, 3, 4), (4,)), ((4,), (4,)), ((4,), (2, 4, 5)), ((3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (6, 4, 5)), ((2, 1, 3, 4), (1, 6, 4, 5)), ((1, 3, 4), (1, 4, 5)),
    ((6, 3, 4), (2, 6, 4, 5)),
    ((2, 1, 3, 4), (2, 6, 4, 5)), ((1, 1, 3, 4), (7, 4, 5)),
]  # fmt: skip


@pytest.mark.parametrize("a, b", MATMULS)
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = draw(*a), draw(*b)
    with world() as w:
        close(w.numbers("matmul", x, y), np.matmul(x, y))


def test_a_weight_is_one_dot_and_nothing_else() -> None:
    with world() as w:
        w("matmul", draw(2, 3, 4), draw(4, 5))
        (node,) = w.trace.builder.nodes
        assert (node.op, node.attrs["a_contract"], node.attrs["b_contract"]) == ("dot", (2,), (0,))


def test_equal_leading_axes_are_one_batched_dot() -> None:
    with world() as w:
        w("matmul", draw(2, 6, 3, 4), draw(2, 6, 4, 5))
        (node,) = w.trace.builder.nodes
        assert node.attrs["a_batch"] == node.attrs["b_batch"] == (0, 1)


def test_attention_scores_need_no_transpose() -> None:
    with world() as w:
        q, k = draw(2, 5, 3, 4), draw(2, 6, 3, 4)
        scores = w("einsum", "bthd,bshd->bhts", q, k)
        assert [n.op for n in w.trace.builder.nodes] == ["dot"]
        close(w.run(scores), np.einsum("bthd,bshd->bhts", q, k))


def test_dot_outer_tensordot() -> None:
    with world() as w:
        a, b = draw(2, 3, 4), draw(5, 4, 6)
        close(w.numbers("dot", a, b), np.dot(a, b))
        close(w.numbers("dot", a[0, 0], b[0, :, 0]), np.dot(a[0, 0], b[0, :, 0]))
        close(w.numbers("outer", a[0, 0], b[0, 0]), np.outer(a[0, 0], b[0, 0]))
        close(w.numbers("outer", a[0], b[0, 0]), np.multiply.outer(a[0], b[0, 0]))
        c = draw(4, 3, 7)
        close(w.numbers("tensordot", a, c, [[2, 1], [0, 1]]), np.tensordot(a, c, ((2, 1), (0, 1))))
        close(w.numbers("tensordot", a, c, [[-1], [0]]), np.tensordot(a, c, 1))
        close(w.numbers("tensordot", a, c, 0), np.tensordot(a, c, 0))
        close(w.numbers("matmul", np.int32([[1, 2]]), np.int32([[3], [4]])), np.int32([[11]]))


def test_products_that_do_not_fit() -> None:
    with world() as w:
        diagnostic = refused("E-SHAPE-002", lambda: w("matmul", draw(128, 64), draw(128, 10)))
        assert diagnostic.headline == "matmul: inner dimensions differ, 64 and 128"
        assert "must be 64, the last axis of a" in said(diagnostic)
        assert "a is f32 (128 64)" in said(diagnostic)
        refused("E-SHAPE-001", lambda: w("matmul", draw(2, 3, 4), draw(3, 4, 5)))
        refused("E-SHAPE-005", lambda: w("matmul", np.float32(1), draw(2)))
        refused("E-DTYPE-002", lambda: w("matmul", draw(2, 2), np.ones((2, 2), np.int32)))
        refused("E-DTYPE-001", lambda: w("matmul", np.ones((2, 2), bool), np.ones((2, 2), bool)))
        refused("E-SHAPE-002", lambda: w("dot", draw(2), draw(3)))
        refused("E-SHAPE-002", lambda: w("tensordot", draw(2), draw(3), 1))
        refused("E-OP-001", lambda: w("tensordot", draw(2), draw(3), [[0], []]))
        refused("E-OP-001", lambda: w("matmul", 2, draw(3)))


# ---------------------------------------------------------------------------- einsum

EINSUMS = [
    ("ij,jk->ik", [(3, 4), (4, 5)]), ("ij,jk", [(3, 4), (4, 5)]), ("ba,cb", [(3, 4), (5, 3)]),
    ("ij->ji", [(3, 4)]),
    ("ii->i", [(4, 4)]), ("ii", [(4, 4)]), ("iij->j", [(3, 3, 4)]), ("iji->ij", [(3, 2, 3)]),
    ("ij->", [(3, 4)]),
    ("i,i->i", [(4,), (4,)]), ("i,j->ij", [(3,), (4,)]), ("i,j->ji", [(3,), (4,)]),
    ("i,i", [(4,), (4,)]),
    ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]), ("bij,bjk->ikb", [(2, 3, 4), (2, 4, 5)]),
    ("...ij,...jk->...ik", [(2, 3, 4), (2, 4, 5)]), ("...ij,jk->...ik", [(7, 2, 3, 4), (4, 5)]),
    ("...ij,...jk", [(1, 3, 4), (6, 4, 5)]), ("i...,i...->...", [(3, 4, 5), (3, 5)]),
    ("...", [(3, 4)]),
    ("...i->i...", [(2, 3, 4)]), ("ij,jk,kl->il", [(2, 30), (30, 3), (3, 20)]),
    ("ij,jk,ki", [(3, 4), (4, 5), (5, 3)]),
    ("a,ab,bc,cd,d", [(2,), (2, 3), (3, 4), (4, 5), (5,)]), ("i,,j->ij", [(2,), (), (3,)]),
    ("ijk,k->ij", [(2, 3, 4), (4,)]), ("ij,kj->", [(2, 3), (4, 3)]),
    ("ijk,jil->kl", [(3, 4, 5), (4, 3, 2)]),
    ("A b , b c -> A c", [(3, 4), (4, 5)]), ("bi,bi->b", [(3, 4), (3, 4)]),
    ("a,b,c,d,e,f,g,h->aceg", [(2,), (2,), (2,), (2,), (2,), (2,), (2,), (2,)]),
]  # fmt: skip


@pytest.mark.parametrize("spec, shapes", EINSUMS)
def test_einsum(spec: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = [draw(*s) for s in shapes]
    with world() as w:
        expected = np.einsum(spec, *[a.astype(np.float64) for a in arrays]).astype(np.float32)
        close(w.numbers("einsum", spec, *arrays), expected, 1e-4)


def test_einsum_takes_the_cheap_order() -> None:
    """A (2 x 1000), B (1000 x 1000), c (1000): first B c, then A (B c)."""
    with world() as w:
        w("einsum", "ij,jk,k->i", draw(2, 1000), np.zeros((1000, 1000), np.float32), draw(1000))
        products = [n for n in w.trace.builder.nodes if n.op == "dot"]
        assert [len(n.result.shape) for n in products] == [1, 1]


@pytest.mark.parametrize(
    "code, spec, shapes",
    [
        ("E-OP-001", "ij,jk->ik", [(2, 3)]), ("E-SHAPE-005", "ijk->i", [(2, 3)]),
        ("E-SHAPE-005", "i->i", [(2, 3)]),
        ("E-SHAPE-002", "ij,jk->ik", [(2, 3), (4, 5)]), ("E-OP-001", "ij->ik", [(2, 3)]),
        ("E-OP-001", "i->ii", [(2,)]),
        ("E-OP-001", "i1->i", [(2, 3)]), ("E-OP-001", "...i->i", [(2, 3)]),
        ("E-SHAPE-002", "ii->i", [(2, 3)]),
    ],
)  # fmt: skip
def test_einsum_refuses(code: str, spec: str, shapes: list[tuple[int, ...]]) -> None:
    with world() as w:
        assert (
            spec in refused(code, lambda: w("einsum", spec, *[draw(*s) for s in shapes])).headline
        )


# ---------------------------------------------------------------------------- convolution


def same_pads(extent: int, window: int, stride: int) -> tuple[int, int]:
    total = max((-(-extent // stride) - 1) * stride + window - extent, 0)
    return total // 2, total - total // 2


def convolve(x, w, strides, pads, dilation, groups):
    """The definition, place by place."""
    x = np.pad(x.astype(np.float64), [(0, 0), *pads, (0, 0)])
    window, outputs = w.shape[:-2], w.shape[-1]
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, window, strict=True)]
    places = [(n - r) // s + 1 for n, r, s in zip(x.shape[1:-1], reach, strides, strict=True)]
    y = np.zeros((x.shape[0], *places, outputs))
    inner, each = x.shape[-1] // groups, outputs // groups
    for place in itertools.product(*map(range, places)):
        cut = [
            slice(p * s, p * s + r, d)
            for p, s, r, d in zip(place, strides, reach, dilation, strict=True)
        ]
        part = x[(slice(None), *cut)]
        for g in range(groups):
            a = part[..., g * inner : (g + 1) * inner].reshape(x.shape[0], -1)
            b = w[..., g * each : (g + 1) * each].reshape(-1, each)
            y[(slice(None), *place, slice(g * each, (g + 1) * each))] = a @ b
    return y.astype(np.float32)


@pytest.mark.parametrize(
    "x, w, keys, how",
    [
        ((2, 8, 3), (3, 3, 4), {}, ((1,), ((0, 0),), (1,), 1)),
        (
            (2, 8, 3),
            (3, 3, 4),
            {"padding": ":same", "stride": 2},
            ((2,), (same_pads(8, 3, 2),), (1,), 1),
        ),
        ((1, 6, 7, 2), (3, 2, 2, 5), {"padding": ":same"}, ((1, 1), ((1, 1), (0, 1)), (1, 1), 1)),
        (
            (1, 6, 7, 4),
            (3, 3, 2, 6),
            {"groups": 2, "padding": 1},
            ((1, 1), ((1, 1), (1, 1)), (1, 1), 2),
        ),
        (
            (1, 9, 9, 2),
            (3, 3, 2, 3),
            {"dilation": [2, 1], "stride": [1, 2]},
            ((1, 2), ((0, 0), (0, 0)), (2, 1), 1),
        ),
        ((1, 5, 2), (2, 2, 3), {"padding": [[0, 2]]}, ((1,), ((0, 2),), (1,), 1)),
        (
            (1, 4, 4, 4, 2),
            (2, 2, 2, 2, 3),
            {"padding": ":valid"},
            ((1, 1, 1), ((0, 0),) * 3, (1, 1, 1), 1),
        ),
        ((1, 5, 4), (3, 1, 4), {"groups": 4}, ((1,), ((0, 0),), (1,), 4)),
    ],
)
def test_conv(x, w, keys, how) -> None:
    a, b = draw(*x), draw(*w)
    with world() as o:
        close(o.numbers("conv", a, b, **keys), convolve(a, b, *how))


def scatter_transposed(x, w, strides, pads, dilation, groups):
    """Each element of x adds its multiple of the filter: torch's ConvTranspose."""
    window = w.shape[:-2]
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, window, strict=True)]
    full = [(n - 1) * s + r for n, s, r in zip(x.shape[1:-1], strides, reach, strict=True)]
    y = np.zeros((x.shape[0], *full, w.shape[-1]))
    inner, each = x.shape[-1] // groups, w.shape[-1] // groups
    for place in itertools.product(*map(range, x.shape[1:-1])):
        for tap in itertools.product(*map(range, window)):
            target = tuple(
                p * s + t * d for p, s, t, d in zip(place, strides, tap, dilation, strict=True)
            )
            for g in range(groups):
                a = x[(slice(None), *place)][:, g * inner : (g + 1) * inner]
                b = w[tap][:, g * each : (g + 1) * each]
                y[(slice(None), *target, slice(g * each, (g + 1) * each))] += a @ b
    cut = [slice(lo, n - hi) for n, (lo, hi) in zip(full, pads, strict=True)]
    return y[(slice(None), *cut)].astype(np.float32)


@pytest.mark.parametrize(
    "x, w, keys, how",
    [
        ((2, 4, 3), (3, 3, 5), {}, ((1,), ((0, 0),), (1,), 1)),
        ((2, 4, 3), (3, 3, 5), {"stride": 2}, ((2,), ((0, 0),), (1,), 1)),
        ((2, 4, 3), (3, 3, 5), {"stride": 2, "padding": 1}, ((2,), ((1, 1),), (1,), 1)),
        (
            (1, 3, 4, 4),
            (2, 3, 2, 6),
            {"stride": [2, 1], "groups": 2, "dilation": [1, 2]},
            ((2, 1), ((0, 0),) * 2, (1, 2), 2),
        ),
        ((1, 4, 2), (4, 2, 3), {"stride": 2, "padding": ":same"}, ((2,), ((1, 1),), (1,), 1)),
    ],
)
def test_transposed_conv(x, w, keys, how) -> None:
    a, b = draw(*x), draw(*w)
    with world() as o:
        made = o.numbers("conv", a, b, transposed=True, **keys)
        close(made, scatter_transposed(a, b, *how))
        if keys.get("padding") == ":same":
            assert made.shape[1] == x[1] * keys["stride"]


def test_conv_refuses() -> None:
    with world() as w:
        text = said(refused("E-SHAPE-002", lambda: w("conv", draw(1, 8, 3), draw(3, 4, 5))))
        assert "3 channels" in text
        refused("E-SHAPE-005", lambda: w("conv", draw(8, 3), draw(3, 3, 5)))
        refused("E-SHAPE-005", lambda: w("conv", draw(1, 8, 3), draw(3, 3, 3, 5)))
        refused("E-OP-001", lambda: w("conv", draw(1, 8, 3), draw(3, 1, 4), groups=3))
        refused("E-SHAPE-006", lambda: w("conv", draw(1, 2, 3), draw(3, 3, 5)))
        assert ":same" in said(
            refused("E-OP-001", lambda: w("conv", draw(1, 8, 3), draw(3, 3, 4), padding=":sama"))
        )
        refused("E-OP-001", lambda: w("conv", draw(1, 8, 3), draw(3, 3, 4), stride=0))


def windows(x, size, strides, pads, fill):
    x = np.pad(x, [(0, 0), *pads, (0, 0)], constant_values=fill)
    places = [(n - k) // s + 1 for n, k, s in zip(x.shape[1:-1], size, strides, strict=True)]
    rows = []
    for place in itertools.product(*map(range, places)):
        cut = [slice(p * s, p * s + k) for p, s, k in zip(place, strides, size, strict=True)]
        rows.append(x[(slice(None), *cut)])
    made = np.stack(rows, 1)
    return made.reshape(x.shape[0], *places, *made.shape[2:])


@pytest.mark.parametrize(
    "shape, size, keys, how",
    [
        ((2, 6, 3), 2, {}, ((2,), (2,), ((0, 0),))),
        ((1, 6, 7, 2), [3, 2], {"stride": 1}, ((3, 2), (1, 1), ((0, 0), (0, 0)))),
        ((1, 6, 7, 2), 3, {"stride": 2, "padding": ":same"}, ((3, 3), (2, 2), ((0, 1), (1, 1)))),
    ],
)
def test_pooling_and_unfold(shape, size, keys, how) -> None:
    x = draw(*shape)
    axes = tuple(range(len(shape) - 1, 2 * len(shape) - 3))
    with world() as w:
        close(w.numbers("max-pool", x, size, **keys), windows(x, *how, -np.inf).max(axes))
        padded = windows(x, *how, 0)
        close(w.numbers("avg-pool", x, size, **keys), padded.mean(axes))
        alone = windows(x, *how, np.nan)
        close(w.numbers("avg-pool", x, size, count_pads=None, **keys), np.nanmean(alone, axes))
        strided = keys or {"stride": 2}
        close(
            w.numbers("unfold", x, size, **strided),
            padded.reshape(*padded.shape[: len(shape) - 1], -1),
        )
        refused("E-SHAPE-006", lambda: w("max-pool", x, 9))


def test_unfold_is_the_left_half_of_conv() -> None:
    x, w = draw(2, 7, 6, 3), draw(3, 2, 3, 4)
    with world() as o:
        patches = o.numbers("unfold", x, [3, 2], stride=[2, 1])
        close(patches @ w.reshape(-1, 4), o.numbers("conv", x, w, stride=[2, 1]), 1e-4)
        apart = o.numbers("unfold", x, [7, 2], stride=[7, 2])  # without overlap: a mere reshape
        close(apart @ draw(42, 4) * 0, np.zeros((2, 1, 3, 4), np.float32))
        close(
            apart,
            o.numbers("unfold", np.pad(x, [(0, 0), (0, 0), (0, 1), (0, 0)]), [7, 2], stride=[7, 2]),
        )


@pytest.mark.parametrize("old, new", [(4, 8), (5, 7), (8, 3), (3, 9), (6, 6), (1, 4)])
def test_resize(old: int, new: int) -> None:
    x = draw(1, old, 3, 2)
    centers = (np.arange(new) + 0.5) * old / new
    with world() as w:
        made = w.numbers("resize", x, [new, 3])
        flat = np.clip(centers - 0.5, 0, old - 1)
        for column in range(3):
            for channel in range(2):
                expected = np.interp(flat, np.arange(old), x[0, :, column, channel])
                np.testing.assert_allclose(
                    made[0, :, column, channel], expected, rtol=1e-5, atol=1e-6
                )
        nearest = w.numbers("resize", x, [new, 3], method=":nearest")
        close(nearest, x[:, np.floor(centers).astype(int)])
    with world() as w:
        assert call("shape", w("resize", x, 4)).car == 1
