"""Dead code, sharing and folding: no bit of any output changes on the NumPy backend."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from sampled_graphs import arrays, graphs, same_bits

from sexpgpu.ir.graph import Graph, Value
from sexpgpu.ir.types import TensorType
from sexpgpu.ir.verify import verify
from sexpgpu.lowering.interp.evaluate import Plan, evaluate
from sexpgpu.ops import infer, new_builder
from sexpgpu.passes import cse, dce, fold, pipeline

T = TensorType((2, 3), "f32")
PASSES = [dce.run, cse.run, fold.run]


def check_same(before: Graph, after: Graph) -> None:
    verify(after, infer)
    assert after.inputs == before.inputs
    assert list(after.outputs) == list(before.outputs)
    for name, value in after.outputs.items():
        assert value.type == before.outputs[name].type
    inputs = arrays(before)
    want = evaluate(Plan(before), inputs)
    got = evaluate(Plan(after), inputs)
    for name, value in want.items():
        assert same_bits(got[name], value), name


@pytest.mark.parametrize("step", PASSES, ids=["dce", "cse", "fold"])
@given(graph=graphs(places=False))
def test_no_bit_changes(step, graph: Graph) -> None:
    check_same(graph, step(graph))


@given(graph=graphs(places=False))
def test_no_bit_changes_under_all_together(graph: Graph) -> None:
    plain = Graph(
        graph.name, graph.inputs, [without_numerics(n) for n in graph.nodes], graph.outputs
    )
    check_same(plain, pipeline.run(plain, pipeline.Options("f32"), check=True))


def without_numerics(node):
    return type(node)(node.op, node.operands, node.attrs, node.results, node.origin)


@given(graph=graphs(places=False))
def test_passes_settle(graph: Graph) -> None:
    once = dce.run(cse.run(dce.run(graph)))
    assert dce.run(once) is once
    assert cse.run(once) is once


# -- dead code and sharing ----------------------------------------------------------------------


def test_dead_nodes_go_and_inputs_stay() -> None:
    b = new_builder()
    x, unused = b.input("x", T), b.input("unused", T)
    b.emit("exp", unused)
    graph = dce.run(b.finish("g", {"y": b.emit("neg", x)}))
    assert [node.op for node in graph.nodes] == ["neg"]
    assert list(graph.inputs) == ["x", "unused"]
    assert list(dce.without_unused_inputs(graph).inputs) == ["x"]


def test_equal_nodes_are_one() -> None:
    b = new_builder()
    x = b.input("x", T)
    y = b.emit("add", b.emit("exp", x), b.emit("exp", x))
    graph = cse.run(b.finish("g", {"y": y, "z": b.emit("exp", x)}))
    assert [node.op for node in graph.nodes] == ["exp", "add"]
    assert graph.outputs["z"] is graph.nodes[0].result


@pytest.mark.parametrize(
    "a, b", [(0.0, -0.0), (1, 1.0), (1.0, math.nextafter(1.0, 2.0))], ids=["zeros", "kinds", "ulp"]
)
def test_constants_that_differ_are_not_one(a: float, b: float) -> None:
    builder = new_builder()
    values = [builder.emit("full", shape=(), value=v, dtype="f64", batch=None) for v in (a, b)]
    graph = builder.finish("g", {str(i): v for i, v in enumerate(values)})
    assert cse.run(graph) is graph


def test_nan_constants_are_one() -> None:
    b = new_builder()
    values = [b.emit("full", shape=(), value=float("nan"), dtype="f32", batch=None) for _ in "ab"]
    assert len(cse.run(b.finish("g", {str(i): v for i, v in enumerate(values)})).nodes) == 1


def test_nodes_under_different_numerics_are_not_one() -> None:
    b = new_builder()
    x = b.input("x", T)
    one = b.emit("exp", x)
    b.numerics = "compute=f32"
    graph = b.finish("g", {"a": one, "b": b.emit("exp", x)})
    assert cse.run(graph) is graph


# -- folding ------------------------------------------------------------------------------------


def full(b, value, shape=(2, 3), dtype="f32") -> Value:
    return b.emit("full", shape=shape, value=value, dtype=dtype, batch=None)


def ops_left(build) -> list[str]:
    """The ops of what `build(builder, x, i, p)` becomes, folded: x f32, i i32, p bool."""
    b = new_builder()
    x, i = b.input("x", T), b.input("i", T._replace(dtype="i32"))
    p = b.input("p", T._replace(dtype="bool"))
    graph = b.finish("g", {"y": build(b, x, i, p)})
    folded = dce.run(fold.run(graph))
    check_same(graph, folded)
    return [node.op for node in folded.nodes]


GONE = {
    "times one": lambda b, x, i, p: b.emit("mul", x, full(b, 1.0)),
    "one times": lambda b, x, i, p: b.emit("mul", full(b, 1.0), x),
    "over one": lambda b, x, i, p: b.emit("div", x, full(b, 1.0)),
    "less zero": lambda b, x, i, p: b.emit("sub", x, full(b, 0.0)),
    "plus minus zero": lambda b, x, i, p: b.emit("add", x, full(b, -0.0)),
    "integer plus zero": lambda b, x, i, p: b.emit("add", i, full(b, 0, dtype="i32")),
    "reshape twice": lambda b, x, i, p: b.emit(
        "reshape", b.emit("reshape", x, shape=(6,)), shape=(2, 3)
    ),
    "transpose twice": lambda b, x, i, p: b.emit(
        "transpose", b.emit("transpose", x, perm=(1, 0)), perm=(1, 0)
    ),
    "negated twice": lambda b, x, i, p: b.emit("neg", b.emit("neg", x)),
    "not twice": lambda b, x, i, p: b.emit("not", b.emit("not", p)),
    "cast to its dtype": lambda b, x, i, p: b.emit("cast", x, dtype="f32"),
    "cast up and back": lambda b, x, i, p: b.emit(
        "cast", b.emit("cast", x, dtype="f64"), dtype="f32"
    ),
    "one branch": lambda b, x, i, p: b.emit("select", p, x, x),
    "known branch": lambda b, x, i, p: b.emit(
        "select", full(b, True, dtype="bool"), x, b.emit("exp", x)
    ),
    "whole slice": lambda b, x, i, p: b.emit(
        "slice", x, starts=(0, 0), limits=(2, 3), strides=(1, 1)
    ),
    "no padding": lambda b, x, i, p: b.emit(
        "pad", x, low=(0, 0), high=(0, 0), interior=(0, 0), value=7.0
    ),
    "only operand": lambda b, x, i, p: b.emit("concat", x, axis=0),
    "sum of nothing": lambda b, x, i, p: b.emit("sum", x, axes=()),
    "and itself": lambda b, x, i, p: b.emit("and", p, p),
    "or false": lambda b, x, i, p: b.emit("or", p, full(b, False, dtype="bool")),
    "reverse twice": lambda b, x, i, p: b.emit(
        "reverse", b.emit("reverse", x, axes=(1,)), axes=(1,)
    ),
}


@pytest.mark.parametrize("build", GONE.values(), ids=GONE)
def test_identities_go(build) -> None:
    assert ops_left(build) == []


CONSTANT = {
    "integer arithmetic": lambda b, x, i, p: b.emit(
        "mul", full(b, 1 << 30, dtype="i32"), full(b, 7, dtype="i32")
    ),
    "integer comparison": lambda b, x, i, p: b.emit(
        "lt", full(b, 2, dtype="i32"), full(b, 3, dtype="i32")
    ),
    "itself": lambda b, x, i, p: b.emit("eq", i, i),
    "times zero": lambda b, x, i, p: b.emit("mul", i, full(b, 0, dtype="i32")),
    "broadcast": lambda b, x, i, p: b.emit("broadcast", full(b, 0.1, ()), shape=(2, 3), dims=()),
    "cast": lambda b, x, i, p: b.emit("cast", full(b, 0.1), dtype="bf16"),
    "cast of an integer": lambda b, x, i, p: b.emit("cast", full(b, 300, dtype="i32"), dtype="u8"),
    "remainder": lambda b, x, i, p: b.emit(
        "rem", full(b, -7, dtype="i32"), full(b, 3, dtype="i32")
    ),
    "modulus": lambda b, x, i, p: b.emit("mod", full(b, -7, dtype="i32"), full(b, 3, dtype="i32")),
    "sum": lambda b, x, i, p: b.emit("sum", full(b, 1 << 30, dtype="i32"), axes=(0, 1)),
    "count to one": lambda b, x, i, p: b.emit(
        "iota", shape=(2, 1), axis=1, dtype="i32", batch=None
    ),
    "padding with itself": lambda b, x, i, p: b.emit(
        "pad", full(b, 2.0), low=(1, 0), high=(0, 0), interior=(0, 0), value=2.0
    ),
}


@pytest.mark.parametrize("build", CONSTANT.values(), ids=CONSTANT)
def test_constants_are_computed(build) -> None:
    assert ops_left(build) == ["full"]


STAY = {
    "plus zero": lambda b, x, i, p: b.emit("add", x, full(b, 0.0)),  # -0.0 + 0.0 is 0.0
    "less minus zero": lambda b, x, i, p: b.emit("sub", x, full(b, -0.0)),
    "times zero": lambda b, x, i, p: b.emit("mul", x, full(b, 0.0)),  # NaN, infinities, signs
    "float arithmetic": lambda b, x, i, p: b.emit("add", full(b, 0.1), full(b, 0.2)),
    "float equal to itself": lambda b, x, i, p: b.emit("eq", x, x),  # NaN
    "cast down and back": lambda b, x, i, p: b.emit(
        "cast", b.emit("cast", x, dtype="bf16"), dtype="f32"
    ),
    "divided by itself": lambda b, x, i, p: b.emit("div", x, x),
    "rounded once, not by way of f32": lambda b, x, i, p: b.emit(
        "cast", full(b, 1 + 2**-8 + 2**-40, dtype="f64"), dtype="bf16"
    ),
}


@pytest.mark.parametrize("build", STAY.values(), ids=STAY)
def test_what_would_change_a_bit_stays(build) -> None:
    left = ops_left(build)
    assert left
    assert left != ["full"]


def test_rounding_of_constants_is_that_of_ml_dtypes() -> None:
    import ml_dtypes

    rng = np.random.default_rng(0)
    numbers = [
        *rng.normal(size=200),
        *(10.0 ** rng.uniform(-45, 39, 200)),
        1e39,
        -1e39,
        65519.0,
        65520.0,
        5e-324,
        3.3895314e38,
        -0.0,
        1 + 2**-9,
        1 + 2**-8,
        1 + 3 * 2**-9,
    ]
    for number in map(float, numbers):
        with np.errstate(over="ignore"):
            single = np.float32(number)
            assert repr(fold.rounded(number, "f32")) == repr(float(single))
            assert repr(fold.rounded(number, "f16")) == repr(float(np.float16(number)))
            assert repr(fold.rounded(number, "bf16")) == repr(float(ml_dtypes.bfloat16(single)))


def test_a_batch_axis_is_not_folded_away() -> None:
    b = new_builder()
    x = b.input("x", TensorType((4, 3), "f32"))
    one = b.emit("full", shape=(4, 3), value=1.0, dtype="f32", batch=0)
    graph = b.finish("g", {"y": b.emit("mul", x, one)})
    assert fold.run(graph).outputs["y"].type.batch == 0
