"""NumPy rules of sexpgpu/ops/attention.py: the formulas as they stand, the scores held whole."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sexpgpu.lowering.interp.registry import evaluates


class _Attending(NamedTuple):
    """Shifted scores [B,H,T,S] before the softmax, and what its gradient needs of them.

    keys, values   [B,H,S,D], those of a group of heads repeated for each
    capped         tanh(scores / softcap), or None
    visible        stretches to the scores; None: all keys are
    """

    queries: np.ndarray
    keys: np.ndarray
    values: np.ndarray
    scores: np.ndarray
    capped: np.ndarray | None
    visible: np.ndarray | None


def _heads_first(x: np.ndarray, repeats: int = 1) -> np.ndarray:
    """[B,L,H,D] -> [B,H,L,D], each head `repeats` times in a row."""
    return np.repeat(np.transpose(x, (0, 2, 1, 3)), repeats, axis=1)


def _swapped(x: np.ndarray) -> np.ndarray:
    return np.swapaxes(x, -1, -2)


def _attend(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, rest: list[np.ndarray], attrs: dict[str, Any]
) -> _Attending:
    number = q.dtype.type
    group = q.shape[2] // k.shape[2]
    queries, keys, values = _heads_first(q), _heads_first(k, group), _heads_first(v, group)
    scores = np.matmul(queries, _swapped(keys)) * number(attrs["scale"])
    capped = None
    if attrs["softcap"] is not None:
        cap = number(attrs["softcap"])
        capped = np.tanh(scores / cap)
        scores = capped * cap
    if attrs["bias"]:
        scores = scores + rest.pop(0)
    return _Attending(
        queries, keys, values, scores, capped, _visible(rest, scores.shape[2:], attrs)
    )


def _visible(
    rest: list[np.ndarray], extents: tuple[int, ...], attrs: dict[str, Any]
) -> np.ndarray | None:
    found: list[np.ndarray] = []
    if attrs["mask"]:
        found.append(rest.pop(0))
    if attrs["segments"]:
        queries, keys = rest
        found.append(queries[:, None, :, None] == keys[:, None, None, :])
    length, others = extents
    # how far before its query a key is
    before = np.arange(length)[:, None] + (others - length) - np.arange(others)
    if attrs["causal"]:
        found.append(before >= 0)
    if attrs["window"] is not None:
        found.append(np.abs(before) < attrs["window"])
    if not found:
        return None
    visible = found[0]
    for more in found[1:]:
        visible = visible & more
    return visible


def _hidden_as(x: np.ndarray, visible: np.ndarray | None, value: float) -> np.ndarray:
    return x if visible is None else np.where(visible, x, x.dtype.type(value))


@evaluates("attention")
def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, *rest: np.ndarray, **attrs: Any) -> Any:
    at = _attend(q, k, v, list(rest), attrs)
    scores = _hidden_as(at.scores, at.visible, -np.inf)
    top = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, top.dtype.type(0))
    powers = np.exp(scores - top)
    total = np.sum(powers, axis=-1, keepdims=True)
    none = total == 0
    out = np.matmul(powers, at.values) / np.where(none, total.dtype.type(1), total)
    lse = np.where(none, total.dtype.type(0), np.log(total) + top)
    return np.transpose(out, (0, 2, 1, 3)), lse[..., 0]


class _Gradient(NamedTuple):
    """The weights and the cotangent of the biased scores, [B,H,T,S]."""

    at: _Attending
    dout: np.ndarray
    weights: np.ndarray
    dscores: np.ndarray


def _gradient(operands: tuple[np.ndarray, ...], attrs: dict[str, Any]) -> _Gradient:
    q, k, v, out, lse, dout, *rest = operands
    off = np.sum(out * dout, axis=-1, dtype=out.dtype).transpose(0, 2, 1)
    if attrs["lse_cotangent"]:
        off = off - rest.pop(0)
    at = _attend(q, k, v, rest, attrs)
    weights = _hidden_as(np.exp(at.scores - lse[..., None]), at.visible, 0)
    cotangents = _heads_first(dout)
    dweights = np.matmul(cotangents, _swapped(at.values))
    return _Gradient(at, cotangents, weights, weights * (dweights - off[..., None]))


@evaluates("attention-grad")
def _attention_grad(*operands: np.ndarray, **attrs: Any) -> Any:
    found = _gradient(operands, attrs)
    at, dscores = found.at, found.dscores
    if at.capped is not None:
        dscores = dscores * (dscores.dtype.type(1) - np.square(at.capped))
    dscores = dscores * dscores.dtype.type(attrs["scale"])
    dq = np.matmul(dscores, at.keys)
    dk = np.matmul(_swapped(dscores), at.queries)
    dv = np.matmul(_swapped(found.weights), found.dout)
    heads = operands[1].shape[2]
    return tuple(
        np.transpose(x, (0, 2, 1, 3)) for x in (dq, _shared(dk, heads), _shared(dv, heads))
    )


def _shared(x: np.ndarray, heads: int) -> np.ndarray:
    """The sum over the heads of each group: [B,H,S,D] -> [B,K,S,D]."""
    batch, all_heads, length, size = x.shape
    grouped = x.reshape(batch, heads, all_heads // heads, length, size)
    return np.sum(grouped, axis=2, dtype=x.dtype)


@evaluates("attention-bias-grad")
def _attention_bias_grad(*operands: np.ndarray, **attrs: Any) -> np.ndarray:
    bias = operands[6 + attrs["lse_cotangent"]]
    dscores = _gradient(operands, attrs).dscores
    axes = tuple(i for i, n in enumerate(bias.shape) if n == 1)
    return np.sum(dscores, axis=axes, keepdims=True, dtype=dscores.dtype)
