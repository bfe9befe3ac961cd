"""Types for samples and rejects, written short."""

from __future__ import annotations

from typing import Any

from sexpgpu.ir.types import TensorType
from sexpgpu.ops.schema import Sample


def f32(*shape: int, batch: int | None = None) -> TensorType:
    return TensorType(shape, "f32", batch)


def f64(*shape: int) -> TensorType:
    return TensorType(shape, "f64")


def bf16(*shape: int) -> TensorType:
    return TensorType(shape, "bf16")


def i32(*shape: int, batch: int | None = None) -> TensorType:
    return TensorType(shape, "i32", batch)


def u8(*shape: int) -> TensorType:
    return TensorType(shape, "u8")


def u32(*shape: int) -> TensorType:
    return TensorType(shape, "u32")


def boolean(*shape: int) -> TensorType:
    return TensorType(shape, "bool")


SHAPES = ((), (3,), (2, 3))


def elementwise(
    operands: int, dtype: str = "f32", shapes: tuple[tuple[int, ...], ...] = SHAPES, **how: Any
) -> tuple[Sample, ...]:
    """Samples of operands of one type, over a few shapes."""
    return tuple(Sample(*(TensorType(shape, dtype),) * operands, **how) for shape in shapes)
