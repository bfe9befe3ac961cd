"""Sorting, the greatest few, and places among sorted edges.

Stable: equal elements stay in the order they had. NaN comes last in a sort, whatever its
direction; among the greatest it comes first, as in amax and argmax.
"""

from __future__ import annotations

from typing import Any

from sexpgpu.diagnostics.codes.tensor import E_SHAPE_001, E_SHAPE_006
from sexpgpu.ir.graph import Value
from sexpgpu.lisp.values import MV, NIL
from sexpgpu.trace.arguments import axis_of, choice, integer, tensor, wrong_rank
from sexpgpu.trace.context import TRACES
from sexpgpu.trace.declare import tensor_function
from sexpgpu.trace.errors import failure
from sexpgpu.trace.functions.shape import text
from sexpgpu.trace.primitives import Shape, cast, cut, move_axes, transpose
from sexpgpu.trace.promote import NUMBER, constant, same_dtype
from sexpgpu.trace.tensor import Tensor, wrap


def _read(name: str, x: Any) -> tuple[Tensor, Value]:
    """x with at least one axis, and its numbers; of bools false is below true."""
    t = tensor(name, "x", x)
    if not t.type.shape:
        raise wrong_rank(name, "a scalar has no order", [("x", t)])
    value = t.value
    return t, cast(TRACES[-1], value, "u8") if value.type.dtype == "bool" else value


def _sorted(name: str, x: Any, axis: Any, descending: Any) -> tuple[Tensor, tuple[Value, ...]]:
    t, value = _read(name, x)
    along = axis_of(name, axis, len(t.type.shape), [("x", t)])
    attrs = {"axis": along, "descending": descending is not NIL}
    return t, TRACES[-1].builder.node("sort", (value,), attrs).results


@tensor_function("tensor-sort", "(x &key axis descending)")
def tensor_sort(x: Any, axis: Any = -1, descending: Any = NIL) -> Tensor:
    """x with its elements in increasing order along the axis (the last unless said), with
    :descending t in decreasing order. Stable; NaN last in both directions."""
    t, (values, _) = _sorted("tensor-sort", x, axis, descending)
    return wrap(cast(TRACES[-1], values, t.type.dtype))


@tensor_function("argsort", "(x &key axis descending)")
def argsort(x: Any, axis: Any = -1, descending: Any = NIL) -> Tensor:
    """Where the elements of tensor-sort's result stand in x, i32: (take-along x (argsort x)) is
    (tensor-sort x)."""
    return wrap(_sorted("argsort", x, axis, descending)[1][1])


@tensor_function("top-k", "(x k &key axis smallest)")
def top_k(x: Any, k: Any, axis: Any = -1, smallest: Any = NIL) -> MV:
    """Two values: the k greatest along the axis (the last unless said) in decreasing order, and
    their places, i32; with :smallest t the k least in increasing order. NaN counts as the
    greatest; of equals the first comes first."""
    trace = TRACES[-1]
    t, value = _read("top-k", x)
    shape = t.type.shape
    along = axis_of("top-k", axis, len(shape), [("x", t)])
    count = integer("top-k", "k", k, 0)
    if count > shape[along]:
        raise failure(
            E_SHAPE_006,
            f"top-k: {count} of axis {along}, whose extent is {shape[along]}",
            [("x", t)],
            fix=f"k is at most {shape[along]}",
        )
    node = trace.builder.node
    if smallest is not NIL:
        results = node("sort", (value,), {"axis": along, "descending": False}).results
        results = tuple([cut(trace, v, along, 0, count) for v in results])
    else:
        last = len(shape) - 1
        moved = transpose(trace, value, move_axes(len(shape), (along,), (last,)))
        results = node("top-k", (moved,), {"k": count}).results
        back = move_axes(len(shape), (last,), (along,))
        results = tuple([transpose(trace, v, back) for v in results])
    return MV([wrap(cast(trace, results[0], t.type.dtype)), wrap(results[1])])


@tensor_function("searchsorted", "(edges x &key side)")
def searchsorted(edges: Any, x: Any, side: Any = None) -> Tensor:
    """How many of the edges, sorted along their last axis, are below each element of x, i32: where
    to put it so that they stay sorted. With :side :right how many are not above it. edges [n] for
    any x, or edges [..., n] for the rows of x [..., m]."""
    name = "searchsorted"
    how = "left" if side is None else choice(name, ":side", side, ("left", "right"))
    listed = tensor(name, "edges", edges)
    operands = [("edges", listed), ("x", x)]
    own = listed.type.shape
    if not own:
        raise wrong_rank(name, "edges must have an axis", operands)
    below, above = same_dtype(name, (listed, x), NUMBER, ("edges", "x"))
    if not isinstance(above, Value):
        above = constant(TRACES[-1], name, above[0], (), above[1])
    shape: Shape = above.type.shape
    if len(own) > 1 and own[:-1] != shape[:-1]:
        raise failure(
            E_SHAPE_001,
            f"{name}: edges {text(own)} and x {text(shape)} must agree before their last axis",
            operands,
        )
    return wrap(TRACES[-1].emit(name, below, above, side=how))
