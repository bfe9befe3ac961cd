"""Whatever a file does, its evaluation ends with a coded limit and a place, caught by nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sexpgpu.compiler import check_text, compile_source
from sexpgpu.diagnostics.model import Diagnostic
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.state import Limits
from sexpgpu.source import Source

CIRCULAR = "(let ((l (list 1 2))) (setf (cddr l) l) {})"
SHARED = "(let ((a (list 1))) (dotimes (i 60) (setq a (list a a))) {})"
DEEP = "(let ((l 1)) (dotimes (i 20000) (setq l (list {} l))) (eval l))"


def found(text: str, **limits: float) -> list[Diagnostic]:
    session = Session(Limits(**{"fuel": 200_000, "seconds": 10, **limits}))
    try:
        return session.load_all(Source("t.sx", text)).diagnostics
    finally:
        session.close()


@pytest.mark.parametrize(
    "text, code",
    [
        ("(loop)", "E-LIMIT-001"),
        ("(do () (nil))", "E-LIMIT-001"),
        ("(tagbody a (go a))", "E-LIMIT-001"),
        ("(loop repeat 100000000000 do (progn))", "E-LIMIT-001"),
        ("(dotimes (i 1000000000000))", "E-LIMIT-001"),
        ("(while t)", "E-LIMIT-001"),
        ("(range 100000000000)", "E-LIMIT-00"),
        ("(defun f (n) (f (1+ n)))\n(f 0)", "E-LIMIT-002"),
        ("(labels ((f () (mapcar (lambda (x) (f)) '(1)))) (f))", "E-LIMIT-002"),
        ("(labels ((f () (sort (list 1 2) (lambda (a b) (f))))) (f))", "E-LIMIT-002"),
        ('(labels ((f () (handler-bind ((error (lambda (c) (f)))) (error "x")))) (f))', "E-LIMIT"),
        ("(make-array 1000000000000)", "E-LIMIT-003"),
        ("(make-list 100000000)", "E-LIMIT-003"),
        ("(make-string 100000000000000000000000)", "E-LIMIT-003"),
        ("(expt 9 (expt 9 9))", "E-LIMIT-00"),
        ("(ash 1 100000000000000000000000)", "E-LIMIT-003"),
        ('(format nil "~1000000000d" 3)', "E-LIMIT-003"),
        ('(format nil "~1000000000a" "x")', "E-LIMIT-003"),
        ('(format nil "~v@a" 1000000000000000000000 "x")', "E-LIMIT-003"),
        ('(format nil "~1000000000%")', "E-LIMIT-003"),
        ('(format nil "~1000000000t")', "E-LIMIT-003"),
        ('(format nil "~,1000000000f" 1.5)', "E-LIMIT-003"),
        ('(format nil "~,1000000000e" 1.5)', "E-LIMIT-003"),
        ('(format nil "~1000000000$" 1.5)', "E-LIMIT-003"),
        ('(format nil "~1000000000<abc~>")', "E-LIMIT-003"),
        ('(format nil "~@{~a~:*~}" 1)', "E-LIMIT-00"),
        ("(defmacro e (x) `(e (e ,x)))\n(e 1)", "E-LIMIT-00"),
        ("(defmacro e (n) (if (= n 0) 1 `(+ (e ,(1- n)) (e ,(1- n)))))\n(e 60)", "E-LIMIT-001"),
        ("(defmacro e (&rest x) `(list (e ,@x ,@x)))\n(e 1 2 3)", "E-LIMIT-00"),
        ("(defmacro m (x) (loop))\n(m 1)", "E-LIMIT-001"),
        ("(define-symbol-macro a b)\n(define-symbol-macro b a)\n(list a)", "E-LIMIT-007"),
        ("(symbol-macrolet ((a (list a))) a)", "E-LIMIT-007"),
        ("(deftype a () 'b)\n(deftype b () 'a)\n(typep 1 'a)", "E-COND-001"),
        ("(define-setf-expander foo (x) (loop))\n(setf (foo 1) 2)", "E-LIMIT-001"),
        ("(" * 100_000, "E-LIMIT-006"),
        ("'" * 100_000 + "a", "E-LIMIT-006"),
        ("#(" * 100_000, "E-LIMIT-006"),
        ("`" * 100_000 + "a", "E-LIMIT-006"),
        ("#+(and " * 100_000, "E-LIMIT-006"),
        ("(read-from-string (make-string 100000 :initial-element #\\())", "E-LIMIT-006"),
        (DEEP.format("'1+"), "E-LIMIT-006"),
        (DEEP.format("'lambda '(x)"), "E-LIMIT-006"),
        (CIRCULAR.format("(eval (cons '+ l))"), "E-LIMIT-001"),
        (CIRCULAR.format("(setf (car l) l) (eval l)"), "E-LIMIT-001"),
        (CIRCULAR.format("(macroexpand (cons 'defmodel l))"), "E-LIMIT-001"),
        (CIRCULAR.format("(apply #'list l)"), "E-TYPE-001"),
        (CIRCULAR.format("(print l)"), "E-COND-001"),
        (CIRCULAR.format("(sort l #'<)"), "E-TYPE-001"),
        ("(defmacro m () (let ((l (list 'progn 1))) (setf (cddr l) l) l))\n(m)", "E-LIMIT-001"),
        (SHARED.format("(eval (subst '+ 1 a))"), "E-LIMIT-001"),
        (SHARED.format("(equal a (copy-tree a))"), "E-LIMIT-00"),
        (SHARED.format("(princ-to-string a)"), "E-LIMIT-00"),
        ("(let ((v (vector 1))) (setf (aref v 0) v) (print v))", "E-COND-001"),
        ("(defstruct s a)\n(let ((s (make-s))) (setf (s-a s) s) (print s))", "E-COND-001"),
        ('(loop (print "hello world"))', "E-LIMIT-00"),
        ("(handler-case (loop) (t () 1))", "E-LIMIT-001"),
        ("(unwind-protect (loop) (loop))", "E-LIMIT-001"),
        ("(let ((l nil)) (loop (push (make-string 1000) l)))", "E-LIMIT-00"),
        (
            (
                "(let ((s (make-string 400000 :initial-element #\\a)))\n"
                '  (search (concatenate \'string (subseq s 0 100000) "b") s))'
            ),
            "E-LIMIT-001",
        ),
    ],
)
def test_ends_with_a_code_and_a_place(text: str, code: str) -> None:
    diagnostics = found(text)
    assert [d.code.id[: len(code)] for d in diagnostics] == [code], diagnostics
    assert diagnostics[0].span is not None


@pytest.mark.parametrize(
    "text, fuel",
    [
        ('(format nil "~1000{~0*~}" (list 1))', 16_000),
        ('(format nil "~1000:{~0*~}" (make-list 1000))', 16_000),
        ("(macroexpand (cons 1 (make-list 100000)))", 300_000),
        ('(dotimes (i 1000) (ignore-errors (error "x")))', 32_000),
        ("(dotimes (i 1000) (handler-case (car i) (error () 1)))", 32_000),
    ],
)
def test_what_takes_long_takes_as_much_fuel(text: str, fuel: int) -> None:
    """So that fuel, which is the same everywhere, ends it and not the clock."""
    assert [d.code.id for d in found(text, fuel=fuel)] == ["E-LIMIT-001"]
    assert not found(text, fuel=2 * fuel)


def test_time_is_a_limit_of_its_own() -> None:
    (diagnostic,) = found("(loop)", fuel=10**12, seconds=0.2)
    assert diagnostic.code.id == "E-LIMIT-004"
    assert diagnostic.span is not None


def test_what_is_alive_is_a_limit_of_its_own() -> None:
    (diagnostic,) = found("(let ((l nil)) (loop (push 1 l)))", fuel=10**9, objects=300_000)
    assert diagnostic.code.id == "E-LIMIT-003"
    assert "objects" in str(diagnostic.fix)


def test_the_report_of_a_condition_may_not_end_either() -> None:
    text = "(define-condition c (error) () (:report (lambda (c s) {})))\n(error 'c)"
    for body in ("(loop)", "(error c)", "(princ c s)", "(throw 'x 1)"):
        assert [d.code.id for d in found(text.format(body))] == ["E-COND-001"]


LINE = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train :source (inline (x (0.0) (1.0)) (y (1.0) (3.0))) :batch 2)
(defun prepare (batch) (values (field batch :x) (field batch :y)))
(defmodel line () {clause} (submodel fit (nn:linear 1 1)) (forward (x) {forward}))
(defun objective (model x y) {objective})
(defrun line :model (line) :optimizer (optim:sgd :lr 0.1) :steps 2)
"""


