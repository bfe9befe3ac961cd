"""lax rules of sexpgpu/ops/attention.py: whole, in blocks, or by cuDNN (lowering/attention.py)."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import lax

from sexpgpu.ir.types import TensorType
from sexpgpu.lowering.attention import Choice, block_of, choose
from sexpgpu.lowering.xla import attention_blocks as blocks
from sexpgpu.lowering.xla.attention_blocks import Plan, Rest
from sexpgpu.lowering.xla.dtypes import F32, LAX, is_half
from sexpgpu.lowering.xla.options import Lowering
from sexpgpu.lowering.xla.registry import lowers
from sexpgpu.lowering.xla.rules.linalg import PRECISION

_IR = {dtype: name for name, dtype in LAX.items()}


@lowers("attention", by_device=True)
def _attention(
    lowering: Lowering, q: jax.Array, k: jax.Array, v: jax.Array, *rest: jax.Array, **attrs: Any
) -> tuple[jax.Array, jax.Array]:
    choice, plan = _how(lowering, q, k, attrs)
    others = _rest(rest, attrs)
    if choice.way == "flash":
        return _flash(lowering, plan, q, k, v, attrs)
    if choice.way == "chunked":
        return blocks.forward(plan, q, k, v, others)
    whole = _Whole(plan, q, k, others)
    out, lse, weights = whole.forward(v)
    _keep(lowering, lse, (weights, whole.capped))
    return out, lse


@lowers("attention-grad", by_device=True)
def _attention_grad(
    lowering: Lowering, *operands: jax.Array, **attrs: Any
) -> tuple[jax.Array, ...]:
    q, k, v, out, lse, dout, *rest = operands
    choice, plan = _how(lowering, q, k, attrs)
    dlse = rest.pop(0) if attrs["lse_cotangent"] else None
    others = _rest(tuple(rest), attrs)
    if choice.way == "flash":
        return _flash_gradient(lowering, q, k, v, lse, dout, attrs)
    if choice.way == "chunked":
        return blocks.backward(plan, q, k, v, out, lse, dout, dlse, others)
    whole = _Whole(plan, q, k, others)
    weights, dscores = whole.cotangents(v, out, lse, dout, dlse, _kept(lowering, lse))
    return whole.operands(weights, dscores, dout)


@lowers("attention-bias-grad", by_device=True)
def _attention_bias_grad(lowering: Lowering, *operands: jax.Array, **attrs: Any) -> jax.Array:
    q, k, v, out, lse, dout, *rest = operands
    choice, plan = _how(lowering, q, k, attrs)
    dlse = rest.pop(0) if attrs["lse_cotangent"] else None
    others = _rest(tuple(rest), attrs)
    if choice.way == "chunked":
        return blocks.backward(plan, q, k, v, out, lse, dout, dlse, others, bias_only=True)[0]
    whole = _Whole(plan, q, k, others)
    _, dscores = whole.cotangents(v, out, lse, dout, dlse, _kept(lowering, lse))
    assert others.bias is not None
    axes = tuple(i for i, n in enumerate(others.bias.shape) if n == 1)
    dscores = dscores.reshape(q.shape[0], q.shape[2], *dscores.shape[3:])
    return lax.reduce_sum(dscores, axes).reshape(others.bias.shape)


def _how(
    lowering: Lowering, q: jax.Array, k: jax.Array, attrs: dict[str, Any]
) -> tuple[Choice, Plan]:
    """The way of this device, and the numbers of the computation."""
    queries, keys = (TensorType(x.shape, _IR[np.dtype(x.dtype)]) for x in (q, k))
    choice = choose(lowering.device, queries, keys, attrs, lowering.capability, lowering.cudnn)
    if lowering.attention_block and choice.way != "flash":
        choice = Choice("chunked", "asked for", lowering.attention_block)
    wide = F32 if is_half(q) else np.dtype(q.dtype)
    return choice, Plan(
        queries=q.shape[1],
        keys=k.shape[1],
        groups=q.shape[2] // k.shape[2],
        block=choice.block,
        causal=attrs["causal"],
        window=attrs["window"],
        scale=attrs["scale"],
        softcap=attrs["softcap"],
        precision=PRECISION[attrs["mode"]],
        wide=wide,
        factor=np.dtype(q.dtype) if lowering.device == "cuda" else wide,
    )


def _rest(operands: tuple[jax.Array, ...], attrs: dict[str, Any]) -> Rest:
    left = list(operands)
    bias = left.pop(0) if attrs["bias"] else None
    mask = left.pop(0) if attrs["mask"] else None
    return Rest(bias, mask, (left[0], left[1]) if attrs["segments"] else None)


# -- what a gradient takes over from its attention ---------------------------------------------


def _keep(lowering: Lowering, lse: jax.Array, found: Any) -> None:
    """Leave intermediate values to the gradient that reads this very `lse` in this trace; where
    there is none (recomputed, another loop body), nobody asks, and they are dead code."""
    if lowering.kept is not None:
        lowering.kept[id(lse)] = (lse, found)


def _kept(lowering: Lowering, lse: jax.Array) -> Any:
    found = (lowering.kept or {}).get(id(lse))
    return None if found is None else found[1]


# -- whole ---------------------------------------------------------------------------------------


class _Whole:
    """Attention with its scores [B,K,G,T,S] held whole, as the chunked way with one block."""

    def __init__(self, plan: Plan, q: jax.Array, k: jax.Array, rest: Rest) -> None:
        self.plan, self.rest, self.q, self.k = plan, rest, q, k
        self.capped: jax.Array | None = None

    def by_keys(self, x: jax.Array) -> jax.Array:
        """[B,T,H,D] -> [B,K,GT,D]."""
        batch, length, heads, size = x.shape
        kv = heads // self.plan.groups
        if self.plan.groups == 1:
            return lax.transpose(x, (0, 2, 1, 3))
        grouped = x.reshape(batch, length, kv, self.plan.groups, size)
        return lax.transpose(grouped, (0, 2, 3, 1, 4)).reshape(
            batch, kv, self.plan.groups * length, size
        )

    def back(self, x: jax.Array) -> jax.Array:
        """[B,K,GT,D] -> [B,T,H,D]."""
        batch, kv, _, size = x.shape
        if self.plan.groups == 1:
            return lax.transpose(x, (0, 2, 1, 3))
        grouped = x.reshape(batch, kv, self.plan.groups, self.plan.queries, size)
        return lax.transpose(grouped, (0, 3, 1, 2, 4)).reshape(
            batch, self.plan.queries, kv * self.plan.groups, size
        )

    def product(self, x: jax.Array, y: jax.Array, x_axis: int, y_axis: int) -> jax.Array:
        wide = self.plan.wide
        dims = (((x_axis,), (y_axis,)), ((0, 1), (0, 1)))
        return lax.dot_general(
            x.astype(self.plan.factor),
            y.astype(self.plan.factor),
            dims,
            precision=self.plan.precision,
            preferred_element_type=wide,
        )

    def grouped(self, x: jax.Array) -> jax.Array:
        """[B,K,GT,S] -> [B,K,G,T,S]."""
        return x.reshape(*x.shape[:2], self.plan.groups, self.plan.queries, x.shape[3])

    def flat(self, x: jax.Array) -> jax.Array:
        """[B,K,G,T,S] -> [B,K,GT,S]."""
        return x.reshape(*x.shape[:2], x.shape[2] * x.shape[3], x.shape[4])

    def scores(self) -> jax.Array:
        number = self.plan.wide.type
        queries, keys = self.by_keys(self.q), lax.transpose(self.k, (0, 2, 1, 3))
        if self.plan.factor == self.plan.wide:  # T x D numbers to scale, not T x S
            queries = queries.astype(self.plan.wide) * number(self.plan.scale)
            scores = self.grouped(self.product(queries, keys, 3, 3))
        else:
            scores = self.grouped(self.product(queries, keys, 3, 3)) * number(self.plan.scale)
        if self.plan.softcap is not None:
            self.capped = lax.tanh(scores / number(self.plan.softcap))
            scores = self.capped * number(self.plan.softcap)
        if self.rest.bias is not None:
            scores = scores + self.by_head(self.rest.bias)
        return scores

    def by_head(self, x: jax.Array) -> jax.Array:
        """A bias or a mask as one that stretches to [B,K,G,T,S]."""
        heads = (1, 1)
        if x.shape[1] > 1:
            heads = (x.shape[1] // self.plan.groups, self.plan.groups)
        return x.reshape(x.shape[0], *heads, *x.shape[2:])

    def visible(self) -> jax.Array | None:
        plan, found = self.plan, []
        shape = (1, 1, 1, plan.queries, plan.keys)
        if plan.causal or plan.window is not None:
            places = lax.broadcasted_iota(np.int32, shape, 3) + np.int32(plan.reach)
            before = places - lax.broadcasted_iota(np.int32, shape, 4)
            if plan.causal:
                found.append(before >= 0)
            if plan.window is not None:
                found.append(before < plan.window)
                if not plan.causal:
                    found.append(before > -plan.window)
        if self.rest.mask is not None:
            found.append(self.by_head(self.rest.mask))
        if self.rest.segments is not None:
            queries, keys = self.rest.segments
            found.append(queries[:, None, None, :, None] == keys[:, None, None, None, :])
        if not found:
            return None
        visible = found[0]
        for more in found[1:]:
            visible = visible & more
        return visible

    def hidden_as(self, x: jax.Array, value: float) -> jax.Array:
        visible = self.visible()
        if visible is None:
            return x
        everywhere = lax.broadcast_in_dim(visible, x.shape, (0, 1, 2, 3, 4))
        return lax.select(everywhere, x, lax.full_like(x, value))

    def forward(self, v: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """out [B,T,H,D], lse [B,H,T], and the weights."""
        scores = self.hidden_as(self.scores(), -np.inf)
        top = lax.reduce_max(scores, (4,))
        top = lax.select(lax.is_finite(top), top, lax.full_like(top, 0))
        powers = lax.exp(scores - top[..., None])
        total = lax.reduce_sum(powers, (4,))
        none = lax.eq(total, lax.full_like(total, 0))
        some = lax.select(none, lax.full_like(total, 1), total)
        weights = powers / some[..., None]
        lse = lax.select(none, lax.full_like(total, 0), lax.log(some) + top)
        values = lax.transpose(v, (0, 2, 1, 3))
        out = self.back(self.product(self.flat(weights), values, 3, 2)).astype(self.q.dtype)
        return out, lse.reshape(lse.shape[0], self.q.shape[2], self.plan.queries), weights

    def cotangents(
        self,
        v: jax.Array,
        out: jax.Array,
        lse: jax.Array,
        dout: jax.Array,
        dlse: jax.Array | None,
        kept: Any,
    ) -> tuple[jax.Array, jax.Array]:
        """The weights and the cotangent of the biased scores."""
        wide = self.plan.wide
        off = lax.reduce_sum(out.astype(wide) * dout.astype(wide), (3,))
        off = lax.transpose(off, (0, 2, 1))
        if dlse is not None:
            off = off - dlse
        rows = (off.shape[0], self.k.shape[2], self.plan.groups, self.plan.queries, 1)
        if kept is not None:
            weights, self.capped = kept
        else:
            weights = self.hidden_as(lax.exp(self.scores() - lse.reshape(rows)), 0)
        values = lax.transpose(v, (0, 2, 1, 3))
        dweights = self.grouped(self.product(self.by_keys(dout), values, 3, 3))
        return weights, weights * (dweights - off.reshape(rows))

    def operands(
        self, weights: jax.Array, dscores: jax.Array, dout: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """dq, dk, dv."""
        number = self.plan.wide.type
        if self.capped is not None:
            dscores = dscores * (1 - self.capped * self.capped)
        dscores = self.flat(dscores)
        keys, queries = lax.transpose(self.k, (0, 2, 1, 3)), self.by_keys(self.q)
        dq = self.back(self.product(dscores, keys, 3, 2)) * number(self.plan.scale)
        dk = self.product(dscores, queries, 2, 2) * number(self.plan.scale)
        dv = self.product(self.flat(weights), self.by_keys(dout), 2, 2)
        dk, dv = (lax.transpose(x, (0, 2, 1, 3)).astype(self.k.dtype) for x in (dk, dv))
        return dq.astype(self.q.dtype), dk, dv


# -- cuDNN ---------------------------------------------------------------------------------------


def _cudnn(q: jax.Array, k: jax.Array, v: jax.Array, attrs: dict[str, Any]) -> Any:
    window = attrs["window"]
    return jax.nn.dot_product_attention(
        q,
        k,
        v,
        scale=attrs["scale"],
        is_causal=attrs["causal"],
        local_window_size=None if window is None else (window - 1, 0),
        implementation="cudnn",
    )


def _flash(
    lowering: Lowering,
    plan: Plan,
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    attrs: dict[str, Any],
) -> tuple[jax.Array, jax.Array]:
    """The kernel's own log-sum-exp stays within its residuals, which the gradient takes over. The
    one given here is computed apart, for a second derivative: dead code where there is none."""
    out, back = jax.vjp(lambda q, k, v: _cudnn(q, k, v, attrs), q, k, v)
    heads, length = q.shape[0] * q.shape[2], max(plan.queries, plan.keys)
    plan = plan._replace(block=block_of("cuda", heads, length))
    _, lse = blocks.forward(plan, q, k, v, Rest(None, None, None))
    _keep(lowering, lse, back)
    return out, lse


def _flash_gradient(
    lowering: Lowering,
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    lse: jax.Array,
    dout: jax.Array,
    attrs: dict[str, Any],
) -> tuple[jax.Array, ...]:
    back = _kept(lowering, lse)
    if back is None:  # the forward pass is in another trace: the kernel runs once more
        _, back = jax.vjp(lambda q, k, v: _cudnn(q, k, v, attrs), q, k, v)
    return back(dout)
