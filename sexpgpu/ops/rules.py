"""Parts of inference rules that families share: equal shapes, axes, the batch axis.

The batch axis of a result is where the examples lie in it: an operand without one (a parameter,
a constant) does not take part; operands that disagree leave none.
"""

from __future__ import annotations

from sexpgpu.diagnostics.codes.tensor import (
    E_DTYPE_002,
    E_OP_001,
    E_SHAPE_001,
    E_SHAPE_003,
    E_SHAPE_005,
    E_SHAPE_008,
)
from sexpgpu.ir.types import TensorType
from sexpgpu.ops.schema import OpError, Types

MAX_SIZE = 1 << 40
MIXED = -1


def list_of(shape: tuple[int, ...]) -> str:
    """A shape as the Lisp writes it."""
    return f"({' '.join(map(str, shape))})"


def same_type(name: str, types: Types) -> TensorType:
    """The one type of operands of equal shape and dtype."""
    first = types[0]
    for other in types[1:]:
        if other is not first and other != first:
            return _merged(name, types)
    return first


def _merged(name: str, types: Types) -> TensorType:
    first = types[0]
    for index, other in enumerate(types):
        if other.shape != first.shape:
            refuse_shapes(name, first, other, index)
        if other.dtype != first.dtype:
            raise OpError(
                E_DTYPE_002,
                f"{name}: dtypes differ, {first} and {other}",
                operand=index,
            )
    return TensorType(first.shape, first.dtype, merged_batch(*[t.batch for t in types]))


def refuse_shapes(name: str, a: TensorType, b: TensorType, index: int) -> None:
    """Raise for two shapes that are not equal, naming the first axis that differs."""
    if a.rank != b.rank:
        raise OpError(
            E_SHAPE_001,
            f"{name}: shapes {list_of(a.shape)} and {list_of(b.shape)} have different ranks",
            operand=index,
        )
    for axis, (m, n) in enumerate(zip(a.shape, b.shape, strict=True)):
        if m != n:
            raise OpError(
                E_SHAPE_001,
                f"{name}: shapes {list_of(a.shape)} and {list_of(b.shape)} differ on axis {axis}, "
                f"{m} and {n}",
                operand=index,
            )


def merged_batch(*axes: int | None) -> int | None:
    """Where examples lie in a result, of where each operand would put them; MIXED counts."""
    found: int | None = None
    for axis in axes:
        if axis is None or axis == found:
            continue
        if found is not None:
            return None
        found = axis
    return None if found == MIXED else found


def same_dtype(name: str, types: Types, indices: tuple[int, ...]) -> None:
    """Refuse operands, of those named, whose dtype differs from the first one's."""
    first = types[indices[0]]
    for index in indices[1:]:
        if types[index].dtype != first.dtype:
            raise OpError(
                E_DTYPE_002, f"{name}: dtypes differ, {first} and {types[index]}", operand=index
            )


def check_axis(name: str, type: TensorType, axis: int, operand: int = 0) -> int:
    if axis >= type.rank:
        raise OpError(
            E_SHAPE_003,
            f"{name}: axis {axis} of a tensor of rank {type.rank}, {type}",
            operand=operand,
        )
    return axis


def check_axes(name: str, type: TensorType, axes: tuple[int, ...], operand: int = 0) -> None:
    """Refuse axes out of range or repeated, in any order."""
    for axis in axes:
        if not 0 <= axis < type.rank:
            raise OpError(
                E_SHAPE_003,
                f"{name}: axis {axis} of a tensor of rank {type.rank}, {type}",
                operand=operand,
            )
    if len(set(axes)) != len(axes):
        raise OpError(
            E_SHAPE_003, f"{name}: axes {list_of(axes)} name one axis twice", operand=operand
        )


def check_rank(name: str, type: TensorType, rank: int, what: str, operand: int = 0) -> None:
    if type.rank != rank:
        raise OpError(
            E_SHAPE_005, f"{name}: {what} is {type}, wanted a rank of {rank}", operand=operand
        )


def check_shape(name: str, shape: tuple[int, ...], batch: int | None = None) -> None:
    """Refuse a result's shape that no tensor has, and a batch axis that it does not have."""
    size = 1
    for extent in shape:
        if extent < 0:
            raise OpError(E_SHAPE_008, f"{name}: shape {list_of(shape)} has a negative extent")
        size *= extent or 1  # beside an extent of 0, too, the others must be ones that exist
        if size > MAX_SIZE:
            raise OpError(E_SHAPE_008, f"{name}: shape {list_of(shape)} has over 2^40 elements")
    if batch is not None and batch >= len(shape):
        raise OpError(E_SHAPE_003, f"{name}: batch axis {batch} of shape {list_of(shape)}")


def check_count(name: str, what: str, given: int, wanted: int) -> None:
    """Refuse an attribute that does not have one entry for each axis."""
    if given != wanted:
        raise OpError(E_OP_001, f"{name}: {what} has {given} entries, wanted {wanted}")
