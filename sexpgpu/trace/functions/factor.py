"""Factors, solutions and determinants of matrices: the last two axes of a tensor, in f32 or f64.

NaN where there is none (a singular system, a Cholesky factor of a matrix that is not positive
definite). The signs of factors are fixed: docs/tensors.md.
"""

from __future__ import annotations

from math import prod
from typing import Any

from sexpgpu.diagnostics.codes.tensor import E_SHAPE_002, E_SHAPE_009
from sexpgpu.ir.graph import Value
from sexpgpu.lisp.values import MV, NIL
from sexpgpu.trace.arguments import tensor, wrong_rank
from sexpgpu.trace.context import TRACES, Trace
from sexpgpu.trace.declare import tensor_function
from sexpgpu.trace.errors import Named, failure
from sexpgpu.trace.functions.contract import dot
from sexpgpu.trace.functions.shape import text
from sexpgpu.trace.primitives import (
    Shape,
    broadcast,
    cast,
    concat,
    cut,
    expand,
    iota,
    move_axes,
    reshape,
    transpose,
)
from sexpgpu.trace.promote import FLOAT, broadcast_shape, floats, same_dtype
from sexpgpu.trace.tensor import Tensor, wrap


def _matrix(name: str, a: Any) -> tuple[Tensor, Value]:
    """A tensor of matrices, as floats."""
    t = tensor(name, "a", a)
    if len(t.type.shape) < 2:
        raise wrong_rank(name, f"a {text(t.type.shape)} has no rows and columns", [("a", t)])
    return t, floats(name, t, "a")


def _square(name: str, a: Any) -> Value:
    t, value = _matrix(name, a)
    _check_square(name, t.type.shape, [("a", t)])
    return value


def _check_square(name: str, shape: Shape, operands: Named) -> None:
    if shape[-1] != shape[-2]:
        raise failure(
            E_SHAPE_009,
            f"{name}: a {text(shape)} has {shape[-2]} rows and {shape[-1]} columns",
            operands,
        )


def _results(op: str, value: Value) -> tuple[Value, ...]:
    return TRACES[-1].builder.node(op, (value,), {}).results


def _mirror(trace: Trace, x: Value) -> Value:
    rank = len(x.type.shape)
    return transpose(trace, x, (*range(rank - 2), rank - 1, rank - 2))


# ---------------------------------------------------------------------------- factors


@tensor_function("cholesky", "(a &key upper)")
def cholesky(a: Any, upper: Any = NIL) -> Tensor:
    """The lower triangular l with l lᵀ = a of symmetric positive definite matrices [..., n, n];
    with :upper t its transpose. a is read as (a + aᵀ)/2; NaN of any other matrix."""
    factor = TRACES[-1].emit("cholesky", _square("cholesky", a))
    return wrap(factor if upper is NIL else _mirror(TRACES[-1], factor))


@tensor_function("qr", "(a)")
def qr(a: Any) -> MV:
    """Two values, q [..., m, k] with orthonormal columns and r [..., k, n], upper triangular with
    no negative number on its diagonal, whose product is a [..., m, n]; k = min(m, n)."""
    trace = TRACES[-1]
    _, value = _matrix("qr", a)
    rows, columns = value.type.shape[-2:]
    if rows >= columns:
        q, r = _results("qr", value)
        return MV([wrap(q), wrap(r)])
    last = len(value.type.shape) - 1
    q, r = _results("qr", cut(trace, value, last, 0, rows))
    lead = tuple(range(last - 1))
    rest = cut(trace, value, last, rows, columns)
    beside = dot(trace, q, rest, (last - 1,), (last - 1,), lead, lead)
    return MV([wrap(q), wrap(concat(trace, [r, beside], last))])


@tensor_function("svd", "(a)")
def svd(a: Any) -> MV:
    """Three values: u [..., m, k], the singular values s [..., k] in decreasing order, and vᵀ
    [..., k, n], with a = u diag(s) vᵀ; k = min(m, n)."""
    return MV([wrap(v) for v in _results("svd", _matrix("svd", a)[1])])


@tensor_function("eigh", "(a)")
def eigh(a: Any) -> MV:
    """Two values: the eigenvalues [..., n] in increasing order and the eigenvectors [..., n, n], as
    columns, of symmetric matrices, read as (a + aᵀ)/2."""
    return MV([wrap(v) for v in _results("eigh", _square("eigh", a))])


