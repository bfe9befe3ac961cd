"""Products of tensors. Knows no backend."""

from __future__ import annotations

from math import prod
from typing import Any

from sexpgpu.diagnostics.codes.tensor import (
    E_DTYPE_001,
    E_DTYPE_002,
    E_OP_001,
    E_SHAPE_001,
    E_SHAPE_002,
    E_SHAPE_003,
    E_SHAPE_008,
)
from sexpgpu.ir.graph import Attrs, Builder, Node, Value
from sexpgpu.ir.types import FLOATS, NUMBERS, TensorType
from sexpgpu.ops.building import reshaped, transposed
from sexpgpu.ops.cost import moved
from sexpgpu.ops.rules import MIXED, check_axes, check_shape, list_of, merged_batch, same_dtype
from sexpgpu.ops.samples import bf16, boolean, f32, i32
from sexpgpu.ops.schema import Cotangents, OpDef, OpError, Reject, Sample, Types, define

Axes = tuple[int, ...]
MODES = ("highest", "tf32")


def check_accumulation(name: str, dtype: str, attrs: Attrs) -> None:
    """Refuse an accumulator that is no float, or a mode that does not exist."""
    accumulate, mode = attrs["accumulate"], attrs["mode"]
    if accumulate is not None and (accumulate not in FLOATS or dtype not in FLOATS):
        raise OpError(E_OP_001, f"{name}: products of {dtype} accumulated in {accumulate}")
    if mode not in MODES:
        raise OpError(E_OP_001, f"{name}: mode {mode!r}, wanted one of {' '.join(MODES)}")


def _free(rank: int, contract: Axes, batch: Axes) -> Axes:
    return tuple([axis for axis in range(rank) if axis not in contract and axis not in batch])


def _place(x: TensorType, contract: Axes, batch: Axes, offset: int) -> int | None:
    """Where x's batch axis is in the result, whose free axes of x start at `offset`."""
    if x.batch is None:
        return None
    if x.batch in contract:
        return MIXED
    if x.batch in batch:
        return batch.index(x.batch)
    return offset + _free(x.rank, contract, batch).index(x.batch)


def _infer_dot(types: Types, attrs: Attrs) -> TensorType:
    a, b = types
    a_contract: Axes = attrs["a_contract"]
    b_contract: Axes = attrs["b_contract"]
    a_batch: Axes = attrs["a_batch"]
    b_batch: Axes = attrs["b_batch"]
    if len(a_contract) != len(b_contract) or len(a_batch) != len(b_batch):
        raise OpError(E_OP_001, "dot: the contracted and the batch axes come in pairs")
    check_axes("dot", a, a_contract + a_batch, 0)
    check_axes("dot", b, b_contract + b_batch, 1)
    same_dtype("dot", types, (0, 1))
    check_accumulation("dot", a.dtype, attrs)
    for i, j in zip(a_contract, b_contract, strict=True):
        if a.shape[i] != b.shape[j]:
            raise OpError(
                E_SHAPE_002,
                f"dot: inner dimensions differ, {a.shape[i]} and {b.shape[j]}: axis {i} of "
                f"{list_of(a.shape)} and axis {j} of {list_of(b.shape)}",
                operand=1,
            )
    for i, j in zip(a_batch, b_batch, strict=True):
        if a.shape[i] != b.shape[j]:
            raise OpError(
                E_SHAPE_001,
                f"dot: batch dimensions differ, {a.shape[i]} and {b.shape[j]}: axis {i} of "
                f"{list_of(a.shape)} and axis {j} of {list_of(b.shape)}",
                operand=1,
            )
    a_free, b_free = _free(a.rank, a_contract, a_batch), _free(b.rank, b_contract, b_batch)
    shape = tuple(
        [a.shape[i] for i in a_batch] + [a.shape[i] for i in a_free] + [b.shape[j] for j in b_free]
    )
    check_shape("dot", shape)
    lead = len(a_batch)
    batch = merged_batch(
        _place(a, a_contract, a_batch, lead), _place(b, b_contract, b_batch, lead + len(a_free))
    )
    return TensorType(shape, a.dtype, batch)


def dot(
    b: Builder,
    x: Value,
    y: Value,
    contract: tuple[Axes, Axes],
    batch: tuple[Axes, Axes] = ((), ()),
    accumulate: str | None = None,
    mode: str = "highest",
) -> Value:
    """Emit a dot: pairs of axes of x and y."""
    return b.emit(
        "dot", x, y, a_contract=contract[0], b_contract=contract[1], a_batch=batch[0],
        b_batch=batch[1], accumulate=accumulate, mode=mode,
    )  # fmt: skip


def _restored(b: Builder, value: Value, order: Axes) -> Value:
    """`value`, whose axes stand for the axes `order` of an operand, in the operand's order."""
    return transposed(b, value, tuple([order.index(axis) for axis in range(len(order))]))


