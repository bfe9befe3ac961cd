"""The examples of model families against independent twins in JAX and optax: the same start, the
same batches, the same losses.

Draws of noise are replaced, in the file and in the twin, by numbers that both can compute. On the
NumPy evaluator: `test_examples.py` compares it with XLA on each.
"""

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
from sexpgpu.loop.weights import initialized, read_weights

EXAMPLES = Path(__file__).parents[2] / "examples"
STEPS = 6
STAND_IN = """
(defun stand-in (shape)
  (sin (* 1.7 (cast (reshape (arange (reduce #'* shape)) shape) :f32))))
"""


def stand_in(*shape: int) -> Any:
    return jnp.sin(1.7 * jnp.arange(int(np.prod(shape)), dtype=jnp.float32).reshape(shape))


def follows(
    name: str,
    knobs: dict[str, Any],
    loss: Any,
    optimizer: Any,
    folder: Path,
    edits: tuple[tuple[str, str], ...] = (),
    rtol: float = 1e-4,
) -> sx.Run:
    """Six steps of the example give the losses of `loss(parameters, batch, step)` under the optax
    optimizer (or a function of the parameters that gives one)."""
    text = (EXAMPLES / f"{name}.sx").read_text()
    for old, new in (*edits, ("(defloader train", f"{STAND_IN}(defloader train")):
        assert old in text, old
        text = text.replace(old, new)
    last = text.rindex("  :log-every" if "  :log-every" in text else "  :clip-norm")
    rest = text[last:].split("\n", 1)[0].rstrip(")")
    kept = "" if ":log-every" in rest else f"{rest}\n"
    text = f"{text[:last]}{kept}  :log-every 1)\n"
    made = sx.compile_text(text, base=str(EXAMPLES), knobs={**knobs, "steps": STEPS})
    stage = made.document.loader("train").stages[0]
    reader = TrainingBatches(stage, "train", made.document.run.seed)
    try:
        batches = [reader.read(i) for i in range(STEPS)]
    finally:
        reader.close()
    state, _ = initialized(made.document, initial_state(made.document))
    params = {k: jnp.asarray(v) for k, v in state["param"].items()}
    losses = []
    with jax.numpy_dtype_promotion("standard"), jax.default_matmul_precision("highest"):
        state = optimizer.init(params)

        @jax.jit
        def step(params: Any, state: Any, batch: Any, number: Any) -> Any:
            value, grads = jax.value_and_grad(loss)(params, batch, number)
            updates, state = optimizer.update(grads, state, params)
            return optax.apply_updates(params, updates), state, value

        for number, batch in enumerate(batches):
            params, state, value = step(params, state, batch, number)
            losses.append(float(value))
    run = made.run(runs=str(folder), device="interp")
    np.testing.assert_allclose(run.metrics["train/loss"].values, losses, rtol=rtol)
    return run


def matrices(params: Any) -> Any:
    return {k: getattr(v, "ndim", 0) > 1 for k, v in params.items()}  # 0: of another group


def dense(p: Any, name: str, x: Any) -> Any:
    y = x @ p[f"{name}/w"]
    return y + p[f"{name}/b"] if f"{name}/b" in p else y


