"""Reductions, running reductions and softmax.

`:axis` is an integer, a list, or nil for all (the default of reductions); `:keep t` keeps the
reduced axes as extent 1.
"""

from __future__ import annotations

import math
from typing import Any

from sexpgpu.ir.graph import Value
from sexpgpu.ir.types import BOOL, FLOATS, INTEGERS, ITEMSIZE
from sexpgpu.lisp.values import NIL, Symbol
from sexpgpu.trace.arguments import (
    axes_of,
    axis_of,
    bad,
    choice,
    integer,
    number,
    tensor,
)
from sexpgpu.trace.context import TRACES
from sexpgpu.trace.declare import tensor_function
from sexpgpu.trace.primitives import (
    Shape,
    broadcast,
    cast,
    keep_axes,
    move_axes,
    reshape,
    transpose,
)
from sexpgpu.trace.promote import FLOAT, LOGICAL, NUMBER, unify
from sexpgpu.trace.tensor import Tensor, wrap

# Sums of bools and of narrow integers are taken in i32: 8 and 16 bits overflow at once.
NARROW = frozenset(d for d in INTEGERS if ITEMSIZE[d] < 4) | BOOL


def _read(name: str, x: Any, allow: str) -> Value:
    tensor(name, "x", x)
    return unify(name, (x,), allow, ("x",))[0]


def _reduced(name: str, op: str, x: Value, axis: Any, keep: Any, original: Any) -> Tensor:
    trace = TRACES[-1]
    shape = x.type.shape
    axes = axes_of(name, axis, len(shape), [("x", original)])
    y = trace.emit(op, x, axes=axes)
    return wrap(y if keep is NIL else keep_axes(trace, y, shape, axes))


def _summable(name: str, x: Any) -> Value:
    value = tensor(name, "x", x).value
    return cast(TRACES[-1], value, "i32") if value.type.dtype in NARROW else value


@tensor_function("sum", "(x &key axis keep)")
def sum_(x: Any, axis: Any = None, keep: Any = NIL) -> Tensor:
    """The sum over the axes. dtype kept; bools and integers under 32 bits are summed in i32."""
    return _reduced("sum", "sum", _summable("sum", x), axis, keep, x)


@tensor_function("prod", "(x &key axis keep)")
def prod(x: Any, axis: Any = None, keep: Any = NIL) -> Tensor:
    """The product over the axes. dtype kept; bools and integers under 32 bits in i32."""
    return _reduced("prod", "prod", _summable("prod", x), axis, keep, x)


def _averaged(name: str, x: Any) -> Value:
    value = tensor(name, "x", x).value
    return value if value.type.dtype in FLOATS else cast(TRACES[-1], value, "f32")


@tensor_function("mean", "(x &key axis keep)")
def mean(x: Any, axis: Any = None, keep: Any = NIL) -> Tensor:
    """The mean over the axes. Float dtype kept; integers and bools give f32."""
    return _reduced("mean", "mean", _averaged("mean", x), axis, keep, x)


@tensor_function("amax", "(x &key axis keep)")
def amax(x: Any, axis: Any = None, keep: Any = NIL) -> Tensor:
    """The greatest over the axes (NaN if any is). Ties share the gradient equally."""
    return _reduced("amax", "max-reduce", _read("amax", x, NUMBER), axis, keep, x)


@tensor_function("amin", "(x &key axis keep)")
def amin(x: Any, axis: Any = None, keep: Any = NIL) -> Tensor:
    """The least over the axes (NaN if any is). Ties share the gradient equally."""
    return _reduced("amin", "min-reduce", _read("amin", x, NUMBER), axis, keep, x)


@tensor_function("any", "(x &key axis keep)")
def any_(x: Any, axis: Any = None, keep: Any = NIL) -> Tensor:
    """Whether any element of a bool tensor holds, over the axes."""
    return _reduced("any", "any", _read("any", x, LOGICAL), axis, keep, x)


@tensor_function("all", "(x &key axis keep)")
def all_(x: Any, axis: Any = None, keep: Any = NIL) -> Tensor:
    """Whether all elements of a bool tensor hold, over the axes."""
    return _reduced("all", "all", _read("all", x, LOGICAL), axis, keep, x)


@tensor_function("logsumexp", "(x &key axis keep)")
def logsumexp(x: Any, axis: Any = None, keep: Any = NIL) -> Tensor:
    """log Σ exp(x) over the axes, without overflow; float."""
    return _reduced("logsumexp", "logsumexp", _read("logsumexp", x, FLOAT), axis, keep, x)


