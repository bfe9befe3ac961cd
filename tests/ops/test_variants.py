"""What no sample names, made from each op's samples: every dtype it takes, special values, no
elements, strided memory, another batch. NumPy against lax, and both against what was inferred."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from op_driving import (
    agree,
    cotangents_for,
    draw,
    graph_of,
    named,
    run_lax,
    run_numpy,
    vjp_graph,
)

from sexpgpu.ir.types import DTYPES, FLOATS, TensorType
from sexpgpu.lowering.interp.dtypes import NUMPY
from sexpgpu.ops import OPS, NoGrad, OpDef, OpError, Sample, infer

ALL = [pytest.param(op, id=op.name) for op in OPS.values()]
MORE = 7  # times the examples: an extent that nothing else has
SHAPES = frozenset({"shape", "sizes", "input_shape", "filter_shape", "limits", "starts"})


def remade(op: OpDef, sample: Sample, types: Any, attrs: dict[str, Any]) -> Sample | None:
    """The sample with other types and attributes, where the op takes them."""
    made = Sample(*types, low=sample.low, high=sample.high, values=sample.values, attrs=attrs)
    last = len(op.operands) - 1
    if any(t.dtype not in op.operands[min(i, last)] for i, t in enumerate(types)):
        return None
    try:
        infer(op.name, made.types, made.attrs)
    except OpError:
        return None
    return made


def in_every_dtype(op: OpDef) -> Iterator[Sample]:
    """The largest sample with its first operand's dtype, wherever it stands, replaced."""
    sample = max(op.samples, key=lambda s: sum(t.size for t in s.types))
    if not sample.types:
        return
    old = sample.types[0].dtype
    for dtype in DTYPES:
        types = [TensorType(t.shape, dtype if t.dtype == old else t.dtype) for t in sample.types]
        attrs = {
            key: dtype if op.attrs[key].startswith("dtype") and value == old else value
            for key, value in sample.attrs.items()
        }
        made = remade(op, sample, types, attrs)
        if made is not None:
            yield made


def with_extent(op: OpDef, sample: Sample, old: int, new: int, axes: Any = None) -> Sample | None:
    """An extent, wherever it stands in types and attributes of shapes, replaced by another."""

    def changed(shape: tuple) -> tuple:
        return tuple([new if n == old else n for n in shape])

    types = [TensorType(changed(t.shape), t.dtype, t.batch) for t in sample.types]
    attrs = {
        key: changed(value) if key in SHAPES and isinstance(value, tuple) else value
        for key, value in sample.attrs.items()
    }
    if "values" in attrs and op.name == "literal":
        return None
    return remade(op, sample, types, attrs)


def without_elements(op: OpDef) -> Iterator[Sample]:
    for sample in op.samples:
        extents = {n for t in sample.types for n in t.shape} | set(sample.attrs.get("shape", ()))
        for extent in sorted(extents - {0}):
            made = with_extent(op, sample, extent, 0)
            if made is not None:
                yield made


# Which of infinity and NaN a pivot that is not finite gives is the library's own matter.
UNDEFINED = {"triangular-solve"}
SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 3.5, -2.5, 1e30, -1e-30]


def special(sample: Sample) -> list[np.ndarray]:
    """Operands of NaN, infinities, zeros of both signs and the ends of integers, which meet."""
    arrays: list[np.ndarray] = []
    for k, type in enumerate(sample.types):
        dtype = NUMPY[type.dtype]
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            values = np.array([info.min, info.max, 0, 1, info.max - 1, info.min + 1, 3], dtype)
        elif dtype.kind == "b":
            values = np.array([True, False])
        else:
            with np.errstate(over="ignore"):
                values = np.array(SPECIAL).astype(dtype)
        # another stride for each operand, so that pairs differ
        word = sample.values if isinstance(sample.values, str) else sample.values[k]
        places = (np.arange(type.size) * (2 * k + 1) + 3 * k) % len(values)
        x = values[places].reshape(type.shape)
        arrays.append(np.sort(x, -1) if word == "sorted" else x)
    return arrays


def compared(op: OpDef, samples: list[Sample], inputs: list[list[np.ndarray]]) -> None:
    graphs = [graph_of(op, sample) for sample in samples]
    given = [named(xs) for xs in inputs]
    for sample, xs, graph, found in zip(
        samples, inputs, graphs, run_lax(graphs, given, True), strict=True
    ):
        for name, want in run_numpy(graph, named(xs)).items():
            try:
                agree(op, found[name], np.asarray(want), xs)
            except AssertionError as error:
                error.add_note(f"{sample.types} {sample.attrs}\n{xs}\n{found[name]}\n{want}")
                raise


