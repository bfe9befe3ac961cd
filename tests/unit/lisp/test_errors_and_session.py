"""Error quality, modules, limits and isolation of sessions."""

from __future__ import annotations

from pathlib import Path

import pytest

from sexpgpu.diagnostics.model import Diagnostic, SxError
from sexpgpu.lisp.batch import Batch
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.state import Limits
from sexpgpu.lisp.values import CL, PRELUDE, TENSOR, Module
from sexpgpu.source import Source


def found(text: str, limits: Limits | None = None) -> list[Diagnostic]:
    session = Session(limits)
    loaded = session.load_all(Source("t.sx", text))
    return [*loaded.diagnostics, *session.diagnostics]


def place(diagnostic: Diagnostic) -> str:
    assert diagnostic.span is not None
    return f"{diagnostic.code.id} {diagnostic.span.line}:{diagnostic.span.column}"


@pytest.mark.parametrize(
    "text, expected, fix",
    [
        ("(defun f (width) widht)\n(f 1)", "E-NAME-001 1:18", "write width"),
        ("(defun double (x) x)\n(list 1\n (duoble 2))", "E-NAME-002 3:2", "write double"),
        ("(defun f (a b) a)\n(f 1)", "E-ARG-001 2:1", "call it as (f a b)"),
        ("(defun f (&key rate) rate)\n(f :rat 1)", "E-ARG-002 2:1", "write :rate"),
        ("(if)", "E-ARG-004 1:1", None),
        ("(defun f (a &optinal b)\n  b)", "E-ARG-003 1:1", "write &optional"),
        ("(list (lambda (&bogus x) x))", "E-ARG-003 1:7", None),
        ('(+ 1\n "2")', "E-TYPE-001 1:1", None),
        ("(elt '(1 2) 2)", "E-TYPE-002 1:1", None),
        ("(setf (car '(1)) 2)", "E-TYPE-003 1:1", None),
        ("(/ 1 0)", "E-COND-002 1:1", None),
        ("(throw 'a 1)", "E-COND-003 1:1", None),
        ("(defun car (x) x)", "E-NAME-004 1:1", None),
        ("(flet ((list (x) x)) (list 1))", "E-NAME-004 1:1", None),
        ("#'when", "E-NAME-005 1:1", None),
        ("(defmacro m (x) `(car ,x))\n(list\n (m 3))", "E-TYPE-001 3:2", None),
        ("(defmacro m (x) (car x))\n(m 3)", "E-MACRO-001 2:1", None),
        ("(defmacro m (x) x)\n(m)", "E-ARG-005 2:1", None),
        ("(defun f (x) x)\n(defun f (x) x)", "E-NAME-003 2:1", None),
        ('(require "sexpgpu/nm" :as nm)', "E-MOD-001 1:10", 'write "sexpgpu/nn"'),
        ('(list "abc', "E-READ-003 1:7", None),
        ("(list (a b)\n", "E-READ-001 1:1", None),
        ("(defun range (n) n)", "W-NAME-001 1:1", None),
        ("(defun f (x) (undefined-zork x))", "W-NAME-002 1:14", None),
    ],
)
def test_place_and_fix(text: str, expected: str, fix: str | None) -> None:
    diagnostics = found(text)
    assert [place(d) for d in diagnostics] == [expected]
    if fix is not None:
        assert diagnostics[0].fix == fix


def test_independent_mistakes_are_reported_together() -> None:
    text = "(car 1)\n(list 'a))\n(defun g () 1)\n(nope)\n(+ 'a 1)\n"
    assert [place(d) for d in found(text)] == [
        "E-TYPE-001 1:1",
        "E-READ-002 2:10",
        "E-NAME-002 4:1",
        "E-TYPE-001 5:1",
    ]


def test_consequences_are_not_reported() -> None:
    assert [place(d) for d in found("(defun f (x x) x)\n(f 1)\n(defvar *y* (f 2))\n*y*\n")] == [
        "E-ARG-003 1:1"
    ]


