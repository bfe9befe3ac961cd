"""The reader: values, places, recovery."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexpgpu.lisp.values import CL, Cons, Module, SrcCons
from sexpgpu.reader.failures import ReadFailure, TooDeep
from sexpgpu.reader.names import nearest
from sexpgpu.reader.printer import brief
from sexpgpu.reader.reader import END, Reader
from sexpgpu.source import Source


def read_all(text: str) -> list[str]:
    reader = Reader(Source("t.sx", text), Module("m", (CL,)), ("sexpgpu", "fast"))
    out: list[str] = []
    while True:
        try:
            form = reader.read()
        except ReadFailure as failure:
            span = failure.diagnostic.span
            assert span is not None
            out.append(f"{failure.diagnostic.code.id} {span.line}:{span.column}")
            continue
        except TooDeep:
            out.append("too deep")
            continue
        if form is END:
            return out
        out.append(brief(form))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("(a . b) (a b . c) ()", ["(a . b)", "(a b . c)", "nil"]),
        ("'a `(b ,c ,@d) #'e", ["'a", "`(b ,c ,@d)", "#'e"]),
        (
            "1 -2 +3 4. 1/2 6/3 .5 -1.5e2 1d-2",
            ["1", "-2", "3", "4", "1/2", "2", "0.5", "-150.0", "0.01"],
        ),
        ("#b101 #o17 #xFF #3r12", ["5", "15", "255", "5"]),
        ("Foo |Foo Bar| a\\B :Key + 1+ -", ["foo", "|Foo Bar|", "|aB|", ":key", "+", "1+", "-"]),
        ('"a\\"b\\\\"', ['"a\\"b\\\\"']),
        ("#\\a #\\Space #\\( #\\newline", ["#\\a", "#\\Space", "#\\(", "#\\Newline"]),
        ("#(1 (2) #(3))", ["#(1 (2) #(3))"]),
        ("; c\n1 #| x #| y |# z |# 2", ["1", "2"]),
        ("#+fast 1 #-fast 2 #+(and sexpgpu (not slow)) 3", ["1", "3"]),
        ('(1 #+slow (#.x :a:b:c "s") 2)', ["(1 2)"]),
    ],
)
def test_values(text: str, expected: list[str]) -> None:
    assert read_all(text) == expected


@pytest.mark.parametrize(
    "text, expected",
    [
        ("(a (b\n", ["E-READ-001 1:4"]),
        ("(defun f (x)\n  x\n\n(defun g () 1)\n", ["E-READ-001 1:1", "(defun g nil 1)"]),
        ("a) b", ["a", "E-READ-002 1:2", "b"]),
        ("a" + ")" * 50_000 + " b", ["a", "E-READ-002 1:2", "b"]),  # one mistake, said once
        ('(a "b\n(c)', ["E-READ-003 1:4", "(c)"]),
        ("#| x", ["E-READ-003 1:1"]),
        ("(a . b c) d", ["E-READ-004 1:8", "d"]),
        ("( . a) d", ["E-READ-004 1:3", "d"]),
        ("#.(a) b", ["E-READ-005 1:1", "(a)", "b"]),
        ("(#1=a) b", ["E-READ-005 1:2", "b"]),
        ("1/0 1e999 a:b:c", ["E-READ-006 1:1", "E-READ-006 1:5", "E-READ-006 1:11"]),
        ("(x nn:relu) y", ["E-READ-007 1:4", "y"]),
        (",a", ["E-READ-008 1:1", "a"]),
        ("#\\spce", ["E-READ-009 1:1"]),
        ("(a ') b", ["E-READ-010 1:4", "b"]),
        ("(" * 100_000, ["too deep"]),
        ("'" * 100_000, ["too deep"]),
    ],
)
def test_failures_point_at_their_place_and_reading_goes_on(text: str, expected: list[str]) -> None:
    assert read_all(text) == expected


def test_places() -> None:
    text = "(defun f (x)\n  (+ x 'y))"
    form = Reader(Source("t.sx", text), Module("m", (CL,))).read()
    assert isinstance(form, SrcCons)
    assert form.span.text == text
    body = form.cdr.cdr.cdr.car
    assert body.span.text == "(+ x 'y)"
    assert (body.span.line, body.span.column) == (2, 3)
    assert body.cdr.car_span.text == "x"
    assert body.cdr.cdr.car.span.text == "'y"


FORMS = st.recursive(
    st.integers()
    | st.sampled_from(["a", "b-c", ":k", "nil"])
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=20,
)


def _text(value: object) -> str:
    if isinstance(value, list):
        return "(" + " ".join(_text(v) for v in value) + ")"
    return repr(value) if not isinstance(value, str) else value


def _same(form: object, value: object) -> bool:
    if isinstance(value, list):
        items = list(form) if isinstance(form, Cons) else []
        return len(items) == len(value) and all(map(_same, items, value))
    if isinstance(value, str):
        return brief(form) == value
    return type(form) is type(value) and form == value


@given(FORMS)
def test_reads_what_was_written(value: object) -> None:
    assert _same(Reader(Source("t", _text(value)), Module("m", (CL,))).read(), value)


@given(st.text(max_size=60))
def test_any_text_ends_in_forms_or_codes(text: str) -> None:
    read_all(text)


def test_nearest() -> None:
    assert nearest("lenght", ["length", "list", "last"]) == "length"
    assert nearest("zzz", ["length"]) is None
