"""Shampoo, SOAP and Muon against the papers' formulas in NumPy, in f64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


def root(a: np.ndarray, power: float) -> np.ndarray:
    values, vectors = np.linalg.eigh(a)
    return vectors @ np.diag(values**power) @ vectors.T


class Shampoo:
    def __init__(self, p: np.ndarray, momentum: float) -> None:
        matrix = p.ndim > 1
        self.left = 1e-4 * np.eye(p.shape[0]) if matrix else None
        self.right = 1e-4 * np.eye(p.shape[1]) if matrix else None
        self.v, self.u, self.momentum = np.full(p.shape, 1e-4), np.zeros(p.shape), momentum

    def __call__(self, p: np.ndarray, g: np.ndarray) -> np.ndarray:
        if self.left is None:
            self.v = self.v + g * g
            step = g / np.sqrt(self.v)
        else:
            self.left, self.right = self.left + g @ g.T, self.right + g.T @ g
            step = root(self.left, -0.25) @ g @ root(self.right, -0.25)
        self.u = self.momentum * self.u + step
        return p - 0.1 * self.u


class Soap:
    def __init__(self, p: np.ndarray) -> None:
        self.t, self.m, self.v = 0, np.zeros(p.shape), np.zeros(p.shape)
        n, k = (*p.shape, 1)[:2]
        self.left, self.right = np.zeros((n, n)), np.zeros((k, k))
        self.u, self.w = np.eye(n), np.eye(k)

    def __call__(self, p: np.ndarray, g: np.ndarray) -> np.ndarray:
        turn = (lambda x: self.u.T @ x @ self.w) if p.ndim > 1 else (lambda x: x)
        back = (lambda x: self.u @ x @ self.w.T) if p.ndim > 1 else (lambda x: x)
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * g
        self.v = 0.95 * self.v + 0.05 * turn(g) ** 2
        m, v = self.m / (1 - 0.9**self.t), self.v / (1 - 0.95**self.t)
        new = p * (1 - 0.01 * 0.1 * (p.ndim > 1)) - 0.01 * back(turn(m) / (np.sqrt(v) + 1e-8))
        if p.ndim > 1:
            self.left = 0.95 * self.left + 0.05 * g @ g.T
            self.right = 0.95 * self.right + 0.05 * g.T @ g
            self.u = np.linalg.qr(self.left @ self.u)[0]
            self.w = np.linalg.qr(self.right @ self.w)[0]
        return new


CASES: dict[str, Any] = {
    "(optim:shampoo :lr 0.1)": lambda p: Shampoo(p, 0.0),
    "(optim:shampoo :lr 0.1 :momentum 0.9)": lambda p: Shampoo(p, 0.9),
    "(optim:soap :lr 0.01 :b1 0.9 :decay 0.1)": Soap,
}


@pytest.mark.parametrize("optimizer", CASES)
def test_twenty_updates(updates: Any, optimizer: str) -> None:
    random = np.random.default_rng(2)
    p = {"w": random.standard_normal((3, 4)), "b": random.standard_normal(4)}
    ours, theirs = updates(optimizer, "interp"), {k: CASES[optimizer](v) for k, v in p.items()}
    found = {k: v.astype(np.float32) for k, v in p.items()}
    for step in range(20):
        g = {k: random.standard_normal(v.shape).astype(np.float32) for k, v in p.items()}
        found = ours.step(step, found, g)
        p = {k: theirs[k](v, g[k].astype(np.float64)) for k, v in p.items()}
        for path in p:
            np.testing.assert_allclose(found[path], p[path], rtol=2e-4, atol=2e-4)


def test_muon_makes_singular_values_alike(updates: Any) -> None:
    """A step of lr 1 on a square matrix: its singular values are between 0.65 and 1.25, however
    unlike those of the gradient are."""
    random = np.random.default_rng(3)
    ours = updates("(optimizer-groups (optim:sgd) (group w (rank 2) :optimizer (optim:muon :lr 1.0 "
                   ":scale :none)))", "interp")  # fmt: skip
    u, _ = np.linalg.qr(random.standard_normal((3, 3)))
    v, _ = np.linalg.qr(random.standard_normal((4, 4)))
    g = (u @ np.diag([3.0, 0.5, 0.1]) @ v[:, :3].T).astype(np.float32)
    p = {"w": np.zeros((3, 4), np.float32), "b": np.zeros(4, np.float32)}
    new = ours.step(0, p, {"w": g, "b": np.zeros(4, np.float32)})
    values = np.linalg.svd(new["w"], compute_uv=False)
    assert values.min() > 0.65
    assert values.max() < 1.25
