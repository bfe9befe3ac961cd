"""Builtins that could do too much stop at a limit at once; nothing in the Lisp can catch that."""

from __future__ import annotations

from time import monotonic

import pytest

from sexpgpu.diagnostics.model import SxError
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.state import Limits

TOO_MUCH = [
    "(expt 9 (expt 9 9))",
    "(expt 2/3 (expt 9 12))",
    "(ash 1 (expt 10 12))",
    "(make-list (expt 10 10))",
    "(make-string (expt 10 12))",
    "(make-array (expt 10 10))",
    "(make-sequence 'list (expt 10 10))",
    "(make-sequence 'string (expt 10 12) :initial-element #\\x)",
    "(let ((x 3)) (loop (setq x (* x x))))",
    "(let ((x 1)) (loop for i from 1 do (setq x (* x i))))",
    '(let ((s "abcdefgh")) (loop (setq s (concatenate \'string s s))))',
    "(let ((l (list 1))) (loop (setq l (append l l))))",
    "(let ((l (list 1 2))) (setf (cddr l) l) (print l))",
    "(let ((l (list 1 2))) (setf (cddr l) l) (length l))",
    "(let ((l (list 1 2))) (setf (cddr l) l) (mapcar #'1+ l))",
    "(let ((l (list 1 2))) (setf (cddr l) l) (member 5 l))",
    "(let ((l (list 1 2))) (setf (cddr l) l) (equal l (copy-list l)))",
    "(let ((l (list 1 2))) (setf (cddr l) l) (reduce #'+ l))",
    "(let ((l (list 1 2))) (setf (cdr l) l) (copy-tree l))",
    "(let ((l (list 1 2))) (setf (cdr l) l) (last l))",
    "(princ (expt 7 (expt 10 7)))",
    "(dpb 1 (byte 1 (expt 10 12)) 0)",
    "(reduce #'* (loop for i from 1 to 200000 collect (expt 3 i)))",
    '(let ((s (make-string-output-stream))) (loop (write-string "0123456789abcdef" s)))',
]


@pytest.mark.parametrize("form", TOO_MUCH)
def test_stops_soon_and_is_not_caught(form: str) -> None:
    session = Session(Limits(fuel=300_000, memory=5_000_000, seconds=10))
    start = monotonic()
    try:
        with pytest.raises(SxError) as found:
            session.evaluate(f"(handler-case {form} (error () 'caught))", session.new_module("m"))
    finally:
        session.close()
    code = found.value.diagnostics[0].code.id
    assert code.startswith("E-LIMIT"), found.value.diagnostics[0]
    assert monotonic() - start < 8


@pytest.mark.parametrize(
    "form",
    ["(exp 1000)", "(expt 10.0 400)", "(* 1e300 1e300)", "(float (expt 10 400))", "(/ 1 0.0)"],
)
def test_float_overflow_is_an_arithmetic_error(form: str) -> None:
    session = Session()
    try:
        text = f"(handler-case {form} (arithmetic-error () 'arithmetic))"
        (value,) = session.evaluate(text, session.new_module("m"))
        assert value.name == "arithmetic"
    finally:
        session.close()
