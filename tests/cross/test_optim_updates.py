"""The optimizers of sexpgpu/optim over 20 updates, against optax."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import sexpgpu as sx
from sexpgpu.lowering.backend import open_backend

FILE = """
(require "sexpgpu/optim" :as optim)
(defloader train :source (synthetic 2 (x :f32 (3) (:normal 0 1))) :batch 2)
(defun prepare (batch) (field batch :x))
(defmodel m ()
  (defparam w (3 4) :init (random-normal shape))
  (defparam b (4) :init (random-normal shape))
  (forward (x) (+ (matmul x w) b)))
(defun objective (model x) (mean (funcall model x)))
(defrun m :model (m) :optimizer {optimizer} :steps 40)
"""

SCHEDULE = "(optim:warmup-cosine :peak 0.1 :warmup 5 :steps 20)"


def schedule() -> Any:
    return optax.warmup_cosine_decay_schedule(0.0, 0.1, 5, 20)


def matrices(p: Any) -> Any:
    return {k: v.ndim > 1 for k, v in p.items()}


CASES: dict[str, Any] = {
    "(optim:sgd :lr 0.1)": optax.sgd(0.1),
    "(optim:sgd :lr 0.1 :momentum 0.9)": optax.sgd(0.1, 0.9),
    "(optim:sgd :lr 0.1 :momentum 0.9 :nesterov t)": optax.sgd(0.1, 0.9, nesterov=True),
    f"(optim:sgd :lr {SCHEDULE} :momentum 0.9)": optax.sgd(schedule(), 0.9),
    "(optim:sgd :lr 0.1 :decay 0.01)": optax.chain(
        optax.add_decayed_weights(0.01, mask=matrices), optax.sgd(0.1)
    ),
    "(optim:adam :lr 0.01)": optax.adam(0.01),
    "(optim:adam :lr 0.01 :b1 0.8 :b2 0.95 :eps 1e-6)": optax.adam(0.01, 0.8, 0.95, 1e-6),
    f"(optim:adam :lr {SCHEDULE})": optax.adam(schedule()),
    "(optim:adamw :lr 0.01)": optax.adamw(0.01, weight_decay=1e-2, mask=matrices),
    "(optim:adamw :lr 0.01 :decay 0.3 :decay-all t)": optax.adamw(0.01, weight_decay=0.3),
    f"(optim:adamw :lr {SCHEDULE} :b2 0.95 :decay 0.1)": optax.adamw(
        schedule(), b2=0.95, weight_decay=0.1, mask=matrices
    ),
}


class Updates:
    """The update graphs of a file, run by hand as the loop does."""

    def __init__(self, optimizer: str, device: str) -> None:
        self.document = sx.compile_text(FILE.format(optimizer=optimizer)).document
        self.backend = open_backend(device)
        self.compiled: dict[str, Any] = {}
        self.states = {
            (path, s.name): np.zeros(s.shape, np.float32)
            for path, update in self.document.updates.items()
            for s in update.states
        }

    def call(self, name: str, given: dict[str, Any]) -> dict[str, np.ndarray]:
        graph = self.document.graphs[name]
        if name not in self.compiled:
            self.compiled[name] = self.backend.compile(
                lambda engine, tree: engine.call(graph, tree),
                [{n: v.type for n, v in graph.inputs.items()}],
                donate=(),
            )
        given = self.backend.put({n: given[n] for n in graph.inputs})
        return self.backend.get(self.compiled[name](given))

    def step(self, step: int, p: dict[str, Any], g: dict[str, Any]) -> dict[str, Any]:
        context = {"ctx/step": np.int32(step), "ctx/updates": np.int32(step)}
        hyper: dict[str, Any] = {}
        for group in self.document.groups:
            if group.hyper:
                found = self.call(group.hyper, context)
                hyper |= {f"hyper/{k}": v for k, v in found.items()}
        new = {}
        for path, update in self.document.updates.items():
            states = {f"state/{n}": v for (at, n), v in self.states.items() if at == path}
            found = self.call(
                update.graph, {**context, **hyper, **states, "p": p[path], "g": g[path]}
            )
            new[path] = found["p"]
            self.states |= {(path, s.name): found[f"state/{s.name}"] for s in update.states}
        return new


@pytest.mark.parametrize("device", ["interp", "cpu"])
@pytest.mark.parametrize("optimizer", CASES)
def test_twenty_updates(optimizer: str, device: str) -> None:
    random = np.random.default_rng(2)
    p = {"w": random.standard_normal((3, 4)), "b": random.standard_normal(4)}
    p = {k: v.astype(np.float32) for k, v in p.items()}
    peer = {k: jnp.asarray(v) for k, v in p.items()}
    ours, theirs = Updates(optimizer, device), CASES[optimizer]
    memory = theirs.init(peer)
    for step in range(20):
        g = {k: random.standard_normal(v.shape).astype(np.float32) for k, v in p.items()}
        p = ours.step(step, p, g)
        with jax.numpy_dtype_promotion("standard"):  # optax's own count is an integer
            change, memory = theirs.update({k: jnp.asarray(v) for k, v in g.items()}, memory, peer)
            peer = optax.apply_updates(peer, change)
        for path in p:
            np.testing.assert_allclose(p[path], peer[path], rtol=1e-5, atol=1e-5, err_msg=str(step))


def test_states() -> None:
    """No state where none is needed."""
    states = {
        "(optim:sgd)": set(),
        "(optim:sgd :momentum 0.9)": {"v"},
        "(optim:sgd :momentum (optim:linear 0.5 0.9 10))": {"v"},
        "(optim:adam)": {"m", "v"},
        "(optim:adamw)": {"m", "v"},
    }
    for optimizer, names in states.items():
        found = sx.compile_text(FILE.format(optimizer=optimizer)).document.updates["w"].states
        assert {s.name for s in found} == names, optimizer


@pytest.mark.parametrize("device", ["interp", "cpu"])
@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_decay_alone(name: str, device: str) -> None:
    """lr 0.1, decay 0.1, no gradient: exactly w (1 - lr decay) for matrices, biases untouched."""
    ours = Updates(f"(optim:{name} :lr 0.1 :decay 0.1)", device)
    p = {"w": np.full((3, 4), 0.7, np.float32), "b": np.full(4, 0.7, np.float32)}
    new = ours.step(0, p, {k: np.zeros_like(v) for k, v in p.items()})
    np.testing.assert_array_equal(new["w"], np.float32(0.7) * np.float32(1 - 0.1 * 0.1))
    np.testing.assert_array_equal(new["b"], p["b"])
