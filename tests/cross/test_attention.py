"""`attention` against a reference written query by query, jax.nn and torch; its gradients against
jax's of a plain composition; the chunked lowering at lengths that its blocks do not divide."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from reference_programs import compiled

import sexpgpu as sx
from sexpgpu.ir.graph import Graph
from sexpgpu.ir.types import TensorType
from sexpgpu.lowering.attention import choose
from sexpgpu.lowering.interp.evaluate import Plan, evaluate
from sexpgpu.lowering.xla.evaluate import evaluate as lower
from sexpgpu.lowering.xla.options import Lowering
from sexpgpu.ops import OPS, infer, new_builder
from sexpgpu.passes import autodiff, precision

RNG = np.random.default_rng(11)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def some(*shape: int) -> np.ndarray:
    return RNG.random(shape) < 0.6


def by_query(
    q: Any, k: Any, v: Any, *, causal: bool = False, window: int | None = None, mask: Any = None,
    bias: Any = None, segments: Any = None, scale: float | None = None,
    softcap: float | None = None,
) -> np.ndarray:  # fmt: skip
    """In f64, one query of one head at a time, each with a list of the keys that it sees."""
    batch, queries, heads, size = q.shape
    keys, kv = k.shape[1:3]
    scores = (batch, heads, queries, keys)
    mask = np.ones(scores, bool) if mask is None else np.broadcast_to(mask, scores)
    bias = np.zeros(scores) if bias is None else np.broadcast_to(bias, scores)
    out = np.zeros(q.shape)
    for b, h, t in np.ndindex(batch, heads, queries):
        place, found = t + keys - queries, []
        for s in range(keys):
            seen = mask[b, h, t, s] and not (causal and s > place)
            seen = seen and not (window is not None and abs(place - s) >= window)
            if segments is not None:
                seen = seen and segments[0][b, t] == segments[1][b, s]
            if seen:
                score = float(np.dot(q[b, t, h].astype(float), k[b, s, h * kv // heads]))
                score *= 1 / math.sqrt(size) if scale is None else scale
                if softcap is not None:
                    score = softcap * math.tanh(score / softcap)
                found.append((score + bias[b, h, t, s], s))
        top = max((score for score, _ in found), default=0.0)
        powers = [(math.exp(score - top), s) for score, s in found]
        for power, s in powers:
            share = power / sum(p for p, _ in powers)
            out[b, t, h] += share * v[b, s, h * kv // heads]
    return out


def composition(
    q: Any, k: Any, v: Any, *, causal: bool = False, window: int | None = None, mask: Any = None,
    bias: Any = None, segments: Any = None, scale: float | None = None,
    softcap: float | None = None,
) -> Any:  # fmt: skip
    """The same in jax.numpy, for jax's gradients."""
    group = q.shape[2] // k.shape[2]
    k, v = jnp.repeat(k, group, 2), jnp.repeat(v, group, 2)
    scores = jnp.einsum("bthd,bshd->bhts", q, k)
    scores = scores * (q.shape[3] ** -0.5 if scale is None else scale)
    if softcap is not None:
        scores = softcap * jnp.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    queries, keys = scores.shape[2:]
    before = jnp.arange(queries)[:, None] + keys - queries - jnp.arange(keys)
    seen = jnp.ones((queries, keys), bool)
    if causal:
        seen = seen & (before >= 0)
    if window is not None:
        seen = seen & (jnp.abs(before) < window)
    if mask is not None:
        seen = seen & mask
    if segments is not None:
        seen = seen & (segments[0][:, None, :, None] == segments[1][:, None, None, :])
    seen = jnp.broadcast_to(seen, scores.shape)
    weights = jax.nn.softmax(jnp.where(seen, scores, -1e30), axis=-1)
    return jnp.einsum("bhts,bshd->bthd", jnp.where(seen, weights, 0), v)


