"""Every rule of every op, from the registry: a new op needs no new test.

The NumPy rules are held against central differences (in f64), the lax rules against the NumPy
rules, the VJPs against both and against jax's own derivative of the lax rule.
"""

from __future__ import annotations

import itertools

import jax
import ml_dtypes
import numpy as np
import pytest
from op_driving import (
    agree,
    cotangents_for,
    draw,
    graph_of,
    in_dtype,
    named,
    run_lax,
    run_numpy,
    ulps_apart,
    vjp_graph,
)
from reference_programs import compiled

from sexpgpu.lowering.interp.evaluate import Plan, evaluate
from sexpgpu.lowering.interp.registry import RULES as NUMPY_RULES
from sexpgpu.lowering.xla.evaluate import evaluate as lower
from sexpgpu.lowering.xla.options import PLAIN
from sexpgpu.lowering.xla.registry import RULES as LAX_RULES
from sexpgpu.ops import OPS, NoGrad, OfBody, OpDef, new_builder
from sexpgpu.passes.autodiff import BODY_RULES, gradients

ALL = [pytest.param(op, id=op.name) for op in OPS.values()]
DIFFERENTIABLE = [
    pytest.param(op, id=op.name)
    for op in OPS.values()
    if not isinstance(op.vjp, NoGrad) and any(sample.grad for sample in op.samples)
]


# ---- completeness --------------------------------------------------------------------------
@pytest.mark.parametrize("op", ALL)
def test_op_has_every_facet(op: OpDef) -> None:
    assert op.name in NUMPY_RULES, f"{op.name} has no NumPy rule"
    assert op.name in LAX_RULES, f"{op.name} has no lax rule"
    assert op.samples, f"{op.name} has no samples"
    assert op.rejects or not op.attrs, f"{op.name} has no rejects"
    assert op.doc.endswith("."), f"{op.name}: the doc is not a sentence"
    if isinstance(op.vjp, OfBody):
        assert op.name in BODY_RULES, f"{op.name} has no derivative"
    else:
        assert callable(op.vjp) or op.vjp.reason


def test_no_rule_without_an_op() -> None:
    assert set(NUMPY_RULES) == set(OPS)
    assert set(LAX_RULES) == set(OPS)


# ---- lax against NumPy ---------------------------------------------------------------------
@pytest.mark.parametrize("op", ALL)
def test_lax_agrees_with_numpy(op: OpDef) -> None:
    """Also checks that both give the inferred shape and dtype: the evaluators refuse others."""
    samples = list(op.samples)
    widest = max(
        samples, key=lambda s: max((t.size for t in s.types if t.dtype == "f32"), default=0)
    )
    samples += [v for d in ("f64", "bf16", "f16") if (v := in_dtype(op, widest, d)) is not None]
    inputs = [draw(sample) for sample in samples]
    graphs = [graph_of(op, sample) for sample in samples]
    wanted = [run_numpy(graph, named(xs)) for graph, xs in zip(graphs, inputs, strict=True)]
    for tuned in (True, False) if LAX_RULES[op.name].by_device else (True,):
        chosen = [
            i
            for i, sample in enumerate(samples)
            # XLA:CPU itself may have no 16-bit product
            if tuned or not any(t.dtype in ("bf16", "f16") for t in sample.types)
        ]
        results = run_lax([graphs[i] for i in chosen], [named(inputs[i]) for i in chosen], tuned)
        for i, result in zip(chosen, results, strict=True):
            for name, want in wanted[i].items():
                try:
                    agree(op, result[name], np.asarray(want), inputs[i])
                except AssertionError as error:
                    error.add_note(f"sample {samples[i].types} {samples[i].attrs} tuned={tuned}")
                    raise


# ---- derivatives ---------------------------------------------------------------------------
@pytest.mark.parametrize("op", DIFFERENTIABLE)
def test_vjp_against_central_differences(op: OpDef) -> None:
    for sample in op.samples:
        if not sample.grad:
            continue
        wide = in_dtype(op, sample, "f64")
        if wide is None:
            continue
        xs = draw(wide)
        cotangents = cotangents_for(op, wide)
        graph, grads = vjp_graph(op, wide)
        got = run_numpy(graph, {**named(xs), **cotangents})
        plan = Plan(graph_of(op, wide))

        def objective(points: list[np.ndarray], plan=plan, cotangents=cotangents) -> float:
            results = evaluate(plan, named(points))
            return sum(float(np.sum(ct * results[k[2:]])) for k, ct in cotangents.items())

        for k, x in enumerate(xs):
            if x.dtype != np.float64:
                assert grads[k] is None
                continue
            want = np.zeros_like(x)
            for place in itertools.product(*map(range, x.shape)):
                step = 1e-6 * max(1.0, abs(float(x[place])))
                sides = []
                for sign in (1, -1):
                    moved = [y.copy() for y in xs]
                    moved[k][place] += sign * step
                    sides.append(objective(moved))
                want[place] = (sides[0] - sides[1]) / (2 * step)
            gradient = got.get(f"d{k}", np.zeros_like(x))
            np.testing.assert_allclose(
                gradient, want, rtol=2e-6, atol=2e-7, err_msg=f"{wide.types} {wide.attrs} d{k}"
            )


