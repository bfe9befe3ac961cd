"""The layers of sexpgpu/nn, forward and gradient, against formulas written in jnp."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import sexpgpu as sx

RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def linear(p: dict[str, Any], name: str, x: Any) -> Any:
    prefix = f"{name}/" if name else ""
    y = x @ p[f"{prefix}w"]
    return y + p[f"{prefix}b"] if f"{prefix}b" in p else y


def layer_norm(p: dict[str, Any], name: str, x: Any) -> Any:
    mean, var = jnp.mean(x, -1, keepdims=True), jnp.var(x, -1, keepdims=True)
    y = (x - mean) / jnp.sqrt(var + 1e-5) * p[f"{name}scale"]
    return y + p[f"{name}bias"] if f"{name}bias" in p else y


def rms(x: Any, scale: Any) -> Any:
    return x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


@pytest.mark.parametrize("bias", ["t", "nil"])
def test_linear(probe: Any, bias: str) -> None:
    probe(f"(nn:linear 3 5 :bias {bias})", {"x": normal(2, 4, 3)}).agrees(
        lambda p, x: linear(p, "", x)
    )


def test_embedding(probe: Any) -> None:
    ids = np.array([[1, 0, 6], [1, 1, 3]], np.int32)
    probe("(nn:embedding 7 4)", {"ids": ids}, "(layer {x})").agrees(lambda p, ids: p["w"][ids])


def test_positional(probe: Any) -> None:
    probe("(nn:positional 6 4)", {"x": normal(2, 5, 4)}).agrees(lambda p, x: x + p["w"][:5])


def test_positional_refuses_more_positions_than_it_has(probe: Any) -> None:
    with pytest.raises(sx.CompileError, match="the input has 5 positions"):
        probe("(nn:positional 4 4)", {"x": normal(2, 5, 4)})


@pytest.mark.parametrize("bias", ["t", "nil"])
def test_layer_norm(probe: Any, bias: str) -> None:
    probe(f"(nn:layer-norm 6 :bias {bias})", {"x": normal(3, 6)}).agrees(
        lambda p, x: layer_norm(p, "", x)
    )


def test_rms_norm(probe: Any) -> None:
    probe("(nn:rms-norm 6)", {"x": normal(3, 2, 6)}).agrees(lambda p, x: rms(x, p["scale"]))


@pytest.mark.parametrize(
    "options, stride, padding, dilation, groups",
    [
        ("", (1, 1), "SAME", (1, 1), 1),
        (":stride 2 :padding :same", (2, 2), "SAME", (1, 1), 1),
        (":stride (list 2 1) :padding :valid :bias nil", (2, 1), "VALID", (1, 1), 1),
        (":dilation 2 :groups 2", (1, 1), "SAME", (2, 2), 2),
        (":padding (list (list 1 0) (list 2 1))", (1, 1), [(1, 0), (2, 1)], (1, 1), 1),
    ],
)
def test_conv2d(
    probe: Any, options: str, stride: Any, padding: Any, dilation: Any, groups: int
) -> None:
    def reference(p: dict[str, Any], x: Any) -> Any:
        y = lax.conv_general_dilated(
            x, p["w"], stride, padding, rhs_dilation=dilation, feature_group_count=groups,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )  # fmt: skip
        return y + p["b"] if "b" in p else y

    probe(f"(nn:conv2d 4 6 (list 3 2) {options})", {"x": normal(2, 7, 6, 4)}).agrees(reference)


def test_conv2d_takes_one_number_for_a_square_window(probe: Any) -> None:
    made = probe("(nn:conv2d 2 3 3)", {"x": normal(1, 5, 5, 2)})
    assert made.parameters["layer/w"].shape == (3, 3, 2, 3)


def test_conv2d_refuses_groups_that_do_not_divide(probe: Any) -> None:
    with pytest.raises(sx.CompileError, match="3 groups must divide"):
        probe("(nn:conv2d 4 6 3 :groups 3)", {"x": normal(1, 5, 5, 4)})


def test_max_pool2d(probe: Any) -> None:
    def reference(p: dict[str, Any], x: Any) -> Any:
        del p
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 3, 1), (1, 2, 1, 1), "VALID")

    probe("(nn:max-pool2d (list 2 3) :stride (list 2 1))", {"x": normal(2, 6, 7, 3)}).agrees(
        reference
    )


def test_avg_pool2d(probe: Any) -> None:
    def reference(p: dict[str, Any], x: Any) -> Any:
        del p
        return x.reshape(2, 3, 2, 4, 2, 3).mean((2, 4))

    probe("(nn:avg-pool2d 2)", {"x": normal(2, 6, 8, 3)}).agrees(reference)


def test_global_avg_pool(probe: Any) -> None:
    probe("(nn:global-avg-pool)", {"x": normal(2, 3, 4, 5)}).agrees(lambda p, x: x.mean((1, 2)))


def test_residual(probe: Any) -> None:
    probe("(nn:residual (nn:linear 4 4))", {"x": normal(3, 4)}).agrees(
        lambda p, x: x + linear(p, "inner", x)
    )


@pytest.mark.parametrize(
    "act, function",
    [
        (":gelu", lambda x: jax.nn.gelu(x, approximate=False)),
        (":gelu-tanh", lambda x: jax.nn.gelu(x, approximate=True)),
        ("#'relu", jax.nn.relu),
        (":silu", jax.nn.silu),
    ],
)
def test_mlp(probe: Any, act: str, function: Any) -> None:
    probe(f"(nn:mlp 4 8 :act {act})", {"x": normal(3, 4)}).agrees(
        lambda p, x: linear(p, "down", function(linear(p, "up", x)))
    )


@pytest.mark.parametrize(
    "name, function",
    [("swiglu", jax.nn.silu), ("geglu", lambda x: jax.nn.gelu(x, approximate=False))],
)
def test_gated_mlp(probe: Any, name: str, function: Any) -> None:
    probe(f"(nn:{name} 4 8)", {"x": normal(3, 4)}).agrees(
        lambda p, x: linear(p, "down", function(linear(p, "gate", x)) * linear(p, "up", x))
    )


# -- attention ----------------------------------------------------------------------------------


def turn(x: Any, base: float) -> Any:
    """Rotary positions by complex numbers: x [B, T, H, D]."""
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[1])[:, None] * base ** (-2.0 * np.arange(half) / x.shape[-1])
    turned = lax.complex(x[..., :half], x[..., half:]) * jnp.asarray(
        np.exp(1j * angle)[:, None, :].astype(np.complex64)
    )
    return jnp.concatenate([turned.real, turned.imag], -1)


def attention(
    p: dict[str, Any], x: Any, *, heads: int, kv: int | None = None, causal: bool = False,
    rope: float | None = None, mask: Any = None, context: Any = None, name: str = "",
) -> Any:  # fmt: skip
    """A loop over heads and queries' own softmax, as the paper writes it."""
    kv = kv or heads
    source = x if context is None else context
    q, k, v = (linear(p, f"{name}{n}", s) for n, s in (("q", x), ("k", source), ("v", source)))
    size = q.shape[-1] // heads
    q = q.reshape(*q.shape[:2], heads, size)
    k, v = (t.reshape(*t.shape[:2], kv, size) for t in (k, v))
    if f"{name}qn/scale" in p:
        q, k = rms(q, p[f"{name}qn/scale"]), rms(k, p[f"{name}kn/scale"])
    if rope is not None:
        q, k = turn(q, rope), turn(k, rope)
    out = []
    for head in range(heads):
        part = head // (heads // kv)
        scores = jnp.stack([a @ b.T for a, b in zip(q[:, :, head], k[:, :, part])])  # noqa: B905
        scores = scores / np.float32(np.sqrt(size))
        seen = jnp.ones(scores.shape, bool)
        if causal:
            seen = seen & jnp.asarray(np.tril(np.ones(scores.shape[1:], bool)))
        if mask is not None:
            seen = seen & mask
        # a row without any visible key gives 0, not NaN
        high = jnp.max(jnp.where(seen, scores, -jnp.inf), -1, keepdims=True)
        raised = jnp.where(seen, jnp.exp(scores - jnp.where(jnp.isfinite(high), high, 0.0)), 0.0)
        total = jnp.sum(raised, -1, keepdims=True)
        weights = raised / jnp.where(total == 0, 1.0, total)
        out.append(jnp.stack([w @ b for w, b in zip(weights, v[:, :, part])]))  # noqa: B905
    mixed = jnp.stack(out, 2)
    return linear(p, f"{name}o", mixed.reshape(*mixed.shape[:2], -1))


