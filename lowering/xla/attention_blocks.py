"""Attention in blocks of queries by blocks of keys, in lax: memory linear in both lengths.

Letters as in sexpgpu/ops/attention.py; G = H / K heads read the keys of one. Lengths are padded to
whole blocks. A block of queries or of keys is [B,K,G,C,D] or [B,K,C,D]; scores are [B,K,G,C,C'].
Blocks that a causal mask or a window hides whole are left out of the loops.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax

from sexpgpu.lowering.xla.dtypes import I32

Loop = tuple[jax.Array, ...]


class Rest(NamedTuple):
    """What changes scores besides q and k; each that is there stretches to [B,H,T,S]."""

    bias: jax.Array | None
    mask: jax.Array | None
    segments: tuple[jax.Array, jax.Array] | None


class Plan(NamedTuple):
    """The static numbers of a computation.

    reach    S - T, the place of the first query
    wide     the dtype of scores and sums
    factor   the dtype of what products multiply: 16-bit where the device multiplies that fast
    """

    queries: int
    keys: int
    groups: int
    block: int
    causal: bool
    window: int | None
    scale: float
    softcap: float | None
    precision: Any
    wide: np.dtype
    factor: np.dtype

    @property
    def reach(self) -> int:
        return self.keys - self.queries

    @property
    def query_blocks(self) -> int:
        return -(-self.queries // self.block)

    @property
    def key_blocks(self) -> int:
        return -(-self.keys // self.block)


@partial(jax.jit, static_argnums=0)  # layers of one shape are traced once
def forward(
    plan: Plan, q: jax.Array, k: jax.Array, v: jax.Array, rest: Rest
) -> tuple[jax.Array, jax.Array]:
    """out [B,T,H,D] in the dtype of q, lse [B,H,T]."""
    parts = _Parts(plan, q, k, rest)
    queries, keys, values = parts.queries(q), parts.keys(k), parts.keys(v)
    rows = queries.shape[1:-1]

    def of_queries(item: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        i, block = item

        def step(j: jax.Array, state: Loop) -> Loop:
            out, top, total = state
            scores, _ = parts.scores(block, _at(keys, j), i, j)
            visible = parts.visible(i, j)
            scores = _where(visible, scores, -np.inf)
            new = lax.max(top, lax.reduce_max(scores, (4,)))
            # nothing seen so far: shifted by 0, not by -inf
            shift = lax.select(lax.is_finite(new), new, lax.full_like(new, 0))
            powers = lax.exp(scores - shift[..., None])
            kept = lax.exp(lax.select(lax.is_finite(top), top - shift, lax.full_like(top, -np.inf)))
            added = parts.dot(powers, _at(values, j), 4, 2)
            return (
                out * kept[..., None] + added,
                new,
                total * kept + lax.reduce_sum(powers, (4,)),
            )

        start = (
            lax.full(block.shape, 0, plan.wide),
            lax.full(rows, -np.inf, plan.wide),
            lax.full(rows, 0, plan.wide),
        )
        first, last = _keys_of(plan, i)
        out, top, total = lax.fori_loop(first, last, step, start)
        none = lax.eq(total, lax.full_like(total, 0))
        some = lax.select(none, lax.full_like(total, 1), total)
        whole = out / some[..., None]
        shift = lax.select(lax.is_finite(top), top, lax.full_like(top, 0))
        lse = lax.select(none, lax.full_like(total, 0), lax.log(some) + shift)
        return whole.astype(q.dtype), lse

    counted = lax.iota(I32, plan.query_blocks)
    out, lse = lax.map(of_queries, (counted, queries))
    return parts.positions(out, plan.queries), parts.rows_back(lse)


@partial(jax.jit, static_argnums=0, static_argnames="bias_only")
def backward(
    plan: Plan,
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    out: jax.Array,
    lse: jax.Array,
    dout: jax.Array,
    dlse: jax.Array | None,
    rest: Rest,
    *,
    bias_only: bool = False,
) -> tuple[jax.Array, ...]:
    """dq dk dv; or dbias."""
    parts = _Parts(plan, q, k, rest)
    queries, keys, values = parts.queries(q), parts.keys(k), parts.keys(v)
    cotangents = parts.queries(dout)
    off = lax.reduce_sum(parts.queries(out).astype(plan.wide) * cotangents.astype(plan.wide), (5,))
    if dlse is not None:
        off = off - parts.rows(dlse)
    tops = parts.rows(lse)

    def weights_and_scores(i: jax.Array, j: jax.Array) -> tuple[jax.Array, jax.Array, Any]:
        """The weights, the cotangent of the biased scores, and tanh(scores / softcap)."""
        scores, capped = parts.scores(_at(queries, i), _at(keys, j), i, j)
        visible = parts.visible(i, j)
        weights = _where(visible, lax.exp(scores - _at(tops, i)[..., None]), 0)
        dweights = parts.dot(_at(cotangents, i), _at(values, j), 4, 3)
        return weights, weights * (dweights - _at(off, i)[..., None]), capped

    if bias_only:
        return (_bias_gradient(plan, parts, weights_and_scores),)

    def of_keys(dq: jax.Array, item: jax.Array) -> tuple[jax.Array, Loop]:
        j = item

        def step(i: jax.Array, state: Loop) -> Loop:
            dq, dk, dv = state
            weights, dscores, capped = weights_and_scores(i, j)
            if capped is not None:
                dscores = dscores * (1 - capped * capped)
            dscores = dscores * plan.wide.type(plan.scale)
            more = parts.dot(dscores, _at(keys, j), 4, 2) + _at(dq, i)
            dq = lax.dynamic_update_index_in_dim(dq, more, i, 0)
            dk = dk + parts.dot_rows(dscores, _at(queries, i))
            return dq, dk, dv + parts.dot_rows(weights, _at(cotangents, i))

        nothing = lax.full(keys.shape[1:], 0, plan.wide)
        first, last = _queries_of(plan, j)
        dq, dk, dv = lax.fori_loop(first, last, step, (dq, nothing, nothing))
        return dq, (dk.astype(k.dtype), dv.astype(v.dtype))

    start = lax.full(queries.shape, 0, plan.wide)
    dq, (dk, dv) = lax.scan(of_keys, start, lax.iota(I32, plan.key_blocks))
    return (
        parts.positions(dq, plan.queries).astype(q.dtype),
        parts.key_positions(dk),
        parts.key_positions(dv),
    )


def _bias_gradient(plan: Plan, parts: _Parts, weights_and_scores: Any) -> jax.Array:
    """The cotangents of scores, summed over what the bias is stretched along."""
    bias = parts.padded_bias
    assert bias is not None
    axes = tuple(i for i, n in enumerate(bias.shape[:2]) if n == 1)

    def of_keys(total: jax.Array, j: jax.Array) -> tuple[jax.Array, None]:
        def step(i: jax.Array, total: jax.Array) -> jax.Array:
            _, dscores, _ = weights_and_scores(i, j)
            dscores = dscores.reshape(dscores.shape[0], -1, *dscores.shape[3:])
            here = [axis + 2 for axis, n in enumerate(bias.shape[2:]) if n == 1]
            more = dscores.sum((*axes, *here), keepdims=True)
            starts = parts.starts(bias, i, j)
            old = lax.dynamic_slice(total, starts, more.shape)
            return lax.dynamic_update_slice(total, old + more, starts)

        first, last = _queries_of(plan, j)
        return lax.fori_loop(first, last, step, total), None

    start = lax.full(bias.shape, 0, plan.wide)
    total, _ = lax.scan(of_keys, start, lax.iota(I32, plan.key_blocks))
    assert parts.rest.bias is not None
    return total[tuple(slice(0, n) for n in parts.rest.bias.shape)]


# -- which blocks meet ---------------------------------------------------------------------------


def _keys_of(plan: Plan, i: jax.Array) -> tuple[Any, Any]:
    """The first and the end of the blocks of keys that some query of block i may see."""
    first, last = np.int32(0), np.int32(plan.key_blocks)
    low = i * np.int32(plan.block) + np.int32(plan.reach)  # the place of the first query
    high = low + np.int32(plan.block - 1)
    if plan.causal:
        last = lax.min(last, _blocks(high + np.int32(1), plan))
    if plan.window is not None:
        first = _floor(low - np.int32(plan.window - 1), plan)
        if not plan.causal:
            last = lax.min(last, _blocks(high + np.int32(plan.window), plan))
    return first, last


def _queries_of(plan: Plan, j: jax.Array) -> tuple[Any, Any]:
    """The first and the end of the blocks of queries that may see some key of block j."""
    first, last = np.int32(0), np.int32(plan.query_blocks)
    low = j * np.int32(plan.block) - np.int32(plan.reach)  # the query at the first key's place
    high = low + np.int32(plan.block - 1)
    if plan.causal:
        first = _floor(low, plan)
    if plan.window is not None:
        last = lax.min(last, _blocks(high + np.int32(plan.window), plan))
        if not plan.causal:
            first = _floor(low - np.int32(plan.window - 1), plan)
    return first, last


def _floor(place: jax.Array, plan: Plan) -> jax.Array:
    """The block of a place; 0 for places before the first."""
    return lax.div(lax.max(place, np.int32(0)), np.int32(plan.block))


def _blocks(end: jax.Array, plan: Plan) -> jax.Array:
    """How many blocks hold the places below `end`."""
    return lax.div(lax.max(end, np.int32(0)) + np.int32(plan.block - 1), np.int32(plan.block))


# -- blocks --------------------------------------------------------------------------------------


def _at(blocks: jax.Array, index: jax.Array) -> jax.Array:
    return lax.dynamic_index_in_dim(blocks, index, 0, keepdims=False)


def _where(visible: jax.Array | None, x: jax.Array, value: float) -> jax.Array:
    if visible is None:
        return x
    return lax.select(
        lax.broadcast_in_dim(visible, x.shape, tuple(range(x.ndim))), x, lax.full_like(x, value)
    )


class _Parts:
    """Operands cut into blocks, and the scores of one block of queries with one of keys."""

    def __init__(self, plan: Plan, q: jax.Array, k: jax.Array, rest: Rest) -> None:
        self.plan, self.rest = plan, rest
        self.batch, self.heads, self.kv = q.shape[0], q.shape[2], k.shape[2]
        self.padded_bias = self._padded(rest.bias)
        self.padded_mask = self._padded(rest.mask)
        if rest.segments is not None:
            self.query_segments = self._in_blocks(rest.segments[0], 1, plan.query_blocks)
            self.key_segments = self._in_blocks(rest.segments[1], 1, plan.key_blocks)

    def _in_blocks(self, x: jax.Array, axis: int, blocks: int) -> jax.Array:
        """x with an axis cut into blocks, which come first."""
        block = self.plan.block
        missing = blocks * block - x.shape[axis]
        if missing:
            zero = np.zeros((), x.dtype)
            x = lax.pad(x, zero, [(0, missing if a == axis else 0, 0) for a in range(x.ndim)])
        x = x.reshape(*x.shape[:axis], blocks, block, *x.shape[axis + 1 :])
        return lax.transpose(x, (axis, *[a for a in range(x.ndim) if a != axis]))

    def _padded(self, x: jax.Array | None) -> jax.Array | None:
        """A bias or a mask with whole blocks along T and S, where it has more than one."""
        if x is None:
            return None
        counts = (0, 0, self.plan.query_blocks, self.plan.key_blocks)
        pads = [
            (0, n * self.plan.block - m if n and m > 1 else 0, 0)
            for n, m in zip(counts, x.shape, strict=True)
        ]
        return lax.pad(x, np.zeros((), x.dtype), pads)

    def queries(self, x: jax.Array) -> jax.Array:
        """[B,T,H,D] -> blocks [n,B,K,G,C,D]."""
        blocks = self._in_blocks(x, 1, self.plan.query_blocks)  # n B C H D
        n, batch, block, _, size = blocks.shape
        grouped = blocks.reshape(n, batch, block, self.kv, self.plan.groups, size)
        return lax.transpose(grouped, (0, 1, 3, 4, 2, 5))

    def keys(self, x: jax.Array) -> jax.Array:
        """[B,S,K,D] -> blocks [n,B,K,C,D]."""
        return lax.transpose(self._in_blocks(x, 1, self.plan.key_blocks), (0, 1, 3, 2, 4))

    def rows(self, x: jax.Array) -> jax.Array:
        """[B,H,T] -> blocks [n,B,K,G,C]."""
        blocks = self._in_blocks(x, 2, self.plan.query_blocks)
        return blocks.reshape(*blocks.shape[:2], self.kv, self.plan.groups, self.plan.block)

    def rows_back(self, x: jax.Array) -> jax.Array:
        """Blocks [n,B,K,G,C] -> [B,H,T]."""
        whole = lax.transpose(x, (1, 2, 3, 0, 4)).reshape(self.batch, self.heads, -1)
        return whole[:, :, : self.plan.queries]

    def positions(self, x: jax.Array, length: int) -> jax.Array:
        """Blocks [n,B,K,G,C,D] -> [B,T,H,D]."""
        whole = lax.transpose(x, (1, 0, 4, 2, 3, 5))
        return whole.reshape(self.batch, -1, self.heads, x.shape[5])[:, :length]

    def key_positions(self, x: jax.Array) -> jax.Array:
        """Blocks [n,B,K,C,D] -> [B,S,K,D]."""
        whole = lax.transpose(x, (1, 0, 3, 2, 4))
        return whole.reshape(self.batch, -1, self.kv, x.shape[4])[:, : self.plan.keys]

    def dot(self, x: jax.Array, y: jax.Array, x_axis: int, y_axis: int) -> jax.Array:
        """[B,K,G,C,·] with [B,K,C',·] over one axis of each -> [B,K,G,C,·]."""
        batch, kv, groups, block, last = x.shape
        flat = x.reshape(batch, kv, groups * block, last)
        made = self._product(flat, y, x_axis - 1, y_axis)
        return made.reshape(batch, kv, groups, block, -1)

    def dot_rows(self, x: jax.Array, y: jax.Array) -> jax.Array:
        """[B,K,G,C,C'] with [B,K,G,C,D] over G and C -> [B,K,C',D]."""
        batch, kv, groups, block, _ = x.shape
        rows = groups * block
        return self._product(x.reshape(batch, kv, rows, -1), y.reshape(batch, kv, rows, -1), 2, 2)

    def _product(self, x: jax.Array, y: jax.Array, x_axis: int, y_axis: int) -> jax.Array:
        dims = (((x_axis,), (y_axis,)), ((0, 1), (0, 1)))
        x, y = x.astype(self.plan.factor), y.astype(self.plan.factor)
        return lax.dot_general(
            x, y, dims, precision=self.plan.precision, preferred_element_type=self.plan.wide
        )

    def scores(
        self, queries: jax.Array, keys: jax.Array, i: jax.Array, j: jax.Array
    ) -> tuple[jax.Array, jax.Array | None]:
        """[B,K,G,C,C'], with the bias; and tanh(scores / softcap), where there is a cap."""
        number = self.plan.wide.type
        scores = self.dot(queries, keys, 4, 3) * number(self.plan.scale)
        capped = None
        if self.plan.softcap is not None:
            capped = lax.tanh(scores / number(self.plan.softcap))
            scores = capped * number(self.plan.softcap)
        if self.padded_bias is not None:
            scores = scores + self._block_of(self.padded_bias, i, j)
        return scores, capped

    def visible(self, i: jax.Array, j: jax.Array) -> jax.Array | None:
        """Stretches to [B,K,G,C,C']; None: all keys are seen."""
        plan, found = self.plan, []
        shape = (1, 1, 1, plan.block, plan.block)
        column = lax.broadcasted_iota(I32, shape, 4) + j * np.int32(plan.block)
        if plan.key_blocks * plan.block > plan.keys:
            found.append(column < plan.keys)
        if plan.causal or plan.window is not None:
            place = lax.broadcasted_iota(I32, shape, 3) + (i * plan.block + plan.reach).astype(I32)
            before = place - column
            if plan.causal:
                found.append(before >= 0)
            if plan.window is not None:
                found.append(before < plan.window)
                if not plan.causal:
                    found.append(before > -plan.window)
        if self.padded_mask is not None:
            found.append(self._block_of(self.padded_mask, i, j))
        if self.rest.segments is not None:
            queries, keys = _at(self.query_segments, i), _at(self.key_segments, j)
            found.append(queries[:, None, None, :, None] == keys[:, None, None, None, :])
        if not found:
            return None
        visible = found[0]
        for more in found[1:]:
            visible = visible & more
        return visible

    def starts(self, x: jax.Array, i: jax.Array, j: jax.Array) -> tuple[Any, ...]:
        """Where the block of a padded bias or mask begins."""
        zero, block = np.int32(0), np.int32(self.plan.block)
        return (
            zero,
            zero,
            i * block if x.shape[2] > 1 else zero,
            j * block if x.shape[3] > 1 else zero,
        )

    def _block_of(self, x: jax.Array, i: jax.Array, j: jax.Array) -> jax.Array:
        """[.,.,C|1,C'|1] of a padded bias or mask, as [.,K|1,G|1,C|1,C'|1]."""
        block = self.plan.block
        sizes = (*x.shape[:2], *[block if n > 1 else 1 for n in x.shape[2:]])
        part = lax.dynamic_slice(x, self.starts(x, i, j), sizes)
        heads = (1, 1) if x.shape[1] == 1 else (self.kv, self.plan.groups)
        return part.reshape(part.shape[0], *heads, *part.shape[2:])
