"""Ops that make tensors of attributes alone. Knows no backend."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sexpgpu.diagnostics.codes.tensor import (
    E_DTYPE_001,
    E_DTYPE_003,
    E_OP_001,
    E_SHAPE_003,
    E_SHAPE_008,
)
from sexpgpu.ir.graph import Attrs
from sexpgpu.ir.types import FLOATS, TensorType, integer_range
from sexpgpu.ops.cost import movement, per_element
from sexpgpu.ops.rules import check_shape, list_of
from sexpgpu.ops.schema import NoGrad, OpDef, OpError, Reject, Sample, Types, define

NO_OPERANDS = NoGrad("there are no operands")


def check_numbers(name: str, numbers: Iterable[Any], dtype: str) -> None:
    """Refuse numbers that are not of the dtype's kind, or that it cannot hold. Floats round."""
    if dtype in FLOATS:
        for number in numbers:
            if type(number) is bool:
                raise OpError(E_OP_001, f"{name}: {number} for the dtype {dtype}, wanted a number")
        return
    if dtype == "bool":
        for number in numbers:
            if type(number) is not bool:
                raise OpError(E_OP_001, f"{name}: {number!r} for the dtype bool")
        return
    low, high = integer_range(dtype)
    for number in numbers:
        if type(number) is not int:
            raise OpError(E_OP_001, f"{name}: {number!r} for the dtype {dtype}, wanted an integer")
        if not low <= number <= high:
            raise OpError(E_DTYPE_003, f"{name}: {dtype} holds {low} to {high}, given {number}")


def _made(name: str, attrs: Attrs) -> TensorType:
    shape, batch = attrs["shape"], attrs.get("batch")
    check_shape(name, shape, batch)
    return TensorType(shape, attrs["dtype"], batch)


def _infer_full(types: Types, attrs: Attrs) -> TensorType:
    check_numbers("full", (attrs["value"],), attrs["dtype"])
    return _made("full", attrs)


def _infer_iota(types: Types, attrs: Attrs) -> TensorType:
    made = _made("iota", attrs)
    if made.dtype == "bool":
        raise OpError(E_DTYPE_001, "iota: bool does not count")
    axis: int = attrs["axis"]
    if axis >= made.rank:
        raise OpError(E_SHAPE_003, f"iota: axis {axis} of shape {list_of(made.shape)}")
    last = made.shape[axis] - 1
    if made.dtype not in FLOATS and last > integer_range(made.dtype)[1]:
        raise OpError(E_DTYPE_003, f"iota: {made.dtype} does not count to {last}")
    return made


def _infer_literal(types: Types, attrs: Attrs) -> TensorType:
    made = _made("literal", attrs)
    if len(attrs["values"]) != made.size:
        raise OpError(
            E_SHAPE_008,
            f"literal: {len(attrs['values'])} values for a shape {list_of(made.shape)}",
        )
    check_numbers("literal", attrs["values"], made.dtype)
    return made


FULL = define(
    OpDef(
        name="full",
        doc="A tensor of one number. A float rounds to the dtype.",
        operands=(),
        attrs={"shape": "ints", "value": "number", "dtype": "dtype", "batch": "axis?"},
        infer=_infer_full,
        vjp=NO_OPERANDS,
        precision="fixed",
        cost=movement,
        samples=(
            Sample(shape=(2, 3), value=1.5, dtype="f32", batch=0),
            Sample(shape=(), value=-0.0, dtype="f32", batch=None),
            Sample(shape=(3,), value=0.1, dtype="bf16", batch=None),
            Sample(shape=(2,), value=float("inf"), dtype="f32", batch=None),
            Sample(shape=(2,), value=7, dtype="f32", batch=None),
            Sample(shape=(2,), value=-7, dtype="i32", batch=None),
            Sample(shape=(2,), value=(1 << 64) - 1, dtype="u64", batch=None),
            Sample(shape=(0, 2), value=True, dtype="bool", batch=None),
        ),
        rejects=(
            Reject(E_SHAPE_008, shape=(2, -1), value=0.0, dtype="f32", batch=None),
            Reject(E_SHAPE_008, shape=(1 << 20, 1 << 21), value=0.0, dtype="f32", batch=None),
            Reject(E_SHAPE_003, shape=(2,), value=0.0, dtype="f32", batch=1),
            Reject(E_DTYPE_003, shape=(), value=256, dtype="u8", batch=None),
            Reject(E_OP_001, shape=(), value=0.5, dtype="i32", batch=None),
            Reject(E_OP_001, shape=(), value=1, dtype="bool", batch=None),
            Reject(E_OP_001, shape=(), value=True, dtype="f32", batch=None),
            Reject(E_OP_001, shape=(), value="1", dtype="f32", batch=None),
        ),
    )
)
IOTA = define(
    OpDef(
        name="iota",
        doc="Counts from 0 along an axis.",
        operands=(),
        attrs={"shape": "ints", "axis": "axis", "dtype": "dtype", "batch": "axis?"},
        infer=_infer_iota,
        vjp=NO_OPERANDS,
        precision="fixed",
        cost=per_element(1),
        samples=(
            Sample(shape=(4,), axis=0, dtype="i32", batch=None),
            Sample(shape=(2, 3), axis=1, dtype="f32", batch=0),
            Sample(shape=(3, 2), axis=0, dtype="u8", batch=None),
        ),
        rejects=(
            Reject(E_SHAPE_003, shape=(2,), axis=1, dtype="i32", batch=None),
            Reject(E_DTYPE_001, shape=(2,), axis=0, dtype="bool", batch=None),
            Reject(E_DTYPE_003, shape=(300,), axis=0, dtype="u8", batch=None),
        ),
    )
)


def _given(shape: tuple[int, ...], dtype: str, values: tuple[float, ...]) -> dict[str, Any]:
    return {"shape": shape, "dtype": dtype, "values": values}


LITERAL = define(
    OpDef(
        name="literal",
        doc="A tensor of given numbers, in row-major order.",
        operands=(),
        attrs={"shape": "ints", "dtype": "dtype", "values": "numbers"},
        infer=_infer_literal,
        vjp=NO_OPERANDS,
        precision="fixed",
        cost=movement,
        samples=(
            Sample(attrs=_given((2, 2), "f32", (1.5, -0.0, float("nan"), 2))),
            Sample(attrs=_given((3,), "i32", (1, -2, 3))),
            Sample(attrs=_given((2,), "bool", (True, False))),
            Sample(attrs=_given((0,), "f32", ())),
        ),
        rejects=(
            Reject(E_SHAPE_008, shape=(3,), dtype="f32", values=(1.0,)),
            Reject(E_DTYPE_003, shape=(1,), dtype="i8", values=(128,)),
            Reject(E_OP_001, shape=(1,), dtype="i8", values=(1.0,)),
            Reject(E_OP_001, shape=(1,), dtype="f32", values=[1.0]),
        ),
    )
)