@pytest.mark.slow
@pytest.mark.parametrize(
    "options, keywords",
    [
        (":heads 2", {"heads": 2}),
        (":heads 2 :causal t", {"heads": 2, "causal": True}),
        (":heads 4 :kv-heads 2 :causal t", {"heads": 4, "kv": 2, "causal": True}),
        (":heads 2 :rope t :causal t", {"heads": 2, "rope": 10000.0, "causal": True}),
        (":heads 2 :rope 100.0 :qk-norm t", {"heads": 2, "rope": 100.0}),
        (":heads 3 :head-dim 4 :bias nil", {"heads": 3}),
    ],
)
def test_attention(probe: Any, options: str, keywords: dict[str, Any]) -> None:
    probe(f"(nn:attention 8 {options})", {"x": normal(2, 5, 8)}).agrees(
        lambda p, x: attention(p, x, **keywords)
    )


def test_attention_with_a_mask_and_rows_that_see_nothing(probe: Any) -> None:
    mask = np.ones((2, 5), np.int32)
    mask[0, 3:] = 0
    mask[1, :] = 0  # every query of the second example is blind
    made = probe(
        "(nn:attention 8 :heads 2)",
        {"x": normal(2, 5, 8), "m": mask},
        "(layer {x} :mask (reshape m (list (dim m 0) 1 1 (dim m 1))))",
    )
    made.agrees(lambda p, x, m: attention(p, x, heads=2, mask=(m > 0)[:, None, :]))
    blind = made.output("interp")[1]
    np.testing.assert_allclose(blind, np.broadcast_to(made.parameters["layer/o/b"], blind.shape))
    assert all(np.isfinite(g).all() for g in made.gradients("interp").values())


