"""The schedules of sexpgpu/optim at every step, against optax."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax
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
    "(optim:polynomial 0.1 0.9 40)": optax.polynomial_schedule(0.1, 0.9, 2, 40),
    "(optim:polynomial 1.0 0.2 30 :power 1.5 :begin 5)": optax.polynomial_schedule(
        1.0, 0.2, 1.5, 30, 5
    ),
    "(optim:one-cycle :peak 0.5 :steps 50)": optax.cosine_onecycle_schedule(50, 0.5),
    "(optim:one-cycle :peak 0.5 :steps 40 :rise 0.25 :start 10.0 :end 100.0)": (
        optax.cosine_onecycle_schedule(40, 0.5, 0.25, 10.0, 100.0)
    ),
    "(optim:warmup-stable-decay :peak 0.4 :warmup 10 :stable 20 :decay 20 :end 0.1)": (
        optax.join_schedules(
            [
                optax.linear_schedule(0.0, 0.4, 10),
                optax.constant_schedule(0.4),
                optax.linear_schedule(0.4, 0.1, 20),
            ],
            [10, 30],
        )
    ),
    "(optim:warmup-stable-decay :peak 0.4 :stable 20 :decay 20 :shape :cosine)": (
        optax.join_schedules(
            [optax.constant_schedule(0.4), optax.cosine_decay_schedule(0.4, 20)], [20]
        )
    ),
    "(optim:join (list (optim:linear 0.0 1.0 10) 1.0 (optim:cosine 1.0 20)) (list 10 25))": (
        optax.join_schedules(
            [
                optax.linear_schedule(0.0, 1.0, 10),
                optax.constant_schedule(1.0),
                optax.cosine_decay_schedule(1.0, 20),
            ],
            [10, 25],
        )
    ),
    "(optim:scale (optim:cosine 0.5 40) 3.0)": optax.cosine_decay_schedule(1.5, 40),
    "(optim:scale (optim:cosine 0.5 40) (optim:linear 0.0 1.0 20))": lambda step: (
        optax.cosine_decay_schedule(0.5, 40)(step) * optax.linear_schedule(0.0, 1.0, 20)(step)
    ),
    "(optim:inverse-sqrt :peak 0.3 :warmup 10)": lambda step: (
        0.3 * min(step / 10, np.sqrt(10 / max(step, 1)))
    ),
    "(optim:warmup-stable-decay :peak 0.4 :stable 9 :decay 20 :end 0.1 :shape :sqrt)": (
        lambda step: 0.1 + 0.3 * (1 - np.sqrt(np.clip((step - 9) / 20, 0, 1)))
    ),
    "(optim:step-decay 0.5 20)": optax.piecewise_constant_schedule(0.5, {20: 0.1, 40: 0.1}),
}


def values(form: str, steps: Iterable[int]) -> list[float]:
    with jax.numpy_dtype_promotion("standard"):  # optax's own arithmetic mixes dtypes
        return [float(CASES[form](step)) for step in steps]


@pytest.mark.parametrize("device", ["interp", "cpu"])
@pytest.mark.parametrize("form", CASES)
def test_every_step(standard: Any, form: str, device: str) -> None:
    # a schedule is elementwise, so it takes a tensor of all steps at once
    text = f"(let ((s {form})) (lambda (steps) (+ (* 0.0 steps) (values (funcall s steps)))))"
    found = standard(text, device)(np.arange(STEPS, dtype=np.int32))
    wanted = values(form, range(STEPS))
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("form", CASES)
def test_a_schedule_takes_an_ordinary_step_too(form: str) -> None:
    text = f'(require "sexpgpu/optim" :as optim) (mapcar {form} (list 0 1 10 11 49 59))'
    wanted = values(form, (0, 1, 10, 11, 49, 59))
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
    "form, message",
    [
        ("(optim:join (list 1.0 2.0) (list 10 20))", "2 schedules need 1 boundaries"),
        ("(optim:join (list 1.0 2.0 3.0) (list 10 10))", "do not rise"),
        ("(optim:one-cycle :peak 0.1)", ":peak and :steps"),
        ("(optim:cosine 0.1 0)", "cosine: the number of steps is above 0, not 0"),
        ("(optim:linear 0.1 0.2 -1)", "linear: the number of steps is above 0, not -1"),
        ("(optim:polynomial 0.1 0.2 0)", "polynomial: the number of steps"),
        ("(optim:step-decay 0.1 0)", "step-decay: the number of steps"),
        ("(optim:exponential-decay 0.1 0 0.5)", "exponential-decay: the number of steps"),
    ],
)
def test_mistakes_are_explained(form: str, message: str) -> None:
    with pytest.raises(sx.CompileError, match=message):
        sx.evaluate(f'(require "sexpgpu/optim" :as optim) {form}')


def test_one_cycle_of_few_steps() -> None:
    text = (
        '(require "sexpgpu/optim" :as optim)'
        "(mapcar (optim:one-cycle :peak 1.0 :steps {}) (list 0 1))"
    )
    np.testing.assert_allclose(sx.evaluate(text.format(1)), [1.0, 4e-6], rtol=1e-6)
    np.testing.assert_allclose(sx.evaluate(text.format(4)), [0.04, 1.0], rtol=1e-6)


@pytest.mark.parametrize(
    "options, message",
    [(":peak 0.1 :steps 10", "all needed"), (":peak 0.1 :warmup 10 :steps 10", "part of the 10")],
)
def test_a_warmup_must_fit(options: str, message: str) -> None:
    with pytest.raises(sx.CompileError, match=message):
        sx.evaluate(f'(require "sexpgpu/optim" :as optim) (optim:warmup-cosine {options})')
