"""Running one op from its record: drawn operands, both lowerings, its derivative, and the measure
of what counts as the same. Shared by the tests of this folder."""

from __future__ import annotations

import math

import jax
import ml_dtypes
import numpy as np

from sexpgpu import ops
from sexpgpu.ir.graph import Graph, Value
from sexpgpu.ir.types import TensorType
from sexpgpu.lowering.interp.dtypes import NUMPY
from sexpgpu.lowering.interp.evaluate import Plan, evaluate
from sexpgpu.lowering.xla.evaluate import evaluate as lower
from sexpgpu.lowering.xla.options import PLAIN, CpuTuning, Lowering
from sexpgpu.ops import OpDef, Sample
from sexpgpu.passes.autodiff import vjp

# Largest error of XLA:CPU against NumPy in units of the last place, over the whole range of the
# dtype (test_whole_range.py). Ops that are not here agree to the bit. A dict gives f64 its own.
ULPS: dict[str, int | dict[str, int]] = {
    "exp": 3, "expm1": 5, "log": 3, "log1p": 3, "rsqrt": 3, "cbrt": 3,
    "sin": 2, "cos": 2, "tan": 4, "asin": 4, "acos": 4, "atan": 4, "atan2": 4,
    "sinh": 6, "cosh": 6, "tanh": {"f32": 5, "f64": 8}, "asinh": 5, "acosh": 5, "atanh": 5,
    "sigmoid": 5, "erf": 5, "erfc": {"f32": 80, "f64": 600}, "erf-inv": {"f32": 3, "f64": 400},
    "softplus": 5, "pow": 4, "mean": 1,
}  # fmt: skip
WIDE = (
    "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "cbrt", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sigmoid", "erf", "erfc", "erf-inv",
    "softplus",
)  # fmt: skip
"""Functions of one number that are tried over the whole range."""
# Sums (in another order) and functions with roots: the error is measured against the magnitude of
# the terms, not of what is left of them.
ACCUMULATING = {
    "lgamma", "digamma",
    "sum", "mean", "prod", "cumsum", "cumprod", "softmax", "log-softmax", "logsumexp", "dot",
    "conv", "conv-input-grad", "conv-weight-grad", "avg-pool", "avg-pool-grad", "max-pool-grad",
    "take-add", "put-along-add", "scatter-add", "scan",
    "attention", "attention-grad", "attention-bias-grad",
    "cholesky", "triangular-solve", "solve", "qr", "svd", "eigh", "det", "cofactors", "slogdet",
}  # fmt: skip


def in_dtype(op: OpDef, sample: Sample, dtype: str) -> Sample | None:
    """The sample with its f32 operands in another float dtype, where the op takes that."""
    if not any(t.dtype == "f32" for t in sample.types):
        return None
    types = [TensorType(t.shape, dtype, t.batch) if t.dtype == "f32" else t for t in sample.types]
    last = len(op.operands) - 1
    if any(t.dtype not in op.operands[min(i, last)] for i, t in enumerate(types)):
        return None
    made = Sample(*types, low=sample.low, high=sample.high, values=sample.values, grad=sample.grad)
    # a result in f32 would round what the operands' dtype resolves
    made.attrs = {
        name: dtype if op.attrs[name].startswith("dtype") and value == "f32" else value
        for name, value in sample.attrs.items()
    }
    try:
        ops.infer(op.name, made.types, made.attrs)
    except ops.OpError:
        return None
    return made


