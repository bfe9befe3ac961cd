"""Functions that make tensors from ordinary values, and masks of tensors by position."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from sexpgpu.diagnostics.codes.tensor import E_SHAPE_008
from sexpgpu.ir.graph import Value
from sexpgpu.ir.types import BOOL, FLOATS, INTEGERS, integer_range
from sexpgpu.lisp.state import charge
from sexpgpu.lisp.values import NIL, Cons, T, Vector
from sexpgpu.reader.printer import brief
from sexpgpu.trace.arguments import (
    axis_of,
    bad,
    batch_axis,
    dtype_of,
    float_dtype,
    integer,
    is_number,
    items_of,
    number,
    plain,
    shape_of,
    tensor,
    trailing_keywords,
    wrong_rank,
)
from sexpgpu.trace.context import TRACES, Trace
from sexpgpu.trace.declare import tensor_function
from sexpgpu.trace.errors import failure
from sexpgpu.trace.marked import MarkedInt
from sexpgpu.trace.primitives import broadcast, cast, expand, iota
from sexpgpu.trace.promote import check_number, unify
from sexpgpu.trace.promote import constant as constant_value
from sexpgpu.trace.tensor import Tensor, is_tensor, wrap


def _filled(name: str, shape: Any, value: Any, dtype: str) -> Tensor:
    trace = TRACES[-1]
    sizes = shape_of(name, shape)
    axis, _ = batch_axis(trace, sizes)
    extents = plain(sizes)
    if axis is None:
        return wrap(constant_value(trace, name, value, extents, dtype))
    check_number(name, value, dtype)
    made = _number(value, dtype)
    return wrap(trace.emit("full", shape=extents, value=made, dtype=dtype, batch=axis))


def _number(value: Any, dtype: str) -> float | bool:
    if dtype in BOOL:
        return value is T
    return float(value) if dtype in FLOATS else int(value)


def _dtype_for(name: str, value: Any, dtype: Any) -> str:
    """The dtype asked for, else what a value of this kind gets: floats f32, integers i32."""
    if dtype is not None:
        return dtype_of(name, dtype)
    if value is T or value is NIL:
        return "bool"
    return "i32" if isinstance(value, int) else "f32"


@tensor_function("zeros", "(shape &key dtype)")
def zeros(shape: Any, dtype: Any = None) -> Tensor:
    """Zeros of that shape; f32 unless said (bool: false)."""
    wanted = "f32" if dtype is None else dtype_of("zeros", dtype)
    return _filled("zeros", shape, NIL if wanted in BOOL else 0, wanted)


@tensor_function("ones", "(shape &key dtype)")
def ones(shape: Any, dtype: Any = None) -> Tensor:
    """Ones of that shape; f32 unless said (bool: true)."""
    wanted = "f32" if dtype is None else dtype_of("ones", dtype)
    return _filled("ones", shape, T if wanted in BOOL else 1, wanted)


@tensor_function("full", "(shape value &key dtype)")
def full(shape: Any, value: Any, dtype: Any = None) -> Tensor:
    """One value everywhere: a number, t, nil (f32, i32, bool unless said) or a scalar tensor."""
    if is_tensor(value):
        trace = TRACES[-1]
        scalar = tensor("full", "value", value)
        if scalar.type.shape != ():
            raise wrong_rank(
                "full",
                "the value must be a scalar",
                [("value", scalar)],
                "use broadcast-to for a tensor with axes",
            )
        x = scalar.value if dtype is None else cast(trace, scalar.value, dtype_of("full", dtype))
        return wrap(broadcast(trace, x, plain(shape_of("full", shape))))
    if not (is_number(value) or value is T or value is NIL):
        raise bad("full", "value", value, "a number, t, nil or a scalar tensor")
    wanted = _dtype_for("full", value, dtype)
    if is_number(value) == (wanted in BOOL) or (
        isinstance(value, float | Fraction) and wanted in INTEGERS
    ):
        raise bad("full", "value", value, f"one that {wanted} holds")
    return _filled("full", shape, value, wanted)


@tensor_function("constant", "(values &key dtype)")
def constant(values: Any, dtype: Any = None) -> Tensor:
    """The numbers (or t and nil) of a nested list or vector as a tensor: f32 if any is no integer,
    else i32, unless said. (constant (list (list 1 2) (list 3 4))) has the shape (2 2)."""
    flat: list[Any] = []
    shape = _flatten(values, flat)
    if dtype is not None:
        wanted = dtype_of("constant", dtype)
    elif flat and all(v is T or v is NIL for v in flat):
        wanted = "bool"
    else:
        wanted = "i32" if flat and all(isinstance(v, int) for v in flat) else "f32"
    charge(len(flat))
    return wrap(literal(TRACES[-1], "constant", tuple(flat), shape, wanted))


def literal(
    trace: Trace, name: str, values: tuple[Any, ...], shape: tuple[int, ...], dtype: str
) -> Value:
    """Numbers in row-major order as a value; each must fit the dtype."""
    made: list[float | bool] = []
    for value in values:
        if is_number(value) == (dtype in BOOL) or (
            dtype in INTEGERS and not isinstance(value, int)
        ):
            raise bad(name, "an element", value, f"one that {dtype} holds")
        check_number(name, value, dtype)
        made.append(_number(value, dtype))
    return trace.emit("literal", shape=shape, dtype=dtype, values=tuple(made))


def _flatten(value: Any, into: list[Any]) -> tuple[int, ...]:
    """Append the leaves of a nested list in row-major order; gives its shape."""
    if not isinstance(value, Cons | Vector):
        if not (is_number(value) or value is T or value is NIL):
            fix = "join tensors with stack-tensors or concat" if is_tensor(value) else None
            raise bad("constant", "an element", value, "a number, t or nil", fix)
        into.append(value)
        return ()
    items = items_of("constant", "the values", value)
    first: tuple[int, ...] | None = None
    for item in items:
        shape = _flatten(item, into)
        if first is None:
            first = shape
        elif shape != first:
            raise failure(
                E_SHAPE_008,
                f"constant: the rows of {brief(value)} have different shapes",
                fix="give every row as many elements as the first",
            )
    return (len(items), *(first or ()))


@tensor_function("arange", "(start &rest stop-step-dtype)")
def arange(start: Any, *rest: Any) -> Tensor:
    """(arange n) is 0 to n-1; (arange start stop [step]) goes up to but without stop. i32 when all
    are integers, else f32; :dtype says otherwise."""
    positional, keys = trailing_keywords("arange", rest, ("dtype",))
    if len(positional) > 2:
        raise bad("arange", "the fourth argument", positional[2], "a keyword")
    trace = TRACES[-1]
    low, high = (0, start) if not positional else (start, positional[0])
    step = positional[1] if len(positional) == 2 else 1
    for what, value in (("start", low), ("stop", high), ("step", step)):
        if not math.isfinite(number("arange", what, value)):
            raise bad("arange", what, value, "a finite number")
    if step == 0:
        raise bad("arange", "step", step, "a number other than 0")
    exact = isinstance(low, int) and isinstance(high, int) and isinstance(step, int)
    count = max(0, -((low - high) // step) if exact else math.ceil((high - low) / step))
    dtype = keys.get("dtype")
    wanted = dtype_of("arange", dtype) if dtype is not None else "i32" if exact else "f32"
    marked = not positional and isinstance(start, MarkedInt)
    axis = batch_axis(trace, [MarkedInt(count)])[0] if marked else None
    wide = wanted in ("i64", "u64", "u32", "f64")
    working = ("i64" if wide else "i32") if exact else "f64" if wide else "f32"
    x = iota(trace, (count,), 0, working, axis)
    if step != 1:
        x = trace.emit("mul", x, constant_value(trace, "arange", step, (count,), working))
    if low != 0:
        x = trace.emit("add", x, constant_value(trace, "arange", low, (count,), working))
    return wrap(cast(trace, x, wanted))


@tensor_function("linspace", "(a b n &key endpoint dtype)")
def linspace(a: Any, b: Any, n: Any, endpoint: Any = True, dtype: Any = None) -> Tensor:
    """n numbers from a to b, evenly spaced: f32 (n) unless said. b is the last; with :endpoint nil
    it would be the next."""
    wanted = float_dtype("linspace", dtype)
    count = integer("linspace", "n", n, 1)
    low, high = number("linspace", "a", a), number("linspace", "b", b)
    charge(count)
    closed = endpoint is not NIL
    step = (high - low) / max(count - 1 if closed else count, 1)
    values = [float(low + step * i) for i in range(count)]
    if count > 1 and closed:
        values[-1] = float(high)
    return wrap(literal(TRACES[-1], "linspace", tuple(values), (count,), wanted))


@tensor_function("iota", "(shape axis &key dtype)")
def iota_function(shape: Any, axis: Any, dtype: Any = None) -> Tensor:
    """Each element's index along the axis: i32 of that shape."""
    trace = TRACES[-1]
    sizes = shape_of("iota", shape)
    along = axis_of("iota", axis, len(sizes))
    wanted = "i32" if dtype is None else dtype_of("iota", dtype)
    return wrap(iota(trace, plain(sizes), along, wanted, batch_axis(trace, sizes)[0]))


