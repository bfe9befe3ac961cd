"""The product of two tensors with labelled axes, as one `dot` (or an elementwise product).

Labels are any hashable values, none twice in one operand. Shared by matmul, tensordot and einsum.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from sexpgpu.ir.graph import Value
from sexpgpu.trace.context import Trace
from sexpgpu.trace.primitives import Shape, broadcast, reshape, transpose

Labels = Sequence[Hashable]


def dot(
    trace: Trace,
    a: Value,
    b: Value,
    a_contract: Shape,
    b_contract: Shape,
    a_batch: Shape = (),
    b_batch: Shape = (),
) -> Value:
    """The product over pairs of axes: [batch…, free axes of a…, free axes of b…]."""
    return trace.emit(
        "dot", a, b, a_contract=a_contract, b_contract=b_contract, a_batch=a_batch,
        b_batch=b_batch, accumulate=None, mode="highest",
    )  # fmt: skip


def contract(
    trace: Trace, a: Value, a_labels: Labels, b: Value, b_labels: Labels, out: Labels
) -> Value:
    """Sum over the labels that both have and `out` lacks; the result's axes are in `out`'s order.

    Every label of `out` is in a or b; a label of only one operand must be in `out`.
    """
    shared = [label for label in a_labels if label in b_labels]
    summed = [label for label in shared if label not in out]
    if not summed:
        return _product(trace, a, a_labels, b, b_labels, out)
    batch = [label for label in out if label in shared]
    a_free = [label for label in a_labels if label not in shared]
    b_free = [label for label in b_labels if label not in shared]
    order: list[Hashable] = [*batch, *a_free, *b_free]
    if order != list(out) and [*batch, *b_free, *a_free] == list(out):
        a, a_labels, b, b_labels = b, b_labels, a, a_labels
        order = list(out)
    at, bt = list(a_labels).index, list(b_labels).index
    made = dot(
        trace,
        a,
        b,
        tuple([at(label) for label in summed]),
        tuple([bt(label) for label in summed]),
        tuple([at(label) for label in batch]),
        tuple([bt(label) for label in batch]),
    )
    return transpose(trace, made, tuple([order.index(label) for label in out]))


def _product(
    trace: Trace, a: Value, a_labels: Labels, b: Value, b_labels: Labels, out: Labels
) -> Value:
    extents = dict(zip(a_labels, a.type.shape, strict=True))
    extents.update(zip(b_labels, b.type.shape, strict=True))
    shape = tuple([extents[label] for label in out])
    return trace.emit(
        "mul", spread(trace, a, a_labels, out, shape), spread(trace, b, b_labels, out, shape)
    )


def spread(trace: Trace, x: Value, labels: Labels, out: Labels, shape: Shape) -> Value:
    """x with its axes in `out`'s order, and repeated along the labels that it lacks."""
    own = [label for label in out if label in labels]
    x = transpose(trace, x, tuple([list(labels).index(label) for label in own]))
    thin = tuple([n if label in labels else 1 for label, n in zip(out, shape, strict=True)])
    return broadcast(trace, reshape(trace, x, thin), shape)