def _vjp_dot(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    x, y = node.operands
    attrs = node.attrs
    x_contract, y_contract = attrs["a_contract"], attrs["b_contract"]
    x_batch, y_batch = attrs["a_batch"], attrs["b_batch"]
    x_free = _free(len(x.shape), x_contract, x_batch)
    y_free = _free(len(y.shape), y_contract, y_batch)
    lead = tuple(range(len(x_batch)))
    dy_x = tuple(range(len(lead), len(lead) + len(x_free)))
    dy_y = tuple(range(len(lead) + len(x_free), len(dy.shape)))
    how = {"accumulate": attrs["accumulate"], "mode": attrs["mode"]}

    # dx: dy . y over y's free axes; what is left of y are its contracted axes, in its order.
    paired = sorted(zip(y_contract, x_contract, strict=True))
    dx = dot(b, dy, y, (dy_y, y_free), (lead, y_batch), **how)
    dx = _restored(b, dx, (*x_batch, *x_free, *[i for _, i in paired]))

    # dy: xT . dy in this order of operands: XLA:CPU then neither transposes dy nor computes its
    # producers twice. Leading axes are flattened where that is a mere reshape.
    paired = sorted(zip(x_contract, y_contract, strict=True))
    order = (*y_batch, *[j for _, j in paired], *y_free)
    trailing = tuple(range(len(x_free), len(x.shape)))
    if not lead and len(x_free) > 1 and x_free == tuple(range(len(x_free))):
        rows = prod([x.shape[axis] for axis in x_free])
        inner = tuple([x.shape[axis] for axis in trailing])
        outer = tuple([y.shape[axis] for axis in y_free])
        flat_x = reshaped(b, x, (rows, prod(inner)))
        flat_dy = reshaped(b, dy, (rows, prod(outer)))
        dw = reshaped(b, dot(b, flat_x, flat_dy, ((0,), (0,)), **how), inner + outer)
    else:
        dw = dot(b, x, dy, (x_free, dy_x), (x_batch, lead), **how)
    return dx, _restored(b, dw, order)


def _dot_cost(types: Types, results: Types, attrs: Attrs) -> tuple[int, int]:
    contract: Axes = attrs["a_contract"]
    inner = prod([types[0].shape[axis] for axis in contract])
    return 2 * results[0].size * inner, moved(types, results)


def _dims(
    a_contract: Axes,
    b_contract: Axes,
    a_batch: Axes = (),
    b_batch: Axes = (),
    accumulate: str | None = None,
    mode: str = "highest",
) -> dict[str, Any]:
    return {
        "a_contract": a_contract, "b_contract": b_contract, "a_batch": a_batch,
        "b_batch": b_batch, "accumulate": accumulate, "mode": mode,
    }  # fmt: skip


DOT = define(
    OpDef(
        name="dot",
        doc="Sum of products over pairs of axes, for each place of pairs of batch axes: batch "
        "axes, then the free axes of a, then those of b. 16-bit floats accumulate in f32.",
        operands=(NUMBERS, NUMBERS),
        attrs={
            "a_contract": "ints",
            "b_contract": "ints",
            "a_batch": "ints",
            "b_batch": "ints",
            "accumulate": "dtype?",
            "mode": "str",
        },
        infer=_infer_dot,
        vjp=_vjp_dot,
        precision="matmul",
        cost=_dot_cost,
        samples=(
            Sample(f32(2, 3, batch=0), f32(3, 4), **_dims((1,), (0,))),
            Sample(f32(2, 3, 4, batch=0), f32(4, 5), **_dims((2,), (0,))),
            Sample(f32(2, 3, 4, batch=0), f32(2, 4, 5, batch=0), **_dims((2,), (1,), (0,), (0,))),
            Sample(f32(3), f32(3), **_dims((0,), (0,))),
            Sample(f32(2), f32(3), **_dims((), ())),
            Sample(f32(3, 2), f32(4, 3), **_dims((0,), (1,))),
            Sample(f32(2, 3, 4), f32(5, 4, 3), **_dims((1, 2), (2, 1))),
            Sample(f32(3, 2, 4), f32(4, 5, 2), **_dims((2,), (0,), (1,), (2,))),
            Sample(f32(2, 4, 3), f32(2, 5, 3), **_dims((2,), (2,), (0,), (0,))),
            Sample(f32(4, 2, 3), f32(4, 2), **_dims((0, 1), (0, 1))),
            Sample(bf16(4, 8), bf16(8, 3), **_dims((1,), (0,)), grad=False),
            Sample(bf16(4, 8), bf16(8, 3), **_dims((1,), (0,), accumulate="f32"), grad=False),
            Sample(i32(2, 3), i32(3, 4), **_dims((1,), (0,)), low=-4, high=5, grad=False),
        ),
        rejects=(
            Reject(E_SHAPE_002, f32(2, 3), f32(4, 5), **_dims((1,), (0,))),
            Reject(E_SHAPE_001, f32(2, 3), f32(3, 3), **_dims((1,), (1,), (0,), (0,))),
            Reject(E_SHAPE_003, f32(2, 3), f32(3, 4), **_dims((2,), (0,))),
            Reject(E_SHAPE_003, f32(2, 3), f32(3, 4), **_dims((0,), (0,), (0,), (1,))),
            Reject(E_OP_001, f32(2, 3), f32(3, 4), **_dims((1,), ())),
            Reject(E_OP_001, f32(2, 3), f32(3, 4), **_dims((1,), (0,), mode="fast")),
            Reject(E_OP_001, f32(2, 3), f32(3, 4), **_dims((1,), (0,), accumulate="i32")),
            Reject(E_DTYPE_002, f32(2, 3), bf16(3, 4), **_dims((1,), (0,))),
            Reject(E_DTYPE_001, boolean(2, 3), boolean(3, 4), **_dims((1,), (0,))),
            Reject(E_SHAPE_008, f32(1 << 21, 1), f32(1, 1 << 20), **_dims((1,), (0,))),
        ),
    )
)
