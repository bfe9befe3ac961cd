"""Reductions, running reductions and softmax.

`:axis` is an integer, a list, or nil for all (the default of reductions); `:keep t` keeps the
reduced axes as extent 1.
"""

from __future__ import annotations

from typing import Any

from sexpgpu.ir.graph import Value
from sexpgpu.ir.types import BOOL, FLOATS, INTEGERS, ITEMSIZE
from sexpgpu.lisp.values import NIL, Symbol
from sexpgpu.trace.arguments import (
    axes_of,
    axis_of,
    bad,
    choice,
    number,
    tensor,
)
from sexpgpu.trace.context import TRACES
from sexpgpu.trace.declare import tensor_function
from sexpgpu.trace.primitives import broadcast, cast, keep_axes, reshape
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


def _variance(name: str, x: Any, axis: Any, keep: Any, root: bool) -> Tensor:
    trace = TRACES[-1]
    value = _averaged(name, x)
    shape = value.type.shape
    axes = axes_of(name, axis, len(shape), [("x", x)])
    with trace.numerics(compute="f32"):  # a statistic: squares of small differences
        center = keep_axes(trace, trace.emit("mean", value, axes=axes), shape, axes)
        away = trace.emit("sub", value, broadcast(trace, center, shape))
        y = trace.emit("mean", trace.emit("mul", away, away), axes=axes)
        if root:
            y = trace.emit("sqrt", y)
    return wrap(y if keep is NIL else keep_axes(trace, y, shape, axes))


@tensor_function("var", "(x &key axis keep)")
def var(x: Any, axis: Any = None, keep: Any = NIL) -> Tensor:
    """The variance mean((x - mean(x))²) over the axes (of the population: divided by n)."""
    return _variance("var", x, axis, keep, False)


@tensor_function("std", "(x &key axis keep)")
def std(x: Any, axis: Any = None, keep: Any = NIL) -> Tensor:
    """The standard deviation over the axes: the root of var. Its derivative at 0 is infinite."""
    return _variance("std", x, axis, keep, True)


@tensor_function("norm", "(x &key ord axis keep)")
def norm(x: Any, ord: Any = 2, axis: Any = None, keep: Any = NIL) -> Tensor:
    """(Σ |x|^ord)^(1/ord) over the axes: :ord 2 (default), 1, another number from 1 up, or :inf
    for max |x|. Of vectors: a matrix's axes are taken together (the Frobenius norm)."""
    trace = TRACES[-1]
    value = _read("norm", x, FLOAT)
    shape, dtype = value.type.shape, value.type.dtype
    axes = axes_of("norm", axis, len(shape), [("x", x)])
    if isinstance(ord, Symbol):
        choice("norm", ":ord", ord, ("inf",))
        power = float("inf")
    else:
        power = number("norm", ":ord", ord)
        if not power >= 1:
            raise bad("norm", ":ord", ord, "a number from 1 up, or :inf")
    with trace.numerics(compute="f32"):
        if power == 2:
            squares = trace.emit("mul", value, value)
            y = trace.emit("sqrt", trace.emit("sum", squares, axes=axes))
        elif power == float("inf"):
            y = trace.emit("max-reduce", trace.emit("abs", value), axes=axes)
        else:
            size = trace.emit("abs", value)
            if power == 1:
                y = trace.emit("sum", size, axes=axes)
            else:
                raised = trace.emit("pow", size, trace.full(power, shape, dtype))
                total = trace.emit("sum", raised, axes=axes)
                inverse = trace.full(1 / power, total.type.shape, dtype)
                y = trace.emit("pow", total, inverse)
    return wrap(y if keep is NIL else keep_axes(trace, y, shape, axes))


# ---------------------------------------------------------------------------- positions


def _position(name: str, x: Any, axis: Any) -> Tensor:
    trace = TRACES[-1]
    value = _read(name, x, NUMBER)
    shape = value.type.shape
    if axis is None or axis is NIL:
        if not shape:
            return wrap(trace.full(0, (), "i32"))
        return wrap(trace.emit(name, reshape(trace, value, (value.type.size,)), axis=0))
    return wrap(trace.emit(name, value, axis=axis_of(name, axis, len(shape), [("x", x)])))


@tensor_function("argmax", "(x &key axis)")
def argmax(x: Any, axis: Any = None) -> Tensor:
    """The index of the greatest along the axis, the first of equals, i32; without :axis, its index
    among all elements in row-major order."""
    return _position("argmax", x, axis)


@tensor_function("argmin", "(x &key axis)")
def argmin(x: Any, axis: Any = None) -> Tensor:
    """The index of the least along the axis, the first of equals, i32; without :axis, its index
    among all elements in row-major order."""
    return _position("argmin", x, axis)


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
