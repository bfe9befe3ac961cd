"""Tensors with some elements replaced or added to: set-at, add-at, scatter, dynamic updates.

Nothing is changed in place: each gives a new tensor. Indices that a tensor holds and that are out
of range are dropped; where two set one element, which one stays is not specified (add-at and
scatter-add add them all).
"""

from __future__ import annotations

from typing import Any

from sexpgpu.diagnostics.codes.tensor import E_SHAPE_006
from sexpgpu.ir.graph import Value
from sexpgpu.ir.types import BOOL
from sexpgpu.trace.arguments import bad, is_number, tensor
from sexpgpu.trace.context import TRACES, Trace
from sexpgpu.trace.declare import tensor_function
from sexpgpu.trace.errors import failure
from sexpgpu.trace.functions.index import (
    check_places,
    ids_of,
    stacked,
    starts_of,
    take_ranges,
    work_out,
)
from sexpgpu.trace.functions.shape import text
from sexpgpu.trace.functions.subscripts import Subscript, read
from sexpgpu.trace.primitives import (
    Shape,
    broadcast,
    cast,
    inverse,
    move_axes,
    pad,
    reshape,
    transpose,
)
from sexpgpu.trace.promote import broadcast_shape, common_dtype, constant
from sexpgpu.trace.tensor import Tensor, is_tensor, wrap


def value_for(name: str, x: Tensor, value: Any, shape: Shape, what: str = "value") -> Value:
    """The new elements in x's dtype and that shape. A tensor of a kind or width that x does not
    hold is refused."""
    trace = TRACES[-1]
    dtype = x.type.dtype
    if not is_tensor(value):
        if is_number(value) == (dtype in BOOL) or (not is_number(value) and dtype not in BOOL):
            raise bad(name, what, value, f"a tensor, or what {dtype} holds")
        return constant(trace, name, value, shape, dtype)
    t = tensor(name, what, value)
    if common_dtype(dtype, t.type.dtype) != dtype:
        raise bad(name, f"the dtype of {what}", t, dtype, f"cast it: (cast {what} :{dtype})")
    own = t.type.shape
    spread = broadcast_shape(name, (shape, own), [("the place", x), (what, t)])
    if spread != shape:
        raise failure(
            E_SHAPE_006,
            f"{name}: {what} {text(own)} does not fit the place {text(shape)}",
            [("x", x), (what, t)],
        )
    return broadcast(trace, cast(trace, t.value, dtype), shape)


@tensor_function("set-at", "(x value &rest subscripts)")
def set_at(x: Any, value: Any, *specs: Any) -> Tensor:
    """x with the elements that the subscripts take (see `at`) replaced by value, which broadcasts
    to their shape."""
    return _assigned("set-at", x, value, specs, add=False)


@tensor_function("add-at", "(x value &rest subscripts)")
def add_at(x: Any, value: Any, *specs: Any) -> Tensor:
    """x with value, which broadcasts, added to the elements that the subscripts take (see `at`);
    an element named several times gets each addition."""
    return _assigned("add-at", x, value, specs, add=True)


def _assigned(name: str, x: Any, value: Any, specs: tuple[Any, ...], add: bool) -> Tensor:
    trace = TRACES[-1]
    t = tensor(name, "x", x)
    if add and t.type.dtype in BOOL:
        raise bad(name, "the dtype of x", t, "a number's", "use set-at for a bool tensor")
    subscripts = read(name, t, specs)
    if any(s.kind == "tensor" for s in subscripts):
        return wrap(_by_tensors(trace, name, t, value, subscripts, add))
    shape: list[int] = []
    block = [1] * len(t.type.shape)
    for s in subscripts:
        if s.kind == "new":
            shape.append(1)
            continue
        assert s.range is not None
        block[s.axis] = len(s.range)
        if s.kind == "range":
            shape.append(len(s.range))
    new = value_for(name, t, value, tuple(shape))
    ranges = [s for s in subscripts if s.kind != "new"]
    return wrap(_into_ranges(trace, t.value, reshape(trace, new, tuple(block)), ranges, add))


