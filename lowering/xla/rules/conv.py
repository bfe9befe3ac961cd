"""lax rules of sexpgpu/ops/conv.py.

On CPU a convolution is a product with the patches of its input; its weight gradient is
patches^T.dy in that operand order, its input gradient dy.w^T put back position by position.
The patches of forward and backward pass are one expression, which XLA computes once.
"""

from __future__ import annotations

import math

import jax
from jax import lax

from sexpgpu.lowering.xla.dtypes import F32, LAX, is_half, lowest, value_of
from sexpgpu.lowering.xla.options import PRECISION, Lowering
from sexpgpu.lowering.xla.registry import lowers
from sexpgpu.lowering.xla.windows import Ints, Pairs, Windows


def _by_patches(
    lowering: Lowering, windows: Windows, batch: int, channels: int, groups: int, itemsize: int
) -> bool:
    tuning = lowering.tuning
    if tuning is None or not tuning.patches_conv or groups != 1 or 0 in windows.out:
        return False
    elements = batch * math.prod(windows.out) * math.prod(windows.size) * channels
    return elements * itemsize <= tuning.patches_limit


def _widened(lowering: Lowering, accumulate: str | None, *xs: jax.Array) -> tuple[jax.Array, ...]:
    """Operands in the dtype that their products are added in, where the device does not see to
    that."""
    if accumulate == "f64":
        return tuple(lax.convert_element_type(x, LAX["f64"]) for x in xs)
    if lowering.tuning is None or not lowering.tuning.widen_halves:
        return xs
    return tuple(lax.convert_element_type(x, F32) if is_half(x) else x for x in xs)


def _patches(x: jax.Array, windows: Windows) -> jax.Array:
    """[B * out, positions * C]: for each place of the result, what its window meets."""
    bordered = windows.bordered(x, 0)
    parts = [windows.met(bordered, position) for position in windows.positions()]
    patches = parts[0] if len(parts) == 1 else lax.concatenate(parts, x.ndim - 1)
    return lax.reshape(patches, (x.shape[0] * math.prod(windows.out), patches.shape[-1]))


def _dot(a: jax.Array, b: jax.Array, a_axis: int, b_axis: int, mode: str) -> jax.Array:
    return lax.dot_general(a, b, (((a_axis,), (b_axis,)), ((), ())), precision=PRECISION[mode])


def _numbers(spatial: int) -> lax.ConvDimensionNumbers:
    """Channels last, on both sides; filters [...spatial, in, out]."""
    data = (0, spatial + 1, *range(1, spatial + 1))
    return lax.ConvDimensionNumbers(data, (spatial + 1, spatial, *range(spatial)), data)


@lowers("conv", by_device=True)
def _conv(
    lowering: Lowering,
    x: jax.Array,
    w: jax.Array,
    *,
    strides: Ints,
    pads: Pairs,
    dilation: Ints,
    groups: int,
    accumulate: str | None,
    mode: str,
) -> jax.Array:
    windows = Windows(x.shape[1:-1], w.shape[:-2], strides, pads, dilation)
    dtype = x.dtype
    x, w = _widened(lowering, accumulate, x, w)
    if _by_patches(lowering, windows, x.shape[0], x.shape[-1], groups, x.dtype.itemsize):
        rows = lax.reshape(w, (math.prod(w.shape[:-1]), w.shape[-1]))
        y = _dot(_patches(x, windows), rows, 1, 0, mode)
        y = lax.reshape(y, (x.shape[0], *windows.out, w.shape[-1]))
    else:
        y = lax.conv_general_dilated(
            x,
            w,
            strides,
            pads,
            rhs_dilation=dilation,
            dimension_numbers=_numbers(len(strides)),
            feature_group_count=groups,
            precision=PRECISION[mode],
        )
    return lax.convert_element_type(y, dtype)


