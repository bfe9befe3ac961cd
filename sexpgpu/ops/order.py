"""Ops that put elements in order, or find places in an order. Knows no backend.

Order is stable: equal elements stay as they stood, and 0 equals -0. A sort puts NaN last whatever
its direction; top-k counts NaN as the greatest, as argmax does.
"""

from __future__ import annotations

from typing import Any

from sexpgpu.diagnostics.codes.tensor import (
    E_DTYPE_001,
    E_DTYPE_002,
    E_OP_001,
    E_SHAPE_001,
    E_SHAPE_003,
    E_SHAPE_005,
    E_SHAPE_006,
)
from sexpgpu.ir.graph import Attrs, Builder, Node
from sexpgpu.ir.types import NUMBERS, TensorType
from sexpgpu.ops.building import zeros_like
from sexpgpu.ops.cost import moved
from sexpgpu.ops.rules import (
    MIXED,
    check_axis,
    check_rank,
    list_of,
    merged_batch,
    same_dtype,
)
from sexpgpu.ops.samples import bf16, boolean, f32, i32, u8
from sexpgpu.ops.schema import Cotangents, NoGrad, OpDef, OpError, Reject, Sample, Types, define

SIDES = ("left", "right")


def _kept(type: TensorType, axis: int) -> int | None:
    """The batch axis of what is ordered along an axis: examples ordered among themselves mix."""
    return None if type.batch == axis else type.batch


def _infer_sort(types: Types, attrs: Attrs) -> Types:
    shape, dtype, _ = types[0]
    batch = _kept(types[0], check_axis("sort", types[0], attrs["axis"]))
    return TensorType(shape, dtype, batch), TensorType(shape, "i32", batch)


def _back_to_places(b: Builder, node: Node, cotangents: Cotangents, axis: int) -> Cotangents:
    """Each value's cotangent goes to the element that it is."""
    dy = cotangents[0]
    if dy is None:
        return (None,)
    zeros = zeros_like(b, node.operands[0])
    return (b.emit("put-along-add", zeros, node.results[1], dy, axis=axis),)


