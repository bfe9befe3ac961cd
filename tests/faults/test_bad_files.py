"""Run files that are wrong: a coded error at the right place, never an exception, never silence."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from sexpgpu.compiler import check_text
from sexpgpu.diagnostics.model import Diagnostic

PARTS = {
    "knobs": "",
    "loader": "(defloader train :source (inline (x (0.0) (1.0)) (y (1.0) (3.0))) :batch 2)",
    "prepare": "(defun prepare (batch) (values (field batch :x) (field batch :y)))",
    "model": "(defmodel line () (submodel fit (nn:linear 1 1)) (forward (x) (fit x)))",
    "objective": "(defun objective (model x y) (nn:mse (funcall model x) y))",
    "extra": "",
    "run": "(defrun line :model (line) :optimizer (optim:sgd :lr 0.1) :steps 4)",
}
REQUIRE = '(require "sexpgpu/nn" :as nn)\n(require "sexpgpu/optim" :as optim)\n'


def program(**parts: str) -> str:
    """A run file that trains, with some of its parts replaced."""
    return REQUIRE + "\n".join({**PARTS, **parts}.values()) + "\n"


def errors(**parts: str) -> list[Diagnostic]:
    return [d for d in check_text(program(**parts)) if d.severity == "error"]


def run(optimizer: str = "(optim:sgd :lr 0.1)", more: str = "") -> str:
    return f"(defrun line :model (line) :optimizer {optimizer} :steps 4 {more})"


def objective(body: str) -> str:
    return f"(defun objective (model x y) {body})"


def model(clauses: str) -> str:
    return f"(defmodel line () {clauses})"


def source(text: str) -> str:
    return f"(defloader train :source {text} :batch 2)"


def fields(text: str) -> str:
    return (
        "(defloader train :source (inline (x (0.0) (1.0)) (y (1.0) (3.0))) "
        f":batch 2 :fields ({text}))"
    )


def groups(text: str) -> str:
    return run(f"(optimizer-groups (optim:sgd :lr 1) {text})")


MEAN = "(mean (square (- (funcall model x) y)))"

# part, its text, the code, and the text that the error's label must begin with
CASES = [
    ("knobs", "(defknob a 1 . 2)", "E-ARG-004", "(defknob a"),
    ("knobs", "(defvariant)", "E-KNOB-001", "(defvariant)"),
    ("knobs", "(defsweep)", "E-KNOB-001", "(defsweep)"),
    ("knobs", "(defvariant w . 3)", "E-ARG-004", "(defvariant"),
    ("knobs", '(defknob a "x" :min 1)', "E-KNOB-001", ":min"),
    ("knobs", "(defknob a 1 :doc 3)", "E-KNOB-001", ":doc"),
    ("knobs", "(defknob a 1) (defvariant w (a 1) (a 2))", "E-KNOB-001", "(a 2)"),
    ("knobs", "(defknob a 1) (defsweep s (:gird (a 1)))", "E-KNOB-001", "(:gird"),
    ("knobs", "(defknob a 1) (defsweep s (:grid (a)))", "E-KNOB-001", "(a)"),
    ("knobs", '(defknob a 1) (defsweep s (:grid (a "x")))', "E-KNOB-003", '(a "x")'),
    ("knobs", "(defknob a 1) (defsweep s (:repeat 0))", "E-KNOB-001", "(:repeat"),
    (
        "knobs",
        "(defknob a 1) (defknob b 1) (defsweep s (:zip (a 1 2) (b 1)))",
        "E-KNOB-001",
        "(:zip",
    ),
    ("loader", "(defloader train . 3)", "E-ARG-004", "(defloader"),
    ("loader", fields("(x :f33 (1)) (y :f32 (1))"), "E-DATA-005", "(x :f33"),
    ("loader", fields("(x :f32 (1)) (y :f32 (2))"), "E-DATA-003", "(y :f32 (2))"),
    ("loader", fields("(x :f32 (1)) (x :f32 (1))"), "E-DATA-005", "(x :f32"),
    ("loader", source("(inline (x 1 2) (x 1 2))"), "E-DATA-005", "(x 1 2)"),
    ("loader", source("(inline (x 3000000000 1) (y 1 2))"), "E-DATA-005", "(x 3000"),
    ("loader", source("(inline (x 1e300 1.0) (y 1 2))"), "E-DATA-005", "(x 1e300"),
    ("loader", source("(synthetic 8 (x :u8 (1) (integers 0 300)))"), "E-DATA-005", "(synthetic"),
    ("loader", source("(synthetic 8 (x :u32 (1) (integers -1 3)))"), "E-DATA-005", "(synthetic"),
    ("loader", source("(synthetic 8 (x :f32 (1) (normal 0 -1)))"), "E-DATA-005", "(synthetic"),
    ("loader", source("(synthetic 8 (x :f32 (1) (uniform 1 0)))"), "E-DATA-005", "(synthetic"),
    (
        "loader",
        source("(synthetic 99999999999 (x :f32 (1) (normal 0 1)))"),
        "E-DATA-005",
        "(synthetic",
    ),
    ("loader", source('(npz "")'), "E-DATA-005", "(npz"),
    ("prepare", "(defun prepare (batch more) batch)", "E-ARG-001", "(defun prepare"),
    (
        "model",
        model("(defparam w (1 1) :dtype :f99) (forward (x) (matmul x w))"),
        "E-PARAM-004",
        "(defparam w",
    ),
    (
        "model",
        model("(defparam w (1 1) :dtype :f64) (forward (x) (matmul x w))"),
        "E-PARAM-004",
        "(defparam w",
    ),
    (
        "model",
        model("(defparam w (1 1) :init nil) (forward (x) (matmul x w))"),
        "E-PARAM-004",
        "(defparam w",
    ),
    (
        "model",
        model("(defparam w (1 1) :init (lambda () 3)) (forward (x) (matmul x w))"),
        "E-ARG-001",
        "(lambda ()",
    ),
    (
        "model",
        model("(defparam w (9999999 9999999)) (forward (x) (sum w))"),
        "E-PARAM-004",
        "(defparam w",
    ),
    ("model", model("(submodel f 3) (forward (x) (f x))"), "E-PARAM-001", "(submodel f"),
    ("objective", "(defun objective (model x) x)", "E-ARG-001", "(defun objective"),
    ("objective", objective(f"(values {MEAN} -1)"), "E-RUN-008", "(defun objective"),
    ("objective", objective("(cast (sum x) :i32)"), "E-RUN-008", "(defun objective"),
    (
        "objective",
        objective(f"(metric :a 1.0 :weight -1) {MEAN}"),
        "E-METRIC-002",
        "(metric :a",
    ),
    ("objective", objective(f"(metric :|| 1.0) {MEAN}"), "E-METRIC-002", "(metric"),
    (
        "objective",
        objective(f"(incf (counter :t) 99999999999999999999999) {MEAN}"),
        "E-RUN-022",
        "(incf",
    ),
    ("objective", objective(f"(metric :a 1.0 :reduec :sum) {MEAN}"), "E-METRIC-002", ":reduec"),
    ("extra", "foo", "E-NAME-001", "foo"),
    (
        "extra",
        "(defeval v :loader train :evaluate (lambda (m x y) x))",
        "E-RUN-008",
        "(lambda (m x y)",
    ),
    ("run", run(more=":checkpoint (:best (:min :train/loss))"), "E-RUN-006", "(:best"),
    ("run", run().replace("4", "99999999999999"), "E-RUN-006", "99999999999999"),
    ("run", "(defrun || :model (line) :optimizer (optim:sgd) :steps 4)", "E-RUN-005", "||"),
    ("run", run('(optim:sgd :lr "a")'), "E-OPT-001", "(optim:sgd"),
    ("run", groups('(group a "**" . 3)'), "E-OPT-003", "(group a"),
    ("run", groups('(group a "**" :forzen t)'), "E-OPT-004", "(group a"),
    ("run", groups("(group a (rank) :lr 1)"), "E-OPT-003", "(rank)"),
    ("run", groups('(group a (rank "a") :lr 1)'), "E-OPT-003", "(rank"),
    ("run", groups("(group a (dtype :f99) :lr 1)"), "E-OPT-003", "(dtype"),
    ("run", groups("(group a (size foo 2) :lr 1)"), "E-OPT-003", "(size foo"),
    ("run", groups("(group a (not) :lr 1)"), "E-OPT-003", "(not)"),
    ("run", groups("(group a (lambda () t) :lr 1)"), "E-ARG-001", "(lambda ()"),
]


@pytest.mark.parametrize("part, text, code, label", CASES)
def test_a_wrong_form_is_one_error_at_its_own_place(
    part: str, text: str, code: str, label: str
) -> None:
    found = errors(**{part: text})
    assert [d.code.id for d in found] == [code]
    assert found[0].span is not None
    assert found[0].span.text.startswith(label)


def optimizer(clauses: str) -> str:
    return f"(defoptimizer o (&key (lr 0.1)) {clauses})"


@pytest.mark.parametrize(
    "clauses, call, code, label",
    [
        ("(optimizer-update (p g) nil)", "(o)", "E-OPT-002", "(optimizer-update"),
        ("(optimizer-update (p) p)", "(o)", "E-ARG-001", "(optimizer-update"),
        ("(optimizer-update (p g) (- p (* lr g)))", "(o :lr nil)", "E-OPT-001", "(o :lr nil)"),
        (
            "(optimizer-update (p g) (- p (* lr g)))",
            "(o :lr (lambda (s) nil))",
            "E-OPT-001",
            "(lambda (s)",
        ),
        ("(defstate v (-1)) (optimizer-update (p g) p)", "(o)", "E-PARAM-004", "(defstate v"),
        (
            "(optimizer-update (p g) (loss-term :a (sum g)) p)",
            "(o)",
            "E-METRIC-002",
            "(loss-term",
        ),
    ],
)
def test_a_wrong_optimizer_is_shown_where_it_is_wrong(
    clauses: str, call: str, code: str, label: str
) -> None:
    found = errors(extra=optimizer(clauses), run=run(call))
    assert [d.code.id for d in found] == [code]
    assert found[0].span is not None
    assert found[0].span.text.startswith(label)


def test_a_missing_function_is_shown_at_the_run() -> None:
    found = errors(objective="")
    assert [d.code.id for d in found] == ["E-RUN-001"]
    assert found[0].span is not None


def test_evaluations_of_several_threads_do_not_mix() -> None:
    """Each thread's file compiles as it does alone."""
    told: list[int] = []

    def work(steps: int) -> None:
        for _ in range(3):
            found = check_text(program(run=run().replace("4", str(steps))))
            told.append(len(found))

    threads = [threading.Thread(target=work, args=(n,)) for n in (3, 5, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == [0] * 9


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_a_low_precision_parameter_has_an_f32_master(dtype: str, tmp_path: Path) -> None:
    """w = 0.3, one step of SGD on 0.5*w^2 at a low dtype: the master moves in f32."""
    import numpy as np

    import sexpgpu as sx

    text = program(
        model=model(f"(defparam w (1 1) :dtype :{dtype} :init 0.3) (forward (x) (cast w :f32))"),
        objective=objective("(* 0.5 (sum (square (funcall model x))))"),
        run=run("(optim:sgd :lr 0.001)"),
    )
    trained = sx.compile_text(text).run(steps=1, runs=str(tmp_path), device="interp")
    kept = trained.parameters["w"]
    assert kept.dtype == np.float32
    low = np.float32(np.float16(0.3)) if dtype == "f16" else np.float32(0.30078125)
    np.testing.assert_allclose(kept, [[np.float32(0.3) - np.float32(0.001) * low]], rtol=1e-6)


def test_an_undefined_function_is_told_once() -> None:
    found = check_text(program(objective=objective("(meen x)")))
    assert [d.code.id for d in found] == ["E-NAME-002"]


def test_a_giant_name_is_not_shown_whole() -> None:
    for text in ("a" * 100_000, "1e" + "9" * 100_000):
        found = check_text(text)
        assert all(len(d.headline) < 200 and len(d.fix or "") < 200 for d in found)


def test_a_refusal_names_the_function_once() -> None:
    found = errors(objective=objective("(mean (zeros (list 0)))"))
    assert found[0].headline.startswith("mean: ")
    assert "mean: mean:" not in found[0].headline
