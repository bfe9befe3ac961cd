"""Norms over places and batches, other convolutions, positions, adapters: against jnp and lax."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from reference_programs import compiled

import sexpgpu as sx

RANDOM = np.random.default_rng(4)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("groups, bias", [(3, "t"), (6, "nil"), (1, "t")])
def test_group_norm(probe: Any, groups: int, bias: str) -> None:
    def reference(p: dict[str, Any], x: Any) -> Any:
        parts = x.reshape(2, 4, 5, groups, 6 // groups)
        mean = parts.mean((1, 2, 4), keepdims=True)
        var = parts.var((1, 2, 4), keepdims=True)
        y = ((parts - mean) / jnp.sqrt(var + 1e-5)).reshape(x.shape) * p["scale"]
        return y + p["bias"] if "bias" in p else y

    probe(f"(nn:group-norm {groups} 6 :bias {bias})", {"x": normal(2, 4, 5, 6)}).agrees(reference)


@pytest.mark.parametrize(
    "layer, shape, message",
    [
        ("(nn:layer-norm 5)", (2, 6), r"layer-norm: the layer was made for \[..., 5\], and its in"),
        ("(nn:rms-norm 5)", (2, 6), r"rms-norm: .* \[..., 5\], and its input is \(2 6\)"),
        ("(nn:group-norm 2 4)", (2, 3, 6), r"group-norm: .* \[B, ..., 4\]"),
        ("(nn:batch-norm 5)", (2, 6), r"batch-norm: .* \[B, ..., 5\]"),
        ("(nn:gru 6 4)", (2, 6), r"gru: .* \[B, T, 6\], and its input is \(2 6\)"),
        ("(nn:lstm 6 4)", (2, 3, 5), r"lstm: .* \[B, T, 6\]"),
        ("(nn:rnn 6 4)", (2, 6), r"rnn: .* \[B, T, 6\]"),
        ("(nn:ssm 6)", (2, 6), r"ssm: .* \[B, T, 6\]"),
        ("(nn:attention 6 :heads 2)", (2, 6), r"attention: .* \[B, T, 6\]"),
        ("(nn:transformer-block 6 :heads 2 :norm (nn:rms-norm 6))", (2, 3, 6), r"for two of them"),
    ],
)
def test_an_input_of_another_shape(probe: Any, layer: str, shape: Any, message: str) -> None:
    with pytest.raises(sx.CompileError, match=message):
        probe(layer, {"x": normal(*shape)})


def test_a_block_takes_a_model_in_place_of_its_mlp(probe: Any) -> None:
    made = [
        probe(f"(nn:transformer-block 6 :heads 2 :mlp {mlp})", {"x": normal(2, 3, 6)})
        for mlp in ("(nn:swiglu 6 12)", "(lambda (width) (nn:swiglu width 12))")
    ]
    shapes = [{name: value.shape for name, value in each.parameters.items()} for each in made]
    assert shapes[0] == shapes[1]
    assert shapes[0]["layer/mlp/gate/w"] == (6, 12)


def test_group_norm_refuses_groups_that_do_not_divide(probe: Any) -> None:
    with pytest.raises(sx.CompileError, match="4 groups do not divide"):
        probe("(nn:group-norm 4 6)", {"x": normal(2, 3, 6)})


@pytest.mark.parametrize(
    "options, stride, padding", [("", 1, "SAME"), (":stride 2 :padding :valid", 2, "VALID")]
)
def test_conv1d(probe: Any, options: str, stride: int, padding: str) -> None:
    def reference(p: dict[str, Any], x: Any) -> Any:
        return p["b"] + lax.conv_general_dilated(
            x, p["w"], (stride,), padding, dimension_numbers=("NHC", "HIO", "NHC")
        )

    probe(f"(nn:conv1d 4 6 3 {options})", {"x": normal(2, 7, 4)}).agrees(reference)


def test_conv3d(probe: Any) -> None:
    def reference(p: dict[str, Any], x: Any) -> Any:
        return p["b"] + lax.conv_general_dilated(
            x, p["w"], (1, 2, 1), "SAME", dimension_numbers=("NDHWC", "DHWIO", "NDHWC")
        )

    probe("(nn:conv3d 2 3 (list 2 3 1) :stride (list 1 2 1))", {"x": normal(2, 3, 4, 2, 2)}).agrees(
        reference
    )


@pytest.mark.parametrize(
    "options, padding", [(":stride 2", "SAME"), (":stride 2 :padding :valid", "VALID")]
)
def test_conv_transpose2d_is_the_gradient_of_a_convolution(
    probe: Any, options: str, padding: str
) -> None:
    def reference(p: dict[str, Any], x: Any) -> Any:
        extent = (6, 8) if padding == "SAME" else (7, 9)
        forward = lambda y: lax.conv_general_dilated(  # noqa: E731
            y, p["w"].transpose(0, 1, 3, 2), (2, 2), padding,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )  # fmt: skip
        _, pull = jax.vjp(forward, jnp.zeros((2, *extent, 5), jnp.float32))
        return pull(x)[0] + p["b"]

    probe(f"(nn:conv-transpose2d 4 5 3 {options})", {"x": normal(2, 3, 4, 4)}).agrees(reference)


def test_patch_embed(probe: Any) -> None:
    def reference(p: dict[str, Any], x: Any) -> Any:
        patches = x.reshape(2, 2, 2, 3, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(2, 6, 12)
        return patches @ p["w"].reshape(12, 5) + p["b"]

    probe("(nn:patch-embed 2 3 5)", {"x": normal(2, 4, 6, 3)}).agrees(reference)


def test_sinusoidal(probe: Any) -> None:
    def reference(p: dict[str, Any], x: Any) -> Any:
        del p
        angle = np.arange(5)[:, None] / 10000 ** (2 * np.arange(3) / 6)
        return x + np.concatenate([np.sin(angle), np.cos(angle)], -1).astype(np.float32)

    probe("(nn:sinusoidal)", {"x": normal(2, 5, 6)}).agrees(reference)


def test_lora(probe: Any) -> None:
    def reference(p: dict[str, Any], x: Any) -> Any:
        return x @ p["base/w"] + p["base/b"] + 4 / 2 * (x @ p["a"]) @ p["b"]

    made = probe("(nn:lora (nn:linear 3 5) 2 :alpha 4)", {"x": normal(2, 3)})
    made.agrees(reference)
    from sexpgpu.loop.initial import initial_state

    start = initial_state(made.document)["param"]
    assert not start["layer/b"].any()
    assert start["layer/a"].any()


# -- batch-norm ---------------------------------------------------------------------------------

NORMED = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train :source (synthetic 24 (x :f32 (2 3) (:normal 1 2))) :batch 8 :shuffle t)
(defloader valid :source (synthetic 5 (x :f32 (2 3) (:normal 0 1))) :batch 3)
(defun prepare (batch) (field batch :x))
(defmodel net ()
  (submodel norm (nn:batch-norm 3 :momentum 0.8))
  (submodel out (nn:linear 3 1))
  (forward (x) (out (norm x))))
(defun objective (model x) (mean (square (- (funcall model x) (sum x :axis -1 :keep t)))))
(defeval valid :loader valid)
(defrun net :model (net) :optimizer (optim:sgd :lr 0.05) :steps {steps} :microbatches {micro}
  :log-every 1 :checkpoint (:every 2))
"""