@lowers("conv-input-grad", by_device=True)
def _conv_input_grad(
    lowering: Lowering,
    dy: jax.Array,
    w: jax.Array,
    *,
    input_shape: Ints,
    strides: Ints,
    pads: Pairs,
    dilation: Ints,
    groups: int,
    accumulate: str | None,
    mode: str,
) -> jax.Array:
    windows = Windows(input_shape[1:-1], w.shape[:-2], strides, pads, dilation)
    dtype = dy.dtype
    dy, w = _widened(lowering, accumulate, dy, w)
    channels = input_shape[-1]
    if _by_patches(lowering, windows, dy.shape[0], channels, groups, dy.dtype.itemsize):
        dx = _input_grad_by_patches(dy, w, windows, channels, mode)
    else:
        dx = _input_grad_by_conv(dy, w, windows, groups, mode)
    return lax.convert_element_type(dx, dtype)


def _input_grad_by_patches(
    dy: jax.Array, w: jax.Array, windows: Windows, channels: int, mode: str
) -> jax.Array:
    rows = lax.reshape(w, (math.prod(w.shape[:-1]), w.shape[-1]))
    flat = lax.reshape(dy, (math.prod(dy.shape[:-1]), dy.shape[-1]))
    parts = lax.reshape(_dot(flat, rows, 1, 1, mode), (*dy.shape[:-1], rows.shape[0]))
    total = None
    for i, position in enumerate(windows.positions()):
        part = lax.slice_in_dim(parts, i * channels, (i + 1) * channels, axis=parts.ndim - 1)
        back = windows.put_back(part, position)
        total = back if total is None else lax.add(total, back)
    assert total is not None
    return total


