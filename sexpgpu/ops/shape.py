"""Ops that move elements without computing. Knows no backend."""

from __future__ import annotations

from math import prod
from typing import Any, TypeAlias

from sexpgpu.diagnostics.codes.tensor import (
    E_DTYPE_002,
    E_OP_001,
    E_OP_002,
    E_SHAPE_001,
    E_SHAPE_003,
    E_SHAPE_004,
    E_SHAPE_005,
    E_SHAPE_006,
    E_SHAPE_008,
)
from sexpgpu.ir.graph import Attrs, Builder, Node, Value
from sexpgpu.ir.types import ANY, TensorType
from sexpgpu.ops.building import reshaped, total, transposed, zeros_like
from sexpgpu.ops.cost import gathered, movement
from sexpgpu.ops.make import check_numbers
from sexpgpu.ops.rules import (
    MIXED,
    check_axes,
    check_axis,
    check_count,
    check_shape,
    list_of,
    merged_batch,
    same_dtype,
)
from sexpgpu.ops.samples import bf16, boolean, f32, i32
from sexpgpu.ops.schema import Cotangents, OpDef, OpError, Reject, Sample, Types, define

Extents: TypeAlias = tuple[int, ...]

# -- reshape ------------------------------------------------------------------------------------


def _reshaped_batch(x: TensorType, shape: tuple[int, ...]) -> int | None:
    """The axis of `shape` whose major part is what x's batch axis was.

    The same number of elements must lie before it, and one extent divide the other: a batch
    axis that swallows the axes after it, or gives back rows that it had swallowed.
    """
    if x.batch is None:
        return None
    extent, before, seen = x.shape[x.batch], prod(x.shape[: x.batch]), 1
    for axis, size in enumerate(shape):
        if seen == before and (size > 1 or extent <= 1):
            divides = size == extent or (
                size > 0 and extent > 0 and (size % extent == 0 or extent % size == 0)
            )
            return axis if divides else None
        seen *= size
    return None


def _infer_reshape(types: Types, attrs: Attrs) -> TensorType:
    x, shape = types[0], attrs["shape"]
    check_shape("reshape", shape)
    if prod(shape) != x.size:
        raise OpError(
            E_SHAPE_004,
            f"reshape: shape {list_of(x.shape)} has {x.size} elements, {list_of(shape)} has "
            f"{prod(shape)}",
        )
    return TensorType(shape, x.dtype, _reshaped_batch(x, shape))


