"""The initialisers of sexpgpu/nn: moments and edges, against jax.nn.initializers."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax.nn import initializers

import sexpgpu as sx
from sexpgpu.lowering.interp.evaluate import Plan, evaluate

SHAPES = [(300, 200), (3, 5, 40, 60)]

CASES: dict[str, Any] = {
    "(nn:normal)": initializers.normal(1.0),
    "(nn:normal :std 0.02)": initializers.normal(0.02),
    "(nn:truncated-normal :std 0.5)": initializers.truncated_normal(0.5),
    "(nn:uniform :high 0.01)": initializers.uniform(0.01),
    "(nn:constant 0.25)": initializers.constant(0.25),
    "(nn:zeros-init)": initializers.zeros,
    "(nn:ones-init)": initializers.ones,
    "(nn:lecun-normal)": initializers.lecun_normal(),
    "(nn:glorot-normal)": initializers.glorot_normal(),
    "(nn:glorot-uniform)": initializers.glorot_uniform(),
    "(nn:he-normal)": initializers.he_normal(),
    "(nn:he-uniform)": initializers.he_uniform(),
    "(nn:variance-scaling :scale 3.0 :mode :fan-out)": initializers.variance_scaling(
        3.0, "fan_out", "normal"
    ),
    "(nn:variance-scaling :mode :fan-avg :distribution :uniform)": initializers.variance_scaling(
        1.0, "fan_avg", "uniform"
    ),
}


def draw(standard: Any, form: str, shape: tuple[int, ...]) -> np.ndarray:
    extents = " ".join(map(str, shape))
    return standard(f"(lambda () (funcall {form} (list {extents})))")(seed=5)


OF_ANY_SHAPE = (
    "(nn:normal",
    "(nn:truncated",
    "(nn:uniform",
    "(nn:constant",
    "(nn:zeros",
    "(nn:ones",
)


@pytest.mark.parametrize(
    "form, shape",
    [(f, s) for f in CASES for s in (SHAPES[:1] if f.startswith(OF_ANY_SHAPE) else SHAPES)],
)
def test_moments_and_edges(standard: Any, form: str, shape: tuple[int, ...]) -> None:
    found = draw(standard, form, shape)
    wanted = np.asarray(CASES[form](jax.random.key(0), shape, np.float32))
    assert (found.shape, found.dtype) == (shape, np.float32)
    error = 5 * wanted.std() / np.sqrt(wanted.size) + 1e-7
    assert abs(found.mean() - wanted.mean()) < 2 * error
    # the spread of a spread: kurtosis 3 at most, hence the factor 1
    np.testing.assert_allclose(found.std(), wanted.std(), rtol=10 / np.sqrt(wanted.size), atol=1e-7)
    bounded = "uniform" in form or (
        "normal" in form and not form.startswith(("(nn:normal", "(nn:var"))
    )
    if bounded:  # the edges of a uniform or truncated distribution are nearly reached
        np.testing.assert_allclose(np.abs(found).max(), np.abs(wanted).max(), rtol=2e-2)


@pytest.mark.parametrize("shape", [(40, 30), (30, 40), (3, 2, 20, 10), (6, 6)])
def test_orthogonal(standard: Any, shape: tuple[int, ...]) -> None:
    """Orthonormal columns (or rows), which fixes the root mean square; what it leaves open is
    spread evenly over directions: the sum of a uniform direction's coordinates has variance 1."""
    found = draw(standard, "(nn:orthogonal :scale 2.0)", shape).reshape(-1, shape[-1])
    short = found if found.shape[0] < found.shape[1] else found.T
    np.testing.assert_allclose(short @ short.T, 4 * np.eye(len(short)), atol=1e-4)
    like = np.asarray(initializers.orthogonal(2.0)(jax.random.key(0), shape, np.float32))
    for made in (found, like.reshape(found.shape)):
        rms = 2 * np.sqrt(len(short) / short.size)
        np.testing.assert_allclose(np.sqrt(np.mean(made**2)), rms, rtol=1e-5)
        assert abs(made.sum()) < 5 * 2 * np.sqrt(len(short))


def test_orthogonal_has_no_preferred_sign(standard: Any) -> None:
    """QR alone would give one sign more often on the diagonal; the signs of R undo that."""
    make = standard("(lambda () (funcall (nn:orthogonal) (list 3 3)))")
    traces = [np.trace(make(seed=seed)) for seed in range(300)]
    assert abs(np.mean(traces)) < 0.2  # of the Haar measure: 0, with a spread of 1


def test_identity(standard: Any) -> None:
    np.testing.assert_array_equal(
        draw(standard, "(nn:identity-init :scale 0.5)", (2, 3)), 0.5 * np.eye(2, 3)
    )


def test_fans_need_two_axes(standard: Any) -> None:
    with pytest.raises(sx.CompileError, match="rank 2 or more"):
        draw(standard, "(nn:he-normal)", (5,))


def test_layers_start_as_documented() -> None:
    """linear: variance 1/in, biases 0; embedding: variance 1/width; norms: scale 1, bias 0."""
    text = """
    (require "sexpgpu/nn" :as nn)
    (require "sexpgpu/optim" :as optim)
    (defloader train :source (synthetic 2 (x :f32 (400) (:normal 0 1))) :batch 2)
    (defun prepare (batch) (field batch :x))
    (defmodel m ()
      (submodel fit (nn:linear 400 300))
      (submodel table (nn:embedding 200 300))
      (submodel place (nn:positional 200 300))
      (submodel ln (nn:layer-norm 300))
      (submodel image (nn:conv2d 20 200 4))
      (forward (x)
        (+ (place (+ (ln (fit x)) (table (arange 2))))
           (mean (image (zeros (list 1 3 3 20)))))))
    (defun objective (model x) (mean (funcall model x)))
    (defrun m :model (m) :optimizer (optim:sgd) :steps 1)
    """
    document = sx.compile_text(text).document
    spread = {
        "fit/w": 400**-0.5, "fit/b": 0.0, "table/w": 300**-0.5, "place/w": 0.02,
        "ln/scale": 0.0, "ln/bias": 0.0, "image/w": (16 * 20) ** -0.5, "image/b": 0.0,
    }  # fmt: skip
    assert {p.path for p in document.parameters} == set(spread)
    for p in document.parameters:
        graph = document.graphs[p.init]
        value = evaluate(Plan(graph), {"rng/key": np.array([3, 4], np.uint32)})["value"]
        np.testing.assert_allclose(value.std(), spread[p.path], rtol=0.02, atol=1e-9)
        mean = 1.0 if p.path == "ln/scale" else 0.0
        assert abs(value.mean() - mean) < 5 * spread[p.path] / np.sqrt(value.size) + 1e-9
