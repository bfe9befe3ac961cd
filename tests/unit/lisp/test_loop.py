"""`loop` beyond the table: order of evaluation, places of exits, errors, limits."""

from __future__ import annotations

import pytest

from sexpgpu.diagnostics.model import SxError
from sexpgpu.lisp.printer import prin1_text
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.state import Limits


def shown(text: str, limits: Limits | None = None) -> str:
    session = Session(limits)
    try:
        values = session.evaluate(text, session.new_module("main"))
        return " ".join(prin1_text(value) for value in values)
    finally:
        session.close()


CASES = [
    # forms of a clause are evaluated once, in the order they are written
    (
        """(let ((log nil))
             (flet ((note (x) (push x log) x))
               (loop for i from (note 1) to (note 3) by (note 2) collect i)
               (reverse log)))""",
        "(1 3 2)",
    ),
    # a loop in a loop: loop-finish leaves the inner one
    (
        """(loop for x in '(1 2)
                 collect (loop for y in '(a b c)
                               do (when (eq y 'b) (loop-finish))
                               collect (list x y)))""",
        "(((1 a)) ((2 a)))",
    ),
    # loop-finish inside a simple loop leaves the extended loop around it
    ("(loop for x in '(1 2 3) do (loop (loop-finish)) finally (return x))", "1"),
    # finally is skipped by return, run by loop-finish
    ("(let ((r 0)) (loop for x in '(1) do (return) finally (incf r)) r)", "0"),
    ("(let ((r 0)) (loop for x in '(1) do (loop-finish) finally (incf r)) r)", "1"),
    # closures over a variable made inside the body are separate
    (
        """(mapcar #'funcall (loop for i below 3
                                   collect (let ((j i)) (lambda () (incf j 10)))))""",
        "(10 11 12)",
    ),
    # two accumulations into names, one of them shared by two kinds of list clause
    (
        """(loop for x in '(1 2 3)
                 collect x into all append (list x x) into all
                 maximize x into top
                 finally (return (list all top)))""",
        "((1 1 1 2 2 2 3 3 3) 3)",
    ),
    # an `into` list is a proper list while the loop runs
    ("(loop for x in '(1 2 3) collect x into l collect (length l))", "(1 2 3)"),
    # nconc changes the parts, append does not
    ("(let ((a (list 1)) (b (list 2))) (loop for x in (list a b) nconc x) a)", "(1 2)"),
    ("(let ((a (list 1)) (b (list 2))) (loop for x in (list a b) append x) a)", "(1)"),
    # `it` is the value of the innermost test
    ("(loop for x in '(1 3 2) when (cdr (assoc x '((1 . a) (2 . b)))) collect it)", "(a b)"),
    # while between accumulations
    ("(loop for x in '(1 2 3) collect x while (< x 2) collect (- x))", "(1 -1 2)"),
    # stepping is in the order of the clauses
    ("(loop for x in '(1 2) for y = (* 10 x) for z = (+ x y) collect z)", "(11 22)"),
    (
        "(loop for x = 0 then (+ y 1) for y = x then (* x 2) repeat 4 collect (list x y))",
        "((0 0) (1 2) (3 6) (7 14))",
    ),
    # special variables are bound dynamically
    (
        """(defvar *v* 0)
           (flet ((get-v () *v*)) (list (loop for *v* in '(1 2) collect (get-v)) *v*))""",
        "((1 2) 0)",
    ),
]


@pytest.mark.parametrize("text, expected", CASES)
def test_value(text: str, expected: str) -> None:
    assert shown(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "(loop for)",
        "(loop for x)",
        "(loop for x in)",
        "(loop for 3 in '(1))",
        "(loop for x within '(1))",
        "(loop collect)",
        "(loop for x in '(1) bogus)",
        "(loop for x from 1 to 2 to 3)",
        "(loop for x in '(1) collect x sum x)",
        "(loop for x in '(1) for x in '(2) collect x)",
        "(loop for x in '(1) always x collect x)",
        "(loop for x being the weather of t)",
        "(loop with)",
        "(loop do)",
        "(loop finally)",
        "(loop named 3 return 1)",
    ],
)
def test_malformed_loops_are_program_errors(text: str) -> None:
    assert shown(f"(handler-case (eval '{text}) (program-error () 'refused))") == "refused"


@pytest.mark.parametrize(
    "text",
    ["(loop)", "(loop while t)", "(loop for x = 1 collect x)", "(loop for i from 1 sum i)"],
)
def test_endless_loops_reach_a_limit(text: str) -> None:
    with pytest.raises(SxError) as found:
        shown(text, Limits(fuel=100_000, seconds=50))
    assert found.value.diagnostics[0].code.id.startswith("E-LIMIT")


def test_joining_never_changes_the_program() -> None:
    text = """
    (defun parts (x) `(,x 1))
    (defun joined () (loop for x in '(a b) nconc (parts x) nconc '(z)))
    (list (joined) (joined) (mapcan #'parts '(a b)) (mapcan #'parts '(a b)) (parts 'c))
    """
    assert shown(text) == "((a 1 z b 1 z) (a 1 z b 1 z) (a 1 b 1) (a 1 b 1) (c 1))"
