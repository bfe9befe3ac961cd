"""Passes in the bodies of ops: what is dead goes, what is equal is one, what is saved is needed."""

from __future__ import annotations

from typing import Any

import numpy as np

from sexpgpu.explain.costs import cost_by_path, whole_cost
from sexpgpu.ir.graph import Builder, Graph, Node, Value, nodes_within
from sexpgpu.ir.types import TensorType
from sexpgpu.ir.verify import verify
from sexpgpu.lowering.interp.evaluate import Plan, evaluate
from sexpgpu.ops import infer, new_builder
from sexpgpu.ops.building import full_like
from sexpgpu.ops.control import ScanParts
from sexpgpu.passes import cse, dce, fold, pipeline
from sexpgpu.passes.autodiff import gradients
from sexpgpu.passes.precision import casts

VECTOR = TensorType((3,), "f64")
SEQUENCE = TensorType((4, 3), "f64")


def scan(b: Builder, body: Graph, carries: int, operands: list[Value], **more: Any) -> Node:
    xs = [v for v in operands[carries:] if v.shape == SEQUENCE.shape]
    attrs = {"body": body, "carries": carries, "sequences": len(xs), "length": 4, "reverse": False}
    return b.node("scan", tuple(operands), {**attrs, **more})


def chain(names: str = "abc") -> Graph:
    """Carries a, b, c and an element x: a' = a + x, b' = b * a, c' = sin c; elements a·x, b, exp c.
    b needs a; nothing needs c but itself."""
    b = new_builder()
    a, p, c = (b.input(f"carry/{name}", VECTOR) for name in names)
    x = b.input("x/0", VECTOR)
    outputs = {
        "a": b.emit("add", a, x),
        "b": b.emit("mul", p, a),
        "c": b.emit("sin", c),
        "y0": b.emit("mul", a, x),
        "y1": b.emit("neg", p),
        "y2": b.emit("exp", c),
    }
    return b.finish("scan", outputs)


def whole() -> tuple[Builder, Node]:
    b = new_builder()
    operands = [b.input(f"i{k}", VECTOR) for k in range(3)]
    node = scan(b, chain(), 3, [*operands, b.input("xs", SEQUENCE)])
    return b, node


def only(graph: Graph) -> Node:
    (node,) = [n for n in graph.nodes if n.op == "scan"]
    return node


