"""The gradients of whole examples against jax.grad of independent implementations.

An error is a share of the largest element of its tensor; a gradient that vanishes (that of the
bias of an attention's keys) is known to within the others'.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference_programs import compiled

import sexpgpu as sx
from sexpgpu.loop.data.loader import TrainingBatches
from sexpgpu.loop.initial import initial_state
from sexpgpu.lowering.backend import open_backend

EXAMPLES = Path(__file__).parents[2] / "examples"
TOLERANCE = {"f32": 1e-5, "bf16": 3e-2}


def cross_entropy(logits: Any, labels: Any, smoothing: float = 0.0) -> Any:
    classes = logits.shape[-1]
    target = jax.nn.one_hot(labels, classes) * (1 - smoothing) + smoothing / classes
    return -(target * jax.nn.log_softmax(logits)).sum(-1).mean()


def digits(p: Any, batch: Any) -> Any:
    x = batch["image"].astype(jnp.float32) / 16
    for i in range(2):
        x = jax.nn.gelu(x @ p[f"body/{i}/fit/w"] + p[f"body/{i}/fit/b"], approximate=False)
    return cross_entropy(x @ p["head/w"] + p["head/b"], batch["label"], 0.05)


def convnet(p: Any, batch: Any) -> Any:
    x = (batch["image"].astype(jnp.float32) / 16).reshape(-1, 8, 8, 1)
    for i in (1, 2):
        x = jax.lax.conv_general_dilated(
            x, p[f"conv{i}/w"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x + p[f"conv{i}/b"])
    b, h, w, c = x.shape
    x = x.reshape(b, h // 2, 2, w // 2, 2, c).max((2, 4)).reshape(b, -1)
    return cross_entropy(x @ p["head/w"] + p["head/b"], batch["label"])


def gpt(p: Any, batch: Any) -> Any:
    heads, layers = 4, 2
    tokens = batch["tokens"].astype(jnp.int32)
    ids, target = tokens[:, :-1], tokens[:, 1:]

    def norm(x: Any, name: str) -> Any:
        x = x - x.mean(-1, keepdims=True)
        x = x / jnp.sqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5)
        return x * p[f"{name}/scale"] + p[f"{name}/bias"]

    def dense(x: Any, name: str) -> Any:
        return x @ p[f"{name}/w"] + p[f"{name}/b"]

    x = p["embed/w"][ids] + p["place/w"][: ids.shape[1]]
    b, t, c = x.shape
    for i in range(layers):
        at = f"body/{i}"
        h = norm(x, f"{at}/norm1")
        q, k, v = (dense(h, f"{at}/attn/{n}").reshape(b, t, heads, c // heads) for n in "qkv")
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(c // heads)
        scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -jnp.inf)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(b, t, c)
        x = x + dense(mixed, f"{at}/attn/o")
        h = jax.nn.gelu(dense(norm(x, f"{at}/norm2"), f"{at}/mlp/up"), approximate=False)
        x = x + dense(h, f"{at}/mlp/down")
    return cross_entropy(norm(x, "final") @ p["embed/w"].T, target)


SMALL = {"layers": 2, "heads": 4, "width": 32, "context": 24, "batch": 4, "drop": 0.0}
# Of example, knobs, loss: the second GPT is long enough for attention in blocks.
CASES = {
    "digits": ("digits", {"drop": 0.0, "width": 64}, digits),
    "digits-conv": ("digits-conv", {"channels": 8}, convnet),
    "gpt": ("gpt-char", SMALL, gpt),
    "gpt-in-blocks": ("gpt-char", {**SMALL, "context": 96, "batch": 8}, gpt),
}


QUICK = {("digits", "f32"), ("digits", "bf16"), ("digits-conv", "f32"), ("gpt", "f32")}


@pytest.mark.parametrize(
    "name, precision",
    [
        pytest.param(n, p, marks=() if (n, p) in QUICK else pytest.mark.slow)
        for n in CASES
        for p in TOLERANCE
    ],
)
def test_gradients_of_an_example(name: str, precision: str) -> None:
    example, knobs, loss = CASES[name]
    text = (
        (EXAMPLES / f"{example}.sx").read_text().replace("dropout-layer 0.3", "dropout-layer 0.0")
    )
    if "(defknob precision" in text:
        knobs = {**knobs, "precision": f":{precision}"}
    else:
        text = text.replace("  :steps steps", f"  :precision :{precision}\n  :steps steps", 1)
    experiment = sx.compile_text(text, base=str(EXAMPLES), knobs=knobs)
    document = experiment.document
    assert document.run.precision == precision
    stage = document.loader(document.run.train).stages[0]
    reader = TrainingBatches(stage, document.run.train, document.run.seed)
    try:
        batch = reader.read(0)
    finally:
        reader.close()
    params = initial_state(document)["param"]
    graph = document.graphs["train/main"]
    inputs = {
        **{f"param/{path}": value for path, value in params.items()},
        **{f"batch/{field}": value for field, value in batch.items()},
        "rng/key": np.zeros(2, np.uint32),
        "rng/offset": np.uint32(0),
    }
    given = {key: inputs[key] for key in graph.inputs}
    backend = open_backend("cpu")
    program = backend.compile(lambda engine, x: engine.call(graph, x), [given], ())
    got = backend.get(program(given))
    value, wanted = compiled(jax.value_and_grad(loss))(params, batch)
    weight = float(got["loss/objective/weight"])
    tolerance = TOLERANCE[precision]
    assert float(got["loss/objective/sum"]) / weight == pytest.approx(float(value), rel=tolerance)
    largest = max(float(jnp.abs(g).max()) for g in wanted.values())
    assert {f"grad/{path}" for path in wanted} == {k for k in got if k.startswith("grad/")}
    for path, want in wanted.items():
        assert got[f"grad/{path}"].dtype == np.float32
        scale = max(float(jnp.abs(want).max()), 1e-3 * largest)
        error = float(np.abs(got[f"grad/{path}"] - want).max()) / scale
        assert error < tolerance, (path, error)
