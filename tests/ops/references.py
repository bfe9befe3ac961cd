"""Each op once more, in jax.numpy, jax.scipy and jax.nn: written from what the op's record says,
sharing nothing with the lowering. `REFERENCES[op](*operands, **attrs)` gives its result or results.

`UNREFERENCED` names the ops that have none, and why."""

# ruff: noqa: PLW0108 (the names of parameters are those of the attributes)

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np

from sexpgpu.lowering.xla.dtypes import LAX

REFERENCES: dict[str, Callable[..., Any]] = {}

UNREFERENCED = {
    "random-key": "threefry has published vectors: test_threefry.py",
    "random-fold": "threefry has published vectors: test_threefry.py",
    "random-bits": "threefry has published vectors: test_threefry.py",
    "attention": "held against softmax attention in the tests of attention",
    "attention-grad": "held against jax.vjp in the tests of attention",
    "attention-bias-grad": "held against jax.vjp in the tests of attention",
    "scan": "runs a graph: held against jax.lax.scan in the tests of graph control",
    "recompute": "runs a graph: the tests of graph control",
    "custom-vjp": "runs a graph: the tests of graph control",
}


def reference(op: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        REFERENCES[op] = function
        return function

    return add


# ---- element by element --------------------------------------------------------------------
def _sign(x: Any) -> Any:
    return jnp.where(x > 0, 1, jnp.where(x < 0, -1, x)).astype(x.dtype)


def _shift_left(x: Any, n: Any) -> Any:
    width = 8 * x.dtype.itemsize
    wide = (n >= 0) & (n < width) if jnp.issubdtype(n.dtype, jnp.signedinteger) else n < width
    return jnp.where(wide, jnp.left_shift(x, jnp.where(wide, n, 0).astype(x.dtype)), 0).astype(
        x.dtype
    )


def _shift_right(x: Any, n: Any) -> Any:
    """Arithmetic for signed, logical for unsigned; beyond the width all sign bits."""
    width = 8 * x.dtype.itemsize
    wide = (n >= 0) & (n < width) if jnp.issubdtype(n.dtype, jnp.signedinteger) else n < width
    beyond = jnp.where(x < 0, -1, 0) if jnp.issubdtype(x.dtype, jnp.signedinteger) else 0
    return jnp.where(
        wide, jnp.right_shift(x, jnp.where(wide, n, 0).astype(x.dtype)), beyond
    ).astype(x.dtype)


REFERENCES |= {
    "neg": lambda x: 0 - x,
    "exp": jnp.exp,
    "expm1": jnp.expm1,
    "log": jnp.log,
    "log1p": jnp.log1p,
    "sqrt": jnp.sqrt,
    "rsqrt": lambda x: 1 / jnp.sqrt(x),
    "cbrt": jnp.cbrt,
    "abs": jnp.abs,
    "sign": _sign,
    "floor": jnp.floor,
    "ceil": jnp.ceil,
    "round": jnp.round,
    "trunc": jnp.trunc,
    "sin": jnp.sin,
    "cos": jnp.cos,
    "tan": lambda x: jnp.sin(x) / jnp.cos(x),
    "asin": jnp.arcsin,
    "acos": jnp.arccos,
    "atan": jnp.arctan,
    "sinh": lambda x: (jnp.exp(x) - jnp.exp(-x)) / 2,
    "cosh": lambda x: (jnp.exp(x) + jnp.exp(-x)) / 2,
    "tanh": lambda x: 1 - 2 / (jnp.exp(2 * x) + 1),
    "asinh": lambda x: jnp.log(x + jnp.sqrt(x * x + 1)),
    "acosh": lambda x: jnp.log(x + jnp.sqrt(x * x - 1)),
    "atanh": lambda x: (jnp.log(1 + x) - jnp.log(1 - x)) / 2,
    "sigmoid": lambda x: 1 / (1 + jnp.exp(-x)),
    "erf": jsp.special.erf,
    "erfc": jsp.special.erfc,
    "erf-inv": jsp.special.erfinv,
    "lgamma": jsp.special.gammaln,
    "digamma": jsp.special.digamma,
    "relu": lambda x: jnp.where(x > 0, x, 0).astype(x.dtype),
    "softplus": lambda x: jnp.logaddexp(x, 0),
    "is-finite": jnp.isfinite,
    "is-nan": jnp.isnan,
    "is-inf": jnp.isinf,
    "not": lambda x: ~x,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "pow": jnp.power,
    "rem": lambda a, b: (
        jnp.where(b == 0, a, jnp.fmod(a, jnp.where(b == 0, 1, b)))
        if jnp.issubdtype(a.dtype, jnp.integer)
        else a - jnp.trunc(a / b) * b
    ),
    "mod": lambda a, b: (
        jnp.where(b == 0, a, jnp.mod(a, jnp.where(b == 0, 1, b)))
        if jnp.issubdtype(a.dtype, jnp.integer)
        else a - jnp.floor(a / b) * b
    ),
    "atan2": jnp.arctan2,
    "max": jnp.maximum,
    "min": jnp.minimum,
    "and": jnp.bitwise_and,
    "or": jnp.bitwise_or,
    "xor": jnp.bitwise_xor,
    "shift-left": _shift_left,
    "shift-right": _shift_right,
    "eq": jnp.equal,
    "ne": jnp.not_equal,
    "lt": jnp.less,
    "le": jnp.less_equal,
    "gt": jnp.greater,
    "ge": jnp.greater_equal,
    "select": jnp.where,
    "bitcast": lambda x, dtype: x.view(LAX[dtype]),
    "stop-gradient": jax.lax.stop_gradient,
    "boundary": lambda x, key: x,
}


@reference("cast")
def _cast(x: Any, dtype: str) -> Any:
    """Floats to integers: towards 0, held to the range, NaN to 0."""
    wanted = LAX[dtype]
    if wanted.kind in "iu" and jnp.issubdtype(x.dtype, jnp.floating):
        info = np.iinfo(wanted)
        wide = jnp.nan_to_num(jnp.trunc(x.astype(jnp.float64)), nan=0.0)
        inside = jnp.clip(wide, float(info.min), float(info.max)).astype(wanted)
        low, high = wide <= float(info.min), wide >= float(info.max)
        return jnp.where(low, info.min, jnp.where(high, info.max, inside)).astype(wanted)
    return (x != 0) if wanted.kind == "b" else x.astype(wanted)


# ---- making --------------------------------------------------------------------------------
REFERENCES |= {
    "full": lambda shape, value, dtype, batch: jnp.full(shape, value, LAX[dtype]),
    "iota": lambda shape, axis, dtype, batch: jnp.moveaxis(
        jnp.broadcast_to(
            jnp.arange(shape[axis]), (*[n for i, n in enumerate(shape) if i != axis], shape[axis])
        ),
        -1,
        axis,
    ).astype(LAX[dtype]),
    "literal": lambda shape, dtype, values: jnp.array(values, LAX[dtype]).reshape(shape),
}

# ---- reductions ----------------------------------------------------------------------------
REFERENCES |= {
    "sum": lambda x, axes: jnp.sum(x, axes, dtype=x.dtype),
    "mean": lambda x, axes: jnp.mean(x, axes),
    "prod": lambda x, axes: jnp.prod(x, axes, dtype=x.dtype),
    "max-reduce": lambda x, axes: jnp.max(x, axes),
    "min-reduce": lambda x, axes: jnp.min(x, axes),
    "any": lambda x, axes: jnp.any(x, axes),
    "all": lambda x, axes: jnp.all(x, axes),
    "argmax": lambda x, axis: jnp.argmax(x, axis).astype(jnp.int32),
    "argmin": lambda x, axis: jnp.argmin(x, axis).astype(jnp.int32),
    "softmax": lambda x, axis: jax.nn.softmax(x, axis),
    "log-softmax": lambda x, axis: jax.nn.log_softmax(x, axis),
    "logsumexp": lambda x, axes: jsp.special.logsumexp(x, axes) if axes else x,
}


def _prefixes(combine: Callable[..., Any]) -> Callable[..., Any]:
    """Each element from all before it and itself, one slice at a time."""

    def running(x: Any, axis: int, reverse: bool) -> Any:
        x = jnp.moveaxis(x, axis, 0)
        x = x[::-1] if reverse else x
        parts = [combine(x[: i + 1], 0) for i in range(x.shape[0])]
        y = jnp.stack(parts).astype(x.dtype) if parts else x
        return jnp.moveaxis(y[::-1] if reverse else y, 0, axis)

    return running


REFERENCES |= {
    "cumsum": _prefixes(jnp.sum),
    "cumprod": _prefixes(jnp.prod),
    "cummax": _prefixes(jnp.max),
}


# ---- shapes --------------------------------------------------------------------------------
@reference("broadcast")
def _broadcast(x: Any, shape: tuple, dims: tuple) -> Any:
    thin = [1] * len(shape)
    for axis, dim in enumerate(dims):
        thin[dim] = x.shape[axis]
    return jnp.broadcast_to(x.reshape(thin), shape)


@reference("pad")
def _pad(x: Any, low: tuple, high: tuple, interior: tuple, value: Any) -> Any:
    """One axis after the other: spread, then put around or cut off."""
    for axis, (a, b, gap) in enumerate(zip(low, high, interior, strict=True)):
        n = x.shape[axis]
        x = jnp.moveaxis(x, axis, 0)
        wide = jnp.full((max(0, n + (n - 1) * gap), *x.shape[1:]), value, x.dtype)
        x = wide.at[:: gap + 1].set(x) if n else wide
        if a < 0:
            x = x[-a:]
        if b < 0:
            x = x[:b]
        edges = [(max(a, 0), max(b, 0))] + [(0, 0)] * (x.ndim - 1)
        x = jnp.moveaxis(jnp.pad(x, edges, constant_values=value), 0, axis)
    return x


REFERENCES |= {
    "reshape": lambda x, shape: jnp.reshape(x, shape),
    "transpose": lambda x, perm: jnp.transpose(x, perm),
    "concat": lambda *xs, axis: jnp.concatenate(xs, axis),
    "slice": lambda x, starts, limits, strides: x[
        tuple(slice(a, b, s) for a, b, s in zip(starts, limits, strides, strict=True))
    ],
    "reverse": lambda x, axes: jnp.flip(x, axes),
}


# ---- places --------------------------------------------------------------------------------
def _fill(x: Any) -> Any:
    if x.dtype == bool:
        return True
    return jnp.nan if jnp.issubdtype(x.dtype, jnp.floating) else np.iinfo(x.dtype).max


def _held(ids: Any, extent: int) -> Any:
    """Indices for mode="drop" or "fill": what is out of range stays so, from below as well."""
    return jnp.where(ids < 0, extent, ids)


@reference("take")
def _take(x: Any, ids: Any, axis: int) -> Any:
    return jnp.take(x, _held(ids, x.shape[axis]), axis, mode="fill", fill_value=_fill(x))


@reference("take-add")
def _take_add(x: Any, ids: Any, values: Any, axis: int) -> Any:
    index = (slice(None),) * axis + (_held(ids, x.shape[axis]),)
    return x.at[index].add(values, mode="drop")


def _grid(ids: Any, axis: int, extent: int) -> tuple:
    places = list(jnp.indices(ids.shape))
    places[axis] = _held(ids, extent)
    return tuple(places)


REFERENCES |= {
    "take-along": lambda x, ids, axis: x.at[_grid(ids, axis, x.shape[axis])].get(
        mode="fill", fill_value=_fill(x)
    ),
    "put-along-add": lambda x, ids, values, axis: x.at[_grid(ids, axis, x.shape[axis])].add(
        values, mode="drop"
    ),
}


def _vectors(x: Any, ids: Any) -> Any:
    """What ids name in x, which has one more axis of extent 1 in front: so there is always an
    index, also where ids name no axis."""
    named = [_held(ids[..., k], x.shape[k]) for k in range(ids.shape[-1])]
    return x[None].at[(jnp.zeros(ids.shape[:-1], jnp.int32), *named)]


REFERENCES |= {
    "gather": lambda x, ids: _vectors(x, ids).get(mode="fill", fill_value=_fill(x)),
    "scatter": lambda x, ids, values: _vectors(x, ids).set(values, mode="drop")[0],
    "scatter-add": lambda x, ids, values: _vectors(x, ids).add(values, mode="drop")[0],
    "dynamic-slice": lambda x, *starts, sizes: _block(x, starts, sizes),
    "dynamic-update-slice": lambda x, y, *starts: x.at[_range(x, starts, y.shape)].set(y),
}


def _range(x: Any, starts: tuple, sizes: tuple) -> Any:
    axes = [
        jnp.clip(start.astype(jnp.int64), 0, n - k) + jnp.arange(k)
        for start, n, k in zip(starts, x.shape, sizes, strict=True)
    ]
    return jnp.ix_(*axes)


def _block(x: Any, starts: tuple, sizes: tuple) -> Any:
    return x[_range(x, starts, sizes)]


# ---- order ---------------------------------------------------------------------------------
@reference("sort")
def _sort(x: Any, axis: int, descending: bool) -> Any:
    """Its place is how many come before it: those less, and the equal ones to its left."""
    x = jnp.moveaxis(x, axis, -1)
    a, b = x[..., :, None], x[..., None, :]
    nan_a, nan_b = a != a, b != b
    less = (b > a) if descending else (b < a)
    before = (less & ~nan_b) | (nan_a & ~nan_b)
    equal = (a == b) | (nan_a & nan_b)
    left = jnp.tril(jnp.ones((x.shape[-1],) * 2, bool), -1)
    place = jnp.sum(before | (equal & left), -1)
    order = jnp.argsort(place, -1)
    return (
        jnp.moveaxis(jnp.take_along_axis(x, order, -1), -1, axis),
        jnp.moveaxis(order, -1, axis).astype(jnp.int32),
    )


@reference("top-k")
def _top_k(x: Any, k: int) -> Any:
    a, b = x[..., :, None], x[..., None, :]
    nan_a, nan_b = a != a, b != b
    before = ((b > a) & ~nan_a) | (nan_b & ~nan_a)
    equal = (a == b) | (nan_a & nan_b)
    left = jnp.tril(jnp.ones((x.shape[-1],) * 2, bool), -1)
    order = jnp.argsort(jnp.sum(before | (equal & left), -1), -1)[..., :k]
    return jnp.take_along_axis(x, order, -1), order.astype(jnp.int32)


@reference("searchsorted")
def _searchsorted(edges: Any, x: Any, side: str) -> Any:
    if edges.ndim > 1:
        edges = edges[..., None, :]
    e, v = edges, x[..., None]
    nan_e, nan_v = e != e, v != v
    before = e < v if side == "left" else e <= v
    before = before | ((nan_v & ~nan_e) if side == "left" else nan_v)
    return jnp.sum(before, -1).astype(jnp.int32)


# ---- products ------------------------------------------------------------------------------
@reference("dot")
def _dot(
    a: Any, b: Any, a_contract: tuple, b_contract: tuple, a_batch: tuple, b_batch: tuple,
    accumulate: Any, mode: str,
) -> Any:  # fmt: skip
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    left, right = [next(letters) for _ in a.shape], [next(letters) for _ in b.shape]
    for i, j in zip(a_contract + a_batch, b_contract + b_batch, strict=True):
        right[j] = left[i]
    batch = [left[i] for i in a_batch]
    rows = [c for i, c in enumerate(left) if i not in a_contract + a_batch]
    columns = [c for j, c in enumerate(right) if j not in b_contract + b_batch]
    spec = f"{''.join(left)},{''.join(right)}->{''.join(batch + rows + columns)}"
    return jnp.einsum(spec, a, b, precision="highest").astype(a.dtype)


@reference("conv")
def _conv(
    x: Any, w: Any, strides: tuple, pads: tuple, dilation: tuple, groups: int, accumulate: Any,
    mode: str,
) -> Any:  # fmt: skip
    """The sum over the filter's positions of strided slices times its matrices."""
    size = w.shape[:-2]
    x = jnp.pad(x, [(0, 0), *pads, (0, 0)])
    out = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(x.shape[1:-1], size, strides, dilation, strict=True)
    ]
    inner, outer = w.shape[-2], w.shape[-1] // groups
    parts = []
    for group in range(groups):
        total = 0.0
        for position in itertools.product(*map(range, size)):
            cut = [
                slice(p * d, p * d + (n - 1) * s + 1, s)
                for p, d, n, s in zip(position, dilation, out, strides, strict=True)
            ]
            here = x[(slice(None), *cut, slice(group * inner, (group + 1) * inner))]
            total = total + here @ w[position][:, group * outer : (group + 1) * outer]
        parts.append(total)
    return jnp.concatenate(parts, -1)