@pytest.mark.slow
@pytest.mark.parametrize("op", ALL)
def test_every_dtype_that_it_takes(op: OpDef) -> None:
    samples = list(in_every_dtype(op))
    allowed = op.operands[0] if op.operands else ()
    assert len(samples) >= min(len(allowed), 1)
    if samples:
        compared(op, samples, [draw(sample, seed=8) for sample in samples])


@pytest.mark.slow
@pytest.mark.parametrize("op", ALL)
def test_special_values(op: OpDef) -> None:
    samples = [s for s in in_every_dtype(op) if s.types[0].dtype in ("f32", "f64", "i32", "u8")]
    if samples and op.name not in UNDEFINED:
        compared(op, samples, [special(sample) for sample in samples])


@pytest.mark.slow
@pytest.mark.parametrize("op", ALL)
def test_no_elements(op: OpDef) -> None:
    samples = list(without_elements(op))
    if samples:
        compared(op, samples, [draw(sample, seed=8) for sample in samples])


@pytest.mark.parametrize("op", ALL)
def test_derivatives_and_costs_without_elements(op: OpDef) -> None:
    for sample in without_elements(op):
        results = infer(op.name, sample.types, sample.attrs)
        assert min(op.cost(sample.types, results, sample.attrs)) >= 0
        floats = {t.dtype for t in (*sample.types, *results)} & FLOATS
        if isinstance(op.vjp, NoGrad) or floats != {"f32"}:
            continue
        graph, _ = vjp_graph(op, sample)
        given = {**named(draw(sample, seed=8)), **cotangents_for(op, sample)}
        for name, gradient in run_numpy(graph, given).items():
            assert gradient.shape == sample.types[int(name[1:])].shape


@pytest.mark.parametrize("op", ALL)
def test_memory_in_any_order(op: OpDef) -> None:
    """Transposed, reversed and strided views hold the same numbers."""
    for sample in op.samples:
        xs = draw(sample, seed=8)
        graph = graph_of(op, sample)
        want = run_numpy(graph, named(xs))
        transposed = [x.copy(order="F") for x in xs]
        backwards = [np.flip(np.flip(x).copy()) for x in xs]
        strided = [np.repeat(x, 2, -1)[..., ::2] if x.ndim else x for x in xs]
        for views in (transposed, backwards, strided):
            for a, b in zip(views, xs, strict=True):
                assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
            got = run_numpy(graph, named(views))
            for name, value in want.items():
                agree(op, np.asarray(got[name]), np.asarray(value), xs)


def marked(sample: Sample) -> Iterator[tuple[int, tuple[TensorType, ...]]]:
    """Every way to put a batch of one extent on the operands."""
    choices = [(None, *range(t.rank)) for t in sample.types]
    for marks in itertools.product(*choices):
        types = tuple(
            [TensorType(t.shape, t.dtype, m) for t, m in zip(sample.types, marks, strict=True)]
        )
        extents = {t.shape[t.batch] for t in types if t.batch is not None}
        if len(extents) == 1:
            yield extents.pop(), types


@pytest.mark.parametrize("op", ALL)
def test_another_batch_changes_the_marked_axis_alone(op: OpDef) -> None:
    """Where only the batch has its extent, more examples lengthen the marked axis of the result by
    the same factor, and no other."""
    for sample in op.samples:
        for extent, types in marked(sample):
            counts = sum(t.shape.count(extent) for t in types)
            named = [n for k, v in sample.attrs.items() if k in SHAPES and v for n in v]
            if counts != sum(t.batch is not None for t in types) or named.count(extent) > 1:
                continue  # another axis has this extent, too
            start = remade(op, sample, types, sample.attrs)
            assert start is not None
            larger = with_extent(op, start, extent, MORE * extent)
            if extent < 2 or larger is None:
                continue  # an extent of 1 may broadcast
            one = infer(op.name, start.types, start.attrs)
            two = infer(op.name, larger.types, larger.attrs)
            for a, b in zip(one, two, strict=True):
                assert a.batch == b.batch
                if a.batch is None:
                    continue
                pairs = enumerate(zip(a.shape, b.shape, strict=True))
                differ = [i for i, (m, n) in pairs if m != n]
                assert differ == [a.batch], f"{start.types} {sample.attrs}: {a} and {b}"
                assert b.shape[a.batch] == MORE * a.shape[a.batch]
