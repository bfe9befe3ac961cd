"""Scaled dot-product attention (Vaswani et al., 2017) as one op, with its gradients as two more.

In shapes B is the batch, T and S are the queries' and the keys' positions, H and K the heads of
queries and of keys (K divides H: head h reads the keys of head h // (H / K), Ainslie et al.,
2023), D is the size of a head. The last query stands at the last key's place.

    scores   scale q.k; softcap tanh(scores / softcap); + bias
    visible  causal: the key is not later; window n: fewer than n places away; mask; one segment
    out      softmax(scores over the visible keys) . v, 0 for a query that sees none
    lse      log of the sum of exp(scores) over the visible keys, 0 where there are none

Scores, softmax and sums are f32 (f64 for f64) whatever the operands are. Only `out` and `lse` are
kept for the gradients, which compute the weights again (Dao et al., 2022). Knows no backend.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from sexpgpu.diagnostics.codes.tensor import (
    E_DTYPE_001,
    E_DTYPE_002,
    E_OP_001,
    E_OP_002,
    E_SHAPE_001,
    E_SHAPE_005,
)
from sexpgpu.ir.graph import Attrs, Builder, Node, Value
from sexpgpu.ir.types import ANY, FLOATS, INTEGERS, TensorType
from sexpgpu.ops.attention_plain import plain_bias_grad, plain_grad
from sexpgpu.ops.building import zeros_like
from sexpgpu.ops.composed import vjp_by_composition
from sexpgpu.ops.cost import moved
from sexpgpu.ops.linalg import MODES
from sexpgpu.ops.rules import MIXED, check_rank, list_of, merged_batch, same_dtype
from sexpgpu.ops.samples import bf16, boolean, f32, i32
from sexpgpu.ops.schema import Cotangents, OpDef, OpError, Reject, Sample, Types, define

ATTRS = {
    "causal": "bool",
    "window": "int?",
    "scale": "float",
    "softcap": "float?",
    "bias": "bool",
    "mask": "bool",
    "segments": "bool",
    "mode": "str",
}
GRAD_ATTRS = {**ATTRS, "lse_cotangent": "bool"}
WIDE = frozenset({"f32", "f64"})


def wide(dtype: str) -> str:
    """The dtype of scores for operands of a dtype."""
    return "f64" if dtype == "f64" else "f32"


# -- inference ---------------------------------------------------------------------------------


def _check(name: str, types: Types, attrs: Attrs, own: int) -> None:
    """Refuse q k v that do not fit, attributes, and what follows the `own` operands of the op:
    bias, mask, and the segments of queries and of keys, each where its attribute says so."""
    q, k, v = types[:3]
    for index, what in enumerate("qkv"):
        check_rank(name, types[index], 4, what, index)
    same_dtype(name, types, (0, 1, 2))
    batch, _, heads, size = q.shape
    if k.shape != v.shape:
        raise OpError(
            E_SHAPE_001,
            f"{name}: k is {list_of(k.shape)} and v {list_of(v.shape)}, wanted one shape",
            operand=2,
        )
    kv = k.shape[2]
    if k.shape[0] != batch or k.shape[3] != size or not heads or not kv or heads % kv:
        raise OpError(
            E_SHAPE_001,
            f"{name}: q is {list_of(q.shape)} and k {list_of(k.shape)}: batch and head size must "
            "be the same, and the heads of k, at least one, divide those of q",
            operand=1,
        )
    window, softcap, mode = attrs["window"], attrs["softcap"], attrs["mode"]
    if window is not None and window < 1:
        raise OpError(E_OP_001, f"{name}: a window of {window}, wanted at least 1")
    if softcap is not None and not softcap > 0:
        raise OpError(E_OP_001, f"{name}: a softcap of {softcap:g}, wanted a positive number")
    if mode not in MODES:
        raise OpError(E_OP_001, f"{name}: mode {mode!r}, wanted one of {' '.join(MODES)}")
    wanted = own + attrs["bias"] + attrs["mask"] + 2 * attrs["segments"]
    if len(types) != wanted:
        raise OpError(E_OP_002, f"{name}: {wanted} operands wanted, {len(types)} given")
    scores = (batch, heads, q.shape[1], k.shape[1])
    at = own
    if attrs["bias"]:
        _check_scores(name, "the bias", types[at], scores, wide(q.dtype), at)
        at += 1
    if attrs["mask"]:
        _check_scores(name, "the mask", types[at], scores, "bool", at)
        at += 1
    if attrs["segments"]:
        for index, length in ((at, q.shape[1]), (at + 1, k.shape[1])):
            given = types[index]
            if given.dtype not in INTEGERS:
                raise OpError(
                    E_DTYPE_001, f"{name}: segments are {given}, wanted integers", operand=index
                )
            if given.shape != (batch, length):
                raise OpError(
                    E_SHAPE_001,
                    f"{name}: segments are {list_of(given.shape)}, wanted "
                    f"{list_of((batch, length))}",
                    operand=index,
                )
        same_dtype(name, types, (at, at + 1))


def _check_scores(
    name: str, what: str, given: TensorType, scores: tuple[int, ...], dtype: str, index: int
) -> None:
    """Refuse what does not stretch to the scores [B, H, T, S]."""
    if given.dtype != dtype:
        raise OpError(E_DTYPE_001, f"{name}: {what} is {given}, wanted {dtype}", operand=index)
    if given.rank != 4:
        raise OpError(E_SHAPE_005, f"{name}: {what} is {given}, wanted a rank of 4", operand=index)
    if any(n not in (1, m) for n, m in zip(given.shape, scores, strict=True)):
        raise OpError(
            E_SHAPE_001,
            f"{name}: {what} {list_of(given.shape)} does not stretch to the scores "
            f"{list_of(scores)}",
            operand=index,
        )


def _batch(types: Types) -> int | None:
    """Examples lie along axis 0 of every operand, or along none of the result's."""
    return merged_batch(
        *[t.batch if t.batch is None or (t.batch == 0 and t.shape[0] > 1) else MIXED for t in types]
    )


