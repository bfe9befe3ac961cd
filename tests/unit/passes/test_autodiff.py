"""Reverse mode: accumulation, paths, refusals, and second derivatives of every op by central
differences of its first along random directions (first derivatives: tests/ops/test_rules.py)."""

from __future__ import annotations

import numpy as np
import pytest

from sexpgpu.diagnostics.model import SxError
from sexpgpu.ir.graph import Builder, Graph, Value
from sexpgpu.ir.types import FLOATS, TensorType
from sexpgpu.ir.verify import verify
from sexpgpu.lowering.interp.evaluate import Plan, evaluate
from sexpgpu.ops import OPS, NoGrad, OpDef, OpError, Sample, infer, new_builder
from sexpgpu.ops.building import full_like
from sexpgpu.passes import cse, dce, fold
from sexpgpu.passes.autodiff import differentiate, gradients
from sexpgpu.source import Origin, Source, Span

VECTOR = TensorType((3,), "f64")
DIFFERENTIABLE = [
    pytest.param(op, id=op.name)
    for op in OPS.values()
    if not isinstance(op.vjp, NoGrad) and any(sample.grad for sample in op.samples)
]


def run(graph: Graph, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    verify(graph, infer)
    return evaluate(Plan(graph), inputs)


def total(b: Builder, value: Value) -> Value:
    return b.emit("sum", value, axes=tuple(range(len(value.shape))))


# -- composition --------------------------------------------------------------------------------


def test_uses_add_up() -> None:
    b = new_builder()
    x = b.input("x", VECTOR)
    y = b.emit("mul", x, b.emit("mul", x, x))
    graph = b.finish("g", {"loss": total(b, b.emit("add", y, x))})
    made = differentiate(graph, "loss", {"grad/x": "x"})
    at = np.array([1.0, -2.0, 3.0])
    np.testing.assert_allclose(run(made, x=at)["grad/x"], 3 * at**2 + 1)
    assert made.nodes[: len(graph.nodes)] == graph.nodes
    assert made.inputs == graph.inputs


def test_it_applies_to_its_own_output() -> None:
    """x^4: derivatives up to the fourth."""
    b = new_builder()
    x = b.input("x", TensorType((), "f64"))
    square = b.emit("mul", x, x)
    value = b.emit("mul", square, square)
    for want in (4 * 1.5**3, 12 * 1.5**2, 24 * 1.5, 24.0):
        (value,) = gradients(b, [(value, full_like(b, 1.0, value))], [x])
        assert value is not None
        got = run(b.finish("g", {"y": value}), x=np.array(1.5))["y"]
        np.testing.assert_allclose(got, want)


def test_inner_values_may_be_asked_for() -> None:
    b = new_builder()
    x = b.input("x", VECTOR)
    y = b.emit("exp", x)
    loss = total(b, b.emit("mul", y, y))
    seed = full_like(b, 1.0, loss)
    dy, dx, none = gradients(b, [(loss, seed)], [y, x, b.input("z", VECTOR)])
    assert none is None
    assert dy is not None
    assert dx is not None
    at = np.array([0.5, 1.0, -1.0])
    got = run(b.finish("g", {"dy": dy, "dx": dx}), x=at, z=at)
    np.testing.assert_allclose(got["dy"], 2 * np.exp(at))
    np.testing.assert_allclose(got["dx"], 2 * np.exp(2 * at))


def test_several_outputs_with_cotangents() -> None:
    b = new_builder()
    x = b.input("x", VECTOR)
    pairs = [(b.emit("neg", x), b.input("c", VECTOR)), (x, b.input("d", VECTOR))]
    (dx,) = gradients(b, pairs, [x])
    assert dx is not None
    c, d = np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 30.0])
    got = run(b.finish("g", {"dx": dx}), x=c, c=c, d=d)["dx"]
    np.testing.assert_array_equal(got, d - c)


def test_only_paths_from_the_wanted_are_walked() -> None:
    b = new_builder()
    x, w = b.input("x", VECTOR), b.input("w", VECTOR)
    side = b.emit("exp", b.emit("sin", x))
    loss = total(b, b.emit("mul", side, w))
    before = len(b.nodes)
    seed = full_like(b, 1.0, loss)
    gradients(b, [(loss, seed)], [w])
    assert not {"cos", "exp"} & {node.op for node in b.nodes[before:]}


