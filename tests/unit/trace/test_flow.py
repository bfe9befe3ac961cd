"""Tensors as Lisp values: truth, graphs, marks, places, numerics."""

from __future__ import annotations

import numpy as np
import pytest
from trace_driving import at, call, refused, said, world

from sexpgpu.diagnostics.model import SxError
from sexpgpu.lisp.calls import truth
from sexpgpu.lisp.errors import LispError
from sexpgpu.lisp.printer import prin1_text
from sexpgpu.lisp.values import NIL, python_list
from sexpgpu.ops import OPS
from sexpgpu.trace.context import TRACES, Trace
from sexpgpu.trace.marked import MarkedInt
from sexpgpu.trace.tensor import Tensor, TensorSource

X = np.ones((4, 3), np.float32)


def test_a_tensor_has_no_truth() -> None:
    with world() as w, at("a.sx", "(if x 1 2)"):
        x = w.tensor(X)
        diagnostic = refused("E-FLOW-001", lambda: truth(x))
        for word in ("where", "logical-and", "(null mask)"):
            assert word in said(diagnostic)
        assert diagnostic.labels[0].span.text == "(if x 1 2)"


def test_it_prints_with_its_type_and_line() -> None:
    with world() as w, at("digits.sx", "\n\n(f x)"):
        assert prin1_text(w.tensor(X)) == "#<tensor f32 (4 3) digits.sx:1>"


def test_a_tensor_of_another_graph() -> None:
    with world("train/main") as w, at("a.sx", "(here)"):
        x = w.tensor(X)
    with world("eval/valid"), at("b.sx", "(there)"):
        for action in (lambda: call("+", x, 1), lambda: call("sum", x), lambda: call("+", x, x)):
            diagnostic = refused("E-FLOW-002", action)
            assert [label.span.source.name for label in diagnostic.labels] == ["b.sx", "a.sx"]
            assert "train/main" in diagnostic.headline
            assert "eval/valid" in diagnostic.headline


@pytest.mark.parametrize(
    "name, arguments", [("zeros", [[2]]), ("random-normal", [[2]]), ("counter", [":a"])]
)
def test_outside_a_traced_function(name: str, arguments: list[object]) -> None:
    with at("a.sx", "(zeros '(2))"):
        diagnostic = refused("E-FLOW-003", lambda: call(name, *arguments))
        assert name in diagnostic.headline
        assert diagnostic.labels[0].span.source.name == "a.sx"


def test_a_tensor_kept_from_a_finished_graph() -> None:
    with world() as w:
        x = w.tensor(X)
    refused("E-FLOW-003", lambda: call("+", x, 1))
    assert python_list(call("shape", x)) == [4, 3]  # its shape stays known


def test_misspelt_keywords_are_the_lisps_errors() -> None:
    with world() as w, pytest.raises(LispError):
        w("sum", X, axes=1)


