"""Whole runs against independent twins in JAX and optax: same start, same batches, same losses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import sexpgpu as sx
from sexpgpu.loop.data.loader import TrainingBatches
from sexpgpu.loop.initial import initial_state

EXAMPLES = Path(__file__).parents[2] / "examples"


def start_and_batches(experiment: sx.Experiment, steps: int) -> tuple[Any, list[Any]]:
    """The initial parameters, and the batches that the run will see."""
    document = experiment.document
    stage = document.loader(document.run.train).stages[0]
    reader = TrainingBatches(stage, document.run.train, document.run.seed)
    try:
        batches = [reader.read(i) for i in range(steps)]
    finally:
        reader.close()
    params = {k: jnp.asarray(v) for k, v in initial_state(document)["param"].items()}
    return params, batches


def losses_of_twin(loss: Any, optimizer: Any, params: Any, batches: list[Any]) -> list[float]:
    @jax.jit
    def step(params, state, batch):
        value, grads = jax.value_and_grad(loss)(params, batch)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    found = []
    with jax.numpy_dtype_promotion("standard"):  # optax's own arithmetic mixes dtypes
        state = optimizer.init(params)
        for batch in batches:
            params, state, value = step(params, state, batch)
            found.append(float(value))
    return found


def matrices(params):
    return {k: v.ndim > 1 for k, v in params.items()}


def schedule(peak: float, steps: int, part: int, end: float = 0.0):
    return optax.warmup_cosine_decay_schedule(0.0, peak, steps // part, steps, end)


def test_digits_follows_its_twin(tmp_path: Path) -> None:
    steps = 30
    knobs = {"drop": 0.0, "steps": steps, "width": 64}
    text = (EXAMPLES / "digits.sx").read_text().replace(":log-every 50", ":log-every 1")
    experiment = sx.compile_text(text, base=str(EXAMPLES), knobs=knobs)
    params, batches = start_and_batches(experiment, steps)

    def loss(p, batch):
        x = batch["image"].astype(jnp.float32) / 16
        for i in range(2):
            x = jax.nn.gelu(x @ p[f"body/{i}/fit/w"] + p[f"body/{i}/fit/b"], approximate=False)
        logits = x @ p["head/w"] + p["head/b"]
        target = optax.smooth_labels(jax.nn.one_hot(batch["label"], 10), 0.05)
        return optax.softmax_cross_entropy(logits, target).mean()

    optimizer = optax.adamw(schedule(3e-3, steps, 10), weight_decay=0.05, mask=matrices)
    twin = losses_of_twin(loss, optimizer, params, batches)
    run = experiment.run(runs=str(tmp_path), device="cpu")
    np.testing.assert_allclose(run.metrics["train/loss"].values, twin, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "interp"])
def test_gpt_follows_its_twin(device: str, tmp_path: Path) -> None:
    steps, layers, heads, width = 12, 2, 2, 32
    knobs = {
        "layers": layers, "heads": heads, "width": width, "context": 24, "batch": 4, "drop": 0.0,
        "steps": steps,
    }  # fmt: skip
    text = (EXAMPLES / "gpt-char.sx").read_text()
    text = text.replace(":clip-norm 1.0", ":clip-norm 1.0 :log-every 1")
    experiment = sx.compile_text(text, base=str(EXAMPLES), knobs=knobs)
    params, batches = start_and_batches(experiment, steps)

    def norm(x, p, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / jnp.sqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5)
        return x * p[f"{name}/scale"] + p[f"{name}/bias"]

    def dense(x, p, name):
        return x @ p[f"{name}/w"] + p[f"{name}/b"]

    def block(x, p, at):
        b, t, c = x.shape
        h = norm(x, p, f"{at}/norm1")
        q, k, v = (
            dense(h, p, f"{at}/attn/{n}").reshape(b, t, heads, c // heads) for n in ("q", "k", "v")
        )
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(c // heads)
        scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -jnp.inf)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(b, t, c)
        x = x + dense(mixed, p, f"{at}/attn/o")
        h = jax.nn.gelu(dense(norm(x, p, f"{at}/norm2"), p, f"{at}/mlp/up"), approximate=False)
        return x + dense(h, p, f"{at}/mlp/down")

    def loss(p, batch):
        tokens = batch["tokens"].astype(jnp.int32)
        ids, target = tokens[:, :-1], tokens[:, 1:]
        x = p["embed/w"][ids] + p["place/w"][: ids.shape[1]]
        for i in range(layers):
            x = block(x, p, f"body/{i}")
        logits = norm(x, p, "final") @ p["embed/w"].T
        return optax.softmax_cross_entropy_with_integer_labels(logits, target).mean()

    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adamw(schedule(1e-3, steps, 20, 1e-4), b2=0.95, weight_decay=0.1, mask=matrices),
    )
    twin = losses_of_twin(loss, optimizer, params, batches)
    run = experiment.run(runs=str(tmp_path), device=device)
    np.testing.assert_allclose(run.metrics["train/loss"].values, twin, rtol=1e-4)
