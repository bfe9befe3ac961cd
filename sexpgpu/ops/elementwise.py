"""Element-by-element ops. Operands have one shape and dtype: broadcasting and promotion are nodes
of their own, made by tracing. Knows no backend."""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt

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
from sexpgpu.ops.pointwise import (
    DISCRETE,
    Derivative,
    Partial,
    binary,
    comparison,
    of_first,
    predicate,
    unary,
)
from sexpgpu.ops.rules import merged_batch, refuse_shapes, same_type
from sexpgpu.ops.samples import bf16, boolean, f32, i32, u8, u32
from sexpgpu.ops.schema import (
    Cotangents,
    NoGrad,
    OpDef,
    OpError,
    Reject,
    Sample,
    Types,
    define,
)

PIECEWISE = NoGrad("piecewise constant: the derivative is zero where there is one")

# -- one operand --------------------------------------------------------------------------------


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


NEG = unary("neg", "-x.", lambda b, x, y, dy: b.emit("neg", dy), dtypes=NUMBERS)
EXP = unary("exp", "e to the x.", lambda b, x, y, dy: b.emit("mul", dy, y), precision="f32")
EXPM1 = unary(
    "expm1",
    "e to the x, less 1, precise near 0.",
    lambda b, x, y, dy: b.emit("mul", dy, shifted(b, y, 1.0)),
    precision="f32",
)
LOG = unary(
    "log",
    "Natural logarithm; NaN below 0.",
    lambda b, x, y, dy: b.emit("div", dy, x),
    precision="f32",
    low=0.1,
)
LOG1P = unary(
    "log1p",
    "Natural logarithm of 1 + x, precise near 0.",
    lambda b, x, y, dy: b.emit("div", dy, shifted(b, x, 1.0)),
    precision="f32",
    low=-0.9,
)
SQRT = unary(
    "sqrt",
    "Square root; NaN below 0. The derivative at 0 is infinite.",
    lambda b, x, y, dy: b.emit("div", scaled(b, dy, 0.5), y),
    low=0.1,
)
RSQRT = unary("rsqrt", "1 / sqrt(x).", _d_rsqrt, low=0.1, operations=2)
CBRT = unary("cbrt", "Real cube root.", _d_cbrt, low=0.1)
ABS = unary(
    "abs",
    "Absolute value; the derivative at 0 is 0.",
    lambda b, x, y, dy: b.emit("mul", dy, b.emit("sign", x)),
    dtypes=NUMBERS,
)
SIGN = unary("sign", "-1, 0 or 1 with the sign of x; NaN of NaN.", PIECEWISE, dtypes=NUMBERS)
FLOOR = unary("floor", "The greatest integer not above x.", PIECEWISE)
CEIL = unary("ceil", "The least integer not below x.", PIECEWISE)
ROUND = unary("round", "The nearest integer, halves to the even one.", PIECEWISE)
TRUNC = unary("trunc", "The integer part, towards 0.", PIECEWISE)
SIN = unary("sin", "Sine.", lambda b, x, y, dy: b.emit("mul", dy, b.emit("cos", x)))
COS = unary(
    "cos", "Cosine.", lambda b, x, y, dy: b.emit("neg", b.emit("mul", dy, b.emit("sin", x)))
)
TAN = unary("tan", "Tangent.", _d_tan, low=-1.2, high=1.2)
ASIN = unary("asin", "Arc sine.", _d_asin, low=-0.9, high=0.9)
ACOS = unary(
    "acos",
    "Arc cosine.",
    lambda b, x, y, dy: b.emit("neg", _d_asin(b, x, y, dy)),
    low=-0.9,
    high=0.9,
)
ATAN = unary("atan", "Arc tangent.", _reciprocal_of(_one_plus_square))
SINH = unary("sinh", "Hyperbolic sine.", lambda b, x, y, dy: b.emit("mul", dy, b.emit("cosh", x)))
COSH = unary("cosh", "Hyperbolic cosine.", lambda b, x, y, dy: b.emit("mul", dy, b.emit("sinh", x)))
TANH = unary(
    "tanh",
    "Hyperbolic tangent.",
    lambda b, x, y, dy: b.emit("mul", dy, _one_minus_square(b, y)),
)
ASINH = unary(
    "asinh",
    "Inverse hyperbolic sine.",
    lambda b, x, y, dy: b.emit("mul", dy, b.emit("rsqrt", _one_plus_square(b, x))),
)
ACOSH = unary("acosh", "Inverse hyperbolic cosine.", _d_acosh, low=1.2, high=3.0)
ATANH = unary("atanh", "Inverse hyperbolic tangent.", _d_atanh, low=-0.9, high=0.9)
SIGMOID = unary("sigmoid", "1 / (1 + exp(-x)).", _d_sigmoid, operations=3)
ERF = unary("erf", "Error function.", _d_erf)
ERFC = unary(
    "erfc",
    "1 less the error function, precise where that is near 1.",
    lambda b, x, y, dy: b.emit("neg", _d_erf(b, x, y, dy)),
)
ERF_INV = unary(
    "erf-inv",
    "Inverse error function (Giles' polynomial for f32, the one that random-normal draws by).",
    _d_erf_inv,
    precision="f32",
    low=-0.9,
    high=0.9,
    operations=20,
)
LGAMMA = unary(
    "lgamma",
    "Logarithm of the absolute value of the gamma function.",
    lambda b, x, y, dy: b.emit("mul", dy, b.emit("digamma", x)),
    precision="f32",
    low=0.5,
    high=4.0,
    operations=20,
)
DIGAMMA = unary(
    "digamma",
    "Derivative of lgamma.",
    NoGrad("polygamma is not among the ops", refuses=True),
    precision="f32",
    low=0.5,
    high=4.0,
    operations=20,
)
RELU = unary("relu", "max(x, 0); the derivative at 0 is 0.", _d_relu, dtypes=NUMBERS)
SOFTPLUS = unary(
    "softplus",
    "log(1 + exp(x)), without overflow.",
    lambda b, x, y, dy: b.emit("mul", dy, b.emit("sigmoid", x)),
    operations=4,
)
IS_FINITE = predicate("is-finite", "Whether x is neither infinite nor NaN.")
IS_NAN = predicate("is-nan", "Whether x is NaN.")
IS_INF = predicate("is-inf", "Whether x is infinite.")
_BITS = INTEGERS | BOOL
NOT = unary("not", "Logical not of a bool, bitwise of an integer.", DISCRETE, dtypes=_BITS)


