"""Makes the records of ops that work element by element, of one operand and of two.

Operands have one shape and dtype. Knows no backend.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.diagnostics.codes.tensor import E_DTYPE_001, E_DTYPE_002, E_SHAPE_001
from sexpgpu.ir.graph import Attrs, Builder, Node, Value
from sexpgpu.ir.types import ANY, FLOATS, NUMBERS, TensorType
from sexpgpu.ops.cost import per_element
from sexpgpu.ops.rules import same_type
from sexpgpu.ops.samples import bf16, boolean, elementwise, f32, i32, u8
from sexpgpu.ops.schema import (
    Cotangents,
    InferRule,
    NoGrad,
    OpDef,
    Precision,
    Reject,
    Sample,
    Types,
    VjpRule,
    define,
)

DISCRETE = NoGrad("the result carries no gradient")

# x, y, dy -> dx
Derivative = Callable[[Builder, Value, Value, Value], Value]
# b, node, dy -> cotangents
Partial = Callable[[Builder, Node, Value], Cotangents]


def of_first(types: Types, attrs: Attrs) -> TensorType:
    """The type of the first operand."""
    return types[0]


def _same(name: str) -> InferRule:
    return lambda types, attrs: same_type(name, types)


def _compared(name: str) -> InferRule:
    def infer(types: Types, attrs: Attrs) -> TensorType:
        shape, _, batch = same_type(name, types)
        return TensorType(shape, "bool", batch)

    return infer


def _pointwise(derivative: Derivative) -> VjpRule:
    def vjp(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
        (dy,) = cotangents
        assert dy is not None
        return (derivative(b, node.operands[0], node.results[0], dy),)

    return vjp


def unary(
    name: str,
    doc: str,
    vjp: Derivative | NoGrad,
    *,
    dtypes: frozenset[str] = FLOATS,
    precision: Precision = "follow",
    result: InferRule = of_first,
    low: float = -2.0,
    high: float = 2.0,
    operations: int = 1,
) -> OpDef:
    """Declare an op of one operand. Samples lie from `low` to `high`; `operations` is how many
    arithmetic ones an element costs."""
    wrong = boolean(2) if "bool" not in dtypes else f32(2)
    return define(
        OpDef(
            name=name,
            doc=doc,
            operands=(dtypes,),
            attrs={},
            infer=result,
            vjp=vjp if isinstance(vjp, NoGrad) else _pointwise(vjp),
            precision=precision,
            cost=per_element(operations),
            samples=(
                *(elementwise(1, low=low, high=high) if "f32" in dtypes else ()),
                *((Sample(bf16(2, 3), low=low, high=high, grad=False),) if "f32" in dtypes else ()),
                *((Sample(i32(2, 3), low=-5, high=6, grad=False),) if "i32" in dtypes else ()),
                *((Sample(u8(4), low=0, high=9, grad=False),) if "u8" in dtypes else ()),
                *((Sample(boolean(4), grad=False),) if "bool" in dtypes else ()),
            ),
            rejects=(Reject(E_DTYPE_001, wrong),),
        )
    )


def predicate(name: str, doc: str) -> OpDef:
    """Declare an op of one operand that gives a bool."""
    return unary(name, doc, DISCRETE, result=_compared(name))


def binary(
    name: str,
    doc: str,
    vjp: Partial | NoGrad,
    *,
    dtypes: frozenset[str] = NUMBERS,
    result: InferRule | None = None,
    low: float = -2.0,
    high: float = 2.0,
    integers: tuple[float, float] = (-5, 6),
    operations: int = 1,
) -> OpDef:
    """Declare an op of two operands. Samples lie from `low` to `high`, those of integers within
    `integers`; `operations` is how many arithmetic ones an element costs."""
    how: dict[str, Any] = {"low": low, "high": high}

    def rule(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
        (dy,) = cotangents
        assert dy is not None
        assert not isinstance(vjp, NoGrad)
        return vjp(b, node, dy)

    one = "f32" if "f32" in dtypes else "i32"
    other = "i32" if one == "f32" and "i32" in dtypes else "f64" if one == "f32" else "u8"
    wrong = boolean(2) if "bool" not in dtypes else f32(2)
    allowed = (Reject(E_DTYPE_001, wrong, wrong),) if dtypes != ANY else ()
    low_int, high_int = integers
    return define(
        OpDef(
            name=name,
            doc=doc,
            operands=(dtypes, dtypes),
            attrs={},
            infer=result or _same(name),
            vjp=vjp if isinstance(vjp, NoGrad) else rule,
            precision="follow",
            cost=per_element(operations),
            samples=(
                *(elementwise(2, **how) if "f32" in dtypes else ()),
                *((Sample(bf16(2, 3), bf16(2, 3), grad=False, **how),) if "f32" in dtypes else ()),
                *(
                    (Sample(i32(2, 3), i32(2, 3), low=low_int, high=high_int, grad=False),)
                    if "i32" in dtypes
                    else ()
                ),
                *(
                    (Sample(u8(4), u8(4), low=max(low_int, 0), high=high_int, grad=False),)
                    if "u8" in dtypes
                    else ()
                ),
                *((Sample(boolean(8), boolean(8), grad=False),) if "bool" in dtypes else ()),
            ),
            rejects=(
                Reject(E_SHAPE_001, TensorType((2, 3), one), TensorType((2, 4), one)),
                Reject(E_SHAPE_001, TensorType((3,), one), TensorType((2, 3), one)),
                Reject(E_DTYPE_002, TensorType((2,), one), TensorType((2,), other)),
                *allowed,
            ),
        )
    )


def comparison(name: str, doc: str, dtypes: frozenset[str] = NUMBERS) -> OpDef:
    """Declare an op of two operands that gives a bool."""
    return binary(name, doc, DISCRETE, dtypes=dtypes, result=_compared(name))