def conv(x: Any, w: Any, stride: int = 1) -> Any:
    return jax.lax.conv_general_dilated(
        x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def layer_norm(p: Any, name: str, x: Any) -> Any:
    x = x - x.mean(-1, keepdims=True)
    return (
        x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * p[f"{name}/scale"]
        + p[f"{name}/bias"]
    )


def rms_norm(p: Any, name: str, x: Any) -> Any:
    return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * p[f"{name}/scale"]


def entropy(logits: Any, labels: Any) -> Any:
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def letters(batch: Any) -> tuple[Any, Any]:
    tokens = batch["tokens"].astype(jnp.int32)
    return tokens[:, :-1], tokens[:, 1:]


def attend(q: Any, k: Any, v: Any, causal: bool) -> Any:
    """[B, T, H, D] -> [B, T, H D]."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    return mixed.reshape(*mixed.shape[:2], -1)


def heads_of(x: Any, heads: int) -> Any:
    return x.reshape(*x.shape[:2], heads, -1)


def test_digits_conv(tmp_path: Path) -> None:
    def loss(p: Any, batch: Any, step: Any) -> Any:
        x = batch["image"].astype(jnp.float32).reshape(-1, 8, 8, 1) / 16
        x = jax.nn.relu(conv(x, p["conv1/w"]) + p["conv1/b"])
        x = jax.nn.relu(conv(x, p["conv2/w"]) + p["conv2/b"])
        x = x.reshape(-1, 4, 2, 4, 2, x.shape[-1]).max((2, 4))
        return entropy(dense(p, "head", x.reshape(len(x), -1)), batch["label"])

    schedule = optax.cosine_decay_schedule(3e-3, STEPS)
    optimizer = optax.adamw(schedule, weight_decay=0.05, mask=matrices)
    edits = (("(nn:dropout-layer 0.3)", "(nn:dropout-layer 0.0)"),)
    follows("digits-conv", {"channels": 3}, loss, optimizer, tmp_path, edits)


def test_digits_batchnorm(tmp_path: Path) -> None:
    def norm(p: Any, name: str, x: Any) -> Any:
        x = x - x.mean((0, 1, 2))
        return x / jnp.sqrt((x * x).mean((0, 1, 2)) + 1e-5) * p[f"{name}/scale"] + p[f"{name}/bias"]

    def loss(p: Any, batch: Any, step: Any) -> Any:
        x = batch["image"].astype(jnp.float32).reshape(-1, 8, 8, 1) / 16
        x = jax.nn.relu(norm(p, "entry", conv(x, p["stem/w"])))
        for i in range(2):
            at = f"body/{i}"
            y = jax.nn.relu(norm(p, f"{at}/norm1", conv(x, p[f"{at}/conv1/w"])))
            x = jax.nn.relu(x + norm(p, f"{at}/norm2", conv(y, p[f"{at}/conv2/w"])))
        return entropy(dense(p, "head", x.mean((1, 2))), batch["label"])

    schedule = optax.cosine_onecycle_schedule(STEPS, 0.1)
    optimizer = schedule_inside(schedule, 0.9, 5e-4)
    run = follows("digits-batchnorm", {"channels": 3}, loss, optimizer, tmp_path, rtol=5e-4)
    assert "eval/test/f1" in run.metrics


def schedule_inside(schedule: Any, momentum: float, decay: float) -> Any:
    """Nesterov's momentum with decoupled decay: p (1 - lr decay) - lr (g + momentum v)."""
    return optax.chain(
        optax.trace(momentum, nesterov=True),
        optax.add_decayed_weights(decay, mask=matrices),
        optax.scale_by_learning_rate(schedule),
    )


@pytest.mark.slow
def test_digits_vit(tmp_path: Path) -> None:
    def loss(p: Any, batch: Any, step: Any) -> Any:
        x = batch["image"].astype(jnp.float32).reshape(-1, 4, 2, 4, 2) / 16
        x = x.transpose(0, 1, 3, 2, 4).reshape(-1, 16, 4)
        x = x @ p["patches/w"].reshape(4, -1) + p["patches/b"] + p["place/w"]
        for i in range(2):
            at = f"body/{i}"
            h = layer_norm(p, f"{at}/norm1", x)
            q, k, v = (heads_of(dense(p, f"{at}/attn/{n}", h), 2) for n in "qkv")
            x = x + dense(p, f"{at}/attn/o", attend(q, k, v, False))
            h = dense(p, f"{at}/mlp/up", layer_norm(p, f"{at}/norm2", x))
            x = x + dense(p, f"{at}/mlp/down", jax.nn.gelu(h, approximate=False))
        logits = dense(p, "head", layer_norm(p, "final", x).mean(1))
        target = optax.smooth_labels(jax.nn.one_hot(batch["label"], 10), 0.1)
        return optax.softmax_cross_entropy(logits, target).mean()

    schedule = optax.cosine_decay_schedule(1e-3, STEPS)
    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adamw(schedule, weight_decay=0.05, mask=matrices),
    )
    knobs = {"layers": 2, "heads": 2, "width": 8}
    follows("digits-vit", knobs, loss, optimizer, tmp_path)