# -- two operands -------------------------------------------------------------------------------


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


ADD = binary("add", "x + y.", lambda b, node, dy: (dy, dy))
SUB = binary("sub", "x - y.", lambda b, node, dy: (dy, b.emit("neg", dy)))
MUL = binary("mul", "x * y.", _d_mul)
DIV = binary("div", "x / y.", _d_div, dtypes=FLOATS, low=0.5)
POW = binary(
    "pow",
    "x to the y; at x = 0 the derivative of the exponent is 0.",
    _d_pow,
    dtypes=FLOATS,
    low=0.2,
    operations=10,
)
REM = binary(
    "rem", "x - y * trunc(x / y): the sign of x. An integer y of 0 gives x.", _d_remainder,
    low=0.5, integers=(1, 9), operations=4,
)  # fmt: skip
MOD = binary(
    "mod", "x - y * floor(x / y): the sign of y. An integer y of 0 gives x.", _d_remainder,
    low=0.5, integers=(1, 9), operations=4,
)  # fmt: skip
ATAN2 = binary(
    "atan2", "The angle of the point (y, x), in (-pi, pi].", _d_atan2,
    dtypes=FLOATS, low=0.2, operations=10,
)  # fmt: skip
MAX = binary("max", "The greater; NaN if either is. Ties share the cotangent.", _d_extreme("gt"))
MIN = binary("min", "The lesser; NaN if either is. Ties share the cotangent.", _d_extreme("lt"))
AND = binary("and", "Logical and of bools, bitwise of integers.", DISCRETE, dtypes=_BITS)
OR = binary("or", "Logical or of bools, bitwise of integers.", DISCRETE, dtypes=_BITS)
XOR = binary("xor", "Exclusive or of bools, bitwise of integers.", DISCRETE, dtypes=_BITS)
SHIFT_LEFT = binary(
    "shift-left", "x shifted left by y bits; 0 when y is not within the width.", DISCRETE,
    dtypes=INTEGERS, integers=(0, 8),
)  # fmt: skip
SHIFT_RIGHT = binary(
    "shift-right",
    "x shifted right by y bits, keeping the sign of a signed x; other y shift all out.",
    DISCRETE,
    dtypes=INTEGERS,
    integers=(0, 8),
)


EQ = comparison("eq", "x = y; false when either is NaN.", ANY)
NE = comparison("ne", "x /= y; true when either is NaN.", ANY)
LT = comparison("lt", "x < y; false when either is NaN.")
LE = comparison("le", "x <= y; false when either is NaN.")
GT = comparison("gt", "x > y; false when either is NaN.")
GE = comparison("ge", "x >= y; false when either is NaN.")


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
        infer=of_first,
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
        infer=of_first,
        vjp=_vjp_boundary,
        precision="follow",
        cost=movement,
        samples=(Sample(f32(2, 3), key="body/1"), Sample(i32(3), key="body/2", grad=False)),
        rejects=(Reject(E_DTYPE_001, TensorType((2,), "f128"), key="k"),),
    )
)
