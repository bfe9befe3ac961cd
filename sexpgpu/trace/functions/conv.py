"""Convolution, pooling and windows. Channels last: x [B, …spatial, C], 1 to 3 spatial
axes."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

from sexpgpu.diagnostics.codes.tensor import E_OP_001, E_SHAPE_002, E_SHAPE_005, E_SHAPE_006
from sexpgpu.ir.graph import Value
from sexpgpu.lisp.values import NIL, Symbol
from sexpgpu.trace.arguments import bad, choice, integer, items_of, per_axis, tensor
from sexpgpu.trace.context import TRACES, Trace
from sexpgpu.trace.declare import tensor_function
from sexpgpu.trace.errors import failure
from sexpgpu.trace.functions.shape import text
from sexpgpu.trace.primitives import Shape, concat, pad, reshape, transpose
from sexpgpu.trace.promote import FLOAT, same_dtype, unify
from sexpgpu.trace.tensor import Tensor, wrap

Pairs = tuple[tuple[int, int], ...]


def spatial_of(name: str, x: Tensor) -> Shape:
    """The spatial extents of x."""
    shape = x.type.shape
    if not 3 <= len(shape) <= 5:
        raise failure(
            E_SHAPE_005,
            f"{name}: x {text(shape)} must be [B, spatial axes, C], with 1 to 3 spatial axes",
            [("x", x)],
            fix="add the batch or channel axis with expand-dims",
        )
    return shape[1:-1]


def _padding(name: str, padding: Any, spatial: Shape, reach: Shape, strides: Shape) -> Pairs:
    """(before, after) of each spatial axis. `:same` gives ceil(extent / stride) places, an odd
    padding one more after (as TensorFlow and XLA)."""
    if isinstance(padding, Symbol) and padding is not NIL:
        how = choice(name, ":padding", padding, ("same", "valid"))
        if how == "valid":
            return tuple([(0, 0) for _ in spatial])
        pairs: list[tuple[int, int]] = []
        for extent, window, stride in zip(spatial, reach, strides, strict=True):
            places = -(-extent // stride)
            total = max((places - 1) * stride + window - extent, 0)
            pairs.append((total // 2, total - total // 2))
        return tuple(pairs)
    if isinstance(padding, int):
        amount = integer(name, ":padding", padding, 0)
        return tuple([(amount, amount) for _ in spatial])
    items = items_of(name, ":padding", padding)
    if len(items) != len(spatial):
        raise bad(name, ":padding", padding, f":same, :valid or {len(spatial)} pairs")
    found: list[tuple[int, int]] = []
    for item in items:
        if isinstance(item, int):
            amount = integer(name, ":padding", item, 0)
            found.append((amount, amount))
            continue
        both = [integer(name, ":padding", n, 0) for n in items_of(name, ":padding", item)]
        if len(both) != 2:
            raise bad(name, ":padding", item, "a pair (before after)")
        found.append((both[0], both[1]))
    return tuple(found)


def _places(extent: int, window: int, stride: int, pads: tuple[int, int]) -> int:
    return (extent + pads[0] + pads[1] - window) // stride + 1


# ---------------------------------------------------------------------------- convolution


@tensor_function("conv", "(x w &key stride padding dilation groups transposed)")
def conv(
    x: Any,
    w: Any,
    stride: Any = 1,
    padding: Any = None,
    dilation: Any = 1,
    groups: Any = 1,
    transposed: Any = NIL,
) -> Tensor:
    """x [B, …spatial, C] with the filter w […spatial, C/groups, O] → [B, …places, O], a
    cross-correlation (the filter is not flipped). :padding is :valid (default), :same, a number or
    (before after) pairs; :stride and :dilation a number or one for each axis. With :transposed t
    the gradient of a convolution: each element of x adds its multiple of the filter, `stride`
    apart; :same gives extent · stride places, :valid (extent - 1) · stride + window."""
    trace = TRACES[-1]
    t, filter = tensor("conv", "x", x), tensor("conv", "w", w)
    a, b = same_dtype("conv", (t, filter), FLOAT, ("x", "w"))
    operands = [("x", t), ("w", filter)]
    spatial = spatial_of("conv", t)
    count = len(spatial)
    shape = filter.type.shape
    if len(shape) != count + 2:
        raise failure(
            E_SHAPE_005,
            f"conv: w {text(shape)} must be [{count} spatial axes, C/groups, O] for x "
            f"{text(t.type.shape)}",
            operands,
        )
    strides = per_axis("conv", ":stride", stride, count)
    spread = per_axis("conv", ":dilation", dilation, count)
    parts = integer("conv", ":groups", groups, 1)
    channels, outputs = t.type.shape[-1], shape[-1]
    if channels % parts or outputs % parts:
        raise failure(
            E_OP_001,
            f"conv: {parts} groups do not divide {channels} input and {outputs} output channels",
            operands,
        )
    if shape[-2] != channels // parts:
        raise failure(
            E_SHAPE_002,
            f"conv: x has {channels} channels in {parts} group{'s' * (parts > 1)}, w takes "
            f"{shape[-2]} (its axis {count})",
            operands,
            fix=f"axis {count} of w must be {channels // parts}",
        )
    reach = tuple([d * (n - 1) + 1 for d, n in zip(spread, shape, strict=False)])
    if transposed is not NIL:
        return wrap(_transposed(trace, a, b, spatial, padding, reach, strides, spread, parts))
    pads = (
        ((0, 0),) * count if padding is None else _padding("conv", padding, spatial, reach, strides)
    )
    made = trace.emit(
        "conv", a, b, strides=strides, pads=pads, dilation=spread, groups=parts, accumulate=None,
        mode="highest",
    )  # fmt: skip
    return wrap(made)


def _transposed(
    trace: Trace,
    x: Value,
    w: Value,
    spatial: Shape,
    padding: Any,
    reach: Shape,
    strides: Shape,
    dilation: Shape,
    groups: int,
) -> Value:
    """conv-input-grad with x as the cotangent: its filter has inputs and outputs exchanged."""
    same = isinstance(padding, Symbol) and padding.name == "same"
    if same:
        result = tuple([n * s for n, s in zip(spatial, strides, strict=True)])
        pads = _padding("conv", padding, result, reach, strides)
    else:
        pads = ((0, 0),) * len(spatial)
        if padding is not None:
            pads = _padding("conv", padding, spatial, reach, strides)
        result = tuple(
            [
                (n - 1) * s + window - low - high
                for n, s, window, (low, high) in zip(spatial, strides, reach, pads, strict=True)
            ]
        )
        if any(n < 1 for n in result):
            raise failure(E_SHAPE_006, f"conv: the padding leaves the places {text(result)}")
    window, (inner, outputs) = w.type.shape[:-2], w.type.shape[-2:]
    count = len(window)
    each = outputs // groups
    apart = reshape(trace, w, (*window, inner, groups, each))
    order = (*range(count), count + 2, count + 1, count)
    exchanged = reshape(trace, transpose(trace, apart, order), (*window, each, groups * inner))
    return trace.emit(
        "conv-input-grad",
        x,
        exchanged,
        input_shape=(x.type.shape[0], *result, outputs),
        strides=strides,
        pads=pads,
        dilation=dilation,
        groups=groups,
        accumulate=None,
        mode="highest",
    )


# ---------------------------------------------------------------------------- pooling


def _window(
    name: str, x: Tensor, size: Any, stride: Any, padding: Any, apart: bool
) -> tuple[Shape, Shape, Pairs]:
    """(size, strides, pads) over x's spatial axes. The stride is the size unless said (`apart`),
    else 1."""
    spatial = spatial_of(name, x)
    count = len(spatial)
    sizes = per_axis(name, "size", size, count)
    ones = (1,) * count
    strides = (
        (sizes if apart else ones) if stride is None else per_axis(name, ":stride", stride, count)
    )
    pads = ((0, 0),) * count
    if padding is not None:
        pads = _padding(name, padding, spatial, sizes, strides)
    for axis, (extent, window, (low, high)) in enumerate(zip(spatial, sizes, pads, strict=True)):
        if extent + low + high < window:
            raise failure(
                E_SHAPE_006,
                f"{name}: a window of {window} on spatial axis {axis}, whose extent is {extent}",
                [("x", x)],
                fix="use a smaller window, or :padding :same",
            )
    return sizes, strides, pads


@tensor_function("max-pool", "(x size &key stride padding)")
def max_pool(x: Any, size: Any, stride: Any = None, padding: Any = None) -> Tensor:
    """The greatest of each window of x [B, …spatial, C]. :stride is the size unless said;
    :padding (:valid unless said) never wins."""
    t = tensor("max-pool", "x", x)
    sizes, strides, pads = _window("max-pool", t, size, stride, padding, True)
    value = unify("max-pool", (t,), FLOAT, ("x",))[0]
    return wrap(TRACES[-1].emit("max-pool", value, size=sizes, strides=strides, pads=pads))


@tensor_function("avg-pool", "(x size &key stride padding count-pads)")
def avg_pool(
    x: Any, size: Any, stride: Any = None, padding: Any = None, count_pads: Any = True
) -> Tensor:
    """The mean of each window of x [B, …spatial, C]. :stride is the size unless said. Padded places
    count as zeros (as in torch and flax); with :count-pads nil the mean is over the others."""
    t = tensor("avg-pool", "x", x)
    sizes, strides, pads = _window("avg-pool", t, size, stride, padding, True)
    value = unify("avg-pool", (t,), FLOAT, ("x",))[0]
    counted = count_pads is not NIL
    return wrap(
        TRACES[-1].emit(
            "avg-pool", value, size=sizes, strides=strides, pads=pads, count_pads=counted
        )
    )


@tensor_function("unfold", "(x size &key stride padding)")
def unfold(x: Any, size: Any, stride: Any = None, padding: Any = None) -> Tensor:
    """Each window of x [B, …spatial, C] as one row: [B, …places, window · C], the window's places
    in row-major order and the channels fastest, as a filter w reshaped to [window · C, O] is.
    :stride is 1 and :padding (with zeros) :valid unless said."""
    trace = TRACES[-1]
    t = tensor("unfold", "x", x)
    sizes, strides, pads = _window("unfold", t, size, stride, padding, False)
    value = t.value
    low = (0, *[a for a, _ in pads], 0)
    high = (0, *[b for _, b in pads], 0)
    value = pad(trace, value, low, high, None, 0)
    shape = value.type.shape
    examples, spatial, channels = shape[0], shape[1:-1], shape[-1]
    places = tuple(
        [_places(n, k, s, (0, 0)) for n, k, s in zip(spatial, sizes, strides, strict=True)]
    )
    row = channels * math.prod(sizes)
    if sizes == strides and all(n * k == m for n, k, m in zip(places, sizes, spatial, strict=True)):
        apart: list[int] = []
        for n, k in zip(places, sizes, strict=True):
            apart += [n, k]
        value = reshape(trace, value, (examples, *apart, channels))
        count = len(sizes)
        order = (
            0,
            *[1 + 2 * i for i in range(count)],
            *[2 + 2 * i for i in range(count)],
            1 + 2 * count,
        )
        return wrap(reshape(trace, transpose(trace, value, order), (examples, *places, row)))
    parts: list[Value] = []
    for offset in product(*[range(k) for k in sizes]):
        limits = [o + (n - 1) * s + 1 for o, n, s in zip(offset, places, strides, strict=True)]
        parts.append(
            trace.emit(
                "slice",
                value,
                starts=(0, *offset, 0),
                limits=(examples, *limits, channels),
                strides=(1, *strides, 1),
            )
        )
    return wrap(concat(trace, parts, len(shape) - 1))
