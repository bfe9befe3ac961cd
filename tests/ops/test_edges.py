"""What samples do not reach: indices out of range, NaN and infinities, empty tensors, extreme
casts and shifts. NumPy and lax against what OPS and XLA's own rules say, spelled out here."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from sexpgpu import ops
from sexpgpu.ir.types import TensorType
from sexpgpu.lowering.interp.dtypes import IR, NUMPY
from sexpgpu.lowering.interp.evaluate import Plan, evaluate
from sexpgpu.lowering.xla.evaluate import evaluate as lower
from sexpgpu.lowering.xla.options import CpuTuning, Lowering
from sexpgpu.passes.autodiff import vjp

NAN, INF = np.nan, np.inf


def both(op: str, *arrays: Any, **attrs: Any) -> tuple[np.ndarray, np.ndarray]:
    """The op's only result on NumPy and on XLA."""
    b = ops.new_builder()
    xs = [np.asarray(x) for x in arrays]
    values = [b.input(str(i), TensorType(x.shape, IR[x.dtype])) for i, x in enumerate(xs)]
    graph = b.finish("edge", {"y": b.emit(op, *values, **attrs)})
    inputs = {str(i): x for i, x in enumerate(xs)}
    numpy = evaluate(Plan(graph), inputs)["y"]

    def step(zero, inputs):
        return lower(graph, inputs, Lowering(CpuTuning(), zero >= np.int32(0)))["y"]

    with jax.enable_x64(True):
        xla = np.asarray(jax.jit(step)(np.int32(0), inputs))
    assert xla.dtype == numpy.dtype
    return numpy, xla


def expect(want: Any, op: str, *arrays: Any, **attrs: Any) -> None:
    for got in both(op, *arrays, **attrs):
        np.testing.assert_array_equal(got, np.asarray(want))


def f32(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def i32(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


# ---- indices out of range ------------------------------------------------------------------
def test_take_gives_nan_the_maximum_or_true() -> None:
    ids = i32(0, -1, 2, 3, -(2**31))
    expect(f32(1, NAN, 3, NAN, NAN), "take", f32(1, 2, 3), ids, axis=0)
    most = 2**31 - 1
    expect(i32(1, most, 3, most, most), "take", i32(1, 2, 3), ids, axis=0)
    expect([False, True, False, True, True], "take", np.zeros(3, bool), ids, axis=0)
    expect(np.array([1, 255], np.uint8), "take", np.array([1, 2], np.uint8), i32(0, 2), axis=0)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint32, np.int64, np.uint64])
def test_ids_of_any_integer_dtype(dtype: type) -> None:
    x = np.arange(300, dtype=np.float32)
    top = np.iinfo(dtype).max
    ids = np.array([0, 100, top], dtype)
    want = x[top] if top < 300 else NAN
    expect(f32(0, 100, want), "take", x, ids, axis=0)


def test_an_id_of_two_to_the_32nd_does_not_wrap() -> None:
    expect(f32(NAN), "take", f32(5, 6), np.array([2**32], np.int64), axis=0)
    expect(f32(NAN), "take", f32(5, 6), np.array([2**32 - 1], np.uint32), axis=0)
    expect(f32(NAN, NAN), "take", f32(5, 6), np.array([2**63, 2**64 - 1], np.uint64), axis=0)
    expect(f32(5, 6), "take-add", f32(5, 6), np.array([2**32 + 1], np.int64), f32(1), axis=0)
    expect(f32(5), "dynamic-slice", f32(5, 6), np.int64(-(2**40)), sizes=(1,))


def test_take_on_an_inner_axis_with_matrix_ids() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    ids = i32([0, 2], [3, 1])
    want = np.stack([x[:, 0], x[:, 2], np.full((2, 4), NAN, np.float32), x[:, 1]], 1)
    expect(want.reshape(2, 2, 2, 4), "take", x, ids, axis=1)


def test_take_add_accumulates_and_drops() -> None:
    want = f32(1 + 10 + 30, 2, 3)
    expect(want, "take-add", f32(1, 2, 3), i32(0, 3, 0, -1), f32(10, 20, 30, 40), axis=0)