def test_stopped_discrete_and_integer_values_carry_none() -> None:
    b = new_builder()
    x = b.input("x", VECTOR)
    ids = b.emit("cast", x, dtype="i32")
    back = b.emit("cast", ids, dtype="f64")
    loss = total(
        b, b.emit("add", b.emit("add", back, b.emit("floor", x)), b.emit("stop-gradient", x))
    )
    assert gradients(b, [(loss, full_like(b, 1.0, loss))], [x]) == [None]
    made = differentiate(b.finish("g", {"loss": loss}), "loss", {"grad/x": "x"})
    got = run(made, x=np.array([1.0, 2.0, 3.0]))["grad/x"]
    np.testing.assert_array_equal(got, np.zeros(3))


def test_no_nan_comes_through_the_branch_not_taken() -> None:
    """Not even where its derivative is infinite, which 0 * inf would make a NaN of."""
    b = new_builder()
    x = b.input("x", VECTOR)
    zero = full_like(b, 0.0, x)
    root = b.emit("mul", b.emit("sqrt", x), b.emit("log", x))
    chosen = b.emit("select", b.emit("gt", x, zero), root, zero)
    made = differentiate(b.finish("g", {"loss": total(b, chosen)}), "loss", {"d": "x"})
    got = run(made, x=np.array([4.0, 0.0, -1.0]))["d"]
    np.testing.assert_allclose(got, [np.log(4) / 4 + 0.5, 0, 0])


def test_no_nan_comes_through_a_reduction_not_taken() -> None:
    b = new_builder()
    x = b.input("x", VECTOR)
    far = b.emit("sum", b.emit("exp", b.emit("mul", x, x)), axes=(0,))
    test = b.emit("is-finite", far)
    chosen = b.emit("select", test, far, b.emit("sum", x, axes=(0,)))
    made = differentiate(b.finish("g", {"loss": chosen}), "loss", {"d": "x"})
    np.testing.assert_array_equal(run(made, x=np.array([1.0, 2.0, 1e200]))["d"], np.ones(3))


CONVENTIONS = [
    ("abs", [0.0], [0.0]),
    ("relu", [0.0], [0.0]),
    ("sqrt", [0.0], [np.inf]),
]


@pytest.mark.parametrize("name, at, want", CONVENTIONS, ids=[c[0] for c in CONVENTIONS])
def test_conventions_at_zero(name: str, at: list[float], want: list[float]) -> None:
    b = new_builder()
    x = b.input("x", TensorType((1,), "f64"))
    made = differentiate(b.finish("g", {"loss": total(b, b.emit(name, x))}), "loss", {"d": "x"})
    np.testing.assert_array_equal(run(made, x=np.array(at))["d"], want)


def test_ties_share_equally() -> None:
    b = new_builder()
    x, y = b.input("x", VECTOR), b.input("y", VECTOR)
    loss = total(b, b.emit("max", x, y))
    made = differentiate(b.finish("g", {"loss": loss}), "loss", {"dx": "x", "dy": "y"})
    got = run(made, x=np.array([1.0, 2.0, 3.0]), y=np.array([1.0, 3.0, 2.0]))
    np.testing.assert_array_equal(got["dx"], [0.5, 0, 1])
    np.testing.assert_array_equal(got["dy"], [0.5, 1, 0])
    b = new_builder()
    x = b.input("x", TensorType((4,), "f64"))
    made = differentiate(b.finish("g", {"m": b.emit("max-reduce", x, axes=(0,))}), "m", {"d": "x"})
    got = run(made, x=np.array([3.0, 1.0, 3.0, 3.0]))["d"]
    np.testing.assert_allclose(got, [1 / 3, 0, 1 / 3, 1 / 3])


def test_origins_and_numerics_follow_the_node() -> None:
    source = Source("a.sx", "(exp x)")
    b = new_builder(Origin(Span(source, 0, 7), path="body"))
    x = b.input("x", VECTOR)
    b.numerics = "compute=f32"
    y = total(b, b.emit("tanh", x))
    b.numerics = None
    before = len(b.nodes)
    seed = full_like(b, 1.0, y)
    gradients(b, [(y, seed)], [x])
    made = b.nodes[before + 1 :]
    assert made
    assert {node.numerics for node in made} == {"compute=f32"}
    assert {(str(n.origin.span), n.origin.path, n.origin.note) for n in made} == {
        ("a.sx:1:1", "body", "gradient")
    }
    assert b.numerics is None
    assert b.origin.note == ""


# -- refusals -----------------------------------------------------------------------------------


def code_of(build) -> str:
    with pytest.raises(SxError, match=r".") as caught:
        build()
    return caught.value.diagnostics[0].code.id


