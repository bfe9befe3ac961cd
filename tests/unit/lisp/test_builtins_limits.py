"""Builtins that could do too much stop at a limit at once; nothing in the Lisp can catch that."""

from __future__ import annotations

from time import process_time

import pytest

from sexpgpu.diagnostics.model import SxError
from sexpgpu.lisp.printer import prin1_text, princ_text
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
    "(let ((l (list 1 2))) (setf (cddr l) l) (mapcar #'1+ l))",
    "(let ((l (list 1 2))) (setf (cdr l) l) (copy-tree l))",
    "(dpb 1 (byte 1 (expt 10 12)) 0)",
    "(reduce #'* (loop for i from 1 to 200000 collect (expt 3 i)))",
    '(let ((s (make-string-output-stream))) (loop (write-string "0123456789abcdef" s)))',
    "(princ (expt 7 (expt 10 7)))",
    "(let* ((a (ash 1 4000000)) (b (1+ a))) (loop (gcd a b)))",
    "(let* ((a (ash 1 4000000)) (b (1+ (ash a -2000000)))) (loop (mod a b)))",
    "(let ((a (ash 1 4000000))) (loop (isqrt a)))",
    "(let ((a 0)) (loop for i from 1 do (incf a (/ i (1+ (* i i))))))",
    "(let ((l (list 1 2)) (m (list 1 2))) (setf (cddr l) l (cddr m) m) (equal l m))",
    "(let ((l (list 1 2))) (setf (cddr l) l) (nthcdr (expt 10 12) l))",
]


@pytest.mark.parametrize("form", TOO_MUCH)
def test_stops_soon_and_is_not_caught(form: str) -> None:
    session = Session(Limits(fuel=300_000, memory=5_000_000, seconds=100))
    start = process_time()
    try:
        with pytest.raises(SxError) as found:
            session.evaluate(f"(handler-case {form} (error () 'caught))", session.new_module("m"))
    finally:
        session.close()
    code = found.value.diagnostics[0].code.id
    assert code.startswith("E-LIMIT"), found.value.diagnostics[0]
    assert process_time() - start < 8


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


@pytest.mark.parametrize(
    "operator", ["sqrt", "exp", "sin", "tanh", "atanh", "atan", "(expt 1/2)", "(floor 2.0)"]
)
def test_a_number_too_large_for_a_float_is_an_error_of_its_operator(operator: str) -> None:
    name, *rest = operator.strip("()").split()
    session = Session()
    try:
        call = f"({name} (expt 10 400) {' '.join(rest)})"
        text = f"(handler-case {call} (error (e) (princ-to-string e)))"
        (said,) = session.evaluate(text, session.new_module("m"))
        assert princ_text(said) == f"an argument of {name} is too large for a float"
    finally:
        session.close()


ENDLESS = [  # what goes before, and a type that has no end
    ("", "(let ((x (list 'or))) (setf (cdr x) (list x)) x)"),
    ("", "(let ((x (list 'and 'list))) (setf (cddr x) (list (list 'not x))) x)"),
    ("(deftype nest () '(or integer nest))", "'nest"),
    ("(deftype chain () '(cons t chain))", "'(and list chain)"),
]


@pytest.mark.parametrize("before, made", ENDLESS)
@pytest.mark.parametrize(
    "use", ["(typep '(1) {})", "(subtypep {} 'list)", "(subtypep 'symbol {})", "(coerce '(1) {})"]
)
def test_a_type_that_holds_itself_is_an_error_soon(before: str, made: str, use: str) -> None:
    session = Session(Limits(seconds=5))
    form = f"(handler-case {use.format(made)} (error (e) (princ-to-string e)))"
    try:
        (said,) = session.evaluate(f"{before} {form}", session.new_module("m"))
        assert princ_text(said) == "a type specifier is nested more than 1,000 deep"
        (after,) = session.evaluate("(typep 1 '(or list integer))", session.new_module("n"))
        assert prin1_text(after) == "t"
    finally:
        session.close()


CIRCULAR = "(let ((l (list 1 2)) (p (list :a 1))) (setf (cddr l) l (cddr p) p) {})"


