"""Recurrent and state-space layers against the same recurrences unrolled in jnp."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

RANDOM = np.random.default_rng(6)
B, T, IN, H = 2, 4, 3, 5


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def rnn(p: dict[str, Any], x: Any, h: Any) -> Any:
    h = jnp.tanh(x @ p["wx"] + h @ p["wh"] + p["b"])
    return h, h


def gru(p: dict[str, Any], x: Any, h: Any) -> Any:
    xr, xz, xn = jnp.split(x @ p["wx"] + p["b"], 3, -1)
    hr, hz, hn = jnp.split(h @ p["wh"], 3, -1)
    r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
    n = jnp.tanh(xn + r * hn)
    h = (1 - z) * n + z * h
    return h, h


def lstm(p: dict[str, Any], x: Any, state: Any) -> Any:
    h, c = state
    i, f, g, o = jnp.split(x @ p["wx"] + h @ p["wh"] + p["b"], 4, -1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    h = jax.nn.sigmoid(o) * jnp.tanh(c)
    return (h, c), h


def unrolled(cell: Any, p: dict[str, Any], x: Any, state: Any) -> Any:
    outputs = []
    for t in range(x.shape[1]):
        state, y = cell(p, x[:, t], state)
        outputs.append(y)
    return state, jnp.stack(outputs, 1)


@pytest.mark.parametrize("name, cell", [("rnn", rnn), ("gru", gru)])
def test_outputs_and_state(probe: Any, name: str, cell: Any) -> None:
    """The outputs, and the last state, from a given one and from zeros."""

    def reference(p: dict[str, Any], x: Any, h: Any) -> Any:
        _, first = unrolled(cell, p, x, jnp.zeros((B, H), jnp.float32))
        last, outputs = unrolled(cell, p, x, h)
        return jnp.concatenate([first, outputs, last[:, None]], 1)

    call = (
        "(multiple-value-bind (outputs last) (layer {x} h)"
        " (concat (list (values (layer {x})) outputs (expand-dims last 1)) :axis 1))"
    )
    probe(f"(nn:{name} {IN} {H})", {"x": normal(B, T, IN), "h": normal(B, H)}, call).agrees(
        reference
    )


@pytest.mark.slow
def test_lstm(probe: Any) -> None:
    def reference(p: dict[str, Any], x: Any, h: Any, c: Any) -> Any:
        zero = jnp.zeros((B, H), jnp.float32)
        _, first = unrolled(lstm, p, x, (zero, zero))
        (h, c), outputs = unrolled(lstm, p, x, (h, c))
        return jnp.concatenate([first, outputs, h[:, None], c[:, None]], 1)

    call = (
        "(multiple-value-bind (outputs state) (layer {x} (list h c))"
        " (concat (list (values (layer {x})) outputs (expand-dims (first state) 1)"
        " (expand-dims (second state) 1)) :axis 1))"
    )
    arrays = {"x": normal(B, T, IN), "h": normal(B, H), "c": normal(B, H)}
    probe(f"(nn:lstm {IN} {H})", arrays, call).agrees(reference)


@pytest.mark.slow
def test_ssm(probe: Any) -> None:
    def reference(p: dict[str, Any], x: Any) -> Any:
        a = -jnp.exp(p["log-a"])
        decay = jnp.exp(jnp.exp(p["log-dt"])[:, None] * a)
        state, outputs = jnp.zeros((B, IN, 4), jnp.float32), []
        for t in range(T):
            state = decay * state + (decay - 1) / a * x[:, t, :, None]
            outputs.append((p["c"] * state).sum(-1) + p["d"] * x[:, t])
        return jnp.stack(outputs, 1)

    probe(f"(nn:ssm {IN} :state 4)", {"x": normal(B, T, IN)}, "(values (layer {x}))").agrees(
        reference
    )


def test_a_state_carries_a_sequence_on(standard: Any, probe: Any) -> None:
    """Two halves, the second from the first's state, are the whole."""
    whole = "(values (layer {x}))"
    halves = (
        "(multiple-value-bind (first state) (layer (at {x} :all (slice 0 2)))"
        " (concat (list first (values (layer (at {x} :all (slice 2 nil)) state))) :axis 1))"
    )
    x = normal(B, T, IN)
    for layer in (f"(nn:gru {IN} {H})", f"(nn:lstm {IN} {H})", f"(nn:ssm {IN})"):
        one, two = probe(layer, {"x": x}, whole), probe(layer, {"x": x}, halves)
        np.testing.assert_allclose(one.output("interp"), two.output("interp"), atol=1e-6)
