"""What is printed readably reads back as the same value, for every kind of value that can be read;
what is read prints as one text only; `macroexpand` is done when it says it is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sexpgpu.lisp.printer import prin1_text
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.values import (
    NIL,
    Char,
    Cons,
    Module,
    String,
    Symbol,
    Vector,
    char,
    keyword,
    lisp_list,
    new_cons,
)
from sexpgpu.reader.failures import ReadFailure
from sexpgpu.reader.reader import END, Reader
from sexpgpu.source import Source

SESSION = Session()
MODULE = SESSION.new_module("main")


@pytest.fixture(scope="module", autouse=True)
def _session() -> Iterator[None]:
    SESSION.evaluate("1", MODULE)  # everything is declared now
    yield
    SESSION.close()


def read(text: str, module: Module = MODULE) -> Any:
    """The one form of a text."""
    reader = Reader(Source("t.sx", text), module)
    form = reader.read()
    assert reader.read() is END, text
    return form


def evaluate(value: Any) -> Any:
    """The values of a form that is given as a value."""
    return SESSION.evaluate(value, MODULE)


def same(a: Any, b: Any) -> bool:
    """Whether two values are alike in kind and content; floats to their sign and bits."""
    if type(a) is float and type(b) is float:
        return a == b and math.copysign(1.0, a) == math.copysign(1.0, b)
    if isinstance(a, Cons) and isinstance(b, Cons):
        return same(a.car, b.car) and same(a.cdr, b.cdr)
    if type(a) is not type(b):
        return False
    if type(a) is String:
        return a.text == b.text
    if type(a) is Vector:
        return len(a.items) == len(b.items) and all(map(same, a.items, b.items))
    if type(a) in (Symbol, Char):
        return a is b
    return a == b


odd_names = st.one_of(
    st.text(max_size=6),
    st.text("aA1+-./e|\\ ():'`,;#\"", max_size=5),
    st.sampled_from(
        [
            "",
            ".",
            "..",
            "...",
            "+",
            "-",
            "1+",
            "+1",
            "-1.",
            "1/2",
            "1/",
            "/2",
            "1e5",
            "1.e5",
            ".5",
            "e5",
            "+.5",
            "-.",
            "nil",
            "NIL",
            "t",
            "T",
            ":a",
            "a:b",
            "a::b",
            "#a",
            "a#",
            "&rest",
            "1d0",
            "+e",
            "1e",
            "1e+",
            "ß",
            "İ",
            "ǆ",
            "ª",
            "٣",
            "½",
            "\xa0",
            "\u2028",
            "\u3000",
            "\0",
        ]
    ),
)
finite = st.floats(allow_nan=False, allow_infinity=False)
atoms = st.one_of(
    st.integers(),
    st.integers(-(10**40), 10**40),
    st.fractions().map(lambda f: int(f) if f.denominator == 1 else f),
    finite,
    st.sampled_from(
        [0.0, -0.0, 5e-324, 1.7976931348623157e308, 2.2250738585072014e-308, 1e7, 1e-3]
    ),
    st.text(max_size=6).map(String),
    st.characters().map(char),
    odd_names.map(MODULE.intern),
    odd_names.map(keyword),
    st.just(NIL),
)


def compound(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, max_size=4)
    quotes = st.sampled_from(["quote", "function", "list"]).map(MODULE.intern)
    return st.one_of(
        lists.map(lisp_list),
        st.builds(lisp_list, st.lists(inner, min_size=1), inner),
        lists.map(Vector),
        st.builds(lambda head, item: lisp_list([head, item]), quotes, inner),
    )


values = st.recursive(atoms, compound, max_leaves=12)


@given(values)
@example(new_cons(MODULE.intern("quote"), new_cons(1, 2)))
@example(new_cons(MODULE.intern("quote"), NIL))
@example(lisp_list([1], MODULE.intern(".")))
@example(Fraction(-1, 3))
def test_reads_back_what_was_printed(value: Any) -> None:
    text = prin1_text(value)
    again = read(text)
    assert same(value, again), text
    assert prin1_text(again) == text


@given(odd_names)
@example("\x7f")
@example("a\bc")
def test_every_name_reads_back_as_the_symbol(name: str) -> None:
    symbol = MODULE.intern(name)
    assert read(prin1_text(symbol)) is symbol
    assert read(f"({prin1_text(symbol)} {prin1_text(keyword(name))})").car is symbol
    gensym = read(prin1_text(Symbol(name)))
    assert gensym.name == name
    assert gensym.module is None


@settings(max_examples=25)
@given(values, st.integers(2, 36))
@example(Symbol("1a", MODULE), 16)
@example(Symbol("nil", MODULE), 24)
@example(Symbol("-a/b", MODULE), 16)
def test_reads_back_in_the_base_it_was_printed_in(value: Any, base: int) -> None:
    if type(value) is Symbol and value.module is MODULE:
        value = MODULE.intern(value.name)  # also those of the examples
    kept = new_cons(value, NIL)
    printed = lisp_list([MODULE.intern("prin1-to-string"), quoted(kept)])
    bind = lisp_list(
        [
            MODULE.intern("let"),
            read(f"((*print-base* {base}) (*read-base* {base}))"),
            lisp_list([MODULE.intern("read-from-string"), printed]),
        ]
    )
    (again, *_) = evaluate(bind)
    assert same(kept, again), (prin1_text(value), prin1_text(again))


def quoted(value: Any) -> Any:
    return lisp_list([MODULE.intern("quote"), value])


@given(values)
def test_remarks_around_a_datum_change_nothing(value: Any) -> None:
    text = prin1_text(value)
    spaced = f"#| a |# ; a remark (\n  {text}\n\n#||# ; the end"
    assert same(read(text), read(spaced))


@pytest.mark.parametrize(
    "form", ["(make-point)", "#'car", "(make-hash-table)", "(make-condition 'error)"]
)
def test_what_cannot_be_read_says_so(form: str) -> None:
    SESSION.evaluate("(defstruct point x (y 2))", MODULE)
    (value,) = SESSION.evaluate(form, MODULE)
    with pytest.raises(ReadFailure) as raised:
        read(prin1_text(value))
    assert raised.value.diagnostic.code.id == "E-READ-005"


MACROS = """
(defmacro grow (n) (if (plusp n) `(grow ,(1- n)) '(list 1)))
(defmacro both (a &rest more) (if more `(when ,a (both ,@more)) a))
(define-symbol-macro here (grow 2))
"""


@pytest.fixture(scope="module")
def _macros(_session: None) -> None:
    SESSION.evaluate(MACROS, MODULE)


MACRO_FORMS = [
    "(grow 5)",
    "(both a b c)",
    "here",
    "(when a b c)",
    "(unless a b)",
    "(cond (a b) (c) (t d))",
    "(case x (1 2) ((3 4) 5) (otherwise 6))",
    "(do ((i 0 (1+ i))) ((= i 3) i) (princ i))",
    "(dolist (x '(1 2)) (princ x))",
    "(dotimes (i 3) (princ i))",
    "(loop for i below 3 collect i)",
    "(push a (aref v (incf i)))",
    "(incf (gethash k h 0) 2)",
    "(rotatef a (car b))",
    "(psetq a b b a)",
    "(multiple-value-bind (a b) (f) a)",
    "(destructuring-bind (a (b &rest c)) d (list a b c))",
    "(with-output-to-string (s) (princ 1 s))",
    "(handler-case (f) (error (c) c))",
    "(-> a (b c) (d))",
    "(defun f (x) x)",
    "(defstruct s a b)",
    "(assert (plusp x) (x))",
    "(prog (a) b (go b))",
    "(and a b c)",
    "(or a b c)",
    "(list 1)",
    "(if a b)",
    "x",
    "5",
    '"text"',
]


@pytest.mark.usefixtures("_macros")
@pytest.mark.parametrize("text", MACRO_FORMS)
def test_macroexpand_goes_to_its_fixpoint(text: str) -> None:
    once, expanded = evaluate(read(f"(macroexpand '{text})"))
    again, more = evaluate(lisp_list([MODULE.intern("macroexpand"), quoted(once)]))
    assert more is NIL
    assert again is once
    step, changed = evaluate(read(f"(macroexpand-1 '{text})"))
    assert (changed is NIL) == (expanded is NIL)
    steps = 0
    while changed is not NIL:
        steps += 1
        assert steps < 50
        step, changed = evaluate(lisp_list([MODULE.intern("macroexpand-1"), quoted(step)]))
    # The names made by gensym differ from one expansion to the next.
    assert prin1_text(step).count("(") == prin1_text(once).count("(")
