"""Ops that read and write at given places. Knows no backend.

One rule for indices out of range, everywhere: an index below 0 or not below the extent reads NaN
(integers: the dtype's greatest value, bools: true), and writes nothing. Only the starts of
dynamic-slice and dynamic-update-slice are moved to the nearest that fits.
"""

from __future__ import annotations

from sexpgpu.diagnostics.codes.tensor import (
    E_DTYPE_001,
    E_DTYPE_002,
    E_OP_001,
    E_OP_002,
    E_SHAPE_001,
    E_SHAPE_003,
    E_SHAPE_005,
    E_SHAPE_006,
    E_SHAPE_008,
)
from sexpgpu.ir.graph import Attrs, Builder, Node, Value
from sexpgpu.ir.types import ANY, INTEGERS, NUMBERS, SIGNED, TensorType, integer_range
from sexpgpu.ops.building import zeros_like
from sexpgpu.ops.cost import gathered, movement, scattered
from sexpgpu.ops.rules import (
    MIXED,
    check_axis,
    check_count,
    check_rank,
    check_shape,
    list_of,
    merged_batch,
    same_dtype,
)
from sexpgpu.ops.samples import f32, i32
from sexpgpu.ops.schema import Cotangents, OpDef, OpError, Reject, Sample, Types, define

Shape = tuple[int, ...]


def _expect(name: str, what: str, given: TensorType, wanted: Shape, operand: int) -> None:
    if given.shape != wanted:
        raise OpError(
            E_SHAPE_001,
            f"{name}: {what} is {given}, wanted the shape {list_of(wanted)}",
            operand=operand,
        )


def _countable(b: Builder, ids: Value, extents: Shape) -> Value:
    """The indices in a dtype that holds the extents they are compared with: an axis of 256 has
    indices in u8, but 256 is none of its numbers."""
    most = max(extents, default=0)
    if most <= integer_range(ids.dtype)[1]:
        return ids
    return b.emit("cast", ids, dtype="i32" if most <= integer_range("i32")[1] else "i64")


def _within(b: Builder, ids: Value, extent: int) -> Value:
    """Which indices are in range."""
    ids = _countable(b, ids, (extent,))
    limit = b.emit("full", shape=ids.shape, value=extent, dtype=ids.dtype, batch=ids.type.batch)
    below = b.emit("lt", ids, limit)
    return b.emit("and", below, b.emit("ge", ids, zeros_like(b, ids)))


def _masked(b: Builder, mask: Value, x: Value, first: int) -> Value:
    """x where the mask, whose axes are x's from `first` on, holds; else 0."""
    if mask.shape != x.shape:
        dims = tuple(range(first, first + len(mask.shape)))
        mask = b.emit("broadcast", mask, shape=x.shape, dims=dims)
    return b.emit("select", mask, x, zeros_like(b, x))


# -- one axis: take -----------------------------------------------------------------------------


def _taken(x: TensorType, ids: TensorType, axis: int) -> TensorType:
    shape = (*x.shape[:axis], *ids.shape, *x.shape[axis + 1 :])
    check_shape("take", shape)
    batch = x.batch
    if batch is not None:
        batch = batch if batch < axis else MIXED if batch == axis else batch + ids.rank - 1
    picked = None if ids.batch is None else axis + ids.batch
    return TensorType(shape, x.dtype, merged_batch(batch, picked))


def _infer_take(types: Types, attrs: Attrs) -> TensorType:
    x, ids = types
    return _taken(x, ids, check_axis("take", x, attrs["axis"]))