def test_the_marked_extent() -> None:
    n = MarkedInt(4)
    assert prin1_text(n) == "4"
    assert isinstance(n, int)
    for marked in (n * 3, 3 * n, n * n):
        assert type(marked) is MarkedInt
    for plain in (n + 1, n - 1, n // 2, -n, n % 3, max(n, 2) + 0):
        assert type(plain) is int
    assert type(n * 1.5) is float
    assert type(call("*", n, 3)) is MarkedInt
    assert type(call("*", 2, 3, n)) is MarkedInt
    assert type(call("+", n, 3)) is int


def test_shapes_mark_the_batch() -> None:
    with world(batch=4) as w:
        x = w.tensor(X, batch=0)
        shape = python_list(call("shape", x))
        assert [type(n) for n in shape] == [MarkedInt, int]
        assert type(call("dim", x, 0)) is MarkedInt
        assert type(call("size", x)) is MarkedInt
        flat = call("reshape", x, [call("*", *shape)])
        assert type(call("dim", flat, 0)) is MarkedInt
        assert type(call("dim", call("sum", x, axis=0), 0)) is int
        assert call("zeros", shape).type.batch == 0
        assert call("arange", shape[0]).type.batch == 0
        assert call("full", [3, shape[0]], 2).type.batch == 1
        assert call("zeros", [4, 3]).type.batch is None
    with world() as w:
        assert type(call("dim", w.tensor(X, batch=0), 0)) is int  # no batch is being traced


def test_nodes_know_their_place_and_model() -> None:
    with world() as w, at("a.sx", "(relu x)") as span:
        x = w.tensor(X)
        with w.trace.model("body/3"):
            call("relu", x)
        origin = w.trace.builder.nodes[-1].origin
        assert origin.span == span
        assert origin.path == "body/3"
        call("relu", x)
        assert w.trace.builder.nodes[-1].origin.path == ""
        with w.trace.model("body/3"):
            diagnostic = refused("E-SHAPE-003", lambda: call("sum", x, axis=5))
        assert "in the model body/3" in said(diagnostic)


def test_the_refusal_of_an_op_names_the_function() -> None:
    with world() as w, at("a.sx", "(bitcast x :f64)"):
        x = w.tensor(X)
        diagnostic = refused("E-DTYPE-002", lambda: call("bitcast", x, ":f64"))
        assert diagnostic.headline.startswith("bitcast:")
        assert "x is f32 (4 3)" in diagnostic.labels[0].text


def test_numerics_nest() -> None:
    with world() as w:
        x = w.tensor(X)
        with w.trace.numerics(matmul="tf32", compute="bf16"):
            call("relu", x)
            with w.trace.numerics(compute="f32"):
                call("relu", x)
        call("relu", x)
        call("var", x)
        found = [n.numerics for n in w.trace.builder.nodes if n.op == "relu"]
        assert found == ["compute=bf16 matmul=tf32", "compute=f32 matmul=tf32", None]
        assert {n.numerics for n in w.trace.builder.nodes if n.op == "mean"} == {"compute=f32"}


def test_a_source_stands_for_its_tensor() -> None:
    class Parameter(TensorSource):
        __slots__ = ()

        def current_tensor(self, trace: Trace) -> Tensor:
            assert trace is TRACES[-1]
            return tensors[0]

    parameter = Parameter()
    with world() as w:
        tensors = [w.tensor(X)]
        np.testing.assert_array_equal(w.run(call("+", parameter, 1)), X + 1)
        np.testing.assert_array_equal(w.run(call("-", 1, parameter)), 1 - X)
        np.testing.assert_array_equal(w.run(call("sum", parameter, axis=0)), X.sum(0))
        np.testing.assert_array_equal(
            w.run(call("matmul", parameter, w.tensor(X.T.copy()))), X @ X.T
        )
        assert call("rank", parameter) == 2
        assert call("tensorp", parameter) is not NIL
        refused("E-FLOW-001", lambda: truth(parameter))


def test_a_graph_has_a_limit_of_nodes() -> None:
    with world() as w:
        w.trace.node_limit = 10
        x = w.tensor(X)
        for _ in range(11):
            x = call("relu", x)
        refused("E-LIMIT-008", lambda: call("relu", x))


def test_every_op_is_reached_by_some_function() -> None:
    """What no public function emits is there for gradients, or for forms above."""
    import re
    from pathlib import Path

    import sexpgpu.trace

    folder = Path(sexpgpu.trace.__file__).parent
    text = "".join(p.read_text(encoding="utf-8") for p in folder.rglob("*.py"))
    named = set(re.findall(r'"([a-z0-9-]+)"', text))
    inner = {
        "attention-bias-grad",
        "attention-grad",
        "boundary",
        "cofactors",
        "conv-weight-grad",
        "max-pool-grad",
        "avg-pool-grad",
        "put-along-add",
        "take-add",
    }
    later = {"sort"}
    assert set(OPS) - named - inner - later == set()


HUGE = 10**400


@pytest.mark.parametrize("name", ["cbrt", "digamma", "expm1", "rsqrt", "finite-p"])
def test_functions_of_numbers_need_a_graph_for_lists(name: str) -> None:
    with at("a.sx", "(f '(2))"):
        refused("E-FLOW-003", lambda: call(name, [2]))


def test_a_number_that_no_float_holds() -> None:
    assert call("inf-p", HUGE) is NIL
    with world() as w, at("a.sx", "(full '(2) n)"), pytest.raises((LispError, SxError)):
        w("full", [2], HUGE)