@tensor_function("eye", "(n &rest m-k-dtype)")
def eye(n: Any, *rest: Any) -> Tensor:
    """(eye n [m] [:k k] [:dtype d]), the identity: (n m), f32 unless said, ones on the k-th
    diagonal (0, the main one, unless said; 1: the one above it) and zeros elsewhere."""
    trace = TRACES[-1]
    positional, keys = trailing_keywords("eye", rest, ("k", "dtype"))
    if len(positional) > 1:
        raise bad("eye", "the third argument", positional[1], "a keyword")
    rows = integer("eye", "n", n, 0)
    m = positional[0] if positional else NIL
    columns = rows if m is NIL else integer("eye", "m", m, 0)
    same = _band(trace, (rows, columns), "eq", integer("eye", ":k", keys.get("k", 0)))
    dtype = keys.get("dtype")
    return wrap(cast(trace, same, "f32" if dtype is None else dtype_of("eye", dtype)))


def _band(trace: Trace, shape: tuple[int, ...], op: str, k: int) -> Value:
    """Whether column `op` row + k, over the last two axes: a bool of that (n m) shape."""
    k = max(-shape[0], min(k, shape[1]))  # beyond there is nothing, and i32 ends somewhere
    row = iota(trace, shape, 0, "i32")
    column = iota(trace, shape, 1, "i32")
    if k:
        row = trace.emit("add", row, trace.full(k, shape, "i32"))
    return trace.emit(op, column, row)