SEGMENTS = np.array([[0, 0, 1, 1, 1, 2], [3, 3, 3, 3, 0, 0]], np.int32)
ALIVE = some(2, 1, 5, 7)
ALIVE[:, :, 3] = False  # a query that sees nothing
CASES: dict[str, tuple[tuple[int, int, int, int], str, dict[str, Any]]] = {
    # T, S, H, K; what the Lisp call has besides q k v; what the references have
    "plain": ((5, 5, 2, 2), "", {}),
    "causal": ((6, 6, 2, 2), ":causal t", {"causal": True}),
    "causal, more keys": ((4, 7, 2, 1), ":causal t", {"causal": True}),
    "causal, fewer keys": ((7, 4, 2, 2), ":causal t", {"causal": True}),
    "grouped": ((5, 6, 6, 2), "", {}),
    "one key head": ((5, 5, 4, 1), ":causal t :scale 0.3", {"causal": True, "scale": 0.3}),
    "window": ((7, 7, 2, 2), ":causal t :window 3", {"causal": True, "window": 3}),
    "window both ways": ((6, 8, 2, 2), ":window 2", {"window": 2}),
    "softcap": ((5, 6, 2, 2), ":softcap 0.7", {"softcap": 0.7}),
    "mask": ((5, 7, 4, 2), ":mask m", {"mask": ALIVE}),
    "mask of keys": ((3, 5, 2, 2), ":mask m", {"mask": np.array([True, False, True, True, False])}),
    "bias": ((4, 5, 4, 2), ":bias b :causal t", {"bias": normal(4, 4, 5), "causal": True}),
    "bias of a head": ((4, 5, 4, 2), ":bias b :softcap 2.0",
                       {"bias": normal(2, 4, 1, 1), "softcap": 2.0}),
    "segments": ((6, 6, 2, 2), ":segments s :causal t",
                 {"segments": (SEGMENTS, SEGMENTS), "causal": True}),
    "segments of both": ((6, 4, 2, 2), ":segments (list s z)",
                         {"segments": (SEGMENTS, SEGMENTS[:, 1:5])}),
}  # fmt: skip


def case(name: str) -> tuple[str, list[np.ndarray], dict[str, Any]]:
    """The Lisp function, its arrays (floats first), and the references' keywords."""
    (queries, keys, heads, kv), words, how = CASES[name]
    arrays = [normal(2, queries, heads, 8), normal(2, keys, kv, 8), normal(2, keys, kv, 8)]
    names = ["q", "k", "v"]
    for key, letter in (("bias", "b"), ("mask", "m")):
        if key in how:
            arrays.append(how[key])
            names.append(letter)
    if "segments" in how:
        arrays += [how["segments"][0], how["segments"][1]]
        names += ["s", "z"]
    return f"(lambda ({' '.join(names)}) (attention q k v {words}))", arrays, how


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    text, arrays, how = case(name)
    value = by_query(*arrays[:3], **how)
    cotangent = RNG.normal(size=value.shape).astype(np.float32)
    active = arrays[:3] + ([how["bias"]] if "bias" in how else [])

    def gradients(cotangent: Any, *active: Any) -> Any:
        def reference(q: Any, k: Any, v: Any, *bias: Any) -> Any:
            return composition(q, k, v, **{**how, **({"bias": bias[0]} if bias else {})})

        return jax.vjp(reference, *active)[1](cotangent)

    with jax.enable_x64(True):
        wanted = compiled(gradients)(*[x.astype(np.float64) for x in (cotangent, *active)])
    for device in ("interp", "cpu"):
        f = sx.function(text, device=device)
        np.testing.assert_allclose(f(*arrays), value, rtol=2e-5, atol=2e-6)
        for got, want in zip(f.vjp(*arrays, cotangent), map(np.asarray, wanted), strict=False):
            assert np.isfinite(got).all()
            scale = max(1, np.abs(want).max())
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * scale)