@pytest.mark.parametrize(
    "changed",
    [
        {"objective": "(loop)"},
        {"forward": "(loop (setq x (+ x 1)))"},
        {"objective": "(labels ((f () (1+ (f)))) (f))"},
        {"clause": "(submodel many (repeat 100000000 (nn:linear 1 1)))"},
    ],
)
def test_models_and_objectives_end_too(changed: dict[str, str]) -> None:
    usual = {
        "clause": "",
        "forward": "(fit x)",
        "objective": "(nn:mse (funcall model x) y)",
    }
    assert not check_text(LINE.format(**usual))
    source = Source("t.sx", LINE.format(**{**usual, **changed}))
    compiled = compile_source(source, ".", limits=Limits(fuel=50_000))
    (found_,) = [d for d in compiled.diagnostics if d.severity == "error"]
    assert found_.code.id.startswith(("E-LIMIT", "E-PARAM")), found_
    assert found_.span is not None


def test_a_required_file_that_never_ends(tmp_path: Path) -> None:
    (tmp_path / "long.sx").write_text(" " * (17 << 20))
    (tmp_path / "folder.sx").mkdir()
    os.mkfifo(tmp_path / "pipe.sx")
    for path in ("./long.sx", "./folder.sx", "./pipe.sx"):
        source = Source("m.sx", f'(require "{path}" :as x)', str(tmp_path / "m.sx"))
        (diagnostic,) = Session().load_all(source).diagnostics
        assert diagnostic.code.id == "E-MOD-001"