@pytest.mark.parametrize(
    "form",
    [
        "(length l)",
        "(reduce #'+ l)",
        "(apply #'+ l)",
        "(apply #'+ 1 2 l)",
        "(append l l)",
        "(copy-list l)",
        "(reverse l)",
        "(sort l #'<)",
        "(coerce l 'vector)",
        "(last l)",
        "(butlast l)",
        "(nconc l l l)",
        "(elt l 100000000000)",
        "(member 5 l)",
        "(assoc 5 (let ((a (list '(1 . 2)))) (setf (cdr a) a) a))",
        "(position 5 l)",
        "(union l '(1))",
        "(getf p :b)",
        "(get-properties p '(:b))",
        "(remf p :b)",
        "(tailp '(1) l)",
        "(ldiff l '(1))",
        "(loop for x in (list l l) nconc x)",
        "(list* 1 `(,@l 2))",
        "(destructuring-bind (&key a) p a)",
        "(progn (defstruct (s (:type list)) x) (copy-s l))",
    ],
)
def test_a_circular_list_is_a_type_error_where_one_with_an_end_is_wanted(form: str) -> None:
    session = Session(Limits(fuel=300_000, seconds=100))
    try:
        text = CIRCULAR.format(f"(handler-case {form} (type-error () 'no-end))")
        (value,) = session.evaluate(text, session.new_module("m"))
        assert value.name == "no-end"
    finally:
        session.close()


def test_what_of_a_circular_list_has_an_end() -> None:
    session = Session(Limits(fuel=300_000, seconds=100))
    text = CIRCULAR.format(
        "(list (list-length l) (nth 5 l) (elt l 7) (mapcar #'cons '(a b) l)"
        " (loop for x in l repeat 3 collect x) (getf p :a) (car (member 2 l)))"
    )
    try:
        (value,) = session.evaluate(text, session.new_module("m"))
        assert prin1_text(value) == "(nil 2 2 ((a . 1) (b . 2)) (1 2 1) 1 2)"
    finally:
        session.close()


@pytest.mark.parametrize(
    "form, text",
    [
        ("l", None),
        ("(list 1 (vector 2 l))", None),
        ("(let ((v (vector 1 2))) (setf (svref v 1) v))", None),
        ("(let ((a (list 1))) (setf (car a) a))", None),
        ("(let ((*print-circle* t)) (prin1-to-string l))", "#1=(1 2 . #1#)"),
        ("(let ((*print-length* 4)) (prin1-to-string l))", "(1 2 1 2 ...)"),
        ("(length (princ-to-string (make-list 20000 :initial-element l2)))", "120001"),
    ],
)
def test_a_circular_object_is_printed_with_labels_or_cut_and_else_refused(
    form: str, text: str | None
) -> None:
    session = Session(Limits(fuel=2_000_000, seconds=100))
    refused = f"(handler-case (princ-to-string {form}) (simple-error () 'refused))"
    (value,) = session.evaluate(
        CIRCULAR.format(f"(let ((l2 '(1 2))) {refused})"), session.new_module("m")
    )
    session.close()
    assert princ_text(value) == (text or "refused")


@pytest.mark.parametrize("digits", [9, 1023, 1024, 1025, 4301, 65_537])
@pytest.mark.parametrize("base", [2, 3, 10, 36])
def test_long_integers_are_read_and_printed_as_they_are(digits: int, base: int) -> None:
    value = base**digits - base ** (digits // 3) - 1
    session = Session()
    form = f"""
        (let* ((*print-base* {base}) (*read-base* {base})
               (n (- (expt {base} {digits}) (expt {base} {digits // 3}) 1))
               (s (prin1-to-string (- n))))
          (list (= (- n) (read-from-string s)) (= n (parse-integer s :start 1 :radix {base})) s))
    """.replace("\n", " ")
    (found,) = session.evaluate(form, session.new_module("m"))
    same, parsed, text = found
    session.close()
    assert (same.name, parsed.name) == ("t", "t")
    assert text.text[0] == "-"
    assert len(text.text) == digits + 1
    if base in (2, 10, 36) and digits < 4000:
        assert int(text.text, base) == -value


@pytest.mark.parametrize(
    "form",
    [
        "(parse-integer (make-string 1000000 :initial-element #\\9))",
        "(length (prin1-to-string (expt 3 1000000)))",
        "(read-from-string (make-string 300000 :initial-element #\\7))",
        "(integer-length (expt 3 1000000))",
    ],
)
def test_long_integers_are_quick(form: str) -> None:
    session = Session(Limits(fuel=20_000_000, seconds=100))
    session.evaluate(form, session.new_module("m"))
    session.close()


def test_a_number_longer_than_a_million_digits_is_not_read() -> None:
    session = Session()
    with pytest.raises(SxError) as raised:
        session.evaluate("9" * 1_000_001, session.new_module("m"))
    session.close()
    assert raised.value.diagnostics[0].code.id == "E-READ-006"
