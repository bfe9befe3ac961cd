"""Element-by-element ops. Operands have one shape and dtype: broadcasting and promotion are nodes
of their own, made by tracing. Knows no backend."""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt
from typing import Any

from sexpgpu.diagnostics.codes.tensor import (
    E_DTYPE_001,
    E_DTYPE_002,
    E_OP_001,
    E_OP_003,
    E_SHAPE_001,
)
from sexpgpu.ir.graph import Attrs, Builder, Node, Value
from sexpgpu.ir.types import ANY, BOOL, FLOATS, INTEGERS, ITEMSIZE, NUMBERS, TensorType
from sexpgpu.ops.building import full_like, scaled, shifted, zeros_like
from sexpgpu.ops.cost import movement, per_element
from sexpgpu.ops.rules import merged_batch, refuse_shapes, same_type
from sexpgpu.ops.samples import bf16, boolean, elementwise, f32, i32, u8, u32
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

PIECEWISE = NoGrad("piecewise constant: the derivative is zero where there is one")
DISCRETE = NoGrad("the result carries no gradient")


def _first(types: Types, attrs: Attrs) -> TensorType:
    return types[0]


def _same(name: str) -> InferRule:
    return lambda types, attrs: same_type(name, types)


def _compared(name: str) -> InferRule:
    def infer(types: Types, attrs: Attrs) -> TensorType:
        shape, _, batch = same_type(name, types)
        return TensorType(shape, "bool", batch)

    return infer


# -- one operand --------------------------------------------------------------------------------

# x, y, dy -> dx
Derivative = Callable[[Builder, Value, Value, Value], Value]


def _pointwise(derivative: Derivative) -> VjpRule:
    def vjp(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
        (dy,) = cotangents
        assert dy is not None
        return (derivative(b, node.operands[0], node.results[0], dy),)

    return vjp


def _unary(
    name: str,
    doc: str,
    vjp: Derivative | NoGrad,
    *,
    dtypes: frozenset[str] = FLOATS,
    precision: Precision = "follow",
    result: InferRule = _first,
    low: float = -2.0,
    high: float = 2.0,
    operations: int = 1,
    more: tuple[Sample, ...] = (),
) -> OpDef:
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
                *more,
            ),
            rejects=(Reject(E_DTYPE_001, wrong),),
        )
    )


def _is(name: str, doc: str) -> OpDef:
    return _unary(name, doc, DISCRETE, result=_compared(name))


def _reciprocal_of(denominator: Callable[[Builder, Value], Value]) -> Derivative:
    return lambda b, x, y, dy: b.emit("div", dy, denominator(b, x))


def _one_plus_square(b: Builder, x: Value) -> Value:
    return shifted(b, b.emit("mul", x, x), 1.0)


def _one_minus_square(b: Builder, x: Value) -> Value:
    return b.emit("sub", full_like(b, 1.0, x), b.emit("mul", x, x))


def _d_rsqrt(b: Builder, x: Value, y: Value, dy: Value) -> Value:
    cube = b.emit("mul", y, b.emit("mul", y, y))
    return b.emit("mul", scaled(b, dy, -0.5), cube)


def _d_cbrt(b: Builder, x: Value, y: Value, dy: Value) -> Value:
    return b.emit("div", scaled(b, dy, 1.0 / 3.0), b.emit("mul", y, y))


def _d_tan(b: Builder, x: Value, y: Value, dy: Value) -> Value:
    return b.emit("mul", dy, _one_plus_square(b, y))


def _d_asin(b: Builder, x: Value, y: Value, dy: Value) -> Value:
    return b.emit("mul", dy, b.emit("rsqrt", _one_minus_square(b, x)))


def _d_acosh(b: Builder, x: Value, y: Value, dy: Value) -> Value:
    product = b.emit("mul", shifted(b, x, -1.0), shifted(b, x, 1.0))
    return b.emit("mul", dy, b.emit("rsqrt", product))


def _d_atanh(b: Builder, x: Value, y: Value, dy: Value) -> Value:
    one = full_like(b, 1.0, x)
    product = b.emit("mul", b.emit("sub", one, x), b.emit("add", one, x))
    return b.emit("div", dy, product)


def _d_sigmoid(b: Builder, x: Value, y: Value, dy: Value) -> Value:
    slope = b.emit("mul", y, b.emit("sub", full_like(b, 1.0, y), y))
    return b.emit("mul", dy, slope)


