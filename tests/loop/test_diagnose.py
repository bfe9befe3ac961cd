"""The first non-finite node, traced back past what is infinite by intent."""

from collections.abc import Callable

import numpy as np
import pytest
from loop_documents import G, t

from sexpgpu.ir.graph import Graph, Value
from sexpgpu.loop.diagnose import Culprit, _TracingEngine, explained
from sexpgpu.source import Origin, Source, Span

SOURCE = Source("m.sx", "(log (* -1 x x))\n")


def graph(build: Callable[[G, Value], Value]) -> Graph:
    g = G()
    x = g.input("batch/x", t("f32", 3))
    out = build(g, x)
    return g.b.finish("train/only", {"loss/objective/sum": g.sum(out, 0)})


def culprit(made: Graph, x: list[float]) -> Culprit:
    with pytest.raises(Culprit) as caught:
        _TracingEngine().call(made, {"batch/x": np.array(x, np.float32)})
    return caught.value


def test_the_log_of_a_negative_number_with_its_line() -> None:
    def build(g: G, x: Value) -> Value:
        square = g.mul(x, x)
        g.b.origin = Origin(Span(SOURCE, 0, 16), path="body/3")
        bad = g.log(g.neg(square))
        g.b.origin = Origin(Span(SOURCE, 5, 15))
        return g.times(g.exp(bad), 2.0)

    found = culprit(graph(build), [1, 2, 3])
    assert found.node is not None
    assert found.node.op == "log"
    assert "log gives nan at m.sx:1:1" in found.what
    from sexpgpu.diagnostics.codes.run import E_RUN_031
    from sexpgpu.diagnostics.model import Diagnostic

    told = explained(Diagnostic(E_RUN_031, "step 3: the loss is nan"), found)
    assert told.labels[0].span == Span(SOURCE, 0, 16)
    assert any("body/3" in note.text for note in told.notes)


def test_an_overflow_before_the_nan() -> None:
    found = culprit(graph(lambda g, x: g.sub(g.exp(x), g.exp(x))), [1000, 0, 0])
    assert found.node is not None
    assert (found.node.op, found.what) == ("exp", "exp gives inf")


def test_a_mask_is_not_to_blame() -> None:
    def build(g: G, x: Value) -> Value:
        masked = g.select(g.lt(x, g.fill(0.0, x)), g.fill(float("-inf"), x), x)
        kept = g.exp(masked)  # 0 where masked: finite
        return g.add(kept, g.sqrt(g.sub(x, g.fill(5.0, x))))

    found = culprit(graph(build), [-1, 7, 8])
    assert found.node is not None
    assert found.node.op == "sqrt"


def test_a_nan_made_of_a_mask() -> None:
    def build(g: G, x: Value) -> Value:
        masked = g.select(g.lt(x, g.fill(0.0, x)), g.fill(float("-inf"), x), x)
        return g.mul(masked, g.fill(0.0, x))

    found = culprit(graph(build), [-1, 7, 8])
    assert found.node is not None
    assert found.node.op in ("select", "mul")


def test_an_input() -> None:
    found = culprit(graph(lambda g, x: g.times(x, 2.0)), [1, float("nan"), 3])
    assert found.node is None
    assert found.what == "the input batch/x holds nan"


def test_nothing_wrong() -> None:
    made = graph(lambda g, x: g.times(x, 2.0))
    out = _TracingEngine().call(made, {"batch/x": np.ones(3, np.float32)})
    assert out["loss/objective/sum"] == 6


def test_what_happens_in_a_scan_is_looked_into() -> None:
    """x, x - 1, x - 2: the root of the first negative number, in the iteration that takes it."""

    def build(g: G, x: Value) -> Value:
        body = G()
        carry = body.input("carry/0", t("f32", 3))
        root = body.sqrt(carry)
        less = body.sub(carry, body.fill(1.0, carry))
        graph = body.b.finish("scan", {"carry/0": less, "y/0": body.times(root, 2.0)})
        attrs = {"body": graph, "carries": 1, "sequences": 0, "length": 4, "reverse": False}
        node = g.b.node("scan", (g.exp(x),), attrs)
        return g.sum(node.results[1], 0)

    found = culprit(graph(build), [1, 1, 1])
    assert found.node is not None
    assert found.node.op == "sqrt"
    assert found.what == "sqrt gives nan, in iteration 3 of the scan"
