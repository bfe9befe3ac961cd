"""Elementwise functions, comparison and rounding, against NumPy and SciPy-free formulas."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from trace_driving import bf16, call, refused, said, world

from sexpgpu.lisp.values import NIL, T
from sexpgpu.trace.tensor import REFUSED

RNG = np.random.default_rng(1)
X = RNG.uniform(-2, 2, (3, 4)).astype(np.float32)
Y = RNG.uniform(0.5, 2, (4,)).astype(np.float32)
POSITIVE = RNG.uniform(0.1, 3, (2, 3)).astype(np.float32)
UNIT = RNG.uniform(-0.9, 0.9, (2, 3)).astype(np.float32)
IDS = np.array([-7, -1, 0, 3, 8], np.int32)


def close(a: object, b: object, rtol: float = 2e-6) -> None:
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=1e-6)
    assert np.asarray(a).dtype == np.asarray(b).dtype


@pytest.mark.parametrize(
    "name, numpy, x",
    [
        ("exp", np.exp, X), ("expm1", np.expm1, X), ("log", np.log, POSITIVE),
        ("log1p", np.log1p, POSITIVE),
        ("sqrt", np.sqrt, POSITIVE), ("rsqrt", lambda x: 1 / np.sqrt(x), POSITIVE),
        ("cbrt", np.cbrt, X),
        ("abs", np.abs, X), ("signum", np.sign, X), ("sin", np.sin, X), ("cos", np.cos, X),
        ("tan", np.tan, UNIT),
        ("asin", np.arcsin, UNIT), ("acos", np.arccos, UNIT), ("atan", np.arctan, X),
        ("sinh", np.sinh, X),
        ("cosh", np.cosh, X), ("tanh", np.tanh, X), ("asinh", np.arcsinh, X),
        ("acosh", np.arccosh, POSITIVE + 1),
        ("atanh", np.arctanh, UNIT), ("sigmoid", lambda x: 1 / (1 + np.exp(-x)), X),
        ("erf", np.vectorize(math.erf, otypes=["f4"]), X),
        ("erfc", np.vectorize(math.erfc, otypes=["f4"]), X),
        ("lgamma", np.vectorize(math.lgamma, otypes=["f4"]), POSITIVE),
        ("relu", lambda x: np.maximum(x, 0), X),
        ("softplus", lambda x: np.log1p(np.exp(x)), X), ("square", np.square, X),
        ("reciprocal", np.reciprocal, POSITIVE),
        ("floor", np.floor, X), ("ceiling", np.ceil, X), ("round", np.round, X * 2),
        ("truncate", np.trunc, X),
        ("-", np.negative, X), ("/", np.reciprocal, POSITIVE),
        ("1+", lambda x: x + np.float32(1), X),
        ("1-", lambda x: x - np.float32(1), X), ("+", lambda x: x, X), ("max", lambda x: x, X),
    ],
)  # fmt: skip
def test_unary(name: str, numpy, x: np.ndarray) -> None:
    with world() as w:
        close(w.numbers(name, x), numpy(x), 1e-5)


def test_digamma_is_the_slope_of_lgamma() -> None:
    step = 1e-4
    points = [0.3, 1.0, 2.5, 7.0, 20.0]
    slopes = [(math.lgamma(x + step) - math.lgamma(x - step)) / (2 * step) for x in points]
    with world() as w:
        np.testing.assert_allclose(w.numbers("digamma", np.float32(points)), slopes, rtol=1e-5)
    np.testing.assert_allclose([call("digamma", x) for x in points], slopes, rtol=1e-6)
    assert call("digamma", -0.5) == pytest.approx(0.03648997397857652, rel=1e-12)


@pytest.mark.parametrize(
    "name, numpy",
    [
        ("+", np.add), ("-", np.subtract), ("*", np.multiply), ("/", np.divide),
        ("max", np.maximum),
        ("min", np.minimum), ("atan", np.arctan2), ("mod", np.mod), ("rem", np.fmod),
        ("expt", lambda x, y: np.abs(x) ** y),
    ],
)  # fmt: skip
def test_binary_broadcasts(name: str, numpy) -> None:
    x = np.abs(X) if name == "expt" else X
    with world() as w:
        close(w.numbers(name, x, Y), numpy(x, Y), 1e-5)
        close(w.numbers(name, x[:, :1], Y), numpy(x[:, :1], Y), 1e-5)
        close(w.numbers(name, x, 1.5), numpy(x, np.float32(1.5)), 1e-5)


def test_several_operands_and_numbers_first() -> None:
    with world() as w:
        close(w.numbers("+", 1, 2, X, Y, 0.5), 1 + 2 + X + Y + np.float32(0.5))
        close(w.numbers("-", 10, X, 1), 10 - X - 1)
        close(w.numbers("*", Fraction(1, 2), X), X * np.float32(0.5))
        close(w.numbers("max", X, 0, Y), np.maximum(np.maximum(X, 0), Y))
        close(w.numbers("log", POSITIVE, 2), np.log2(POSITIVE))
        close(w.numbers("log", POSITIVE, Y[:3]), np.log(POSITIVE) / np.log(Y[:3]))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, 5, 0.5, -0.5, -1, 2.0, 2.5, -2])
def test_expt_by_a_number(exponent: float) -> None:
    with world() as w:
        close(w.numbers("expt", POSITIVE, exponent), POSITIVE ** np.float32(exponent), 1e-5)


def test_expt_of_integers_is_exact() -> None:
    with world() as w:
        close(w.numbers("expt", IDS, 3), IDS**3)
        close(w.numbers("expt", IDS, 2.0), (IDS**2).astype(np.float32))
        close(w.numbers("expt", np.array([3], np.int64), 33), np.array([3**33], np.int64))
        close(w.numbers("expt", np.float32([2]), IDS.astype(np.float32)), 2.0 ** IDS.astype("f4"))


def test_small_exponents_have_no_logarithm() -> None:
    with world() as w:
        w("expt", X, 2)
        assert [n.op for n in w.trace.builder.nodes] == ["mul"]


def test_clip() -> None:
    with world() as w:
        close(w.numbers("clip", X, -1, 1), np.clip(X, -1, 1))
        close(w.numbers("clip", X, None, 0.5), np.minimum(X, np.float32(0.5)))
        close(w.numbers("clip", X, w.tensor(Y - 1), None), np.maximum(X, Y - 1))
    assert call("clip", 5, 0, 3) == 3


def test_rounding_with_a_divisor() -> None:
    with world() as w:
        for name, numpy in {
            "floor": np.floor,
            "ceiling": np.ceil,
            "round": np.round,
            "truncate": np.trunc,
        }.items():
            for divisor in (2, 3, -3):
                expected = numpy(IDS.astype("f8") / divisor).astype(np.int32)
                close(w.numbers(name, IDS, divisor), expected)
            close(w.numbers(name, X, 0.5), numpy(X / np.float32(0.5)))
        close(w.numbers("floor", IDS), IDS)
        big = np.array([2**31 - 1, -(2**31)], np.int32)
        close(w.numbers("floor", big, 2), big // 2)
        refused("E-DTYPE-001", lambda: w("floor", np.array([5]), 2))


def test_comparisons() -> None:
    with world() as w:
        close(w.numbers("<", X, 0), X < 0)
        close(w.numbers(">=", X, Y), X >= Y)
        close(w.numbers("<", -1, X, 1), (X > -1) & (X < 1))
        close(w.numbers("=", IDS, 3), IDS == 3)
        close(w.numbers("/=", IDS, 3, 8), (IDS != 3) & (IDS != 8))
        close(w.numbers("=", X > 0, X > 1), (X > 0) == (X > 1))
        close(w.numbers("=", X), np.ones_like(X, bool))
        close(w.numbers("<", IDS, 2.5), IDS < 2.5)


def test_where_broadcasts_and_takes_ordinary_tests() -> None:
    with world() as w:
        close(w.numbers("where", X > 0, X, 0), np.where(X > 0, X, np.float32(0)))
        close(w.numbers("where", X[:, :1] > 0, Y, X[0]), np.where(X[:, :1] > 0, Y, X[0]))
        close(w.numbers("where", X > 0, 1, 2), np.where(X > 0, 1, 2).astype(np.int32))
        close(w.numbers("where", X > 0, 1, 2.5), np.where(X > 0, np.float32(1), np.float32(2.5)))
        close(w.numbers("where", X > 0, True, X > 1), (X > 0) | (X > 1))
        x = w.tensor(X)
        assert call("where", True, x, 3) is x
        assert call("where", None, x, 3) == 3
        refused("E-DTYPE-001", lambda: w("where", X, 1, 2))
        refused("E-OP-001", lambda: w("where", 1, X, X))


def test_logic() -> None:
    a, b = X > 0, X < 1
    with world() as w:
        close(w.numbers("logical-and", a, b, True), a & b)
        close(w.numbers("logical-or", a, b), a | b)
        close(w.numbers("logical-xor", a, b), a ^ b)
        close(w.numbers("logical-not", a), ~a)
        fix = said(refused("E-DTYPE-001", lambda: w("logical-and", X, b)))
        assert "(/= x 0)" in fix
    assert call("logical-and", True, 5, None) is NIL
    assert call("logical-or") is NIL
    assert call("logical-not", None) is T


def test_bits() -> None:
    with world() as w:
        close(w.numbers("logand", IDS, 6), IDS & 6)
        close(w.numbers("logior", IDS, 6, 1), IDS | 6 | 1)
        close(w.numbers("logxor", IDS, IDS[::-1].copy()), IDS ^ IDS[::-1])
        close(w.numbers("lognot", IDS), ~IDS)
        close(w.numbers("ash", IDS, 2), IDS << 2)
        close(w.numbers("ash", IDS, -1), IDS >> 1)
        close(w.numbers("ash", 1, np.arange(4, dtype=np.int32)), 1 << np.arange(4, dtype=np.int32))
        close(w.numbers("ash", np.int32([16, 16]), np.int32([1, -2])), np.int32([32, 4]))


def test_tests_of_floats() -> None:
    x = np.float32([1, np.nan, np.inf])
    with world() as w:
        close(w.numbers("nan-p", x), np.isnan(x))
        close(w.numbers("inf-p", x), np.isinf(x))
        close(w.numbers("finite-p", x), np.isfinite(x))
        close(w.numbers("finite-p", IDS), np.ones(5, bool))
    assert call("nan-p", 1.0) is NIL
    assert call("finite-p", 1) is T


def test_ordinary_numbers_stay_ordinary() -> None:
    assert call("square", 3) == 9
    assert call("square", Fraction(1, 2)) == Fraction(1, 4)
    assert call("relu", -2) == 0
    assert call("sigmoid", 0.0) == 0.5
    assert call("softplus", 800.0) == 800.0
    assert call("erf", 0.5) == math.erf(0.5)
    assert call("rsqrt", 4) == 0.5


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_functions_that_have_no_tensor_meaning_say_what_to_write(name: str) -> None:
    with world() as w:
        x = w.tensor(X)
        diagnostic = refused("E-OP-001", lambda: x.lisp_operate(name, (x,)))
        assert "write" in said(diagnostic)
        assert "f32 (3 4)" in said(diagnostic)


def test_unknown_functions_are_left_to_the_lisp() -> None:
    with world() as w:
        x = w.tensor(X)
        assert x.lisp_operate("gcd", (x, 2)) is NotImplemented


def test_bf16_stays_bf16() -> None:
    x = X.astype(bf16)
    with world() as w:
        made = w.numbers("+", x, 1)
        assert made.dtype == bf16
        np.testing.assert_array_equal(made, (x.astype("f4") + 1).astype(bf16))
