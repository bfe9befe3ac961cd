"""Tensor functions as files call them: through the reader and the evaluator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from trace_driving import graph_of, run, said

import sexpgpu.trace.runfile
from sexpgpu.diagnostics.model import Diagnostic, SxError
from sexpgpu.ir.graph import Graph
from sexpgpu.ir.types import TensorType
from sexpgpu.lisp.errors import LispError
from sexpgpu.lisp.session import Session
from sexpgpu.source import Source
from sexpgpu.trace.context import Trace

X = np.arange(12, dtype=np.float32).reshape(4, 3) - 5
TYPE = TensorType((4, 3), "f32", 0)


class Program:
    def __init__(self, text: str) -> None:
        self.session = Session()
        self.module = self.session.load(Source("a.sx", text), "a")

    def graph(self, name: str = "f", trace: Trace | None = None, **inputs: TensorType) -> Graph:
        function = self.session.function(self.module, name)
        assert function is not None
        made = trace or Trace("test", batch=4)
        types = inputs or {"x": TYPE}
        return graph_of(self.session, function, types, made)


def traced(text: str, **how: Any) -> Graph:
    return Program(text).graph(**how)


def values(body: str, x: np.ndarray = X) -> list[np.ndarray]:
    """What (lambda (x) body) gives for an array."""
    found = run(traced(f"(defun f (x) {body})"), {"x": x})
    return [found[f"out/{i}"] for i in range(len(found))]


def refused(code: str, body: str, trace: Trace | None = None) -> Diagnostic:
    with pytest.raises((SxError, LispError)) as caught:
        traced(f"(defun f (x) {body})", trace=trace)
    if isinstance(caught.value, LispError):
        found = Session().report(caught.value)
    else:
        (found,) = caught.value.diagnostics
    assert found.code.id == code, found
    return found


def test_arithmetic_is_the_lisps_own() -> None:
    (y,) = values("(let ((y (* x 2))) (incf y) (decf y 1/2) (/ (- 1 (1+ y)) 3))")
    np.testing.assert_allclose(y, (1 - (2 * X + 0.5 + 1)) / 3, rtol=1e-6)
    (y,) = values("(reduce #'+ (list x 1 x))")
    np.testing.assert_array_equal(y, 2 * X + 1)
    (y,) = values("(apply #'max 0 (mapcar (lambda (k) (* k x)) '(1 -2)))")
    np.testing.assert_array_equal(y, np.maximum(0, np.maximum(X, -2 * X)))
    (y,) = values("(loop with y = x repeat 3 do (setf y (* y y)) finally (return y))", X / 10)
    np.testing.assert_allclose(y, (X / 10) ** 8, rtol=1e-5)
    (y,) = values("(loop for k below 3 sum (* k x))")
    np.testing.assert_array_equal(y, 3 * X)


def test_rounding_gives_one_value() -> None:
    y, z = values("(values (floor x 2) (length (multiple-value-list (round x))))")
    np.testing.assert_array_equal(y, np.floor(X / 2))
    assert z == 1


def test_ordinary_numbers_stay_ordinary() -> None:
    (y,) = values("(+ x (max 1 2) (floor 7 2) (square 3))")
    np.testing.assert_array_equal(y, X + 14)


def test_shapes_drive_construction() -> None:
    (y,) = values("(if (> (dim x 0) (dim x 1)) (transpose x) x)")
    np.testing.assert_array_equal(y, X.T)
    (y,) = values("(reshape x (list (reduce #'* (shape x))))")
    np.testing.assert_array_equal(y, X.reshape(-1))
    (y,) = values("(destructuring-bind (b c) (shape x) (zeros (list c b)))")
    assert y.shape == (3, 4)


def test_the_mark_survives_the_lisps_arithmetic() -> None:
    graph = traced("(defun f (x) (random-normal (list (* 2 (dim x 0)) 5)))")
    assert "rng/offset" in graph.inputs
    graph = traced("(defun f (x) (random-normal (list (apply #'* (append (shape x) '(2))))))")
    assert "rng/offset" in graph.inputs
    graph = traced("(defun f (x) (random-normal (list (+ 0 (dim x 0)) 5)))")
    assert "rng/offset" not in graph.inputs


def test_tensors_are_ordinary_values() -> None:
    (y,) = values("(let ((h (make-hash-table))) (setf (gethash 'a h) x) (values (gethash 'a h)))")
    np.testing.assert_array_equal(y, X)
    (y,) = values("(if (and (not (null x)) (eq x x) (tensorp x) (not (tensorp 1))) x (* x 0))")
    np.testing.assert_array_equal(y, X)
    (y,) = values("(funcall (lambda (x &optional mask) (if (null mask) x 0)) x)")
    np.testing.assert_array_equal(y, X)
    (y,) = values("(case x ((nil) 0) (t x))")
    np.testing.assert_array_equal(y, X)


@pytest.mark.parametrize(
    "form",
    [
        "(if (> x 0) 1 2)", "(when x 1)", "(unless x 1)", "(and x 1)", "(or x 1)", "(not x)",
        "(cond (x 1))", "(loop while x do (setf x nil))", "(remove-if #'identity (list x))",
        "(if (= (sum x) 0) 1 2)", "(some (lambda (y) y) (list x))", "(case x (0 1) (t 2))",
        "(case (sum x) ((1 2) 1))", "(ecase x (:a 1))",
    ],
)  # fmt: skip
def test_truth_of_a_tensor(form: str) -> None:
    found = refused("E-FLOW-001", form)
    assert "where" in said(found)
    assert found.span is not None
    assert found.span.source.name == "a.sx"


@pytest.mark.parametrize("form", ["(zerop x)", "(evenp x)", "(length x)", "(elt x 0)", "(float x)"])
def test_what_a_tensor_refuses(form: str) -> None:
    assert "write" in said(refused("E-OP-001", form))


def test_errors_stand_at_their_call() -> None:
    found = refused("E-SHAPE-001", "(let ((y (transpose x))) (+ x 1 y))")
    assert found.span.text == "(+ x 1 y)"
    assert "(transpose x)" in [n.span.text for n in found.notes if n.span is not None]
    assert "f32 (4 3)" in found.labels[0].text


def test_keywords_are_checked_by_the_lisp() -> None:
    assert "axis" in said(refused("E-ARG-002", "(sum x :axes 1)"))


def test_islands() -> None:
    graph = traced(
        """(defun inner (x) (relu x))
           (defun f (x)
             (multiple-value-bind (a b)
                 (with-numerics (:matmul :tf32 :compute (if t :bf16 :f32))
                   (f32 (relu x))
                   (values (inner x) (f32 (tanh x))))
               (values a b (sigmoid x))))"""
    )
    assert [(n.op, n.numerics) for n in graph.nodes] == [
        ("relu", "compute=f32 matmul=tf32"),
        ("relu", "compute=bf16 matmul=tf32"),
        ("tanh", "compute=f32 matmul=tf32"),
        ("sigmoid", None),
    ]
    assert len(graph.outputs) == 3
    assert ":matmul" in said(refused("E-NUM-001", "(with-numerics (:matmull :tf32) x)"))
    assert ":tf32" in said(refused("E-NUM-001", "(with-numerics (:matmul :tf23) x)"))
    refused("E-NUM-001", "(with-numerics 3 x)")


def test_an_island_ends_with_an_error() -> None:
    graph = traced("(defun f (x) (ignore-errors (f32 (car 1))) (relu x))")
    assert graph.nodes[-1].numerics is None


def test_outside_a_graph() -> None:
    for form in ("(zeros '(2))", "(f32 1)", "(ctx :step)", "(metric :a 1)"):
        with pytest.raises(SxError) as caught:
            Program(f"(defvar *v* {form})")
        assert caught.value.diagnostics[0].code.id == "E-FLOW-003"
        assert caught.value.diagnostics[0].span is not None


def train() -> Trace:
    return Trace("train/main", "train", batch=4, training=True)


def test_metrics_take_both_values() -> None:
    trace = train()
    program = Program(
        """(defun loss (x) (values (mean x) 3))
           (defun f (x)
             (metric :a (loss x))
             (metric :b (loss x) :reduce :max :weight 2)
             (loss-term :c (loss x))
             (mean x))"""
    )
    program.graph(trace=trace)
    graph = trace.finish(
        {m.name: m.weight for m in (*trace.metrics.values(), *trace.terms.values())}
    )
    assert {k: float(v) for k, v in run(graph, {"x": X}).items()} == {"a": 3, "b": 2, "c": 3}
    assert trace.metrics["b"].reduce == "max"


def test_metrics_are_checked() -> None:
    found = refused("E-METRIC-002", "(metric :a 1 :reduse :max)", train())
    assert ":reduce" in said(found)
    assert found.span.text == ":reduse"
    refused("E-METRIC-002", "(metric :a)", train())
    refused("E-METRIC-001", "(progn (metric :a 1) (metric :a 2))", train())


def test_counters() -> None:
    trace = train()
    Program(
        """(defun f (x)
             (incf (counter :rows) (dim x 0))
             (incf (counter :tokens) (sum (> x 0)))
             (incf (counter :tokens))
             (incf (counter :tokens) (sum (> x 1)))
             (mean x))"""
    ).graph(trace=trace)
    found = run(trace.finish(dict(trace.counters)), {"x": X})
    assert found["rows"] == 4
    assert found["tokens"] == (X > 0).sum() + 1 + (X > 1).sum()
    refused("E-RUN-022", "(setf (counter :rows) 3)", train())
    refused("E-RUN-022", "(incf (counter :rows) 1.5)", train())


def test_a_runaway_graph_ends() -> None:
    trace = Trace("test")
    trace.node_limit = 1000
    refused("E-LIMIT-008", "(ignore-errors (loop (setf x (relu x))))", trace)


@pytest.fixture(autouse=True)
def nothing_left_over() -> Iterator[None]:
    yield
    assert sexpgpu.trace.context.TRACES == []


@pytest.mark.parametrize(
    "body",
    [
        "(dolist (r x) (sum r))",
        "(loop for r in x collect (sum r))",
        "(copy-list x)",
    ],
)
def test_going_along_a_tensor_says_how(body: str) -> None:
    found = refused("E-TYPE-001", body)
    assert "(scan f init x)" in (found.fix or "")
    assert "(split x (dim x 0))" in (found.fix or "")


@pytest.mark.parametrize(
    "body",
    [
        "(destructuring-bind (a b) x (+ a b))",
        "(destructuring-bind (a &optional b) x b)",
        "(destructuring-bind (a (b c)) (list 1 x) b)",
        "(macrolet ((m ((a b)) `(list ,a ,b))) (destructuring-bind ((a b) c) (list x 1) a))",
    ],
)
def test_taking_a_tensor_apart_says_how(body: str) -> None:
    fix = refused("E-ARG-005", body).fix or ""
    assert "(split x (dim x 0))" in fix


HABITS = [
    ("(nth 0 x)", "(at x i)"),
    ("(first x)", "(at x 0)"),
    ("(rest x)", "(at x (slice 1 nil))"),
    ("(subseq x 0 2)", "(at x (slice start end))"),
    ("(svref x 0)", "(at x i)"),
    ("(reverse x)", "flip"),
    ("(append x x)", "concat"),
    ("(sort x #'<)", "tensor-sort"),
    ("(find 1 x)", "argmax"),
    ("(count 1 x)", "count-nonzero"),
    ("(some #'plusp x)", "(any test)"),
    ("(every #'plusp x)", "(all test)"),
    ("(reduce #'+ x)", "(sum x)"),
    ("(mapcar #'square x)", "all elements at once"),
    ("(array-dimension x 0)", "(dim x axis)"),
    ("(array-rank x)", "(rank x)"),
    ("(dolist (row x) (print row))", "(split x (dim x 0))"),
    ("(loop for row in x collect row)", "(split x (dim x 0))"),
    ("(dotimes (i (at x 0 0)) (print i))", "(dim x i)"),
    ("(make-list (at x 0 0))", "(dim x i)"),
    ("(make-array (at x 0 0))", "(dim x i)"),
    ("(nth (at x 0 0) (list 1 2))", "(dim x i)"),
    ("(elt (list 1 2) (at x 0 0))", "(dim x i)"),
    ("(gcd x 2)", "ordinary integer"),
    ("(random (at x 0 0))", "random-int"),
    ("(string x)", "metric"),
    ("(funcall x 1)", "(at x i)"),
    ("(mapcar x (list 1 2))", "no function"),
    ("(grad x x)", "(lambda (x) …)"),
    ("(max (list x x))", "(apply #'max list)"),
    ("(+ (list x x))", "(apply #'+ list)"),
    ("(+ x '(1 2 3))", "(constant list)"),
    ("(+ x nil)", "(null y)"),
    ("(max x :axis 0)", "(amax x :axis n)"),
    ("(setf (at x 0) 1)", "(set-at x value i)"),
    ("(incf (at x 0) 1)", "add-at"),
    ("(cast x :float32)", "write :f32"),
    ("(cast x 'f32)", "write the keyword :f32"),
    ("(cast x \"f32\")", "write the keyword :f32"),
    ("(cast x :int)", "write :i32"),
    ("(reshape x '(-1 -1))", "one extent may be -1"),
    ("(pad x 1)", "(list 1)"),
    ("(stack x x)", "stack-tensors"),
    ("(repeat x 2)", "repeat-elements"),
]  # fmt: skip


@pytest.mark.parametrize("form, mend", HABITS, ids=[form for form, _ in HABITS])
def test_the_habits_of_other_languages_are_told_what_to_write(form: str, mend: str) -> None:
    with pytest.raises((SxError, LispError)) as caught:
        traced(f"(defun f (x) {form})")
    error = caught.value
    found = Session().report(error) if isinstance(error, LispError) else error.diagnostics[0]
    assert mend in (found.fix or ""), found.fix