def test_take_add_keeps_a_nan_to_its_row() -> None:
    x = np.zeros((3, 2), np.float32)
    values = f32([NAN, 1], [2, 3])
    expect(f32([0, 0], [NAN, 1], [2, 3]), "take-add", x, i32(1, 2), values, axis=0)


def test_take_along_and_its_transpose() -> None:
    x = f32([1, 2, 3], [4, 5, 6])
    expect(f32([3, NAN], [NAN, 4]), "take-along", x, i32([2, 3], [-1, 0]), axis=1)
    values = f32([10, 20], [30, 40])
    want = f32([1, 2, 13], [44, 5, 6])
    expect(want, "put-along-add", x, i32([2, 3], [-1, 0]), values, axis=1)
    expect(f32([1, 2, 33], [44, 5, 6]), "put-along-add", x, i32([2, 2], [-1, 0]), values, axis=1)


def test_put_along_add_of_one_place_a_line() -> None:
    x = f32([1, 2, 3], [4, 5, 6])
    expect(f32([1, 12, 3], [4, 5, 6]), "put-along-add", x, i32([1], [3]), f32([10], [NAN]), axis=1)


def test_gather_and_scatter_drop_whole_windows() -> None:
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    ids = i32([0, 2], [1, 3], [-1, 0], [1, 1])
    rows = f32(x[0, 2], [NAN, NAN], [NAN, NAN], x[1, 1])
    expect(rows, "gather", x, ids)
    values = np.full((4, 2), 100, np.float32)
    want = x.copy()
    want[0, 2] = want[1, 1] = 100
    expect(want, "scatter", x, ids, values)
    added = x.copy()
    added[0, 2] += 100
    added[1, 1] += 100
    expect(added, "scatter-add", x, ids, values)


def test_scatter_add_counts_duplicates() -> None:
    expect(f32(0, 3, 0), "scatter-add", f32(0, 0, 0), i32([1], [1], [1]), f32(1, 1, 1))


def test_dynamic_slices_clamp_their_starts() -> None:
    x = np.arange(5, dtype=np.float32)
    for start, want in ((0, [0, 1]), (4, [3, 4]), (100, [3, 4]), (-1, [0, 1]), (-(2**31), [0, 1])):
        expect(f32(*want), "dynamic-slice", x, np.int32(start), sizes=(2,))
    for start, want in ((3, [0, 1, 2, 9, 9]), (9, [0, 1, 2, 9, 9]), (-3, [9, 9, 2, 3, 4])):
        expect(f32(*want), "dynamic-update-slice", x, f32(9, 9), np.int32(start))


# ---- NaN and infinities --------------------------------------------------------------------
def test_nan_wins_a_maximum_and_a_minimum() -> None:
    x = f32(1, NAN, 3)
    for op in ("max-reduce", "min-reduce"):
        expect(np.float32(NAN), op, x, axes=(0,))
    for op in ("argmax", "argmin"):
        expect(np.int32(1), op, x, axis=0)
    for op in ("max", "min"):
        expect(f32(NAN, NAN), op, f32(NAN, 1), f32(1, NAN))
    expect(f32(1, NAN, NAN), "cummax", x, axis=0, reverse=False)
    expect(f32(NAN, 0, 2), "relu", f32(NAN, -1, 2))


def test_the_first_of_equals() -> None:
    expect(np.int32(1), "argmax", f32(1, 3, 3, 2), axis=0)
    expect(np.int32(0), "argmin", f32(1, 3, 1, 2), axis=0)


def test_logsumexp_of_infinities() -> None:
    expect(f32(-INF, INF, 0), "logsumexp", f32([-INF, -INF], [INF, 1], [-INF, 0]), axes=(1,))
    expect(f32(-INF), "logsumexp", np.zeros((1, 0), np.float32), axes=(1,))


def test_softmax_masked_by_minus_infinity() -> None:
    expect(f32(1, 0), "softmax", f32(3, -INF), axis=0)
    expect(f32(0, -INF), "log-softmax", f32(3, -INF), axis=0)