def test_calls_and_expansions_are_notes() -> None:
    text = "(defun inner (x) (car x))\n(defmacro twice (x) `(inner ,x))\n(twice 3)\n"
    (diagnostic,) = found(text)
    assert place(diagnostic) == "E-TYPE-001 1:18"
    notes = [(n.text, n.span.line if n.span else None) for n in diagnostic.notes]
    assert ("called from here", 3) in notes


def test_a_macro_that_expands_without_end_is_told_once() -> None:
    text = "(defmacro a (x) `(b ,x))\n(defmacro b (x) `(a ,x))\n(a 1)\n"
    (diagnostic,) = found(text)
    assert place(diagnostic) == "E-LIMIT-007 3:1"
    assert [(n.text, n.span.line if n.span else None) for n in diagnostic.notes] == [
        ("in the expansion of b, 500 times, defined here", 2),
        ("in the expansion of a, 500 times, defined here", 1),
    ]


@pytest.mark.parametrize(
    "text, code",
    [
        ("(loop)", "E-LIMIT-001"),
        ("(defun f (n) (1+ (f n)))\n(f 0)", "E-LIMIT-002"),
        ("(make-list 100000000)", "E-LIMIT-003"),
        ('(let ((s "x")) (loop (setq s (concatenate \'string s s))))', "E-LIMIT-003"),
        ("(macrolet ((m (x) `(m ,x))) (m 1))", "E-LIMIT-007"),
        ('(dotimes (i 100000) (princ "0123456789"))', "E-LIMIT-005"),
        ("(" * 100_000, "E-LIMIT-006"),
        ("(loop (handler-case (loop) (error () nil)))", "E-LIMIT-001"),
        ("(unwind-protect (loop) (loop))", "E-LIMIT-001"),
        ('(ignore-errors (loop (error "x")))\n(catch \'a (loop))', "E-LIMIT-001"),
    ],
)
def test_limits_end_in_a_code(text: str, code: str) -> None:
    limits = Limits(fuel=300_000, memory=20_000_000, output=100_000)
    assert [d.code.id for d in found(text, limits)] == [code]


@pytest.mark.parametrize(
    "call", ["(f (- n 1))", "(funcall #'f (- n 1))", "(car (mapcar #'f (list (- n 1))))"]
)
def test_ten_thousand_nested_calls(call: str) -> None:
    batch = Batch()
    define = f"(defun f (n) (if (= n 1) 1 (1+ {call})))"
    assert batch.evaluate(f"(progn {define} (f 10000))")["values"] == ["10000"]
    answer = batch.evaluate(f"(progn {define} (f 10001))")
    assert answer["error"]["code"] == "E-LIMIT-002"


def test_sessions_do_not_leak() -> None:
    module = Module("m", (PRELUDE, TENSOR, CL))
    first, second = Session(), Session()
    first.evaluate("(setf *print-base* 2) (defstruct zs a) (deftype zt () 'integer)", module)
    assert second.evaluate("*print-base*", Module("n", (PRELUDE, TENSOR, CL))) == [10]
    assert first.evaluate("*print-base*", module) == [2]
    first.close()
    second.close()


def test_modules(tmp_path: Path) -> None:
    (tmp_path / "lib.sx").write_text(
        "(defun layer (x) (%scale x))\n(defun %scale (x) (* 2 x))\n"
        "(defmacro scaled (x) `(%scale ,x))\n(defvar *loads* 0)\n(incf *loads*)\n"
    )
    (tmp_path / "other.sx").write_text('(require "./lib.sx" :as l)\n(defun go-on () l:*loads*)\n')
    main = tmp_path / "main.sx"
    main.write_text(
        '(require "./lib.sx" :as lib :import (layer))\n(require "./other.sx" :as other)\n'
        '(defun %scale (x) (error "mine"))\n'
        "(defvar *r* (list (layer 1) (lib:scaled 4) (other:go-on)))\n"
    )
    session = Session()
    module = session.load(Source("main.sx", main.read_text(), str(main)))
    assert session.evaluate("(equal *r* '(2 8 1))", module) == [CL.own("t")]
    assert [s.name.rpartition("/")[2] for s in session.sources[:3]] == [
        "main.sx",
        "lib.sx",
        "other.sx",
    ]
    with pytest.raises(SxError) as raised:
        session.evaluate("(lib:%scale 1)", module)
    assert raised.value.diagnostics[0].code.id == "E-READ-007"


