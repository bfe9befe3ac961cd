"""The gradients of attention in simpler ops, with the scores [B,H,T,S] held whole; the entropy of
its weights.

The derivatives of the gradients are made from this (ops/attention.py has the formulas and the
letters of the shapes). Computes in f32, or f64, under every precision. Knows no backend.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from math import prod

from sexpgpu.ir.graph import Attrs, Builder, Node, Value
from sexpgpu.ir.numerics import merge_numerics
from sexpgpu.ops.building import full_of, reshaped, scaled, shifted, total, transposed
from sexpgpu.ops.linalg import dot

Shape = tuple[int, ...]


def plain_grad(b: Builder, node: Node) -> tuple[Value, ...]:
    """The results of an `attention-grad` node: dq, dk, dv."""
    with _in_f32(b):
        return _Gradient(b, node).of_operands()


def plain_bias_grad(b: Builder, node: Node) -> tuple[Value, ...]:
    """The result of an `attention-bias-grad` node."""
    with _in_f32(b):
        return (_Gradient(b, node).of_bias(),)


def entropy(b: Builder, node: Node) -> Value:
    """The mean over batch, heads and queries of the entropy, in nats, of the weights of an
    `attention` node: lse less the scores' mean under the weights. f32 scalar; a query that sees no
    key counts 0.

    Without a bias or a softcap that mean is scale q.(Σ weight k), an attention whose values are
    the keys, linear in memory; else the scores are held whole."""
    q, k, _, *rest = node.operands
    attrs = node.attrs
    with _in_f32(b):
        if attrs["bias"] or attrs["softcap"] is not None:
            found = _Entropy(b, node).of_queries()
        else:
            q, k = (x if x.dtype in ("f32", "f64") else b.emit("cast", x, dtype="f32")
                    for x in (q, k))  # fmt: skip
            keys, lse = b.emit_all("attention", q, k, k, *rest, **attrs)
            scores = scaled(b, total(b, b.emit("mul", q, keys), (3,)), float(attrs["scale"]))
            found = b.emit("sub", lse, transposed(b, scores, (0, 2, 1)))
        mean = scaled(b, total(b, found, (0, 1, 2)), 1 / max(prod(found.shape), 1))
        return mean if mean.dtype == "f32" else b.emit("cast", mean, dtype="f32")


@contextmanager
def _in_f32(b: Builder) -> Generator[None]:
    kept = b.numerics
    b.numerics = merge_numerics(kept, {"compute": "f32"})
    try:
        yield
    finally:
        b.numerics = kept


class _Gradient:
    """What both gradients need, from the operands of a node.

    q [B,K,GT,D] (G heads share the keys of one of K), k v [B,K,S,D]; weights, and the cotangent
    of the biased scores, [B,H,T,S]
    """

    __slots__ = ("attrs", "b", "capped", "dout", "dscores", "k", "node", "q", "weights")

    def __init__(self, b: Builder, node: Node) -> None:
        self.b, self.node, self.attrs = b, node, node.attrs
        _, _, v, out, lse, dout, *rest = node.operands
        dlse = rest.pop(0) if self.attrs["lse_cotangent"] else None
        shape = self.weigh(lse, rest).shape
        self.dout, values = self.by_keys(dout), self.heads_first(v)
        # d out.out summed over a head: what normalising the weights takes off each cotangent
        wide_out, wide_dout = self.in_wide(out), self.in_wide(dout)
        off = transposed(b, total(b, b.emit("mul", wide_out, wide_dout), (3,)), (0, 2, 1))
        if dlse is not None:
            off = b.emit("sub", off, dlse)
        dweights = b.emit("sub", self.product(self.dout, values), self.by_row(off, shape))
        self.dscores = b.emit("mul", self.weights, dweights)

    def weigh(self, lse: Value, rest: list[Value]) -> Value:
        """The scores; sets `q`, `k`, `capped` and `weights`. `rest`: bias, mask, segments."""
        b, bias = self.b, rest.pop(0) if self.attrs["bias"] else None
        q, k = self.node.operands[:2]
        self.q, self.k = self.by_keys(q), self.heads_first(k)
        scores = scaled(b, self.product(self.q, self.k), float(self.attrs["scale"]))
        self.capped: Value | None = None
        if self.attrs["softcap"] is not None:
            cap = float(self.attrs["softcap"])
            self.capped = b.emit("tanh", scaled(b, scores, 1 / cap))
            scores = scaled(b, self.capped, cap)
        shape = scores.shape
        if bias is not None:
            scores = b.emit("add", scores, self.stretched(bias, shape))
        self.weights = self.softmax(scores, lse, self.visible(rest, shape))
        return scores

    def of_operands(self) -> tuple[Value, Value, Value]:
        b, scale = self.b, float(self.attrs["scale"])
        dscores = self.dscores
        if self.capped is not None:
            square = b.emit("mul", self.capped, self.capped)
            dscores = b.emit("mul", dscores, shifted(b, b.emit("neg", square), 1.0))
        dscores = self.grouped(scaled(b, dscores, scale))
        lead = ((0, 1), (0, 1))
        dq = dot(b, dscores, self.k, ((3,), (2,)), lead)
        dk = dot(b, dscores, self.q, ((2,), (2,)), lead)
        dv = dot(b, self.grouped(self.weights), self.dout, ((2,), (2,)), lead)
        q, k, _ = self.node.operands[:3]
        back = transposed(b, reshaped(b, dq, self.heads_first_shape(q)), (0, 2, 1, 3))
        dk, dv = (transposed(b, x, (0, 2, 1, 3)) for x in (dk, dv))
        return self.cast(back, q.dtype), self.cast(dk, k.dtype), self.cast(dv, k.dtype)

    def of_bias(self) -> Value:
        bias: Value = self.node.operands[6 + int(self.attrs["lse_cotangent"])]
        found = self.dscores
        axes = tuple([i for i, n in enumerate(bias.shape) if n == 1 and found.shape[i] != 1])
        return reshaped(self.b, total(self.b, found, axes), bias.shape)

    # -- parts ----------------------------------------------------------------------------------

    def cast(self, x: Value, dtype: str) -> Value:
        return x if x.dtype == dtype else self.b.emit("cast", x, dtype=dtype)

    def in_wide(self, x: Value) -> Value:
        return self.cast(x, "f64" if x.dtype == "f64" else "f32")

    def heads_first(self, x: Value) -> Value:
        """[B,L,H,D] -> [B,H,L,D], in the dtype of scores."""
        return transposed(self.b, self.in_wide(x), (0, 2, 1, 3))

    def heads_first_shape(self, x: Value) -> Shape:
        batch, length, heads, size = x.shape
        return batch, heads, length, size

    def by_keys(self, x: Value) -> Value:
        """[B,T,H,D] -> [B,K,GT,D]."""
        batch, length, heads, size = x.shape
        kv = self.node.operands[1].shape[2]
        return reshaped(self.b, self.heads_first(x), (batch, kv, heads // kv * length, size))

    def grouped(self, x: Value) -> Value:
        """[B,H,T,S] -> [B,K,GT,S]."""
        batch, heads, length, keys = x.shape
        kv = self.node.operands[1].shape[2]
        return reshaped(self.b, x, (batch, kv, heads // kv * length, keys))

    def product(self, x: Value, y: Value) -> Value:
        """[B,K,GT,D] and [B,K,S,D] -> [B,H,T,S]."""
        batch, length, heads, _ = self.node.operands[0].shape
        made = dot(self.b, x, y, ((3,), (3,)), ((0, 1), (0, 1)), mode=self.attrs["mode"])
        return reshaped(self.b, made, (batch, heads, length, y.shape[2]))

    def stretched(self, x: Value, shape: Shape) -> Value:
        """A bias or a mask to [B,H,T,S]."""
        if x.shape == shape:
            return x
        return self.b.emit("broadcast", x, shape=shape, dims=(0, 1, 2, 3))

    def by_row(self, x: Value, shape: Shape) -> Value:
        """[B,H,T] to [B,H,T,S]."""
        return self.b.emit("broadcast", x, shape=shape, dims=(0, 1, 2))

    def softmax(self, scores: Value, lse: Value, visible: Value | None) -> Value:
        """exp(scores - lse) where visible, else 0: masked before and after exp, so that no
        infinity meets a cotangent of 0."""
        b = self.b
        shifts = b.emit("sub", scores, self.by_row(lse, scores.shape))
        if visible is None:
            return b.emit("exp", shifts)
        zero = full_of(b, 0.0, scores.shape, scores.dtype)
        powers = b.emit("exp", b.emit("select", visible, shifts, zero))
        return b.emit("select", visible, powers, zero)

    def visible(self, rest: list[Value], shape: Shape) -> Value | None:
        """Which keys a query sees, [B,H,T,S]; None: all."""
        found: list[Value] = []
        if self.attrs["mask"]:
            found.append(self.stretched(rest[0], shape))
        if self.attrs["segments"]:
            queries, keys = rest[-2:]
            b = self.b
            rows = b.emit("broadcast", queries, shape=shape, dims=(0, 2))
            found.append(b.emit("eq", rows, b.emit("broadcast", keys, shape=shape, dims=(0, 3))))
        found += [self.broadcast_pairs(x, shape) for x in _near(self.b, self.attrs, shape[2:])]
        if not found:
            return None
        seen = found[0]
        for more in found[1:]:
            seen = self.b.emit("and", seen, more)
        return seen

    def broadcast_pairs(self, x: Value, shape: Shape) -> Value:
        return self.b.emit("broadcast", x, shape=shape, dims=(2, 3))


class _Entropy(_Gradient):
    """The weights of an `attention` node, and the entropy of each query's."""

    __slots__ = ("lse", "scores")

    def __init__(self, b: Builder, node: Node) -> None:
        self.b, self.node, self.attrs = b, node, node.attrs
        self.lse = node.results[1]
        self.scores = self.weigh(self.lse, list(node.operands[3:]))

    def of_queries(self) -> Value:
        """[B,H,T]."""
        b, shape = self.b, self.scores.shape
        zero = full_of(b, 0.0, shape, self.scores.dtype)
        surprise = b.emit("sub", self.by_row(self.lse, shape), self.scores)
        # a bias of -inf hides a key as a mask does
        surprise = b.emit("select", b.emit("gt", self.weights, zero), surprise, zero)
        return total(b, b.emit("mul", self.weights, surprise), (3,))


def _near(b: Builder, attrs: Attrs, shape: Shape) -> list[Value]:
    """The causal mask and the window, [T,S]."""
    if not attrs["causal"] and attrs["window"] is None:
        return []

    def constant(value: int) -> Value:
        return b.emit("full", shape=shape, value=value, dtype="i32", batch=None)

    def index(axis: int) -> Value:
        return b.emit("iota", shape=shape, axis=axis, dtype="i32", batch=None)

    # how far before its query a key is
    before = b.emit("add", b.emit("sub", index(0), index(1)), constant(shape[1] - shape[0]))
    found: list[Value] = []
    if attrs["causal"]:
        found.append(b.emit("ge", before, constant(0)))
    if attrs["window"] is not None:
        found.append(b.emit("lt", before, constant(attrs["window"])))
        if not attrs["causal"]:
            found.append(b.emit("gt", before, constant(-attrs["window"])))
    return found
