"""The prelude: values of its functions, evaluation counts of its macros, docstrings."""

from __future__ import annotations

import pytest

from sexpgpu.diagnostics.model import SxError
from sexpgpu.lisp.analyze import SPECIAL
from sexpgpu.lisp.printer import prin1_text
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.values import CL, PRELUDE

CASES = [
    ("(-> 5 (- 2) list)", "(3)"),
    ("(->> 5 (- 2) list)", "(-3)"),
    ("(-> 5)", "5"),
    ("(as-> 1 x (+ x 1) (list x x))", "(2 2)"),
    ("(as-> 1 x)", "1"),
    ("(if-let (x (car '(1))) (+ x 1) 'none)", "2"),
    ("(if-let (x nil) (+ x 1) 'none)", "none"),
    ("(let ((x 1)) (if-let (x nil) 0 x))", "1"),
    ("(if-let ((x 3)) x)", "3"),
    ("(when-let (x 2) (list x) (* x 3))", "6"),
    ("(when-let (x nil) 1)", "nil"),
    ("(let ((i 0)) (while (< i 3) (incf i)) i)", "3"),
    ("(let ((i 0)) (until (= i 3) (incf i)) i)", "3"),
    ("(let ((i 0)) (while t (when (= (incf i) 4) (return i))))", "4"),
    ("(funcall (partial #'- 10) 3 2)", "5"),
    ("(funcall (compose #'1+ #'abs #'-) 5 7)", "3"),
    ("(funcall (compose) 5)", "5"),
    ("(range 4)", "(0 1 2 3)"),
    ("(range 2 5)", "(2 3 4)"),
    ("(range 0 1 1/4)", "(0 1/4 1/2 3/4)"),
    ("(range 5 0 -2)", "(5 3 1)"),
    ("(range 0)", "nil"),
    ("(enumerate '(a b))", "((0 a) (1 b))"),
    ('(enumerate "ab" 1)', "((1 #\\a) (2 #\\b))"),
    ("(zip '(1 2 3) '(a b))", "((1 a) (2 b))"),
    ("(zip)", "nil"),
    ("(repeat-list 2 'x)", "(x x)"),
    ("(flatten-list '(1 (2 (3 nil)) . 4))", "(1 2 3 4)"),
    ("(flatten-list nil)", "nil"),
    ("(group-by #'evenp '(1 2 3 4))", "((nil 1 3) (t 2 4))"),
    ('(group-by #\'length \'("a" "bb" "c"))', '((1 "a" "c") (2 "bb"))'),
    ("(sum-list '(1 2 1/2))", "7/2"),
    ("(sum-list nil)", "0"),
    ("(mean-list '(1 2))", "3/2"),
    ("(alist-plist '((a . 1) (b . 2)))", "(a 1 b 2)"),
    ("(plist-alist '(a 1 b 2))", "((a . 1) (b . 2))"),
    ("(hash-table-alist (alist-hash-table '((a . 1) (b . 2) (a . 3))))", "((a . 1) (b . 2))"),
    ('(string-join \'(1 b "c") ", ")', '"1, b, c"'),
    ("(string-join nil)", '""'),
    ('(string-split "a,b,,c" ",")', '("a" "b" "" "c")'),
    ('(string-split "" ",")', '("")'),
    ('(string-split "a--b" "--")', '("a" "b")'),
    ('(string-split "a b" #\\Space)', '("a" "b")'),
]


@pytest.fixture(scope="module")
def session() -> Session:
    return Session()


def shown(session: Session, text: str) -> str:
    values = session.evaluate(text, session.new_module("main"))
    return " ".join(prin1_text(value) for value in values)


@pytest.mark.parametrize("text, expected", CASES)
def test_value(session: Session, text: str, expected: str) -> None:
    assert shown(session, text) == expected


@pytest.mark.parametrize("text", ["(range 1 2 0)", "(mean-list nil)", '(string-split "a" "")'])
def test_refused(session: Session, text: str) -> None:
    with pytest.raises(SxError):
        shown(session, text)


def test_once_only_evaluates_once_and_captures_nothing(session: Session) -> None:
    text = """
    (defmacro square (x) (once-only (x) `(* ,x ,x)))
    (defmacro twice (&body body)
      (with-gensyms (result) `(let ((,result (progn ,@body))) (list ,result ,result))))
    (let ((count 0) (result 'mine))
      (list (square (incf count)) count (twice (incf count) result)))
    """
    assert shown(session, text) == "(1 1 (mine mine))"


@pytest.mark.parametrize(
    "form, expected",
    [
        ("(defun f (dbl x) (when (dbl x) x))", "(defun f (dbl x) (when (* 2 x) x))"),
        ("(flet ((dbl (x) x)) (dbl 3))", "(flet ((dbl (x) x)) (dbl 3))"),
        ("(list '(dbl 1) `(dbl ,(dbl 2)))", "(list '(dbl 1) `(dbl ,(* 2 2)))"),
        ("(loop for i below (dbl 3) collect (quad i))", None),
        ("(-> 5 (- 1) (dbl))", "(* 2 (- 5 1))"),
        ("(let ((dbl (dbl 1))) dbl)", "(let ((dbl (* 2 1))) dbl)"),
    ],
)
def test_macroexpand_all(session: Session, form: str, expected: str | None) -> None:
    macros = """(defmacro dbl (x) `(* 2 ,x)) (defmacro quad (x) `(dbl (dbl ,x)))"""
    if expected is None:
        expected = "(loop for i below (* 2 3) collect (* 2 (* 2 i)))"
    assert shown(session, f"{macros} (macroexpand-all '{form})") == expected


def test_macroexpand_all_defines_nothing(session: Session) -> None:
    text = """
    (macroexpand-all '(defvar *made* (-> 1 (+ 2))))
    (list (boundp '*made*) (let ((*made* 1)) (boundp '*made*)))
    """
    assert shown(session, text) == "(nil nil)"


def test_every_operator_has_a_docstring(session: Session) -> None:
    operators = [*SPECIAL, *(s for s in CL.symbols.values() if s.macro is not None)]
    names = " ".join(s.name for s in operators)
    text = f"(remove-if (lambda (name) (documentation name 'function)) '({names}))"
    assert len(operators) > 80
    assert shown(session, text) == "nil"


def test_every_public_name_has_a_docstring(session: Session) -> None:
    shown(session, "1")  # the prelude is loaded
    public = [
        symbol
        for name, symbol in PRELUDE.symbols.items()
        if symbol.module is PRELUDE
        and not name.startswith("%")
        and (symbol.function or symbol.macro)
    ]
    assert len(public) >= 25
    bare = [s.name for s in public if not (s.macro or s.function).doc]  # type: ignore[union-attr]
    assert not bare