def draw(sample: Sample, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    arrays: list[np.ndarray] = []
    for i, type in enumerate(sample.types):
        word = sample.values if isinstance(sample.values, str) else sample.values[i]
        low, high = sample.low, sample.high
        if type.dtype == "bool":
            x = rng.integers(0, 2, type.shape)
        elif type.dtype[0] in "iu":
            x = rng.integers(math.ceil(low), max(math.ceil(high), math.ceil(low) + 1), type.shape)
        elif word == "integers":
            x = rng.integers(math.ceil(low), math.ceil(high), type.shape)
        elif word == "distinct":
            x = rng.permutation(np.linspace(low, high, type.size)).reshape(type.shape)
        else:
            x = rng.uniform(low, high, type.shape)
        if word == "sorted":
            x = np.trunc(x)
        elif word == "definite":
            x = x @ np.swapaxes(x, -1, -2) + np.eye(x.shape[-1])
        elif word == "regular":
            x = x + 4.0 * np.eye(*x.shape[-2:])
        elif word == "spread":
            rows, columns = x.shape[-2:]
            x = 0.4 * x + 3.0 * (1 + np.arange(rows))[:, None] * np.eye(rows, columns)
        made = np.asarray(x).astype(NUMPY[type.dtype])
        arrays.append(np.sort(made, -1) if word == "sorted" else made)
    return arrays


def whole_range(dtype: str, count: int, seed: int = 0) -> np.ndarray:
    """Numbers of all magnitudes and both signs, more of them between 1e-6 and 100."""
    rng = np.random.default_rng(seed)
    most = {"f64": 300, "f16": 4}.get(dtype, 37)
    sizes = [10.0 ** rng.uniform(-most, most, count // 4), 10.0 ** rng.uniform(-6, 2, count // 4)]
    found = np.concatenate(sizes).astype(NUMPY[dtype])
    return np.concatenate([found, -found])


def graph_of(op: OpDef, sample: Sample) -> Graph:
    b = ops.new_builder()
    operands = [b.input(str(i), type) for i, type in enumerate(sample.types)]
    results = b.node(op.name, tuple(operands), sample.attrs).results
    return b.finish(op.name, {str(i): value for i, value in enumerate(results)})


def vjp_graph(op: OpDef, sample: Sample) -> tuple[Graph, list[Value | None]]:
    """Inputs 0…, ct0…; outputs d0… for the operands that have a cotangent."""
    b = ops.new_builder()
    operands = [b.input(str(i), type) for i, type in enumerate(sample.types)]
    node = b.node(op.name, tuple(operands), sample.attrs)
    cotangents = tuple(
        b.input(f"ct{i}", value.type) if value.dtype[0] in "fb" and value.dtype != "bool" else None
        for i, value in enumerate(node.results)
    )
    grads = vjp(b, node, cotangents)
    outputs = {f"d{i}": value for i, value in enumerate(grads) if value is not None}
    return b.finish(f"vjp of {op.name}", outputs), list(grads)


def named(arrays: list[np.ndarray]) -> dict[str, np.ndarray]:
    return {str(i): x for i, x in enumerate(arrays)}


def run_numpy(graph: Graph, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return evaluate(Plan(graph), inputs)


def run_lax(graphs: list[Graph], inputs: list[dict[str, np.ndarray]], tuned: bool) -> list[dict]:
    """All graphs in one jit: a compilation costs more than these graphs do."""

    def step(zero, inputs):
        lowering = Lowering(CpuTuning(), zero >= np.int32(0)) if tuned else PLAIN
        return [lower(graph, given, lowering) for graph, given in zip(graphs, inputs, strict=True)]

    with jax.enable_x64(True):
        results = jax.jit(step)(np.int32(0), inputs)
        return jax.tree.map(np.asarray, results)


def ordered(x: np.ndarray) -> np.ndarray:
    """Floats as integers that count units in the last place, through zero."""
    bits = x.view({2: np.int16, 4: np.int32, 8: np.int64}[x.dtype.itemsize]).astype(object)
    least = -(1 << (8 * x.dtype.itemsize - 1))
    return np.where(bits < 0, least - bits, bits)


def normal(got: np.ndarray, want: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both without what is subnormal or nearly: XLA:CPU makes that 0."""
    if want.dtype.kind in "iub":
        return got, want
    least = 4 * float(ml_dtypes.finfo(want.dtype).tiny)
    there = ~(np.abs(want.astype(np.float64)) < least) | (want == 0)
    return got[there], want[there]


def ulps_apart(a: np.ndarray, b: np.ndarray) -> int:
    assert np.array_equal(np.isnan(a), np.isnan(b))
    known = ~np.isnan(a)
    return int(np.abs(ordered(a[known]) - ordered(b[known])).max(initial=0))


def greatest(x: np.ndarray) -> float:
    """The largest magnitude that is finite."""
    return float(np.abs(x[np.isfinite(x)]).max(initial=0))


def agree(op: OpDef, got: np.ndarray, want: np.ndarray, inputs: list[np.ndarray]) -> None:
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    if want.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want)
        return
    half = want.dtype in (NUMPY["bf16"], NUMPY["f16"])
    if op.name in ACCUMULATING and not half:
        scale = max(1.0, greatest(want))
        for x in inputs:
            if x.dtype.kind == "f":
                scale *= max(1.0, greatest(x))
        bound = min(32 * float(np.finfo(want.dtype).eps) * scale, float(np.finfo(want.dtype).max))
        np.testing.assert_allclose(got, want, rtol=0, atol=bound)
        return
    allowed = ULPS.get(op.name, 0)
    if isinstance(allowed, dict):
        allowed = allowed["f64" if want.dtype == np.float64 else "f32"]
    if half:
        allowed = min(allowed, 1) if op.name not in ACCUMULATING else 1
    assert ulps_apart(got, want) <= allowed


def cotangents_for(op: OpDef, sample: Sample, seed: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    types = ops.infer(op.name, sample.types, sample.attrs)
    return {
        f"ct{i}": np.asarray(rng.normal(size=t.shape)).astype(NUMPY[t.dtype])
        for i, t in enumerate(types)
        if t.dtype in ("f32", "f64")
    }
