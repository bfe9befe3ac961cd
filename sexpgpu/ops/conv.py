"""Convolutions and pooling, channels last, over 1 to 3 spatial axes. Knows no backend.

x is [B, spatial..., C], a filter is [spatial..., C / groups, O].
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from sexpgpu.diagnostics.codes.tensor import (
    E_DTYPE_001,
    E_DTYPE_002,
    E_OP_001,
    E_SHAPE_001,
    E_SHAPE_002,
    E_SHAPE_005,
    E_SHAPE_006,
)
from sexpgpu.ir.graph import Attrs, Builder, Node, Value
from sexpgpu.ir.types import FLOATS, TensorType
from sexpgpu.ops.building import full_like, zeros_like
from sexpgpu.ops.cost import moved, windowed
from sexpgpu.ops.linalg import check_accumulation
from sexpgpu.ops.rules import check_count, check_rank, check_shape, list_of, same_dtype
from sexpgpu.ops.samples import bf16, f32, f64
from sexpgpu.ops.schema import Cotangents, OpDef, OpError, Reject, Sample, Types, define

Shape = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


def _spatial(name: str, x: TensorType, what: str, operand: int = 0) -> int:
    if not 3 <= x.rank <= 5:
        raise OpError(
            E_SHAPE_005,
            f"{name}: {what} is {x}, wanted a batch axis, 1 to 3 spatial axes and channels",
            operand=operand,
        )
    return x.rank - 2


def _check_window(name: str, attrs: Attrs, count: int, *keys: str) -> None:
    """Refuse strides, sizes, dilations below 1 and negative pads, or the wrong number of them."""
    for key in keys:
        check_count(name, key, len(attrs[key]), count)
        for item in attrs[key]:
            if key == "pads":
                if item[0] < 0 or item[1] < 0:
                    raise OpError(E_OP_001, f"{name}: a negative padding in pads")
            elif item < 1:
                raise OpError(E_OP_001, f"{name}: {key} has {item}, wanted at least 1")


def window_extents(
    name: str, spatial: Shape, size: Shape, strides: Shape, pads: Pairs, dilation: Shape
) -> Shape:
    """The extents of the places of a window over padded spatial axes."""
    found: list[int] = []
    for axis, extent in enumerate(spatial):
        low, high = pads[axis]
        reach = dilation[axis] * (size[axis] - 1) + 1
        room = extent + low + high - reach
        if room < 0:
            raise OpError(
                E_SHAPE_006,
                f"{name}: a window of {reach} on spatial axis {axis}, whose extent is {extent} "
                f"with a padding of {low} and {high}",
                operand=0,
            )
        found.append(room // strides[axis] + 1)
    return tuple(found)


# -- convolution --------------------------------------------------------------------------------


def _conv_shape(name: str, x: Shape, w: Shape, attrs: Attrs) -> Shape:
    """The shape of conv(x, w)."""
    count = len(x) - 2
    _check_window(name, attrs, count, "strides", "pads", "dilation")
    groups = attrs["groups"]
    if groups < 1 or x[-1] % groups or w[-1] % groups:
        raise OpError(
            E_OP_001, f"{name}: {groups} groups of {x[-1]} input and {w[-1]} output channels"
        )
    if w[-2] != x[-1] // groups:
        raise OpError(
            E_SHAPE_002,
            f"{name}: {x[-1]} input channels in {groups} groups, but the filter {list_of(w)} takes "
            f"{w[-2]}, its axis {len(w) - 2}",
            operand=1,
        )
    for axis, size in enumerate(w[:count]):
        if size < 1:
            raise OpError(
                E_SHAPE_006, f"{name}: the filter {list_of(w)} is empty on axis {axis}", operand=1
            )
    extents = window_extents(
        name, x[1:-1], w[:count], attrs["strides"], attrs["pads"], attrs["dilation"]
    )
    return (x[0], *extents, w[-1])


def _first_axis(x: TensorType, *others: TensorType) -> int | None:
    """Examples lie along the first axis if they do in x and nowhere else."""
    if x.batch != 0 or any(other.batch is not None for other in others):
        return None
    return 0


def _infer_conv(types: Types, attrs: Attrs) -> TensorType:
    x, w = types
    _spatial("conv", x, "the input")
    check_rank("conv", w, x.rank, "the filter", 1)
    same_dtype("conv", types, (0, 1))
    check_accumulation("conv", x.dtype, attrs)
    return TensorType(_conv_shape("conv", x.shape, w.shape, attrs), x.dtype, _first_axis(x, w))


def _expect_result(name: str, given: TensorType, wanted: Shape, operand: int) -> None:
    if given.shape != wanted:
        raise OpError(
            E_SHAPE_001,
            f"{name}: the cotangent is {given}, wanted the shape {list_of(wanted)}",
            operand=operand,
        )


def _infer_input_grad(types: Types, attrs: Attrs) -> TensorType:
    name = "conv-input-grad"
    dy, w = types
    shape = attrs["input_shape"]
    check_shape(name, shape)
    _spatial(name, TensorType(shape, dy.dtype), "the input")
    check_rank(name, w, len(shape), "the filter", 1)
    same_dtype(name, types, (0, 1))
    check_accumulation(name, dy.dtype, attrs)
    _expect_result(name, dy, _conv_shape(name, shape, w.shape, attrs), 0)
    return TensorType(shape, dy.dtype, _first_axis(dy, w))


def _infer_weight_grad(types: Types, attrs: Attrs) -> TensorType:
    name = "conv-weight-grad"
    x, dy = types
    shape = attrs["filter_shape"]
    check_shape(name, shape)
    _spatial(name, x, "the input")
    check_rank(name, TensorType(shape, x.dtype), x.rank, "the filter", 0)
    same_dtype(name, types, (0, 1))
    check_accumulation(name, x.dtype, attrs)
    _expect_result(name, dy, _conv_shape(name, x.shape, shape, attrs), 1)
    return TensorType(shape, x.dtype)


_HOW = ("strides", "pads", "dilation", "groups", "accumulate", "mode")


def _how(node: Node) -> dict[str, Any]:
    return {key: node.attrs[key] for key in _HOW}


def _vjp_conv(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    x, w = node.operands
    how = _how(node)
    return (
        b.emit("conv-input-grad", dy, w, input_shape=x.shape, **how),
        b.emit("conv-weight-grad", x, dy, filter_shape=w.shape, **how),
    )


def _vjp_input_grad(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (g,) = cotangents
    assert g is not None
    dy, w = node.operands
    how = _how(node)
    return (
        b.emit("conv", g, w, **how),
        b.emit("conv-weight-grad", g, dy, filter_shape=w.shape, **how),
    )


def _vjp_weight_grad(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (g,) = cotangents
    assert g is not None
    x, dy = node.operands
    how = _how(node)
    return (
        b.emit("conv-input-grad", dy, g, input_shape=x.shape, **how),
        b.emit("conv", x, g, **how),
    )


def _conv_cost(types: Types, results: Types, attrs: Attrs) -> tuple[int, int]:
    w = types[1]
    window = prod(w.shape[:-1])  # spatial extents and the input channels of a group
    return 2 * results[0].size * window, moved(types, results)


def _input_grad_cost(types: Types, results: Types, attrs: Attrs) -> tuple[int, int]:
    dy, w = types
    return 2 * dy.size * prod(w.shape[:-1]), moved(types, results)


def _weight_grad_cost(types: Types, results: Types, attrs: Attrs) -> tuple[int, int]:
    return 2 * types[1].size * prod(results[0].shape[:-1]), moved(types, results)


def _conv_attrs(
    strides: Shape,
    pads: Pairs,
    dilation: Shape | None = None,
    groups: int = 1,
    **more: Any,
) -> dict[str, Any]:
    return {
        "strides": strides,
        "pads": pads,
        "dilation": dilation or (1,) * len(strides),
        "groups": groups,
        "accumulate": None,
        "mode": "highest",
        **more,
    }


_ATTRS = {
    "strides": "ints", "pads": "pairs", "dilation": "ints", "groups": "int",
    "accumulate": "dtype?", "mode": "str",
}  # fmt: skip

# x, w, result, attributes
_CASES: tuple[tuple[Shape, Shape, Shape, dict[str, Any]], ...] = (
    ((2, 5, 2), (3, 2, 4), (2, 3, 4), _conv_attrs((1,), ((0, 0),))),
    ((1, 6, 2), (3, 2, 3), (1, 3, 3), _conv_attrs((2,), ((1, 0),))),
    ((2, 4, 5, 2), (3, 2, 2, 3), (2, 4, 6, 3), _conv_attrs((1, 1), ((1, 1), (1, 1)))),
    ((1, 5, 6, 4), (2, 3, 2, 6), (1, 2, 3, 6), _conv_attrs((2, 2), ((0, 0), (1, 1)), groups=2)),
    ((1, 7, 2), (3, 2, 2), (1, 3, 2), _conv_attrs((1,), ((0, 0),), (2,))),
    ((1, 8, 3), (2, 1, 6), (1, 4, 6), _conv_attrs((2,), ((0, 1),), (2,), 3)),
    ((1, 3, 3, 3, 1), (2, 2, 2, 1, 2), (1, 2, 2, 2, 2), _conv_attrs((1,) * 3, ((0, 0),) * 3)),
)
_PLAIN = _conv_attrs((1,), ((0, 0),))

CONV = define(
    OpDef(
        name="conv",
        doc="Cross-correlation, channels last: x [B, spatial..., C], w [spatial..., C/groups, O]. "
        "16-bit floats accumulate in f32.",
        operands=(FLOATS, FLOATS),
        attrs=_ATTRS,
        infer=_infer_conv,
        vjp=_vjp_conv,
        precision="matmul",
        cost=_conv_cost,
        samples=(
            *[Sample(TensorType(x, "f32", 0), f32(*w), **attrs) for x, w, _, attrs in _CASES],
            Sample(bf16(2, 5, 2), bf16(3, 2, 4), **_PLAIN, grad=False),
            Sample(f32(2, 5, 2), f32(3, 2, 4), attrs={**_PLAIN, "accumulate": "f64"}, grad=False),
        ),
        rejects=(
            Reject(E_SHAPE_005, f32(2, 3), f32(2, 3), **_PLAIN),
            Reject(E_SHAPE_005, f32(2, 5, 2), f32(3, 3, 2, 4), **_PLAIN),
            Reject(E_SHAPE_002, f32(2, 5, 2), f32(3, 3, 4), **_PLAIN),
            Reject(E_SHAPE_006, f32(2, 2, 2), f32(3, 2, 4), **_PLAIN),
            Reject(E_OP_001, f32(2, 5, 3), f32(3, 3, 4), **_conv_attrs((1,), ((0, 0),), groups=2)),
            Reject(E_OP_001, f32(2, 5, 2), f32(3, 2, 4), **_conv_attrs((0,), ((0, 0),))),
            Reject(E_OP_001, f32(2, 5, 2), f32(3, 2, 4), **_conv_attrs((1,), ((-1, 0),))),
            Reject(E_OP_001, f32(2, 5, 2), f32(3, 2, 4), **_conv_attrs((1, 1), ((0, 0),))),
            Reject(E_OP_001, f32(2, 5, 2), f32(3, 2, 4), **{**_PLAIN, "mode": "fast"}),
            Reject(E_OP_001, f32(2, 5, 2), f32(3, 2, 4), **{**_PLAIN, "accumulate": "i32"}),
            Reject(E_DTYPE_002, f32(2, 5, 2), f64(3, 2, 4), **_PLAIN),
        ),
    )
)
CONV_INPUT_GRAD = define(
    OpDef(
        name="conv-input-grad",
        doc="The cotangent of conv's input: a transposed convolution of dy with w.",
        operands=(FLOATS, FLOATS),
        attrs={"input_shape": "ints", **_ATTRS},
        infer=_infer_input_grad,
        vjp=_vjp_input_grad,
        precision="matmul",
        cost=_input_grad_cost,
        samples=tuple(
            [
                Sample(TensorType(y, "f32", 0), f32(*w), input_shape=x, **attrs)
                for x, w, y, attrs in _CASES
            ]
        ),
        rejects=(
            Reject(E_SHAPE_001, f32(2, 4, 4), f32(3, 2, 4), input_shape=(2, 5, 2), **_PLAIN),
            Reject(E_SHAPE_005, f32(2, 3, 4), f32(3, 2, 4), input_shape=(2, 5), **_PLAIN),
            Reject(E_SHAPE_002, f32(2, 3, 4), f32(3, 3, 4), input_shape=(2, 5, 2), **_PLAIN),
            Reject(E_DTYPE_002, f32(2, 3, 4), f64(3, 2, 4), input_shape=(2, 5, 2), **_PLAIN),
        ),
    )
)
CONV_WEIGHT_GRAD = define(
    OpDef(
        name="conv-weight-grad",
        doc="The cotangent of conv's filter, of the input and the result's cotangent.",
        operands=(FLOATS, FLOATS),
        attrs={"filter_shape": "ints", **_ATTRS},
        infer=_infer_weight_grad,
        vjp=_vjp_weight_grad,
        precision="matmul",
        cost=_weight_grad_cost,
        samples=tuple(
            [
                Sample(TensorType(x, "f32", 0), TensorType(y, "f32", 0), filter_shape=w, **attrs)
                for x, w, y, attrs in _CASES
            ]
        ),
        rejects=(
            Reject(E_SHAPE_001, f32(2, 5, 2), f32(2, 4, 4), filter_shape=(3, 2, 4), **_PLAIN),
            Reject(E_SHAPE_005, f32(2, 5, 2), f32(2, 3, 4), filter_shape=(3, 4), **_PLAIN),
            Reject(E_SHAPE_002, f32(2, 5, 2), f32(2, 3, 4), filter_shape=(3, 3, 4), **_PLAIN),
            Reject(E_DTYPE_002, f32(2, 5, 2), f64(2, 3, 4), filter_shape=(3, 2, 4), **_PLAIN),
        ),
    )
)

# -- pooling ------------------------------------------------------------------------------------


def _pooled_shape(name: str, x: Shape, attrs: Attrs) -> Shape:
    count = len(x) - 2
    _check_window(name, attrs, count, "size", "strides", "pads")
    size, pads = attrs["size"], attrs["pads"]
    for axis in range(count):
        if max(pads[axis]) >= size[axis]:
            raise OpError(
                E_SHAPE_006,
                f"{name}: a padding of {max(pads[axis])} on spatial axis {axis} leaves a window of "
                f"{size[axis]} empty",
            )
    extents = window_extents(name, x[1:-1], size, attrs["strides"], pads, (1,) * count)
    return (x[0], *extents, x[-1])


def _infer_pool(name: str, types: Types, attrs: Attrs) -> TensorType:
    x = types[0]
    _spatial(name, x, "the input")
    return TensorType(_pooled_shape(name, x.shape, attrs), x.dtype, _first_axis(x))


def _window(attrs: Attrs, *more: str) -> dict[str, Any]:
    return {key: attrs[key] for key in ("size", "strides", "pads", *more)}


def _infer_max_pool_grad(types: Types, attrs: Attrs) -> TensorType:
    x, y, dy = types
    wanted = _infer_pool("max-pool-grad", types[:1], attrs)
    same_dtype("max-pool-grad", types, (0, 1, 2))
    _expect_result("max-pool-grad", y, wanted.shape, 1)
    _expect_result("max-pool-grad", dy, wanted.shape, 2)
    return x


def _infer_avg_pool_grad(types: Types, attrs: Attrs) -> TensorType:
    dy, shape = types[0], attrs["input_shape"]
    check_shape("avg-pool-grad", shape)
    _spatial("avg-pool-grad", TensorType(shape, dy.dtype), "the input")
    _expect_result("avg-pool-grad", dy, _pooled_shape("avg-pool-grad", shape, attrs), 0)
    return TensorType(shape, dy.dtype, _first_axis(dy))


def _vjp_max_pool(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    return (b.emit("max-pool-grad", node.operands[0], node.result, dy, **_window(node.attrs)),)


def _placed(b: Builder, padded: Value, offset: Shape, places: Shape, strides: Shape) -> Value:
    """Of padded spatial axes, the element at an offset within each window."""
    starts = (0, *offset, 0)
    steps = (1, *strides, 1)
    limits = [padded.shape[0]]
    limits += [o + (n - 1) * s + 1 for o, n, s in zip(offset, places, strides, strict=True)]
    limits.append(padded.shape[-1])
    return b.emit("slice", padded, starts=starts, limits=tuple(limits), strides=steps)


def _vjp_max_pool_grad(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """Linear in dy: the mean of g over the maxima of each window. x and y only choose."""
    (g,) = cotangents
    assert g is not None
    x, y, dy = node.operands
    attrs = node.attrs
    low = (0, *[pair[0] for pair in attrs["pads"]], 0)
    high = (0, *[pair[1] for pair in attrs["pads"]], 0)
    interior = (0,) * len(low)
    x_padded = b.emit("pad", x, low=low, high=high, interior=interior, value=float("-inf"))
    g_padded = b.emit("pad", g, low=low, high=high, interior=interior, value=0.0)
    found = count = zero = zeros_like(b, dy)
    one = full_like(b, 1.0, dy)
    for offset in product(*[range(n) for n in attrs["size"]]):
        here = _placed(b, x_padded, offset, y.shape[1:-1], attrs["strides"])
        hit = b.emit("eq", here, y)
        value = _placed(b, g_padded, offset, y.shape[1:-1], attrs["strides"])
        found = b.emit("add", found, b.emit("select", hit, value, zero))
        count = b.emit("add", count, b.emit("select", hit, one, zero))
    return None, None, b.emit("div", found, b.emit("max", count, one))


def _vjp_avg_pool(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    how = _window(node.attrs, "count_pads")
    return (b.emit("avg-pool-grad", dy, input_shape=node.operands[0].shape, **how),)


def _vjp_avg_pool_grad(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (g,) = cotangents
    assert g is not None
    return (b.emit("avg-pool", g, **_window(node.attrs, "count_pads")),)


def _pool_attrs(size: Shape, strides: Shape, pads: Pairs, **more: Any) -> dict[str, Any]:
    return {"size": size, "strides": strides, "pads": pads, **more}


_POOL = {"size": "ints", "strides": "ints", "pads": "pairs"}

# x, result, attributes
_POOLS: tuple[tuple[Shape, Shape, dict[str, Any]], ...] = (
    ((2, 6, 2), (2, 3, 2), _pool_attrs((2,), (2,), ((0, 0),))),
    ((1, 5, 2), (1, 5, 2), _pool_attrs((3,), (1,), ((1, 1),))),
    ((2, 4, 5, 1), (2, 2, 2, 1), _pool_attrs((2, 3), (2, 2), ((0, 0), (0, 0)))),
    ((1, 4, 4, 2), (1, 3, 2, 2), _pool_attrs((3, 3), (2, 2), ((2, 1), (1, 0)))),
    ((1, 3, 3, 3, 1), (1, 2, 2, 2, 1), _pool_attrs((2,) * 3, (1,) * 3, ((0, 0),) * 3)),
)
_P = _pool_attrs((2,), (2,), ((0, 0),))

MAX_POOL = define(
    OpDef(
        name="max-pool",
        doc="Greatest of each window of spatial axes; padding never wins, NaN always does.",
        operands=(FLOATS,),
        attrs=_POOL,
        infer=lambda types, attrs: _infer_pool("max-pool", types, attrs),
        vjp=_vjp_max_pool,
        precision="follow",
        cost=windowed("size"),
        samples=(
            *[Sample(TensorType(x, "f32", 0), values="distinct", **a) for x, _, a in _POOLS],
            Sample(bf16(2, 6, 2), grad=False, **_P),
        ),
        rejects=(
            Reject(E_SHAPE_005, f32(2, 3), **_P),
            Reject(E_SHAPE_006, f32(2, 1, 3), **_P),
            Reject(E_SHAPE_006, f32(2, 6, 3), **_pool_attrs((2,), (2,), ((2, 0),))),
            Reject(E_OP_001, f32(2, 6, 3), **_pool_attrs((2,), (0,), ((0, 0),))),
            Reject(E_OP_001, f32(2, 6, 3), **_pool_attrs((2, 2), (2,), ((0, 0),))),
            Reject(E_DTYPE_001, TensorType((2, 6, 3), "i32"), **_P),
        ),
    )
)
MAX_POOL_GRAD = define(
    OpDef(
        name="max-pool-grad",
        doc="The cotangent of max-pool's input, of the input, the result and its cotangent: the "
        "elements of a window equal to its maximum share equally.",
        operands=(FLOATS, FLOATS, FLOATS),
        attrs=_POOL,
        infer=_infer_max_pool_grad,
        vjp=_vjp_max_pool_grad,
        precision="follow",
        cost=windowed("size"),
        samples=tuple(
            [
                Sample(
                    TensorType(x, "f32", 0),
                    TensorType(y, "f32", 0),
                    TensorType(y, "f32", 0),
                    values="distinct",
                    grad=False,
                    **attrs,
                )
                for x, y, attrs in _POOLS
            ]
        ),
        rejects=(
            Reject(E_SHAPE_001, f32(2, 6, 2), f32(2, 2, 2), f32(2, 3, 2), **_P),
            Reject(E_SHAPE_001, f32(2, 6, 2), f32(2, 3, 2), f32(2, 2, 2), **_P),
            Reject(E_DTYPE_002, f32(2, 6, 2), f32(2, 3, 2), f64(2, 3, 2), **_P),
        ),
    )
)
AVG_POOL = define(
    OpDef(
        name="avg-pool",
        doc="Mean of each window of spatial axes; padding counts as zeros, or not at all.",
        operands=(FLOATS,),
        attrs={**_POOL, "count_pads": "bool"},
        infer=lambda types, attrs: _infer_pool("avg-pool", types, attrs),
        vjp=_vjp_avg_pool,
        precision="follow",
        cost=windowed("size"),
        samples=(
            *[Sample(TensorType(x, "f32", 0), count_pads=True, **a) for x, _, a in _POOLS],
            *[Sample(TensorType(x, "f32", 0), count_pads=False, **a) for x, _, a in _POOLS],
            Sample(bf16(2, 6, 2), count_pads=True, grad=False, **_P),
        ),
        rejects=(
            Reject(E_SHAPE_005, f32(2, 3), count_pads=True, **_P),
            Reject(E_SHAPE_006, f32(2, 1, 3), count_pads=True, **_P),
            Reject(E_OP_001, f32(2, 6, 3), **_pool_attrs((2,), (2,), ((0, -1),), count_pads=True)),
        ),
    )
)
AVG_POOL_GRAD = define(
    OpDef(
        name="avg-pool-grad",
        doc="The cotangent of avg-pool's input, of the result's cotangent.",
        operands=(FLOATS,),
        attrs={"input_shape": "ints", **_POOL, "count_pads": "bool"},
        infer=_infer_avg_pool_grad,
        vjp=_vjp_avg_pool_grad,
        precision="follow",
        cost=windowed("size"),
        samples=(
            *[
                Sample(TensorType(y, "f32", 0), input_shape=x, count_pads=True, **a)
                for x, y, a in _POOLS
            ],
            *[
                Sample(TensorType(y, "f32", 0), input_shape=x, count_pads=False, **a)
                for x, y, a in _POOLS
            ],
        ),
        rejects=(
            Reject(E_SHAPE_001, f32(2, 2, 2), input_shape=(2, 6, 2), count_pads=True, **_P),
            Reject(E_SHAPE_005, f32(2, 3, 2), input_shape=(2, 6), count_pads=True, **_P),
        ),
    )
)
