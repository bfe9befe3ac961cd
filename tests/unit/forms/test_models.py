"""The model language: clauses, paths, sharing, stacks, and models that macros write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sexpgpu as sx
from sexpgpu.loop.data.loader import TrainingBatches
from sexpgpu.loop.initial import initial_state
from sexpgpu.lowering.interp.evaluate import Plan, evaluate

FILE = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train :source (synthetic 4 (x :f32 (3) (:normal 0 1))) :batch 4)
(defun prepare (batch) (field batch :x))
{models}
(defun objective (model x) (mean (square (funcall model x))))
(defrun m :model {model} :optimizer {optimizer} :steps 1)
"""


def compiled(models: str, model: str = "(m)", optimizer: str = "(optim:sgd :lr 0.1)") -> Any:
    return sx.compile_text(FILE.format(models=models, model=model, optimizer=optimizer))


def paths(models: str, model: str = "(m)") -> dict[str, tuple[int, ...]]:
    return {p.path: p.shape for p in compiled(models, model).document.parameters}


def test_when_leaves_a_part_out() -> None:
    models = """
(defmodel m (&key bias gate)
  (defparam w (3 3) :init (random-normal shape))
  (defparam b (3) :when bias)
  (submodel open (nn:linear 3 3 :bias nil) :when gate)
  (forward (x)
    (let ((y (if (null b) (matmul x w) (+ (matmul x w) b))))
      (if (null open) y (* y (sigmoid (open x)))))))"""
    assert set(paths(models)) == {"w"}
    assert set(paths(models, "(m :bias t)")) == {"w", "b"}
    assert set(paths(models, "(m :gate t)")) == {"w", "open/w"}


def test_tags_dtypes_and_what_is_not_trained() -> None:
    made = compiled("""
(defmodel m ()
  (defparam w (3 3) :init (random-normal shape) :tags (:matrix :head))
  (defparam half (3) :dtype :bf16 :init 0.5)
  (defparam still (3) :init 2.0 :trainable nil)
  (forward (x) (+ (* (matmul x w) still) (cast half :f32))))""")
    found = {p.path: p for p in made.document.parameters}
    assert found["w"].tags == ["matrix", "head"]
    assert (found["half"].dtype, found["still"].trainable) == ("f32", False)
    assert set(made.document.updates) == {"w", "half"}
    assert found["still"].group is None


@pytest.mark.parametrize(
    "init, wanted",
    [
        ("2.5", np.full((3, 2), 2.5)),
        ("1/2", np.full((3, 2), 0.5)),
        ("(nn:constant 4.0)", np.full((3, 2), 4.0)),
        ("(lambda (s) (* 3 (ones s)))", np.full((3, 2), 3.0)),
        ("(reshape (arange (* 3 2)) shape)", np.arange(6).reshape(3, 2)),
        ("(eye (first shape) (second shape))", np.eye(3, 2)),
    ],
)
def test_initial_values_are_numbers_tensors_or_functions_of_the_shape(
    init: str, wanted: np.ndarray
) -> None:
    made = compiled(f"(defmodel m () (defparam w (3 2) :init {init}) (forward (x) (matmul x w)))")
    np.testing.assert_array_equal(initial_state(made.document)["param"]["w"], wanted)


def test_a_tied_weight_is_one_parameter_whose_gradient_is_summed(tmp_path: Path) -> None:
    """mean((x w w^T)^2): one step of descent against the derivative by hand."""
    made = compiled("""
(defmodel m ()
  (submodel up (nn:linear 3 2 :bias nil))
  (forward (x) (matmul (up x) (transpose (param up "w")))))""")
    w = initial_state(made.document)["param"]["up/w"].astype(np.float64)
    run = made.run(runs=str(tmp_path), device="interp")
    reader = TrainingBatches(made.document.loader("train").stages[0], "train", 0)
    try:
        x = reader.read(0)["x"].astype(np.float64)
    finally:
        reader.close()
    d = 2 * (x @ w @ w.T) / 12
    gradient = x.T @ d @ w + d.T @ x @ w
    np.testing.assert_allclose(run.parameters["up/w"], w - 0.1 * gradient, rtol=1e-4, atol=1e-6)


def test_a_shared_model_has_its_first_path_and_aliases() -> None:
    made = compiled(
        """
(defmodel pair (inner)
  (submodel left inner)
  (submodel right inner)
  (forward (x) (+ (left x) (right x))))
(defmodel m ()
  (submodel both (pair (nn:linear 3 3)))
  (forward (x) (both x)))""",
        optimizer='(optimizer-groups (optim:sgd) (group g "both/right/w" :lr 0.5))',
    )
    found = {p.path: p for p in made.document.parameters}
    assert set(found) == {"both/left/w", "both/left/b"}
    assert found["both/left/w"].aliases == ["both/right/w"]
    assert found["both/left/w"].group == "g"  # a selector may use either name