@pytest.mark.slow
def test_gpt_rope(tmp_path: Path) -> None:
    def turned(x: Any) -> Any:
        half = x.shape[-1] // 2
        angle = jnp.arange(x.shape[1])[:, None] * 10000.0 ** (-jnp.arange(half) / half)
        c, s = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]
        a, b = x[..., :half], x[..., half:]
        return jnp.concatenate([a * c - b * s, b * c + a * s], -1)

    def loss(p: Any, batch: Any, step: Any) -> Any:
        ids, target = letters(batch)
        x = p["embed/w"][ids]
        for i in range(2):
            at = f"body/{i}"
            h = rms_norm(p, f"{at}/norm1", x)
            q, k, v = (
                heads_of(dense(p, f"{at}/attn/{n}", h), n_heads)
                for n, n_heads in (("q", 4), ("k", 2), ("v", 2))
            )
            q = turned(rms_norm(p, f"{at}/attn/qn", q))
            k = turned(rms_norm(p, f"{at}/attn/kn", k))
            mixed = attend(q, jnp.repeat(k, 2, 2), jnp.repeat(v, 2, 2), True)
            x = x + dense(p, f"{at}/attn/o", mixed)
            h = rms_norm(p, f"{at}/norm2", x)
            gate = jax.nn.silu(dense(p, f"{at}/mlp/gate", h)) * dense(p, f"{at}/mlp/up", h)
            x = x + dense(p, f"{at}/mlp/down", gate)
        return entropy(dense(p, "head", rms_norm(p, "final", x)), target)

    def shaped(peak: float) -> Any:
        return optax.join_schedules(
            [optax.constant_schedule(peak), optax.linear_schedule(peak, 0.0, 3)], [3]
        )

    adamw = optax.adamw(shaped(1e-3), b2=0.95, weight_decay=0.1, mask=matrices)

    def sides(tree: Any) -> Any:
        return jax.tree.map(lambda _: optax.contrib.MuonDimensionNumbers(), tree)

    muon = optax.chain(
        optax.contrib.scale_by_muon(weight_dimension_numbers=sides),
        optax.contrib._muon.scale_by_shape(weight_dimension_numbers=sides),
        optax.add_decayed_weights(0.01),
        optax.scale_by_learning_rate(shaped(20e-3)),
    )
    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.multi_transform(
            {"adamw": adamw, "muon": muon},
            lambda p: {
                k: "muon" if k.startswith("body") and v.ndim == 2 else "adamw" for k, v in p.items()
            },
        ),
    )
    knobs = {"layers": 2, "heads": 4, "kv-heads": 2, "width": 24, "context": 12, "batch": 2}
    follows("gpt-rope", knobs, loss, optimizer, tmp_path, rtol=3e-4)


@pytest.mark.slow
def test_digits_vae(tmp_path: Path) -> None:
    def loss(p: Any, batch: Any, step: Any) -> Any:
        x = batch["image"].astype(jnp.float32) / 16
        code = dense(p, "encoder/down", jax.nn.relu(dense(p, "encoder/up", x)))
        mean, spread = code[:, :4], code[:, 4:]
        z = mean + jnp.exp(spread / 2) * stand_in(*mean.shape)
        logits = dense(p, "decoder/down", jax.nn.relu(dense(p, "decoder/up", z)))
        pixels = optax.sigmoid_binary_cross_entropy(logits, x).sum(-1).mean()
        divergence = 0.5 * (mean**2 + jnp.exp(spread) - 1 - spread).sum(-1).mean()
        return pixels + divergence * jnp.minimum(1.0, step / 4)

    edits = (("(random-normal (shape mean))", "(stand-in (shape mean))"),)
    knobs = {"latent": 4, "hidden": 12, "warm": 4}
    follows("digits-vae", knobs, loss, optax.adam(2e-3), tmp_path, edits)


