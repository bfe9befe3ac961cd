"""scan on both backends: values and gradients against jax.lax.scan and jax.grad of other code,
finite differences in f64, the same loop unrolled, and laws of scan itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from reference_programs import compiled

import sexpgpu as sx
from sexpgpu.ir.graph import Node, nodes_within

DEVICES = ["interp", "cpu"]
RNG = np.random.default_rng(11)


def arrays(*shapes: tuple[int, ...], dtype: str = "float64") -> list[np.ndarray]:
    return [RNG.normal(size=shape).astype(dtype) for shape in shapes]


# What is tried: the function in the Lisp, the same one in jax, the shapes of its arguments.
def rnn(x: Any, h: Any, wx: Any, wh: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        new = jnp.tanh(x @ wx + h @ wh)
        return new, new

    h, hs = lax.scan(step, h, x)
    return jnp.sum(h**2) + jnp.sum(hs * jnp.sin(hs))


def reversed_sums(x: Any, w: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        total, count = c
        return (total * jnp.cos(x) + w, count + 1), (total, x * w)

    (total, _), (before, scaled) = lax.scan(step, (jnp.zeros(3), 0), x, reverse=True)
    return jnp.sum(total) + jnp.sum(before * scaled)


def lists(x: Any, y: Any, a: Any, b: Any) -> Any:
    def step(c: Any, xs: Any) -> Any:
        (p, q), (x, y) = c, xs
        return (p * q + x, q - y * p), (p * x, q)

    (p, q), (u, v) = lax.scan(step, (a, b), (x, y))
    return jnp.sum(p * q) + jnp.sum(u * v**2)


def nested(x: Any, w: Any) -> Any:
    def outer(c: Any, row: Any) -> Any:
        def inner(d: Any, e: Any) -> Any:
            d = jnp.sin(d * w + e * c)
            return d, d * e

        d, es = lax.scan(inner, c * 0.5, row)
        return d, jnp.sum(es) * c

    c, ys = lax.scan(outer, jnp.ones(2), x)
    return jnp.sum(c) + jnp.sum(ys**2)


def powers(x: Any) -> Any:
    c, ys = lax.scan(lambda c, _: (c * x, c), jnp.ones_like(x), None, length=5)
    return jnp.sum(c) + jnp.sum(jnp.exp(-ys))


def layers(x: Any, w: Any, b: Any) -> Any:
    def layer(h: Any, p: Any) -> Any:
        return h + jax.nn.sigmoid(h @ p[0] + p[1]) @ p[0].T, None

    h, _ = lax.scan(layer, x, (w, b))
    return jnp.mean(h**2)


CASES: dict[str, tuple[str, Callable[..., Any], list[tuple[int, ...]]]] = {
    "rnn": (
        """(lambda (x h wx wh)
          (multiple-value-bind (h hs)
              (scan (lambda (h x) (let ((new (tanh (+ (matmul x wx) (matmul h wh)))))
                                    (values new new)))
                    h x)
            (+ (sum (square h)) (sum (* hs (sin hs))))))""",
        rnn,
        [(5, 3, 4), (3, 2), (4, 2), (2, 2)],
    ),
    "reverse, an integer carry": (
        """(lambda (x w)
          (multiple-value-bind (c ys)
              (scan (lambda (c x)
                      (values (list (+ (* (first c) (cos x)) w) (+ (second c) 1))
                              (list (first c) (* x w))))
                    (list (zeros (list 3) :dtype (dtype x)) (constant 0)) x :reverse t)
            (+ (sum (first c)) (sum (* (first ys) (second ys))))))""",
        reversed_sums,
        [(4, 3), (3,)],
    ),
    "lists": (
        """(lambda (x y a b)
          (multiple-value-bind (c ys)
              (scan (lambda (c xs)
                      (destructuring-bind ((p q) (x y)) (list c xs)
                        (values (list (+ (* p q) x) (- q (* y p))) (list (* p x) q))))
                    (list a b) (list x y))
            (+ (sum (* (first c) (second c))) (sum (* (first ys) (square (second ys)))))))""",
        lists,
        [(4, 3), (4, 3), (3,), (3,)],
    ),
    "scan in scan": (
        """(lambda (x w)
          (multiple-value-bind (c ys)
              (scan (lambda (c row)
                      (multiple-value-bind (d es)
                          (scan (lambda (d e) (let ((d (sin (+ (* d w) (* e c)))))
                                                (values d (* d e))))
                                (* c 0.5) row)
                        (values d (* (sum es) c))))
                    (ones (list 2) :dtype (dtype x)) x)
            (+ (sum c) (sum (square ys)))))""",
        nested,
        [(3, 4, 2), (2,)],
    ),
    "no sequence": (
        """(lambda (x)
          (multiple-value-bind (c ys)
              (scan (lambda (c none) (values (* c x) c)) (ones (shape x) :dtype (dtype x)) nil
                    :length 5)
            (+ (sum c) (sum (exp (- ys))))))""",
        powers,
        [(3,)],
    ),
    "over layers": (
        """(lambda (x w b)
          (mean (square (scan (lambda (h p)
                                (destructuring-bind (w b) p
                                  (+ h (matmul (sigmoid (+ (matmul h w) b)) (transpose w)))))
                              x (list w b)))))""",
        layers,
        [(3, 4), (5, 4, 6), (5, 6)],
    ),
}


@pytest.fixture(params=list(CASES))
def case(request: pytest.FixtureRequest) -> tuple[str, Callable[..., Any], list[np.ndarray]]:
    text, reference, shapes = CASES[request.param]
    return text, reference, arrays(*shapes)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_against_jax(case, device: str, dtype: str) -> None:
    text, reference, given = case
    given = [x.astype(dtype) for x in given]
    function = sx.function(text, device=device)
    tolerance = 1e-11 if dtype == "float64" else 2e-5
    every = tuple(range(len(given)))
    with jax.enable_x64(dtype == "float64"):
        want, gradients = compiled(jax.value_and_grad(reference, every))(*given)
        wanted = [np.asarray(g) for g in gradients]
    got = function.grad(*given)
    np.testing.assert_allclose(function(*given), want, rtol=tolerance)
    for g, w in zip(got if len(given) > 1 else [got], wanted, strict=True):
        assert g.dtype == w.dtype
        np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance * np.abs(w).max())


def test_second_derivatives_against_jax(case) -> None:
    """d/dx of (the gradient, squared and summed): the reverse scan is differentiated in turn."""
    text, reference, given = case
    names = " ".join(f"a{i}" for i in range(len(given)))
    gradient = sx.function(f"""(lambda ({names})
      (reduce #'+ (mapcar (lambda (g) (sum (square g)))
                          (multiple-value-list (grad {text} {names})))))""")
    every = tuple(range(len(given)))
    with jax.enable_x64(True):

        def penalty(*xs: Any) -> Any:
            return sum(jnp.sum(g**2) for g in jax.grad(reference, every)(*xs))

        wanted = compiled(jax.grad(penalty, every))(*given)
    got = gradient.grad(*given)
    for g, w in zip(got if len(given) > 1 else [got], wanted, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-10 * np.abs(w).max())


# -- the same loop, unrolled ---------------------------------------------------------------------

GRU = """(lambda (x h wx wh)
  (let ((cell (lambda (h x)
                (let* ((gates (sigmoid (+ (matmul x (at wx :all (slice 0 6)))
                                          (matmul h (at wh :all (slice 0 6))))))
                       (r (at gates :all (slice 0 3)))
                       (z (at gates :all (slice 3 6)))
                       (n (tanh (+ (matmul x (at wx :all (slice 6 9)))
                                   (* r (matmul h (at wh :all (slice 6 9)))))))
                       (new (+ (* z h) (* (- 1 z) n))))
                  (values new new)))))
    %s))"""
SCANNED = "(sum (square (nth-value 1 (scan cell h x))))"
UNROLLED = """(let ((total 0))
  (dotimes (i (dim x 0) total)
    (setf h (funcall cell h (at x i)))
    (incf total (sum (square h)))))"""


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("length", [0, 1, 3])
def test_a_scan_is_its_loop_unrolled(device: str, length: int) -> None:
    given = arrays((length, 2, 4), (2, 3), (4, 9), (3, 9))
    scanned, unrolled = (sx.function(GRU % text, device=device) for text in (SCANNED, UNROLLED))
    if length == 0:
        assert scanned(*given) == 0
        for gradient, x in zip(scanned.grad(*given), given, strict=True):
            np.testing.assert_array_equal(gradient, np.zeros_like(x))
        return
    np.testing.assert_allclose(scanned(*given), unrolled(*given), rtol=1e-12)
    for a, b in zip(scanned.grad(*given), unrolled.grad(*given), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
def test_bf16_arguments(device: str) -> None:
    """In 16 bits throughout: both backends round alike, and near to f64."""
    given = [x.astype(ml_dtypes.bfloat16) for x in arrays((4, 2, 4), (2, 3), (4, 9), (3, 9))]
    function = sx.function(GRU % SCANNED, device=device)
    wide = sx.function(GRU % SCANNED)
    exact = wide.grad(*[x.astype(np.float64) for x in given])
    for got, want in zip(function.grad(*given), exact, strict=True):
        assert got.dtype == ml_dtypes.bfloat16
        scale = np.abs(want).max()
        np.testing.assert_allclose(got.astype(np.float64), want, atol=0.05 * scale)


# -- laws ---------------------------------------------------------------------------------------

LAW = """(lambda (a b c)
  (let ((f (lambda (c x) (values (+ (* c (cos x)) x) (* c x)))))
    (multiple-value-bind (whole ys) (scan f c (concat (list a b) :axis 0) :reverse %s)
      (multiple-value-bind (half first) (scan f c %s :reverse %s)
        (multiple-value-bind (end second) (scan f half %s :reverse %s)
          (values whole end ys (concat (list %s) :axis 0)))))))"""
FORTH = sx.function(LAW % ("nil", "a", "nil", "b", "nil", "first second"))
BACK = sx.function(LAW % ("t", "b", "t", "a", "t", "second first"))


@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=30, deadline=None)
def test_a_scan_of_two_parts_is_two_scans(m: int, n: int, seed: int, back: bool) -> None:
    rng = np.random.default_rng(seed)
    a, b, c = (rng.normal(size=s).astype(np.float32) for s in ((m, 2), (n, 2), (2,)))
    whole, end, ys, parts = (BACK if back else FORTH)(a, b, c)
    np.testing.assert_array_equal(whole, end)
    np.testing.assert_array_equal(ys, parts)


def test_against_finite_differences() -> None:
    text, _, shapes = CASES["scan in scan"]
    function = sx.function(text)
    given = arrays(*shapes)
    for at, gradient in enumerate(function.grad(*given)):
        direction = RNG.normal(size=given[at].shape)
        sides = []
        for sign in (1, -1):
            moved = list(given)
            moved[at] = given[at] + sign * 1e-6 * direction
            sides.append(function(*moved))
        np.testing.assert_allclose(
            np.sum(gradient * direction), (sides[0] - sides[1]) / 2e-6, rtol=1e-7
        )


# -- what the reverse scan saves ------------------------------------------------------------------


def scans(function: Any) -> list[Node]:
    assert function._last is not None
    return [node for node in nodes_within(function._last) if node.op == "scan"]


def test_nothing_is_saved_that_is_there_already() -> None:
    """Of the carry, its new value and the transposed weight, the reverse of this RNN needs one
    more stacked tensor: the carry. The transposed weight is the same in every iteration."""
    function = sx.function("""(lambda (x h w)
      (sum (nth-value 1 (scan (lambda (h x) (let ((n (tanh (+ x (matmul h (transpose w))))))
                                              (values n n))) h x))))""")
    function.grad(*arrays((5, 3, 2), (3, 2), (2, 2)))
    forward, backward = scans(function)
    assert [v.shape for v in forward.results] == [(3, 2), (5, 3, 2), (5, 3, 2)]
    assert {v.shape for v in backward.operands} == {(3, 2), (2, 2), (5, 3, 2)}


def test_a_linear_scan_saves_nothing() -> None:
    function = sx.function("(lambda (x h) (sum (scan (lambda (h x) (+ (* h 0.5) x)) h x)))")
    function.grad(*arrays((5, 2), (2,)))
    assert [len(n.results) for n in scans(function)] == [2]  # only the reverse one is left