def batches(made: sx.Experiment, loader: str, steps: int) -> list[np.ndarray]:
    from sexpgpu.loop.data.loader import TrainingBatches

    reader = TrainingBatches(made.document.loader(loader).stages[0], loader, 0)
    try:
        return [reader.read(i)["x"] for i in range(steps)]
    finally:
        reader.close()


@pytest.mark.parametrize("device, micro", [("interp", 1), ("interp", 2), ("cpu", 2)])
def test_batch_norm_in_a_run(device: str, micro: int, tmp_path: Path) -> None:
    """Statistics of the microbatch in training, running ones that chain over microbatches, and
    those in evaluation and prediction."""
    made = sx.compile_text(NORMED.format(steps=6, micro=micro))
    from sexpgpu.loop.initial import initial_state

    p = {k: jnp.asarray(v) for k, v in initial_state(made.document)["param"].items()}
    mean, var = np.zeros(3), np.ones(3)

    def apply(p: Any, x: Any, mean: Any, var: Any) -> Any:
        y = (x - mean) / jnp.sqrt(var + 1e-5) * p["norm/scale"] + p["norm/bias"]
        return y @ p["out/w"] + p["out/b"]

    def loss(p: Any, x: Any) -> Any:
        y = apply(p, x, x.mean((0, 1)), x.var((0, 1)))
        return jnp.mean((y - x.sum(-1, keepdims=True)) ** 2)

    curve = []
    of_part = compiled(jax.value_and_grad(loss))
    for x in batches(made, "train", 6):
        values, slopes = [], []
        for part in np.split(x, micro):
            value, slope = of_part(p, jnp.asarray(part))
            values.append(float(value))
            slopes.append(slope)
            mean = 0.8 * mean + 0.2 * part.mean((0, 1))
            var = 0.8 * var + 0.2 * part.var((0, 1))
        curve.append(np.mean(values))
        p = {k: p[k] - 0.05 * sum(s[k] for s in slopes) / micro for k in p}
    run = made.run(runs=str(tmp_path), device=device)
    np.testing.assert_allclose(run.metrics["train/loss"].values, curve, rtol=1e-4)
    from sexpgpu.loop.checkpoint import load

    saved = load(f"{run.directory}/checkpoints/6")[0]
    np.testing.assert_allclose(saved["buffer/norm/mean"], mean, rtol=1e-5)
    np.testing.assert_allclose(saved["buffer/norm/var"], var, rtol=1e-5)
    x = np.asarray(RANDOM.standard_normal((4, 2, 3)), np.float32)
    wanted = apply(p, x, mean.astype(np.float32), var.astype(np.float32))
    np.testing.assert_allclose(run.predict(x=x), wanted, rtol=1e-3, atol=1e-4)


def test_batch_norm_goes_on_after_a_resume(tmp_path: Path) -> None:
    made = sx.compile_text(NORMED.format(steps=6, micro=2))
    whole = made.run(runs=str(tmp_path / "whole"), device="interp")
    made.run(runs=str(tmp_path / "cut"), device="interp", slug="run", steps=3)
    rest = made.run(runs=str(tmp_path / "cut"), device="interp", slug="run", steps=6,
                    resume="latest", allow_change=True)  # fmt: skip
    x = np.ones((1, 2, 3), np.float32)
    np.testing.assert_array_equal(rest.predict(x=x), whole.predict(x=x))


def test_batch_norm_mixes_examples() -> None:
    diagnostics = sx.compile_text(NORMED.format(steps=6, micro=2)).diagnostics
    assert any("mix" in d.headline for d in diagnostics)