def _d_erf(b: Builder, x: Value, y: Value, dy: Value) -> Value:
    bell = b.emit("exp", b.emit("neg", b.emit("mul", x, x)))
    return b.emit("mul", scaled(b, dy, 2.0 / sqrt(pi)), bell)


def _d_erf_inv(b: Builder, x: Value, y: Value, dy: Value) -> Value:
    return b.emit("mul", scaled(b, dy, sqrt(pi) / 2.0), b.emit("exp", b.emit("mul", y, y)))


def _d_relu(b: Builder, x: Value, y: Value, dy: Value) -> Value:
    return b.emit("select", b.emit("gt", x, zeros_like(b, x)), dy, zeros_like(b, dy))


NEG = _unary("neg", "-x.", lambda b, x, y, dy: b.emit("neg", dy), dtypes=NUMBERS)
EXP = _unary("exp", "e to the x.", lambda b, x, y, dy: b.emit("mul", dy, y), precision="f32")
EXPM1 = _unary(
    "expm1",
    "e to the x, less 1, precise near 0.",
    lambda b, x, y, dy: b.emit("mul", dy, shifted(b, y, 1.0)),
    precision="f32",
)
LOG = _unary(
    "log",
    "Natural logarithm; NaN below 0.",
    lambda b, x, y, dy: b.emit("div", dy, x),
    precision="f32",
    low=0.1,
)
LOG1P = _unary(
    "log1p",
    "Natural logarithm of 1 + x, precise near 0.",
    lambda b, x, y, dy: b.emit("div", dy, shifted(b, x, 1.0)),
    precision="f32",
    low=-0.9,
)
SQRT = _unary(
    "sqrt",
    "Square root; NaN below 0. The derivative at 0 is infinite.",
    lambda b, x, y, dy: b.emit("div", scaled(b, dy, 0.5), y),
    low=0.1,
)
RSQRT = _unary("rsqrt", "1 / sqrt(x).", _d_rsqrt, low=0.1, operations=2)
CBRT = _unary("cbrt", "Real cube root.", _d_cbrt, low=0.1)
ABS = _unary(
    "abs",
    "Absolute value; the derivative at 0 is 0.",
    lambda b, x, y, dy: b.emit("mul", dy, b.emit("sign", x)),
    dtypes=NUMBERS,
)
SIGN = _unary("sign", "-1, 0 or 1 with the sign of x; NaN of NaN.", PIECEWISE, dtypes=NUMBERS)
FLOOR = _unary("floor", "The greatest integer not above x.", PIECEWISE)
CEIL = _unary("ceil", "The least integer not below x.", PIECEWISE)
ROUND = _unary("round", "The nearest integer, halves to the even one.", PIECEWISE)
TRUNC = _unary("trunc", "The integer part, towards 0.", PIECEWISE)
SIN = _unary("sin", "Sine.", lambda b, x, y, dy: b.emit("mul", dy, b.emit("cos", x)))
COS = _unary(
    "cos", "Cosine.", lambda b, x, y, dy: b.emit("neg", b.emit("mul", dy, b.emit("sin", x)))
)
TAN = _unary("tan", "Tangent.", _d_tan, low=-1.2, high=1.2)
ASIN = _unary("asin", "Arc sine.", _d_asin, low=-0.9, high=0.9)
ACOS = _unary(
    "acos",
    "Arc cosine.",
    lambda b, x, y, dy: b.emit("neg", _d_asin(b, x, y, dy)),
    low=-0.9,
    high=0.9,
)
ATAN = _unary("atan", "Arc tangent.", _reciprocal_of(_one_plus_square))
SINH = _unary("sinh", "Hyperbolic sine.", lambda b, x, y, dy: b.emit("mul", dy, b.emit("cosh", x)))
COSH = _unary(
    "cosh", "Hyperbolic cosine.", lambda b, x, y, dy: b.emit("mul", dy, b.emit("sinh", x))
)
TANH = _unary(
    "tanh",
    "Hyperbolic tangent.",
    lambda b, x, y, dy: b.emit("mul", dy, _one_minus_square(b, y)),
)
ASINH = _unary(
    "asinh",
    "Inverse hyperbolic sine.",
    lambda b, x, y, dy: b.emit("mul", dy, b.emit("rsqrt", _one_plus_square(b, x))),
)
ACOSH = _unary("acosh", "Inverse hyperbolic cosine.", _d_acosh, low=1.2, high=3.0)
ATANH = _unary("atanh", "Inverse hyperbolic tangent.", _d_atanh, low=-0.9, high=0.9)
SIGMOID = _unary("sigmoid", "1 / (1 + exp(-x)).", _d_sigmoid, operations=3)
ERF = _unary("erf", "Error function.", _d_erf)
ERFC = _unary(
    "erfc",
    "1 less the error function, precise where that is near 1.",
    lambda b, x, y, dy: b.emit("neg", _d_erf(b, x, y, dy)),
)
ERF_INV = _unary(
    "erf-inv",
    "Inverse error function (Giles' polynomial for f32, the one that random-normal draws by).",
    _d_erf_inv,
    precision="f32",
    low=-0.9,
    high=0.9,
    operations=20,
)
LGAMMA = _unary(
    "lgamma",
    "Logarithm of the absolute value of the gamma function.",
    lambda b, x, y, dy: b.emit("mul", dy, b.emit("digamma", x)),
    precision="f32",
    low=0.5,
    high=4.0,
    operations=20,
)
DIGAMMA = _unary(
    "digamma",
    "Derivative of lgamma.",
    NoGrad("polygamma is not among the ops", refuses=True),
    precision="f32",
    low=0.5,
    high=4.0,
    operations=20,
)
RELU = _unary("relu", "max(x, 0); the derivative at 0 is 0.", _d_relu, dtypes=NUMBERS)
SOFTPLUS = _unary(
    "softplus",
    "log(1 + exp(x)), without overflow.",
    lambda b, x, y, dy: b.emit("mul", dy, b.emit("sigmoid", x)),
    operations=4,
)
IS_FINITE = _is("is-finite", "Whether x is neither infinite nor NaN.")
IS_NAN = _is("is-nan", "Whether x is NaN.")
IS_INF = _is("is-inf", "Whether x is infinite.")
_BITS = INTEGERS | BOOL
NOT = _unary("not", "Logical not of a bool, bitwise of an integer.", DISCRETE, dtypes=_BITS)


