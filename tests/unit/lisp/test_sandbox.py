"""Nothing in the language reaches Python's objects, files, the clock or the network; what is taken
apart, misnamed or misused ends in a value or a coded error."""

from __future__ import annotations

import pytest

from sexpgpu.compiler import check_text
from sexpgpu.diagnostics.model import SxError
from sexpgpu.lisp.printer import prin1_text
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.state import Limits
from sexpgpu.source import Source


def answer(text: str) -> str:
    """The values as printed, or the code of the error."""
    session = Session(Limits(fuel=300_000, seconds=100))
    module = session.new_module("m")
    try:
        return session.run(
            lambda: " ".join(map(prin1_text, session.evaluate(Source("t.sx", text), module)))
        )
    except SxError as error:
        first = error.diagnostics[0]
        return first.code.id if first.span is not None else f"{first.code.id} without a place"
    finally:
        session.close()


@pytest.mark.parametrize(
    "text, expected",
    [
        # names are only names
        ("(list '|a.__class__| '__import__)", "(a.__class__ __import__)"),
        ('(__import__ "os")', "E-NAME-002"),
        ('(funcall (intern "__import__") "os")', "E-NAME-002"),
        ("(symbol-value '__dict__)", "E-NAME-001"),
        ('(aref #(1 2) "__class__")', "E-TYPE-001"),
        ("(getf (list :a 1) '__class__)", "nil"),
        # reading evaluates nothing
        ("#.(car '(1))", "E-READ-005"),
        ('(read-from-string "#.(+ 1 2)")', "E-COND-004"),
        ('(read-from-string "#<car>")', "E-COND-004"),
        ('(read-from-string "#1=(a . #1#)")', "E-COND-004"),
        # format formats
        ('(format nil "{0.__class__} %s")', '"{0.__class__} %s"'),
        ('(format nil "~/os:system/" "ls")', "E-COND-001"),
        # no files, clock, programs
        ('(open "/etc/passwd")', "E-NAME-002"),
        ('(load "/etc/passwd")', "E-NAME-002"),
        ("(get-universal-time)", "E-NAME-002"),
        ('(run-program "ls" nil)', "E-NAME-002"),
        ('(require (concatenate \'string "./" "x") :as x)', "E-MOD-003"),
        ('(require "http://example.com/x.sx" :as x)', "E-MOD-001"),
        # structures, conditions and hash keys named like the insides of Python's
        (
            "(defstruct __class__ __dict__)\n(__class__-__dict__ (make-__class__ :__dict__ 1))",
            "1",
        ),
        ("(defstruct s items type)\n(s-items (make-s :items 1 :type 2))", "1"),
        (
            (
                "(let ((h (make-hash-table :test 'equal)))\n"
                '  (setf (gethash "__class__" h) 1) (gethash "__class__" h))'
            ),
            "1 t",
        ),
        (
            (
                "(define-condition c (error) ((slots :initarg :slots :reader c-slots)))\n"
                "(handler-case (error 'c :slots 1) (c (x) (c-slots x)))"
            ),
            "1",
        ),
        ("(define-condition c (error) ((code :initarg :code)))\n(error 'c :code 1)", "E-COND-001"),
        (
            (
                "(define-condition c (type-error) ((sequence :initarg :sequence)))\n"
                "(error 'c :sequence 1)"
            ),
            "E-TYPE-001",
        ),
        (
            '(define-condition c (error) ((message :initarg :message)))\n(error \'c :message "m")',
            "E-COND-001",
        ),
        (
            (
                "(define-condition c (unbound-variable) ((scope :initarg :scope)))\n"
                "(error 'c :scope 1 :name 'x)"
            ),
            "E-NAME-001",
        ),
        ("(error 'type-error)", "E-TYPE-001"),
        ('(error "~a ~a" 1)', "E-COND-001"),
        # the variables of the printer and the reader
        ("(setf *print-base* 'x)\n(princ-to-string 1)", "E-TYPE-001"),
        ("(setf *print-base* 100)\n(princ-to-string 1)", "E-TYPE-001"),
        ('(setf *print-length* "x")\n(princ-to-string (list 1 2))', "E-TYPE-001"),
        ("(setf *print-level* -1)\n(princ-to-string (list 1 2))", "E-TYPE-001"),
        # CL's own stays what it is
        ("(setf (symbol-function 'car) #'cdr)", "E-NAME-004"),
        ("(setf (macro-function 'when) (lambda (f e) 1))", "E-NAME-004"),
        ("(fmakunbound 'car)", "E-NAME-004"),
        ("(defun (setf car) (new list) new)", "E-NAME-004"),
        ("(setf (fdefinition '(setf car)) #'cdr)", "E-NAME-004"),
        ("(defsetf car (list) (new) new)", "E-NAME-004"),
        ("(define-setf-expander nth (n list) nil)", "E-NAME-004"),
        ("(deftype integer () 'string)", "E-NAME-004"),
        ("(defstruct list a)", "E-NAME-004"),
        ("(defstruct (string (:conc-name s-)) a)", "E-NAME-004"),
        ("(define-condition error () ())", "E-NAME-004"),
        ("(defun nil () 1)", "E-ARG-004"),
        ("(defmacro t () 1)", "E-ARG-004"),
        # half characters, which no text can hold
        ("(code-char 55296)", "nil"),
        ("#\\ud800", "E-READ-009"),
        # expansions taken apart
        ("(eval (list (first (macroexpand '(export x))) 5))", "E-ARG-004"),
        ("(eval (list (first (macroexpand '(export x))) '(quote 5)))", "E-ARG-004"),
        ("(funcall (first (macroexpand '(export x))) 1)", "E-TYPE-001"),
        ("(atom (first (macroexpand '(export x))))", "t"),
        ("(equalp (macroexpand '(export x)) (macroexpand '(export x)))", "nil"),
        # environments
        ("(defmacro m (&environment e) (list 'quote e))\n(+ 1 (m))", "E-TYPE-001"),
        ("(macroexpand '(when 1) 5)", "E-TYPE-001"),
        ("(macro-function 'when 5)", "E-TYPE-001"),
        ("(funcall (macro-function 'require) '(require) 5)", "E-TYPE-001"),
        ("(funcall (macro-function 'defmodel) 5 nil)", "E-TYPE-001"),
    ],
)
def test_attempt(text: str, expected: str) -> None:
    assert answer(text) == expected