@pytest.mark.slow
def test_digits_gan(tmp_path: Path) -> None:
    def generated(p: Any, z: Any) -> Any:
        h = jax.nn.relu(dense(p, "generator/up", z))
        return jnp.tanh(dense(p, "generator/down", h))

    def judged(p: Any, x: Any) -> Any:
        h = dense(p, "critic/up", x)
        return dense(p, "critic/down", jnp.where(h > 0, h, 0.01 * h))

    def loss(p: Any, batch: Any, step: Any) -> Any:
        real = batch["image"].astype(jnp.float32) / 8 - 1
        fake = generated(p, stand_in(len(real), 3))
        still = jax.lax.stop_gradient
        generator = jax.nn.softplus(-judged({k: still(v) for k, v in p.items()}, fake)).mean()
        critic = jax.nn.softplus(-judged(p, real)).mean()
        critic += jax.nn.softplus(judged(p, still(fake))).mean()
        return generator + critic

    # of the generator, whose group is updated at steps 0, 2 and 4
    def every_other(inner: Any) -> Any:
        def update(grads: Any, state: Any, params: Any = None) -> Any:
            count, inside = state
            found, new = inner.update(grads, inside, params)
            go = count % 2 == 0
            chosen = jax.tree.map(lambda a, b: jnp.where(go, a, b), new, inside)
            return jax.tree.map(lambda u: jnp.where(go, u, 0), found), (count + 1, chosen)

        return optax.GradientTransformation(lambda p: (jnp.int32(0), inner.init(p)), update)

    optimizer = optax.multi_transform(
        {"generator": every_other(optax.adam(5e-4, b1=0.5)), "critic": optax.adam(5e-4, b1=0.5)},
        lambda p: {k: k.split("/")[0] for k in p},
    )
    edits = (("(random-normal (list (dim x 0) latent))", "(stand-in (list (dim x 0) latent))"),)
    knobs = {"latent": 3, "hidden": 12}
    run = follows("digits-gan", knobs, loss, optimizer, tmp_path, edits)
    assert run.predict(image=np.zeros((2, 64), np.uint8)).shape == (2, 64)


@pytest.mark.slow
def test_digits_simclr(tmp_path: Path) -> None:
    def view(x: Any, light: float) -> Any:
        wide = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        at = (1.5 + 1.5 * stand_in(len(x), 2)).astype(jnp.int32)
        rows = at[:, 0, None] + jnp.arange(8)
        columns = at[:, 1, None] + jnp.arange(8)
        image = jnp.arange(len(x))[:, None, None]
        shifted = wide[image, rows[:, :, None], columns[:, None, :]]
        return shifted * (1 + 0.1 * stand_in(len(x), 1, 1, 1)) * light

    def encoded(p: Any, x: Any) -> Any:
        x = jax.nn.relu(conv(x, p["conv1/w"]) + p["conv1/b"])
        x = jax.nn.relu(conv(x, p["conv2/w"], 2) + p["conv2/b"]).mean((1, 2))
        x = dense(p, "down", jax.nn.relu(dense(p, "up", x)))
        return x / jnp.linalg.norm(x, axis=-1, keepdims=True)

    def loss(p: Any, batch: Any, step: Any) -> Any:
        x = batch["image"].astype(jnp.float32).reshape(-1, 8, 8, 1) / 16
        logits = encoded(p, view(x, 1.0)) @ encoded(p, view(x, 0.5)).T / 0.2
        labels = jnp.arange(len(x))
        return (entropy(logits, labels) + entropy(logits.T, labels)) / 2

    edits = (
        ("(defun view (x)", "(defun view (x &optional (other 1.0))"),
        ("(values (funcall model (view x)))\n               :temp",
         "(values (funcall model (view x 0.5)))\n               :temp"),
        ("(random-int 0 3 (list batch 2))",
         "(cast (+ 1.5 (* 1.5 (stand-in (list batch 2)))) :i32)"),
        ("(random-uniform (list batch 1 1 1) :low 0.6 :high 1.4)",
         "(* other (+ 1 (* 0.1 (stand-in (list batch 1 1 1)))))"),
    )  # fmt: skip
    knobs = {"channels": 2, "compared": 5}
    follows("digits-simclr", knobs, loss, optax.lamb(2e-3), tmp_path, edits)