@reference("conv-input-grad")
def _conv_input_grad(dy: Any, w: Any, input_shape: tuple, **how: Any) -> Any:
    _, back = jax.vjp(lambda x: _conv(x, w, **how), jnp.zeros(input_shape, dy.dtype))
    return back(dy)[0]


@reference("conv-weight-grad")
def _conv_weight_grad(x: Any, dy: Any, filter_shape: tuple, **how: Any) -> Any:
    _, back = jax.vjp(lambda w: _conv(x, w, **how), jnp.zeros(filter_shape, x.dtype))
    return back(dy)[0]


# ---- windows -------------------------------------------------------------------------------
def _windows(x: Any, size: tuple, strides: tuple, pads: tuple, value: float) -> Any:
    """[B, places…, C, positions]."""
    x = jnp.pad(x, [(0, 0), *pads, (0, 0)], constant_values=value)
    out = [(n - k) // s + 1 for n, k, s in zip(x.shape[1:-1], size, strides, strict=True)]
    met = []
    for position in itertools.product(*map(range, size)):
        cut = [
            slice(p, p + (n - 1) * s + 1, s) for p, n, s in zip(position, out, strides, strict=True)
        ]
        met.append(x[(slice(None), *cut, slice(None))])
    return jnp.stack(met, -1)


def _max_pool(x: Any, **how: Any) -> Any:
    return jnp.max(_windows(x, value=-jnp.inf, **how), -1)


def _avg_pool(x: Any, count_pads: bool, **how: Any) -> Any:
    total = jnp.sum(_windows(x, value=0.0, **how), -1)
    ones = jnp.ones(x.shape, x.dtype)
    count = jnp.sum(_windows(ones, value=1.0 if count_pads else 0.0, **how), -1)
    return total / count


def _max_pool_grad(x: Any, y: Any, dy: Any, **how: Any) -> Any:
    """dy shared among the elements of each window that equal y."""
    spread = lambda x: _windows(x, value=-jnp.inf, **how)  # noqa: E731
    met = spread(x) == y[..., None]
    share = dy / jnp.maximum(jnp.sum(met, -1), 1).astype(dy.dtype)
    _, back = jax.vjp(spread, jax.lax.stop_gradient(x))
    return back(jnp.where(met, share[..., None], 0))[0]


def _avg_pool_grad(dy: Any, input_shape: tuple, **how: Any) -> Any:
    _, back = jax.vjp(lambda x: _avg_pool(x, **how), jnp.zeros(input_shape, dy.dtype))
    return back(dy)[0]


REFERENCES |= {
    "max-pool": _max_pool,
    "avg-pool": _avg_pool,
    "max-pool-grad": _max_pool_grad,
    "avg-pool-grad": _avg_pool_grad,
}


# ---- matrices ------------------------------------------------------------------------------
def _t(x: Any) -> Any:
    return jnp.swapaxes(x, -1, -2)


def _signs(vectors: Any) -> Any:
    size = jnp.abs(vectors)
    big = size >= 0.99 * jnp.max(size, -2, keepdims=True)
    place = jnp.argmax(big, -2)[..., None, :]
    return jnp.where(jnp.take_along_axis(vectors, place, -2) < 0, -1.0, 1.0)


@reference("qr")
def _qr(a: Any) -> Any:
    """By Cholesky's factor of a^T a, whose diagonal is positive."""
    r = _t(jnp.linalg.cholesky(_t(a) @ a))
    return a @ jnp.linalg.inv(r), r


@reference("svd")
def _svd(a: Any) -> Any:
    u, s, vt = jnp.linalg.svd(a, full_matrices=False)
    signs = _signs(u)
    return u * signs, s, vt * _t(signs)


@reference("eigh")
def _eigh(a: Any) -> Any:
    w, v = jnp.linalg.eigh((a + _t(a)) / 2)
    return w, v * _signs(v)


REFERENCES |= {
    "cholesky": lambda a: jnp.linalg.cholesky((a + _t(a)) / 2),
    "solve": lambda a, b: jnp.linalg.inv(a) @ b,
    "det": jnp.linalg.det,
    "cofactors": lambda a: jnp.linalg.det(a)[..., None, None] * _t(jnp.linalg.inv(a)),
    "slogdet": lambda a: tuple(jnp.linalg.slogdet(a)),
}


@reference("triangular-solve")
def _triangular_solve(a: Any, b: Any, lower: bool, transpose: bool, unit: bool) -> Any:
    a = jnp.tril(a) if lower else jnp.triu(a)
    if unit:
        eye = jnp.eye(a.shape[-1], dtype=a.dtype)
        a = a * (1 - eye) + eye
    return jnp.linalg.inv(_t(a) if transpose else a) @ b
