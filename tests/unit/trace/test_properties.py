"""Random shapes and subscripts: whatever NumPy says, and errors where NumPy has errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from trace_driving import call, world

from sexpgpu.diagnostics.model import SxError

EXTENTS = st.integers(1, 4)
SHAPES = st.lists(EXTENTS, min_size=0, max_size=4).map(tuple)


def array(shape: tuple[int, ...]) -> np.ndarray:
    n = int(np.prod(shape))
    return (np.arange(n, dtype=np.float32).reshape(shape) * 7 % 11) - 5


def agree(name: str, arguments: list[Any], expected: Any, **keys: Any) -> None:
    """The function gives what NumPy gives, or refuses with a code where NumPy refuses."""
    try:
        wanted = np.asarray(expected())
    except (ValueError, IndexError, np.exceptions.AxisError):
        wanted = None
    with world() as w:
        if wanted is None:
            try:
                w(name, *arguments, **keys)
            except SxError:
                return
            raise AssertionError("NumPy refuses this")
        np.testing.assert_allclose(w.numbers(name, *arguments, **keys), wanted, rtol=1e-5)


@st.composite
def subscripts(draw: Any) -> tuple[np.ndarray, list[Any], Any]:
    x = array(draw(st.lists(EXTENTS, min_size=1, max_size=4).map(tuple)))
    specs: list[Any] = []
    index: list[Any] = []
    ids_shape = draw(st.lists(st.integers(1, 3), max_size=2).map(tuple))
    rest = draw(st.integers(0, x.ndim))
    for axis, extent in enumerate(x.shape[: draw(st.integers(0, x.ndim))]):
        kind = draw(st.sampled_from(["int", "all", "slice", "ids", "new", "slice"]))
        if kind == "new":
            specs.append(":new")
            index.append(None)
            kind = "all"
        if kind == "int":
            n = draw(st.integers(-extent - 1, extent))
            specs.append(n)
            index.append(n)
        elif kind == "all":
            specs.append(":all")
            index.append(slice(None))
        elif kind == "slice":
            ends = [draw(st.none() | st.integers(-5, 5)) for _ in range(2)]
            step = draw(st.sampled_from([None, 1, 2, -1, -2]))
            specs.append(call("slice", *ends, *([] if step is None else [step])))
            index.append(slice(*ends, step))
        else:
            thin = tuple(draw(st.sampled_from([1, n])) for n in ids_shape)
            ids = np.asarray(np.arange(np.prod(thin)).reshape(thin) % extent, np.int32)
            specs.append(ids)
            index.append(ids)
        if axis == rest:
            specs.append(":rest")
            index.append(Ellipsis)
            break
    return x, specs, tuple(index)


@given(subscripts())
def test_at(case: tuple[np.ndarray, list[Any], Any]) -> None:
    x, specs, index = case
    agree("at", [x, *specs], lambda: x[index])


@given(subscripts())
def test_add_at(case: tuple[np.ndarray, list[Any], Any]) -> None:
    x, specs, index = case

    def expected() -> np.ndarray:
        y = x.copy()
        np.add.at(y, index, 3)
        return y

    agree("add-at", [x, 3, *specs], expected)


@given(SHAPES, SHAPES, SHAPES)
def test_broadcasting(a: tuple[int, ...], b: tuple[int, ...], c: tuple[int, ...]) -> None:
    x, y, z = array(a), array(b), array(c)
    agree("+", [x, y, z], lambda: x + y + z)
    agree("where", [x > 0, y, z], lambda: np.where(x > 0, y, z))


@given(SHAPES, SHAPES)
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    agree("matmul", [array(a), array(b)], lambda: np.matmul(array(a), array(b)))


@given(st.lists(st.sampled_from("abcd"), max_size=4), st.data())
def test_einsum(letters: list[str], data: Any) -> None:
    sizes = {letter: data.draw(EXTENTS) for letter in "abcd"}
    terms = [
        letters,
        *data.draw(st.lists(st.lists(st.sampled_from("abcd"), max_size=3), max_size=2)),
    ]
    used = sorted({x for t in terms for x in t})
    out = data.draw(st.permutations(used)) if used else []
    out = out[: data.draw(st.integers(0, len(out)))]
    spec = ",".join("".join(t) for t in terms)
    if data.draw(st.booleans()):
        spec += "->" + "".join(out)
    arrays = [array(tuple(sizes[x] for x in t)) for t in terms]
    agree("einsum", [spec, *arrays], lambda: np.einsum(spec, *arrays))


@given(SHAPES.filter(len), st.integers(-5, 5), st.booleans())  # NumPy lets a scalar have axis 0
def test_reductions(shape: tuple[int, ...], axis: int, keep: bool) -> None:
    x = array(shape)
    agree("sum", [x], lambda: x.sum(axis, keepdims=keep), axis=axis, keep=keep)
    agree("amax", [x], lambda: x.max(axis, keepdims=keep), axis=axis, keep=keep)


@given(SHAPES, st.lists(st.integers(-1, 8), max_size=4))
def test_reshape(shape: tuple[int, ...], wanted: list[int]) -> None:
    agree("reshape", [array(shape), wanted], lambda: array(shape).reshape(wanted))


@given(SHAPES, st.lists(st.integers(0, 3), min_size=1, max_size=3))
def test_tile(shape: tuple[int, ...], reps: list[int]) -> None:
    agree("tile", [array(shape), reps], lambda: np.tile(array(shape), reps))