def test_repeat_counts_and_stacks_pass_what_follows_the_first_value() -> None:
    models = """
(defmodel scaled (n)
  (defparam w (n) :init (float n))
  (forward (x factor &key (shift 0)) (+ (* factor (sum w) x) shift)))
(defmodel m ()
  (submodel body (repeat 3 (scaled (+ i 1)) :index i))
  (submodel ends (stack :first (scaled 1) :last (scaled 2)))
  (forward (x) (ends (body x 2.0 :shift 1) 0.5)))"""
    made = compiled(models)
    assert {p.path: p.shape for p in made.document.parameters} == {
        "body/0/w": (1,), "body/1/w": (2,), "body/2/w": (3,), "ends/first/w": (1,),
        "ends/last/w": (2,),
    }  # fmt: skip
    # body: y = 2 n^2 y + 1 for n = 1, 2, 3; ends: y = n^2 y / 2 for n = 1, 2
    y = 1.0
    for n in (1, 2, 3):
        y = 2 * n * n * y + 1
    y = y * 0.5 * 2
    graph = made.document.graphs["predict"]
    given: dict[str, Any] = {
        f"param/{k}": v for k, v in initial_state(made.document)["param"].items()
    }
    given["batch/x"] = np.ones((4, 3), np.float32)
    found = evaluate(Plan(graph), {n: given[n] for n in graph.inputs})["out/0"]
    np.testing.assert_allclose(found, np.full((4, 3), y), rtol=1e-6)


def test_functions_may_be_elements_of_a_stack() -> None:
    models = """
(defun twice (x) (* 2 x))
(defun m () (stack (nn:linear 3 4) #'relu #'twice (lambda (x) (+ x 1)) (nn:linear 4 1)))"""
    assert set(paths(models)) == {"0/w", "0/b", "4/w", "4/b"}


def test_models_are_values() -> None:
    """Made by a loop, kept in a list, handed to a constructor, called with funcall and mapcar."""
    models = """
(defmodel ensemble (members)
  (submodel a (first members))
  (submodel b (second members))
  (forward (x) (reduce #'+ (mapcar (lambda (m) (funcall m x)) members))))
(defun m () (ensemble (loop for width in '(2 5) collect (nn:mlp 3 width))))"""
    assert paths(models)["b/up/w"] == (3, 5)


def test_a_macro_may_write_a_model() -> None:
    models = """
(defmacro define-tower (name &rest widths)
  `(defmodel ,name (in)
     ,@(loop for width in widths
             for before = 'in then last
             for last = width
             for i from 0
             collect `(submodel ,(intern (format nil "layer-~d" i)) (nn:linear ,before ,width)))
     (forward (x)
       ,(reduce (lambda (inner i) `(,(intern (format nil "layer-~d" i)) ,inner))
                (loop for i below (length widths) collect i)
                :initial-value 'x))))
(define-tower tower 5 7 2)
(defun m () (tower 3))"""
    found = paths(models)
    assert found["layer-1/w"] == (5, 7)
    assert found["layer-2/w"] == (7, 2)


def test_unrelated_lines_move_no_path_and_no_initial_value() -> None:
    models = """
(defmodel m ()
  (submodel body (repeat 2 (nn:mlp 3 4)))
  (forward (x) (body x)))"""
    before = compiled(models)
    after = compiled(
        "(defun other (x) (random-normal (shape x)))\n"
        + models.replace("(submodel body", '(assert (= 1 1))\n  (submodel extra (nn:linear 3 1))'
                         "\n  (submodel body").replace("(body x)", "(+ (body x) (extra x))")
    )  # fmt: skip
    old, new = (initial_state(made.document)["param"] for made in (before, after))
    assert set(new) == {*old, "extra/w", "extra/b"}
    for path, value in old.items():
        np.testing.assert_array_equal(new[path], value)


def test_parts_by_path() -> None:
    models = """
(defmodel inner () (defparam w (3)) (defparam still (3) :trainable nil) (forward (x) (+ x w still)))
(defmodel m ()
  (submodel body (repeat 2 (inner)))
  (forward (x) (body x)))
(let ((made (m)))
  (assert (eq (part made "body/1") (part (part made "body") "1")))
  (assert (eq (param made "body/0/w") (first (params made))))
  (assert (= (length (params made)) 2))
  (assert (equal (shape (param made "body/1/w")) '(3))))"""
    assert len(paths(models)) == 4