def _triangle(name: str, x: Any, k: Any, op: str) -> Tensor:
    trace = TRACES[-1]
    t = tensor(name, "x", x)
    shape = t.type.shape
    if len(shape) < 2:
        raise wrong_rank(name, "x must have at least two axes", [("x", t)])
    keep = _band(trace, shape[-2:], op, integer(name, ":k", k))
    dtype = t.type.dtype
    zero = trace.full(False if dtype in BOOL else 0, shape, dtype)
    return wrap(trace.emit("select", broadcast(trace, keep, shape), t.value, zero))


@tensor_function("tril", "(x &key k)")
def tril(x: Any, k: Any = 0) -> Tensor:
    """x [..., n, m] with zeros above the k-th diagonal (0: the main one, 1: the one above it)."""
    return _triangle("tril", x, k, "le")


@tensor_function("triu", "(x &key k)")
def triu(x: Any, k: Any = 0) -> Tensor:
    """x [..., n, m] with zeros below the k-th diagonal."""
    return _triangle("triu", x, k, "ge")


@tensor_function("one-hot", "(ids depth &key dtype)")
def one_hot(ids: Any, depth: Any, dtype: Any = None) -> Tensor:
    """ids [...] → [..., depth]: 1 at each id, 0 elsewhere (all 0 for an id out of range); f32
    unless said."""
    trace = TRACES[-1]
    count = integer("one-hot", "depth", depth, 1)
    (value,) = unify("one-hot", (tensor("one-hot", "ids", ids),), "integer", ("ids",))
    if count - 1 > integer_range(value.type.dtype)[1]:
        value = cast(trace, value, "i32")
    shape = (*value.type.shape, count)
    index = broadcast(trace, expand(trace, value, len(shape) - 1), shape)
    column = broadcast(trace, iota(trace, (count,), 0, value.type.dtype), shape)
    wanted = "f32" if dtype is None else dtype_of("one-hot", dtype)
    return wrap(cast(trace, trace.emit("eq", index, column), wanted))