def _vjp_sort(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    return _back_to_places(b, node, cotangents, node.attrs["axis"])


def _sort_cost(types: Types, results: Types, attrs: Attrs) -> tuple[int, int]:
    axis: int = attrs["axis"]
    extent = types[0].shape[axis]
    return types[0].size * extent.bit_length(), moved(types, results)


SORT = define(
    OpDef(
        name="sort",
        doc="The elements along an axis in increasing (or decreasing) order, and the places they "
        "stood at, i32. Stable; NaN last in both directions.",
        operands=(NUMBERS,),
        attrs={"axis": "axis", "descending": "bool"},
        infer=_infer_sort,
        vjp=_vjp_sort,
        precision="follow",
        cost=_sort_cost,
        samples=(
            Sample(f32(7), axis=0, descending=False, values="distinct"),
            Sample(f32(2, 5, batch=0), axis=1, descending=True, values="distinct"),
            Sample(f32(4, 2, 3), axis=0, descending=False, values="distinct"),
            Sample(f32(3, 4, 2), axis=1, descending=True, values="distinct"),
            Sample(f32(1), axis=0, descending=False),
            Sample(f32(3, 9), axis=1, descending=True, values="integers", grad=False),
            Sample(bf16(2, 6), axis=1, descending=True, values="integers", grad=False),
            Sample(i32(2, 9), axis=1, descending=False, low=-3, high=4, grad=False),
            Sample(u8(9), axis=0, descending=True, low=0, high=5, grad=False),
        ),
        rejects=(
            Reject(E_SHAPE_003, f32(2), axis=1, descending=False),
            Reject(E_SHAPE_003, f32(), axis=0, descending=False),
            Reject(E_DTYPE_001, boolean(2), axis=0, descending=False),
            Reject(E_OP_001, f32(2), axis=0, descending=1),
        ),
    )
)


def _infer_top_k(types: Types, attrs: Attrs) -> Types:
    x = types[0]
    if x.rank == 0:
        raise OpError(E_SHAPE_005, f"top-k: the operand is {x}, wanted an axis", operand=0)
    k: int = attrs["k"]
    if not 0 <= k <= x.shape[-1]:
        raise OpError(
            E_SHAPE_006,
            f"top-k: the {k} greatest of the last axis, whose extent is {x.shape[-1]}, of {x}",
            operand=0,
        )
    shape = (*x.shape[:-1], k)
    batch = _kept(x, x.rank - 1)
    return TensorType(shape, x.dtype, batch), TensorType(shape, "i32", batch)


def _vjp_top_k(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    return _back_to_places(b, node, cotangents, len(node.operands[0].shape) - 1)


def _top_k_cost(types: Types, results: Types, attrs: Attrs) -> tuple[int, int]:
    return types[0].size * max(1, int(attrs["k"]).bit_length()), moved(types, results)


TOP_K = define(
    OpDef(
        name="top-k",
        doc="The k greatest along the last axis, in decreasing order, and their places, i32. NaN "
        "counts as the greatest; of equals the first comes first.",
        operands=(NUMBERS,),
        attrs={"k": "int"},
        infer=_infer_top_k,
        vjp=_vjp_top_k,
        precision="follow",
        cost=_top_k_cost,
        samples=(
            Sample(f32(7), k=3, values="distinct"),
            Sample(f32(2, 5, batch=0), k=5, values="distinct"),
            Sample(f32(2, 3, 4), k=1, values="distinct"),
            Sample(f32(3, 9), k=4, values="integers", grad=False),
            Sample(bf16(2, 6), k=3, values="integers", grad=False),
            Sample(i32(2, 9), k=4, low=-3, high=4, grad=False),
            Sample(u8(9), k=0, low=0, high=5, grad=False),
        ),
        rejects=(
            Reject(E_SHAPE_005, f32(), k=1),
            Reject(E_SHAPE_006, f32(2, 3), k=4),
            Reject(E_SHAPE_006, f32(2, 3), k=-1),
            Reject(E_DTYPE_001, boolean(2), k=1),
            Reject(E_OP_001, f32(2), k=1.0),
        ),
    )
)


def _infer_searchsorted(types: Types, attrs: Attrs) -> TensorType:
    name = "searchsorted"
    edges, x = types
    if attrs["side"] not in SIDES:
        raise OpError(E_OP_001, f"{name}: side {attrs['side']!r}, wanted {' or '.join(SIDES)}")
    same_dtype(name, types, (0, 1))
    if edges.rank == 0:
        raise OpError(E_SHAPE_005, f"{name}: edges is {edges}, wanted an axis", operand=0)
    if edges.rank == 1:
        batch = merged_batch(x.batch, None if edges.batch is None else MIXED)
        return TensorType(x.shape, "i32", batch)
    check_rank(name, x, edges.rank, "x", 1)
    if edges.shape[:-1] != x.shape[:-1]:
        raise OpError(
            E_SHAPE_001,
            f"{name}: edges {list_of(edges.shape)} and x {list_of(x.shape)} differ before their "
            "last axis",
            operand=1,
        )
    batch = merged_batch(MIXED if edges.batch == edges.rank - 1 else edges.batch, x.batch)
    return TensorType(x.shape, "i32", batch)


def _search_cost(types: Types, results: Types, attrs: Attrs) -> tuple[int, int]:
    return results[0].size * types[0].shape[-1].bit_length(), moved(types, results)


def _searched(side: str) -> dict[str, Any]:
    """Sorted edges, and elements that meet them."""
    return {"side": side, "values": ("sorted", "integers"), "low": -3, "high": 4, "grad": False}


SEARCHSORTED = define(
    OpDef(
        name="searchsorted",
        doc="How many of the sorted edges [n] are below each element (with side right: not above "
        "it). Edges [..., n] belong to the rows of x [..., m]. NaN is above all, and equals NaN.",
        operands=(NUMBERS, NUMBERS),
        attrs={"side": "str"},
        infer=_infer_searchsorted,
        vjp=NoGrad("a place in an order is piecewise constant"),
        precision="follow",
        cost=_search_cost,
        samples=(
            Sample(f32(5), f32(2, 3, batch=0), **_searched("left")),
            Sample(f32(1), f32(), **_searched("right")),
            Sample(f32(2, 4), f32(2, 3), **_searched("right")),
            Sample(f32(2, 1, 4), f32(2, 1, 2), **_searched("left")),
            Sample(bf16(6), bf16(5), **_searched("left")),
            Sample(i32(9), i32(4, 2), **_searched("right")),
        ),
        rejects=(
            Reject(E_SHAPE_005, f32(), f32(2), side="left"),
            Reject(E_SHAPE_005, f32(2, 3), f32(2), side="left"),
            Reject(E_SHAPE_001, f32(2, 3), f32(3, 3), side="left"),
            Reject(E_DTYPE_002, f32(2), i32(2), side="left"),
            Reject(E_DTYPE_001, boolean(2), boolean(2), side="left"),
            Reject(E_OP_001, f32(2), f32(2), side="middle"),
        ),
    )
)
