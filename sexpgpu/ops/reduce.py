"""Reductions, cumulative ops, and the softmax family. Knows no backend."""

from __future__ import annotations

from math import prod

from sexpgpu.diagnostics.codes.tensor import E_DTYPE_001, E_OP_001, E_SHAPE_003, E_SHAPE_007
from sexpgpu.ir.graph import Attrs, Builder, Node, Value
from sexpgpu.ir.types import BOOL, FLOATS, NUMBERS, TensorType
from sexpgpu.ops.building import (
    reshaped,
    scaled,
    spread,
    total,
    transposed,
    zeros_like,
)
from sexpgpu.ops.cost import per_operand_element
from sexpgpu.ops.rules import check_axes, check_axis
from sexpgpu.ops.samples import bf16, boolean, f32, i32
from sexpgpu.ops.schema import (
    Cotangents,
    InferRule,
    NoGrad,
    OpDef,
    OpError,
    Precision,
    Reject,
    Sample,
    Types,
    VjpRule,
    define,
)

DISCRETE = NoGrad("the result carries no gradient")


def reduced_type(x: TensorType, axes: tuple[int, ...], dtype: str) -> TensorType:
    """The type of x with axes removed."""
    batch = x.batch
    if batch is not None:
        batch = None if batch in axes else batch - sum(axis < batch for axis in axes)
    shape = tuple([extent for axis, extent in enumerate(x.shape) if axis not in axes])
    return TensorType(shape, dtype, batch)


def _refuse_empty(name: str, x: TensorType, axes: tuple[int, ...]) -> None:
    for axis in axes:
        if x.shape[axis] == 0:
            raise OpError(E_SHAPE_007, f"{name}: axis {axis} of {x} has no elements", operand=0)


def _reducing(name: str, needs_elements: bool = False) -> InferRule:
    def infer(types: Types, attrs: Attrs) -> TensorType:
        x, axes = types[0], attrs["axes"]
        check_axes(name, x, axes)
        if needs_elements:
            _refuse_empty(name, x, axes)
        return reduced_type(x, axes, x.dtype)

    return infer


def _back(b: Builder, node: Node, reduced: Value) -> Value:
    """A reduced value spread over the shape of the operand."""
    return spread(b, reduced, node.operands[0].shape, node.attrs["axes"])


def _reduction(
    name: str,
    doc: str,
    vjp: VjpRule | NoGrad,
    *,
    dtypes: frozenset[str],
    precision: Precision,
    needs_elements: bool = False,
    low: float = -2.0,
    high: float = 2.0,
    values: str = "uniform",
) -> OpDef:
    made: list[Sample] = []
    if "f32" in dtypes:
        for shape, axes in (
            ((3,), (0,)),
            ((2, 3), (1,)),
            ((2, 3), (0,)),
            ((2, 3, 2), (0, 2)),
            ((2, 3), (0, 1)),
            ((2,), ()),
        ):
            made.append(Sample(f32(*shape), low=low, high=high, values=values, axes=axes))
        made.append(Sample(f32(2, 3, batch=0), low=low, high=high, values=values, axes=(1,)))
        made.append(Sample(bf16(4, 5), low=low, high=high, grad=False, axes=(1,)))
    if "i32" in dtypes:
        made.append(Sample(i32(2, 3), low=-4, high=5, grad=False, axes=(1,)))
    if "bool" in dtypes:
        made += [
            Sample(boolean(2, 3), grad=False, axes=(1,)),
            Sample(boolean(4), grad=False, axes=(0,)),
        ]
    one = TensorType((2, 3), "f32" if "f32" in dtypes else "bool")
    empty = TensorType((2, 0), one.dtype)
    return define(
        OpDef(
            name=name,
            doc=doc,
            operands=(dtypes,),
            attrs={"axes": "axes"},
            infer=_reducing(name, needs_elements),
            vjp=vjp,
            precision=precision,
            cost=per_operand_element(1),
            samples=tuple(made),
            rejects=(
                Reject(E_SHAPE_003, one, axes=(2,)),
                Reject(E_OP_001, one, axes=(1, 0)),
                Reject(E_DTYPE_001, f32(2) if "f32" not in dtypes else boolean(2), axes=(0,)),
                *((Reject(E_SHAPE_007, empty, axes=(1,)),) if needs_elements else ()),
            ),
        )
    )


