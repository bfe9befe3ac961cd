"""Small compositions on the values of the current trace: what every family of functions needs.

Each gives its operand back where there is nothing to do. Shapes are tuples of plain ints.
"""

from __future__ import annotations

from collections.abc import Sequence

from sexpgpu.ir.graph import Value
from sexpgpu.ir.types import BOOL
from sexpgpu.trace.context import Trace

Shape = tuple[int, ...]


def size_of(shape: Sequence[int]) -> int:
    """The number of elements."""
    n = 1
    for extent in shape:
        n *= extent
    return n


def cast(trace: Trace, x: Value, dtype: str) -> Value:
    return x if x.type.dtype == dtype else trace.emit("cast", x, dtype=dtype)


def reshape(trace: Trace, x: Value, shape: Shape) -> Value:
    return x if x.type.shape == shape else trace.emit("reshape", x, shape=shape)


def transpose(trace: Trace, x: Value, perm: Shape) -> Value:
    if perm == tuple(range(len(perm))):
        return x
    return trace.emit("transpose", x, perm=perm)


def broadcast(trace: Trace, x: Value, shape: Shape) -> Value:
    """x stretched to a shape that it broadcasts to, its axes aligned at the last."""
    own = x.type.shape
    if own == shape:
        return x
    rank = len(shape)
    dims = tuple(range(rank - len(own), rank))
    return trace.emit("broadcast", x, shape=shape, dims=dims)


def expand(trace: Trace, x: Value, axis: int) -> Value:
    """x with an axis of extent 1 put in before `axis`."""
    shape = x.type.shape
    return trace.emit("reshape", x, shape=(*shape[:axis], 1, *shape[axis:]))


def drop_axes(trace: Trace, x: Value, axes: Sequence[int]) -> Value:
    """x without axes of extent 1."""
    if not axes:
        return x
    shape = tuple([n for at, n in enumerate(x.type.shape) if at not in axes])
    return trace.emit("reshape", x, shape=shape)


def keep_axes(trace: Trace, reduced: Value, shape: Shape, axes: Sequence[int]) -> Value:
    """What a reduction of `shape` over `axes` gave, with those axes kept as extent 1."""
    kept = tuple([1 if at in axes else n for at, n in enumerate(shape)])
    return reshape(trace, reduced, kept)


def cut(trace: Trace, x: Value, axis: int, start: int, limit: int, stride: int = 1) -> Value:
    """x[start:limit:stride] along one axis."""
    shape = x.type.shape
    if start == 0 and limit == shape[axis] and stride == 1:
        return x
    starts = [0] * len(shape)
    limits = list(shape)
    strides = [1] * len(shape)
    starts[axis], limits[axis], strides[axis] = start, limit, stride
    return trace.emit(
        "slice", x, starts=tuple(starts), limits=tuple(limits), strides=tuple(strides)
    )


def concat(trace: Trace, parts: Sequence[Value], axis: int) -> Value:
    return parts[0] if len(parts) == 1 else trace.emit("concat", *parts, axis=axis)


def move_axes(rank: int, sources: Sequence[int], targets: Sequence[int]) -> Shape:
    """The permutation that puts axis sources[i] at place targets[i], the rest in order."""
    rest = iter([axis for axis in range(rank) if axis not in sources])
    placed = dict(zip(targets, sources, strict=True))
    return tuple([placed[at] if at in placed else next(rest) for at in range(rank)])


def inverse(perm: Sequence[int]) -> Shape:
    """The permutation that undoes `perm`."""
    result = [0] * len(perm)
    for to, source in enumerate(perm):
        result[source] = to
    return tuple(result)


def iota(trace: Trace, shape: Shape, axis: int, dtype: str, batch: int | None = None) -> Value:
    """The index along an axis."""
    return trace.emit("iota", shape=shape, axis=axis, dtype=dtype, batch=batch)


def pad(
    trace: Trace,
    x: Value,
    low: Shape,
    high: Shape,
    interior: Shape | None = None,
    value: float | bool = 0,
) -> Value:
    """x with constants around (and between) its elements."""
    inner = (0,) * len(low) if interior is None else interior
    if not any(low) and not any(high) and not any(inner):
        return x
    value = bool(value) if x.type.dtype in BOOL else value
    return trace.emit("pad", x, low=low, high=high, interior=inner, value=value)
