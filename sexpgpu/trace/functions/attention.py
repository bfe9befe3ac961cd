"""Scaled dot-product attention as the one op `attention`."""

from __future__ import annotations

import math
from typing import Any

from sexpgpu.diagnostics.codes.tensor import E_DTYPE_001, E_OP_001, E_SHAPE_001
from sexpgpu.ir.graph import Value
from sexpgpu.lisp.values import NIL
from sexpgpu.ops.attention import wide
from sexpgpu.ops.attention_plain import entropy
from sexpgpu.trace.arguments import bad, integer, items_of, number, tensor, wrong_rank
from sexpgpu.trace.context import TRACES, Trace
from sexpgpu.trace.declare import tensor_function
from sexpgpu.trace.errors import failure
from sexpgpu.trace.functions.index import ids_of
from sexpgpu.trace.functions.shape import text
from sexpgpu.trace.primitives import cast, reshape
from sexpgpu.trace.promote import FLOAT, NUMBER, same_dtype
from sexpgpu.trace.tensor import Tensor, is_tensor, wrap

NAME = "attention"


@tensor_function(NAME, "(q k v &key causal window mask bias segments scale softcap)")
def attention(
    q: Any,
    k: Any,
    v: Any,
    causal: Any = NIL,
    window: Any = NIL,
    mask: Any = NIL,
    bias: Any = NIL,
    segments: Any = NIL,
    scale: Any = NIL,
    softcap: Any = NIL,
) -> Tensor:
    """q [B, T, H, D], k and v [B, S, K, D] with K dividing H → [B, T, H, D]: each query's mean of
    the values that it may see, weighted by softmax(scale q·k + bias); 0 where it sees none. The
    last query stands at the last key's place. :causal hides later keys, :window n those n or more
    places away; :mask (true: seen) and :bias stretch to [B, H, T, S]; :segments, integers [B, T] or
    a list of those of q and of k: only equal ones see each other. :scale is 1/sqrt(D) unless said;
    :softcap c makes scores c tanh(score / c), before the bias. Scores and softmax are f32."""
    trace = TRACES[-1]
    tensors = [tensor(NAME, what, value) for what, value in (("q", q), ("k", k), ("v", v))]
    operands = list(zip("qkv", tensors, strict=True))
    for what, t in operands:
        if len(t.type.shape) != 4:
            layout = "[B, T, H, D]" if what == "q" else "[B, S, K, D]"
            raise wrong_rank(
                NAME, f"{what} must be {layout}", operands, "split the heads with reshape"
            )
    values = same_dtype(NAME, tensors, FLOAT, ("q", "k", "v"))
    batch, queries, heads, size = values[0].type.shape
    keys, kv_heads = values[1].type.shape[1:3]
    if not heads or not kv_heads or heads % kv_heads:
        given = f"{kv_heads} heads of k do not divide the {heads} of q"
        if not heads or not kv_heads:
            given = f"q has {heads} heads and k {kv_heads}, wanted at least one of each"
        raise failure(E_SHAPE_001, f"{NAME}: {given}", operands)
    scores = (batch, heads, queries, keys)
    if bias is not NIL:
        values.append(_scores(trace, "bias", _bias(bias), scores, wide(values[0].type.dtype)))
    if mask is not NIL:
        values.append(_scores(trace, "mask", _mask(mask), scores, "bool"))
    if segments is not NIL:
        values += _segments(segments, queries, keys, operands)
    attrs: dict[str, Any] = {
        "causal": causal is not NIL,
        "window": None if window is NIL else integer(NAME, ":window", window, 1),
        "scale": _positive(":scale", scale, 1 / math.sqrt(max(size, 1))),
        "softcap": None if softcap is NIL else _positive(":softcap", softcap, 0.0),
        "bias": bias is not NIL,
        "mask": mask is not NIL,
        "segments": segments is not NIL,
        "mode": "highest",
    }
    node = trace.builder.node(NAME, tuple(values), attrs)
    path = f"{trace.path}/" if trace.path else ""
    trace.watch_if_selected(f"attn/{path}entropy", lambda: entropy(trace.builder, node))
    return wrap(node.results[0])


def _positive(what: str, value: Any, default: float) -> float:
    if value is NIL:
        return default
    found = float(number(NAME, what, value))
    if not 0 < found < math.inf:
        raise bad(NAME, what, value, "a positive number")
    return found


def _bias(value: Any) -> Tensor:
    t = tensor(NAME, ":bias", value)
    if t.type.dtype not in ("f32", "bf16", "f16", "f64"):
        raise failure(
            E_DTYPE_001,
            f"{NAME}: :bias is {t.type}, wanted a float",
            [(":bias", t)],
            fix="bools go to :mask; cast integers: (cast bias :f32)",
        )
    return t


def _mask(value: Any) -> Tensor:
    t = tensor(NAME, ":mask", value)
    if t.type.dtype != "bool":
        raise failure(
            E_DTYPE_001,
            f"{NAME}: :mask is {t.type}, wanted bool",
            [(":mask", t)],
            fix="compare: (/= mask 0); numbers to add to the scores go to :bias",
        )
    return t


def _scores(trace: Trace, what: str, t: Tensor, scores: tuple[int, ...], dtype: str) -> Value:
    """What stretches to the scores, as rank 4 and in a dtype."""
    shape = t.type.shape
    full = (1,) * (4 - len(shape)) + shape
    if len(shape) > 4 or any(n not in (1, m) for n, m in zip(full, scores, strict=True)):
        raise failure(
            E_SHAPE_001,
            f"{NAME}: :{what} {text(shape)} does not stretch to the scores [B, H, T, S] "
            f"{text(scores)}",
            [(f":{what}", t)],
        )
    return cast(trace, reshape(trace, t.value, full), dtype)


def _segments(value: Any, queries: int, keys: int, operands: Any) -> list[Value]:
    """The segments of queries and of keys."""
    pair = [value, value] if is_tensor(value) else items_of(NAME, ":segments", value)
    if len(pair) != 2:
        raise bad(NAME, ":segments", value, "a tensor, or a list of those of q and of k")
    if is_tensor(value) and queries != keys:
        raise failure(
            E_OP_001,
            f"{NAME}: :segments is one tensor, but there are {queries} queries and {keys} keys",
            operands,
            fix="give both: :segments (list of-queries of-keys)",
        )
    found = [ids_of(NAME, ":segments", t) for t in pair]
    a, b = [t.value for t in found]
    if a.type.dtype != b.type.dtype:
        a, b = same_dtype(NAME, found, NUMBER, (":segments",) * 2)
    return [a, b]