def _vjp_sum(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    return (_back(b, node, dy),)


def _vjp_mean(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    axes: tuple[int, ...] = node.attrs["axes"]
    count = prod([node.operands[0].shape[axis] for axis in axes])
    return (_back(b, node, dy if count == 1 else scaled(b, dy, 1.0 / count)),)


def _vjp_prod(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """The product of the other elements, from both sides: right where elements are 0."""
    (dy,) = cotangents
    assert dy is not None
    x = node.operands[0]
    axes: tuple[int, ...] = node.attrs["axes"]
    if not axes:
        return (dy,)
    free = tuple([axis for axis in range(len(x.shape)) if axis not in axes])
    perm = free + axes
    count = prod([x.shape[axis] for axis in axes])
    moved = transposed(b, x, perm)
    flat = reshaped(b, moved, (*[x.shape[axis] for axis in free], count))
    others = b.emit("mul", _exclusive(b, flat, False), _exclusive(b, flat, True))
    back = transposed(
        b,
        reshaped(b, others, moved.shape),
        tuple([perm.index(axis) for axis in range(len(perm))]),
    )
    return (b.emit("mul", _back(b, node, dy), back),)


def _exclusive(b: Builder, x: Value, reverse: bool) -> Value:
    """The product of the elements before (or after) each one along the last axis."""
    axis = len(x.shape) - 1
    products = b.emit("cumprod", x, axis=axis, reverse=reverse)
    return _shifted_along(b, products, axis, 1 if not reverse else -1, 1.0)


def _shifted_along(b: Builder, x: Value, axis: int, by: int, value: float) -> Value:
    """x moved by some places along an axis, a number coming in."""
    by = max(-x.shape[axis], min(by, x.shape[axis]))
    rank = len(x.shape)
    low = tuple([by if i == axis else 0 for i in range(rank)])
    high = tuple([-by if i == axis else 0 for i in range(rank)])
    return b.emit("pad", x, low=low, high=high, interior=(0,) * rank, value=value)


def _vjp_extreme(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """Elements equal to the result share the cotangent equally."""
    (dy,) = cotangents
    assert dy is not None
    x, axes = node.operands[0], node.attrs["axes"]
    hit = b.emit("eq", x, _back(b, node, node.result))
    count = total(b, b.emit("cast", hit, dtype=x.dtype), axes)
    share = _back(b, node, b.emit("div", dy, count))
    return (b.emit("select", hit, share, zeros_like(b, share)),)


SUM = _reduction("sum", "Sum over axes.", _vjp_sum, dtypes=NUMBERS, precision="f32")
MEAN = _reduction(
    "mean", "Mean over axes.", _vjp_mean, dtypes=FLOATS, precision="f32", needs_elements=True
)
PROD = _reduction("prod", "Product over axes.", _vjp_prod, dtypes=NUMBERS, precision="f32")
MAX_REDUCE = _reduction(
    "max-reduce", "Greatest over axes; NaN if any is. Ties share the cotangent.", _vjp_extreme,
    dtypes=NUMBERS, precision="follow", needs_elements=True, values="distinct",
)  # fmt: skip
MIN_REDUCE = _reduction(
    "min-reduce", "Least over axes; NaN if any is. Ties share the cotangent.", _vjp_extreme,
    dtypes=NUMBERS, precision="follow", needs_elements=True, values="distinct",
)  # fmt: skip
ANY_REDUCE = _reduction(
    "any", "Whether any holds over axes.", DISCRETE, dtypes=BOOL, precision="fixed"
)
ALL_REDUCE = _reduction(
    "all", "Whether all hold over axes.", DISCRETE, dtypes=BOOL, precision="fixed"
)

# -- positions ----------------------------------------------------------------------------------


def _arg(name: str, doc: str) -> OpDef:
    def infer(types: Types, attrs: Attrs) -> TensorType:
        x, axis = types[0], attrs["axis"]
        check_axis(name, x, axis)
        _refuse_empty(name, x, (axis,))
        return reduced_type(x, (axis,), "i32")

    return define(
        OpDef(
            name=name,
            doc=doc,
            operands=(NUMBERS,),
            attrs={"axis": "axis"},
            infer=infer,
            vjp=DISCRETE,
            precision="follow",
            cost=per_operand_element(1),
            samples=(
                Sample(f32(4), axis=0, grad=False),
                Sample(f32(2, 3, batch=0), axis=1, grad=False),
                Sample(i32(3, 2), low=-2, high=2, axis=0, grad=False),
                Sample(bf16(4), axis=0, grad=False),
            ),
            rejects=(
                Reject(E_SHAPE_003, f32(2), axis=1),
                Reject(E_SHAPE_007, f32(2, 0), axis=1),
                Reject(E_DTYPE_001, boolean(2), axis=0),
            ),
        )
    )


ARGMAX = _arg("argmax", "Index of the greatest along an axis: the first of equals, NaN greatest.")
ARGMIN = _arg("argmin", "Index of the least along an axis: the first of equals, NaN least.")

# -- cumulative ---------------------------------------------------------------------------------


def _cumulative(
    name: str, doc: str, vjp: VjpRule, precision: Precision, values: str = "uniform"
) -> OpDef:
    def infer(types: Types, attrs: Attrs) -> TensorType:
        x, axis = types[0], attrs["axis"]
        check_axis(name, x, axis)
        return TensorType(x.shape, x.dtype, None if x.batch == axis else x.batch)

    return define(
        OpDef(
            name=name,
            doc=doc,
            operands=(NUMBERS,),
            attrs={"axis": "axis", "reverse": "bool"},
            infer=infer,
            vjp=vjp,
            precision=precision,
            cost=per_operand_element(1),
            samples=(
                Sample(f32(5), values=values, axis=0, reverse=False),
                Sample(f32(5), values=values, axis=0, reverse=True),
                Sample(f32(2, 3, batch=0), values=values, axis=1, reverse=False),
                Sample(f32(3, 2), values=values, axis=0, reverse=True),
                Sample(f32(1), values=values, axis=0, reverse=False),
                Sample(bf16(5), axis=0, reverse=False, grad=False),
                Sample(i32(5), low=-3, high=4, axis=0, reverse=False, grad=False),
            ),
            rejects=(
                Reject(E_SHAPE_003, f32(2), axis=1, reverse=False),
                Reject(E_DTYPE_001, boolean(2), axis=0, reverse=False),
                Reject(E_OP_001, f32(2), axis=0, reverse=0),
            ),
        )
    )


def _vjp_cumsum(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    axis, reverse = node.attrs["axis"], node.attrs["reverse"]
    return (b.emit("cumsum", dy, axis=axis, reverse=not reverse),)


def _vjp_cumprod(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """dx[i] = (product before i) * s[i], s[i] = dy[i] + x[i+1] * s[i+1]: right where x is 0.

    The recurrence is solved by doubling: after a round of distance d, s[i] holds 2d terms and
    f[i] the product that leads to the next.
    """
    (dy,) = cotangents
    assert dy is not None
    x, reverse = node.operands[0], node.attrs["reverse"]
    axis: int = node.attrs["axis"]
    step = -1 if not reverse else 1
    before = _shifted_along(b, node.result, axis, -step, 1.0)
    s, factor = dy, _shifted_along(b, x, axis, step, 0.0)
    distance, extent = 1, x.shape[axis]
    while distance < extent:
        s = b.emit(
            "add", s, b.emit("mul", factor, _shifted_along(b, s, axis, step * distance, 0.0))
        )
        if 2 * distance < extent:
            factor = b.emit("mul", factor, _shifted_along(b, factor, axis, step * distance, 0.0))
        distance *= 2
    return (b.emit("mul", before, s),)


def _vjp_cummax(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """Each result's cotangent goes to the element that it is: the first of equals."""
    (dy,) = cotangents
    assert dy is not None
    x, axis, reverse = node.operands[0], node.attrs["axis"], node.attrs["reverse"]
    y = node.result
    if reverse:
        x, y, dy = [b.emit("reverse", v, axes=(axis,)) for v in (x, y, dy)]
    place = b.emit("iota", shape=x.shape, axis=axis, dtype="i32", batch=x.type.batch)
    first = b.emit("eq", place, zeros_like(b, place))
    higher = b.emit("gt", x, _shifted_along(b, y, axis, 1, 0.0))
    record = b.emit("select", b.emit("or", first, higher), place, zeros_like(b, place))
    source = b.emit("cummax", record, axis=axis, reverse=False)
    dx = b.emit("put-along-add", zeros_like(b, dy), source, dy, axis=axis)
    return (b.emit("reverse", dx, axes=(axis,)) if reverse else dx,)


CUMSUM = _cumulative(
    "cumsum",
    "Sums up to each element along an axis, from the end with `reverse`.",
    _vjp_cumsum,
    "f32",
)
CUMPROD = _cumulative(
    "cumprod", "Products up to each element along an axis, from the end with `reverse`.",
    _vjp_cumprod, "f32",
)  # fmt: skip
CUMMAX = _cumulative(
    "cummax",
    "Greatest up to each element along an axis; NaN from the first NaN on. The first of equals "
    "takes the cotangent.",
    _vjp_cummax,
    "follow",
    values="distinct",
)

# -- softmax ------------------------------------------------------------------------------------


def _normalized(name: str, doc: str, vjp: VjpRule) -> OpDef:
    def infer(types: Types, attrs: Attrs) -> TensorType:
        check_axis(name, types[0], attrs["axis"])
        return types[0]

    return define(
        OpDef(
            name=name,
            doc=doc,
            operands=(FLOATS,),
            attrs={"axis": "axis"},
            infer=infer,
            vjp=vjp,
            precision="f32",
            cost=per_operand_element(5),
            samples=(
                Sample(f32(4), axis=0),
                Sample(f32(2, 3, batch=0), axis=1),
                Sample(f32(3, 2), axis=0),
                Sample(bf16(2, 5), axis=1, grad=False),
            ),
            rejects=(Reject(E_SHAPE_003, f32(2), axis=1), Reject(E_DTYPE_001, i32(2), axis=0)),
        )
    )


def _vjp_softmax(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    y, axes = node.result, (node.attrs["axis"],)
    mean = spread(b, total(b, b.emit("mul", dy, y), axes), y.shape, axes)
    return (b.emit("mul", y, b.emit("sub", dy, mean)),)


def _vjp_log_softmax(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    y, axes = node.result, (node.attrs["axis"],)
    mass = spread(b, total(b, dy, axes), y.shape, axes)
    return (b.emit("sub", dy, b.emit("mul", b.emit("exp", y), mass)),)


def _vjp_logsumexp(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    share = b.emit("exp", b.emit("sub", node.operands[0], _back(b, node, node.result)))
    return (b.emit("mul", _back(b, node, dy), share),)


SOFTMAX = _normalized("softmax", "exp(x) over its sum along an axis.", _vjp_softmax)
LOG_SOFTMAX = _normalized(
    "log-softmax", "The logarithm of softmax, without overflow.", _vjp_log_softmax
)
LOGSUMEXP = _reduction(
    "logsumexp", "log(sum(exp(x))) over axes, without overflow; -inf over no elements.",
    _vjp_logsumexp, dtypes=FLOATS, precision="f32",
)  # fmt: skip
