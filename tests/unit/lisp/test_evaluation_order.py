"""Arguments, places and bindings: everything once, from left to right, whatever the call's shape.

A probe `(p n value)` notes n and gives the value. The forms number their probes in the order that
CL prescribes, so that every trace must be 0 1 2 …; a second test lets SBCL run the same forms."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexpgpu.lisp.session import Session
from sexpgpu.lisp.values import Module, python_list

PROBES = """
(defvar *trace* nil)
(defun p (n value) (setq *trace* (cons n *trace*)) value)
(defun f0 () 1)
(defun f (&rest all) all)
(defun f2 (a b) (list a b))
(defun opt (a &optional (b (p 2 5)) (c (p 3 b))) (list a b c))
(defun keys (&key (a (p 2 1)) b (c (p 3 b))) (list a b c))
(defun aux (a &aux (b (p 1 a)) (c (p 2 b))) (list a b c))
(defun (setf mine) (new place index) (setf (svref place index) new))
(defun mine (place index) (svref place index))
(defmacro pass (a b) `(f ,a ,b))
(define-modify-macro addf (n) +)
(defstruct box a b)
"""

# Each is one form; its probes are numbered in the order they must run.
FORMS = """
(f (p 0 1) (p 1 2) (p 2 3) (p 3 4) (p 4 5))
(f2 (p 0 1) (p 1 2))
(funcall (p 0 #'f) (p 1 1) (p 2 2))
(funcall #'f (p 0 1) (p 1 2))
(apply (p 0 #'f) (p 1 1) (p 2 (list 2 3)))
(apply #'f (p 0 1) (p 1 '(2)))
((lambda (a b &optional (c (p 2 9))) (list a b c)) (p 0 1) (p 1 2))
(multiple-value-call (p 0 #'f) (p 1 1) (values (p 2 2) (p 3 3)) (p 4 4))
(flet ((g (a b c) (list a b c))) (g (p 0 1) (p 1 2) (p 2 3)))
(labels ((g (a &rest b) (list a b))) (g (p 0 1) (p 1 2) (p 2 3)))
(opt (p 0 1) (p 1 2) (p 2 3))
(progn (p 0 0) (opt (p 1 1)))
(keys :b (p 0 1) :a (p 1 2) :c (p 2 3))
(progn (p 0 0) (keys :b (p 1 1)))
(aux (p 0 1))
(pass (p 0 1) (p 1 2))
(+ (p 0 1) (p 1 2) (p 2 3))
(- (p 0 9) 1 (p 1 2))
(* 2 (p 0 1) (p 1 2))
(+ (p 0 1) (p 1 2))
(- (p 0 5) (p 1 2))
(< (p 0 1) (p 1 2))
(< (p 0 1) (p 1 2) (p 2 3))
(> (p 0 1) (p 1 2) (p 2 3))
(= (p 0 1) (p 1 1))
(eql (p 0 1) (p 1 2))
(eq (p 0 'a) (p 1 'b))
(cons (p 0 1) (p 1 2))
(list (p 0 1) (p 1 2) (p 2 3))
(list* (p 0 1) (p 1 2) (p 2 nil))
(vector (p 0 1) (p 1 2))
(append (p 0 (list 1)) (p 1 (list 2)) (p 2 nil))
(mapcar (p 0 #'f2) (p 1 '(1)) (p 2 '(2)))
(reduce (p 0 #'+) (p 1 '(1 2)) :initial-value (p 2 0))
(find (p 0 1) (p 1 '(1 2)) :test (p 2 #'eql) :key (p 3 #'identity))
(sort (p 0 (list 2 1)) (p 1 #'<) :key (p 2 #'identity))
(aref (p 0 (vector 1 2)) (p 1 1))
(elt (p 0 '(1 2)) (p 1 1))
(nth (p 0 1) (p 1 '(1 2)))
(values (p 0 1) (p 1 2) (p 2 3))
(let ((a (p 0 1)) (b (p 1 2)) (c (p 2 3))) (list (p 3 a) b c))
(let* ((a (p 0 1)) (b (p 1 a)) (c (p 2 b))) (list (p 3 a) b c))
(let ((*trace-unused* (p 0 1)) (a (p 1 2))) a)
(progv (p 0 '(*x1* *x2*)) (p 1 '(1 2)) (p 2 3))
(let ((a 0) (b 0)) (setq a (p 0 1) b (p 1 2)) (list a b))
(let ((a 1) (b 2)) (psetq a (p 0 b) b (p 1 a)) (list a b))
(let ((v (vector 1 2 3))) (setf (aref (p 0 v) (p 1 0)) (p 2 9)) v)
(let ((v (list 1 2 3))) (setf (nth (p 0 1) (p 1 v)) (p 2 9)) v)
(let ((v (list 1 2 3))) (setf (car (p 0 v)) (p 1 9) (cadr (p 2 v)) (p 3 8)) v)
(let ((v (vector 1 2))) (setf (mine (p 0 v) (p 1 1)) (p 2 9)) v)
(let ((h (make-hash-table))) (setf (gethash (p 0 1) (p 1 h) (p 2 nil)) (p 3 5)) (gethash 1 h))
(let ((v (list :a 1))) (setf (getf v (p 0 :b) (p 1 nil)) (p 2 3)) v)
(let ((v (list 1 2 3 4))) (setf (subseq (p 0 v) (p 1 1) (p 2 3)) (p 3 '(8 9))) v)
(let ((b (make-box :b (p 0 1) :a (p 1 2)))) (setf (box-a (p 2 b)) (p 3 9)) (box-a b))
(let ((v (vector 1 2 3)) (i 0)) (incf (aref (p 0 v) (incf i)) (p 1 5)) (list v i))
(let ((v (vector 1 2 3)) (i 0)) (decf (aref v (p 0 (incf i)))) (list v i))
(let ((v (vector nil nil))) (push (p 0 1) (aref (p 1 v) (p 2 0))) v)
(let ((v (vector nil nil))) (pushnew (p 0 1) (aref (p 1 v) (p 2 0)) :test (p 3 #'eql)) v)
(let ((v (vector (list 1 2)))) (list (pop (aref (p 0 v) (p 1 0))) v))
(let ((v (vector 1 2))) (addf (aref (p 0 v) (p 1 0)) (p 2 3)) v)
(let ((v (vector 1 2 3))) (rotatef (aref (p 0 v) (p 1 0)) (aref (p 2 v) (p 3 1))) v)
(let ((v (vector 1 2 3))) (list (shiftf (aref (p 0 v) (p 1 0)) (aref (p 2 v) (p 3 1)) (p 4 7)) v))
(let ((v (vector 1 2))) (psetf (aref (p 0 v) (p 1 0)) (p 2 8) (aref (p 3 v) (p 4 1)) (p 5 9)) v)
(let ((v (list :a 1 :b 2))) (remf (cdr (p 0 (cons 1 v))) (p 1 :b)))
(let ((a 1) (b 2)) (multiple-value-setq (a b) (values (p 0 3) (p 1 4))) (list a b))
(let ((v (list 1 2))) (setf (values (car (p 0 v)) (cadr (p 1 v))) (values (p 2 8) (p 3 9))) v)
(let ((v (vector 1 2))) (setf (the integer (aref (p 0 v) 0)) (p 1 8)) v)
(let ((v (vector 1 2))) (setf (apply #'aref (p 0 v) (p 1 '(1))) (p 2 8)) v)
(let ((n 12)) (setf (ldb (p 0 (byte 2 0)) n) (p 1 3)) n)
(prog1 (p 0 1) (p 1 2) (p 2 3))
(prog2 (p 0 1) (p 1 2) (p 2 3))
(multiple-value-prog1 (p 0 1) (p 1 2))
(unwind-protect (p 0 1) (p 1 2) (p 2 3))
(cond ((p 0 nil) 1) ((p 1 t) (p 2 2)) ((p 3 t) 3))
(and (p 0 1) (p 1 nil) (p 2 1))
(or (p 0 nil) (p 1 1) (p 2 1))
(case (p 0 2) (1 (p 1 1)) (2 (p 1 2)))
(if (p 0 nil) (p 1 1) (p 1 2))
(dotimes (i (p 0 2)) (p (1+ i) i))
(dolist (i (p 0 '(1 2)) (p 3 0)) (p i i))
(do ((i (p 0 0) (+ i (p (+ 2 i) 1))) (j (p 1 0))) ((= i 2) j))
(loop for i from (p 0 1) to (p 1 3) by (p 2 2) collect i)
(loop for i in (p 0 '(1 2)) for j = (p i i) collect j)
(loop with a = (p 0 1) with b = (p 1 2) repeat (p 2 1) collect (list a b))
(destructuring-bind (a &optional (b (p 1 2)) &key (c (p 2 3))) (p 0 '(1)) (list a b c))
(multiple-value-list (floor (p 0 7) (p 1 2)))
(nth-value (p 0 1) (values (p 1 1) (p 2 2)))
(catch (p 0 'tag) (throw (p 1 'tag) (p 2 5)))
(block nil (return (p 0 1)) (p 1 2))
(funcall (if (p 0 t) #'f #'f2) (p 1 1) (p 2 2))
(format nil (p 0 "~a ~a") (p 1 1) (p 2 2))
(string= (p 0 "a") (p 1 "b") :start1 (p 2 0) :end1 (p 3 1))
(let ((x 1)) (f x (setq x (p 0 2)) x))
(let ((x 1)) (+ x (setq x (p 0 2)) x))
(let ((x 1)) (list x (incf x) x (incf x (p 0 2)) x))
(let ((x 1)) (- (setq x (p 0 5)) x))
(let ((x (list 1))) (list (car x) (setf (car x) (p 0 2)) (car x)))
""".strip().splitlines()


@pytest.fixture(scope="module")
def main() -> Iterator[tuple[Session, Module]]:
    session = Session()
    module = session.new_module("main")
    session.evaluate(PROBES, module)
    yield session, module
    session.close()


def trace(main: tuple[Session, Module], form: str) -> tuple[str, list[Any]]:
    """The printed value of a form, and what its probes noted."""
    session, module = main
    text = f"(progn (setq *trace* nil) (let ((v {form})) (list (prin1-to-string v) *trace*)))"
    value, notes = python_list(session.evaluate(text, module)[0])
    return value.text, python_list(notes)[::-1]


@pytest.mark.parametrize("form", FORMS)
def test_once_each_and_from_left_to_right(main: tuple[Session, Module], form: str) -> None:
    _, noted = trace(main, form)
    assert noted == list(range(len(noted)))
    assert noted


@pytest.mark.parametrize("form", FORMS)
def test_the_same_inside_a_compiled_function(main: tuple[Session, Module], form: str) -> None:
    assert trace(main, f"(funcall (lambda () {form}))") == trace(main, form)
    assert trace(main, f"(eval '{form})") == trace(main, form)


def test_as_sbcl(main: tuple[Session, Module]) -> None:
    sbcl = shutil.which("sbcl")
    if sbcl is None:
        pytest.skip("sbcl is not installed")
    forms = "\n".join(
        f'(let ((*trace* nil)) (let ((v {form})) (format t "~s ~s~%" v (reverse *trace*))))'
        for form in FORMS
    )
    setting = (
        "(setf sb-ext:*evaluator-mode* :interpret *print-case* :downcase *print-pretty* nil)"
        "(declaim (sb-ext:muffle-conditions warning))"
    )
    done = subprocess.run(
        [sbcl, "--noinform", "--script", "/dev/stdin"],
        input=f"{setting}{PROBES}\n{forms}",
        capture_output=True,
        text=True,
        check=True,
    )
    ours = []
    for form in FORMS:
        value, noted = trace(main, form)
        ours.append(f"{value} ({' '.join(map(str, noted))})")
    assert ours == done.stdout.splitlines()


class Numbered:
    """Random nested forms, whose probes are numbered as they are written: that is their order."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.count = 0

    def probe(self, value: str) -> str:
        self.count += 1
        return f"(p {self.count - 1} {value})"

    def form(self, depth: int) -> str:
        """A form with an integer value."""
        shape = self.draw(st.integers(0, 15)) if depth else 0
        sub = lambda: self.form(depth - 1)  # noqa: E731
        match shape:
            case 0 | 1:
                return self.probe("1")
            case 2:
                return f"(+ {sub()} {sub()} {sub()})"
            case 3:
                return f"(- {sub()} 1)"
            case 4:
                return f"(progn {sub()} {sub()})"
            case 5:
                return f"(let ((a {sub()}) (b {sub()})) (+ a {sub()} b))"
            case 6:
                return f"(let* ((a {sub()}) (b (+ a {sub()}))) (+ b {sub()}))"
            case 7:
                return f"(car (list {sub()} {sub()}))"
            case 8:
                return f"(apply #'+ {sub()} (list {sub()} {sub()}))"
            case 9:
                return f"(funcall (lambda (a b) (max a {sub()} b)) 1 2)"
            case 10:
                return f"(let ((v (vector {sub()} 2))) (incf (aref v (* 0 {sub()})) {sub()}))"
            case 11:
                return f"(let ((l nil)) (push {sub()} l) (setf (car l) {sub()}) (pop l))"
            case 12:
                return f"(if (< {sub()} -1000000) 0 {sub()})"
            case 13:
                return f"(multiple-value-bind (a b) (values {sub()} {sub()}) (+ a b))"
            case 14:
                return f"(block nil (return (+ {sub()} {sub()})))"
            case _:
                return f"(flet ((g (a b &key c) (+ a b c))) (g {sub()} {sub()} :c {sub()}))"


@given(st.data())
def test_of_nested_forms(main: tuple[Session, Module], data: Any) -> None:
    maker = Numbered(data.draw)
    form = maker.form(3)
    assert trace(main, form)[1] == list(range(maker.count))