def _into_ranges(trace: Trace, x: Value, new: Value, ranges: list[Subscript], add: bool) -> Value:
    """x with `new`, which has the ranges' lengths as its shape, put or added there."""
    shape = x.type.shape
    if any(n == 0 for n in new.type.shape):
        return x
    backwards = tuple([s.axis for s in ranges if s.range is not None and s.range.step < 0])
    if backwards:
        new = trace.emit("reverse", new, axes=backwards)
    low, high, interior = [0] * len(shape), [0] * len(shape), [0] * len(shape)
    for s in ranges:
        assert s.range is not None
        taken = s.range[::-1] if s.range.step < 0 else s.range
        low[s.axis] = taken.start
        high[s.axis] = shape[s.axis] - 1 - taken[-1]
        interior[s.axis] = taken.step - 1 if len(taken) > 1 else 0
    if new.type.shape == shape and not add:
        return new
    if not add and not any(interior):
        starts = [trace.full(n, (), "i32") for n in low]
        return trace.emit("dynamic-update-slice", x, new, *starts)
    around = (tuple(low), tuple(high), tuple(interior))
    spread = pad(trace, new, *around)
    if add:
        return trace.emit("add", x, spread)
    there = pad(trace, trace.full(True, new.type.shape, "bool"), *around)
    return trace.emit("select", there, spread, x)


def _by_tensors(
    trace: Trace, name: str, t: Tensor, value: Any, subscripts: list[Subscript], add: bool
) -> Value:
    """x with value put or added where integer tensors (and ranges beside them) name."""
    shape = t.type.shape
    ranges = [s for s in subscripts if s.kind == "range"]
    partial = any(s.range != range(shape[s.axis]) for s in ranges)
    inner = take_ranges(trace, t.value, ranges) if partial else t.value
    work = work_out(trace, name, t, subscripts)
    kept = [s for s in subscripts if s.kind in ("range", "new")]
    lengths = [1 if s.range is None else len(s.range) for s in kept]
    wanted = (*lengths[: work.place], *work.shape, *lengths[work.place :])
    new = value_for(name, t, value, wanted)
    # The ids' axes to the front, the new axes out: [ids…, the other axes of x…].
    count = len(work.shape)
    front = move_axes(len(wanted), range(work.place, work.place + count), range(count))
    rest = [axis for axis in range(len(shape)) if axis not in work.axes]
    new = transpose(trace, new, front)
    new = reshape(trace, new, (*work.shape, *[inner.type.shape[axis] for axis in rest]))
    order = (*work.axes, *rest)
    moved = transpose(trace, inner, order)
    op = "scatter-add" if add else "scatter"
    changed = trace.emit(op, moved, stacked(trace, work.ids), new)
    changed = transpose(trace, changed, inverse(order))
    if not partial:
        return changed
    every = [Subscript("range", axis, range(shape[axis])) for axis in work.axes]
    return _into_ranges(trace, t.value, changed, [*ranges, *every], False)


# ---------------------------------------------------------------------------- scatter


def _scattered(name: str, op: str, x: Any, ids: Any, values: Any) -> Tensor:
    t = tensor(name, "x", x)
    index = ids_of(name, "ids", ids)
    k = check_places(name, t, index)
    shape = (*index.type.shape[:-1], *t.type.shape[k:])
    new = value_for(name, t, values, shape, "values")
    return wrap(TRACES[-1].emit(op, t.value, index.value, new))


@tensor_function("scatter", "(x ids values)")
def scatter(x: Any, ids: Any, values: Any) -> Tensor:
    """x with values put at the places of its first k axes that ids [..., k] name; values
    broadcasts to ids' axes but the last, then the other axes of x."""
    return _scattered("scatter", "scatter", x, ids, values)


@tensor_function("scatter-add", "(x ids values)")
def scatter_add(x: Any, ids: Any, values: Any) -> Tensor:
    """As scatter, with the values added; a place named several times gets each addition."""
    return _scattered("scatter-add", "scatter-add", x, ids, values)


@tensor_function("dynamic-update-slice", "(x y starts)")
def dynamic_update_slice(x: Any, y: Any, starts: Any) -> Tensor:
    """x with the block y put at starts: one integer or scalar integer tensor for each axis. A start
    is held where the block fits."""
    name = "dynamic-update-slice"
    t = tensor(name, "x", x)
    block = tensor(name, "y", y)
    shape, own = t.type.shape, block.type.shape
    if len(own) != len(shape) or any(a > b for a, b in zip(own, shape, strict=True)):
        raise failure(
            E_SHAPE_006,
            f"{name}: the block {text(own)} does not fit into {text(shape)}",
            [("x", t), ("y", block)],
        )
    new = value_for(name, t, block, own, "y")
    return wrap(TRACES[-1].emit(name, t.value, new, *starts_of(name, t, starts)))