@pytest.mark.parametrize("op", DIFFERENTIABLE)
def test_vjp_against_jax(op: OpDef) -> None:
    """In f32, with every node of the VJP lowered."""
    samples = [s for s in op.samples if s.grad and any(t.dtype == "f32" for t in s.types)]
    inputs = [draw(sample, seed=2) for sample in samples]
    cotangents = [cotangents_for(op, sample) for sample in samples]
    graphs = [vjp_graph(op, sample)[0] for sample in samples]
    given = [{**named(xs), **cts} for xs, cts in zip(inputs, cotangents, strict=True)]

    def derivative(graph, xs, cts):
        floats = [i for i, x in enumerate(xs) if x.dtype == np.float32]

        def function(*active):
            full = list(xs)
            for i, x in zip(floats, active, strict=True):
                full[i] = x
            values = lower(graph, {str(i): x for i, x in enumerate(full)}, PLAIN)
            return {f"ct{k}": v for k, v in values.items() if f"ct{k}" in cts}

        _, back = jax.vjp(function, *[xs[i] for i in floats])
        return dict(zip([f"d{i}" for i in floats], back(cts), strict=True))

    forward = [graph_of(op, sample) for sample in samples]

    def both(given, inputs, cotangents):
        ours = [lower(g, x, PLAIN) for g, x in zip(graphs, given, strict=True)]
        theirs = map(derivative, forward, inputs, cotangents)
        return ours, list(theirs)

    with jax.enable_x64(True):
        results, wanted = compiled(both)(given, inputs, cotangents)
    for sample, got, want in zip(samples, results, wanted, strict=True):
        for name, value in want.items():
            value = np.asarray(value)
            scale = max(1.0, float(np.abs(value).max(initial=0)))
            gradient = got.get(name, np.zeros_like(value))
            np.testing.assert_allclose(
                gradient, value, rtol=2e-5, atol=2e-6 * scale, err_msg=f"{sample.types} {name}"
            )


@pytest.mark.parametrize("op", DIFFERENTIABLE)
def test_one_value_as_several_operands(op: OpDef) -> None:
    """Its cotangent is the sum of what the operands would get apart."""
    for sample in op.samples:
        wide = in_dtype(op, sample, "f64") if sample.grad else None
        if wide is None or len(set(wide.types)) == len(wide.types):
            continue
        first = {t: i for i, t in reversed([*enumerate(wide.types)])}
        xs = draw(wide)
        xs = [xs[first[t]] for t in wide.types]
        cotangents = cotangents_for(op, wide)
        apart, _ = vjp_graph(op, wide)
        wanted = run_numpy(apart, {**named(xs), **cotangents})
        b = new_builder()
        inputs = {i: b.input(str(i), wide.types[i]) for i in first.values()}
        operands = tuple([inputs[first[t]] for t in wide.types])
        results = b.node(op.name, operands, wide.attrs).results
        seeds = [(results[int(k[2:])], b.input(k, results[int(k[2:])].type)) for k in cotangents]
        floats = [i for i, value in inputs.items() if value.dtype == "f64"]
        found = gradients(b, seeds, [inputs[i] for i in floats])
        outputs = {f"d{i}": g for i, g in zip(floats, found, strict=True) if g is not None}
        got = run_numpy(b.finish("g", outputs), {**named(xs), **cotangents})
        for i in floats:
            parts = [
                wanted[f"d{k}"]
                for k, t in enumerate(wide.types)
                if first[t] == i and f"d{k}" in wanted
            ]
            total = got.get(f"d{i}", np.zeros(wide.types[i].shape))
            np.testing.assert_allclose(total, sum(parts), rtol=1e-9, atol=1e-12)


def test_the_measure_of_ulps_counts() -> None:
    one = np.array([1.0, -0.0, 2.0], np.float32)
    next_up = np.nextafter(one, np.float32(4))
    assert ulps_apart(one, next_up) == 1
    assert ulps_apart(np.array([0.0], np.float32), np.array([-0.0], np.float32)) == 0
    assert ulps_apart(one.astype(ml_dtypes.bfloat16), one.astype(ml_dtypes.bfloat16)) == 0