def test_a_parameter_that_no_loss_reaches_is_a_warning() -> None:
    made = compiled(
        "(defmodel m () (submodel a (nn:linear 3 1)) (defparam b (3)) (forward (x) (a x)))"
    )
    said = [d.headline for d in made.diagnostics if d.code.id == "W-RUN-001"]
    assert any("parameter b" in text for text in said)


def test_a_model_that_is_never_called_is_one_warning() -> None:
    """One for the outermost, with or without parameters; none where a part or a parameter of it is
    used without calling it."""
    made = compiled("""
(defmodel m ()
  (submodel never (stack (nn:linear 3 3) (nn:mlp 3 4)))
  (submodel drop (nn:dropout-layer 0.1))
  (submodel parts (stack (nn:linear 3 3) #'relu))
  (submodel table (nn:embedding 3 3))
  (forward (x) (matmul (funcall (part parts "0") x) (param table "w"))))""")
    said = [d.headline for d in made.diagnostics]
    assert said == ["the model never is never called", "the model drop is never called"]


def test_a_buffer_set_in_evaluation_stays_as_it_was(tmp_path: Path) -> None:
    """The loss of a pass is that of the stored value, though forward sets another before."""
    text = FILE.format(
        models="""
(defmodel m ()
  (defparam w () :init 1.0)
  (defbuffer n () :dtype :i32)
  (defbuffer half (2) :dtype :bf16 :init 0.5)
  (forward (x) (setf n (+ n 1)) (setf half 0.25) (* w (cast n :f32) (sum half))))
(defeval v :loader train :every 1)""",
        model="(m)",
        optimizer="(optim:sgd :lr 0.0)",
    ).replace(":steps 1", ":steps 3 :log-every 1")
    for device in ("interp", "cpu"):
        run = sx.compile_text(text).run(runs=str(tmp_path / device), device=device)
        np.testing.assert_allclose(run.metrics["eval/v/loss"].values, [0.25, 1.0, 2.25])
        np.testing.assert_allclose(run.metrics["train/loss"].values, [0.25, 1.0, 2.25])


MISTAKES = {
    "(defmodel m () (defparam w (3)) (defparam w (3)) (forward (x) (+ x w)))": "E-PARAM-002",
    "(defmodel m () (submodel list (nn:linear 3 1)) (forward (x) x))": "E-PARAM-002",
    "(defmodel m () (submodel a 3) (forward (x) x))": "E-PARAM-001",
    "(defmodel m () (defparam w (3)))": "E-PARAM-001",
    '(defmodel m () (submodel a (nn:linear 3 3)) (forward (x) (+ (a x) (param a "v"))))': (
        "E-PARAM-003"
    ),
    "(defmodel m () (defparam w (3) :init (ones (list 4))) (forward (x) (+ x w)))": "E-PARAM-004",
    "(defmodel m () (defparam w (3) :dtype :i32) (forward (x) (+ x w)))": "E-PARAM-004",
    "(defmodel m () (defbuffer s (3)) (forward (x) (setf s (mean x)) x))": "E-PARAM-004",
    "(defmodel m () (forward (x) (funcall (nn:linear 3 3) x)))": "E-PARAM-006",
    "(defmodel m () (defparam w (0 3)) (forward (x) (matmul x w)))": "E-PARAM-004",
    "(defmodel m () (submodel a (nn:linear 3 0)) (forward (x) (a x)))": "E-PARAM-004",
    "(defmodel m () (submodel a (m)) (forward (x) (a x)))": "E-PARAM-010",
    "(defmodel m () (defbuffer n (2) :dtype :i32 :init 1.5) (forward (x) x))": "E-PARAM-004",
    "(defmodel m () (defbuffer n (2) :dtype :i3) (forward (x) x))": "E-PARAM-004",
    "(defmodel m () (defbuffer n () :dtype :i32) (forward (x) (setf n 0.5) x))": "E-PARAM-004",
    "(defmodel m () (defbuffer n ()) (setf n 0.5) (forward (x) x))": "E-FLOW-003",
    "(defmodel m () (defparam w (3)) (defparam v (3) :init (* 2 w)) (forward (x) (+ x w v)))": (
        "E-PARAM-008"
    ),
    "(defmodel m () (defparam w (3)) (forward (x) (metric :y x) (+ x w)))": "E-METRIC-002",
    "(defmodel m () (submodel a (repeat 0 (nn:linear 3 3))) (forward (x) (a x)))": "E-PARAM-001",
    "(defun m () (stack :a (nn:linear 3 3) :a (nn:linear 3 3)))": "E-PARAM-002",
}


@pytest.mark.parametrize("models", MISTAKES)
def test_mistakes_have_a_code(models: str) -> None:
    with pytest.raises(sx.CompileError) as caught:
        compiled(models)
    assert MISTAKES[models] in {d.code.id for d in caught.value.diagnostics}
