"""Products of tensors. Sums are accumulated as the run's precision says (docs/numerics.md)."""

from __future__ import annotations

from typing import Any

from sexpgpu.diagnostics.codes.tensor import E_SHAPE_001, E_SHAPE_002
from sexpgpu.ir.graph import Value
from sexpgpu.trace.arguments import axes_of, bad, integer, items_of, tensor, wrong_rank
from sexpgpu.trace.context import TRACES, Trace
from sexpgpu.trace.declare import tensor_function
from sexpgpu.trace.errors import Named, failure
from sexpgpu.trace.functions.contract import contract, dot
from sexpgpu.trace.functions.shape import text
from sexpgpu.trace.primitives import Shape, reshape
from sexpgpu.trace.promote import NUMBER, same_dtype
from sexpgpu.trace.tensor import Tensor, wrap


def two(name: str, a: Any, b: Any) -> tuple[Value, Value, Named]:
    """Two tensors in one dtype of numbers, and both for messages."""
    x, y = tensor(name, "a", a), tensor(name, "b", b)
    if x.type.dtype == y.type.dtype == "f32":
        return x.value, y.value, (("a", x), ("b", y))
    values = same_dtype(name, (x, y), NUMBER, ("a", "b"))
    return values[0], values[1], (("a", x), ("b", y))


@tensor_function("matmul", "(a b)")
def matmul(a: Any, b: Any) -> Tensor:
    """a [..., n, k], b [..., k, m] → [..., n, m]; the leading axes broadcast. A vector a (k) or
    b (k) is a row or a column, whose axis the result lacks."""
    x, y, operands = two("matmul", a, b)
    return wrap(multiplied(TRACES[-1], x, y, operands))


def multiplied(trace: Trace, x: Value, y: Value, operands: Named) -> Value:
    a, b = x.type.shape, y.type.shape
    if not a or not b:
        raise wrong_rank("matmul", "both operands need an axis", operands, "multiply with *")
    inner, row = len(a) - 1, max(len(b) - 2, 0)
    if a[-1] != b[row]:
        which = "only" if len(b) == 1 else "first" if len(b) == 2 else "last but one"
        raise failure(
            E_SHAPE_002,
            f"matmul: inner dimensions differ, {a[-1]} and {b[row]}",
            operands,
            fix=f"the {which} axis of b must be {a[-1]}, the last axis of a",
        )
    if len(b) <= 2:
        return dot(trace, x, y, (inner,), (0,))
    lead = len(b) - 2
    if len(a) == len(b) and a[:-2] == b[:-2]:
        batch = tuple(range(lead))
        return dot(trace, x, y, (inner,), (lead,), batch, batch)
    return _broadcast_product(trace, x, y, operands)


def _broadcast_product(trace: Trace, x: Value, y: Value, operands: Named) -> Value:
    """Leading axes that differ: an extent of 1 is dropped, so that its operand is not repeated."""
    a, b = x.type.shape, y.type.shape
    a_lead, b_lead = a[:-2], b[:-2]
    rank = max(len(a_lead), len(b_lead))
    a_labels: list[Any] = []
    b_labels: list[Any] = []
    out: list[Any] = []
    kept: list[int] = []
    a_shape: list[int] = []
    b_shape: list[int] = []
    for place in range(rank):
        i, j = place - rank + len(a_lead), place - rank + len(b_lead)
        m, n = a_lead[i] if i >= 0 else 1, b_lead[j] if j >= 0 else 1
        if m != n and m != 1 and n != 1:
            raise failure(
                E_SHAPE_001,
                f"matmul: leading axes {text(a_lead)} and {text(b_lead)} do not broadcast: "
                f"{m} and {n}",
                operands,
            )
        kept.append(max(m, n) if m and n else 0)
        if m != 1:
            a_labels.append(place)
            a_shape.append(m)
        if n != 1:
            b_labels.append(place)
            b_shape.append(n)
        if m != 1 or n != 1:
            out.append(place)
    tail: Shape = ()
    if len(a) > 1:
        a_labels.append("n")
        out.append("n")
        tail = (a[-2],)
    a_labels.append("k")
    b_labels += ["k", "m"]
    out.append("m")
    x = reshape(trace, x, (*a_shape, *a[-2:]))
    y = reshape(trace, y, (*b_shape, *b[-2:]))
    made = contract(trace, x, a_labels, y, b_labels, out)
    return reshape(trace, made, (*kept, *tail, b[-1]))