@pytest.mark.slow
# so little dropout that nothing is dropped: the weights are composed, not fused
@pytest.mark.parametrize("dropout", ["", ":dropout 1e-7"])
def test_attention_in_windows_and_segments(dropout: str, probe: Any) -> None:
    segments = np.array([[0, 0, 0, 1, 1, 1], [2, 2, 2, 2, 2, 2]], np.int32)
    near = np.abs(np.arange(6)[:, None] - np.arange(6)) < 3
    probe(
        f"(nn:attention 8 :heads 4 :kv-heads 2 :causal t :window 3 {dropout})",
        {"x": normal(2, 6, 8), "s": segments},
        "(layer {x} :segments s)",
    ).agrees(
        lambda p, x, s: attention(
            p, x, heads=4, kv=2, causal=True, mask=(s[:, :, None] == s[:, None, :]) & near
        )
    )


@pytest.mark.slow
def test_attention_to_a_context(probe: Any) -> None:
    probe(
        "(nn:attention 8 :heads 2 :cross 6)",
        {"x": normal(2, 5, 8), "c": normal(2, 7, 6)},
        "(layer {x} :context c)",
    ).agrees(lambda p, x, c: attention(p, x, heads=2, context=c))


@pytest.mark.parametrize(
    "options, message",
    [("", "say how many :heads"), (":heads 3", "do not divide the width 8"),
     (":heads 4 :kv-heads 3", "3 :kv-heads must divide the 4 :heads")],
)  # fmt: skip
def test_attention_refuses(probe: Any, options: str, message: str) -> None:
    with pytest.raises(sx.CompileError, match=message):
        probe(f"(nn:attention 8 {options})", {"x": normal(2, 5, 8)})


def test_rope_far_out(standard: Any) -> None:
    """The phases at position 4095 are within 1e-3 of those in f64."""
    x = np.zeros((1, 4096, 1, 64), np.float32)
    x[..., :32] = 1.0
    found = standard("(lambda (x) (nn:rope x))")(x)[0, 4095, 0]
    angle = 4095 * 10000.0 ** (-2.0 * np.arange(32) / 64)
    np.testing.assert_allclose(found, np.concatenate([np.cos(angle), np.sin(angle)]), atol=1e-3)


@pytest.mark.slow
def test_transformer_block(probe: Any) -> None:
    def reference(p: dict[str, Any], x: Any) -> Any:
        h = x + attention(p, layer_norm(p, "norm1/", x), heads=2, causal=True, name="attn/")
        y = layer_norm(p, "norm2/", h)
        return h + linear(p, "mlp/down", jax.nn.gelu(linear(p, "mlp/up", y), approximate=False))

    probe("(nn:transformer-block 8 :heads 2 :causal t)", {"x": normal(2, 5, 8)}).agrees(reference)


def test_transformer_block_with_its_own_norm_and_mlp(probe: Any) -> None:
    def reference(p: dict[str, Any], x: Any) -> Any:
        h = x + attention(p, rms(x, p["norm1/scale"]), heads=2, kv=1, name="attn/")
        y = rms(h, p["norm2/scale"])
        return h + linear(
            p, "mlp/down", jax.nn.silu(linear(p, "mlp/gate", y)) * linear(p, "mlp/up", y)
        )

    probe(
        "(nn:transformer-block 8 :heads 2 :kv-heads 1 :bias nil :norm #'nn:rms-norm"
        " :mlp (lambda (width) (nn:swiglu width 12)))",
        {"x": normal(2, 5, 8)},
    ).agrees(reference)


def test_dropout_layer(standard: Any, probe: Any) -> None:
    """In training about p of the elements are 0, the others larger; in evaluation all are kept."""
    x = np.ones((50, 40), np.float32)
    made = probe("(nn:dropout-layer 0.25)", {"x": x})
    made.parameters["shift"][:] = 0
    np.testing.assert_array_equal(made.output("interp"), x)
    slope = made.gradients("interp")["shift"] * x.size / np.cos(np.arange(x.size)).reshape(x.shape)
    kept = np.abs(slope) > 1e-3
    np.testing.assert_allclose(slope[kept], 1 / 0.75, rtol=1e-3)
    assert abs(kept.mean() - 0.75) < 4 * np.sqrt(0.75 * 0.25 / x.size)