def test_functions_at_their_ends() -> None:
    expect(f32(0, 1, 0.5), "sigmoid", f32(-INF, INF, 0))
    expect(f32(0, INF, 100, 0), "softplus", f32(-INF, INF, 100, -200))
    expect(f32(-INF, INF, 0, NAN), "erf-inv", f32(-1, 1, 0, 2))
    expect(f32(-1, 1, NAN), "erf", f32(-INF, INF, NAN))
    expect(f32(2, 0, 1), "erfc", f32(-INF, INF, 0))
    expect(f32(INF, INF), "lgamma", f32(0, -1))
    expect(f32(NAN, NAN), "digamma", f32(0, -3))
    expect(f32(INF, NAN, 0), "rsqrt", f32(0, -1, INF))
    expect(f32(-2, 2, 0, 0), "round", f32(-2.5, 1.5, 0.5, -0.5))
    expect(f32(-2, 1, INF), "trunc", f32(-2.7, 1.7, INF))
    expect([False, True, True], "is-inf", f32(NAN, INF, -INF))


def test_signs_of_zero_survive() -> None:
    for op in ("neg", "sign", "sqrt", "erf", "tanh", "abs", "round", "trunc"):
        numpy, xla = both(op, f32(-0.0))
        assert np.signbit(numpy[0]) == np.signbit(xla[0]), op


def test_remainders() -> None:
    x, y = f32(7, -7, 7, -7, 6), f32(3, 3, -3, -3, 3)
    expect(f32(1, -1, 1, -1, 0), "rem", x, y)
    expect(f32(1, 2, -2, -1, 0), "mod", x, y)
    expect(i32(1, 2, -2, -1, 7), "mod", i32(7, -7, 7, -7, 7), i32(3, 3, -3, -3, 0))
    expect(i32(1, -1, 1, -1, 7), "rem", i32(7, -7, 7, -7, 7), i32(3, 3, -3, -3, 0))
    for op in ("rem", "mod"):
        expect(f32(NAN, NAN), op, f32(1, INF), f32(0, 2))
    expect(f32(3, INF), "mod", f32(3, -3), f32(INF, INF))


# ---- casts and shifts ----------------------------------------------------------------------
def test_floats_to_integers_clamp() -> None:
    x = f32(NAN, INF, -INF, 3e9, -3e9, 2.9, -2.9, 300)
    top, least = 2**31 - 1, -(2**31)
    expect(i32(0, top, least, top, least, 2, -2, 300), "cast", x, dtype="i32")
    expect(np.array([0, 255, 0, 255, 0, 2, 0, 255], np.uint8), "cast", x, dtype="u8")
    expect(
        np.array([0, 2**63 - 1, -(2**63), 3 * 10**9, -3 * 10**9, 2, -2, 300]),
        "cast",
        x,
        dtype="i64",
    )
    expect(x != 0, "cast", x, dtype="bool")


def test_integers_wrap_around() -> None:
    expect(np.array([44, 255], np.uint8), "cast", i32(300, -1), dtype="u8")
    expect(i32(-(2**31)), "add", i32(2**31 - 1), i32(1))
    expect(np.array([2**32 - 1], np.uint32), "neg", np.array([1], np.uint32))


def test_shifts_beyond_the_width() -> None:
    n = i32(0, 1, 31, 32, 40, -1)
    expect(i32(-8, -16, 0, 0, 0, 0), "shift-left", i32(*[-8] * 6), n)
    expect(i32(-8, -4, -1, -1, -1, -1), "shift-right", i32(*[-8] * 6), n)
    u = np.array([2**31] * 3, np.uint32)
    expect(np.array([1, 0, 0], np.uint32), "shift-right", u, np.array([31, 32, 99], np.uint32))


def test_halves_round_once() -> None:
    """1 + 2^-9 is halfway between two bf16: to even, and a chain rounds at each op."""
    x = np.array([1.0], np.float32)
    tie = x + np.float32(2**-8)
    for got in both("cast", tie, dtype="bf16"):
        assert float(got[0]) == 1.0
    ones = np.ones(4096, got.dtype)
    for total in both("sum", ones, axes=(0,)):
        assert float(total) == 4096.0  # a sum in bf16 would stop at 256


