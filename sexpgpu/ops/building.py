"""What VJP rules and passes emit often, in terms of the ops."""

from __future__ import annotations

from sexpgpu.ir.graph import Builder, Value
from sexpgpu.ir.types import FLOATS


def full_like(b: Builder, number: float, like: Value) -> Value:
    """A tensor of one number with the type of `like`."""
    shape, dtype, batch = like.type
    value: float | bool = (
        float(number) if dtype in FLOATS else bool(number) if dtype == "bool" else int(number)
    )
    return b.emit("full", shape=shape, value=value, dtype=dtype, batch=batch)


def zeros_like(b: Builder, like: Value) -> Value:
    return full_like(b, 0.0, like)


def scaled(b: Builder, x: Value, number: float) -> Value:
    """x * number."""
    return b.emit("mul", x, full_like(b, number, x))


def shifted(b: Builder, x: Value, number: float) -> Value:
    """x + number."""
    return b.emit("add", x, full_like(b, number, x))


def reshaped(b: Builder, x: Value, shape: tuple[int, ...]) -> Value:
    """x in that shape; x itself when it has it."""
    return x if x.shape == shape else b.emit("reshape", x, shape=shape)


def transposed(b: Builder, x: Value, perm: tuple[int, ...]) -> Value:
    """x with its axes in that order; x itself when they are."""
    return x if perm == tuple(range(len(perm))) else b.emit("transpose", x, perm=perm)


def spread(b: Builder, x: Value, shape: tuple[int, ...], axes: tuple[int, ...]) -> Value:
    """x repeated along new axes: `axes` are theirs in `shape`, the others are x's in order."""
    if not axes:
        return x
    dims = tuple(axis for axis in range(len(shape)) if axis not in axes)
    return b.emit("broadcast", x, shape=shape, dims=dims)


def total(b: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    """x summed over axes; x itself when there are none."""
    return b.emit("sum", x, axes=axes) if axes else x


def full_of(
    b: Builder, number: float, shape: tuple[int, ...], dtype: str, batch: int | None = None
) -> Value:
    """A float tensor of one number."""
    return b.emit("full", shape=shape, value=float(number), dtype=dtype, batch=batch)
