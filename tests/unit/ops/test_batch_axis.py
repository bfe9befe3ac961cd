"""The batch axis of a result: permuting the examples of the operands permutes those of the result.

This is what "examples lie along this axis" means, checked by the NumPy evaluator: an op that
claims an axis for which it does not hold fails. Operands without a batch axis are constant.
"""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from sexpgpu.ir.types import TensorType
from sexpgpu.lowering.interp.dtypes import NUMPY
from sexpgpu.lowering.interp.evaluate import Plan, evaluate
from sexpgpu.ops import OPS, OpDef, Sample, infer, new_builder

MADE_BY_ATTRIBUTE = {"random-bits", "random-fold", "random-key", "full", "iota", "literal"}
OPERATING = [
    pytest.param(op, id=op.name) for op in OPS.values() if op.name not in MADE_BY_ATTRIBUTE
]


# their samples are vectors, or they sum over the batch, or it is that of their body
NEVER = {"conv-weight-grad", "recompute"}


def draw(sample: Sample, type: TensorType, rng: np.random.Generator) -> np.ndarray:
    shape = type.shape if type.batch is not None else ()
    if type.dtype == "bool":
        x = rng.integers(0, 2, shape)
    elif type.dtype[0] in "iu":
        x = rng.integers(int(np.ceil(sample.low)), max(int(sample.high), 1), shape)
    else:
        x = rng.uniform(sample.low, sample.high, shape)
    return np.array(np.broadcast_to(np.asarray(x).astype(NUMPY[type.dtype]), type.shape))


def permuted(x: np.ndarray, axis: int | None, order: list[int]) -> np.ndarray:
    """x with the blocks of rows of each example in another order."""
    if axis is None:
        return x
    rows = x.shape[axis] // len(order)
    index = [i * rows + j for i in order for j in range(rows)]
    return np.ascontiguousarray(np.take(x, index, axis))


MOST = 400


def markings(sample: Sample):
    """Every way to mark operands; of very many, the sample's own and a spread of the others."""
    choices = [(None, *range(type.rank)) for type in sample.types]
    ways = math.prod(map(len, choices))
    if ways <= MOST:
        return list(itertools.product(*choices))
    own = tuple(type.batch for type in sample.types)
    picked = random.Random(0)
    return [own, *[tuple(map(picked.choice, choices)) for _ in range(MOST)]]


@pytest.mark.parametrize("op", OPERATING)
def test_permuting_examples_permutes_the_result(op: OpDef) -> None:
    rng = np.random.default_rng(0)
    held = 0
    for sample in op.samples:
        for marks in markings(sample):
            types = tuple(
                TensorType(t.shape, t.dtype, m) for t, m in zip(sample.types, marks, strict=True)
            )
            (result, *_) = infer(op.name, types, sample.attrs)
            if result.batch is None:
                continue
            extents = [t.shape[t.batch] for t in (*types, result) if t.batch is not None]
            examples = min(extents)
            if examples < 2 or any(extent % examples for extent in extents):
                continue
            b = new_builder()
            inputs = [b.input(str(i), t) for i, t in enumerate(types)]
            value = b.node(op.name, tuple(inputs), sample.attrs).results[0]
            plan = Plan(b.finish("g", {"y": value}))
            arrays = [draw(sample, t, rng) for t in types]
            order = list(rng.permutation(examples))
            plain = evaluate(plan, {str(i): x for i, x in enumerate(arrays)})["y"]
            moved = evaluate(
                plan,
                {
                    str(i): permuted(x, t.batch, order)
                    for i, (x, t) in enumerate(zip(arrays, types, strict=True))
                },
            )["y"]
            want = permuted(plain, result.batch, order)
            np.testing.assert_allclose(
                moved.astype(np.float64), want.astype(np.float64), rtol=1e-5, atol=1e-6,
                err_msg=f"{types} {sample.attrs} -> {result}",
            )  # fmt: skip
            held += 1
    assert held or op.name in NEVER


def batch(name: str, *types: TensorType, **attrs) -> int | None:
    return infer(name, types, attrs)[0].batch


def t(*shape: int, batch: int | None = None) -> TensorType:
    return TensorType(shape, "f32", batch)


def test_parameters_and_constants_take_no_part() -> None:
    assert batch("add", t(4, 3, batch=0), t(4, 3)) == 0
    assert batch("add", t(4, 3), t(4, 3, batch=1)) == 1
    assert batch("add", t(4, 4, batch=0), t(4, 4, batch=1)) is None


def test_reductions_and_shapes_carry_it() -> None:
    assert batch("sum", t(4, 3, batch=0), axes=(0,)) is None
    assert batch("sum", t(2, 4, 3, batch=1), axes=(0, 2)) == 0
    assert batch("transpose", t(4, 3, batch=0), perm=(1, 0)) == 1
    assert batch("broadcast", t(4, batch=0), shape=(2, 4), dims=(1,)) == 1
    assert batch("broadcast", t(1, batch=0), shape=(4,), dims=(0,)) is None
    assert batch("concat", t(4, 3, batch=0), t(4, 2, batch=0), axis=1) == 0
    assert batch("concat", t(4, 3, batch=0), t(4, 3, batch=0), axis=0) is None
    assert batch("slice", t(4, batch=0), starts=(0,), limits=(3,), strides=(1,)) is None


def test_a_batch_axis_swallows_rows_and_gives_them_back() -> None:
    assert batch("reshape", t(8, 6, 5, batch=0), shape=(48, 5)) == 0
    assert batch("reshape", t(48, 5, batch=0), shape=(8, 6, 5)) == 0
    assert batch("reshape", t(8, 5, batch=0), shape=(1, 8, 5)) == 1
    assert batch("reshape", t(8, 1, 5, batch=0), shape=(8, 5)) == 0
    assert batch("reshape", t(5, 8, batch=1), shape=(40,)) is None
    assert batch("reshape", t(3, 8, 5, batch=1), shape=(3, 40)) == 1


def test_products_carry_it_through_free_and_batch_axes() -> None:
    def dot(a, b, a_contract, b_contract, a_batch=(), b_batch=()):
        return batch(
            "dot", a, b, a_contract=a_contract, b_contract=b_contract, a_batch=a_batch,
            b_batch=b_batch, accumulate=None, mode="highest",
        )  # fmt: skip

    assert dot(t(8, 3, batch=0), t(3, 4), (1,), (0,)) == 0
    assert dot(t(3, 4), t(8, 3, batch=0), (0,), (1,)) == 1
    assert dot(t(5, 8, 3, batch=1), t(5, 3, 8, batch=2), (2,), (1,), (0,), (0,)) is None
    assert dot(t(8, 2, 3, batch=0), t(8, 3, 2, batch=0), (2,), (1,), (0,), (0,)) == 0
    assert dot(t(8, 3, batch=0), t(8, 4, batch=0), (0,), (0,)) is None
