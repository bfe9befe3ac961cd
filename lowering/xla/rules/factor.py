"""lax rules of sexpgpu/ops/factor.py: LAPACK on CPU, cuSOLVER on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax

from sexpgpu.lowering.xla.dtypes import F32, I32, is_half, value_of
from sexpgpu.lowering.xla.registry import lowers
from sexpgpu.lowering.xla.rules.order import along

LARGEST = 0.99  # of the largest component: those from here up decide on a vector's sign
_HIGHEST = lax.Precision.HIGHEST


def _in_f32(rule: Callable[..., Any]) -> Callable[..., Any]:
    """The rule on 16-bit floats: computed in f32, each result rounded once."""

    def wrapped(*operands: jax.Array, **attrs: Any) -> Any:
        dtype = operands[0].dtype
        if not is_half(operands[0]):
            return rule(*operands, **attrs)
        found = rule(*[lax.convert_element_type(x, F32) for x in operands], **attrs)
        if isinstance(found, tuple):
            return tuple(lax.convert_element_type(x, dtype) for x in found)
        return lax.convert_element_type(found, dtype)

    return wrapped


def _axes(x: jax.Array) -> tuple[int, int]:
    return x.ndim - 2, x.ndim - 1


def _t(x: jax.Array) -> jax.Array:
    rows, columns = _axes(x)
    return lax.transpose(x, (*range(rows), columns, rows))


def _symmetric(a: jax.Array) -> jax.Array:
    total = lax.add(a, _t(a))
    return lax.mul(total, lax.full_like(total, value_of(total, 0.5)))


def _product(a: jax.Array, b: jax.Array) -> jax.Array:
    lead = tuple(range(a.ndim - 2))
    numbers = (((a.ndim - 1,), (b.ndim - 2,)), (lead, lead))
    return lax.dot_general(a, b, numbers, precision=_HIGHEST)


def _diagonal(a: jax.Array) -> jax.Array:
    """[..., k] of [..., m, n]."""
    rows, columns = a.shape[-2:]
    k = min(rows, columns)
    square = lax.slice(a, (0,) * a.ndim, (*a.shape[:-2], k, k))
    same = lax.eq(*[lax.broadcasted_iota(I32, square.shape, axis) for axis in _axes(square)])
    kept = lax.select(same, square, lax.full_like(square, value_of(square, 0)))
    return lax.reduce_sum(kept, (a.ndim - 1,))


def _finite(a: jax.Array) -> jax.Array:
    return lax.reduce_and(lax.is_finite(a), _axes(a))


def _where(good: jax.Array, *results: jax.Array) -> tuple[jax.Array, ...]:
    """The results of the good matrices; NaN of the others."""
    return tuple(
        lax.select(
            lax.broadcast_in_dim(good, x.shape, tuple(range(good.ndim))),
            x,
            lax.full_like(x, value_of(x, np.nan)),
        )
        for x in results
    )


def _rows(factors: jax.Array, like: jax.Array) -> jax.Array:
    """[..., k] as [..., k, n], the same in each row."""
    return lax.broadcast_in_dim(factors, like.shape, tuple(range(like.ndim - 1)))


def _columns(factors: jax.Array, like: jax.Array) -> jax.Array:
    """[..., k] as [..., m, k], the same in each column."""
    rows = like.ndim - 2
    return lax.broadcast_in_dim(factors, like.shape, (*range(rows), rows + 1))


def _sign(x: jax.Array) -> jax.Array:
    """-1 below 0, else 1."""
    one = lax.full_like(x, value_of(x, 1))
    return lax.select(lax.lt(x, lax.full_like(x, value_of(x, 0))), lax.neg(one), one)


def _signs(vectors: jax.Array) -> jax.Array:
    """The sign of each column: that of the first of its largest components."""
    rows = vectors.ndim - 2
    size = lax.abs(vectors)
    bound = lax.reduce_max(size, (rows,))
    bound = lax.mul(bound, lax.full_like(bound, value_of(bound, LARGEST)))
    place = lax.argmax(lax.ge(size, _columns(bound, size)), rows, I32)
    chosen = along(vectors, lax.expand_dims(place, (rows,)), rows)
    return _sign(lax.squeeze(chosen, (rows,)))


@lowers("cholesky")
@_in_f32
def _cholesky(a: jax.Array) -> jax.Array:
    if a.size == 0:
        return a
    factor = lax.linalg.cholesky(_symmetric(a), symmetrize_input=False)
    return _where(_finite(factor), factor)[0]


@lowers("triangular-solve")
@_in_f32
def _triangular_solve(
    a: jax.Array, b: jax.Array, *, lower: bool, transpose: bool, unit: bool
) -> jax.Array:
    if b.size == 0:
        return b
    return lax.linalg.triangular_solve(
        a, b, left_side=True, lower=lower, transpose_a=transpose, unit_diagonal=unit
    )


@lowers("solve")
@_in_f32
def _solve(a: jax.Array, b: jax.Array) -> jax.Array:
    """p a = l u, then two substitutions."""
    if b.size == 0:
        return b
    lu, _, order = lax.linalg.lu(a)
    rows = b.ndim - 2
    x = along(b, _rows(order, b), rows)
    x = lax.linalg.triangular_solve(lu, x, left_side=True, lower=True, unit_diagonal=True)
    x = lax.linalg.triangular_solve(lu, x, left_side=True, lower=False)
    pivots = _diagonal(lu)
    regular = lax.reduce_and(lax.ne(pivots, lax.full_like(pivots, 0)), (pivots.ndim - 1,))
    return _where(lax.bitwise_and(regular, _finite(a)), x)[0]


@lowers("qr")
@_in_f32
def _qr(a: jax.Array) -> tuple[jax.Array, ...]:
    n = a.shape[-1]
    if a.size == 0:
        return a, lax.full((*a.shape[:-2], n, n), value_of(a, 0), a.dtype)
    q, r = lax.linalg.qr(a, full_matrices=False)
    signs = _sign(_diagonal(r))
    return _where(_finite(a), lax.mul(q, _columns(signs, q)), lax.mul(r, _rows(signs, r)))


@lowers("svd")
@_in_f32
def _svd(a: jax.Array) -> tuple[jax.Array, ...]:
    rows, columns = a.shape[-2:]
    k = min(rows, columns)
    if a.size == 0:
        shapes = ((rows, k), (k,), (k, columns))
        return tuple(lax.full((*a.shape[:-2], *s), value_of(a, 0), a.dtype) for s in shapes)
    u, s, vt = lax.linalg.svd(a, full_matrices=False)
    signs = _signs(u)
    return _where(_finite(a), lax.mul(u, _columns(signs, u)), s, lax.mul(vt, _rows(signs, vt)))


@lowers("eigh")
@_in_f32
def _eigh(a: jax.Array) -> tuple[jax.Array, ...]:
    if a.size == 0:
        return lax.full(a.shape[:-1], value_of(a, 0), a.dtype), a
    vectors, values = lax.linalg.eigh(_symmetric(a), symmetrize_input=False)
    vectors = lax.mul(vectors, _columns(_signs(vectors), vectors))
    return _where(_finite(a), values, vectors)


def _parity(pivots: jax.Array) -> jax.Array:
    """Whether the exchanges of rows are odd in number."""
    last = pivots.ndim - 1
    moved = lax.ne(pivots, lax.broadcasted_iota(pivots.dtype, pivots.shape, last))
    count = lax.reduce_sum(lax.convert_element_type(moved, I32), (last,))
    return lax.eq(lax.rem(count, lax.full_like(count, 2)), lax.full_like(count, 1))


@lowers("det")
@_in_f32
def _det(a: jax.Array) -> jax.Array:
    if a.shape[-1] == 0 or a.size == 0:
        return lax.full(a.shape[:-2], value_of(a, 1), a.dtype)
    lu, pivots, _ = lax.linalg.lu(a)
    found = lax.reduce_prod(_diagonal(lu), (a.ndim - 2,))
    found = lax.select(_parity(pivots), lax.neg(found), found)
    return _where(_finite(a), found)[0]


@lowers("slogdet")
@_in_f32
def _slogdet(a: jax.Array) -> tuple[jax.Array, ...]:
    lead = a.shape[:-2]
    if a.shape[-1] == 0 or a.size == 0:
        return lax.full(lead, value_of(a, 1), a.dtype), lax.full(lead, value_of(a, 0), a.dtype)
    lu, pivots, _ = lax.linalg.lu(a)
    diagonal = _diagonal(lu)
    sign = lax.reduce_prod(lax.sign(diagonal), (a.ndim - 2,))
    sign = lax.select(_parity(pivots), lax.neg(sign), sign)
    size = lax.reduce_sum(lax.log(lax.abs(diagonal)), (a.ndim - 2,))
    return _where(_finite(a), sign, size)


@lowers("cofactors")
@_in_f32
def _cofactors(a: jax.Array) -> jax.Array:
    """det(u) det(v) u diag(the product of the other singular values) v^T."""
    if a.size == 0:
        return a
    u, s, vt = lax.linalg.svd(a, full_matrices=False)
    table = lax.broadcast_in_dim(s, a.shape, (*range(a.ndim - 2), a.ndim - 1))
    own = lax.eq(*[lax.broadcasted_iota(I32, a.shape, axis) for axis in _axes(a)])
    others = lax.reduce_prod(
        lax.select(own, lax.full_like(table, value_of(table, 1)), table), (a.ndim - 1,)
    )
    sign = _sign(lax.mul(_det(u), _det(vt)))
    found = _product(lax.mul(u, _columns(others, u)), vt)
    whole = lax.broadcast_in_dim(sign, found.shape, tuple(range(sign.ndim)))

    return _where(_finite(a), lax.mul(found, whole))[0]
