"""Functions that rearrange elements without computing on them.

Shapes are lists of ordinary integers; axes count from the end when negative.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sexpgpu.diagnostics.codes.tensor import E_SHAPE_001, E_SHAPE_003, E_SHAPE_004, E_SHAPE_006
from sexpgpu.ir.graph import Value
from sexpgpu.ir.types import BOOL
from sexpgpu.lisp.values import NIL, lisp_list
from sexpgpu.reader.printer import brief
from sexpgpu.trace.arguments import (
    axes_of,
    axis_of,
    bad,
    choice,
    integer,
    is_number,
    items_of,
    plain,
    shape_of,
    tensor,
    tensors,
    wrong_rank,
)
from sexpgpu.trace.context import TRACES, Trace
from sexpgpu.trace.declare import tensor_function
from sexpgpu.trace.errors import failure
from sexpgpu.trace.primitives import (
    broadcast,
    concat,
    cut,
    drop_axes,
    expand,
    pad,
    size_of,
)
from sexpgpu.trace.primitives import reshape as reshape_value
from sexpgpu.trace.primitives import transpose as transpose_value
from sexpgpu.trace.promote import ANY, check_number, same_dtype
from sexpgpu.trace.tensor import Tensor, wrap

Shape = tuple[int, ...]


def text(shape: Sequence[int]) -> str:
    """A shape as it is written."""
    return "(" + " ".join(map(str, shape)) + ")"


@tensor_function("reshape", "(x shape)")
def reshape(x: Any, shape: Any) -> Tensor:
    """The same elements in row-major order in another shape; one extent may be -1."""
    t = tensor("reshape", "x", x)
    sizes = items_of("reshape", "the shape", shape) if not isinstance(shape, int) else None
    if sizes is not None and sizes.count(-1) == 1:
        at = sizes.index(-1)
        others = plain(shape_of("reshape", lisp_list([*sizes[:at], *sizes[at + 1 :]])))
        known = size_of(others)
        if known == 0 or t.type.size % known:
            raise _sizes_differ(t, shape)
        wanted = (*others[:at], t.type.size // known, *others[at:])
    else:
        wanted = plain(shape_of("reshape", shape))
        if size_of(wanted) != t.type.size:
            raise _sizes_differ(t, shape)
    return wrap(reshape_value(TRACES[-1], t.value, wanted))


def _sizes_differ(t: Tensor, shape: Any) -> Exception:
    return failure(
        E_SHAPE_004,
        f"reshape: {text(t.type.shape)} has {t.type.size} elements, "
        f"the shape {brief(shape)} does not",
        [("x", t)],
    )


@tensor_function("flatten", "(x &key from)")
def flatten(x: Any, from_: Any = 0) -> Tensor:
    """x with the axes from `from` to the last made one: all of them unless said. To keep the batch
    axis write (flatten x :from 1)."""
    t = tensor("flatten", "x", x)
    shape = t.type.shape
    start = axis_of("flatten", from_, len(shape), [("x", t)]) if shape else 0
    return wrap(reshape_value(TRACES[-1], t.value, (*shape[:start], size_of(shape[start:]))))


@tensor_function("transpose", "(x &optional perm)")
def transpose(x: Any, perm: Any = None) -> Tensor:
    """x with its axes in another order: axis i of the result is axis perm[i] of x. Without perm
    the last two axes are swapped."""
    t = tensor("transpose", "x", x)
    rank = len(t.type.shape)
    if perm is None or perm is NIL:
        if rank < 2:
            raise wrong_rank(
                "transpose",
                "x must have at least two axes",
                [("x", t)],
                "give the order of the axes: (transpose x (list 1 0))",
            )
        order = (*range(rank - 2), rank - 1, rank - 2)
    else:
        listed = items_of("transpose", "perm", perm)
        order = tuple([axis_of("transpose", p, rank, [("x", t)]) for p in listed])
        if len(set(order)) != rank or len(order) != rank:
            raise failure(
                E_SHAPE_003,
                f"transpose: {brief(perm)} does not name each of {rank} axes once",
                [("x", t)],
            )
    return wrap(transpose_value(TRACES[-1], t.value, order))


@tensor_function("broadcast-to", "(x shape)")
def broadcast_to(x: Any, shape: Any) -> Tensor:
    """x stretched to the shape: axes aligned at the last, an extent of 1 repeats."""
    t = tensor("broadcast-to", "x", x)
    wanted = plain(shape_of("broadcast-to", shape))
    own = t.type.shape
    offset = len(wanted) - len(own)
    if offset < 0 or any(n not in (1, wanted[offset + at]) for at, n in enumerate(own)):
        raise failure(
            E_SHAPE_001,
            f"broadcast-to: {text(own)} does not broadcast to {text(wanted)}",
            [("x", t)],
        )
    return wrap(broadcast(TRACES[-1], t.value, wanted))


@tensor_function("expand-dims", "(x axis)")
def expand_dims(x: Any, axis: Any) -> Tensor:
    """x with an axis of extent 1 put in, which is then axis `axis` of the result."""
    t = tensor("expand-dims", "x", x)
    at = axis_of("expand-dims", axis, len(t.type.shape), [("x", t)], extra=1)
    return wrap(expand(TRACES[-1], t.value, at))


@tensor_function("squeeze", "(x &key axis)")
def squeeze(x: Any, axis: Any = None) -> Tensor:
    """x without the named axes, whose extent must be 1; without :axis, without all such axes."""
    t = tensor("squeeze", "x", x)
    shape = t.type.shape
    if axis is None or axis is NIL:
        axes = tuple([at for at, n in enumerate(shape) if n == 1])
    else:
        axes = axes_of("squeeze", axis, len(shape), [("x", t)])
        for at in axes:
            if shape[at] != 1:
                raise failure(
                    E_SHAPE_003,
                    f"squeeze: axis {at} of {text(shape)} has the extent {shape[at]}, not 1",
                    [("x", t)],
                )
    return wrap(drop_axes(TRACES[-1], t.value, axes))


# ---------------------------------------------------------------------------- joining


def _alike(name: str, xs: Any) -> tuple[list[Tensor], list[Value]]:
    """The tensors of a list, and their values in one dtype."""
    listed = tensors(name, "xs", xs)
    return listed, same_dtype(name, listed, ANY)


@tensor_function("concat", "(xs &key axis)")
def concat_function(xs: Any, axis: Any = 0) -> Tensor:
    """The tensors of a list one after the other along an axis (the first unless said); their other
    extents are equal."""
    listed, values = _alike("concat", xs)
    shape = listed[0].type.shape
    operands = [(f"element {i}", t) for i, t in enumerate(listed)]
    if not shape:
        raise wrong_rank("concat", "scalars have no axis", operands, "use stack-tensors")
    along = axis_of("concat", axis, len(shape), operands)
    for at, t in enumerate(listed[1:], 1):
        other = t.type.shape
        if len(other) != len(shape) or any(
            a != b for i, (a, b) in enumerate(zip(shape, other, strict=True)) if i != along
        ):
            raise failure(
                E_SHAPE_001,
                f"concat along axis {along}: shapes {text(shape)} and {text(other)} differ "
                "elsewhere",
                [("element 0", listed[0]), (f"element {at}", t)],
            )
    return wrap(concat(TRACES[-1], values, along))


@tensor_function("stack-tensors", "(xs &key axis)")
def stack_tensors(xs: Any, axis: Any = 0) -> Tensor:
    """The tensors of a list, of one shape, along a new axis (the first unless said)."""
    trace = TRACES[-1]
    listed, values = _alike("stack-tensors", xs)
    shape = listed[0].type.shape
    for at, t in enumerate(listed):
        if t.type.shape != shape:
            raise failure(
                E_SHAPE_001,
                f"stack-tensors: shapes {text(shape)} and {text(t.type.shape)} differ",
                [("element 0", listed[0]), (f"element {at}", t)],
            )
    along = axis_of("stack-tensors", axis, len(shape), [("element 0", listed[0])], extra=1)
    return wrap(concat(trace, [expand(trace, v, along) for v in values], along))


@tensor_function("split", "(x parts &key axis)")
def split(x: Any, parts: Any, axis: Any = 0) -> Any:
    """x cut along an axis (the first unless said) into that many equal parts, or into parts of the
    listed sizes: a list of tensors."""
    t = tensor("split", "x", x)
    shape = t.type.shape
    along = axis_of("split", axis, len(shape), [("x", t)])
    extent = shape[along]
    if isinstance(parts, int):
        count = integer("split", "the number of parts", parts, 1)
        if extent % count:
            raise failure(
                E_SHAPE_006,
                f"split: axis {along} of {text(shape)} does not divide into {count} equal parts",
                [("x", t)],
                fix="give the sizes of the parts as a list",
            )
        sizes = [extent // count] * count
    else:
        sizes = [integer("split", "a size", s, 0) for s in items_of("split", "the parts", parts)]
        if sum(sizes) != extent:
            raise failure(
                E_SHAPE_006,
                f"split: the sizes {text(sizes)} add up to {sum(sizes)}, "
                f"axis {along} of {text(shape)} has {extent}",
                [("x", t)],
            )
    found: list[Tensor] = []
    start = 0
    for size in sizes:
        found.append(wrap(cut(TRACES[-1], t.value, along, start, start + size)))
        start += size
    return lisp_list(found)


# ---------------------------------------------------------------------------- around and again


@tensor_function("pad", "(x pairs &key mode value)")
def pad_function(x: Any, pairs: Any, mode: Any = None, value: Any = 0) -> Tensor:
    """x with elements added at the ends of its axes: pairs is a list of (before after), or of one
    number for both, for each axis. :mode :constant (the :value, 0 unless said), :edge (the last
    element again), :reflect (mirrored, without the edge), :symmetric (with it), :wrap."""
    t = tensor("pad", "x", x)
    shape, dtype = t.type.shape, t.type.dtype
    amounts = _pairs_of(pairs, shape, t)
    kinds = ("constant", "edge", "reflect", "symmetric", "wrap")
    how = "constant" if mode is None else choice("pad", ":mode", mode, kinds)
    trace = TRACES[-1]
    if how == "constant":
        low, high = tuple(a for a, _ in amounts), tuple(b for _, b in amounts)
        if dtype in BOOL:
            fill: Any = value is not NIL and value != 0
        elif is_number(value):
            check_number("pad", value, dtype)
            fill = value if isinstance(value, int) else float(value)
        else:
            raise bad("pad", ":value", value, "an ordinary number")
        return wrap(pad(trace, t.value, low, high, None, fill))
    result = t.value
    for axis, (low, high) in enumerate(amounts):
        if low or high:
            result = _extended(trace, result, axis, low, high, how, t)
    return wrap(result)


def _pairs_of(pairs: Any, shape: Shape, t: Tensor) -> list[tuple[int, int]]:
    items = items_of("pad", "pairs", pairs)
    if len(items) != len(shape):
        raise failure(
            E_SHAPE_006,
            f"pad: {len(items)} pairs for a tensor of rank {len(shape)}",
            [("x", t)],
            fix="give a (before after) pair for each axis; (0 0) leaves one as it is",
        )
    found: list[tuple[int, int]] = []
    for item in items:
        if isinstance(item, int):
            amount = integer("pad", "an amount", item, 0)
            found.append((amount, amount))
            continue
        both = items_of("pad", "a pair", item)
        if len(both) != 2:
            raise bad("pad", "a pair", item, "a list of two integers")
        found.append(
            (integer("pad", "an amount", both[0], 0), integer("pad", "an amount", both[1], 0))
        )
    return found


def _extended(trace: Trace, x: Value, axis: int, low: int, high: int, how: str, t: Tensor) -> Value:
    """x with `low` elements before and `high` after along one axis, taken from x itself."""
    extent = x.type.shape[axis]
    most = extent - 1 if how == "reflect" else extent
    if max(low, high) > most and not (how == "edge" and extent):
        raise failure(
            E_SHAPE_006,
            f"pad: mode :{how} adds at most {most} elements to axis {axis} of {text(t.type.shape)}",
            [("x", t)],
        )

    def mirrored(start: int, limit: int) -> Value:
        return trace.emit("reverse", cut(trace, x, axis, start, limit), axes=(axis,))

    def repeated(at: int, count: int) -> Value:
        shape = x.type.shape
        one = cut(trace, x, axis, at, at + 1)
        return broadcast(trace, one, (*shape[:axis], count, *shape[axis + 1 :]))

    parts: list[Value] = []
    if low:
        if how == "edge":
            parts.append(repeated(0, low))
        elif how == "wrap":
            parts.append(cut(trace, x, axis, extent - low, extent))
        else:
            first = 1 if how == "reflect" else 0
            parts.append(mirrored(first, first + low))
    parts.append(x)
    if high:
        if how == "edge":
            parts.append(repeated(extent - 1, high))
        elif how == "wrap":
            parts.append(cut(trace, x, axis, 0, high))
        else:
            last = extent - 1 if how == "reflect" else extent
            parts.append(mirrored(last - high, last))
    return concat(trace, parts, axis)


@tensor_function("flip", "(x &key axis)")
def flip(x: Any, axis: Any = None) -> Tensor:
    """x with the axes (all unless said) in the opposite direction."""
    t = tensor("flip", "x", x)
    axes = axes_of("flip", axis, len(t.type.shape), [("x", t)])
    return wrap(TRACES[-1].emit("reverse", t.value, axes=axes) if axes else t.value)


@tensor_function("roll", "(x n &key axis)")
def roll(x: Any, n: Any, axis: Any = 0) -> Tensor:
    """x shifted by n places along an axis (the first unless said); what falls off the end comes in
    at the start."""
    trace = TRACES[-1]
    t = tensor("roll", "x", x)
    along = axis_of("roll", axis, len(t.type.shape), [("x", t)])
    extent = t.type.shape[along]
    shift = integer("roll", "n", n) % extent if extent else 0
    if not shift:
        return wrap(t.value)
    parts = [
        cut(trace, t.value, along, extent - shift, extent),
        cut(trace, t.value, along, 0, extent - shift),
    ]
    return wrap(concat(trace, parts, along))


@tensor_function("tile", "(x reps)")
def tile(x: Any, reps: Any) -> Tensor:
    """x repeated as a whole reps[i] times along axis i; aligned at the last axis as in NumPy."""
    trace = TRACES[-1]
    t = tensor("tile", "x", x)
    listed: list[Any] = [reps] if isinstance(reps, int) else items_of("tile", "reps", reps)
    counts = [integer("tile", "a count", c, 0) for c in listed]
    shape = t.type.shape
    rank = max(len(shape), len(counts))
    own = (1,) * (rank - len(shape)) + shape
    counts = [1] * (rank - len(counts)) + counts
    split_shape: list[int] = []
    target: list[int] = []
    for count, extent in zip(counts, own, strict=True):
        if count != 1:
            split_shape.append(1)
            target.append(count)
        split_shape.append(extent)
        target.append(extent)
    spread = broadcast(trace, reshape_value(trace, t.value, tuple(split_shape)), tuple(target))
    final = tuple([c * n for c, n in zip(counts, own, strict=True)])
    return wrap(reshape_value(trace, spread, final))


@tensor_function("repeat-elements", "(x n &key axis)")
def repeat_elements(x: Any, n: Any, axis: Any = 0) -> Tensor:
    """x with each element along an axis (the first unless said) standing n times in a row."""
    t = tensor("repeat-elements", "x", x)
    along = axis_of("repeat-elements", axis, len(t.type.shape), [("x", t)])
    count = integer("repeat-elements", "n", n, 0)
    return wrap(repeated(TRACES[-1], t.value, along, count))


def repeated(trace: Trace, x: Value, axis: int, count: int) -> Value:
    """x with each element along the axis standing `count` times in a row."""
    if count == 1:
        return x
    shape = x.type.shape
    apart = expand(trace, x, axis + 1)
    spread = broadcast(trace, apart, (*shape[: axis + 1], count, *shape[axis + 1 :]))
    return reshape_value(trace, spread, (*shape[:axis], shape[axis] * count, *shape[axis + 1 :]))