def values(graph: Graph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    given = {name: rng.normal(size=v.shape) for name, v in graph.inputs.items()}
    return evaluate(Plan(graph), given)


def test_dead_carries_and_elements_go() -> None:
    """Of b's last value b and a are needed; of the elements none; x for a."""
    b, node = whole()
    graph = b.finish("g", {"b": node.results[1]})
    made = dce.run(graph)
    verify(made, infer)
    parts = ScanParts(only(made).attrs)
    assert (parts.carries, parts.sequences, len(parts.outputs)) == (2, 1, 2)
    assert {n.op for n in parts.body.nodes} == {"add", "mul"}
    np.testing.assert_array_equal(values(made)["b"], values(graph)["b"])


def test_a_carry_that_feeds_nothing_but_itself_goes() -> None:
    b, node = whole()
    made = dce.run(b.finish("g", {"y": node.results[5], "y1": node.results[4]}))
    verify(made, infer)
    parts = ScanParts(only(made).attrs)
    assert (parts.carries, len(parts.outputs)) == (3, 5)  # c for y2, b for y1, a for b
    made = dce.run(b.finish("g", {"y": node.results[5]}))
    parts = ScanParts(only(made).attrs)
    assert (parts.carries, parts.sequences, len(parts.outputs)) == (1, 0, 2)


def test_a_scan_that_nothing_needs_goes() -> None:
    b, _ = whole()
    assert dce.run(b.finish("g", {"i": b.inputs["i0"]})).nodes == ()


def test_equal_bodies_are_one_scan() -> None:
    b = new_builder()
    operands = [b.input(f"i{k}", VECTOR) for k in range(3)] + [b.input("xs", SEQUENCE)]
    one, other = scan(b, chain(), 3, operands), scan(b, chain(), 3, operands)
    back = scan(b, chain(), 3, operands, reverse=True)
    graph = b.finish("g", {str(k): n.results[0] for k, n in enumerate((one, other, back))})
    assert sum(n.op == "scan" for n in cse.run(graph).nodes) == 2


def test_bodies_are_folded_and_shared_within() -> None:
    inner = new_builder()
    c, x = inner.input("carry/0", VECTOR), inner.input("x/0", VECTOR)
    one = full_like(inner, 1.0, x)
    y = inner.emit("mul", inner.emit("sin", x), one)
    body = inner.finish(
        "scan", {"c": inner.emit("add", inner.emit("sin", x), inner.emit("add", c, y))}
    )
    b = new_builder()
    node = scan(b, body, 1, [b.input("c", VECTOR), b.input("xs", SEQUENCE)])
    graph = b.finish("g", {"c": node.result})
    made = dce.run(cse.run(fold.run(graph)))
    verify(made, infer)
    assert sorted(n.op for n in only(made).attrs["body"].nodes) == ["add", "add", "sin"]
    np.testing.assert_array_equal(values(made)["c"], values(graph)["c"])
    assert fold.run(made) is made
    assert cse.run(made) is made
    assert dce.run(made) is made


def test_a_derivative_for_some_inputs_walks_only_their_paths() -> None:
    """digamma has no derivative here; it is asked for none by the path of the other carry."""
    inner = new_builder()
    p, q = inner.input("carry/0", VECTOR), inner.input("carry/1", VECTOR)
    body = inner.finish("scan", {"p": inner.emit("sin", p), "q": inner.emit("digamma", q)})
    b = new_builder()
    x = b.input("x", VECTOR)
    node = scan(b, body, 2, [x, b.input("q", VECTOR)], length=2)
    loss = b.emit("sum", node.results[0], axes=(0,))
    (dx,) = gradients(b, [(loss, full_like(b, 1.0, loss))], [x])
    assert dx is not None
    graph = pipeline.optimized(b.finish("g", {"dx": dx}), "f32")
    at = np.array([0.3, 0.5, 0.7])
    want = np.cos(at) * np.cos(np.sin(at))
    np.testing.assert_allclose(evaluate(Plan(graph), {"x": at})["dx"], want)
    assert "digamma" not in {n.op for n in nodes_within(graph)}


def test_no_nan_comes_back_through_a_scan_not_taken() -> None:
    """Outside, a select leaves out elements; inside, their square roots have no finite slope."""
    inner = new_builder()
    c, x = inner.input("carry/0", VECTOR), inner.input("x/0", VECTOR)
    root = inner.emit("sqrt", x)
    body = inner.finish("scan", {"c": inner.emit("add", c, root), "y": root})
    b = new_builder()
    xs = b.input("xs", SEQUENCE)
    node = scan(b, body, 1, [b.input("c", VECTOR), xs])
    zero = full_like(b, 0.0, xs)
    kept = b.emit("select", b.emit("gt", xs, zero), node.results[1], zero)
    loss = b.emit("sum", kept, axes=(0, 1))
    (dx,) = gradients(b, [(loss, full_like(b, 1.0, loss))], [xs])
    assert dx is not None
    at = np.array([[4.0, 0.0, 1.0]] * 4)
    got = evaluate(Plan(b.finish("g", {"dx": dx})), {"xs": at, "c": np.zeros(3)})["dx"]
    np.testing.assert_allclose(got, [[0.25, 0.0, 0.5]] * 4)


def test_no_nan_comes_back_through_a_branch_not_taken_in_the_body() -> None:
    inner = new_builder()
    c, x = inner.input("carry/0", VECTOR), inner.input("x/0", VECTOR)
    zero = full_like(inner, 0.0, x)
    root = inner.emit("sqrt", x)
    chosen = inner.emit("select", inner.emit("gt", x, zero), root, zero)
    body = inner.finish("scan", {"c": inner.emit("add", c, chosen)})
    b = new_builder()
    raw = b.input("raw", SEQUENCE)
    xs = b.emit("mul", raw, b.emit("log", b.emit("exp", raw)))  # and a singular way there
    node = scan(b, body, 1, [b.input("c", VECTOR), xs])
    loss = b.emit("sum", node.results[0], axes=(0,))
    (dx,) = gradients(b, [(loss, full_like(b, 1.0, loss))], [raw])
    assert dx is not None
    at = np.array([[2.0, 0.0, 1.0]] * 4)
    got = evaluate(Plan(b.finish("g", {"dx": dx})), {"raw": at, "c": np.zeros(3)})["dx"]
    np.testing.assert_allclose(got, [[1.0, 0.0, 1.0]] * 4)


def test_costs_count_every_iteration_where_its_line_is() -> None:
    b, node = whole()
    graph = b.finish("g", {str(k): v for k, v in enumerate(node.results)})
    cost = whole_cost(graph)
    assert cost.flops == 4 * 6 * 3  # four iterations of six operations on three elements
    assert cost.nodes == 6
    by_path = cost_by_path(graph)[""]
    assert (by_path.flops, by_path.bytes, by_path.nodes) == (cost.flops, cost.bytes, cost.nodes)
    again = new_builder()
    x = again.input("x", VECTOR)
    inner = new_builder()
    y = inner.input("argument/0", VECTOR)
    body = inner.finish("recompute", {"value/0": inner.emit("exp", y)})
    made = again.node("recompute", (x,), {"body": body, "arguments": 1, "again": False})
    assert whole_cost(again.finish("g", {"y": made.result})).flops == 3


def test_casts_in_bodies_are_told() -> None:
    inner = new_builder()
    w = inner.input("outer/0", TensorType((3, 3), "f32"))
    x = TensorType((2, 3), "f32")
    carry = inner.input("carry/0", x)
    dims = {"a_contract": (1,), "b_contract": (0,), "a_batch": (), "b_batch": ()}
    product = inner.emit("dot", carry, w, **dims, accumulate=None, mode="highest")
    outputs = {"c": inner.emit("exp", product)}
    body = Graph("scan", {"c": carry, "w": w}, inner.nodes, outputs)
    b = new_builder()
    operands = (b.input("batch/x", x), b.input("param/w", w.type))
    attrs = {"body": body, "carries": 1, "sequences": 0, "length": 4, "reverse": False}
    node = b.node("scan", operands, attrs)
    made = pipeline.run(
        b.finish("g", {"loss/x": node.result}), pipeline.Options("bf16"), check=True
    )
    found = [cast.operands[0].shape for cast in casts(made)]
    assert (3, 3) in found  # the weight, once, outside
    assert sum(shape == (3, 3) for shape in found) == 1
    assert any(node.op == "cast" for node in only(made).attrs["body"].nodes)
