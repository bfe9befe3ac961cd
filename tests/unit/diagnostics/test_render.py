"""Every form a diagnostic is shown in. The expected texts are written out, marks and all."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexpgpu.diagnostics import render
from sexpgpu.diagnostics.excerpt import Row
from sexpgpu.diagnostics.model import Code, Diagnostic, Edit, Label, Note
from sexpgpu.source import Source, Span

CODE = Code("E-SHAPE-900", "shapes differ", "They must agree.", "make them agree", "", "")
WARNING = Code("W-SHAPE-900", "odd shape", "It may be meant.", "look twice", "", "")

MODEL = """\
(defmodel m ()
  (defparam w (128 10))
  (forward (x) (matmul x w)))
"""


def span_of(source: Source, text: str, nth: int = 0) -> Span:
    at = -1
    for _ in range(nth + 1):
        at = source.text.index(text, at + 1)
    return Span(source, at, at + len(text))


def shown(
    text: str, *marked: tuple[str, str], notes: tuple[Note, ...] = (), width: int = 100
) -> str:
    source = Source("digits.sx", text)
    labels = [Label(span_of(source, place), said) for place, said in marked]
    return render.text(Diagnostic(CODE, "they differ", labels, notes), width=width)


def excerpt(text: str, *marked: tuple[str, str], width: int = 100) -> str:
    """What is shown between the headline and the fix."""
    lines = shown(text, *marked, width=width).split("\n")
    return "\n".join(lines[1:-2])


def test_the_whole_of_one() -> None:
    source = Source("digits.sx", MODEL)
    declared = span_of(source, "(defparam w (128 10))")
    diagnostic = Diagnostic(
        CODE,
        "matmul: inner dimensions differ, 64 and 128",
        [Label(span_of(source, "(matmul x w)"), "x is f32 (128 64), w is f32 (128 10)")],
        [Note("w was declared here", declared), Note("in the model up")],
        "w's first axis must be 64",
    )
    assert render.text(diagnostic) == (
        "error[E-SHAPE-900]: matmul: inner dimensions differ, 64 and 128\n"
        "  ┌─ digits.sx:3:16\n"
        " 3│   (forward (x) (matmul x w)))\n"
        "  │                ──────────── x is f32 (128 64), w is f32 (128 10)\n"
        "  note: w was declared here: digits.sx:2  (defparam w (128 10))\n"
        "  note: in the model up\n"
        "  fix: w's first axis must be 64\n"
        "  see: sexpgpu docs E-SHAPE-900"
    )
    assert render.concise(diagnostic) == (
        "digits.sx:3:16: error[E-SHAPE-900]: matmul: inner dimensions differ, 64 and 128"
    )


def test_without_a_place() -> None:
    assert render.text(Diagnostic(WARNING, "odd")) == (
        "warning[W-SHAPE-900]: odd\n  fix: look twice\n  see: sexpgpu docs W-SHAPE-900"
    )
    assert render.concise(Diagnostic(WARNING, "odd")) == "warning[W-SHAPE-900]: odd"


def test_labels_on_several_lines() -> None:
    assert excerpt(MODEL, ("matmul", "used"), ("(defparam w (128 10))", "declared")) == (
        "  ┌─ digits.sx:3:17\n"
        " 2│   (defparam w (128 10))\n"
        "  │   ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄ declared\n"
        " 3│   (forward (x) (matmul x w)))\n"
        "  │                 ────── used"
    )


def test_labels_on_one_line_each_have_their_own_row() -> None:
    assert excerpt(MODEL, ("(matmul x w)", "whole"), ("(forward", "head"), ("x w", "operands")) == (
        "  ┌─ digits.sx:3:16\n"
        " 3│   (forward (x) (matmul x w)))\n"
        "  │   ┄┄┄┄┄┄┄┄     ────────┄┄┄─\n"
        "  │   │            │       operands\n"
        "  │   │            whole\n"
        "  │   head"
    )


def test_gaps() -> None:
    lines = "".join(f"(line {n})\n" for n in range(1, 13))
    assert excerpt(lines, ("(line 1)", ""), ("(line 3)", ""), ("(line 12)", "far")) == (
        "  ┌─ digits.sx:1:1\n"
        " 1│ (line 1)\n"
        "  │ ────────\n"
        " 2│ (line 2)\n"
        " 3│ (line 3)\n"
        "  │ ┄┄┄┄┄┄┄┄\n"
        "  ┆\n"
        "12│ (line 12)\n"
        "  │ ┄┄┄┄┄┄┄┄┄ far"
    )


def test_a_span_of_several_lines() -> None:
    assert excerpt(MODEL, (MODEL.rstrip(), "this model"), ("matmul", "op")) == (
        "  ┌─ digits.sx:1:1\n"
        " 1│ ╭ (defmodel m ()\n"
        " 2│ │   (defparam w (128 10))\n"
        " 3│ │   (forward (x) (matmul x w)))\n"
        "  │ │                 ┄┄┄┄┄┄ op\n"
        f"  │ ╰{'─' * 29}╯ this model"
    )


def test_a_long_span_that_opens_inside_a_line() -> None:
    text = "(let ((a (f\n" + "".join(f"  l{n}\n" for n in range(2, 20)) + "  end))))\n"
    span = text[text.index("(f") : text.index("end") + 3]
    assert excerpt(text, (span, "never\nclosed")) == (
        "  ┌─ digits.sx:1:10\n"
        " 1│   (let ((a (f\n"
        "  │ ╭──────────╯\n"
        " 2│ │   l2\n"
        "  ┆ │\n"
        "20│ │   end))))\n"
        "  │ ╰─────╯ never closed"
    )


def test_tabs_and_wide_characters_keep_the_marks_in_place() -> None:
    assert excerpt("\t(f\tx 日本 é́ w)", ("w", "here"), ("日本", "wide")) == (
        "  ┌─ digits.sx:1:13\n"
        " 1│     (f  x 日本 é́ w)\n"
        "  │           ┄┄┄┄   ─ here\n"
        "  │           wide"
    )


def test_emoji() -> None:
    # An astronaut is three characters (woman, joiner, rocket) drawn in two columns.
    assert excerpt("(f 👩\u200d🚀 👍🏽 x)", ("x", "here")) == (
        "  ┌─ digits.sx:1:11\n 1│ (f 👩\u200d🚀 👍🏽 x)\n  │          ─ here"
    )


def test_a_long_line_is_cut_around_the_place() -> None:
    text = "(long " + "a " * 100 + "HERE " + "b " * 100 + ")"
    lines = excerpt(text, ("HERE", "this")).split("\n")
    assert lines[0] == "  ┌─ digits.sx:1:207"
    assert lines[1].startswith(" 1│ …")
    assert lines[1].endswith("…")
    assert len(lines[1]) <= 106
    assert lines[1].index("HERE") == lines[2].index("────")
    assert lines[2].endswith("──── this")


def test_a_long_place_is_cut_with_its_line() -> None:
    lines = excerpt("(" + "x" * 300 + ")", ("(" + "x" * 300 + ")", "long"), width=40).split("\n")
    assert lines[1] == " 1│ (" + "x" * 39 + "…"
    assert lines[2] == "  │ " + "─" * 40 + " long"


def test_the_end_of_the_file_and_of_a_line() -> None:
    source = Source("a.sx", "(f x\n")
    for at in (4, 5):
        text = render.text(Diagnostic(CODE, "open", [Label(Span(source, at, at), "ends here")]))
        assert "─ ends here" in text
    newline = render.text(Diagnostic(CODE, "open", [Label(Span(source, 1, 5), "rest")]))
    assert " 1│ (f x\n  │  ─── rest" in newline
    empty = render.text(Diagnostic(CODE, "none", [Label(Span(Source("e.sx", ""), 0, 0), "empty")]))
    assert "  ┌─ e.sx:1:1\n 1│\n  │ ─ empty" in empty


def test_two_files() -> None:
    here, there = Source("a.sx", "(use w)"), Source("lib.sx", "(defparam w)")
    diagnostic = Diagnostic(
        CODE, "differ", [Label(Span(here, 5, 6), "used"), Label(Span(there, 10, 11), "made")]
    )
    assert render.text(diagnostic).split("\n")[1:-2] == [
        "  ┌─ a.sx:1:6",
        " 1│ (use w)",
        "  │      ─ used",
        "  ┌─ lib.sx:1:11",
        " 1│ (defparam w)",
        "  │           ┄ made",
    ]


def test_notes_are_eight_at_most_and_say_how_many_more() -> None:
    text = shown("(f)", ("f", ""), notes=tuple(Note(f"call {n}") for n in range(12)))
    assert "note: call 7\n  note: and 4 more of these\n" in text
    assert "call 8" not in text


def test_nothing_a_terminal_would_obey_gets_out() -> None:
    evil = "(f \x1b[2J \u202e x\x07)"
    source = Source("e\x1bvil.sx", evil)
    label = Label(span_of(source, "x"), "la\x1bbel")
    diagnostic = Diagnostic(CODE, "head\x1b[31m", [label], [Note("no\x9bte")], "f\x07")
    for text in (render.text(diagnostic), render.concise(diagnostic)):
        assert not {c for c in text if unicodedata.category(c) == "Cc"} - {"\n"}
        assert "\u202e" not in text


def test_colour_adds_only_colour() -> None:
    source = Source("digits.sx", MODEL)
    diagnostic = Diagnostic(
        CODE,
        "two\nlines",
        [
            Label(span_of(source, "(matmul x w)"), "a"),
            Label(span_of(source, "x w"), "b"),
            Label(Span(source, 0, len(MODEL)), "c"),
        ],
        [Note("n", span_of(source, "forward"))],
    )
    painted = render.text(diagnostic, colour=True)
    assert "\x1b[1;31merror[E-SHAPE-900]\x1b[0m" in painted
    assert re.sub(r"\x1b\[[\d;]*m", "", painted) == render.text(diagnostic)


@given(
    st.text("ab \t日\u0301👩\u200d\x00()\n", max_size=60),
    st.lists(
        st.tuples(st.integers(0, 70), st.integers(0, 70), st.sampled_from(["", "said", "a\nb"]))
    ),
    st.integers(20, 100),
)
def test_any_spans_of_any_text_are_shown(
    text: str, places: list[tuple[int, int, str]], width: int
) -> None:
    source = Source("any.sx", text)
    labels = [Label(Span(source, min(a, b), max(a, b)), said) for a, b, said in places]
    shown = render.text(Diagnostic(CODE, "any", labels), width=width)
    for _, _, said in places:
        assert all(word in shown for word in said.split())
    assert render.to_json(Diagnostic(CODE, "any", labels))["message"] == "any"


def test_several_with_a_count() -> None:
    both = [Diagnostic(CODE, "one"), Diagnostic(CODE, "two"), Diagnostic(WARNING, "three")]
    assert render.texts(both) == "\n\n".join(map(render.text, both))
    assert render.summary(both) == "2 errors, 1 warning"
    assert render.summary(both[:1]) == "1 error"
    assert render.summary([]) == "no errors"
    assert render.texts([]) == ""


def test_no_more_are_shown_than_one_reads() -> None:
    many = [Diagnostic(CODE, f"wrong {i}") for i in range(1000)]
    many[500:500] = [Diagnostic(WARNING, f"doubtful {i}") for i in range(23)]
    shown = render.texts(many).split("\n\n")
    assert len(shown) == 20 + 20 + 1
    assert [shown[i].split("\n")[0].split(": ")[1] for i in (0, 19, 20, 39)] == [
        "wrong 0",
        "wrong 19",
        "doubtful 0",
        "doubtful 19",
    ]
    assert shown[40].startswith("and 980 errors, 3 warnings more;")


def test_json() -> None:
    source = Source("digits.sx", MODEL)
    place = span_of(source, "(128 10)")
    diagnostic = Diagnostic(
        CODE,
        "differ",
        [Label(place, "this shape")],
        [Note("seen", span_of(source, "matmul")), Note("plain")],
        edits=[Edit(place, "(64 10)", safe=True)],
    )
    where = {"file": "digits.sx", "line": 2, "column": 15, "end_line": 2, "end_column": 23}
    assert render.to_json(diagnostic) == {
        "code": "E-SHAPE-900",
        "severity": "error",
        "message": "differ",
        **where,
        "notes": [
            {"message": "this shape", "file": "digits.sx", "line": 2},
            {"message": "seen", "file": "digits.sx", "line": 3},
            {"message": "plain"},
        ],
        "fix": "make them agree",
        "edits": [{**where, "text": "(64 10)", "safe": True}],
        "docs": "sexpgpu docs E-SHAPE-900",
    }
    bare = render.to_json(Diagnostic(WARNING, "odd"))
    assert bare["severity"] == "warning"
    assert bare["line"] is bare["file"] is None
    assert "edits" not in bare


def test_github() -> None:
    source = Source("a,b.sx", "100% (f\nx)")
    one = Diagnostic(CODE, "50% off", [Label(Span(source, 5, 6), "here")])
    assert render.github(one) == (
        "::error file=a%2Cb.sx,line=1,endLine=1,col=6,endColumn=7,"
        "title=E-SHAPE-900 shapes differ::50%25 off%0Ahere%0Afix: make them agree"
    )
    several = render.github(Diagnostic(WARNING, "wide", [Label(Span(source, 5, 9))]))
    assert several.startswith("::warning file=a%2Cb.sx,line=1,endLine=2,title=")


def test_sarif() -> None:
    source = Source("my dir/a.sx", MODEL)
    place = span_of(source, "matmul")
    first = Diagnostic(
        CODE, "differ", [Label(place, "here")], [Note("there", span_of(source, "w"))],
        edits=[Edit(place, "dot")],
    )  # fmt: skip
    log = render.sarif([first, Diagnostic(WARNING, "odd"), first], "1.2.3")
    (run,) = log["runs"]
    assert log["version"] == "2.1.0"
    assert run["tool"]["driver"]["version"] == "1.2.3"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["E-SHAPE-900", "W-SHAPE-900"]
    assert [result["ruleIndex"] for result in run["results"]] == [0, 1, 0]
    region = {"startLine": 3, "startColumn": 17, "endLine": 3, "endColumn": 23}
    (location,) = run["results"][0]["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "my%20dir/a.sx"},
        "region": region,
    }
    assert run["results"][0]["relatedLocations"][0]["message"] == {"text": "there"}
    (fix,) = run["results"][0]["fixes"]
    assert fix["artifactChanges"][0]["replacements"] == [
        {"deletedRegion": region, "insertedContent": {"text": "dot"}}
    ]
    assert "locations" not in run["results"][1]


@pytest.mark.parametrize("text", ["", "x", "日\t本"])
def test_excerpt_of_everything(text: str) -> None:
    source = Source("t.sx", text)
    assert "t.sx:1:1" in render.text(Diagnostic(CODE, "all", [Label(Span(source, 0, len(text)))]))


@given(
    st.text("ab\t\u0301é漢\u200d\ufe0f\x00", max_size=30),
    st.integers(0, 40),
    st.integers(0, 40),
)
def test_a_window_holds_the_cells_that_lie_in_it(line: str, low: int, high: int) -> None:
    row = Row(line)
    expected = "".join(
        cell
        for cell, at, end in zip(row.cells, row.columns, row.columns[1:], strict=False)
        if at >= low and end <= high
    )
    assert row.window(low, high) == expected