def _vjp_take(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    x, ids = node.operands
    return b.emit("take-add", zeros_like(b, x), ids, dy, axis=node.attrs["axis"]), None


TAKE = define(
    OpDef(
        name="take",
        doc="Slices of x along an axis, at ids: x.shape[:axis] + ids.shape + x.shape[axis+1:].",
        operands=(ANY, INTEGERS),
        attrs={"axis": "axis"},
        infer=_infer_take,
        vjp=_vjp_take,
        precision="follow",
        cost=gathered,
        samples=(
            Sample(f32(4, 2), i32(3), low=0, high=4, axis=0),
            Sample(f32(4, 2), i32(2, 3, batch=0), low=0, high=4, axis=0),
            Sample(f32(2, 3), i32(4), low=0, high=3, axis=1),
            Sample(f32(3), i32(), low=0, high=3, axis=0),
            Sample(f32(4, 2), i32(8), low=-3, high=7, axis=0, grad=False),
            Sample(i32(4), i32(8), low=-3, high=7, axis=0, grad=False),
        ),
        rejects=(
            Reject(E_SHAPE_003, f32(3), i32(2), axis=1),
            Reject(E_DTYPE_001, f32(3), f32(2), axis=0),
            Reject(E_SHAPE_008, f32(3, 1 << 21), i32(1 << 20), axis=0),
        ),
    )
)


def _added(x: TensorType, first: int, last: int, ids: TensorType, values: TensorType) -> TensorType:
    """The type of x with something written along its axes from `first` up to `last`: examples
    that lie along those, or along the axes of the indices, are mixed."""
    batch = x.batch
    if batch is not None and first <= batch < last:
        batch = MIXED
    written = values.batch
    if written is not None and written >= first:
        after = values.rank - (x.rank - last)  # the axes of values from here on are x's from last
        written = MIXED if written < after else written - after + last
    picked = None if ids.batch is None else MIXED
    return TensorType(x.shape, x.dtype, merged_batch(batch, written, picked))


def _infer_take_add(types: Types, attrs: Attrs) -> TensorType:
    x, ids, values = types
    wanted = _taken(x, ids, check_axis("take-add", x, attrs["axis"]))
    same_dtype("take-add", types, (0, 2))
    _expect("take-add", "values", values, wanted.shape, 2)
    axis = attrs["axis"]
    return _added(x, axis, axis + 1, ids, values)


def _vjp_take_add(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    x, ids, _ = node.operands
    axis: int = node.attrs["axis"]
    read = b.emit("take", dy, ids, axis=axis)
    return dy, None, _masked(b, _within(b, ids, x.shape[axis]), read, axis)


TAKE_ADD = define(
    OpDef(
        name="take-add",
        doc="x with values added at ids along an axis; values of one place add up.",
        operands=(NUMBERS, INTEGERS, NUMBERS),
        attrs={"axis": "axis"},
        infer=_infer_take_add,
        vjp=_vjp_take_add,
        precision="f32",
        cost=scattered,
        samples=(
            Sample(f32(4, 2), i32(3), f32(3, 2), low=0, high=4, axis=0),
            Sample(f32(2, 3), i32(4), f32(2, 4), low=0, high=3, axis=1),
            Sample(f32(4), i32(2, 3), f32(2, 3), low=0, high=4, axis=0),
            Sample(f32(4), i32(8), f32(8), low=-3, high=7, axis=0),
            Sample(i32(4), i32(8), i32(8), low=-3, high=7, axis=0, grad=False),
        ),
        rejects=(
            Reject(E_SHAPE_003, f32(3), i32(2), f32(2), axis=1),
            Reject(E_SHAPE_001, f32(3), i32(2), f32(3), axis=0),
            Reject(E_DTYPE_002, f32(3), i32(2), i32(2), axis=0),
        ),
    )
)

# -- one axis, an index for each element: take-along --------------------------------------------


def _check_along(name: str, x: TensorType, ids: TensorType, axis: int) -> None:
    check_axis(name, x, axis)
    check_rank(name, ids, x.rank, "ids", 1)
    for i, (m, n) in enumerate(zip(x.shape, ids.shape, strict=True)):
        if m != n and i != axis:
            raise OpError(
                E_SHAPE_001,
                f"{name} along axis {axis}: shapes {list_of(x.shape)} and {list_of(ids.shape)} "
                f"differ on axis {i}, {m} and {n}",
                operand=1,
            )


def _infer_take_along(types: Types, attrs: Attrs) -> TensorType:
    x, ids = types
    axis = attrs["axis"]
    _check_along("take-along", x, ids, axis)
    batch = merged_batch(MIXED if x.batch == axis else x.batch, ids.batch)
    return TensorType(ids.shape, x.dtype, batch)


def _vjp_take_along(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    x, ids = node.operands
    return b.emit("put-along-add", zeros_like(b, x), ids, dy, axis=node.attrs["axis"]), None


TAKE_ALONG = define(
    OpDef(
        name="take-along",
        doc="x at ids along an axis, element by element: the other axes are shared.",
        operands=(ANY, INTEGERS),
        attrs={"axis": "axis"},
        infer=_infer_take_along,
        vjp=_vjp_take_along,
        precision="follow",
        cost=gathered,
        samples=(
            Sample(f32(2, 3, batch=0), i32(2, 2, batch=0), low=0, high=3, axis=1),
            Sample(f32(3, 2), i32(4, 2), low=0, high=3, axis=0),
            Sample(f32(3), i32(6), low=-3, high=6, axis=0, grad=False),
            Sample(i32(3), i32(6), low=-3, high=6, axis=0, grad=False),
        ),
        rejects=(
            Reject(E_SHAPE_003, f32(3), i32(3), axis=1),
            Reject(E_SHAPE_005, f32(3, 2), i32(3), axis=0),
            Reject(E_SHAPE_001, f32(3, 2), i32(2, 2), axis=1),
            Reject(E_DTYPE_001, f32(3), f32(3), axis=0),
        ),
    )
)


def _infer_put_along_add(types: Types, attrs: Attrs) -> TensorType:
    x, ids, values = types
    _check_along("put-along-add", x, ids, attrs["axis"])
    same_dtype("put-along-add", types, (0, 2))
    _expect("put-along-add", "values", values, ids.shape, 2)
    along = [MIXED if t.batch == attrs["axis"] else t.batch for t in types]
    return TensorType(x.shape, x.dtype, merged_batch(*along))


def _vjp_put_along_add(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    x, ids, _ = node.operands
    axis: int = node.attrs["axis"]
    read = b.emit("take-along", dy, ids, axis=axis)
    return dy, None, _masked(b, _within(b, ids, x.shape[axis]), read, 0)


PUT_ALONG_ADD = define(
    OpDef(
        name="put-along-add",
        doc="x with values added at ids along an axis, element by element; those of one place add.",
        operands=(NUMBERS, INTEGERS, NUMBERS),
        attrs={"axis": "axis"},
        infer=_infer_put_along_add,
        vjp=_vjp_put_along_add,
        precision="f32",
        cost=scattered,
        samples=(
            Sample(f32(2, 3), i32(2, 2), f32(2, 2), low=0, high=3, axis=1),
            Sample(f32(3, 2), i32(4, 2), f32(4, 2), low=0, high=3, axis=0),
            Sample(f32(3), i32(6), f32(6), low=-3, high=6, axis=0),
            Sample(i32(3), i32(6), i32(6), low=-3, high=6, axis=0, grad=False),
        ),
        rejects=(
            Reject(E_SHAPE_003, f32(3), i32(3), f32(3), axis=1),
            Reject(E_SHAPE_005, f32(3, 2), i32(3), f32(3), axis=0),
            Reject(E_SHAPE_001, f32(3), i32(2), f32(3), axis=0),
            Reject(E_DTYPE_002, f32(3), i32(2), i32(2), axis=0),
        ),
    )
)

# -- the first axes: gather, scatter ------------------------------------------------------------


def _gathered(name: str, x: TensorType, ids: TensorType) -> TensorType:
    """The type of x at ids [..., k]: ids.shape[:-1] + x.shape[k:]."""
    if ids.rank == 0:
        raise OpError(
            E_SHAPE_005, f"{name}: ids is {ids}, wanted a last axis of indices", operand=1
        )
    count = ids.shape[-1]
    if count > x.rank:
        raise OpError(
            E_SHAPE_005,
            f"{name}: ids {list_of(ids.shape)} index the first {count} axes of a tensor of rank "
            f"{x.rank}, {x}",
            operand=1,
        )
    kept = x.batch
    if kept is not None:
        kept = ids.rank - 1 + kept - count if kept >= count else MIXED
    picked = MIXED if ids.batch == ids.rank - 1 else ids.batch
    shape = (*ids.shape[:-1], *x.shape[count:])
    check_shape(name, shape)
    return TensorType(shape, x.dtype, merged_batch(kept, picked))


def _inside(b: Builder, x: Value, ids: Value) -> Value:
    """Which index tuples are in range, of the shape ids.shape[:-1]."""
    lead, count = ids.shape[:-1], ids.shape[-1]
    if count == 0:
        return b.emit("full", shape=lead, value=True, dtype="bool", batch=None)
    ids = _countable(b, ids, x.shape[:count])
    limits = b.emit("literal", shape=(count,), dtype=ids.dtype, values=x.shape[:count])
    spread = b.emit("broadcast", limits, shape=ids.shape, dims=(len(lead),))
    good = b.emit("and", b.emit("lt", ids, spread), b.emit("ge", ids, zeros_like(b, ids)))
    return b.emit("all", good, axes=(len(lead),))


def _read_inside(b: Builder, dy: Value, ids: Value) -> Value:
    return _masked(b, _inside(b, dy, ids), b.emit("gather", dy, ids), 0)


def _vjp_gather(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    x, ids = node.operands
    return b.emit("scatter-add", zeros_like(b, x), ids, dy), None


GATHER = define(
    OpDef(
        name="gather",
        doc="x at index tuples: ids [..., k] index the first k axes; ids.shape[:-1] + x.shape[k:].",
        operands=(ANY, INTEGERS),
        attrs={},
        infer=lambda types, attrs: _gathered("gather", types[0], types[1]),
        vjp=_vjp_gather,
        precision="follow",
        cost=gathered,
        samples=(
            Sample(f32(3, 4), i32(5, 2), low=0, high=3),
            Sample(f32(3, 4), i32(2, 2, 1, batch=0), low=0, high=3),
            Sample(f32(3), i32(1), low=0, high=3),
            Sample(f32(3, 2), i32(4, 0)),
            Sample(f32(3, 2), i32(6, 2), low=-2, high=4, grad=False),
            Sample(i32(3, 2), i32(6, 1), low=-2, high=4, grad=False),
        ),
        rejects=(
            Reject(E_SHAPE_005, f32(3), i32()),
            Reject(E_SHAPE_005, f32(3), i32(4, 2)),
            Reject(E_DTYPE_001, f32(3), f32(1)),
            Reject(E_SHAPE_008, f32(3, 1 << 21), i32(1 << 20, 1)),
        ),
    )
)


def _infer_scatter(name: str, types: Types) -> TensorType:
    x, ids, values = types
    wanted = _gathered(name, x, ids)
    same_dtype(name, types, (0, 2))
    _expect(name, "values", values, wanted.shape, 2)
    return _added(x, 0, ids.shape[-1], ids, values)


def _vjp_scatter(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    _, ids, values = node.operands
    return b.emit("scatter", dy, ids, zeros_like(b, values)), None, _read_inside(b, dy, ids)


def _vjp_scatter_add(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    return dy, None, _read_inside(b, dy, node.operands[1])


_SCATTER_REJECTS = (
    Reject(E_SHAPE_005, f32(3), i32(), f32()),
    Reject(E_SHAPE_005, f32(3), i32(4, 2), f32(4)),
    Reject(E_SHAPE_001, f32(3), i32(4, 1), f32(3)),
    Reject(E_DTYPE_002, f32(3), i32(4, 1), i32(4)),
)
SCATTER = define(
    OpDef(
        name="scatter",
        doc="x with values in the places that gather reads. Of two for one place either may win.",
        operands=(ANY, INTEGERS, ANY),
        attrs={},
        infer=lambda types, attrs: _infer_scatter("scatter", types),
        vjp=_vjp_scatter,
        precision="follow",
        cost=movement,
        samples=(
            Sample(f32(5), i32(1, 1), f32(1), low=0, high=5),
            Sample(f32(5, 2), i32(1), f32(2), low=0, high=5),
            Sample(f32(5), i32(3, 1), f32(3), low=5, high=9),
            Sample(f32(3, 2), i32(1, 0), f32(1, 3, 2)),
            Sample(i32(5), i32(1, 1), i32(1), low=0, high=5, grad=False),
        ),
        rejects=_SCATTER_REJECTS,
    )
)
SCATTER_ADD = define(
    OpDef(
        name="scatter-add",
        doc="x with values added in the places that gather reads; values of one place add up.",
        operands=(NUMBERS, INTEGERS, NUMBERS),
        attrs={},
        infer=lambda types, attrs: _infer_scatter("scatter-add", types),
        vjp=_vjp_scatter_add,
        precision="f32",
        cost=scattered,
        samples=(
            Sample(f32(3, 4), i32(5, 2), f32(5), low=0, high=3),
            Sample(f32(3, 2), i32(4, 1), f32(4, 2), low=-2, high=5),
            Sample(f32(3, 2), i32(4, 0), f32(4, 3, 2)),
            Sample(i32(3), i32(5, 1), i32(5), low=-2, high=5, grad=False),
        ),
        rejects=_SCATTER_REJECTS,
    )
)

# -- windows at computed places -----------------------------------------------------------------


def _check_starts(name: str, x: TensorType, starts: Types, first: int) -> None:
    if len(starts) != x.rank:
        raise OpError(
            E_OP_002, f"{name}: {len(starts)} starts for a tensor of rank {x.rank}, {x}", operand=0
        )
    for index, start in enumerate(starts):
        check_rank(name, start, 0, f"start {index}", first + index)


def _check_window(name: str, x: TensorType, sizes: Shape, operand: int) -> None:
    for axis, (extent, size) in enumerate(zip(x.shape, sizes, strict=True)):
        if not 0 <= size <= extent:
            raise OpError(
                E_SHAPE_006,
                f"{name}: a window of {size} on axis {axis}, whose extent is {extent}, of {x}",
                operand=operand,
            )


def _infer_dynamic_slice(types: Types, attrs: Attrs) -> TensorType:
    x, starts, sizes = types[0], types[1:], attrs["sizes"]
    check_count("dynamic-slice", "sizes", len(sizes), x.rank)
    _check_starts("dynamic-slice", x, starts, 1)
    _check_window("dynamic-slice", x, sizes, 0)
    batch = x.batch
    if batch is not None and sizes[batch] != x.shape[batch]:
        batch = None
    return TensorType(sizes, x.dtype, batch)


def _vjp_dynamic_slice(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    x, *starts = node.operands
    dx = b.emit("dynamic-update-slice", zeros_like(b, x), dy, *starts)
    return (dx, *[None] * len(starts))


DYNAMIC_SLICE = define(
    OpDef(
        name="dynamic-slice",
        doc="The window of x of given sizes at starts, moved to the nearest place that fits.",
        operands=(ANY, SIGNED),
        attrs={"sizes": "ints"},
        infer=_infer_dynamic_slice,
        vjp=_vjp_dynamic_slice,
        precision="follow",
        cost=gathered,
        variadic=True,
        samples=(
            Sample(f32(5), i32(), low=0, high=5, sizes=(3,)),
            Sample(f32(2, 4, batch=0), i32(), i32(), low=-3, high=6, sizes=(2, 2)),
            Sample(i32(4), i32(), low=0, high=4, sizes=(2,), grad=False),
        ),
        rejects=(
            Reject(E_OP_001, f32(3), i32(), sizes=(1, 1)),
            Reject(E_OP_002, f32(3), sizes=(1,)),
            Reject(E_SHAPE_005, f32(3), i32(1), sizes=(1,)),
            Reject(E_SHAPE_006, f32(3), i32(), sizes=(4,)),
            Reject(E_DTYPE_001, f32(3), f32(), sizes=(1,)),
        ),
    )
)


def _infer_dynamic_update_slice(types: Types, attrs: Attrs) -> TensorType:
    x, y, starts = types[0], types[1], types[2:]
    same_dtype("dynamic-update-slice", types, (0, 1))
    check_rank("dynamic-update-slice", y, x.rank, "the update", 1)
    _check_starts("dynamic-update-slice", x, starts, 2)
    _check_window("dynamic-update-slice", x, y.shape, 1)
    whole = [
        MIXED if t.batch is not None and y.shape[t.batch] != x.shape[t.batch] else t.batch
        for t in (x, y)
    ]
    return TensorType(x.shape, x.dtype, merged_batch(*whole))


def _vjp_dynamic_update_slice(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    _, y, *starts = node.operands
    dx = b.emit("dynamic-update-slice", dy, zeros_like(b, y), *starts)
    window = b.emit("dynamic-slice", dy, *starts, sizes=y.shape)
    return (dx, window, *[None] * len(starts))


DYNAMIC_UPDATE_SLICE = define(
    OpDef(
        name="dynamic-update-slice",
        doc="x with y in the window at starts, moved to the nearest place that fits.",
        operands=(ANY, ANY, SIGNED),
        attrs={},
        infer=_infer_dynamic_update_slice,
        vjp=_vjp_dynamic_update_slice,
        precision="follow",
        cost=movement,
        variadic=True,
        samples=(
            Sample(f32(5), f32(2), i32(), low=0, high=5),
            Sample(f32(2, 4, batch=0), f32(2, 2, batch=0), i32(), i32(), low=-3, high=6),
            Sample(i32(4), i32(2), i32(), low=0, high=4, grad=False),
        ),
        rejects=(
            Reject(E_DTYPE_002, f32(3), i32(1), i32()),
            Reject(E_SHAPE_005, f32(3), f32(), i32()),
            Reject(E_OP_002, f32(3), f32(1)),
            Reject(E_SHAPE_006, f32(3), f32(4), i32()),
        ),
    )
)
