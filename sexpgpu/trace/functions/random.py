"""Random draws. Each is a pure function of the graph's key and the draw's name (`Trace.draw_name`).

A shape with one marked extent (the batch's) draws by example: each example gets what it would get
in the whole batch. Other draws are the same for the whole step. docs/tensors.md has the
counters; `:name` names a draw so that others around it do not move it.
"""

from __future__ import annotations

import math
from typing import Any

from sexpgpu.diagnostics.codes.tensor import E_DTYPE_001, E_OP_001
from sexpgpu.ir.graph import Value
from sexpgpu.ir.types import FLOATS, INTEGERS, TensorType, integer_range
from sexpgpu.lisp.values import NIL
from sexpgpu.trace.arguments import (
    axis_of,
    bad,
    batch_axis,
    dtype_of,
    float_dtype,
    integer,
    is_number,
    marked_shape,
    number,
    plain,
    shape_of,
    tensor,
    text,
)
from sexpgpu.trace.context import TRACES, Draw, Trace
from sexpgpu.trace.declare import tensor_function
from sexpgpu.trace.errors import failure
from sexpgpu.trace.marked import MarkedInt
from sexpgpu.trace.primitives import Shape, broadcast, cast
from sexpgpu.trace.promote import FLOAT, INTEGER, broadcast_shape, constant, floats, unify
from sexpgpu.trace.tensor import Tensor, is_tensor, wrap

KEY = TensorType((2,), "u32")
OFFSET = TensorType((), "u32")
BITS = {"f32": 24, "f16": 11, "bf16": 8}  # of a uniform draw: as many as the dtype's numbers have


class Source:
    """The bits of one draw. Several words an element: `bits(1)` is independent of `bits()`."""

    __slots__ = ("axis", "name", "rows", "shape", "trace")

    def __init__(self, trace: Trace, sizes: list[int], name: Any) -> None:
        axis, mixed = batch_axis(trace, sizes)
        mixed = mixed or trace.examples_in_turn
        self.trace = trace
        self.shape = plain(sizes)
        self.axis = axis
        self.rows = 1 if axis is None else self.shape[axis] // (trace.batch or 1)
        self.name = trace.draw_name(_given(name))
        trace.draws.append(Draw(self.name, self.shape, axis, mixed, trace.builder.origin))

    def bits(self, word: int = 0) -> Value:
        """u32 bits of the draw's shape."""
        trace = self.trace
        key = trace.input("rng/key", KEY)
        name = f"{self.name}/{word}" if word else self.name
        folded = trace.emit("random-key", key, name=name)
        if self.axis is None:
            offset = trace.full(0, (), "u32")
        else:
            offset = trace.input("rng/offset", OFFSET)
        return trace.emit(
            "random-bits",
            folded,
            offset,
            shape=self.shape,
            batch=self.axis,
            per_example=self.rows,
        )

    def high_bits(self, count: int, word: int = 0) -> Value:
        """The highest `count` bits as u32."""
        trace = self.trace
        return trace.emit("shift-right", self.bits(word), trace.full(32 - count, self.shape, "u32"))


def _given(name: Any) -> str:
    return "" if name is None or name is NIL else text("a draw", ":name", name)


def _scaled(trace: Trace, x: Value, factor: float) -> Value:
    return trace.emit("mul", x, trace.full(factor, x.type.shape, x.type.dtype))


def _shifted(trace: Trace, x: Value, term: float) -> Value:
    return trace.emit("add", x, trace.full(term, x.type.shape, x.type.dtype))


def unit(source: Source, dtype: str) -> Value:
    """Uniform in [0, 1) with as many bits as the dtype holds: f32 has 24, as have f16 and bf16
    their 11 and 8; f64 has 53."""
    trace = source.trace
    if dtype == "f64":
        high = _scaled(trace, cast(trace, source.high_bits(27), dtype), 2.0**26)
        low = cast(trace, source.high_bits(26, 1), dtype)
        return _scaled(trace, trace.emit("add", high, low), 2.0**-53)
    count = BITS[dtype]
    return _scaled(trace, cast(trace, source.high_bits(count), dtype), 2.0**-count)


def _open_unit(source: Source, dtype: str) -> Value:
    """Uniform in the open (0, 1), in f32 (f64 for f64): the middle of each of 2^23 parts."""
    trace = source.trace
    if dtype == "f64":
        return _shifted(trace, unit(source, dtype), 2.0**-54)
    middle = _shifted(trace, cast(trace, source.high_bits(23), "f32"), 0.5)
    return _scaled(trace, middle, 2.0**-23)