def test_one_truth_for_all_elements() -> None:
    x, y = f32([1, NAN], [3, 4]), f32([5, 6], [7, -0.0])
    for holds in (True, False):
        test = np.broadcast_to(np.bool_(holds), x.shape)
        expect(x if holds else y, "select", test, x, y)
    expect(np.zeros((0, 2), np.float32), "select", *[np.zeros((0, 2), t) for t in (bool, "f", "f")])


# ---- nothing at all ------------------------------------------------------------------------
def test_empty_tensors() -> None:
    empty = np.zeros((0, 3), np.float32)
    expect(f32(0, 0, 0), "sum", empty, axes=(0,))
    expect(f32(1, 1, 1), "prod", empty, axes=(0,))
    expect([True], "all", np.zeros((0, 1), bool), axes=(0,))
    expect([False], "any", np.zeros((0, 1), bool), axes=(0,))
    expect(empty, "exp", empty)
    expect(empty, "softmax", empty, axis=1)
    expect(empty, "cumsum", empty, axis=0, reverse=True)
    dims = {"a_batch": (), "b_batch": (), "accumulate": None, "mode": "highest"}
    expect(
        np.zeros((2, 2), np.float32), "dot", np.zeros((2, 0), np.float32),
        np.zeros((0, 2), np.float32), a_contract=(1,), b_contract=(0,), **dims,
    )  # fmt: skip
    ids = np.zeros((0,), np.int32)
    expect(np.zeros((0, 3), np.float32), "take", np.ones((2, 3), np.float32), ids, axis=0)
    expect(f32(NAN, NAN), "take", np.zeros(0, np.float32), i32(0, 1), axis=0)
    expect(f32(1, 2), "take-add", f32(1, 2), ids, np.zeros(0, np.float32), axis=0)


def test_a_scalar_reduces_over_no_axes() -> None:
    expect(np.float32(3), "sum", np.float32(3), axes=())
    expect(np.float32(3), "max-reduce", np.float32(3), axes=())


# ---- pooling -------------------------------------------------------------------------------
@pytest.mark.parametrize("size, strides", [((2,), (2,)), ((2,), (1,)), ((3,), (2,))])
def test_tied_maxima_share(size: tuple, strides: tuple) -> None:
    """Every entry alike: each window's cotangent spreads evenly over its entries."""
    x = np.ones((1, 6, 1), np.float32)
    attrs = {"size": size, "strides": strides, "pads": ((0, 0),)}
    y, _ = both("max-pool", x, **attrs)
    dy = np.arange(1, y.size + 1, dtype=np.float32).reshape(y.shape)
    want = np.zeros_like(x)
    for i in range(y.shape[1]):
        start = i * strides[0]
        want[0, start : start + size[0], 0] += dy[0, i, 0] / np.float32(size[0])
    for got in both("max-pool-grad", x, y, dy, **attrs):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_border_never_wins_and_never_counts() -> None:
    x = np.full((1, 4, 1), -5, np.float32)
    attrs = {"size": (3,), "strides": (2,), "pads": ((1, 1),)}
    y, xla = both("max-pool", x, **attrs)
    np.testing.assert_array_equal(y, np.full((1, 2, 1), -5))
    np.testing.assert_array_equal(xla, y)
    for counts, want in ((True, -10 / 3), (False, -5)):
        for got in both("avg-pool", x, **attrs, count_pads=counts):
            np.testing.assert_allclose(got[0, 0, 0], want, rtol=1e-6)


# ---- order ---------------------------------------------------------------------------------
def test_order_of_floats_with_nan_of_either_sign_and_both_zeros() -> None:
    x = f32(NAN, 1, -0.0, INF, 0, -INF, -NAN, 1)
    for got in ("sort", "top-k"):
        attrs = {"axis": 0, "descending": False} if got == "sort" else {"k": 8}
        want = [5, 2, 4, 1, 7, 3, 0, 6] if got == "sort" else [0, 6, 3, 1, 7, 2, 4, 5]
        b = ops.new_builder()
        given = b.input("x", TensorType((8,), "f32"))
        values, places = b.node(got, (given,), attrs).results
        graph = b.finish("order", {"values": values, "places": places})
        for tuned in (True, False):
            lowering = Lowering(CpuTuning() if tuned else None, np.True_)
            with jax.enable_x64(True):
                run = jax.jit(lambda g, graph=graph, how=lowering: lower(graph, g, how))
                results = [evaluate(Plan(graph), {"x": x}), run({"x": x})]
            for result in results:
                np.testing.assert_array_equal(result["places"], want)
                np.testing.assert_array_equal(result["values"], x[want])
                # the sign of each zero is that of the element
                assert np.array_equal(np.signbit(result["values"])[2:6], np.signbit(x[want])[2:6])


