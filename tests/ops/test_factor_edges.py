"""Matrices without factors, of no rows, with equal eigenvalues: both lowerings, and derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from op_driving import graph_of, run_lax, run_numpy, vjp_graph

from sexpgpu.ir.types import TensorType
from sexpgpu.ops import OPS, Sample

NAN, INF = np.nan, np.inf
SQUARE = ["cholesky", "qr", "svd", "eigh", "det", "slogdet", "cofactors"]


def both(name: str, *arrays: np.ndarray, **attrs) -> list[list[np.ndarray]]:
    sample = Sample(*[TensorType(x.shape, "f64") for x in arrays], **attrs)
    graph = graph_of(OPS[name], sample)
    given = {str(i): x for i, x in enumerate(arrays)}
    results = [run_numpy(graph, given), run_lax([graph], [given], True)[0]]
    return [[np.asarray(r[str(i)]) for i in range(len(r))] for r in results]


def gradient(name: str, cotangents: list[np.ndarray | None], *arrays: np.ndarray, **attrs):
    """The cotangents of the operands, by NumPy and by lax. None: a result without one."""
    op = OPS[name]
    sample = Sample(*[TensorType(x.shape, "f64") for x in arrays], **attrs)
    graph, _ = vjp_graph(op, sample)
    given = {str(i): x for i, x in enumerate(arrays)}
    given |= {f"ct{i}": c for i, c in enumerate(cotangents) if c is not None}
    return [run_numpy(graph, given), run_lax([graph], [given], True)[0]]


@pytest.mark.parametrize("name", SQUARE)
@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_only_the_matrix_that_is_not_finite_is_nan(name: str, bad: float) -> None:
    a = np.stack([np.array([[3.0, 1], [1, 2]])] * 2)
    a[1, 1, 0] = bad
    for results in both(name, a):
        for x in results:
            assert np.isfinite(x[0]).all()
            assert np.isnan(x[1]).all()


@pytest.mark.parametrize("name", SQUARE)
@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3)])
def test_no_rows_and_no_matrices(name: str, shape: tuple) -> None:
    one, other = both(name, np.zeros(shape))
    for a, b in zip(one, other, strict=True):
        assert a.shape == b.shape
        np.testing.assert_array_equal(a, b)
    if name == "det" and shape == (2, 0, 0):
        np.testing.assert_array_equal(one[0], [1, 1])


def test_a_singular_system_is_nan_and_its_neighbour_is_not() -> None:
    a = np.stack([np.ones((2, 2)), 2 * np.eye(2)])
    for (x,) in both("solve", a, np.ones((2, 2, 1))):
        assert np.isnan(x[0]).all()
        np.testing.assert_array_equal(x[1], [[0.5], [0.5]])
    for (x,) in both("solve", np.zeros((0, 0)), np.zeros((0, 3))):
        assert x.shape == (0, 3)


def test_a_matrix_that_is_not_definite_has_no_factor() -> None:
    for a in ([[1.0, 2], [2, 1]], [[-1.0, 0], [0, 1]], [[0.0, 0], [0, 0]]):
        for (x,) in both("cholesky", np.array(a)):
            assert np.isnan(x).all()


def test_the_other_triangle_is_not_read() -> None:
    a = np.array([[2.0, NAN], [1, 4]])
    b = np.array([[2.0], [6]])
    for (x,) in both("triangular-solve", a, b, lower=True, transpose=False, unit=False):
        np.testing.assert_array_equal(x, [[1], [1.25]])
    unit = np.array([[NAN, 3.0], [INF, NAN]])
    for (x,) in both("triangular-solve", unit, b, lower=False, transpose=False, unit=True):
        np.testing.assert_array_equal(x, [[2 - 18], [6]])


def test_signs_are_those_of_the_first_largest_component() -> None:
    """(1, -1)/sqrt 2 and its kind: components equal but for rounding."""
    a = np.array([[2.0, -1, 0], [-1, 2, -1], [0, -1, 2]])
    for _, v in both("eigh", a):
        assert (v[0, [0, 1]] > 0).all()
        assert v[1, 2] < 0 < v[0, 2] or v[1, 2] > 0
    for q, r in both("qr", -np.eye(2)):
        np.testing.assert_array_equal(r, np.eye(2))
        np.testing.assert_array_equal(q, -np.eye(2))


def test_equal_eigenvalues_have_a_derivative_where_no_choice_matters() -> None:
    """d sum(w)/da is the identity, also of a multiple of the identity."""
    for got in gradient("eigh", [np.ones(3), np.zeros((3, 3))], 2 * np.eye(3)):
        np.testing.assert_allclose(got["d0"], np.eye(3), atol=1e-14)
    cts = [np.zeros((3, 3)), np.ones(3), np.zeros((3, 3))]
    for got in gradient("svd", cts, 2 * np.eye(3)):
        np.testing.assert_allclose(got["d0"], np.eye(3), atol=1e-14)


def test_the_determinant_of_a_singular_matrix_has_its_derivative() -> None:
    a = np.array([[1.0, 2, 3], [4, 5, 6], [7, 8, 9]])
    minors = np.array(
        [
            [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) for j in range(3)]
            for i in range(3)
        ]
    )
    for got in gradient("det", [np.array(1.0)], a):
        np.testing.assert_allclose(got["d0"], minors, atol=1e-11)
    for got in gradient("det", [np.array(1.0)], np.zeros((3, 3))):
        np.testing.assert_allclose(got["d0"], np.zeros((3, 3)), atol=0)


def test_lapack_is_called_for_f64_in_f64() -> None:
    """A Hilbert matrix, whose condition f32 does not hold."""
    a = 1.0 / (1 + np.arange(8) + np.arange(8)[:, None])
    want = np.linalg.solve(a, a @ np.ones((8, 1)))
    for (x,) in both("solve", a, a @ np.ones((8, 1))):
        np.testing.assert_allclose(x, want, rtol=0, atol=1e-5)
