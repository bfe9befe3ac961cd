"""Factors and systems of matrices against numpy.linalg, and what has none."""

from __future__ import annotations

import numpy as np
import pytest
from trace_driving import call, refused, said, world

RNG = np.random.default_rng(5)


def close(got, want, bound: float = 1e-10) -> None:
    np.testing.assert_allclose(got, want, rtol=0, atol=bound * max(1, np.abs(want).max(initial=0)))


def definite(*shape: int) -> np.ndarray:
    x = RNG.normal(size=shape)
    return x @ np.swapaxes(x, -1, -2) + np.eye(shape[-1])


def test_a_cholesky_factor_multiplies_back() -> None:
    a = definite(2, 4, 4)
    with world() as w:
        close(w.numbers("cholesky", a), np.linalg.cholesky(a))
        close(w.numbers("cholesky", a, upper=True), np.swapaxes(np.linalg.cholesky(a), -1, -2))
        bad = np.stack([np.eye(2), np.array([[1.0, 2], [2, 1]])])
        got = w.numbers("cholesky", bad)
        close(got[0], np.eye(2))
        assert np.isnan(got[1]).all()


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3), (2, 3, 4), (1, 1)])
def test_orthogonal_factors_multiply_back_with_signs_that_are_fixed(shape: tuple) -> None:
    a = RNG.normal(size=shape)
    k = min(shape[-2:])
    with world() as w:
        t = w.tensor(a)
        q, r = [w.run(v) for v in call("qr", t)]
        close(q @ r, a)
        close(np.swapaxes(q, -1, -2) @ q, np.broadcast_to(np.eye(k), (*shape[:-2], k, k)))
        assert (np.diagonal(r, axis1=-2, axis2=-1) >= 0).all()
        close(r, np.triu(r))
        u, s, vt = [w.run(v) for v in call("svd", t)]
        close(u * s[..., None, :] @ vt, a)
        close(s, np.linalg.svd(a, compute_uv=False))
        big = np.abs(u) >= 0.99 * np.abs(u).max(-2, keepdims=True)
        first = np.take_along_axis(u, np.argmax(big, -2)[..., None, :], -2)
        assert (first > 0).all()


def test_eigenvectors_of_symmetric_matrices() -> None:
    x = RNG.normal(size=(3, 4, 4))
    a = (x + np.swapaxes(x, -1, -2)) / 2
    with world() as w:
        values, vectors = [w.run(v) for v in call("eigh", w.tensor(x))]
        close(values, np.linalg.eigvalsh(a))
        close(a @ vectors, vectors * values[:, None, :])


def test_determinants() -> None:
    a = RNG.normal(size=(2, 3, 3))
    with world() as w:
        close(w.numbers("det", a), np.linalg.det(a))
        sign, size = [w.run(v) for v in call("slogdet", w.tensor(a))]
        close(sign * np.exp(size), np.linalg.det(a))
        singular = np.ones((2, 2))
        assert w.numbers("det", singular) == 0
        assert [float(w.run(v)) for v in call("slogdet", w.tensor(singular))] == [0, -np.inf]
        assert w.numbers("det", np.zeros((0, 0))) == 1


SYSTEMS = [
    ((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (3,)), ((2, 3, 3), (2, 3, 1)),
    ((3, 3), (2, 3, 2)), ((1, 3, 3), (2, 3, 2)), ((2, 1, 3, 3), (4, 3, 1)),
]  # fmt: skip


@pytest.mark.parametrize("a_shape, b_shape", SYSTEMS)
def test_systems_broadcast_as_numpys(a_shape: tuple, b_shape: tuple) -> None:
    a, b = RNG.normal(size=a_shape) + 3 * np.eye(3), RNG.normal(size=b_shape)
    with world() as w:
        close(w.numbers("solve", a, b), np.linalg.solve(a, b))
        lower, upper = np.tril(a), np.triu(a)
        close(w.numbers("triangular-solve", a, b), np.linalg.solve(lower, b))
        close(w.numbers("triangular-solve", a, b, lower=False), np.linalg.solve(upper, b))
        across = w.numbers("triangular-solve", a, b, transpose=True)
        close(across, np.linalg.solve(np.swapaxes(lower, -1, -2), b))
        ones = np.tril(a, -1) + np.eye(3)
        close(w.numbers("triangular-solve", a, b, unit=True), np.linalg.solve(ones, b))


def test_one_matrix_for_a_batch_is_factored_once() -> None:
    with world(batch=4) as w:
        a, b = w.tensor(np.eye(3, dtype="f")), w.tensor(np.zeros((4, 3, 2), "f"), batch=0)
        x = call("solve", a, b)
        assert x.type.batch == 0
        assert [v.shape for n in w.trace.builder.nodes if n.op == "solve" for v in n.operands] == [
            (3, 3), (3, 8),
        ]  # fmt: skip


def test_inverses() -> None:
    a = RNG.normal(size=(2, 3, 3)) + 3 * np.eye(3)
    with world() as w:
        close(w.numbers("inverse", a), np.linalg.inv(a))
        assert np.isnan(w.numbers("inverse", np.ones((2, 2)))).all()


def test_integers_become_f32() -> None:
    with world() as w:
        made = call("det", w.tensor(np.array([[2, 1], [1, 3]], np.int32)))
        assert made.type.dtype == "f32"
        assert w.run(made) == 5


def test_refusals_say_what_is_wrong() -> None:
    with world() as w:
        tall = w.tensor(np.zeros((3, 2), "f"))
        for name in ("cholesky", "eigh", "det", "slogdet", "inverse"):
            assert "3 rows" in said(refused("E-SHAPE-009", lambda name=name: call(name, tall)))
        a = w.tensor(np.eye(3, dtype="f"))
        refused("E-SHAPE-002", lambda: call("solve", a, w.tensor(np.zeros((2, 3), "f"))))
        refused("E-SHAPE-005", lambda: call("solve", a, w.tensor(np.float32(1))))
        refused("E-SHAPE-005", lambda: call("svd", w.tensor(np.zeros(3, "f"))))
        refused("E-DTYPE-001", lambda: call("det", w.tensor(np.eye(2, dtype=bool))))
        wrong = w.tensor(np.zeros((3, 3, 1), "f"))
        refused("E-SHAPE-001", lambda: call("solve", w.tensor(np.zeros((2, 3, 3), "f")), wrong))
