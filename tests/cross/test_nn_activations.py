"""The activations of sexpgpu/nn, value and slope, against jax.nn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference_programs import compiled

X = np.linspace(-6.0, 6.0, 49, dtype=np.float32) + np.float32(0.01)  # no kink is hit

CASES: dict[str, Callable[[Any], Any]] = {
    "(nn:gelu x)": lambda x: jax.nn.gelu(x, approximate=False),
    "(nn:gelu x :approximate t)": lambda x: jax.nn.gelu(x, approximate=True),
    "(nn:silu x)": jax.nn.silu,
    "(nn:squared-relu x)": lambda x: jax.nn.relu(x) ** 2,
    "(nn:leaky-relu x)": jax.nn.leaky_relu,
    "(nn:leaky-relu x :slope 0.2)": lambda x: jax.nn.leaky_relu(x, 0.2),
    "(nn:elu x)": jax.nn.elu,
    "(nn:elu x :alpha 0.5)": lambda x: jax.nn.elu(x, 0.5),
    "(nn:celu x :alpha 2.0)": lambda x: jax.nn.celu(x, 2.0),
    "(nn:selu x)": jax.nn.selu,
    "(nn:mish x)": jax.nn.mish,
    "(nn:log-sigmoid x)": jax.nn.log_sigmoid,
    "(nn:hard-tanh x)": jax.nn.hard_tanh,
    "(nn:hard-sigmoid x)": jax.nn.hard_sigmoid,
    "(nn:hard-swish x)": jax.nn.hard_silu,
}


@pytest.mark.parametrize("form", CASES)
def test_activation(standard: Any, near: Any, form: str) -> None:
    function = CASES[form]
    gradient_of = jax.grad(lambda x: function(x).sum())
    wanted, gradient = compiled(lambda x: (function(x), gradient_of(x)))(X)
    for device in ("interp", "cpu"):
        found = standard(f"(lambda (x) {form})", device)
        near(found(X), wanted)
        slope = standard(f"(lambda (x) (sum {form}))", device).grad(X)
        near(slope, gradient)


def test_glu(standard: Any, near: Any) -> None:
    x = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
    near(standard("(lambda (x) (nn:glu x))")(x), jax.nn.glu(jnp.asarray(x)))
    near(
        standard("(lambda (x) (nn:glu x :axis 0))")(x.T.copy()),
        jax.nn.glu(jnp.asarray(x.T), axis=0),
    )


def test_far_tails_are_finite(standard: Any) -> None:
    x = np.array([-1e4, -90.0, 90.0, 1e4], np.float32)
    for form in CASES:
        assert np.isfinite(standard(f"(lambda (x) {form})")(x)).all(), form
        assert np.isfinite(standard(f"(lambda (x) (sum {form}))").grad(x)).all(), form
