"""Threefry in both lowerings: known answers, the same bits, and the law of the split batch."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
import pytest
from jax.extend.random import threefry_2x32

from sexpgpu import ops
from sexpgpu.ir.graph import Graph
from sexpgpu.ir.types import TensorType
from sexpgpu.lowering.interp import threefry as ours
from sexpgpu.lowering.interp.evaluate import Plan, evaluate
from sexpgpu.lowering.xla import threefry as lowered
from sexpgpu.lowering.xla.evaluate import evaluate as lower
from sexpgpu.lowering.xla.options import PLAIN

U = np.uint32
KEYS = [(0, 0), (0xFFFFFFFF, 0xFFFFFFFF), (7, 9), (0x13198A2E, 0x03707344)]


# Random123's published vectors (kat_vectors, threefry2x32 with 20 rounds)
@pytest.mark.parametrize(
    "counter, key, words",
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_known_answers(counter, key, words) -> None:
    key = np.array(key, U)
    for function in (ours.threefry2x32, jax.jit(lowered.threefry2x32)):
        x0, x1 = function(key, np.array([counter[0]], U), np.array([counter[1]], U))
        assert (int(x0[0]), int(x1[0])) == words


@pytest.mark.parametrize("key", KEYS)
def test_words_are_those_of_jax(key) -> None:
    counters = np.random.default_rng(0).integers(0, 1 << 32, 1000, dtype=U)
    want = np.asarray(threefry_2x32(np.array(key, U), counters))
    got = np.concatenate(ours.threefry2x32(np.array(key, U), counters[:500], counters[500:]))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("key", KEYS)
def test_a_draw_without_a_batch_is_that_of_jax(key) -> None:
    shape = (3, 5, 7)
    want = np.asarray(jax.random.bits(jax.random.wrap_key_data(np.array(key, U)), shape))
    got = ours.random_bits(np.array(key, U), 0, shape, None, 1)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("key", KEYS)
def test_folding_is_that_of_jax(key) -> None:
    for integer in (0, 1, 123456, 2**32 - 1):
        wrapped = jax.random.wrap_key_data(np.array(key, U))
        want = np.asarray(jax.random.key_data(jax.random.fold_in(wrapped, U(integer))))
        np.testing.assert_array_equal(ours.fold(np.array(key, U), integer), want)
        fold = jax.jit(lowered.fold)
        np.testing.assert_array_equal(fold(np.array(key, U), np.array(integer, U)), want)


def test_names_are_hashed_by_fnv_1a() -> None:
    # the published test vectors
    for name, value in {"": 0x811C9DC5, "a": 0xE40C292C, "foobar": 0xBF9CF968}.items():
        assert ours.name_hash(name) == lowered.name_hash(name) == value
    assert ours.name_hash("größe") == lowered.name_hash("größe")


def draw_graph(shape: tuple[int, ...], batch: int | None, per_example: int) -> Graph:
    """bits, uniform in [0, 1) and normal, as the front end composes them."""
    b = ops.new_builder()
    key = b.input("key", TensorType((2,), "u32"))
    offset = b.input("offset", TensorType((), "u32"))
    own = b.emit("random-key", key, name="model/dropout/0")
    bits = b.emit("random-bits", own, offset, shape=shape, batch=batch, per_example=per_example)

    def constant(value: float, dtype: str):
        return b.emit("full", shape=shape, value=value, dtype=dtype, batch=bits.type.batch)

    high = b.emit("shift-right", bits, constant(8, "u32"))
    uniform = b.emit("mul", b.emit("cast", high, dtype="f32"), constant(2.0**-24, "f32"))
    # (-1, 1): the odd multiples of 2^-24, never an end; exact in this order, and in any other
    # that XLA may make of it
    shifted = b.emit("sub", b.emit("mul", uniform, constant(2.0, "f32")), constant(1.0, "f32"))
    centred = b.emit("add", shifted, constant(2.0**-24, "f32"))
    normal = b.emit("mul", b.emit("erf-inv", centred), constant(2.0**0.5, "f32"))
    return b.finish("draw", {"bits": bits, "uniform": uniform, "normal": normal})


def drawing(graph: Graph) -> Callable[..., tuple[dict, dict]]:
    """The draws of a graph from (key, offset) by NumPy and by XLA, which compiles it once."""
    program = jax.jit(lambda given: lower(graph, given, PLAIN))

    def both(key, offset: int) -> tuple[dict, dict]:
        inputs = {"key": np.array(key, U), "offset": np.array(offset, U)}
        numpy = evaluate(Plan(graph), inputs)
        with jax.enable_x64(True):
            xla = program(inputs)
        return numpy, {name: np.asarray(x) for name, x in xla.items()}

    return both


@pytest.mark.parametrize(
    "shape, batch, per_example",
    [((4, 3), None, 1), ((8, 3), 0, 1), ((12, 5), 0, 3), ((3, 8, 2), 1, 2), ((), None, 1),
     ((0, 3), 0, 1), ((4, 0), None, 1), ((6,), 0, 1)],
)  # fmt: skip
def test_numpy_and_xla_draw_the_same(shape, batch, per_example) -> None:
    numpy, xla = drawing(draw_graph(shape, batch, per_example))((7, 9), 5)
    np.testing.assert_array_equal(xla["bits"], numpy["bits"])
    np.testing.assert_array_equal(xla["uniform"], numpy["uniform"])
    assert numpy["bits"].shape == shape


def test_uniforms_and_normals_look_like_it_and_agree() -> None:
    numpy, xla = drawing(draw_graph((300, 1000), 0, 1))((1, 2), 0)
    uniform, normal = numpy["uniform"], numpy["normal"]
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 3e-3
    assert np.isfinite(normal).all()
    assert abs(normal.mean()) < 6e-3
    assert abs(normal.std() - 1) < 5e-3
    steps = np.abs(normal.view(np.int32).astype(np.int64) - xla["normal"].view(np.int32))
    assert steps.max() <= 3, "normals within 3 units in the last place"
    assert (steps == 0).mean() > 0.9


@pytest.mark.parametrize("batch, per_example", [(0, 1), (0, 3), (1, 2)])
def test_a_split_batch_draws_what_the_whole_does(batch: int, per_example: int) -> None:
    examples, other = 12, 5

    def drawn(count: int, *offsets: int) -> list[tuple[np.ndarray, np.ndarray]]:
        extents = [count * per_example, other]
        shape = tuple(extents if batch == 0 else extents[::-1])
        draw = drawing(draw_graph(shape, batch, per_example))
        pairs = [draw((3, 4), offset) for offset in offsets]
        return [(numpy["bits"], xla["bits"]) for numpy, xla in pairs]

    (whole,) = drawn(examples, 100)
    for count in (1, 3, 4):
        parts = drawn(count, *range(100, 100 + examples, count))
        for k in (0, 1):
            np.testing.assert_array_equal(
                np.concatenate([part[k] for part in parts], batch), whole[k]
            )


def test_large_draws_run_in_blocks_and_threads() -> None:
    size = (1 << 20) + 12345
    bits = ours.random_bits(np.array((5, 6), U), 0, (size,), None, 1)
    want = np.asarray(jax.random.bits(jax.random.wrap_key_data(np.array((5, 6), U)), (size,)))
    np.testing.assert_array_equal(bits, want)
    rows = ours.random_bits(np.array((5, 6), U), 3, (1 << 12, 300), 0, 1)
    np.testing.assert_array_equal(
        rows[77], ours.random_bits(np.array((5, 6), U), 80, (1, 300), 0, 1)[0]
    )