def _source(name: str, shape: Any, given: Any) -> Source:
    return Source(TRACES[-1], shape_of(name, shape), given)


# ---------------------------------------------------------------------------- floats


@tensor_function("random-uniform", "(shape &key low high dtype name)")
def random_uniform(
    shape: Any, low: Any = 0, high: Any = 1, dtype: Any = None, name: Any = None
) -> Tensor:
    """Uniform in [low, high), 0 to 1 unless said; low and high may be scalar tensors or ones that
    broadcast to the shape. f32: (bits >> 8) · 2⁻²⁴, between other bounds low + that · (high - low),
    rounded. What would round up to high is low."""
    function = "random-uniform"
    wanted = float_dtype(function, dtype)
    if not is_tensor(low) and not is_tensor(high):
        start, end = number(function, ":low", low), number(function, ":high", high)
        if start > end:
            raise bad(function, ":high", high, f"a number from :low, {start}, up")
        if start == 0 and end == 1:
            return wrap(unit(_source(function, shape, name), wanted))
    source = _source(function, shape, name)
    bottom = _spread(function, low, source.shape, wanted)
    top = _spread(function, high, source.shape, wanted)
    return wrap(_between(source, bottom, top))


def _between(source: Source, low: Value, high: Value) -> Value:
    """Uniform in [low, high), whose dtype and shape are those of the draw.

    In f64 the product of the draw's bits and the range is exact: its sum with low is the same on
    every backend, though XLA joins a product and a sum where it can and NumPy does not. (Of f64
    itself the last bit may differ.) Halves, for the range itself may be beyond the dtype."""
    trace = source.trace
    dtype = low.type.dtype
    wide = "f64" if dtype == "f64" else "f32"
    start = _scaled(trace, cast(trace, low, wide), 0.5)
    half = trace.emit("sub", _scaled(trace, cast(trace, high, wide), 0.5), start)
    if dtype == "f64":
        x = trace.emit("add", trace.emit("mul", unit(source, dtype), half), start)
        x = _scaled(trace, x, 2.0)
    else:
        count = BITS[dtype]
        step = _scaled(trace, cast(trace, half, "f64"), 2.0 ** (1 - count))
        steps = trace.emit("mul", cast(trace, source.high_bits(count), "f64"), step)
        x = trace.emit("add", steps, cast(trace, low, "f64"))
        x = cast(trace, cast(trace, x, "f32"), dtype)
    return trace.emit("select", trace.emit("lt", x, high), x, low)


def _spread(name: str, value: Any, shape: Shape, dtype: str) -> Value:
    """A number or tensor as a value of that shape and dtype."""
    trace = TRACES[-1]
    if is_number(value):
        return constant(trace, name, value, shape, dtype)
    t = tensor(name, "the parameter", value)
    if broadcast_shape(name, (shape, t.type.shape), [("the parameter", t)]) != shape:
        raise bad(name, "the parameter", value, "one that broadcasts to the shape")
    return broadcast(trace, cast(trace, floats(name, t), dtype), shape)


@tensor_function("random-normal", "(shape &key dtype name)")
def random_normal(shape: Any, dtype: Any = None, name: Any = None) -> Tensor:
    """The standard normal distribution: √2 · erf⁻¹(u) of a uniform u in (-1, 1)."""
    wanted = float_dtype("random-normal", dtype)
    return wrap(normal(_source("random-normal", shape, name), wanted))


def normal(source: Source, dtype: str) -> Value:
    """Standard normal values, drawn in f32 (f64 for f64)."""
    trace = source.trace
    u = _shifted(trace, _scaled(trace, _open_unit(source, dtype), 2.0), -1.0)
    return cast(trace, _scaled(trace, trace.emit("erf-inv", u), math.sqrt(2.0)), dtype)


@tensor_function("random-truncated-normal", "(shape &key low high dtype name)")
def random_truncated_normal(
    shape: Any, low: Any = -2, high: Any = 2, dtype: Any = None, name: Any = None
) -> Tensor:
    """The standard normal distribution held to low … high, ±2 unless said, by its inverse: √2 ·
    erf⁻¹(u), u uniform between erf(low/√2) and erf(high/√2). Within ±2 its standard deviation is
    0.8796."""
    function = "random-truncated-normal"
    wanted = float_dtype(function, dtype)
    start, end = number(function, ":low", low), number(function, ":high", high)
    least, most = math.erf(start / math.sqrt(2.0)), math.erf(end / math.sqrt(2.0))
    if not start < end:
        raise bad(function, ":high", high, f"a number above :low, {start}")
    if most - least < 2.0**-20:
        raise bad(function, ":low", low, "bounds that hold more of the distribution than 10^-6")
    source = _source(function, shape, name)
    trace = source.trace
    if wanted == "f64":
        u = _shifted(trace, _scaled(trace, _open_unit(source, wanted), most - least), least)
    else:  # the product of 24 and 29 bits is exact, as in _between
        middle = _shifted(trace, cast(trace, source.high_bits(23), "f64"), 0.5)
        u = _shifted(trace, _scaled(trace, middle, _shortened(most - least) * 2.0**-23), least)
        u = cast(trace, u, "f32")
    x = _scaled(trace, trace.emit("erf-inv", u), math.sqrt(2.0))
    # erf-inv rounds: the ends may leave the range by an ulp.
    bottom = trace.full(float(start), x.type.shape, x.type.dtype)
    top = trace.full(float(end), x.type.shape, x.type.dtype)
    held = trace.emit("min", trace.emit("max", x, bottom), top)
    return wrap(cast(trace, held, wanted))


