"""Special functions that NumPy lacks, elementwise on f32 and f64 arrays.

f64 is the referee's dtype: there each function is as good as the C library's. f32 is what models
run in: there the error functions use short series in f64, rounded once: at most 1 ulp off.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

F32 = np.float32
F64 = np.float64
_TWO_OVER_SQRT_PI = 2.0 / math.sqrt(math.pi)


def _gamma_log(x: float) -> float:
    try:
        return math.lgamma(x)
    except ValueError:  # a pole
        return math.inf


_erf_exact: Any = np.frompyfunc(math.erf, 1, 1)
_erfc_exact: Any = np.frompyfunc(math.erfc, 1, 1)
_lgamma_exact: Any = np.frompyfunc(_gamma_log, 1, 1)


def _polynomial(coefficients: np.ndarray | tuple[float, ...], x: np.ndarray) -> np.ndarray:
    """Horner's rule, highest power first, in the dtype of x."""
    dtype = x.dtype.type
    value = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value *= x
        value += dtype(coefficient)
    return value


# ---- error functions -----------------------------------------------------------------------
def _scaled_erfc(x: float) -> float:
    """exp(x^2) erfc(x) for x >= 0; beyond 10 by its asymptotic series (DLMF 7.12.1)."""
    if x < 10.0:
        return math.exp(x * x) * math.erfc(x)
    if math.isinf(x):
        return 0.0
    term = total = 1.0
    for k in range(1, 12):
        term *= -(2 * k - 1) / (2 * x * x)
        total += term
    return total / (x * math.sqrt(math.pi))


def _fit_scaled_erfc(degree: int) -> np.ndarray:
    """Powers of t = (x - 2)/(x + 2), highest first, interpolating at Chebyshev's points."""

    def function(t: np.ndarray) -> Any:
        return np.array([_scaled_erfc(2 * (1 + v) / (1 - v)) for v in t])

    chebyshev: Any = np.polynomial.chebyshev
    return chebyshev.cheb2poly(chebyshev.chebinterpolate(function, degree))[::-1].copy()


_SCALED_ERFC = _fit_scaled_erfc(13)  # relative error below 1e-8
# Taylor's series of erf at 0, in x^2, highest power first: good to 1e-9 for |x| < 1/2
_ERF_NEAR_ZERO = tuple(
    _TWO_OVER_SQRT_PI * (-1) ** k / (math.factorial(k) * (2 * k + 1)) for k in range(6, -1, -1)
)


def _erfc_of_magnitude(size: np.ndarray) -> np.ndarray:
    """erfc(x) of f64 x >= 0 (NaN stays NaN)."""
    size = np.minimum(size, 40.0)  # where it is 0 in f64, too
    return np.exp(-size * size) * _polynomial(_SCALED_ERFC, (size - 2.0) / (size + 2.0))


def erf(x: np.ndarray) -> np.ndarray:
    """The error function."""
    if x.dtype == F64:
        return _erf_exact(x).astype(F64)
    wide = x.astype(F64)
    size = np.abs(wide)
    far = np.copysign(1.0 - _erfc_of_magnitude(size), wide)
    near = wide * _polynomial(_ERF_NEAR_ZERO, np.minimum(wide * wide, 1.0))
    return np.where(size < 0.5, near, far).astype(x.dtype)


def erfc(x: np.ndarray) -> np.ndarray:
    """1 - erf(x), without cancellation."""
    if x.dtype == F64:
        return _erfc_exact(x).astype(F64)
    wide = x.astype(F64)
    tail = _erfc_of_magnitude(np.abs(wide))
    return np.where(wide < 0, 2.0 - tail, tail).astype(x.dtype)


# M. Giles, "Approximating the erfinv function" (GPU Computing Gems, Jade edition, 2011), single
# precision: powers of w - 5/2 for w = -log(1 - x^2) < 5, of sqrt(w) - 3 beyond; highest first.
_ERF_INV_CENTRE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_ERF_INV_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip


def erf_inv(x: np.ndarray) -> np.ndarray:
    """The inverse of erf on [-1, 1]: infinite at the ends, NaN outside."""
    dtype = x.dtype.type
    # 1 - x^2 is exact where that matters, near 1; NumPy's log1p is many times slower
    w = -np.log(1 - x * x)
    value = _polynomial(_ERF_INV_CENTRE, w - dtype(2.5))
    far = ~(w < dtype(5))  # one in 300 of uniform draws
    value[far] = _polynomial(_ERF_INV_TAIL, np.sqrt(w[far]) - dtype(3))
    value *= x
    if x.dtype == F64:
        value = _polish_erf_inv(x, value)
    return np.where(np.abs(x) == 1, x * dtype(np.inf), value)


def _polish_erf_inv(x: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Newton's method from 7 digits to 15; by erfc, which stays exact in the tails."""
    size, rest = np.abs(value), 1.0 - np.abs(x)
    for _ in range(3):
        slope = _TWO_OVER_SQRT_PI * np.exp(-size * size)
        by_tail = _erfc_exact(size).astype(F64) - rest
        by_centre = np.abs(x) - _erf_exact(size).astype(F64)
        size = size + np.where(rest < 0.5, by_tail, by_centre) / slope
    return np.copysign(size, x)


# ---- gamma functions -----------------------------------------------------------------------
def lgamma(x: np.ndarray) -> np.ndarray:
    """The logarithm of |gamma(x)|; infinite at the poles."""
    return _lgamma_exact(x.astype(F64)).astype(x.dtype)


# B_2k / 2k of DLMF 5.11.2, highest first
_DIGAMMA_SERIES = (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)


def digamma(x: np.ndarray) -> np.ndarray:
    """The logarithmic derivative of gamma; NaN at the poles.

    Reflected to x > 0 (DLMF 5.5.4), moved up to x >= 8 by psi(x) = psi(x + 1) - 1/x (5.5.2),
    then by the asymptotic series 5.11.2.
    """
    wide = x.astype(F64)
    mirrored = wide < 0.5
    y = np.where(mirrored, 1.0 - wide, wide)
    value = np.zeros_like(y)
    for _ in range(8):
        small = y < 8.0
        value -= np.where(small, 1.0 / y, 0.0)
        y = np.where(small, y + 1.0, y)
    square = 1.0 / (y * y)
    value += np.log(y) - 0.5 / y - square * _polynomial(_DIGAMMA_SERIES, square)
    # pi cot(pi x): the period taken off first, so that large arguments keep their digits
    reflection = math.pi / np.tan(math.pi * (wide - np.rint(wide)))
    pole = (wide <= 0) & (wide == np.rint(wide))
    return np.where(pole, np.nan, value - np.where(mirrored, reflection, 0.0)).astype(x.dtype)