def _scores_type(types: Types, batch: int | None) -> TensorType:
    """The type of one number a query and head: [B, H, T]."""
    size, length, heads, _ = types[0].shape
    return TensorType((size, heads, length), wide(types[0].dtype), batch)


def _infer(types: Types, attrs: Attrs) -> Types:
    _check("attention", types, attrs, 3)
    batch, q = _batch(types), types[0]
    return TensorType(q.shape, q.dtype, batch), _scores_type(types, batch)


def _check_grad(name: str, types: Types, attrs: Attrs) -> int | None:
    """Refuse operands of a gradient: q k v out lse dout, dlse where there is one, and the rest."""
    _check(name, types, attrs, 6 + attrs["lse_cotangent"])
    same_dtype(name, types, (0, 3, 5))
    for index in (3, 5):
        if types[index].shape != types[0].shape:
            raise OpError(
                E_SHAPE_001,
                f"{name}: shapes {list_of(types[0].shape)} and {list_of(types[index].shape)} "
                "differ, wanted that of q",
                operand=index,
            )
    rows = _scores_type(types, None)
    for index in (4, 6) if attrs["lse_cotangent"] else (4,):
        if not types[index].same_value(rows):
            raise OpError(
                E_DTYPE_002 if types[index].shape == rows.shape else E_SHAPE_001,
                f"{name}: operand {index} is {types[index]}, wanted {rows}",
                operand=index,
            )
    return _batch(types)


def _infer_grad(types: Types, attrs: Attrs) -> Types:
    batch = _check_grad("attention-grad", types, attrs)
    return tuple([TensorType(t.shape, t.dtype, batch) for t in types[:3]])


def _infer_bias_grad(types: Types, attrs: Attrs) -> TensorType:
    name = "attention-bias-grad"
    if not attrs["bias"]:
        raise OpError(E_OP_001, f"{name}: bias is false, so that there is nothing to give")
    batch = _check_grad(name, types, attrs)
    bias: TensorType = types[6 + int(attrs["lse_cotangent"])]
    return TensorType(bias.shape, bias.dtype, batch if bias.shape[0] > 1 else None)


# -- derivatives -------------------------------------------------------------------------------


