"""Factors, solutions and determinants of matrices, the last two axes of a batch. Knows no backend.

A matrix that holds NaN or an infinity gives NaN, as does one that has no such factor or solution
(not positive definite, singular). Symmetric input is read as (a + a^T)/2, which makes its
derivative symmetric. Signs are fixed, so that every device gives the same factors: r of qr has no
negative diagonal; of an eigenvector, and a column of u, the first of the components within a
hundredth of the largest is positive.

Derivatives: Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation" (2008), and Seeger et al., "Auto-Differentiating Linear Algebra" (2017). Where two
eigenvalues or singular values are equal, what depends on the choice among their vectors is left
out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.diagnostics.codes.tensor import (
    E_DTYPE_001,
    E_DTYPE_002,
    E_SHAPE_001,
    E_SHAPE_002,
    E_SHAPE_005,
    E_SHAPE_006,
    E_SHAPE_009,
)
from sexpgpu.ir.graph import Attrs, Builder, Node, Value
from sexpgpu.ir.types import FLOATS, TensorType
from sexpgpu.ops.building import full_like, scaled, spread, zeros_like
from sexpgpu.ops.cost import moved
from sexpgpu.ops.linalg import dot
from sexpgpu.ops.rules import MIXED, check_rank, list_of, merged_batch, same_dtype
from sexpgpu.ops.samples import bf16, f32, f64, i32
from sexpgpu.ops.schema import (
    CostRule,
    Cotangents,
    OpDef,
    OpError,
    Reject,
    Sample,
    Types,
    VjpRule,
    define,
)

Shape = tuple[int, ...]

# -- types --------------------------------------------------------------------------------------


def _matrices(name: str, type: TensorType, operand: int = 0) -> tuple[int, int]:
    """Rows and columns."""
    if type.rank < 2:
        raise OpError(E_SHAPE_005, f"{name}: {type}, wanted rows and columns", operand=operand)
    return type.shape[-2], type.shape[-1]


def _square(name: str, type: TensorType) -> int:
    rows, columns = _matrices(name, type)
    if rows != columns:
        raise OpError(
            E_SHAPE_009, f"{name}: {rows} rows and {columns} columns, of {type}", operand=0
        )
    return rows


def _of_batch(type: TensorType) -> int | None:
    """Where examples lie in what is made of each matrix: nowhere, if they are rows or columns."""
    if type.batch is None or type.batch >= type.rank - 2:
        return None
    return type.batch


def _infer_square(name: str) -> Callable[[Types, Attrs], TensorType]:
    def infer(types: Types, attrs: Attrs) -> TensorType:
        _square(name, types[0])
        return TensorType(types[0].shape, types[0].dtype, _of_batch(types[0]))

    return infer


def _infer_number(name: str, results: int) -> Callable[[Types, Attrs], Types]:
    def infer(types: Types, attrs: Attrs) -> Types:
        _square(name, types[0])
        made = TensorType(types[0].shape[:-2], types[0].dtype, _of_batch(types[0]))
        return (made,) * results

    return infer


def _infer_system(name: str, types: Types) -> TensorType:
    """The type of x in a x = b."""
    a, b = types
    n = _square(name, a)
    check_rank(name, b, a.rank, "b", 1)
    same_dtype(name, types, (0, 1))
    if b.shape[-2] != n:
        raise OpError(
            E_SHAPE_002,
            f"{name}: a has {n} rows, b has {b.shape[-2]}: axis {b.rank - 2} of {list_of(b.shape)}",
            operand=1,
        )
    if a.shape[:-2] != b.shape[:-2]:
        raise OpError(
            E_SHAPE_001,
            f"{name}: shapes {list_of(a.shape)} and {list_of(b.shape)} differ before their last "
            "two axes",
            operand=1,
        )
    of_a = MIXED if a.batch is not None and _of_batch(a) is None else a.batch
    of_b = MIXED if b.batch == b.rank - 2 else b.batch
    return TensorType(b.shape, b.dtype, merged_batch(of_a, of_b))


def _infer_qr(types: Types, attrs: Attrs) -> Types:
    a = types[0]
    rows, columns = _matrices("qr", a)
    if rows < columns:
        raise OpError(
            E_SHAPE_006, f"qr: {rows} rows are fewer than {columns} columns, of {a}", operand=0
        )
    batch, lead = _of_batch(a), a.shape[:-2]
    return TensorType(a.shape, a.dtype, batch), TensorType(
        (*lead, columns, columns), a.dtype, batch
    )


def _infer_svd(types: Types, attrs: Attrs) -> Types:
    a = types[0]
    rows, columns = _matrices("svd", a)
    batch, lead, k = _of_batch(a), a.shape[:-2], min(rows, columns)
    return (
        TensorType((*lead, rows, k), a.dtype, batch),
        TensorType((*lead, k), a.dtype, batch),
        TensorType((*lead, k, columns), a.dtype, batch),
    )


def _infer_eigh(types: Types, attrs: Attrs) -> Types:
    a = types[0]
    _square("eigh", a)
    batch = _of_batch(a)
    values = TensorType(a.shape[:-1], a.dtype, batch)
    return values, TensorType(a.shape, a.dtype, batch)


# -- what derivatives are made of ---------------------------------------------------------------


def _t(b: Builder, x: Value) -> Value:
    """Each matrix transposed."""
    rank = len(x.shape)
    return b.emit("transpose", x, perm=(*range(rank - 2), rank - 1, rank - 2))


def _product(b: Builder, x: Value, y: Value) -> Value:
    """x y, matrix by matrix."""
    last = len(x.shape) - 1
    lead = tuple(range(last - 1))
    return dot(b, x, y, ((last,), (last - 1,)), (lead, lead))


def _triangle(b: Builder, x: Value, op: str) -> Value:
    """x where row `op` column; 0 elsewhere."""
    rank = len(x.shape)
    row, column = [
        b.emit("iota", shape=x.shape, axis=axis, dtype="i32", batch=x.type.batch)
        for axis in (rank - 2, rank - 1)
    ]
    return b.emit("select", b.emit(op, row, column), x, zeros_like(b, x))


def _symmetric(b: Builder, x: Value) -> Value:
    return scaled(b, b.emit("add", x, _t(b, x)), 0.5)


def _by_column(b: Builder, x: Value, factors: Value) -> Value:
    """x [..., m, k] with column j multiplied by factors[..., j]."""
    return b.emit("mul", x, spread(b, factors, x.shape, (len(x.shape) - 2,)))


def _by_row(b: Builder, x: Value, factors: Value) -> Value:
    """x [..., k, n] with row i multiplied by factors[..., i]."""
    return b.emit("mul", x, spread(b, factors, x.shape, (len(x.shape) - 1,)))


def _reciprocal(b: Builder, x: Value) -> Value:
    """1 / x, and 0 where x is 0."""
    zero, one = zeros_like(b, x), full_like(b, 1.0, x)
    null = b.emit("eq", x, zero)
    return b.emit("select", null, zero, b.emit("div", one, b.emit("select", null, one, x)))


def _identity(b: Builder, like: Value) -> Value:
    return _triangle(b, full_like(b, 1.0, like), "eq")


def _triangular(b: Builder, a: Value, y: Value, lower: bool, transpose: bool) -> Value:
    return b.emit("triangular-solve", a, y, lower=lower, transpose=transpose, unit=False)


def _inverse_transposed(b: Builder, a: Value) -> Value:
    return b.emit("solve", _t(b, a), _identity(b, a))


def _total(b: Builder, values: list[Value]) -> Value:
    found = values[0]
    for value in values[1:]:
        found = b.emit("add", found, value)
    return found


# -- derivatives --------------------------------------------------------------------------------


def _vjp_cholesky(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """l^-T phi(l^T dl) l^-1, symmetric; phi takes the lower triangle, its diagonal halved."""
    (dl,) = cotangents
    assert dl is not None
    factor = node.result
    inner = _product(b, _t(b, factor), dl)
    inner = b.emit("sub", _triangle(b, inner, "ge"), scaled(b, _triangle(b, inner, "eq"), 0.5))
    half = _triangular(b, factor, inner, True, True)
    return (_symmetric(b, _triangular(b, factor, _t(b, half), True, True)),)


def _vjp_triangular_solve(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dx,) = cotangents
    assert dx is not None
    a, attrs, x = node.operands[0], node.attrs, node.result
    db = b.emit("triangular-solve", a, dx, **{**attrs, "transpose": not attrs["transpose"]})
    outer = _product(b, x, _t(b, db)) if attrs["transpose"] else _product(b, db, _t(b, x))
    part = ("gt" if attrs["lower"] else "lt") if attrs["unit"] else "ge" if attrs["lower"] else "le"
    return _triangle(b, b.emit("neg", outer), part), db


def _vjp_solve(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dx,) = cotangents
    assert dx is not None
    db = b.emit("solve", _t(b, node.operands[0]), dx)
    return b.emit("neg", _product(b, db, _t(b, node.result))), db


def _vjp_qr(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """(dq + q copyltu(r dr^T - dq^T q)) r^-T; copyltu mirrors the lower triangle."""
    q, r = node.results
    dq, dr = cotangents
    terms: list[Value] = []
    if dr is not None:
        terms.append(_product(b, r, _t(b, dr)))
    if dq is not None:
        terms.append(b.emit("neg", _product(b, _t(b, dq), q)))
    inner = _total(b, terms)
    mirrored = b.emit("add", _triangle(b, inner, "ge"), _t(b, _triangle(b, inner, "gt")))
    outer = _product(b, q, mirrored)
    if dq is not None:
        outer = b.emit("add", dq, outer)
    return (_t(b, _triangular(b, r, _t(b, outer), False, False)),)


def _vjp_eigh(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """v (diag(dw) + f * (v^T dv)) v^T, symmetric; f[i, j] = 1 / (w[j] - w[i])."""
    w, v = node.results
    dw, dv = cotangents
    rank = len(v.shape)
    terms: list[Value] = []
    if dw is not None:
        terms.append(_by_column(b, v, dw))
    if dv is not None:
        apart = b.emit(
            "sub", spread(b, w, v.shape, (rank - 2,)), spread(b, w, v.shape, (rank - 1,))
        )
        turned = b.emit("mul", _reciprocal(b, apart), _product(b, _t(b, v), dv))
        terms.append(_product(b, v, turned))
    return (_symmetric(b, _product(b, _total(b, terms), _t(b, v))),)


def _vjp_svd(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """u (diag(ds) + (f * skew(u^T du)) s + s (f * skew(v^T dv))) v^T, and what du and dv have
    outside the spaces of u and v, over s. f[i, j] = 1 / (s[j]^2 - s[i]^2); skew(x) = x - x^T."""
    u, s, vt = node.results
    du, ds, dvt = cotangents
    k = s.shape[-1]
    square = (*s.shape, k)
    rank = len(square)
    inner: list[Value] = []
    if ds is not None:
        mask = spread(b, ds, square, (rank - 2,))
        inner.append(_triangle(b, mask, "eq"))
    if du is not None or dvt is not None:
        column = spread(b, s, square, (rank - 2,))
        row = spread(b, s, square, (rank - 1,))
        # the product of difference and sum: their squares' difference would round away
        apart = b.emit("mul", b.emit("sub", column, row), b.emit("add", column, row))
        f = _reciprocal(b, apart)
        for cotangent, factor in ((du, u), (dvt, vt)):
            if cotangent is None:
                continue
            left = cotangent is du
            overlap = (
                _product(b, _t(b, factor), cotangent)
                if left
                else _product(b, factor, _t(b, cotangent))
            )
            skew = b.emit("mul", f, b.emit("sub", overlap, _t(b, overlap)))
            inner.append(_by_column(b, skew, s) if left else _by_row(b, skew, s))
    found = _product(b, _product(b, u, _total(b, inner)), vt)
    inverse = _reciprocal(b, s)
    if du is not None and u.shape[-2] > k:
        outside = b.emit("sub", du, _product(b, u, _product(b, _t(b, u), du)))
        found = b.emit("add", found, _product(b, _by_column(b, outside, inverse), vt))
    if dvt is not None and vt.shape[-1] > k:
        outside = b.emit("sub", dvt, _product(b, _product(b, dvt, _t(b, vt)), vt))
        found = b.emit("add", found, _product(b, u, _by_row(b, outside, inverse)))
    return (found,)


def _vjp_det(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    assert dy is not None
    a = node.operands[0]
    rank = len(a.shape)
    cofactors = b.emit("cofactors", a)
    return (b.emit("mul", spread(b, dy, a.shape, (rank - 2, rank - 1)), cofactors),)


def _vjp_cofactors(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """<g, a^-T> c - a^-T g^T c: of regular matrices only."""
    (g,) = cotangents
    assert g is not None
    a, c = node.operands[0], node.result
    rank = len(a.shape)
    axes = (rank - 2, rank - 1)
    inverse = _inverse_transposed(b, a)
    size = b.emit("sum", b.emit("mul", g, inverse), axes=axes)
    along = b.emit("mul", spread(b, size, a.shape, axes), c)
    return (b.emit("sub", along, _product(b, _product(b, inverse, _t(b, g)), c)),)


def _vjp_slogdet(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    dy = cotangents[1]
    if dy is None:
        return (None,)
    a = node.operands[0]
    rank = len(a.shape)
    over = spread(b, dy, a.shape, (rank - 2, rank - 1))
    return (b.emit("mul", over, _inverse_transposed(b, a)),)


# -- records ------------------------------------------------------------------------------------


def _cubic(share: float) -> CostRule:
    """`share` rows columns min(rows, columns) operations a matrix, and those of right-hand sides:
    two for each element of a, for each column."""

    def cost(types: Types, results: Types, attrs: Attrs) -> tuple[int, int]:
        a = types[0]
        count = share * a.size * min(a.shape[-2:])
        if len(types) > 1:
            count += 2 * a.size * types[1].shape[-1]
        return int(count), moved(types, results)

    return cost


def _record(
    name: str,
    doc: str,
    infer: Callable[[Types, Attrs], Any],
    vjp: VjpRule,
    cost: CostRule,
    *,
    values: str,
    rejects: tuple[Reject, ...] = (),
    shapes: tuple[Shape, ...] = ((3, 3), (2, 2, 2), (1, 1), (4, 4)),
) -> OpDef:
    """An op of one matrix."""
    return define(
        OpDef(
            name=name,
            doc=doc,
            operands=(FLOATS,),
            attrs={},
            infer=infer,
            vjp=vjp,
            precision="f32",
            cost=cost,
            samples=(
                *[Sample(f32(*shape), values=values) for shape in shapes],
                Sample(f32(2, 3, 3, batch=0), values=values),
                Sample(bf16(2, 2), values=values, grad=False),
            ),
            rejects=(
                Reject(E_SHAPE_005, f32(3)),
                Reject(E_DTYPE_001, i32(2, 2)),
                *(rejects or (Reject(E_SHAPE_009, f32(2, 3)),)),
            ),
        )
    )


CHOLESKY = _record(
    "cholesky",
    "The lower triangular l with l l^T = (a + a^T)/2 of each positive definite matrix; NaN of any "
    "other.",
    _infer_square("cholesky"),
    _vjp_cholesky,
    _cubic(1 / 3),
    values="definite",
)

_SYSTEM_REJECTS: tuple[tuple[Any, TensorType, TensorType], ...] = (
    (E_SHAPE_005, f32(3), f32(3)),
    (E_SHAPE_005, f32(3, 3), f32(3)),
    (E_SHAPE_009, f32(2, 3), f32(2, 3)),
    (E_SHAPE_002, f32(3, 3), f32(2, 3)),
    (E_SHAPE_001, f32(2, 3, 3), f32(1, 3, 2)),
    (E_DTYPE_002, f32(2, 2), f64(2, 2)),
    (E_DTYPE_001, i32(2, 2), i32(2, 2)),
)
_REGULAR: dict[str, Any] = {"values": ("regular", "uniform")}


def _how(lower: bool, transpose: bool, unit: bool = False) -> dict[str, Any]:
    return {"lower": lower, "transpose": transpose, "unit": unit, **_REGULAR}


TRIANGULAR_SOLVE = define(
    OpDef(
        name="triangular-solve",
        doc="x with a x = b (or a^T x = b) for b [..., n, m], of one triangle of a; `unit`: its "
        "diagonal is read as ones. A zero on the diagonal gives infinities and NaN.",
        operands=(FLOATS, FLOATS),
        attrs={"lower": "bool", "transpose": "bool", "unit": "bool"},
        infer=lambda types, attrs: _infer_system("triangular-solve", types),
        vjp=_vjp_triangular_solve,
        precision="f32",
        cost=_cubic(0),
        samples=(
            Sample(f32(3, 3), f32(3, 2), **_how(True, False)),
            Sample(f32(3, 3), f32(3, 1), **_how(True, True)),
            Sample(f32(3, 3), f32(3, 2), **_how(False, False)),
            Sample(f32(2, 3, 3, batch=0), f32(2, 3, 4, batch=0), **_how(False, True)),
            Sample(f32(3, 3), f32(3, 2), **_how(True, False, True)),
            Sample(f32(3, 3), f32(3, 2), **_how(False, True, True)),
            Sample(bf16(2, 2), bf16(2, 3), grad=False, **_how(True, False)),
        ),
        rejects=tuple(
            [
                Reject(code, a, b, lower=True, transpose=False, unit=False)
                for code, a, b in _SYSTEM_REJECTS
            ]
        ),
    )
)
SOLVE = define(
    OpDef(
        name="solve",
        doc="x with a x = b for b [..., n, m]; NaN where a is singular.",
        operands=(FLOATS, FLOATS),
        attrs={},
        infer=lambda types, attrs: _infer_system("solve", types),
        vjp=_vjp_solve,
        precision="f32",
        cost=_cubic(2 / 3),
        samples=(
            Sample(f32(3, 3), f32(3, 2), **_REGULAR),
            Sample(f32(2, 3, 3, batch=0), f32(2, 3, 1, batch=0), **_REGULAR),
            Sample(f32(1, 1), f32(1, 3, batch=1), **_REGULAR),
            Sample(bf16(2, 2), bf16(2, 3), grad=False, **_REGULAR),
        ),
        rejects=tuple([Reject(code, a, b) for code, a, b in _SYSTEM_REJECTS]),
    )
)
QR = _record(
    "qr",
    "q [..., m, n] with orthonormal columns and the upper triangular r [..., n, n], no negative "
    "number on its diagonal, whose product is a [..., m, n], m >= n.",
    _infer_qr,
    _vjp_qr,
    _cubic(4),
    values="regular",
    shapes=((3, 3), (4, 2), (2, 3, 2), (3, 1)),
    rejects=(Reject(E_SHAPE_006, f32(2, 3)),),
)
SVD = define(
    OpDef(
        name="svd",
        doc="u [..., m, k], the singular values [..., k] in decreasing order, and v^T [..., k, n], "
        "k = min(m, n), with u diag(s) v^T = a.",
        operands=(FLOATS,),
        attrs={},
        infer=_infer_svd,
        vjp=_vjp_svd,
        precision="f32",
        cost=_cubic(22),
        samples=(
            Sample(f32(3, 3), values="spread"),
            Sample(f32(4, 2), values="spread"),
            Sample(f32(2, 4), values="spread"),
            Sample(f32(2, 3, 2, batch=0), values="spread"),
            Sample(f32(1, 1), values="spread"),
            Sample(bf16(2, 2), values="spread", grad=False),
        ),
        rejects=(Reject(E_SHAPE_005, f32(3)), Reject(E_DTYPE_001, i32(2, 2))),
    )
)
EIGH = _record(
    "eigh",
    "The eigenvalues [..., n] in increasing order and the eigenvectors [..., n, n], as columns, of "
    "the symmetric (a + a^T)/2.",
    _infer_eigh,
    _vjp_eigh,
    _cubic(9),
    values="spread",
)
DET = _record(
    "det",
    "The determinant of each matrix.",
    lambda types, attrs: _infer_number("det", 1)(types, attrs)[0],
    _vjp_det,
    _cubic(2 / 3),
    values="uniform",
)
COFACTORS = _record(
    "cofactors",
    "The derivative of the determinant: det(a) a^-T of a regular matrix, and its limit of a "
    "singular one.",
    _infer_square("cofactors"),
    _vjp_cofactors,
    _cubic(24),
    values="regular",
)
SLOGDET = _record(
    "slogdet",
    "The sign of each determinant and the logarithm of its magnitude, which neither overflows nor "
    "underflows; 0 and -inf of a singular matrix.",
    _infer_number("slogdet", 2),
    _vjp_slogdet,
    _cubic(2 / 3),
    values="regular",
)