def test_digits_lora(tmp_path: Path) -> None:
    """From the parameters of the file; only the updates of rank 3 are trained."""

    def adapted(p: Any, at: str, x: Any) -> Any:
        return dense(p, f"{at}/base", x) + x @ p[f"{at}/a"] @ p[f"{at}/b"]

    def loss(p: Any, batch: Any, step: Any) -> Any:
        x = jnp.rot90(batch["image"].astype(jnp.float32).reshape(-1, 8, 8) / 16, axes=(1, 2))
        x = x.reshape(-1, 64)
        for at in ("body/0/fit", "body/1/fit"):
            x = jax.nn.gelu(adapted(p, at, x), approximate=False)
        return entropy(adapted(p, "head", x), batch["label"])

    schedule = optax.cosine_decay_schedule(1e-2, STEPS)
    optimizer = optax.multi_transform(
        {"base": optax.set_to_zero(), "update": optax.adamw(schedule, weight_decay=1e-2)},
        lambda p: {k: "base" if "/base/" in k else "update" for k in p},
    )
    run = follows("digits-lora", {"update-rank": 3}, loss, optimizer, tmp_path)
    given, _ = read_weights("data/digits-upright.safetensors", str(EXAMPLES))
    for name, value in given.items():
        layer, kind = name.rsplit("/", 1)
        np.testing.assert_array_equal(run.parameters[f"{layer}/base/{kind}"], value)


def test_digits_diffusion(tmp_path: Path) -> None:
    betas = np.linspace(1e-3, 0.2, 5).astype(np.float32)
    kept = jnp.asarray(np.cumprod(1 - betas), jnp.float32)

    def loss(p: Any, batch: Any, step: Any) -> Any:
        x = batch["image"].astype(jnp.float32) / 8 - 1
        at = (2.5 + 2.4 * stand_in(len(x))).astype(jnp.int32)
        noise = stand_in(*x.shape)
        left = kept[at][:, None]
        h = dense(p, "up", jnp.sqrt(left) * x + jnp.sqrt(1 - left) * noise)
        angle = at[:, None] * 10000.0 ** (-jnp.arange(4) / 4)
        time = jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], -1)
        h = h + dense(p, "time", jax.nn.silu(time))
        h = h + dense(p, "middle/inner/down", jax.nn.silu(dense(p, "middle/inner/up", h)))
        return jnp.mean((dense(p, "down", h) - noise) ** 2)

    edits = (
        ("(step (random-int 0 times (list batch)))",
         "(step (cast (+ 2.5 (* 2.4 (stand-in (list batch)))) :i32))"),
        ("(noise (random-normal (shape image)))", "(noise (stand-in (shape image)))"),
    )  # fmt: skip
    optimizer = optax.adamw(1e-3, weight_decay=1e-2, mask=matrices)
    knobs = {"hidden": 8, "times": 5}
    run = follows("digits-diffusion", knobs, loss, optimizer, tmp_path, edits)
    found = run.predict(image=np.zeros((2, 64), np.uint8))
    assert found.shape == (2, 64)
    assert np.isfinite(found).all()