@pytest.mark.parametrize("dtype", ["i8", "u8", "i32", "u32", "i64", "u64", "f64", "bf16"])
@pytest.mark.parametrize("descending", [False, True])
def test_order_at_the_ends_of_each_dtype(dtype: str, descending: bool) -> None:
    kind = NUMPY[dtype]
    if kind.kind in "iu":
        ends = [np.iinfo(kind).min, np.iinfo(kind).max]
    else:
        ends = [-INF, INF]
    x = np.array([ends[1], 2, ends[0], 3, ends[1], ends[0]], kind)
    b = ops.new_builder()
    given = b.input("x", TensorType((6,), dtype))
    results = b.node("sort", (given,), {"axis": 0, "descending": descending}).results
    graph = b.finish("order", {"values": results[0], "places": results[1]})
    want = [0, 4, 3, 1, 2, 5] if descending else [2, 5, 1, 3, 0, 4]
    with jax.enable_x64(True):
        run = jax.jit(lambda g: lower(graph, g, Lowering(CpuTuning(), np.True_)))
        for result in (evaluate(Plan(graph), {"x": x}), run({"x": x})):
            np.testing.assert_array_equal(result["places"], want)
            np.testing.assert_array_equal(np.asarray(result["values"]), x[want])


# ---- derivatives ---------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int64])
@pytest.mark.parametrize("extent", [256, 300, 100])
@pytest.mark.parametrize("op", ["take-add", "put-along-add", "scatter-add", "scatter"])
def test_ids_too_narrow_for_the_extent_have_derivatives(op: str, extent: int, dtype: type) -> None:
    """The cotangent of the values is read where they were written, and 0 where they were not."""
    info = np.iinfo(dtype)
    places = np.array([0, 99, min(info.max, 255), max(info.min, -3)], dtype)
    ids = places[:, None] if op.startswith("scatter") else places
    attrs = {} if op.startswith("scatter") else {"axis": 0}
    b = ops.new_builder()
    x = b.input("x", TensorType((extent,), "f32"))
    index = b.input("ids", TensorType(ids.shape, IR[ids.dtype]))
    values = b.input("values", TensorType((4,), "f32"))
    node = b.node(op, (x, index, values), attrs)
    found = vjp(b, node, (b.input("dy", x.type),))[2]
    assert found is not None
    dy = np.arange(1, extent + 1, dtype=np.float32)
    given = {"x": dy, "ids": ids, "values": dy[:4], "dy": dy}
    wanted = [dy[i] if 0 <= i < extent else 0 for i in places.astype(int)]
    np.testing.assert_array_equal(evaluate(Plan(b.finish("g", {"d": found})), given)["d"], wanted)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_f64_is_rounded_once_to_16_bits(dtype: str) -> None:
    """A nearest f32 between would make a tie of what is not quite one."""
    ulp = 2.0 ** {"bf16": -7, "f16": -10}[dtype]
    low = 1.0 + ulp * np.arange(0, 64)
    even = np.where(np.arange(64) % 2 == 0, low, low + ulp)
    middle = low + ulp / 2
    x = np.concatenate([middle * (1 + 1e-12), middle * (1 - 1e-12), middle])
    want = np.concatenate([low + ulp, low, even])
    odd = np.array([NAN, INF, -INF, 1e300, -1e300, 0.0, -0.0])
    ends = np.array([NAN, INF, -INF, INF, -INF, 0.0, -0.0])
    given, wanted = np.concatenate([x, -x, odd]), np.concatenate([want, -want, ends])
    for got in both("cast", given, dtype=dtype):
        np.testing.assert_array_equal(got.astype(np.float64), wanted)
    for got in both("cast", np.float64(x[0]), dtype=dtype):
        assert got.astype(np.float64) == 1 + ulp