@tensor_function("count-nonzero", "(x &key axis keep)")
def count_nonzero(x: Any, axis: Any = None, keep: Any = NIL) -> Tensor:
    """How many elements over the axes are not 0 (or hold, of a bool tensor): i32."""
    trace = TRACES[-1]
    value = tensor("count-nonzero", "x", x).value
    shape, dtype = value.type.shape, value.type.dtype
    if dtype not in BOOL:
        value = trace.emit("ne", value, trace.full(0, shape, dtype))
    return _reduced("count-nonzero", "sum", cast(trace, value, "i32"), axis, keep, x)


def _variance(name: str, x: Any, axis: Any, keep: Any, ddof: Any, root: bool) -> Tensor:
    trace = TRACES[-1]
    value = _averaged(name, x)
    shape, dtype = value.type.shape, value.type.dtype
    axes = axes_of(name, axis, len(shape), [("x", x)])
    count = math.prod([shape[at] for at in axes])
    less = integer(name, ":ddof", ddof, 0)
    if less and count <= less:
        raise bad(name, ":ddof", ddof, f"fewer than the {count} elements")
    with trace.numerics(compute="f32"):  # a statistic: squares of small differences
        center = keep_axes(trace, trace.emit("mean", value, axes=axes), shape, axes)
        away = trace.emit("sub", value, broadcast(trace, center, shape))
        y = trace.emit("mean", trace.emit("mul", away, away), axes=axes)
        if less:
            y = trace.emit("mul", y, trace.full(count / (count - less), y.type.shape, dtype))
        if root:
            y = trace.emit("sqrt", y)
    return wrap(y if keep is NIL else keep_axes(trace, y, shape, axes))


@tensor_function("var", "(x &key axis keep ddof)")
def var(x: Any, axis: Any = None, keep: Any = NIL, ddof: Any = 0) -> Tensor:
    """The variance Σ (x - mean(x))² / (n - ddof) over the axes: of the population unless said, with
    :ddof 1 of a sample."""
    return _variance("var", x, axis, keep, ddof, False)


@tensor_function("std", "(x &key axis keep ddof)")
def std(x: Any, axis: Any = None, keep: Any = NIL, ddof: Any = 0) -> Tensor:
    """The standard deviation over the axes: the root of var. Its derivative at 0 is infinite."""
    return _variance("std", x, axis, keep, ddof, True)


@tensor_function("norm", "(x &key ord axis keep)")
def norm(x: Any, ord: Any = 2, axis: Any = None, keep: Any = NIL) -> Tensor:
    """Of vectors (all elements over the axes) (Σ |x|^ord)^(1/ord): :ord 2 (default, over two axes
    the Frobenius norm), 1, another number, 0 to count what is not 0, :inf for max |x|, :-inf for
    min |x|. Of matrices, over two axes (the last two unless said), :nuclear, the sum of the
    singular values, or :spectral, the greatest."""
    trace = TRACES[-1]
    value = _read("norm", x, FLOAT)
    shape = value.type.shape
    if isinstance(ord, Symbol):
        word = choice("norm", ":ord", ord, ("inf", "-inf", "nuclear", "spectral"))
        if word in ("nuclear", "spectral"):
            return _matrix_norm(value, word, axis, keep, x)
        power = float(word)
    else:
        power = number("norm", ":ord", ord)
    axes = axes_of("norm", axis, len(shape), [("x", x)])
    with trace.numerics(compute="f32"):
        y = _vector_norm(value, power, axes)
    return wrap(y if keep is NIL else keep_axes(trace, y, shape, axes))


def _vector_norm(x: Value, power: float, axes: Shape) -> Value:
    emit, full = TRACES[-1].emit, TRACES[-1].full
    shape, dtype = x.type.shape, x.type.dtype
    if power == 2:
        return emit("sqrt", emit("sum", emit("mul", x, x), axes=axes))
    if power == 0:
        there = emit("ne", x, full(0.0, shape, dtype))
        return emit("sum", emit("cast", there, dtype=dtype), axes=axes)
    size = emit("abs", x)
    if math.isinf(power):
        return emit("max-reduce" if power > 0 else "min-reduce", size, axes=axes)
    if power == 1:
        return emit("sum", size, axes=axes)
    total = emit("sum", emit("pow", size, full(power, shape, dtype)), axes=axes)
    return emit("pow", total, full(1 / power, total.type.shape, dtype))


