"""The schedules of sexpgpu/optim at every step, against optax."""

from __future__ import annotations

from typing import Any

import numpy as np
import optax
import pytest

import sexpgpu as sx

STEPS = 60

CASES: dict[str, Any] = {
    "(optim:constant 0.3)": optax.constant_schedule(0.3),
    "(optim:linear 0.1 0.9 40)": optax.linear_schedule(0.1, 0.9, 40),
    "(optim:linear 1.0 0.0 7)": optax.linear_schedule(1.0, 0.0, 7),
    "(optim:cosine 0.5 40)": optax.cosine_decay_schedule(0.5, 40),
    "(optim:cosine 0.5 40 :end 0.05)": optax.cosine_decay_schedule(0.5, 40, alpha=0.1),
    "(optim:warmup-cosine :peak 0.3 :warmup 10 :steps 50)": optax.warmup_cosine_decay_schedule(
        0.0, 0.3, 10, 50
    ),
    "(optim:warmup-cosine :peak 0.3 :warmup 10 :steps 50 :end 0.03)": (
        optax.warmup_cosine_decay_schedule(0.0, 0.3, 10, 50, end_value=0.03)
    ),
    "(optim:warmup-cosine :peak 0.3 :warmup 0 :steps 50)": optax.cosine_decay_schedule(0.3, 50),
    "(optim:warmup-linear :peak 0.3 :warmup 10 :steps 50 :end 0.1)": optax.join_schedules(
        [optax.linear_schedule(0.0, 0.3, 10), optax.linear_schedule(0.3, 0.1, 40)], [10]
    ),
    "(optim:exponential-decay 0.5 10 0.8)": optax.exponential_decay(0.5, 10, 0.8),
    "(optim:exponential-decay 0.5 10 0.8 :staircase t)": optax.exponential_decay(
        0.5, 10, 0.8, staircase=True
    ),
    "(optim:exponential-decay 0.5 10 0.8 :begin 7 :end 0.3)": optax.exponential_decay(
        0.5, 10, 0.8, transition_begin=7, end_value=0.3
    ),
    "(optim:exponential-decay 0.1 10 1.5 :end 0.4)": optax.exponential_decay(
        0.1, 10, 1.5, end_value=0.4
    ),
    "(optim:step-decay 0.5 (list 10 30) :rate 0.2)": optax.piecewise_constant_schedule(
        0.5, {10: 0.2, 30: 0.2}
    ),
    "(optim:step-decay 0.5 20)": optax.piecewise_constant_schedule(0.5, {20: 0.1, 40: 0.1}),
}


@pytest.mark.parametrize("device", ["interp", "cpu"])
@pytest.mark.parametrize("form", CASES)
def test_every_step(standard: Any, form: str, device: str) -> None:
    function = standard(f"(let ((s {form})) (lambda (step) (values (funcall s step))))", device)
    found = [function(np.int32(step)) for step in range(STEPS)]
    wanted = [float(CASES[form](step)) for step in range(STEPS)]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("form", CASES)
def test_a_schedule_takes_an_ordinary_step_too(form: str) -> None:
    text = f'(require "sexpgpu/optim" :as optim) (mapcar {form} (list 0 1 10 11 49 59))'
    wanted = [float(CASES[form](step)) for step in (0, 1, 10, 11, 49, 59)]
    np.testing.assert_allclose(sx.evaluate(text), wanted, rtol=1e-6, atol=1e-7)


def test_warmup_from_one() -> None:
    text = (
        '(require "sexpgpu/optim" :as optim)'
        "(mapcar (optim:warmup-{} :peak 1.0 :warmup 4 :steps 10 :first :one) (list 0 1 2 3 4 5))"
    )
    wanted = [0.25, 0.5, 0.75, 1.0, 1.0]
    np.testing.assert_allclose(sx.evaluate(text.format("cosine"))[:5], wanted)
    np.testing.assert_allclose(sx.evaluate(text.format("linear")), [*wanted, 5 / 6])


@pytest.mark.parametrize(
    "options, message",
    [(":peak 0.1 :steps 10", "all needed"), (":peak 0.1 :warmup 10 :steps 10", "part of the 10")],
)
def test_a_warmup_must_fit(options: str, message: str) -> None:
    with pytest.raises(sx.CompileError, match=message):
        sx.evaluate(f'(require "sexpgpu/optim" :as optim) (optim:warmup-cosine {options})')
