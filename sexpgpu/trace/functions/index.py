"""Taking elements out of tensors: `at`, take, gather, dynamic slices and crops.

An index that a tensor holds and that is out of range gives NaN (of integers the type's greatest,
of bools true); negative indices in a tensor are out of range. Indices written in the file are
checked, and may count from the end.
"""

from __future__ import annotations

from typing import Any

from sexpgpu.diagnostics.codes.tensor import E_DTYPE_001, E_SHAPE_001, E_SHAPE_006
from sexpgpu.ir.graph import Value
from sexpgpu.ir.types import INTEGERS, integer_range
from sexpgpu.trace.arguments import (
    axis_of,
    bad,
    integer,
    items_of,
    tensor,
    wrong_rank,
)
from sexpgpu.trace.context import TRACES, Trace
from sexpgpu.trace.declare import tensor_function
from sexpgpu.trace.errors import failure
from sexpgpu.trace.functions.shape import text
from sexpgpu.trace.functions.subscripts import Subscript, read
from sexpgpu.trace.primitives import (
    Shape,
    broadcast,
    cast,
    concat,
    expand,
    iota,
    move_axes,
    reshape,
    transpose,
)
from sexpgpu.trace.promote import broadcast_shape, common_dtype
from sexpgpu.trace.tensor import Tensor, is_tensor, wrap


def ids_of(name: str, what: str, value: Any) -> Tensor:
    """An integer tensor."""
    t = tensor(name, what, value)
    if t.type.dtype not in INTEGERS:
        raise failure(
            E_DTYPE_001,
            f"{name}: {what} must be integers, not {t.type.dtype}",
            [(what, t)],
            fix=f"cast: (cast {what} :i32)",
        )
    return t


# ---------------------------------------------------------------------------- at


@tensor_function("at", "(x &rest subscripts)")
def at(x: Any, *specs: Any) -> Tensor:
    """The elements of x that the subscripts take: an integer, :all, (slice a b [step]), :new,
    :rest, an integer tensor. As in NumPy; several integer tensors are broadcast together."""
    trace = TRACES[-1]
    t = tensor("at", "x", x)
    subscripts = read("at", t, specs)
    if any(s.kind == "tensor" for s in subscripts):
        return wrap(_advanced(trace, "at", t, subscripts))
    value = take_ranges(trace, t.value, subscripts)
    return wrap(reshape(trace, value, _kept_shape(subscripts)))


def take_ranges(trace: Trace, x: Value, subscripts: list[Subscript]) -> Value:
    """x cut to the indices and ranges, every axis still there."""
    shape = x.type.shape
    starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
    backwards: list[int] = []
    for s in subscripts:
        taken = s.range
        if taken is None:
            continue
        if taken.step < 0:
            backwards.append(s.axis)
            taken = taken[::-1]
        starts[s.axis] = taken.start if len(taken) else 0
        limits[s.axis] = taken[-1] + 1 if len(taken) else 0
        strides[s.axis] = taken.step if len(taken) > 1 else 1
    if tuple(limits) != shape or any(starts) or any(n != 1 for n in strides):
        x = trace.emit(
            "slice", x, starts=tuple(starts), limits=tuple(limits), strides=tuple(strides)
        )
    return trace.emit("reverse", x, axes=tuple(backwards)) if backwards else x


def _kept_shape(subscripts: list[Subscript]) -> Shape:
    """The shape that ranges and new axes give."""
    shape: list[int] = []
    for s in subscripts:
        if s.kind == "new":
            shape.append(1)
        elif s.kind == "range":
            assert s.range is not None
            shape.append(len(s.range))
    return tuple(shape)


class Advanced:
    """Subscripts with integer tensors, worked out.

    axes    the axes of x that are indexed by ids (integers among them, as in NumPy)
    ids     one i32 value for each of those axes, of the common shape
    shape   that common shape
    place   where the ids' axes stand among the axes that ranges keep
    """

    __slots__ = ("axes", "ids", "place", "shape")

    def __init__(self, axes: Shape, ids: list[Value], shape: Shape, place: int) -> None:
        self.axes = axes
        self.ids = ids
        self.shape = shape
        self.place = place


def work_out(trace: Trace, name: str, x: Tensor, subscripts: list[Subscript]) -> Advanced:
    """The integer tensors (and integers beside them) broadcast together."""
    chosen = [(i, s) for i, s in enumerate(subscripts) if s.kind in ("tensor", "index")]
    tensors = [s.tensor for _, s in chosen if s.tensor is not None]
    operands = [("x", x), *((f"subscript {i}", s.tensor) for i, s in chosen if s.tensor)]
    shape = broadcast_shape(name, [t.type.shape for t in tensors], operands[1:])
    dtype = tensors[0].type.dtype
    for t in tensors[1:]:
        dtype = common_dtype(dtype, t.type.dtype) or "i64"
    if len(chosen) > len(tensors):  # an index written in the file may not fit in narrow ids
        dtype = common_dtype(dtype, "i32") or dtype
    ids: list[Value] = []
    for _, s in chosen:
        if s.tensor is not None:
            ids.append(broadcast(trace, cast(trace, s.tensor.value, dtype), shape))
        else:
            assert s.range is not None
            ids.append(trace.full(s.range.start, shape, dtype))
    positions = [i for i, _ in chosen]
    together = positions == list(range(positions[0], positions[0] + len(positions)))
    before = [s for s in subscripts[: positions[0]] if s.kind in ("range", "new")]
    place = len(before) if together else 0
    return Advanced(tuple([s.axis for _, s in chosen]), ids, shape, place)


