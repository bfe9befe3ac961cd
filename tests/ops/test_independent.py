"""Every op against a third expression in jax.numpy (references.py): values and derivatives in f64,
by the NumPy rules."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from op_driving import cotangents_for, draw, graph_of, in_dtype, named, run_numpy, vjp_graph
from references import REFERENCES, UNREFERENCED

from sexpgpu.lowering.interp.dtypes import HALVES, NUMPY
from sexpgpu.ops import OPS, NoGrad, OpDef, Sample, infer

REFERENCED = [pytest.param(op, id=op.name) for op in OPS.values() if op.name in REFERENCES]
# iterations or series of their own, short of f64's last digits
LOOSE = {"digamma": 1e-11, "lgamma": 1e-11, "erf-inv": 1e-9}


def test_every_op_has_a_reference() -> None:
    assert set(REFERENCES) | set(UNREFERENCED) == set(OPS)


def widest(op: OpDef) -> list[Sample]:
    """The samples, in f64 where they are of floats."""
    return [in_dtype(op, sample, "f64") or sample for sample in op.samples]


def close(op: OpDef, got: np.ndarray, want: np.ndarray, message: str) -> None:
    assert got.shape == want.shape, message
    if want.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want, err_msg=message)
        return
    bound = LOOSE.get(op.name, 1e-12)
    if want.dtype != np.float64:
        bound = 1e-2 if want.dtype.itemsize == 2 else 1e-5
    scale = max(1.0, float(np.nanmax(np.abs(want.astype(np.float64)), initial=0.0)))
    np.testing.assert_allclose(
        got.astype(np.float64), want.astype(np.float64), rtol=bound, atol=bound * scale,
        err_msg=message,
    )  # fmt: skip


# compiled once for each op, as fast as may be: what is computed is tiny
QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def referred(op: OpDef, sample: Sample, xs: list) -> tuple:
    """The reference's results; of 16-bit floats what it gives in f32, rounded once."""
    if op.name not in ("cast", "bitcast"):
        xs = [x.astype(np.float32) if x.dtype in HALVES else x for x in xs]
    found = REFERENCES[op.name](*xs, **sample.attrs)
    types = infer(op.name, sample.types, sample.attrs)
    results = found if isinstance(found, tuple) else (found,)
    return tuple(x.astype(NUMPY[t.dtype]) for x, t in zip(results, types, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("op", REFERENCED)
def test_values(op: OpDef) -> None:
    samples = widest(op)
    inputs = [draw(sample, seed=4) for sample in samples]

    def every(inputs: list) -> list:
        return [referred(op, sample, xs) for sample, xs in zip(samples, inputs, strict=True)]

    with jax.enable_x64(True):
        wanted = jax.jit(every, compiler_options=QUICKLY)(inputs)
    for sample, xs, want in zip(samples, inputs, wanted, strict=True):
        got = run_numpy(graph_of(op, sample), named(xs))
        assert len(want) == len(got)
        for i, value in enumerate(want):
            close(op, got[str(i)], np.asarray(value), f"{sample.types} {sample.attrs} {i}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "op",
    [
        pytest.param(op, id=op.name)
        for op in OPS.values()
        if not isinstance(op.vjp, NoGrad) and op.name in REFERENCES
    ],
)
def test_derivatives(op: OpDef) -> None:
    samples = [s for s in widest(op) if s.grad and any(t.dtype == "f64" for t in s.types)]
    inputs = [draw(sample, seed=5) for sample in samples]
    cotangents = [cotangents_for(op, sample) for sample in samples]

    def derivatives(sample: Sample, xs: list, cts: dict) -> dict:
        floats = [i for i, x in enumerate(xs) if x.dtype == np.float64]

        def function(*active):
            full = list(xs)
            for i, x in zip(floats, active, strict=True):
                full[i] = x
            results = referred(op, sample, full)
            return {f"ct{k}": v for k, v in enumerate(results) if f"ct{k}" in cts}

        _, back = jax.vjp(function, *[xs[i] for i in floats])
        return dict(zip([f"d{i}" for i in floats], back(cts), strict=True))

    def every(inputs: list, cotangents: list) -> list:
        return list(map(derivatives, samples, inputs, cotangents))

    with jax.enable_x64(True):
        wanted = jax.jit(every, compiler_options=QUICKLY)(inputs, cotangents)
    for sample, xs, cts, want in zip(samples, inputs, cotangents, wanted, strict=True):
        got = run_numpy(vjp_graph(op, sample)[0], {**named(xs), **cts})
        for name, value in want.items():
            value = np.asarray(value)
            gradient = got.get(name, np.zeros_like(value))
            scale = max(1.0, float(np.abs(value).max(initial=0)))
            np.testing.assert_allclose(
                gradient, value, rtol=1e-9, atol=1e-10 * scale,
                err_msg=f"{sample.types} {sample.attrs} {name}",
            )  # fmt: skip
