"""Warnings of names that a macro captures: told where they are mistakes, and only there."""

from __future__ import annotations

import pytest

from sexpgpu.lisp.session import Session
from sexpgpu.source import Source

MACROS = """
(defmacro swap (a b) `(let ((kept ,a)) (setf ,a ,b ,b kept)))
(defmacro aif (test then) `(let ((it ,test)) (if it ,then nil)))
(defmacro each ((name list) &body body) `(dolist (,name ,list) ,@body))
(defmacro either (a b) `(let ((v ,a)) (if v v ,b)))
(defmacro twice (&body body) `(dotimes (i 2) ,@body))
(defmacro later (form) `(lambda (x) (list x ,form)))
(defmacro divided (form) `(multiple-value-bind (q r) (floor 7 2) (list q r ,form)))
(defmacro adding (&body body) `(let* ((total 0)) ,@body total))
(defmacro stepping (form) `(do ((i 0 (+ i 1))) ((= i 1)) ,form))
(defun half (x) (/ x 2))
(defmacro quarter (x) `(half (half ,x)))
(defmacro with-half (&body body) `(flet ((half (x) x)) ,@body (half 1)))
"""
FIRST = MACROS.count("\n") + 1


def warnings(form: str) -> list[str]:
    """`code column` of the warnings of a form on the line after the macros."""
    session = Session()
    try:
        loaded = session.load_all(Source("t.sx", MACROS + form))
        found = [*loaded.diagnostics, *session.diagnostics]
    finally:
        session.close()
    assert all(d.span is not None and d.span.line == FIRST for d in found), found
    return [f"{d.code.id} {d.span.column}" for d in found if d.span is not None]


@pytest.mark.parametrize(
    "form, expected",
    [
        ("(let ((kept 1) (b 2)) (swap b kept) (list kept b))", "W-MACRO-001 23"),
        ("(let ((kept 1) (b 2)) (swap kept b) (list kept b))", "W-MACRO-001 23"),
        ("(let ((v 3)) (either nil (list v)))", "W-MACRO-001 32"),
        ("(let ((i 7)) (twice (list i i)))", "W-MACRO-001 27"),
        ("(let ((x 1)) (funcall (later (list x)) 5))", "W-MACRO-001 36"),
        ("(let ((q 1)) (divided q))", "W-MACRO-001 14"),
        ("(let ((total 3)) (adding (incf total)))", "W-MACRO-001 32"),
        ("(let ((i 3)) (stepping (list i)))", "W-MACRO-001 30"),
        ("(defparameter v 3) (either nil (list v))", None),  # bound dynamically: not lexical
        ("(flet ((half (x) (list x))) (list (half 1) (quarter 8)))", "W-MACRO-002 44"),
    ],
)
def test_told(form: str, expected: str | None) -> None:
    assert warnings(form) == ([expected] if expected else [])


@pytest.mark.parametrize(
    "form",
    [
        "(let ((a 1) (b 2)) (swap a b) (list a b))",
        "(aif (car (list 1)) (aif (+ it 1) (list it)))",  # anaphoric on purpose
        "(let ((x 1)) (each (x (list 1 2)) (list x)) x)",  # the caller names the variable
        "(let ((v 3)) (either nil (let ((v 5)) (list v))) v)",  # bound anew by the caller
        "(let ((v 3)) (list v (either nil 4)))",
        "(either nil (either 1 2))",
        "(macrolet ((m (x) `(let ((v 1)) (list v ,x)))) (let ((v 2)) (m v)))",
        "(with-half (list 1))",
        "(flet ((half (x) (list x))) (macrolet ((q (x) `(half ,x))) (q 8)))",
        "(with-gensyms (a) (list a))",
        "(let ((result 1)) (while nil (list result)) (-> result (+ 1)))",
    ],
)
def test_not_told(form: str) -> None:
    assert warnings(form) == []