def _advanced(trace: Trace, name: str, t: Tensor, subscripts: list[Subscript]) -> Value:
    """The elements that integer tensors name."""
    ranges = [s for s in subscripts if s.kind in ("range", "new")]
    x = take_ranges(trace, t.value, [s for s in subscripts if s.kind == "range"])
    work = work_out(trace, name, t, subscripts)
    kept = _kept_shape(ranges)
    final = (*kept[: work.place], *work.shape, *kept[work.place :])
    rank = len(t.type.shape)
    rest = [axis for axis in range(rank) if axis not in work.axes]
    lengths = [x.type.shape[axis] for axis in rest]
    count = len(work.shape)
    if len(work.ids) == 1:
        # `take` leaves the axis where it is: the ids' axes stand after the kept axes before it.
        taken = trace.emit("take", x, work.ids[0], axis=work.axes[0])
        return reshape(trace, taken, final)
    front = transpose(trace, x, (*work.axes, *rest))
    taken = trace.emit("gather", front, stacked(trace, work.ids))
    # Without the new axes, which the last reshape puts in.
    old = len([s for s in ranges[: work.place] if s.kind == "range"])
    perm = move_axes(count + len(lengths), range(count), range(old, old + count))
    return reshape(trace, transpose(trace, taken, perm), final)


def stacked(trace: Trace, ids: list[Value]) -> Value:
    """Ids of one shape [...] as one value [..., k]."""
    rank = len(ids[0].type.shape)
    return concat(trace, [expand(trace, i, rank) for i in ids], rank)


# ---------------------------------------------------------------------------- take, gather


@tensor_function("take", "(x ids &key axis)")
def take(x: Any, ids: Any, axis: Any = 0) -> Tensor:
    """The slices of x along an axis (the first unless said) that the integer tensor names: the
    axis is replaced by the axes of ids. (take table ids) is an embedding."""
    t = tensor("take", "x", x)
    index = ids_of("take", "ids", ids)
    along = axis_of("take", axis, len(t.type.shape), [("x", t)])
    return wrap(TRACES[-1].emit("take", t.value, index.value, axis=along))


@tensor_function("take-along", "(x ids &key axis)")
def take_along(x: Any, ids: Any, axis: Any = -1) -> Tensor:
    """x[…, ids[…, i, …], …]: ids has the rank of x and names elements along the axis (the last
    unless said); along the others the two broadcast."""
    trace = TRACES[-1]
    t = tensor("take-along", "x", x)
    index = ids_of("take-along", "ids", ids)
    shape, own = t.type.shape, index.type.shape
    operands = [("x", t), ("ids", index)]
    if len(shape) != len(own):
        raise wrong_rank(
            "take-along",
            f"x has rank {len(shape)}, ids has rank {len(own)}",
            operands,
            "give ids as many axes as x: (expand-dims ids axis)",
        )
    along = axis_of("take-along", axis, len(shape), operands)
    both = broadcast_shape(
        "take-along",
        [(*shape[:along], 1, *shape[along + 1 :]), (*own[:along], 1, *own[along + 1 :])],
        operands,
    )
    value = broadcast(trace, t.value, (*both[:along], shape[along], *both[along + 1 :]))
    where = broadcast(trace, index.value, (*both[:along], own[along], *both[along + 1 :]))
    return wrap(trace.emit("take-along", value, where, axis=along))


@tensor_function("gather", "(x ids)")
def gather(x: Any, ids: Any) -> Tensor:
    """ids [..., k] name places of the first k axes of x: gives ids' axes but the last, then the
    other axes of x."""
    t = tensor("gather", "x", x)
    index = ids_of("gather", "ids", ids)
    check_places("gather", t, index)
    return wrap(TRACES[-1].emit("gather", t.value, index.value))


def check_places(name: str, x: Tensor, ids: Tensor) -> int:
    """The k of ids [..., k] that name places of the first k axes of x."""
    shape, rank = ids.type.shape, len(x.type.shape)
    if not shape or shape[-1] > rank:
        raise wrong_rank(
            name,
            f"the last axis of ids {text(shape)} names the first axes of x, which has {rank}",
            [("x", x), ("ids", ids)],
        )
    return shape[-1]


# ---------------------------------------------------------------------------- dynamic slices