def _vjp_reshape(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    return (reshaped(b, dy, node.operands[0].shape),)


RESHAPE = define(
    OpDef(
        name="reshape",
        doc="The same elements, row-major, in another shape.",
        operands=(ANY,),
        attrs={"shape": "ints"},
        infer=_infer_reshape,
        vjp=_vjp_reshape,
        precision="follow",
        cost=movement,
        samples=(
            Sample(f32(2, 3, batch=0), shape=(6,)),
            Sample(f32(6, batch=0), shape=(2, 3)),
            Sample(f32(2, 3), shape=(3, 1, 2)),
            Sample(f32(1), shape=()),
            Sample(i32(4), shape=(2, 2), grad=False),
            Sample(boolean(0, 3), shape=(3, 0), grad=False),
        ),
        rejects=(
            Reject(E_SHAPE_004, f32(2, 3), shape=(2, 2)),
            Reject(E_SHAPE_008, f32(2, 3), shape=(-2, -3)),
        ),
    )
)

# -- transpose ----------------------------------------------------------------------------------


def _infer_transpose(types: Types, attrs: Attrs) -> TensorType:
    x = types[0]
    perm: Extents = attrs["perm"]
    check_axes("transpose", x, perm)
    if len(perm) != x.rank:
        raise OpError(
            E_SHAPE_003, f"transpose: permutation {list_of(perm)} of a tensor of rank {x.rank}, {x}"
        )
    batch = None if x.batch is None else perm.index(x.batch)
    return TensorType(tuple([x.shape[axis] for axis in perm]), x.dtype, batch)


def _vjp_transpose(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    perm = node.attrs["perm"]
    return (transposed(b, dy, tuple([perm.index(axis) for axis in range(len(perm))])),)


TRANSPOSE = define(
    OpDef(
        name="transpose",
        doc="Axes in another order: axis i of the result is axis perm[i] of x.",
        operands=(ANY,),
        attrs={"perm": "ints"},
        infer=_infer_transpose,
        vjp=_vjp_transpose,
        precision="follow",
        cost=movement,
        samples=(
            Sample(f32(2, 3, batch=0), perm=(1, 0)),
            Sample(f32(2, 3, 4), perm=(2, 0, 1)),
            Sample(f32(), perm=()),
            Sample(i32(2, 3), perm=(1, 0), grad=False),
        ),
        rejects=(
            Reject(E_SHAPE_003, f32(2, 3), perm=(0, 2)),
            Reject(E_SHAPE_003, f32(2, 3), perm=(0, 0)),
            Reject(E_SHAPE_003, f32(2, 3), perm=(0,)),
        ),
    )
)

# -- broadcast ----------------------------------------------------------------------------------


def _infer_broadcast(types: Types, attrs: Attrs) -> TensorType:
    x, shape, dims = types[0], attrs["shape"], attrs["dims"]
    check_shape("broadcast", shape)
    check_count("broadcast", "dims", len(dims), x.rank)
    if dims and dims[-1] >= len(shape):
        raise OpError(E_SHAPE_003, f"broadcast: axis {dims[-1]} of shape {list_of(shape)}")
    for axis, (extent, dim) in enumerate(zip(x.shape, dims, strict=True)):
        if extent not in (1, shape[dim]):
            raise OpError(
                E_SHAPE_001,
                f"broadcast: axis {axis} of {list_of(x.shape)} is {extent}, axis {dim} of "
                f"{list_of(shape)} is {shape[dim]}",
                operand=0,
            )
    batch = x.batch
    if batch is not None:
        batch = dims[batch] if shape[dims[batch]] == x.shape[batch] else None
    return TensorType(shape, x.dtype, batch)


def _vjp_broadcast(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    x, dims = node.operands[0], node.attrs["dims"]
    repeated = tuple(
        [
            axis
            for axis, extent in enumerate(dy.shape)
            if axis not in dims or x.shape[dims.index(axis)] != extent
        ]
    )
    return (reshaped(b, total(b, dy, repeated), x.shape),)


BROADCAST = define(
    OpDef(
        name="broadcast",
        doc="x repeated: its axis i becomes axis dims[i], of equal extent or of 1 before.",
        operands=(ANY,),
        attrs={"shape": "ints", "dims": "axes"},
        infer=_infer_broadcast,
        vjp=_vjp_broadcast,
        precision="follow",
        cost=movement,
        samples=(
            Sample(f32(3), shape=(2, 3), dims=(1,)),
            Sample(f32(2, 1, batch=0), shape=(2, 3), dims=(0, 1)),
            Sample(f32(), shape=(2, 2), dims=()),
            Sample(f32(2, 3), shape=(2, 4, 3), dims=(0, 2)),
            Sample(boolean(3), shape=(2, 3), dims=(1,), grad=False),
        ),
        rejects=(
            Reject(E_SHAPE_001, f32(3), shape=(2, 4), dims=(1,)),
            Reject(E_SHAPE_003, f32(3), shape=(3,), dims=(1,)),
            Reject(E_OP_001, f32(3), shape=(2, 3), dims=(0, 1)),
            Reject(E_OP_001, f32(2, 2), shape=(2, 2), dims=(1, 0)),
        ),
    )
)

# -- concat -------------------------------------------------------------------------------------


def _infer_concat(types: Types, attrs: Attrs) -> TensorType:
    if not types:
        raise OpError(E_OP_002, "concat: at least one operand wanted")
    first = types[0]
    axis: int = check_axis("concat", first, attrs["axis"])
    same_dtype("concat", types, tuple(range(len(types))))
    extent = 0
    for index, other in enumerate(types):
        if other.rank != first.rank:
            raise OpError(
                E_SHAPE_005,
                f"concat: {list_of(first.shape)} and {list_of(other.shape)} have different ranks",
                operand=index,
            )
        for i, (m, n) in enumerate(zip(first.shape, other.shape, strict=True)):
            if m != n and i != axis:
                raise OpError(
                    E_SHAPE_001,
                    f"concat along axis {axis}: shapes {list_of(first.shape)} and "
                    f"{list_of(other.shape)} differ on axis {i}, {m} and {n}",
                    operand=index,
                )
        extent += other.shape[axis]
    batch = merged_batch(*[MIXED if t.batch == axis else t.batch for t in types])
    if len(types) == 1:
        batch = first.batch
    shape = (*first.shape[:axis], extent, *first.shape[axis + 1 :])
    check_shape("concat", shape)
    return TensorType(shape, first.dtype, batch)


def _vjp_concat(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    rank, start = len(dy.shape), 0
    axis: int = node.attrs["axis"]
    found: list[Value] = []
    for x in node.operands:
        limit = start + x.shape[axis]
        starts = tuple([start if i == axis else 0 for i in range(rank)])
        limits = tuple([limit if i == axis else extent for i, extent in enumerate(dy.shape)])
        found.append(b.emit("slice", dy, starts=starts, limits=limits, strides=(1,) * rank))
        start = limit
    return tuple(found)


CONCAT = define(
    OpDef(
        name="concat",
        doc="Tensors one after the other along an axis.",
        operands=(ANY,),
        attrs={"axis": "axis"},
        infer=_infer_concat,
        vjp=_vjp_concat,
        precision="follow",
        cost=movement,
        variadic=True,
        samples=(
            Sample(f32(2, 3, batch=0), f32(2, 1, batch=0), axis=1),
            Sample(f32(2), f32(3), f32(1), axis=0),
            Sample(f32(2), axis=0),
            Sample(i32(2), i32(3), axis=0, grad=False),
        ),
        rejects=(
            Reject(E_OP_002, axis=0),
            Reject(E_SHAPE_003, f32(2), f32(2), axis=1),
            Reject(E_SHAPE_005, f32(2), f32(2, 1), axis=0),
            Reject(E_SHAPE_001, f32(2, 3), f32(3, 3), axis=1),
            Reject(E_DTYPE_002, f32(2), bf16(2), axis=0),
            Reject(E_SHAPE_008, f32(1 << 40), f32(1), axis=0),
        ),
    )
)

# -- slice and pad ------------------------------------------------------------------------------


def _infer_slice(types: Types, attrs: Attrs) -> TensorType:
    x, starts, limits, strides = types[0], attrs["starts"], attrs["limits"], attrs["strides"]
    for what in ("starts", "limits", "strides"):
        check_count("slice", what, len(attrs[what]), x.rank)
    shape: list[int] = []
    for axis, extent in enumerate(x.shape):
        start, limit, stride = starts[axis], limits[axis], strides[axis]
        if not 0 <= start <= limit <= extent:
            raise OpError(
                E_SHAPE_006,
                f"slice: {start} to {limit} of axis {axis}, whose extent is {extent}, of {x}",
                operand=0,
            )
        if stride < 1:
            raise OpError(E_OP_001, f"slice: a stride of {stride} on axis {axis}")
        shape.append(-(-(limit - start) // stride))
    batch = x.batch
    if batch is not None and shape[batch] != x.shape[batch]:
        batch = None
    return TensorType(tuple(shape), x.dtype, batch)


def _vjp_slice(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    x, attrs = node.operands[0], node.attrs
    if 0 in dy.shape:
        return (zeros_like(b, x),)
    ends = [
        start + (extent - 1) * stride + 1
        for start, extent, stride in zip(attrs["starts"], dy.shape, attrs["strides"], strict=True)
    ]
    return (
        b.emit(
            "pad",
            dy,
            low=attrs["starts"],
            high=tuple([extent - end for extent, end in zip(x.shape, ends, strict=True)]),
            interior=tuple([stride - 1 for stride in attrs["strides"]]),
            value=0.0,
        ),
    )


SLICE = define(
    OpDef(
        name="slice",
        doc="Every stride-th element from start up to limit, along each axis.",
        operands=(ANY,),
        attrs={"starts": "ints", "limits": "ints", "strides": "ints"},
        infer=_infer_slice,
        vjp=_vjp_slice,
        precision="follow",
        cost=gathered,
        samples=(
            Sample(f32(5), starts=(1,), limits=(4,), strides=(1,)),
            Sample(f32(7), starts=(1,), limits=(6,), strides=(2,)),
            Sample(f32(2, 5, batch=0), starts=(0, 1), limits=(2, 5), strides=(1, 3)),
            Sample(f32(3), starts=(2,), limits=(2,), strides=(1,)),
            Sample(i32(5), starts=(0,), limits=(5,), strides=(2,), grad=False),
        ),
        rejects=(
            Reject(E_SHAPE_006, f32(5), starts=(2,), limits=(6,), strides=(1,)),
            Reject(E_SHAPE_006, f32(5), starts=(-1,), limits=(2,), strides=(1,)),
            Reject(E_SHAPE_006, f32(5), starts=(3,), limits=(2,), strides=(1,)),
            Reject(E_OP_001, f32(5), starts=(0,), limits=(2,), strides=(0,)),
            Reject(E_OP_001, f32(5, 5), starts=(0,), limits=(2,), strides=(1,)),
        ),
    )
)


def _infer_pad(types: Types, attrs: Attrs) -> TensorType:
    x, low, high, interior = types[0], attrs["low"], attrs["high"], attrs["interior"]
    for what in ("low", "high", "interior"):
        check_count("pad", what, len(attrs[what]), x.rank)
    check_numbers("pad", (attrs["value"],), x.dtype)
    shape: list[int] = []
    for axis, extent in enumerate(x.shape):
        if interior[axis] < 0:
            raise OpError(E_OP_001, f"pad: interior padding of {interior[axis]} on axis {axis}")
        dilated = extent + max(extent - 1, 0) * interior[axis]
        low_cut, high_cut = max(-low[axis], 0), max(-high[axis], 0)
        if low_cut + high_cut > dilated + max(low[axis], 0) + max(high[axis], 0) or (
            max(low_cut, high_cut) > dilated
        ):
            raise OpError(
                E_SHAPE_006,
                f"pad: low {low[axis]} and high {high[axis]} of axis {axis}, whose extent is "
                f"{extent}, of {x}",
                operand=0,
            )
        shape.append(low[axis] + dilated + high[axis])
    check_shape("pad", tuple(shape))
    batch = x.batch
    if batch is not None and (low[batch], high[batch], interior[batch]) != (0, 0, 0):
        batch = None
    return TensorType(tuple(shape), x.dtype, batch)


def _vjp_pad(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    x, attrs = node.operands[0], node.attrs
    if 0 in x.shape:
        return (zeros_like(b, x),)
    rank = len(x.shape)
    if any(attrs["low"]) or any(attrs["high"]):
        dy = b.emit(
            "pad",
            dy,
            low=tuple([-n for n in attrs["low"]]),
            high=tuple([-n for n in attrs["high"]]),
            interior=(0,) * rank,
            value=0.0,
        )
    if any(attrs["interior"]):
        strides = tuple([n + 1 for n in attrs["interior"]])
        dy = b.emit("slice", dy, starts=(0,) * rank, limits=dy.shape, strides=strides)
    return (dy,)


def _padding(low: Extents, high: Extents, interior: Extents, value: float) -> dict[str, Any]:
    return {"low": low, "high": high, "interior": interior, "value": value}


PAD = define(
    OpDef(
        name="pad",
        doc="`interior` copies of a number between elements, then `low` before and `high` after "
        "each axis; negative low and high cut off instead.",
        operands=(ANY,),
        attrs={"low": "ints", "high": "ints", "interior": "ints", "value": "number"},
        infer=_infer_pad,
        vjp=_vjp_pad,
        precision="follow",
        cost=movement,
        samples=(
            Sample(f32(3), attrs=_padding((1,), (2,), (0,), 0.0)),
            Sample(f32(3), attrs=_padding((1,), (0,), (2,), 1.5)),
            Sample(f32(4), attrs=_padding((-1,), (-2,), (0,), 0.0)),
            Sample(f32(4), attrs=_padding((-2,), (3,), (1,), 0.0)),
            Sample(f32(2, 3, batch=0), attrs=_padding((0, 1), (0, 0), (0, 0), -1.0)),
            Sample(i32(3), attrs=_padding((1,), (1,), (0,), -7), grad=False),
            Sample(boolean(3), attrs=_padding((1,), (1,), (0,), True), grad=False),
        ),
        rejects=(
            Reject(E_SHAPE_006, f32(3), low=(-2,), high=(-2,), interior=(0,), value=0.0),
            Reject(E_SHAPE_006, f32(3), low=(-4,), high=(9,), interior=(0,), value=0.0),
            Reject(E_OP_001, f32(3), low=(0,), high=(0,), interior=(-1,), value=0.0),
            Reject(E_OP_001, f32(3), low=(0, 0), high=(0,), interior=(0,), value=0.0),
            Reject(E_OP_001, i32(3), low=(0,), high=(0,), interior=(0,), value=0.5),
        ),
    )
)

# -- reverse ------------------------------------------------------------------------------------


def _infer_reverse(types: Types, attrs: Attrs) -> TensorType:
    x = types[0]
    check_axes("reverse", x, attrs["axes"])
    return TensorType(x.shape, x.dtype, None if x.batch in attrs["axes"] else x.batch)


def _vjp_reverse(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    return (b.emit("reverse", dy, axes=node.attrs["axes"]),)


REVERSE = define(
    OpDef(
        name="reverse",
        doc="Axes in the opposite direction.",
        operands=(ANY,),
        attrs={"axes": "axes"},
        infer=_infer_reverse,
        vjp=_vjp_reverse,
        precision="follow",
        cost=movement,
        samples=(
            Sample(f32(3), axes=(0,)),
            Sample(f32(2, 3, batch=0), axes=(1,)),
            Sample(i32(2, 3), axes=(0, 1), grad=False),
        ),
        rejects=(Reject(E_SHAPE_003, f32(2), axes=(1,)), Reject(E_OP_001, f32(2), axes=(0, 0))),
    )
)