@pytest.mark.parametrize("causal, window", [(False, None), (True, None), (True, 2), (False, 3)])
def test_against_jax_nn(causal: bool, window: int | None) -> None:
    q, k, v = normal(2, 6, 4, 8), normal(2, 6, 2, 8), normal(2, 6, 2, 8)
    words = (":causal t " if causal else "") + (f":window {window}" if window else "")
    got = sx.function(f"(lambda (q k v) (attention q k v {words}))", device="cpu")(q, k, v)
    size = None if window is None else (window - 1, 0 if causal else window - 1)
    want = jax.nn.dot_product_attention(q, k, v, is_causal=causal, local_window_size=size)
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("causal, masked", [(False, False), (True, False), (False, True)])
def test_against_torch(causal: bool, masked: bool) -> None:
    torch = pytest.importorskip("torch")
    q, k, v = normal(2, 6, 4, 8), normal(2, 6, 4, 8), normal(2, 6, 4, 8)
    mask = some(2, 1, 6, 6) | np.eye(6, dtype=bool)
    given = [q, k, v] + ([mask] if masked else [])
    words = (":causal t" if causal else "") + (":mask m" if masked else "")
    names = "q k v" + (" m" if masked else "")
    got = sx.function(f"(lambda ({names}) (attention q k v {words}))", device="cpu")(*given)
    want = torch.nn.functional.scaled_dot_product_attention(
        *[torch.from_numpy(x).transpose(1, 2) for x in (q, k, v)],
        attn_mask=torch.from_numpy(mask) if masked else None,
        is_causal=causal,
    )
    np.testing.assert_allclose(got, want.transpose(1, 2).numpy(), rtol=2e-5, atol=2e-6)


# -- the chunked lowering ----------------------------------------------------------------------