RUN = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train :source (inline (x (0.0) (1.0)) (y (1.0) (3.0))) :batch 2)
(defun prepare (batch) (values (field batch :x) (field batch :y)))
(defmodel line () (submodel fit (nn:linear 1 1)) (forward (x) (fit x)))
(defun objective (model x y) {attempt} (nn:mse (funcall model x) y))
(defrun line :model (line) :optimizer (optim:sgd :lr 0.1) :steps 2)
"""


@pytest.mark.parametrize(
    "attempt, code",
    [
        ("", None),
        ('(princ x) (princ model) (format nil "~a ~s ~w" x model y)', None),
        ("(equalp x y) (eql x x) (type-of x) (typep model 'list)", None),
        ("(let ((h (make-hash-table :test 'equal))) (setf (gethash x h) model))", None),
        ("(defstruct holder a) (make-holder :a x)", None),
        ('(error "the ~a ~s" x model)', "E-COND-001"),
        ("(error 'type-error :datum x :expected-type 'integer)", "E-TYPE-001"),
        ("(slot-value model 'fit)", "E-NAME-002"),
        ("(car x)", "E-TYPE-001"),
        ("(funcall x 1)", "E-TYPE-001"),
        ("(eval x) (eval (list 'list x model))", None),
        ("(eval (list x 1))", "E-ARG-004"),
        ("(coerce x 'list)", "E-"),
        ("(sort (list x y) #'<)", "E-FLOW-001"),
        ("(intern x)", "E-TYPE-001"),
        ("(read-from-string x)", "E-TYPE-001"),
        ('(aref "abc" x)', "E-"),
        ("(make-list x)", "E-"),
        ("(setf (aref x 0) 1)", "E-"),
        ("(copy-structure model)", "E-TYPE-001"),
    ],
)
def test_attempt_with_tensors_and_models(attempt: str, code: str | None) -> None:
    errors = [d for d in check_text(RUN.format(attempt=attempt)) if d.severity == "error"]
    codes = [d.code.id[: len(code or "")] for d in errors]
    assert codes == ([code] if code else []), errors
    assert all(d.span is not None for d in errors)