def test_cycle(tmp_path: Path) -> None:
    (tmp_path / "a.sx").write_text('(require "./b.sx" :as b)')
    (tmp_path / "b.sx").write_text('(require "./a.sx" :as a)')
    source = Source("a.sx", (tmp_path / "a.sx").read_text(), str(tmp_path / "a.sx"))
    loaded = Session().load_all(source)
    assert "E-MOD-002" in [d.code.id for d in loaded.diagnostics]


def test_redefinition_holds_in_the_whole_file() -> None:
    session = Session()
    module = session.load(
        Source("t.sx", "(defun f () (range 3))\n(defun range (n) (list :mine n))\n(defvar *x* (f))")
    )
    assert session.evaluate("(first *x*)", module)[0].name == "mine"


def test_a_module_cannot_define_the_names_of_another(tmp_path: Path) -> None:
    (tmp_path / "lib.sx").write_text("(defun layer (x) x)\n")
    text = '(require "./lib.sx" :as lib)\n(defun lib:layer (x) 1)\n'
    loaded = Session().load_all(Source("main.sx", text, str(tmp_path / "main.sx")))
    assert [place(d) for d in loaded.diagnostics] == ["E-NAME-006 2:1"]


def test_limits_count_anew_for_each_evaluation() -> None:
    session = Session(Limits(fuel=60_000))
    module = session.new_module("m")
    for _ in range(3):
        assert session.evaluate("(dotimes (i 40000 :done))", module)[0].name == "done"


def test_random_numbers_go_on_and_repeat() -> None:
    def draws() -> list[object]:
        session = Session(seed=5)
        module = session.new_module("m")
        return [session.evaluate("(random 1000000)", module)[0] for _ in range(3)]

    first = draws()
    assert first == draws()
    assert len(set(first)) == 3


@pytest.mark.parametrize(
    "loop",
    [
        "(loop (setq n (+ n 1)))",
        "(loop while t do (setq n (+ n 1)))",
        "(do () (nil) (setq n (+ n 1)))",
        "(dotimes (i 1000000) (setq n (+ n 1)))",
        "(dolist (x ones) (setq n (+ n 1)))",
        "(tagbody again (setq n (+ n 1)) (go again))",
    ],
)
def test_the_fuel_limit_names_the_loop(loop: str) -> None:
    text = f"""(defun spin (n &aux (ones (list 1)))
  (setf (cdr ones) ones)
  {loop})
(spin 0)"""
    (diagnostic,) = found(text, Limits(fuel=50_000))
    assert place(diagnostic) == "E-LIMIT-001 3:3"
    assert any(note.span is not None and note.span.line == 4 for note in diagnostic.notes)


@pytest.mark.parametrize(
    "text, fix",
    [
        ('(defun make-point (x) x)\n(funcall (intern "MAKE-POINT") 1)', "write make-point:"),
        ("(defvar *width* 1)\n(print |*WIDTH*|)", "write *width*:"),
        ("(eval (list (intern (string-upcase 'car)) ''(1)))", "write car:"),
    ],
)
def test_names_of_capitals_are_told_as_those_of_small_letters(text: str, fix: str) -> None:
    (diagnostic,) = found(text)
    assert diagnostic.code.id.startswith("E-NAME-00")
    assert (diagnostic.fix or "").startswith(fix)


