"""Resampling of spatial axes, one axis after the other.

Place i of n stands at (i + 1/2) m/n - 1/2 on an axis of m (pixels are areas), or with align-corners
at i (m - 1)/(n - 1) (pixels are points). What a kernel wants beyond a border is the border's pixel,
except with antialias, where it is left out and the rest made to sum to 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sexpgpu.diagnostics.codes.tensor import E_OP_001, E_SHAPE_006
from sexpgpu.ir.graph import Value
from sexpgpu.lisp.values import NIL
from sexpgpu.trace.arguments import choice, per_axis, tensor
from sexpgpu.trace.context import TRACES, Trace
from sexpgpu.trace.declare import tensor_function
from sexpgpu.trace.errors import failure
from sexpgpu.trace.functions.conv import spatial_of
from sexpgpu.trace.functions.shape import repeated
from sexpgpu.trace.primitives import broadcast, cast
from sexpgpu.trace.promote import floats
from sexpgpu.trace.tensor import Tensor, wrap

Kernel = Callable[[float], float]
Row = list[tuple[int, float]]  # what one place is made of: indices and their weights
UNROLLED = 8  # elements a place is made of up to which each is an addition of its own

METHODS = ("linear", "nearest", "cubic")


@tensor_function("resize", "(x spatial &key method align-corners antialias)")
def resize(
    x: Any, spatial: Any, method: Any = None, align_corners: Any = NIL, antialias: Any = NIL
) -> Tensor:
    """x [B, …spatial, C] with its spatial axes resampled to those extents. :method :linear
    (default), :cubic or :nearest. Pixels are areas, their centres at half integers; with
    :align-corners t they are points, and the first and last stay where they are. Shrinking
    skips pixels unless :antialias t widens the kernel by the ratio. The kernels are torch's: cubic
    Keys' with a = -0.75, with :antialias -0.5; nearest its nearest-exact."""
    trace = TRACES[-1]
    t = tensor("resize", "x", x)
    own = spatial_of("resize", t)
    wanted = per_axis("resize", "spatial", spatial, len(own))
    how = "linear" if method is None else choice("resize", ":method", method, METHODS)
    points, smooth = align_corners is not NIL, antialias is not NIL
    if how == "nearest" and (points or smooth):
        word = ":align-corners" if points else ":antialias"
        raise failure(E_OP_001, f"resize: {word} has no meaning for :nearest", [("x", t)])
    if points and smooth:
        raise failure(
            E_OP_001,
            "resize: :antialias takes pixels as areas, :align-corners as points",
            [("x", t)],
            fix="give one of the two",
        )
    value = t.value if how == "nearest" else floats("resize", t)
    for at, (old, new) in enumerate(zip(own, wanted, strict=True)):
        if old == 0:
            raise failure(E_SHAPE_006, "resize: an axis without elements", [("x", t)])
        if new == old:
            continue
        if how == "nearest":
            value = _nearest(trace, value, at + 1, old, new)
        elif smooth:
            value = _combined(trace, value, at + 1, _widened(how, old, new))
        else:
            value = _combined(trace, value, at + 1, _rows(how, old, new, points))
    return wrap(value)


def _nearest(trace: Trace, x: Value, axis: int, old: int, new: int) -> Value:
    if new % old == 0:
        return repeated(trace, x, axis, new // old)
    ids = [min((2 * i + 1) * old // (2 * new), old - 1) for i in range(new)]
    return _taken(trace, x, axis, ids)


# ---------------------------------------------------------------------------- weights


def _triangle(t: float) -> float:
    return max(0.0, 1.0 - abs(t))


def _keys(a: float) -> Kernel:
    """Keys, "Cubic convolution interpolation for digital image processing" (1981)."""

    def kernel(t: float) -> float:
        t = abs(t)
        if t <= 1:
            return ((a + 2) * t - (a + 3)) * t * t + 1
        return a * (((t - 5) * t + 8) * t - 4) if t < 2 else 0.0

    return kernel


def _rows(method: str, old: int, new: int, points: bool) -> list[Row]:
    """Interpolation between neighbours: 2 of :linear, 4 of :cubic."""
    kernel, reach = (_triangle, 1) if method == "linear" else (_keys(-0.75), 2)
    rows: list[Row] = []
    for i in range(new):
        if points:
            place = i * (old - 1) / (new - 1) if new > 1 else 0.0
        else:
            place = (i + 0.5) * old / new - 0.5
        if method == "linear":
            place = min(max(place, 0.0), old - 1.0)
        first = math.floor(place)
        row = [(j, kernel(place - j)) for j in range(first - reach + 1, first + reach + 1)]
        rows.append([(min(max(j, 0), old - 1), weight) for j, weight in row])
    return rows


def _widened(method: str, old: int, new: int) -> list[Row]:
    """The kernel, stretched over the pixels that become one; those beyond the border left out."""
    kernel, reach = (_triangle, 1) if method == "linear" else (_keys(-0.5), 2)
    ratio = max(old / new, 1.0)
    rows: list[Row] = []
    for i in range(new):
        center = (i + 0.5) * old / new
        low = max(math.floor(center - reach * ratio + 0.5), 0)
        high = min(math.floor(center + reach * ratio + 0.5), old)
        weights = [kernel((j - center + 0.5) / ratio) for j in range(low, high)]
        total = sum(weights)
        rows.append([(j, w / total) for j, w in zip(range(low, high), weights, strict=True)])
    most = max(map(len, rows))
    return [row + [(row[-1][0], 0.0)] * (most - len(row)) for row in rows]


# ---------------------------------------------------------------------------- sums


def _taken(trace: Trace, x: Value, axis: int, ids: list[int]) -> Value:
    index = trace.emit("literal", shape=(len(ids),), dtype="i32", values=tuple(ids))
    return trace.emit("take", x, index, axis=axis)


def _weights(trace: Trace, numbers: list[float], like: Value, axes: tuple[int, ...]) -> Value:
    """Numbers along some axes, repeated along the others."""
    shape, dtype = like.type.shape, like.type.dtype
    thin = tuple([n if at in axes else 1 for at, n in enumerate(shape)])
    held = "f64" if dtype == "f64" else "f32"
    raw = trace.emit("literal", shape=thin, dtype=held, values=tuple(numbers))
    return broadcast(trace, cast(trace, raw, dtype), shape)


def _combined(trace: Trace, x: Value, axis: int, rows: list[Row]) -> Value:
    """Each place's weighted sum along the axis."""
    count = len(rows[0])
    if count == 2:
        # a + w (b - a): what is constant stays so to the bit
        below, above = [_taken(trace, x, axis, [row[k][0] for row in rows]) for k in (0, 1)]
        weight = _weights(trace, [row[1][1] for row in rows], below, (axis,))
        step = trace.emit("mul", weight, trace.emit("sub", above, below))
        return trace.emit("add", below, step)
    if count <= UNROLLED:
        total: Value | None = None
        for k in range(count):
            part = _taken(trace, x, axis, [row[k][0] for row in rows])
            part = trace.emit(
                "mul", part, _weights(trace, [row[k][1] for row in rows], part, (axis,))
            )
            total = part if total is None else trace.emit("add", total, part)
        assert total is not None
        return total
    new = len(rows)
    flat = [j for row in rows for j, _ in row]
    index = trace.emit("literal", shape=(new, count), dtype="i32", values=tuple(flat))
    parts = trace.emit("take", x, index, axis=axis)
    weight = _weights(trace, [w for row in rows for _, w in row], parts, (axis, axis + 1))
    return trace.emit("sum", trace.emit("mul", parts, weight), axes=(axis + 1,))