def _shortened(x: float) -> float:
    """A float of 29 significant bits that is near."""
    fraction, exponent = math.frexp(x)
    return math.ldexp(round(math.ldexp(fraction, 29)), exponent - 29)


@tensor_function("random-gumbel", "(shape &key dtype name)")
def random_gumbel(shape: Any, dtype: Any = None, name: Any = None) -> Tensor:
    """The standard Gumbel distribution: -log(-log(u)), u uniform in (0, 1)."""
    wanted = float_dtype("random-gumbel", dtype)
    source = _source("random-gumbel", shape, name)
    return wrap(cast(source.trace, gumbel(source, wanted), wanted))


def gumbel(source: Source, dtype: str) -> Value:
    trace = source.trace
    inner = trace.emit("neg", trace.emit("log", _open_unit(source, dtype)))
    return trace.emit("neg", trace.emit("log", inner))


# ---------------------------------------------------------------------------- discrete


@tensor_function("random-bernoulli", "(p shape &key dtype name)")
def random_bernoulli(p: Any, shape: Any, dtype: Any = None, name: Any = None) -> Tensor:
    """true with probability p (a number, or a tensor that broadcasts to the shape), else false;
    bool unless a :dtype (1 and 0) is given."""
    wanted = "bool" if dtype is None else dtype_of("random-bernoulli", dtype)
    _check_probability("random-bernoulli", p)
    source = _source("random-bernoulli", shape, name)
    held = _bernoulli(source, _spread("random-bernoulli", p, source.shape, "f32"))
    return wrap(cast(source.trace, held, wanted))


def _check_probability(name: str, p: Any) -> None:
    if is_number(p) and not 0 <= p <= 1:
        raise bad(name, "the probability", p, "a number from 0 to 1")


def _bernoulli(source: Source, p: Value) -> Value:
    return source.trace.emit("lt", unit(source, "f32"), p)


@tensor_function("random-int", "(low high shape &key dtype name)")
def random_int(low: Any, high: Any, shape: Any, dtype: Any = None, name: Any = None) -> Tensor:
    """Integers from low up to but without high, i32 unless said: low + floor(bits · (high - low) /
    2³²), for a range of at most 2³². low and high may be integer tensors that broadcast."""
    trace = TRACES[-1]
    wanted = "i32" if dtype is None else dtype_of("random-int", dtype)
    if wanted not in INTEGERS:
        raise bad("random-int", ":dtype", dtype, "an integer dtype")
    source = _source("random-int", shape, name)
    if is_tensor(low) or is_tensor(high):
        start, end = unify("random-int", (low, high), INTEGER, ("low", "high"))
        start = _placed(trace, start, source.shape)
        end = _placed(trace, end, source.shape)
        span = trace.emit("sub", end, start)
    else:
        first, last = integer("random-int", "low", low), integer("random-int", "high", high, 0)
        smallest, largest = integer_range(wanted)
        if not first < last or last - first > 1 << 32:
            raise bad("random-int", "high", high, f"an integer above low, {first}, by at most 2^32")
        if first < smallest or last - 1 > largest:
            raise failure(E_OP_001, f"random-int: {first} to {last - 1} does not fit in {wanted}")
        start = trace.full(first, source.shape, "u64" if wanted == "u64" else "i64")
        span = trace.full(last - first, source.shape, "u64")
    # 32 bits times at most 33: exact in u64.
    product = trace.emit("mul", cast(trace, source.bits(), "u64"), cast(trace, span, "u64"))
    steps = trace.emit("shift-right", product, trace.full(32, source.shape, "u64"))
    return wrap(cast(trace, trace.emit("add", cast(trace, steps, start.type.dtype), start), wanted))


