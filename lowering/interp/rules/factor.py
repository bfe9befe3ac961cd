"""NumPy rules of sexpgpu/ops/factor.py: numpy.linalg matrix by matrix, where a failure is NaN."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sexpgpu.lowering.interp.registry import evaluates

LARGEST = 0.99  # of the largest component: those from here up decide on a vector's sign

Arrays = tuple[np.ndarray, ...]


def _each(
    function: Callable[..., Arrays], operands: Arrays, shapes: tuple[tuple[int, ...], ...]
) -> Arrays:
    """What the function makes of each matrix (and of what else is given), of these shapes; NaN of a
    matrix that is not finite, or for which it fails."""
    lead = operands[0].shape[:-2]
    made = tuple(np.full((*lead, *shape), np.nan, operands[0].dtype) for shape in shapes)
    for index in np.ndindex(lead):
        matrices = [x[index] for x in operands]
        if not np.isfinite(matrices[0]).all():
            continue
        try:
            results = function(*matrices)
        except np.linalg.LinAlgError:
            continue
        for target, result in zip(made, results, strict=True):
            target[index] = result
    return made


def _symmetric(a: np.ndarray) -> np.ndarray:
    return (a + np.swapaxes(a, -1, -2)) * a.dtype.type(0.5)


def _signs(vectors: np.ndarray) -> np.ndarray:
    """The sign of each column: that of the first of its largest components."""
    size = np.abs(vectors)
    if vectors.size == 0:
        return np.ones(vectors.shape[-1], vectors.dtype)
    place = np.argmax(size >= LARGEST * size.max(axis=0), axis=0)
    return np.where(vectors[place, range(vectors.shape[-1])] < 0, -1, 1).astype(vectors.dtype)


@evaluates("cholesky")
def _cholesky(a: np.ndarray) -> np.ndarray:
    return _each(lambda m: (np.linalg.cholesky(m),), (_symmetric(a),), (a.shape[-2:],))[0]


@evaluates("triangular-solve")
def _triangular_solve(
    a: np.ndarray, b: np.ndarray, *, lower: bool, transpose: bool, unit: bool
) -> np.ndarray:
    """By substitution, a row of x after the other."""
    if transpose:
        a, lower = np.swapaxes(a, -1, -2), not lower
    n = a.shape[-1]
    x = np.zeros_like(b)
    for i in range(n) if lower else reversed(range(n)):
        known = slice(0, i) if lower else slice(i + 1, n)
        rest = b[..., i, :] - np.matmul(a[..., i : i + 1, known], x[..., known, :])[..., 0, :]
        x[..., i, :] = rest if unit else rest / a[..., i, i, None]
    return x


@evaluates("solve")
def _solve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _each(lambda m, y: (np.linalg.solve(m, y),), (a, b), (b.shape[-2:],))[0]


@evaluates("qr")
def _qr(a: np.ndarray) -> Arrays:
    def factors(m: np.ndarray) -> Arrays:
        q, r = np.linalg.qr(m)
        signs = np.where(np.diagonal(r) < 0, -1, 1).astype(m.dtype)
        return q * signs, r * signs[:, None]

    n = a.shape[-1]
    return _each(factors, (a,), (a.shape[-2:], (n, n)))


@evaluates("svd")
def _svd(a: np.ndarray) -> Arrays:
    def factors(m: np.ndarray) -> Arrays:
        u, s, vt = np.linalg.svd(m, full_matrices=False)
        signs = _signs(u)
        return u * signs, s, vt * signs[:, None]

    rows, columns = a.shape[-2:]
    k = min(rows, columns)
    shapes = ((rows, k), (k,), (k, columns))
    if k == 0:
        return tuple(np.zeros((*a.shape[:-2], *shape), a.dtype) for shape in shapes)
    return _each(factors, (a,), shapes)


@evaluates("eigh")
def _eigh(a: np.ndarray) -> Arrays:
    def factors(m: np.ndarray) -> Arrays:
        w, v = np.linalg.eigh(m)
        return w, v * _signs(v)

    return _each(factors, (_symmetric(a),), (a.shape[-1:], a.shape[-2:]))


@evaluates("det")
def _det(a: np.ndarray) -> np.ndarray:
    return _each(lambda m: (np.linalg.det(m),), (a,), ((),))[0]


@evaluates("cofactors")
def _cofactors(a: np.ndarray) -> np.ndarray:
    """det(u) det(v) u diag(the product of the other singular values) v^T."""

    def cofactors(m: np.ndarray) -> Arrays:
        u, s, vt = np.linalg.svd(m)
        others = np.array([np.prod(np.delete(s, i)) for i in range(len(s))], m.dtype)
        sign = np.sign(np.linalg.det(u) * np.linalg.det(vt))
        return (sign * (u * others) @ vt,)

    return a.copy() if a.shape[-1] == 0 else _each(cofactors, (a,), (a.shape[-2:],))[0]


@evaluates("slogdet")
def _slogdet(a: np.ndarray) -> Arrays:
    return _each(lambda m: tuple(np.linalg.slogdet(m)), (a,), ((), ()))