# -- two operands -------------------------------------------------------------------------------

# b, node, dy -> cotangents
Partial = Callable[[Builder, Node, Value], Cotangents]


def _binary(
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


def _d_mul(b: Builder, node: Node, dy: Value) -> Cotangents:
    x, y = node.operands
    return b.emit("mul", dy, y), b.emit("mul", dy, x)


def _d_div(b: Builder, node: Node, dy: Value) -> Cotangents:
    dx = b.emit("div", dy, node.operands[1])
    return dx, b.emit("neg", b.emit("mul", dx, node.result))


def _d_pow(b: Builder, node: Node, dy: Value) -> Cotangents:
    x, y = node.operands
    zero, one = zeros_like(b, x), full_like(b, 1.0, x)
    # x^0 is 1 for every x: no NaN from 0 * 0^-1. At x = 0 the exponent's derivative is 0.
    still = b.emit("eq", y, zero)
    exponent = b.emit("sub", b.emit("select", still, one, y), one)
    slope = b.emit("mul", y, b.emit("pow", x, exponent))
    dx = b.emit("mul", dy, b.emit("select", still, zero, slope))
    base = b.emit("select", b.emit("eq", x, zero), one, x)
    return dx, b.emit("mul", dy, b.emit("mul", b.emit("log", base), node.result))


def _d_remainder(b: Builder, node: Node, dy: Value) -> Cotangents:
    x, y = node.operands
    # x - r is a whole multiple of y up to rounding: its count is exact once rounded.
    count = b.emit("round", b.emit("div", b.emit("sub", x, node.result), y))
    return dy, b.emit("neg", b.emit("mul", dy, count))


def _d_atan2(b: Builder, node: Node, dy: Value) -> Cotangents:
    y, x = node.operands
    scale = b.emit("div", dy, b.emit("add", b.emit("mul", y, y), b.emit("mul", x, x)))
    return b.emit("mul", scale, x), b.emit("neg", b.emit("mul", scale, y))


def _d_extreme(comparison: str) -> Partial:
    def vjp(b: Builder, node: Node, dy: Value) -> Cotangents:
        x, y = node.operands
        zero, half = zeros_like(b, dy), scaled(b, dy, 0.5)
        tied = b.emit("select", b.emit("eq", x, y), half, zero)
        return (
            b.emit("select", b.emit(comparison, x, y), dy, tied),
            b.emit("select", b.emit(comparison, y, x), dy, tied),
        )

    return vjp


ADD = _binary("add", "x + y.", lambda b, node, dy: (dy, dy))
SUB = _binary("sub", "x - y.", lambda b, node, dy: (dy, b.emit("neg", dy)))
MUL = _binary("mul", "x * y.", _d_mul)
DIV = _binary("div", "x / y.", _d_div, dtypes=FLOATS, low=0.5)
POW = _binary(
    "pow",
    "x to the y; at x = 0 the derivative of the exponent is 0.",
    _d_pow,
    dtypes=FLOATS,
    low=0.2,
    operations=10,
)
REM = _binary(
    "rem", "x - y * trunc(x / y): the sign of x. An integer y of 0 gives x.", _d_remainder,
    low=0.5, integers=(1, 9), operations=4,
)  # fmt: skip
MOD = _binary(
    "mod", "x - y * floor(x / y): the sign of y. An integer y of 0 gives x.", _d_remainder,
    low=0.5, integers=(1, 9), operations=4,
)  # fmt: skip
ATAN2 = _binary(
    "atan2", "The angle of the point (y, x), in (-pi, pi].", _d_atan2,
    dtypes=FLOATS, low=0.2, operations=10,
)  # fmt: skip
MAX = _binary("max", "The greater; NaN if either is. Ties share the cotangent.", _d_extreme("gt"))
MIN = _binary("min", "The lesser; NaN if either is. Ties share the cotangent.", _d_extreme("lt"))
AND = _binary("and", "Logical and of bools, bitwise of integers.", DISCRETE, dtypes=_BITS)
OR = _binary("or", "Logical or of bools, bitwise of integers.", DISCRETE, dtypes=_BITS)
XOR = _binary("xor", "Exclusive or of bools, bitwise of integers.", DISCRETE, dtypes=_BITS)
SHIFT_LEFT = _binary(
    "shift-left", "x shifted left by y bits; 0 when y is not within the width.", DISCRETE,
    dtypes=INTEGERS, integers=(0, 8),
)  # fmt: skip
SHIFT_RIGHT = _binary(
    "shift-right",
    "x shifted right by y bits, keeping the sign of a signed x; other y shift all out.",
    DISCRETE,
    dtypes=INTEGERS,
    integers=(0, 8),
)


def _comparison(name: str, doc: str, dtypes: frozenset[str] = NUMBERS) -> OpDef:
    return _binary(name, doc, DISCRETE, dtypes=dtypes, result=_compared(name))


EQ = _comparison("eq", "x = y; false when either is NaN.", ANY)
NE = _comparison("ne", "x /= y; true when either is NaN.", ANY)
LT = _comparison("lt", "x < y; false when either is NaN.")
LE = _comparison("le", "x <= y; false when either is NaN.")
GT = _comparison("gt", "x > y; false when either is NaN.")
GE = _comparison("ge", "x >= y; false when either is NaN.")


# -- choosing, casting, marking -----------------------------------------------------------------


def _infer_select(types: Types, attrs: Attrs) -> TensorType:
    test, a, b = types
    chosen = same_type("select", (a, b))
    if test.shape != chosen.shape:
        refuse_shapes("select", test, chosen, 0)
    return TensorType(chosen.shape, chosen.dtype, merged_batch(test.batch, chosen.batch))


def _vjp_select(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    test, zero = node.operands[0], zeros_like(b, dy)
    return None, b.emit("select", test, dy, zero), b.emit("select", test, zero, dy)


SELECT = define(
    OpDef(
        name="select",
        doc="a where the test holds, else b; the branch not taken gets no cotangent, not even NaN.",
        operands=(BOOL, ANY, ANY),
        attrs={},
        infer=_infer_select,
        vjp=_vjp_select,
        precision="follow",
        cost=per_element(1),
        samples=(
            Sample(boolean(), f32(), f32()),
            Sample(boolean(2, 3), f32(2, 3), f32(2, 3)),
            Sample(boolean(4), i32(4), i32(4), grad=False),
            Sample(boolean(4), boolean(4), boolean(4), grad=False),
            Sample(boolean(4), bf16(4), bf16(4), grad=False),
        ),
        rejects=(
            Reject(E_DTYPE_001, i32(2), f32(2), f32(2)),
            Reject(E_SHAPE_001, boolean(2), f32(3), f32(3)),
            Reject(E_SHAPE_001, boolean(2), f32(2), f32(3)),
            Reject(E_DTYPE_002, boolean(2), f32(2), i32(2)),
        ),
    )
)


def _vjp_cast(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    x = node.operands[0]
    if dy is None or x.dtype not in FLOATS:
        return (None,)
    return (dy if dy.dtype == x.dtype else b.emit("cast", dy, dtype=x.dtype),)


CAST = define(
    OpDef(
        name="cast",
        doc="x in another dtype. To integers: towards 0, out of range to the nearest that fits, "
        "NaN to 0. To bool: x /= 0. Between floats: to nearest, ties to even.",
        operands=(ANY,),
        attrs={"dtype": "dtype"},
        infer=lambda types, attrs: TensorType(types[0].shape, attrs["dtype"], types[0].batch),
        vjp=_vjp_cast,
        precision="fixed",
        cost=movement,
        samples=(
            Sample(f32(2, 3), dtype="bf16", grad=False),
            Sample(f32(2, 3), dtype="f64"),
            Sample(f32(2, 3), dtype="f32"),
            Sample(f32(6), dtype="i32", low=-9, high=9, grad=False),
            Sample(f32(6), dtype="u8", low=0, high=9, grad=False),
            Sample(i32(2, 3), dtype="f32", low=-9, high=9, grad=False),
            Sample(i32(6), dtype="bool", low=-1, high=2, grad=False),
            Sample(boolean(6), dtype="f32", grad=False),
            Sample(bf16(6), dtype="f32", grad=False),
        ),
        rejects=(Reject(E_OP_001, f32(2), dtype="f8"), Reject(E_OP_003, f32(2))),
    )
)


def _infer_bitcast(types: Types, attrs: Attrs) -> TensorType:
    x, dtype = types[0], attrs["dtype"]
    if ITEMSIZE[dtype] != ITEMSIZE[x.dtype] or (dtype == "bool") != (x.dtype == "bool"):
        raise OpError(
            E_DTYPE_002, f"bitcast: {x} to {dtype}, wanted a dtype of {ITEMSIZE[x.dtype]} bytes"
        )
    return TensorType(x.shape, dtype, x.batch)


BITCAST = define(
    OpDef(
        name="bitcast",
        doc="The same bits as another dtype of the same size.",
        operands=(NUMBERS,),
        attrs={"dtype": "dtype"},
        infer=_infer_bitcast,
        vjp=NoGrad("the bits of a number have no derivative"),
        precision="fixed",
        cost=movement,
        samples=(
            Sample(f32(2, 3), dtype="u32", grad=False),
            Sample(u32(4), dtype="f32", low=0, high=1 << 30, grad=False),
            Sample(i32(4), dtype="u32", low=-9, high=9, grad=False),
        ),
        rejects=(
            Reject(E_DTYPE_002, f32(2), dtype="f64"),
            Reject(E_DTYPE_002, u8(2), dtype="bool"),
        ),
    )
)
STOP_GRADIENT = define(
    OpDef(
        name="stop-gradient",
        doc="x, as a constant to the gradient.",
        operands=(ANY,),
        attrs={},
        infer=_first,
        vjp=NoGrad("that is what it is for"),
        precision="follow",
        cost=movement,
        samples=(Sample(f32(2, 3), grad=False), Sample(i32(3), grad=False)),
        rejects=(Reject(E_DTYPE_001, TensorType((2,), "f128")),),
    )
)


def _vjp_boundary(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    return (b.emit("boundary", dy, key=node.attrs["key"] + "'"),)


BOUNDARY = define(
    OpDef(
        name="boundary",
        doc="x, marking the edge between repeated blocks.",
        operands=(ANY,),
        attrs={"key": "str"},
        infer=_first,
        vjp=_vjp_boundary,
        precision="follow",
        cost=movement,
        samples=(Sample(f32(2, 3), key="body/1"), Sample(i32(3), key="body/2", grad=False)),
        rejects=(Reject(E_DTYPE_001, TensorType((2,), "f128"), key="k"),),
    )
)