def _placed(trace: Trace, x: Value, shape: Shape) -> Value:
    if broadcast_shape("random-int", (shape, x.type.shape), ()) != shape:
        raise failure(E_OP_001, "random-int: low and high must broadcast to the shape")
    return cast(trace, broadcast(trace, x, shape), "i64")


@tensor_function("random-categorical", "(logits &key axis dtype name)")
def random_categorical(logits: Any, axis: Any = -1, dtype: Any = None, name: Any = None) -> Tensor:
    """An index along the axis (the last unless said), with the probabilities softmax(logits); i32
    unless said. By the Gumbel trick: argmax(logits + gumbel)."""
    trace = TRACES[-1]
    t = tensor("random-categorical", "logits", logits)
    value = floats("random-categorical", t, "logits")
    along = axis_of("random-categorical", axis, len(t.type.shape), [("logits", t)])
    wanted = "i32" if dtype is None else dtype_of("random-categorical", dtype)
    source = Source(trace, marked_shape(trace, t), name)
    wide = "f64" if value.type.dtype == "f64" else "f32"
    noisy = trace.emit("add", cast(trace, value, wide), gumbel(source, wide))
    return wrap(cast(trace, trace.emit("argmax", noisy, axis=along), wanted))


@tensor_function("random-permutation", "(n &key axis dtype name)")
def random_permutation(n: Any, axis: Any = 0, dtype: Any = None, name: Any = None) -> Tensor:
    """The integers from 0 up to but without n in an order drawn at random, i32 unless said; of a
    tensor in place of n, its slices along the axis (the first unless said) in such an order. The
    order is that of 64 random bits each."""
    function = "random-permutation"
    trace = TRACES[-1]
    shuffled = tensor(function, "n", n) if is_tensor(n) else None
    along = 0
    if shuffled is None:
        count = integer(function, "n", n, 0)
        mixed = isinstance(n, MarkedInt)
    else:
        rank = len(shuffled.type.shape)
        along = axis_of(function, axis, rank, [("n", shuffled)])
        count = shuffled.type.shape[along]
        mixed = shuffled.type.batch == along
    wanted = "i32" if dtype is None else dtype_of(function, dtype)
    if wanted not in INTEGERS:
        raise bad(function, ":dtype", dtype, "an integer dtype")
    if shuffled is not None and dtype is not None:
        raise bad(function, ":dtype", dtype, "none, as a tensor keeps its own")
    source = Source(trace, [count], name)
    trace.draws[-1].mixed = mixed
    high = trace.emit(
        "shift-left", cast(trace, source.bits(), "u64"), trace.full(32, (count,), "u64")
    )
    keys = trace.emit("or", high, cast(trace, source.bits(1), "u64"))
    order = trace.builder.node("sort", (keys,), {"axis": 0, "descending": False}).results[1]
    if shuffled is None:
        return wrap(cast(trace, order, wanted))
    return wrap(trace.emit("take", shuffled.value, order, axis=along))


@tensor_function("dropout", "(x p &key name)")
def dropout(x: Any, p: Any, name: Any = None) -> Tensor:
    """x with each element 0 with probability p, and the others divided by 1 - p; x itself where
    (ctx :training) is nil. p: a number, or a scalar tensor. Srivastava et al., JMLR 2014."""
    trace = TRACES[-1]
    t = tensor("dropout", "x", x)
    shape, dtype = t.type.shape, t.type.dtype
    if dtype not in FLOATS:
        raise failure(E_DTYPE_001, f"dropout takes floats, not {dtype}", [("x", t)])
    if is_number(p) and not 0 <= p < 1:
        raise bad("dropout", "p", p, "a number from 0 up to but without 1")
    if not trace.training:
        return t
    if is_number(p) and p == 0:
        trace.draw_name(_given(name))  # so that the draws after it do not depend on p
        return t
    source = Source(trace, marked_shape(trace, t), name)
    zero = trace.full(0.0, shape, dtype)
    if is_number(p):
        keep = _bernoulli(source, trace.full(1.0 - float(p), shape, "f32"))
        kept = _scaled(trace, t.value, 1.0 / (1.0 - float(p)))
    else:
        scalar = tensor("dropout", "p", p)
        if scalar.type.shape != ():
            raise bad("dropout", "p", p, "a number or a scalar tensor")
        rest = unify("dropout", (1, scalar), FLOAT)
        share = trace.emit("sub", rest[0], rest[1])
        keep = _bernoulli(source, broadcast(trace, cast(trace, share, "f32"), shape))
        kept = trace.emit("div", t.value, broadcast(trace, cast(trace, share, dtype), shape))
    return wrap(trace.emit("select", keep, kept, zero))