@pytest.mark.parametrize(
    "form, headline, given",
    [
        ("(car 5)", "car: 5 is not of type list", "LIST in (car LIST)"),
        ("(mapcar #'second '(1))", "second: 1 is not of type list", None),
        ("(cadr '(1 . 2))", "cadr: 2 is not of type list", None),
        ('(+ 1 "2")', '+: "2" is not of type number', None),
        ("(mapcar #'1+ '(a))", "1+: a is not of type number", None),
        ("(< 1 'a)", "<: a is not of type real", None),
        ("(< 1 2 'a)", "<: a is not of type real", None),
        ("(nth 'x '(1 2))", "nth: x is not of type unsigned-byte", "N in (nth N list)"),
        ("(nth 5 5)", "nth: 5 is not of type list", None),
        ("(elt '(1 2) 7)", "elt: index 7 is out of range for a sequence of length 2", None),
        ('(subseq "abc" \'a)', "subseq: a is not of type unsigned-byte", "START in"),
        ("(position 1 '(1) :start 'b)", "position: b is not of type unsigned-byte", None),
        ("(gethash 1 '(1))", "gethash: (1) is not of type hash-table", "TABLE in"),
        ('(char-upcase "a")', 'char-upcase: "a" is not of type character', "CHAR in"),
        ("(symbol-name 3)", "symbol-name: 3 is not of type symbol", "SYMBOL in"),
        ("(reduce 7 '(1 2))", "reduce: 7 is not of type function", "FUNCTION in"),
        ("(length 'a)", "length: a is not of type sequence", "SEQUENCE in (length SEQUENCE)"),
        ("(funcall (lambda (x) (cdr x)) 1)", "cdr: 1 is not of type list", None),
        ("(mapcar (lambda (x) (length x)) '(1))", "length: 1 is not of type sequence", None),
    ],
)
def test_type_errors_name_the_function_and_the_parameter(
    form: str, headline: str, given: str | None
) -> None:
    (diagnostic,) = found(form)
    assert diagnostic.headline == headline
    notes = [note.text for note in diagnostic.notes if note.text.startswith("it was given as ")]
    if given is not None:
        assert notes[0].startswith(f"it was given as {given}")


def test_the_condition_of_a_type_error_says_the_same() -> None:
    session = Session()
    text = "(handler-case (car 5) (error (c) (list (princ-to-string c) (prin1-to-string c))))"
    (value,) = session.evaluate(text, session.new_module("m"))
    said, shown = value
    assert said.text == "car: 5 is not of type list"
    assert shown.text == '#<type-error "car: 5 is not of type list">'
    session.close()


@pytest.mark.parametrize(
    "form",
    ["(when)", "(unless)", "(dolist)", "(cond 5)", "(and . 5)", "(return 1 2 . 3)", "(setf . 1)"],
)
def test_a_malformed_call_of_a_macro_has_no_expansion(form: str) -> None:
    session = Session()
    text = f"(handler-case (macroexpand-1 '{form}) (program-error () :malformed))"
    (value,) = session.evaluate(text, session.new_module("m"))
    session.close()
    assert value.name == "malformed"


@pytest.mark.parametrize(
    "form, said",
    [
        ('(let ((*read-base* 99)) (read-from-string "10"))', "*read-base* is 99, not an"),
        ("(let ((*print-base* 1)) (princ-to-string 10))", "*print-base* is not an"),
    ],
)
def test_a_base_that_is_none_is_named(form: str, said: str) -> None:
    (diagnostic,) = found(form)
    assert diagnostic.code.id == "E-TYPE-001"
    assert said in diagnostic.headline


@pytest.mark.parametrize(
    "definition",
    [
        "(defstruct (p (:constructor list (x))) x)",
        "(defstruct (p (:conc-name nil)) car)",
        "(defstruct (p (:predicate consp)) x)",
        "(defstruct (p (:copier copy-list)) x)",
    ],
)
def test_a_structure_defines_no_function_over_cl_s_own(definition: str) -> None:
    assert [place(d) for d in found(definition)] == ["E-NAME-004 1:1"]
    assert found("(mapcar #'list (mapcar #'car (copy-list '((1)))))") == []


@pytest.mark.parametrize("name", ["place", "shape", "range", "stack"])
def test_a_structure_may_be_called_as_a_lower_layer_calls_something(name: str) -> None:
    session = Session()
    module = session.new_module("m")
    form = f"(defstruct ({name} (:constructor {name} (a)) (:predicate is-{name})) a)"
    session.evaluate(form, module)
    (value,) = session.evaluate(f"(list ({name}-a ({name} 5)) (is-{name} ({name} 1)))", module)
    session.close()
    assert [item if type(item) is int else item.name for item in value] == [5, "t"]