def _input_grad_by_conv(
    dy: jax.Array, w: jax.Array, windows: Windows, groups: int, mode: str
) -> jax.Array:
    """A convolution of dy, its entries set `strides` apart, with the reversed filter whose in and
    out channels change places within each group."""
    spatial = len(windows.size)
    per_group, out = w.shape[-2:]
    split = lax.reshape(w, (*windows.size, per_group, groups, out // groups))
    swapped = lax.transpose(split, (*range(spatial), spatial + 2, spatial + 1, spatial))
    turned = lax.reshape(swapped, (*windows.size, out // groups, groups * per_group))
    borders: list[tuple[int, int]] = []
    for n, k, s, d, (low, _), count in zip(
        windows.spatial, windows.size, windows.strides, windows.dilation, windows.pads,
        dy.shape[1:-1], strict=True,
    ):  # fmt: skip
        before = (k - 1) * d - low
        borders.append((before, n - ((count - 1) * s + 1) - before + (k - 1) * d))
    return lax.conv_general_dilated(
        dy,
        lax.rev(turned, tuple(range(spatial))),
        (1,) * spatial,
        borders,
        lhs_dilation=windows.strides,
        rhs_dilation=windows.dilation,
        dimension_numbers=_numbers(spatial),
        feature_group_count=groups,
        precision=PRECISION[mode],
    )


@lowers("conv-weight-grad", by_device=True)
def _conv_weight_grad(
    lowering: Lowering,
    x: jax.Array,
    dy: jax.Array,
    *,
    filter_shape: Ints,
    strides: Ints,
    pads: Pairs,
    dilation: Ints,
    groups: int,
    accumulate: str | None,
    mode: str,
) -> jax.Array:
    windows = Windows(x.shape[1:-1], filter_shape[:-2], strides, pads, dilation)
    dtype = x.dtype
    x, dy = _widened(lowering, accumulate, x, dy)
    if _by_patches(lowering, windows, x.shape[0], x.shape[-1], groups, x.dtype.itemsize):
        flat = lax.reshape(dy, (math.prod(dy.shape[:-1]), dy.shape[-1]))
        dw = lax.reshape(_dot(_patches(x, windows), flat, 0, 0, mode), filter_shape)
    else:
        dw = _weight_grad_by_conv(x, dy, windows, groups, mode)
    return lax.convert_element_type(dw, dtype)


def _weight_grad_by_conv(
    x: jax.Array, dy: jax.Array, windows: Windows, groups: int, mode: str
) -> jax.Array:
    """A convolution of x with dy as its filter, where channels and examples change places:
    strides and dilation do, too."""
    spatial = len(windows.size)
    axes = tuple(range(1, spatial + 1))
    borders = [
        (low, (k - 1) * d + (count - 1) * s + 1 - n - low)
        for n, k, s, d, (low, _), count in zip(
            windows.spatial, windows.size, windows.strides, windows.dilation, windows.pads,
            dy.shape[1:-1], strict=True,
        )
    ]  # fmt: skip
    return lax.conv_general_dilated(
        x,
        dy,
        windows.dilation,
        borders,
        rhs_dilation=windows.strides,
        dimension_numbers=lax.ConvDimensionNumbers(
            (spatial + 1, 0, *axes),
            (spatial + 1, 0, *axes),
            (spatial, spatial + 1, *range(spatial)),
        ),
        batch_group_count=groups,
        precision=PRECISION[mode],
    )


# ---- pooling -------------------------------------------------------------------------------
def _pooling(spatial: Ints, size: Ints, strides: Ints, pads: Pairs) -> Windows:
    return Windows(spatial, size, strides, pads, (1,) * len(size))


def _tiles(x: jax.Array, windows: Windows) -> tuple[jax.Array, Ints]:
    """x cut to whole tiles as [B, n1, k1, n2, k2, ..., C], and the axes of the k."""
    ends = tuple(n * k for n, k in zip(windows.out, windows.size, strict=True))
    spatial = len(ends)
    whole = lax.slice(x, (0,) * x.ndim, (x.shape[0], *ends, x.shape[-1]))
    split = [extent for pair in zip(windows.out, windows.size, strict=True) for extent in pair]
    tiles = lax.reshape(whole, (x.shape[0], *split, x.shape[-1]))
    return tiles, tuple(range(2, 2 * spatial + 1, 2))


def _over_tiles(y: jax.Array, like: jax.Array, inner: Ints) -> jax.Array:
    """A value per window, repeated for each entry of its tile."""
    kept = tuple(axis for axis in range(like.ndim) if axis not in inner)
    return lax.broadcast_in_dim(y, like.shape, kept)


def _untiled(tiles: jax.Array, windows: Windows) -> jax.Array:
    """The transpose of `_tiles`: what was cut off is zero."""
    ends = [n * k for n, k in zip(windows.out, windows.size, strict=True)]
    whole = lax.reshape(tiles, (tiles.shape[0], *ends, tiles.shape[-1]))
    pads = [(0, n - end, 0) for n, end in zip(windows.spatial, ends, strict=True)]
    if not any(high for _, high, _ in pads):
        return whole
    return lax.pad(whole, value_of(whole, 0), [(0, 0, 0), *pads, (0, 0, 0)])


@lowers("max-pool")
def _max_pool(x: jax.Array, *, size: Ints, strides: Ints, pads: Pairs) -> jax.Array:
    windows = _pooling(x.shape[1:-1], size, strides, pads)
    if windows.tiling:
        tiles, inner = _tiles(x, windows)
        return lax.reduce_max(tiles, inner)
    return lax.reduce_window(
        x, lowest(x), lax.max, (1, *size, 1), (1, *strides, 1), ((0, 0), *pads, (0, 0))
    )


@lowers("max-pool-grad")
def _max_pool_grad(
    x: jax.Array, y: jax.Array, dy: jax.Array, *, size: Ints, strides: Ints, pads: Pairs
) -> jax.Array:
    """By comparison with the maximum: XLA's own gradient of a window's maximum
    (select-and-scatter) costs more than all else in a small convolutional network."""
    windows = _pooling(x.shape[1:-1], size, strides, pads)
    dtype = dy.dtype
    if is_half(dy):
        dy = lax.convert_element_type(dy, F32)
    bordered = windows.bordered(x, lowest(x).item())
    zero = lax.full_like(dy, value_of(dy, 0))
    # position by position also where a reduction over tiles would do: XLA:CPU fuses this sum
    masks = [lax.eq(windows.met(bordered, at), y) for at in windows.positions()]
    ties = zero
    for mask in masks:
        ties = lax.add(ties, lax.convert_element_type(mask, dy.dtype))
    share = _share(dy, ties)
    if windows.tiling:
        tiles, inner = _tiles(x, windows)
        here = lax.eq(tiles, _over_tiles(y, tiles, inner))
        spread = _over_tiles(share, tiles, inner)
        total = _untiled(lax.select(here, spread, lax.full_like(spread, value_of(dy, 0))), windows)
    else:
        total = lax.full(x.shape, value_of(dy, 0), dy.dtype)
        for mask, at in zip(masks, windows.positions(), strict=True):
            total = lax.add(total, windows.put_back(lax.select(mask, share, zero), at))
    return lax.convert_element_type(total, dtype)


def _share(dy: jax.Array, ties: jax.Array) -> jax.Array:
    return lax.div(dy, lax.max(ties, lax.full_like(ties, value_of(ties, 1))))


def _counts(windows: Windows, count_pads: bool, like: jax.Array) -> jax.Array:
    """How many entries each window's mean is over, in the shape of `like` [B, ...out, C]."""
    if count_pads:
        return lax.full_like(like, value_of(like, math.prod(windows.size)))
    ones = lax.full((1, *windows.spatial, 1), value_of(like, 1), like.dtype)
    counts = _window_sum(ones, windows)
    spatial = tuple(range(1, counts.ndim - 1))
    return lax.broadcast_in_dim(lax.squeeze(counts, (0, counts.ndim - 1)), like.shape, spatial)


def _window_sum(x: jax.Array, windows: Windows) -> jax.Array:
    if windows.tiling:
        tiles, inner = _tiles(x, windows)
        return lax.reduce_sum(tiles, inner)
    return lax.reduce_window(
        x,
        value_of(x, 0),
        lax.add,
        (1, *windows.size, 1),
        (1, *windows.strides, 1),
        ((0, 0), *windows.pads, (0, 0)),
    )


@lowers("avg-pool")
def _avg_pool(
    x: jax.Array, *, size: Ints, strides: Ints, pads: Pairs, count_pads: bool
) -> jax.Array:
    windows = _pooling(x.shape[1:-1], size, strides, pads)
    wide = lax.convert_element_type(x, F32) if is_half(x) else x
    total = _window_sum(wide, windows)
    return lax.convert_element_type(lax.div(total, _counts(windows, count_pads, total)), x.dtype)


@lowers("avg-pool-grad")
def _avg_pool_grad(
    dy: jax.Array,
    *,
    input_shape: Ints,
    size: Ints,
    strides: Ints,
    pads: Pairs,
    count_pads: bool,
) -> jax.Array:
    windows = _pooling(input_shape[1:-1], size, strides, pads)
    wide = lax.convert_element_type(dy, F32) if is_half(dy) else dy
    share = lax.div(wide, _counts(windows, count_pads, wide))
    if windows.tiling:
        shape = [dy.shape[0]]
        for n, k in zip(windows.out, size, strict=True):
            shape += [n, k]
        kept = (0, *range(1, 2 * len(size), 2), 2 * len(size) + 1)
        tiles = lax.broadcast_in_dim(share, (*shape, dy.shape[-1]), kept)
        return lax.convert_element_type(_untiled(tiles, windows), dy.dtype)
    total = lax.full(input_shape, value_of(share, 0), share.dtype)
    for at in windows.positions():
        total = lax.add(total, windows.put_back(share, at))
    return lax.convert_element_type(total, dy.dtype)