@pytest.mark.slow
@pytest.mark.parametrize("layer", ["gru", "ssm"])
def test_gru_char(layer: str, tmp_path: Path) -> None:
    def gru(p: Any, x: Any) -> Any:
        h, outputs = jnp.zeros((x.shape[0], 6), jnp.float32), []
        for t in range(x.shape[1]):
            xr, xz, xn = jnp.split(x[:, t] @ p["wx"] + p["b"], 3, -1)
            hr, hz, hn = jnp.split(h @ p["wh"], 3, -1)
            z = jax.nn.sigmoid(xz + hz)
            h = (1 - z) * jnp.tanh(xn + jax.nn.sigmoid(xr + hr) * hn) + z * h
            outputs.append(h)
        return jnp.stack(outputs, 1)

    def ssm(p: Any, x: Any) -> Any:
        """As a convolution with the kernel c exp(dt a)^k (exp(dt a) - 1)/a."""
        a = -jnp.exp(p["log-a"])
        decay = jnp.exp(jnp.exp(p["log-dt"])[:, None] * a)
        powers = decay[None] ** jnp.arange(x.shape[1])[:, None, None]
        kernel = (powers * p["c"] * (decay - 1) / a).sum(-1)
        lag = jnp.arange(x.shape[1])[:, None] - jnp.arange(x.shape[1])
        weights = jnp.where((lag >= 0)[..., None], kernel[jnp.abs(lag)], 0)
        return jnp.einsum("tsc,bsc->btc", weights, x) + p["d"] * x

    def loss(p: Any, batch: Any, step: Any) -> Any:
        ids, target = letters(batch)
        x = p["embed/w"][ids]
        inner = "past/inner/past/"
        own = {k.removeprefix(inner): v for k, v in p.items() if k.startswith(inner)}
        x = x + {"gru": gru, "ssm": ssm}[layer](own, x)
        gate = jax.nn.silu(dense(p, "mix/inner/gate", x)) * dense(p, "mix/inner/up", x)
        x = x + dense(p, "mix/inner/down", gate)
        return entropy(dense(p, "head", rms_norm(p, "final", x)), target)

    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adamw(optax.linear_schedule(3e-3, 0.0, STEPS), weight_decay=1e-2, mask=matrices),
    )
    knobs = {"width": 6, "context": 8, "batch": 3, "layer": f":{layer}"}
    follows("gru-char", knobs, loss, optimizer, tmp_path)


@pytest.mark.slow
def test_moe_char(tmp_path: Path) -> None:
    def mixture(p: Any, at: str, x: Any) -> tuple[Any, Any]:
        odds = jax.nn.softmax(dense(p, f"{at}/router", x))
        chosen = jax.nn.one_hot(odds.argmax(-1), 3)
        balance = 0.5 * 3 * (chosen.mean((0, 1)) * odds.mean((0, 1))).sum()
        hidden = jax.nn.gelu(jnp.einsum("btd,edh->bteh", x, p[f"{at}/up"]), approximate=False)
        each = jnp.einsum("bteh,ehd->bted", hidden, p[f"{at}/down"])
        return (each * (odds * chosen)[..., None]).sum(2), balance

    def loss(p: Any, batch: Any, step: Any) -> Any:
        ids, target = letters(batch)
        x = p["embed/w"][ids] + p["place/w"]
        total = 0.0
        for i in range(2):
            at = f"body/{i}"
            h = layer_norm(p, f"{at}/norm1", x)
            q, k, v = (heads_of(dense(p, f"{at}/attn/{n}", h), 2) for n in "qkv")
            x = x + dense(p, f"{at}/attn/o", attend(q, k, v, True))
            y, balance = mixture(p, f"{at}/mlp", layer_norm(p, f"{at}/norm2", x))
            x, total = x + y, total + balance
        return total + entropy(dense(p, "head", layer_norm(p, "final", x)), target)

    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adamw(
            optax.cosine_decay_schedule(2e-3, STEPS), b2=0.95, weight_decay=1e-2, mask=matrices
        ),
    )
    knobs = {
        "experts": 3, "layers": 2, "heads": 2, "width": 8, "context": 8, "batch": 3, "balance": 0.5,
    }  # fmt: skip
    run = follows("moe-char", knobs, loss, optimizer, tmp_path)
    assert "train/body/0/mlp/balance" in run.metrics