# ---------------------------------------------------------------------------- numbers


@tensor_function("det", "(a)")
def det(a: Any) -> Tensor:
    """The determinant of each matrix [..., n, n]."""
    return wrap(TRACES[-1].emit("det", _square("det", a)))


@tensor_function("slogdet", "(a)")
def slogdet(a: Any) -> MV:
    """Two values of each matrix [..., n, n]: the sign of its determinant and the logarithm of its
    magnitude, which neither overflows nor underflows; 0 and -∞ of a singular matrix."""
    return MV([wrap(v) for v in _results("slogdet", _square("slogdet", a))])


# ---------------------------------------------------------------------------- systems


def _system(name: str, op: str, a: Any, b: Any, **attrs: bool) -> Tensor:
    """x with a x = b: b is a vector (n) or matrices [..., n, m]; leading axes broadcast."""
    trace = TRACES[-1]
    left, right = _matrix(name, a)[0], tensor(name, "b", b)
    operands: Named = [("a", left), ("b", right)]
    x, y = same_dtype(name, (left, right), FLOAT, ("a", "b"))
    _check_square(name, x.type.shape, operands)
    n = x.type.shape[-1]
    vector = len(y.type.shape) == 1
    if not y.type.shape:
        raise wrong_rank(name, "b is a scalar", operands, "b is (n) or [..., n, m]")
    if vector:
        y = expand(trace, y, 1)
    if y.type.shape[-2] != n:
        raise failure(
            E_SHAPE_002,
            f"{name}: a has {n} rows, b {text(right.type.shape)} has {y.type.shape[-2]}",
            operands,
            fix="b is a vector (n), or [..., n, m] with a column for each system",
        )
    lead, own = x.type.shape[:-2], y.type.shape[:-2]
    if not lead and own:
        # One matrix for all: they are columns of one system, and a is factored once.
        rank = len(own) + 2
        columns = transpose(trace, y, move_axes(rank, (rank - 2,), (0,)))
        flat = reshape(trace, columns, (n, prod(own) * y.type.shape[-1]))
        found = reshape(trace, trace.emit(op, x, flat, **attrs), columns.type.shape)
        found = transpose(trace, found, move_axes(rank, (0,), (rank - 2,)))
    else:
        if lead != own:
            common = broadcast_shape(name, (lead, own), operands)
            x = broadcast(trace, x, (*common, n, n))
            y = broadcast(trace, y, (*common, *y.type.shape[-2:]))
        found = trace.emit(op, x, y, **attrs)
    return wrap(reshape(trace, found, found.type.shape[:-1]) if vector else found)


@tensor_function("solve", "(a b)")
def solve(a: Any, b: Any) -> Tensor:
    """x with a x = b for a [..., n, n] and a vector b (n) or columns b [..., n, m]; leading axes
    broadcast. NaN where a is singular."""
    return _system("solve", "solve", a, b)


@tensor_function("triangular-solve", "(a b &key lower transpose unit)")
def triangular_solve(
    a: Any, b: Any, lower: Any = True, transpose: Any = NIL, unit: Any = NIL
) -> Tensor:
    """x with a x = b, of the lower triangle of a alone; with :lower nil of the upper; with
    :transpose t aᵀ x = b; with :unit t the diagonal is read as ones. b as for solve."""
    return _system(
        "triangular-solve",
        "triangular-solve",
        a,
        b,
        lower=lower is not NIL,
        transpose=transpose is not NIL,
        unit=unit is not NIL,
    )


@tensor_function("inverse", "(a)")
def inverse(a: Any) -> Tensor:
    """The inverse of each matrix [..., n, n]; NaN of a singular one. To solve a system, `solve` is
    cheaper and more precise."""
    trace = TRACES[-1]
    value = _square("inverse", a)
    shape, dtype = value.type.shape, value.type.dtype
    square = shape[-2:]
    same = trace.emit("eq", iota(trace, square, 0, "i32"), iota(trace, square, 1, "i32"))
    identity = broadcast(trace, cast(trace, same, dtype), shape)
    return wrap(trace.emit("solve", value, identity))