@tensor_function("dot", "(a b)")
def dot_function(a: Any, b: Any) -> Tensor:
    """The sum over the last axis of a and the last but one of b (its only one, of a vector):
    a [..., k], b [..., k, m] → [axes of a but k, axes of b but k]. Of vectors: a scalar."""
    x, y, operands = two("dot", a, b)
    shape, other = x.type.shape, y.type.shape
    if not shape or not other:
        raise wrong_rank("dot", "both operands need an axis", operands, "multiply with *")
    row = max(len(other) - 2, 0)
    if shape[-1] != other[row]:
        raise failure(
            E_SHAPE_002, f"dot: inner dimensions differ, {shape[-1]} and {other[row]}", operands
        )
    return wrap(dot(TRACES[-1], x, y, (len(shape) - 1,), (row,)))


@tensor_function("outer", "(a b)")
def outer(a: Any, b: Any) -> Tensor:
    """Every product of an element of a and one of b: [axes of a, axes of b]."""
    x, y, _ = two("outer", a, b)
    rank = len(x.type.shape)
    labels = list(range(rank + len(y.type.shape)))
    return wrap(contract(TRACES[-1], x, labels[:rank], y, labels[rank:], labels))


@tensor_function("tensordot", "(a b axes)")
def tensordot(a: Any, b: Any, axes: Any) -> Tensor:
    """The sum over pairs of axes: n for the last n of a and the first n of b, or a list of the axes
    of a and the axes of b. → [other axes of a, other axes of b]."""
    x, y, operands = two("tensordot", a, b)
    shape, other = x.type.shape, y.type.shape
    if isinstance(axes, int):
        count = integer("tensordot", "axes", axes, 0, min(len(shape), len(other)))
        a_axes, b_axes = list(range(len(shape) - count, len(shape))), list(range(count))
    else:
        both = items_of("tensordot", "axes", axes)
        if len(both) != 2:
            raise bad("tensordot", "axes", axes, "an integer, or a list of two lists of axes")
        a_axes = _listed(both[0], len(shape), operands)
        b_axes = _listed(both[1], len(other), operands)
        if len(a_axes) != len(b_axes):
            raise bad("tensordot", "axes", axes, "as many axes of a as of b")
    for i, j in zip(a_axes, b_axes, strict=True):
        if shape[i] != other[j]:
            raise failure(
                E_SHAPE_002,
                f"tensordot: axis {i} of a is {shape[i]}, axis {j} of b is {other[j]}",
                operands,
            )
    a_labels: list[Any] = [("a", i) for i in range(len(shape))]
    b_labels: list[Any] = [("b", j) for j in range(len(other))]
    for i, j in zip(a_axes, b_axes, strict=True):
        b_labels[j] = a_labels[i]
    summed = {a_labels[i] for i in a_axes}
    out = [label for label in (*a_labels, *b_labels) if label not in summed]
    return wrap(contract(TRACES[-1], x, a_labels, y, b_labels, out))


def _listed(value: Any, rank: int, operands: Named) -> list[int]:
    """Axes in the order they are written in."""
    if isinstance(value, int):
        value_items: list[Any] = [value]
    else:
        value_items = items_of("tensordot", "axes", value)
    axes = [axes_of("tensordot", v, rank, operands)[0] for v in value_items]
    if len(set(axes)) != len(axes):
        raise bad("tensordot", "axes", value, "each axis once")
    return axes