def _vjp(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    dout, dlse = cotangents
    out, lse = node.results
    q, k, v, *rest = node.operands
    if dout is None:
        dout = zeros_like(b, out)
    saved = [q, k, v, out, lse, dout] + ([] if dlse is None else [dlse])
    attrs = {**node.attrs, "lse_cotangent": dlse is not None}
    found: list[Value | None] = [*b.emit_all("attention-grad", *saved, *rest, **attrs)]
    if attrs["bias"]:
        found.append(b.emit("attention-bias-grad", *saved, *rest, **attrs))
    return (*found, *[None] * (len(node.operands) - len(found)))


# -- cost --------------------------------------------------------------------------------------


@cache
def visible_pairs(queries: int, keys: int, causal: bool, window: int | None) -> int:
    """How many of a head's queries x keys a causal mask and a window let through."""
    total = 0
    for query in range(queries):
        place = query + keys - queries
        last = min(place, keys - 1) if causal else keys - 1
        first = 0
        if window is not None:
            first = max(0, place - window + 1)
            last = min(last, place + window - 1)
        total += max(0, last - first + 1)
    return total


def _cost(products: int) -> Any:
    """`products` matrix products over the visible pairs, and a softmax's 6 operations on each."""

    def cost(types: Types, results: Types, attrs: Attrs) -> tuple[int, int]:
        batch, queries, heads, size = types[0].shape
        pairs = visible_pairs(queries, types[1].shape[1], attrs["causal"], attrs["window"])
        return batch * heads * pairs * (2 * products * size + 6), moved(types, results)

    return cost


# -- the ops -----------------------------------------------------------------------------------


def _how(own: int = 3, **given: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "causal": False, "window": None, "scale": 0.5, "softcap": None, "bias": False,
        "mask": False, "segments": False, "mode": "highest",
    }  # fmt: skip
    more: dict[str, Any] = {} if own == 3 else {"lse_cotangent": False}
    return {**plain, **more, **given}


_Q, _K = f32(2, 3, 4, 2, batch=0), f32(2, 5, 2, 2, batch=0)
_SELF = f32(2, 4, 2, 2, batch=0)
_BIAS = f32(1, 4, 3, 5)
_CASES: tuple[tuple[Types, dict[str, Any]], ...] = (
    ((_SELF,) * 3, {}),
    ((_SELF,) * 3, {"causal": True, "scale": 1.0}),
    ((_Q, _K, _K), {"causal": True, "window": 2}),
    ((_Q, _K, _K), {"window": 2, "softcap": 1.5}),
    ((_Q, _K, _K, _BIAS, boolean(2, 1, 1, 5)), {"bias": True, "mask": True, "softcap": 2.0}),
    ((_Q, _K, _K, f32(2, 1, 1, 5)), {"bias": True}),
    ((_Q, _K, _K, i32(2, 3, batch=0), i32(2, 5, batch=0)), {"segments": True}),
    ((f32(1, 2, 1, 2), f32(1, 0, 1, 2), f32(1, 0, 1, 2)), {}),
)


def _samples(own: int, only_bias: bool = False) -> tuple[Sample, ...]:
    """The cases with the operands of a forward (3) or gradient op, and one in bf16."""
    found: list[Sample] = []
    for types, given in _CASES:
        if only_bias and not given.get("bias"):
            continue
        q, *_ = types
        saved = () if own == 3 else (q, _scores_type(types, q.batch), q)
        how = _how(own, **given)
        found.append(Sample(*types[:3], *saved, *types[3:], **how))
    q, k, bias = bf16(2, 3, 4, 2), bf16(2, 5, 2, 2), f32(1, 4, 3, 5)
    saved = () if own == 3 else (q, f32(2, 4, 3), q)
    found.append(Sample(q, k, k, *saved, bias, grad=False, **_how(own, bias=True, causal=True)))
    if own != 3:
        q, k = _Q, _K
        rows = f32(2, 4, 3, batch=0)
        how = _how(own, bias=True, lse_cotangent=True)
        found.append(Sample(q, k, k, q, rows, q, rows, _BIAS, **how))
    return tuple(found)


ATTENTION = define(
    OpDef(
        name="attention",
        doc="Attention of queries [B,T,H,D] to keys and values [B,S,K,D], K dividing H: out "
        "[B,T,H,D] and lse [B,H,T]. Operands after v: bias and mask that stretch to [B,H,T,S], "
        "segments [B,T] and [B,S], each where its attribute is true.",
        operands=(FLOATS, FLOATS, FLOATS, ANY),
        attrs=ATTRS,
        infer=_infer,
        vjp=_vjp,
        precision="matmul",
        keeps=(3,),
        cost=_cost(2),
        samples=_samples(3),
        rejects=(
            Reject(E_SHAPE_005, f32(2, 3, 4), _K, _K, **_how()),
            Reject(E_SHAPE_001, _Q, _K, f32(2, 6, 2, 2), **_how()),
            Reject(E_SHAPE_001, _Q, f32(2, 5, 3, 2), f32(2, 5, 3, 2), **_how()),
            Reject(E_SHAPE_001, f32(2, 3, 0, 2), _K, _K, **_how()),
            Reject(E_SHAPE_001, _Q, f32(2, 5, 2, 3), f32(2, 5, 2, 3), **_how()),
            Reject(E_SHAPE_001, _Q, _K, _K, f32(1, 4, 3, 4), **_how(bias=True)),
            Reject(E_SHAPE_001, _Q, _K, _K, i32(2, 4), i32(2, 5), **_how(segments=True)),
            Reject(E_SHAPE_005, _Q, _K, _K, boolean(3, 5), **_how(mask=True)),
            Reject(E_DTYPE_001, _Q, _K, _K, f32(1, 1, 3, 5), **_how(mask=True)),
            Reject(E_DTYPE_001, _Q, _K, _K, f32(2, 3), f32(2, 5), **_how(segments=True)),
            Reject(E_DTYPE_002, _Q, bf16(2, 5, 2, 2), _K, **_how()),
            Reject(E_OP_001, _Q, _K, _K, **_how(window=0)),
            Reject(E_OP_001, _Q, _K, _K, **_how(softcap=0.0)),
            Reject(E_OP_001, _Q, _K, _K, **_how(mode="fast")),
            Reject(E_OP_002, _Q, _K, _K, **_how(mask=True)),
        ),
        variadic=True,
    )
)

_LSE = f32(2, 4, 3)
_GRAD_REJECTS = (
    Reject(E_SHAPE_001, _Q, _K, _K, _K, _LSE, _Q, _BIAS, **_how(6, bias=True)),
    Reject(E_SHAPE_001, _Q, _K, _K, _Q, f32(2, 3, 4), _Q, _BIAS, **_how(6, bias=True)),
    Reject(E_OP_002, _Q, _K, _K, _Q, _LSE, _Q, **_how(6, bias=True)),
)

ATTENTION_GRAD = define(
    OpDef(
        name="attention-grad",
        doc="The gradients of attention with respect to q, k and v, of operands q k v out lse "
        "dout, dlse where its attribute is true, and the rest as attention has it.",
        operands=(FLOATS, FLOATS, FLOATS, FLOATS, WIDE, FLOATS, ANY),
        attrs=GRAD_ATTRS,
        infer=_infer_grad,
        vjp=vjp_by_composition(plain_grad),
        precision="matmul",
        keeps=(4, 6, 7),
        cost=_cost(5),
        samples=_samples(6),
        rejects=_GRAD_REJECTS,
        variadic=True,
    )
)

ATTENTION_BIAS_GRAD = define(
    OpDef(
        name="attention-bias-grad",
        doc="The gradient of attention with respect to its bias: operands as attention-grad has.",
        operands=(FLOATS, FLOATS, FLOATS, FLOATS, WIDE, FLOATS, ANY),
        attrs=GRAD_ATTRS,
        infer=_infer_bias_grad,
        vjp=vjp_by_composition(plain_bias_grad),
        precision="matmul",
        keeps=(4, 6, 7),
        cost=_cost(2),
        samples=_samples(6, only_bias=True),
        rejects=(
            *_GRAD_REJECTS,
            Reject(E_OP_001, _Q, _K, _K, _Q, _LSE, _Q, **_how(6)),
        ),
        variadic=True,
    )
)
