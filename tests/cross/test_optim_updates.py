"""The optimizers of sexpgpu/optim over 20 updates, against optax."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

SCHEDULE = "(optim:warmup-cosine :peak 0.1 :warmup 5 :steps 20)"


def schedule() -> Any:
    return optax.warmup_cosine_decay_schedule(0.0, 0.1, 5, 20)


def matrices(p: Any) -> Any:
    return {k: v.ndim > 1 for k, v in p.items()}


def decayed(rate: float, *more: Any) -> Any:
    """Steps with decoupled decay of the matrices, before they are scaled by the learning rate."""
    return optax.chain(*more, optax.add_decayed_weights(rate, mask=matrices))


def stepped(lr: float, *parts: Any) -> Any:
    return optax.chain(*parts, optax.scale_by_learning_rate(lr))


CASES: dict[str, Any] = {
    "(optim:sgd :lr 0.1)": optax.sgd(0.1),
    "(optim:sgd :lr 0.1 :momentum 0.9)": optax.sgd(0.1, 0.9),
    "(optim:sgd :lr 0.1 :momentum 0.9 :nesterov t)": optax.sgd(0.1, 0.9, nesterov=True),
    f"(optim:sgd :lr {SCHEDULE} :momentum 0.9)": optax.sgd(schedule(), 0.9),
    "(optim:sgd :lr 0.1 :decay 0.01)": optax.chain(
        optax.add_decayed_weights(0.01, mask=matrices), optax.sgd(0.1)
    ),
    "(optim:adagrad :lr 0.1)": optax.adagrad(0.1),
    "(optim:adagrad :lr 0.1 :initial 0.0 :eps 1e-3)": optax.adagrad(0.1, 0.0, 1e-3),
    "(optim:adadelta)": optax.adadelta(1.0),
    "(optim:adadelta :lr 0.5 :rho 0.8 :eps 1e-4)": optax.adadelta(0.5, 0.8, 1e-4),
    "(optim:rmsprop :lr 0.01)": optax.rmsprop(0.01),
    "(optim:rmsprop :lr 0.01 :alpha 0.8 :centered t :momentum 0.9)": optax.rmsprop(
        0.01, 0.8, centered=True, momentum=0.9
    ),
    "(optim:rmsprop :lr 0.01 :momentum 0.9 :nesterov t)": optax.rmsprop(
        0.01, momentum=0.9, nesterov=True
    ),
    "(optim:lion :lr 0.01)": optax.lion(0.01, mask=matrices),
    "(optim:lion :lr 0.01 :b1 0.8 :b2 0.9 :decay 0.1 :decay-all t)": optax.lion(
        0.01, 0.8, 0.9, weight_decay=0.1
    ),
    "(optim:adam :lr 0.01)": optax.adam(0.01),
    "(optim:adam :lr 0.01 :b1 0.8 :b2 0.95 :eps 1e-6)": optax.adam(0.01, 0.8, 0.95, 1e-6),
    f"(optim:adam :lr {SCHEDULE})": optax.adam(schedule()),
    "(optim:adamw :lr 0.01)": optax.adamw(0.01, weight_decay=1e-2, mask=matrices),
    "(optim:adamw :lr 0.01 :decay 0.3 :decay-all t)": optax.adamw(0.01, weight_decay=0.3),
    f"(optim:adamw :lr {SCHEDULE} :b2 0.95 :decay 0.1)": optax.adamw(
        schedule(), b2=0.95, weight_decay=0.1, mask=matrices
    ),
    "(optim:nadam :lr 0.01)": optax.nadam(0.01),
    "(optim:nadam :lr 0.01 :decay 0.1)": optax.nadamw(0.01, weight_decay=0.1, mask=matrices),
    "(optim:radam :lr 0.01 :b2 0.9)": optax.radam(0.01, b2=0.9),
    "(optim:radam :lr 0.01 :b2 0.99 :threshold 4.5 :decay 0.1)": stepped(
        0.01, decayed(0.1, optax.scale_by_radam(b2=0.99, threshold=4.5))
    ),
    "(optim:adamax :lr 0.01)": optax.adamax(0.01),
    "(optim:adamax :lr 0.01 :decay 0.1)": optax.adamaxw(0.01, weight_decay=0.1, mask=matrices),
    "(optim:amsgrad :lr 0.01 :b2 0.5)": optax.amsgrad(0.01, b2=0.5),
    "(optim:adan :lr 0.01)": optax.adan(0.01, eps_root=0.0),
    "(optim:adan :lr 0.01 :b1 0.8 :b2 0.7 :b3 0.9 :decay 0.1)": optax.adan(
        0.01, 0.8, 0.7, 0.9, eps_root=0.0, weight_decay=0.1, mask=matrices
    ),
    "(optim:adafactor :lr 0.1 :min-dim 2)": optax.adafactor(0.1, min_dim_size_to_factor=2),
    "(optim:adafactor :lr 0.1 :clipping 0.5 :momentum 0.9)": optax.adafactor(
        0.1, clipping_threshold=0.5, momentum=0.9
    ),
    "(optim:adafactor :lr 0.1 :scale-by-parameter nil :decay-rate 0.5)": optax.adafactor(
        0.1, multiply_by_parameter_scale=False, decay_rate=0.5
    ),
    "(optim:lars :lr 1.0 :decay 0.01)": optax.lars(1.0, 0.01, weight_decay_mask=matrices),
    "(optim:lars :lr 1.0 :trust 0.1 :nesterov t)": optax.lars(
        1.0, trust_coefficient=0.1, nesterov=True
    ),
    "(optim:lamb :lr 0.01 :decay 0.1)": optax.lamb(0.01, weight_decay=0.1, mask=matrices),
    "(optim:schedule-free-sgd :lr 0.1 :decay 0.01)": optax.contrib.schedule_free(
        optax.chain(optax.add_decayed_weights(0.01, mask=matrices), optax.sgd(0.1)), 0.1
    ),
    "(optim:schedule-free-adamw :lr 0.01 :b1 0.8)": optax.contrib.schedule_free_adamw(0.01, b1=0.8),
    "(optim:prodigy)": optax.contrib.prodigy(),
    "(optim:prodigy :d0 1e-3 :d-coefficient 0.5 :safeguard-warmup t :decay 0.1 :decay-all t)": (
        optax.contrib.prodigy(
            estim_lr0=1e-3, estim_lr_coef=0.5, safeguard_warmup=True, weight_decay=0.1
        )
    ),
    "(optim:clip-by-value (optim:sgd :lr 0.1) :limit 0.3)": optax.chain(
        optax.clip(0.3), optax.sgd(0.1)
    ),
}

# A file's matrices by Muon, the rest by AdamW, as optax.contrib.muon does it.
MUON = (
    "(optimizer-groups ({} :lr 0.02) (group matrices (rank 2) :optimizer (optim:muon :lr 0.02 {})))"
)
CASES |= {
    MUON.format("optim:nadam", ""): optax.contrib.muon(0.02),
    MUON.format("optim:adam", ":nesterov nil :momentum 0.8 :steps 3 :scale :rms :decay 0.1"): (
        optax.contrib.muon(
            0.02, ns_steps=3, beta=0.8, nesterov=False, weight_decay=0.1, consistent_rms=0.2
        )
    ),
}

ON_XLA = (
    "(optim:sgd :lr 0.1 :momentum 0.9)",
    "(optim:adafactor :lr 0.1 :min-dim 2)",
    f"(optim:adamw :lr {SCHEDULE} :b2 0.95 :decay 0.1)",
    "(optim:prodigy)",
    MUON.format("optim:nadam", ""),
)
"""Every optimizer runs on the NumPy evaluator; those with something of their own on XLA too."""


def cases() -> list[Any]:
    listed = [("interp", optimizer) for optimizer in CASES]
    return listed + [("cpu", optimizer) for optimizer in ON_XLA]


@pytest.mark.parametrize("device, optimizer", cases())
def test_twenty_updates(updates: Any, device: str, optimizer: str) -> None:
    random = np.random.default_rng(2)
    p = {"w": random.standard_normal((3, 4)), "b": random.standard_normal(4)}
    p = {k: v.astype(np.float32) for k, v in p.items()}
    peer = {k: jnp.asarray(v) for k, v in p.items()}
    ours, theirs = updates(optimizer, device), CASES[optimizer]
    with jax.numpy_dtype_promotion("standard"):  # optax's own arithmetic mixes dtypes
        memory = theirs.init(peer)
        update = jax.jit(theirs.update)
    for step in range(20):
        g = {k: random.standard_normal(v.shape).astype(np.float32) for k, v in p.items()}
        p = ours.step(step, p, g)
        with jax.numpy_dtype_promotion("standard"):
            change, memory = update({k: jnp.asarray(v) for k, v in g.items()}, memory, peer)
            peer = optax.apply_updates(peer, change)
        for path in p:
            np.testing.assert_allclose(p[path], peer[path], rtol=1e-5, atol=1e-5, err_msg=str(step))


def test_states(updates: Any) -> None:
    """No state where none is needed."""
    states = {
        "(optim:sgd)": set(),
        "(optim:sgd :momentum 0.9)": {"v"},
        "(optim:sgd :momentum (optim:linear 0.5 0.9 10))": {"v"},
        "(optim:adam)": {"m", "v"},
        "(optim:adamw)": {"m", "v"},
        "(optim:adafactor)": {"v"},
        "(optim:adafactor :min-dim 3)": {"row", "col"},
        "(optim:rmsprop)": {"v"},
        "(optim:ema (optim:adam))": {"average", "weight", "inner/m", "inner/v"},
    }
    for optimizer, names in states.items():
        found = updates(optimizer, "interp").document.updates["w"].states
        assert {s.name for s in found} == names, optimizer


DECOUPLED = (
    "sgd", "adagrad", "adadelta", "rmsprop", "lion", "adamw", "nadam", "radam", "adamax", "amsgrad",
    "adan", "adafactor", "shampoo", "soap",
)  # fmt: skip


@pytest.mark.parametrize("name", DECOUPLED)
def test_decay_alone(updates: Any, name: str) -> None:
    """lr 0.1, decay 0.1, no gradient: exactly w (1 - lr decay) for matrices, biases untouched."""
    ours = updates(f"(optim:{name} :lr 0.1 :decay 0.1)", "interp")
    p = {"w": np.full((3, 4), 0.7, np.float32), "b": np.full(4, 0.7, np.float32)}
    new = ours.step(0, p, {k: np.zeros_like(v) for k, v in p.items()})
    np.testing.assert_array_equal(new["w"], np.float32(0.7) * np.float32(1 - 0.1 * 0.1))
    np.testing.assert_array_equal(new["b"], p["b"])
    everywhere = updates(f"(optim:{name} :lr 0.1 :decay 0.1 :decay-all t)", "interp")
    new = everywhere.step(0, p, {k: np.zeros_like(v) for k, v in p.items()})
    np.testing.assert_array_equal(new["b"], np.float32(0.7) * np.float32(1 - 0.1 * 0.1))