def starts_of(name: str, x: Tensor, starts: Any) -> list[Value]:
    """The start along each axis of x: a list of integers and scalar tensors, or an integer tensor
    of the rank's extent. As scalars of one integer dtype."""
    trace = TRACES[-1]
    rank = len(x.type.shape)
    values: list[Any]
    if is_tensor(starts):
        t = ids_of(name, "starts", starts)
        if t.type.shape != (rank,):
            raise wrong_rank(
                name, f"starts must be a list, or a tensor ({rank})", [("x", x), ("starts", t)]
            )
        emit = trace.emit
        values = [
            emit(
                "reshape",
                emit("slice", t.value, starts=(i,), limits=(i + 1,), strides=(1,)),
                shape=(),
            )
            for i in range(rank)
        ]
    else:
        values = []
        for item in items_of(name, "starts", starts):
            if is_tensor(item):
                scalar = ids_of(name, "a start", item)
                if scalar.type.shape != ():
                    raise wrong_rank(name, "a start must be a scalar", [("the start", scalar)])
                values.append(scalar.value)
            else:
                values.append(integer(name, "a start", item))
        if len(values) != rank:
            raise bad(name, "starts", starts, f"one start for each of {rank} axes")
    dtype = "i32"
    for at, value in enumerate(values):
        if isinstance(value, Value):
            if value.type.dtype == "u64":  # which no signed dtype holds: far is far enough
                far = trace.full(integer_range("i64")[1], (), "u64")
                value = values[at] = cast(trace, trace.emit("min", value, far), "i64")
            dtype = common_dtype(dtype, value.type.dtype) or "i64"
    return [
        cast(trace, v, dtype) if isinstance(v, Value) else trace.full(v, (), dtype) for v in values
    ]


def sizes_of(name: str, x: Tensor, sizes: Any, axes: range) -> Shape:
    """A size for each of those axes of x, none larger than the axis."""
    items = items_of(name, "sizes", sizes)
    if len(items) != len(axes):
        raise bad(name, "sizes", sizes, f"one size for each of {len(axes)} axes")
    found: list[int] = []
    for axis, item in zip(axes, items, strict=True):
        size = integer(name, "a size", item, 0)
        if size > x.type.shape[axis]:
            raise failure(
                E_SHAPE_006,
                f"{name}: size {size} of axis {axis}, whose extent is {x.type.shape[axis]}",
                [("x", x)],
            )
        found.append(size)
    return tuple(found)


@tensor_function("dynamic-slice", "(x starts sizes)")
def dynamic_slice(x: Any, starts: Any, sizes: Any) -> Tensor:
    """The block of the given sizes that begins at starts: one integer or scalar integer tensor for
    each axis. A start is held where the block fits."""
    t = tensor("dynamic-slice", "x", x)
    begin = starts_of("dynamic-slice", t, starts)
    extents = sizes_of("dynamic-slice", t, sizes, range(len(t.type.shape)))
    return wrap(TRACES[-1].emit("dynamic-slice", t.value, *begin, sizes=extents))


@tensor_function("crop", "(x starts sizes)")
def crop(x: Any, starts: Any, sizes: Any) -> Tensor:
    """Of each example of x [B, s1 … sk, …] the block of those sizes that begins at its row of the
    integer tensor starts [B, k]. A start is held where the block fits."""
    trace = TRACES[-1]
    t = tensor("crop", "x", x)
    where = ids_of("crop", "starts", starts)
    shape, own = t.type.shape, where.type.shape
    operands = [("x", t), ("starts", where)]
    if len(own) != 2 or not 1 <= own[1] < len(shape):
        raise wrong_rank("crop", "starts must be (B k), for k axes of x after the first", operands)
    if own[0] != shape[0]:
        raise failure(
            E_SHAPE_001, f"crop: x has {shape[0]} examples, starts has {own[0]}", operands
        )
    examples, k = own
    extents = sizes_of("crop", t, sizes, range(1, k + 1))
    block = (examples, *extents)
    batch = t.type.batch if t.type.batch == 0 else None
    parts = [iota(trace, block, 0, "i32", batch)]
    begin, dtype = where.value, where.value.type.dtype
    if integer_range(dtype)[1] < max(shape[1 : k + 1]):
        begin, dtype = cast(trace, begin, "i32"), "i32"
    for axis in range(k):
        column = trace.emit(
            "slice", begin, starts=(0, axis), limits=(examples, axis + 1), strides=(1, 1)
        )
        most = trace.full(shape[axis + 1] - extents[axis], (examples, 1), dtype)
        held = trace.emit("max", column, trace.full(0, (examples, 1), dtype))
        held = cast(trace, trace.emit("min", held, most), "i32")
        held = broadcast(trace, reshape(trace, held, (examples, *([1] * k))), block)
        parts.append(trace.emit("add", held, iota(trace, block, axis + 1, "i32")))
    return wrap(trace.emit("gather", t.value, stacked(trace, parts)))