def _matrix_norm(value: Value, word: str, axis: Any, keep: Any, x: Any) -> Tensor:
    trace = TRACES[-1]
    shape = value.type.shape
    rank = len(shape)
    last = (rank - 2, rank - 1)
    axes = last if axis is None or axis is NIL else axes_of("norm", axis, rank, [("x", x)])
    if rank < 2 or len(axes) != 2:
        raise bad("norm", ":axis", axis, f"two axes, of the matrices whose :{word} norm it is")
    matrices = transpose(trace, value, move_axes(rank, axes, last))
    singular = trace.builder.node("svd", (matrices,), {}).results[1]
    y = trace.emit("sum" if word == "nuclear" else "max-reduce", singular, axes=(rank - 2,))
    return wrap(y if keep is NIL else keep_axes(trace, y, shape, axes))


# ---------------------------------------------------------------------------- positions


def _position(name: str, x: Any, axis: Any, keep: Any) -> Tensor:
    trace = TRACES[-1]
    value = _read(name, x, NUMBER)
    shape = value.type.shape
    if axis is None or axis is NIL:
        if shape:
            y = trace.emit(name, reshape(trace, value, (value.type.size,)), axis=0)
        else:
            y = trace.full(0, (), "i32")
        return wrap(y if keep is NIL else reshape(trace, y, (1,) * len(shape)))
    along = axis_of(name, axis, len(shape), [("x", x)])
    y = trace.emit(name, value, axis=along)
    return wrap(y if keep is NIL else keep_axes(trace, y, shape, (along,)))


@tensor_function("argmax", "(x &key axis keep)")
def argmax(x: Any, axis: Any = None, keep: Any = NIL) -> Tensor:
    """The index of the greatest along the axis, the first of equals, i32; without :axis, its index
    among all elements in row-major order."""
    return _position("argmax", x, axis, keep)


@tensor_function("argmin", "(x &key axis keep)")
def argmin(x: Any, axis: Any = None, keep: Any = NIL) -> Tensor:
    """The index of the least along the axis, the first of equals, i32; without :axis, its index
    among all elements in row-major order."""
    return _position("argmin", x, axis, keep)


# ---------------------------------------------------------------------------- along one axis


def _one_axis(name: str, value: Value, axis: Any, original: Any) -> int:
    rank = len(value.type.shape)
    if axis is NIL:
        raise bad(name, ":axis", axis, "an integer")
    return axis_of(name, axis, rank, [("x", original)])


def _running(name: str, op: str, value: Value, axis: Any, reverse: Any, x: Any) -> Tensor:
    along = _one_axis(name, value, axis, x)
    return wrap(TRACES[-1].emit(op, value, axis=along, reverse=reverse is not NIL))


@tensor_function("cumsum", "(x &key axis reverse)")
def cumsum(x: Any, axis: Any = -1, reverse: Any = NIL) -> Tensor:
    """The running sum along the axis (the last unless said), from the end with :reverse t. Bools
    and integers under 32 bits in i32."""
    return _running("cumsum", "cumsum", _summable("cumsum", x), axis, reverse, x)


@tensor_function("cumprod", "(x &key axis reverse)")
def cumprod(x: Any, axis: Any = -1, reverse: Any = NIL) -> Tensor:
    """The running product along the axis (the last unless said), from the end with :reverse t."""
    return _running("cumprod", "cumprod", _summable("cumprod", x), axis, reverse, x)


@tensor_function("cummax", "(x &key axis reverse)")
def cummax(x: Any, axis: Any = -1, reverse: Any = NIL) -> Tensor:
    """The running maximum along the axis (the last unless said), from the end with :reverse t."""
    return _running("cummax", "cummax", _read("cummax", x, NUMBER), axis, reverse, x)


@tensor_function("cummin", "(x &key axis reverse)")
def cummin(x: Any, axis: Any = -1, reverse: Any = NIL) -> Tensor:
    """The running minimum along the axis (the last unless said), from the end with :reverse t."""
    value = _read("cummin", x, NUMBER)
    # the complement of an integer: the least has no negative
    opposite = "neg" if value.type.dtype in FLOATS else "not"
    turned = TRACES[-1].emit(opposite, value)
    found = _running("cummin", "cummax", turned, axis, reverse, x)
    return wrap(TRACES[-1].emit(opposite, found.value))


@tensor_function("softmax", "(x &key axis)")
def softmax(x: Any, axis: Any = -1) -> Tensor:
    """exp(x) / Σ exp(x) along the axis (the last unless said), without overflow; float."""
    value = _read("softmax", x, FLOAT)
    return wrap(TRACES[-1].emit("softmax", value, axis=_one_axis("softmax", value, axis, x)))


@tensor_function("log-softmax", "(x &key axis)")
def log_softmax(x: Any, axis: Any = -1) -> Tensor:
    """x - logsumexp(x) along the axis (the last unless said); float."""
    value = _read("log-softmax", x, FLOAT)
    return wrap(
        TRACES[-1].emit("log-softmax", value, axis=_one_axis("log-softmax", value, axis, x))
    )
