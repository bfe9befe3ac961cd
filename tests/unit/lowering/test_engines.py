"""One step function on both engines: the interpreter is the reference of what XLA gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sexpgpu import ops
from sexpgpu.ir.graph import Graph
from sexpgpu.ir.types import TensorType
from sexpgpu.lowering.backend import Backend, Engine, open_backend
from sexpgpu.lowering.interp.backend import InterpBackend


@pytest.fixture(scope="module")
def cpu() -> Backend:
    return open_backend("cpu")


@pytest.fixture(scope="module")
def interp() -> Backend:
    return open_backend("interp")


def square_sum_graph(rows: int) -> Graph:
    """x f32[rows, 3], w f32[3], rng -> loss f32[], grad f32[3], count i64[], bits u32[rows]."""
    b = ops.new_builder()
    x = b.input("x", TensorType((rows, 3), "f32", 0))
    w = b.input("w", TensorType((3,), "f32"))
    key = b.input("key", TensorType((2,), "u32"))
    offset = b.input("offset", TensorType((), "u32"))
    y = b.emit("mul", x, b.emit("broadcast", w, shape=(rows, 3), dims=(1,)))
    loss = b.emit("sum", b.emit("mul", y, y), axes=(0, 1))
    bits = b.emit("random-bits", key, offset, shape=(rows,), batch=0, per_example=1)
    low = b.emit("and", bits, b.emit("full", shape=(rows,), value=255, dtype="u32", batch=0))
    count = b.emit("sum", b.emit("cast", low, dtype="i64"), axes=(0,))
    grad = b.emit("sum", b.emit("mul", x, y), axes=(0,))
    return b.finish("g", {"loss": loss, "grad": grad, "count": count})


X = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
W = np.array([1.0, -2.0, 0.5], np.float32)
KEY = np.array([3, 4], np.uint32)


def run(backend: Backend, function, *trees: Any, donate: tuple[int, ...] = ()) -> Any:
    compiled = backend.compile(function, trees, donate)
    return backend.get(compiled(*[backend.put(tree) for tree in trees]))


def same(got: Any, want: Any, rtol: float = 1e-6) -> None:
    if isinstance(want, dict):
        assert got.keys() == want.keys()
        for key in want:
            same(got[key], want[key], rtol)
    elif isinstance(want, list | tuple):
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            same(a, b, rtol)
    else:
        assert np.asarray(got).dtype == np.asarray(want).dtype
        np.testing.assert_allclose(got, want, rtol=rtol)


def accumulated(n: int, example: bool):
    graph = square_sum_graph(12 // n)
    types = {name: value.type for name, value in graph.outputs.items()}

    def step(engine: Engine, w, batch, key):
        def body(part, index):
            rows = engine.scalar(12 // n, "i32")
            offset = engine.cast(engine.mul(index, rows), "u32")
            return engine.call(graph, {"x": part["x"], "w": w, "key": key, "offset": offset})

        return engine.accumulate(body, batch, n, types if example else None)

    return step


@pytest.mark.parametrize("example", [True, False])
@pytest.mark.parametrize("n", [1, 2, 4, 12])
def test_microbatches_add_up_to_the_batch(cpu, interp, n: int, example: bool) -> None:
    whole = square_sum_graph(12)
    want = run(
        interp, lambda e, i: e.call(whole, i), {"x": X, "w": W, "key": KEY, "offset": np.uint32(0)}
    )
    for backend in (cpu, interp):
        got = run(backend, accumulated(n, example), W, {"x": X}, KEY)
        same(got, want, 1e-5)
        assert got["count"] == want["count"], "draws follow the examples, not the microbatches"
        assert got["count"].dtype == np.int64


def test_a_carry_goes_from_microbatch_to_microbatch(cpu, interp) -> None:
    def step(engine: Engine, batch):
        def body(part, index, carry):
            total = engine.cast(part, "f32")
            return {"last": carry["seen"]}, {"seen": engine.add(total[0], carry["seen"])}

        return engine.fold_accumulate(body, {"seen": engine.scalar(0.0, "f32")}, batch, 4)

    batch = np.arange(1, 5, dtype=np.int32)
    for backend in (cpu, interp):
        sums, carry = run(backend, step, batch)
        assert float(sums["last"]) == 0 + 1 + 3 + 6
        assert float(carry["seen"]) == 10


@pytest.mark.parametrize("k", [1, 3])
def test_several_steps_in_one_dispatch(cpu, interp, k: int) -> None:
    def step(engine: Engine, state, batches):
        def body(state, batch):
            new = {
                "w": engine.add(state["w"], engine.mul(batch, state["w"])),
                "step": engine.add(state["step"], engine.scalar(1, "i32")),
            }
            return new, {"norm": new["w"], "step": new["step"]}

        return engine.scan_steps(body, state, batches, k)

    state = {"w": W, "step": np.int32(5)}
    batches = np.arange(k * 3, dtype=np.float32).reshape(k, 3) / 8
    want = run(interp, step, state, batches)
    got = run(cpu, step, state, batches, donate=(0,))
    same(got, want)
    assert got[1]["norm"].shape == (k, 3)
    np.testing.assert_array_equal(got[1]["step"], np.arange(6, 6 + k))


@pytest.mark.parametrize("bad", [False, True])
def test_selection_keeps_the_old_state_to_the_bit(cpu, interp, bad: bool) -> None:
    def step(engine: Engine, state, loss):
        new = {"m": engine.div(state["m"], loss), "n": engine.mul(state["n"], state["n"])}
        good = engine.logical_and(
            engine.is_finite(loss), engine.logical_not(engine.less(loss, engine.scalar(0, "f32")))
        )
        return engine.select(good, new, state)

    state = {"m": np.array([np.nan, 1e-40, -0.0, 3], np.float32), "n": np.int64(2**40)}
    loss = np.float32(np.inf if bad else 2)
    for backend in (cpu, interp):
        got = run(backend, step, state, loss)
        if bad:
            assert got["m"].tobytes() == state["m"].tobytes()
            assert got["n"] == 2**40
        else:
            assert got["m"][3] == 1.5
            assert got["n"].dtype == np.int64


def test_folding_a_key(cpu, interp) -> None:
    import jax

    wrapped = jax.random.wrap_key_data(KEY)
    want = np.asarray(jax.random.key_data(jax.random.fold_in(wrapped, 77)))
    for backend in (cpu, interp):
        for integer in (77, np.int32(77), np.uint32(77)):
            if isinstance(integer, int):
                got = run(backend, lambda e, key: e.fold_key(key, 77), KEY)
            else:
                got = run(backend, lambda e, key, i: e.fold_key(key, i), KEY, integer)
            np.testing.assert_array_equal(got, want)


def test_scalars_have_the_dtype_they_were_given(cpu, interp) -> None:
    dtypes = ("f32", "bf16", "f64", "i32", "i64", "u32")
    for backend in (cpu, interp):
        got = run(
            backend,
            lambda e, x: {d: e.add(e.scalar(3, d), e.cast(x, d)) for d in dtypes},
            np.int32(4),
        )
        assert [str(got[d].dtype) for d in dtypes] == [
            "float32", "bfloat16", "float64", "int32", "int64", "uint32",
        ]  # fmt: skip
        assert all(float(value) == 7 for value in got.values())


# ---- the interpreter's own -----------------------------------------------------------------
def test_watching_sees_every_node(interp) -> None:
    seen: list[str] = []
    watching = InterpBackend(watch=lambda node, results: seen.append(node.op))
    graph = square_sum_graph(2)
    inputs = {"x": X[:2], "w": W, "key": KEY, "offset": np.uint32(0)}
    run(watching, lambda e, i: e.call(graph, i), inputs)
    assert seen == [node.op for node in graph.nodes]


def test_values_are_freed_after_their_last_use() -> None:
    """A chain of a hundred 8 MB values never holds more than a few."""
    import tracemalloc

    b = ops.new_builder()
    x = b.input("x", TensorType((1 << 21,), "f32"))
    for _ in range(100):
        x = b.emit("neg", x)
    graph = b.finish("chain", {"x": x})
    backend = open_backend("interp")
    data = np.ones(1 << 21, np.float32)
    tracemalloc.start()
    run(backend, lambda e, i: e.call(graph, i), {"x": data})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40e6


def test_costs_are_those_of_the_ops(interp) -> None:
    graph = square_sum_graph(2)
    compiled = interp.compile(lambda e, i: e.call(graph, i), ())
    assert compiled.cost() is None
    compiled({"x": X[:2], "w": W, "key": KEY, "offset": np.uint32(0)})
    cost = compiled.cost()
    assert cost is not None
    assert cost["flops"] >= 6 * 4


@pytest.mark.parametrize("name", ["cpu", "interp"])
def test_a_wrong_input_is_refused(name: str) -> None:
    backend = open_backend(name)
    graph = square_sum_graph(2)
    inputs = {"x": X[:3], "w": W, "key": KEY, "offset": np.uint32(0)}
    with pytest.raises(TypeError, match="input x"):
        run(backend, lambda e, i: e.call(graph, i), inputs)