def test_what_has_no_derivative_is_refused() -> None:
    b = new_builder()
    x = b.input("x", VECTOR)
    loss = total(b, b.emit("digamma", x))
    graph = b.finish("g", {"loss": loss, "vector": b.emit("neg", x)})
    assert code_of(lambda: differentiate(graph, "loss", {"d": "x"})) == "E-GRAD-001"
    assert code_of(lambda: differentiate(graph, "vector", {"d": "x"})) == "E-GRAD-002"
    ids = b.input("ids", TensorType((3,), "i32"))
    assert code_of(lambda: gradients(b, [(loss, loss)], [ids])) == "E-GRAD-003"


# -- second derivatives -------------------------------------------------------------------------


def in_f64(op: OpDef, sample: Sample) -> tuple[TensorType, ...] | None:
    types = tuple(t._replace(dtype="f64") if t.dtype == "f32" else t for t in sample.types)
    attrs = {k: v for k, v in sample.attrs.items() if op.attrs[k].startswith("dtype")}
    if "f32" in attrs.values() or "bf16" in attrs.values():
        return None
    try:
        infer(op.name, types, sample.attrs)
    except OpError:
        return None
    return types


def drawn(sample: Sample, types: tuple[TensorType, ...], seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    made: dict[str, np.ndarray] = {}
    for i, type in enumerate(types):
        if type.dtype == "bool":
            x = rng.integers(0, 2, type.shape).astype(bool)
        elif type.dtype == "i32":
            low, high = int(np.ceil(sample.low)), int(np.ceil(sample.high))
            x = rng.integers(low, high, type.shape).astype(np.int32)
        elif sample.values == "distinct":
            x = rng.permutation(np.linspace(sample.low, sample.high, type.size)).reshape(type.shape)
        else:
            x = rng.uniform(sample.low, sample.high, type.shape)
        made[str(i)] = np.asarray(x)
    return made


@pytest.mark.parametrize("op", DIFFERENTIABLE)
def test_second_derivatives(op: OpDef) -> None:
    """The gradient of <u, gradient of <c, op(x)>> against central differences of the latter."""
    for number, sample in enumerate(op.samples):
        types = in_f64(op, sample) if sample.grad else None
        if types is None or number > 8:
            continue
        b = new_builder()
        xs = [b.input(str(i), type) for i, type in enumerate(types)]
        floats = [i for i, x in enumerate(xs) if x.dtype in FLOATS]
        y = b.node(op.name, tuple(xs), sample.attrs).results[0]
        c = b.input("c", y.type)
        first = gradients(b, [(y, c)], [xs[i] for i in floats])
        if all(grad is None for grad in first):
            continue
        parts = [
            total(b, b.emit("mul", grad, b.input(f"u{i}", grad.type)))
            for i, grad in zip(floats, first, strict=True)
            if grad is not None
        ]
        value = parts[0]
        for part in parts[1:]:
            value = b.emit("add", value, part)
        if op.name == "lgamma":
            continue  # its second derivative is polygamma, which is refused
        seed = full_like(b, 1.0, value)
        second = gradients(b, [(value, seed)], [*[xs[i] for i in floats], c])
        outputs = {f"d{i}": grad for i, grad in enumerate(second) if grad is not None}
        graph = cse.run(fold.run(dce.run(b.finish("g", {**outputs, "value": value}))))
        verify(graph, infer)
        plan = Plan(graph)
        inputs = drawn(sample, types, number)
        rng = np.random.default_rng(1)
        for name, input in graph.inputs.items():
            inputs.setdefault(name, rng.normal(size=input.shape))
        for name, input in b.inputs.items():
            inputs.setdefault(name, rng.normal(size=input.shape))
        got = evaluate(plan, inputs)
        for k, name in enumerate([*[str(i) for i in floats], "c"]):
            for direction in rng.normal(size=(3, *inputs[name].shape)):
                step = 1e-5
                high = evaluate(plan, {**inputs, name: inputs[name] + step * direction})
                low = evaluate(plan, {**inputs, name: inputs[name] - step * direction})
                want = (float(high["value"]) - float(low["value"])) / (2 * step)
                grad = got.get(f"d{k}", np.zeros_like(direction))
                scale = float(np.abs(grad * direction).sum())
                np.testing.assert_allclose(
                    float((grad * direction).sum()), want, rtol=1e-5, atol=1e-6 * max(1.0, scale),
                    err_msg=f"{types} {sample.attrs} by {name}",
                )  # fmt: skip