def graphs(name: str, heads: int = 4, queries: int = 11, keys: int = 13) -> Graph:
    """An attention and all its gradients, with the attributes of a case but the shapes."""
    how = {
        "causal": False, "window": None, "scale": 0.4, "softcap": None, "bias": False,
        "mask": False, "segments": False, "mode": "highest",
    }  # fmt: skip
    how |= {
        "causal": {"causal": True},
        "window": {"causal": True, "window": 5},
        "near": {"window": 3, "softcap": 1.2},
        "all": {"bias": True, "mask": True, "segments": True, "causal": True},
        "bias": {"bias": True},
    }.get(name, {})
    b = new_builder()
    q = b.input("q", TensorType((2, queries, heads, 4), "f32"))
    k, v = (b.input(x, TensorType((2, keys, heads // 2, 4), "f32")) for x in "kv")
    rest = []
    if how["bias"]:
        shape = (1, heads, queries, keys) if name == "all" else (2, 1, 1, keys)
        rest.append(b.input("bias", TensorType(shape, "f32")))
    if how["mask"]:
        rest.append(b.input("mask", TensorType((2, 1, queries, 1), "bool")))
    if how["segments"]:
        rest += [
            b.input("s", TensorType((2, queries), "i32")),
            b.input("z", TensorType((2, keys), "i32")),
        ]
    out, lse = b.emit_all("attention", q, k, v, *rest, **how)
    dout, dlse = b.input("dout", out.type), b.input("dlse", lse.type)
    given = (q, k, v, out, lse, dout, dlse, *rest)
    outputs = {"out": out, "lse": lse}
    for op in ("attention-grad", "attention-bias-grad")[: 1 + how["bias"]]:
        made = b.emit_all(op, *given, **how, lse_cotangent=True)
        outputs |= {f"{op}/{i}": value for i, value in enumerate(made)}
    return b.finish("attention", outputs)


@pytest.mark.parametrize(
    "name, block",
    [
        *((name, 5) for name in ("plain", "causal", "bias")),
        *((name, block) for name in ("window", "near", "all") for block in (4, 5)),
    ],
)
def test_blocks_give_what_the_whole_gives(name: str, block: int) -> None:
    graph = graphs(name)
    inputs = {
        n: some(*x.shape) if x.dtype == "bool" else
        RNG.integers(0, 3, x.shape).astype(np.int32) if x.dtype == "i32" else normal(*x.shape)
        for n, x in graph.inputs.items()
    }  # fmt: skip
    want = evaluate(Plan(graph), inputs)
    with jax.enable_x64(True):
        got = jax.jit(lambda given: lower(graph, given, Lowering(attention_block=block)))(inputs)
    for key, value in want.items():
        np.testing.assert_allclose(got[key], value, rtol=1e-4, atol=3e-5, err_msg=key)


def test_eight_thousand_tokens_take_less_than_a_hundred_megabytes() -> None:
    """Forward and backward; the plain composition's scores alone take a gigabyte each."""
    b = new_builder()
    q, k, v = (b.input(x, TensorType((1, 8192, 4, 64), "f32")) for x in "qkv")
    how = {**OPS["attention"].samples[0].attrs, "causal": True}
    out, lse = b.emit_all("attention", q, k, v, **how)
    dout = b.input("dout", out.type)
    grads = b.emit_all("attention-grad", q, k, v, out, lse, dout, **how, lse_cotangent=False)
    graph = b.finish("g", {"out": out, **dict(zip("qkv", grads, strict=True))})
    given = {n: jax.ShapeDtypeStruct(x.shape, np.float32) for n, x in graph.inputs.items()}
    with jax.enable_x64(True):
        made = jax.jit(lambda x: lower(graph, x, Lowering(kept={}))).lower(given).compile()
    plan = made.memory_analysis()
    assert plan is not None
    assert plan.temp_size_in_bytes < 100e6


# -- higher derivatives, precision, choice -----------------------------------------------------


def test_second_derivatives_against_jax() -> None:
    arrays = [normal(1, 4, 2, 3), normal(1, 4, 1, 3), normal(1, 4, 1, 3)]
    b = new_builder()
    operands = [b.input(n, TensorType(x.shape, "f32")) for n, x in zip("qkv", arrays, strict=True)]

    def sum_of_squares(x: Any) -> Any:
        return b.emit("sum", b.emit("mul", x, x), axes=(0, 1, 2, 3))

    def gradients(y: Any, wrt: Any) -> Any:
        one = b.emit("full", shape=(), value=1.0, dtype="f32", batch=None)
        return autodiff.gradients(b, [(y, one)], wrt)

    how = {**OPS["attention"].samples[0].attrs, "causal": True, "softcap": 2.0}
    inner = sum_of_squares(b.emit_all("attention", *operands, **how)[0])
    outer = sum_of_squares(gradients(inner, operands[:1])[0])
    graph = b.finish("g", dict(zip("qkv", gradients(outer, operands), strict=True)))
    got = evaluate(Plan(graph), dict(zip("qkv", arrays, strict=True)))

    def reference(q: Any, k: Any, v: Any) -> Any:
        def inner(a: Any) -> Any:
            made = composition(a, k, v, causal=True, softcap=2.0, scale=how["scale"])
            return jnp.sum(made**2)

        return jnp.sum(jax.grad(inner)(q) ** 2)

    wanted = compiled(jax.grad(reference, (0, 1, 2)))(*arrays)
    for name, want in zip("qkv", wanted, strict=True):
        np.testing.assert_allclose(got[name], want, rtol=1e-3, atol=1e-4 * np.abs(want).max())


def test_in_bf16_scores_and_softmax_are_f32() -> None:
    """Operands rounded to bf16 and a result rounded once: the error is bf16's, not that of a sum
    of 64 rounded weights."""
    q, k, v = normal(1, 64, 2, 16), normal(1, 64, 2, 16), normal(1, 64, 2, 16)
    halves = [x.astype(ml_dtypes.bfloat16) for x in (q, k, v)]
    want = by_query(*[x.astype(np.float32) for x in halves], causal=True)
    for device in ("interp", "cpu"):
        f = sx.function("(lambda (q k v) (attention q k v :causal t))", device=device)
        got = f(*halves)
        assert got.dtype == ml_dtypes.bfloat16
        np.testing.assert_allclose(got.astype(float), want, rtol=2**-8, atol=2e-6)


def test_under_the_bf16_policy_the_log_sum_exp_and_a_bias_stay_f32() -> None:
    b = new_builder()
    q = b.input("param/q", TensorType((1, 4, 2, 8), "f32"))
    bias = b.input("param/bias", TensorType((1, 2, 4, 4), "f32"))
    how = {**OPS["attention"].samples[0].attrs, "bias": True}
    out, _ = b.emit_all("attention", q, q, q, bias, **how)
    loss = b.emit("sum", out, axes=(0, 1, 2, 3))
    graph = b.finish("g", {"loss/y": loss})
    graph = autodiff.differentiate(graph, "loss/y", {"grad/q": "param/q", "grad/b": "param/bias"})
    under = precision.run(graph, "bf16")
    makers = {n.op: n for n in under.nodes if n.op.startswith("attention")}
    assert [v.dtype for v in makers["attention"].operands] == ["bf16"] * 3 + ["f32"]
    assert [v.dtype for v in makers["attention"].results] == ["bf16", "f32"]
    dtypes = ["bf16"] * 4 + ["f32", "bf16", "f32"]
    for op in ("attention-grad", "attention-bias-grad"):
        assert [v.dtype for v in makers[op].operands] == dtypes
        types = tuple(v.type for v in makers[op].operands)
        assert infer(op, types, makers[op].attrs) == tuple(v.type for v in makers[op].results)
    assert makers["attention-bias-grad"].results[0].dtype == "f32"


LONG = TensorType((2, 4096, 8, 64), "bf16")


@pytest.mark.parametrize(
    "changes, capability, way, why",
    [
        ({}, None, "flash", "bf16"),
        ({"causal": True, "window": 64}, 8.0, "flash", "bf16"),
        ({"window": 64}, 8.0, "chunked", "a window only of what is before"),
        ({"mask": True}, 8.0, "chunked", "a mask"),
        ({"bias": True}, 8.0, "chunked", "an f32 bias"),
        ({"segments": True}, 8.0, "chunked", "segments"),
        ({"softcap": 5.0}, 8.0, "chunked", "softcap"),
        ({"dtype": "f32"}, 8.0, "chunked", "bf16 and f16, not f32"),
        ({"size": 192}, 8.0, "chunked", "up to 128"),
        ({"size": 192}, 9.0, "flash", "bf16"),
        ({"size": 60}, 9.0, "chunked", "8 divides"),
    ],
)
def test_the_choice_on_cuda(changes: Any, capability: Any, way: str, why: str) -> None:
    attrs = {**OPS["attention"].samples[0].attrs, **changes}
    size, dtype = attrs.pop("size", 64), attrs.pop("dtype", "bf16")
    type = TensorType((2, 4096, 8, size), dtype)
    found = choose("cuda", type, type, attrs, capability)
    assert found.way == way
    assert why in found.why


def test_the_choice_on_cpu_goes_by_size() -> None:
    attrs = OPS["attention"].samples[0].attrs
    short = TensorType((2, 128, 4, 32), "f32")
    assert choose("cpu", short, short, attrs).way == "plain"
    assert choose("cpu", LONG, LONG, attrs).way == "chunked"


def test_cuda_gets_the_fused_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowered for cuda on a machine without one: one forward and one backward kernel."""
    from jax._src.cudnn import fused_attention_stablehlo as cudnn

    monkeypatch.setattr(cudnn, "check_cudnn_version", lambda: 91000)
    monkeypatch.setattr(cudnn, "check_compute_capability", lambda _: True)
    monkeypatch.setattr(cudnn, "is_cuda_compute_capability_equal", lambda _: False)
    b = new_builder()
    q, k, v = (b.input(x, LONG) for x in "qkv")
    how = {**OPS["attention"].samples[0].attrs, "causal": True}
    out, lse = b.emit_all("attention", q, k, v, **how)
    dout = b.input("dout", out.type)
    grads = b.emit_all("attention-grad", q, k, v, out, lse, dout, **how, lse_cotangent=False)
    graph = b.finish("g", {"out": out, **dict(zip("qkv", grads, strict=True))})
    given = {n: jax.ShapeDtypeStruct(x.shape, ml_dtypes.bfloat16) for n, x in graph.inputs.items()}
    jitted = jax.jit(lambda x: lower(graph, x, Lowering(device="cuda", capability=9.0, kept={})))
    text = jitted.trace(given).lower(lowering_platforms=("cuda",)).as_text()
    assert text.count("__cudnn$fmhaSoftmax(") + text.count("@__cudnn$fmhaSoftmax ") <= 1
    assert text.count("fmhaSoftmaxBackward") == 1
