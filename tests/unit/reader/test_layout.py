"""The layout keeps forms and comments, is its own fixed point, and indents as Lisp people do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexpgpu.diagnostics.model import SxError
from sexpgpu.lisp.printer import prin1_text
from sexpgpu.lisp.values import CL, Module, T
from sexpgpu.reader.layout import layout
from sexpgpu.reader.reader import END, Reader
from sexpgpu.source import Source

ROOT = Path(__file__).parents[3]
FILES = sorted(path for path in ROOT.rglob("*.sx") if ".venv" not in path.parts)


def laid_out(text: str, **macros: int) -> str:
    return layout(Source("x.sx", text), macros)


def forms(text: str) -> list[str]:
    """What the reader makes of a text, printed; `alias:name` names a symbol of any module."""
    module = Module("test", (CL,))
    for alias, name in re.findall(r"([\w-]+):([\w-]+)", text.lower()):
        target = module.aliases.setdefault(alias, Module(alias))
        target.own(name).value = T
        target.own(name).constant = True
    reader = Reader(Source("x.sx", text), module)
    found: list[str] = []
    while (form := reader.read()) is not END:
        found.append(prin1_text(form))
    return found


def comments(text: str) -> list[str]:
    return re.findall(r"; c\d+", text)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_files_of_the_repository(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    once = laid_out(text)
    assert forms(once) == forms(text)
    assert once.count(";") == text.count(";")
    assert laid_out(once) == once


# -- random programs ------------------------------------------------------------------------------

ATOMS = st.sampled_from(
    ["x", "12", "-1.5e3", ":key", "&key", "&body", '"a (b ; c"', '"two\nlines"', "#\\(", "#\\;",
     "#\\space", "|odd (name|", "a\\ b", "#x1F", "nil", "t", "#:g", "let", "loop", "for", "do",
     "cond", "defun", "when", "1+"]
)  # fmt: skip
BLANK = st.sampled_from(["", "", " ", "   ", "\n", "\n\n\n  ", "\t", " ; c1\n", "\n; c2\n  "])
PREFIX = st.sampled_from(["", "", "", "'", "`", "#'", "'  "])


@st.composite
def lists(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    opening = draw(st.sampled_from(["(", "(", "(", "#("]))
    parts = [f"{draw(BLANK)} {draw(inner)}" for _ in range(draw(st.integers(0, 5)))]
    return f"{draw(PREFIX)}{opening}{draw(BLANK)}{''.join(parts)}{draw(BLANK)})"


PROGRAMS = st.lists(st.recursive(ATOMS, lists, max_leaves=40), max_size=5)


@given(PROGRAMS, st.lists(BLANK, min_size=5, max_size=5))
def test_any_program(parts: list[str], blanks: list[str]) -> None:
    text = "".join(f"{blank} {part}" for blank, part in zip(blanks, parts, strict=False))
    once = laid_out(text)
    assert forms(once) == forms(text)
    assert comments(once) == comments(text)
    assert laid_out(once) == once
    assert not re.search(r"[ \t]\n(?=[^\"]*(?:\"[^\"]*\"[^\"]*)*\Z)", once.replace("#\\ ", ""))


@given(PROGRAMS)
def test_lines_are_as_wide_as_they_must_be(parts: list[str]) -> None:
    """A program on one line: a line over 100 columns cannot be broken further."""
    text = " ".join(f"(f {part.replace(chr(10), ' ')})" for part in parts if ";" not in part)
    once = laid_out(text)
    assert laid_out(once) == once


# -- what it looks like -------------------------------------------------------------------------

LAYOUTS = [
    # definitions, let, flow
    "(defun f (x)\n  (g x))",
    '(defmodel net (in)\n  "Doc."\n  (submodel fit (nn:linear in))\n  (forward (x)\n    (fit x)))',
    "(let ((a 1)\n      (b 2))\n  (+ a b))",
    "(labels ((walk (part)\n           (list part)))\n  (walk 1))",
    "(cond ((null x) 1)\n      (t (list 2\n               3)))",
    "(case act\n  (:gelu (nn:gelu x))\n  (:relu (relu x)))",
    "(if test\n    then\n    else)",
    "(handler-case (f)\n  (error (e)\n    (print e)))",
    "(multiple-value-bind (a b) (f)\n  (list a b))",
    "(defrun line\n  :model (line)\n  :steps 200)",
    # calls and data
    "(list a\n      b)",
    "(list\n a\n b)",
    "'(let\n  a\n  b)",
    "(:every 200\n :keep 2)",
    "(defun f (a &key b\n                 c\n          &rest d)\n  a)",
    "(loop for x in xs\n      for y in ys\n      do (f x)\n         (g y))",
    # comments
    ";;; File.\n\n(f)  ; why\n\n;; Next.\n(g\n ;; inside\n a)",
    "(f a           ; one\n   b)          ; two",
    "(f a  ; last\n )",
]


@pytest.mark.parametrize("text", LAYOUTS)
def test_layout(text: str) -> None:
    assert laid_out(text) == f"{text}\n"
    # The same from text without any indentation, comments in their columns apart.
    if ";" not in text:
        bare = re.sub(r"\n +", "\n", text)
        assert laid_out(bare) == f"{text}\n"


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("(f   a\tb )\n\n\n\n(g)\n\n", "(f a b)\n\n(g)\n"),
        ("(f a\n)", "(f a)\n"),
        ("( f\r\n a)", "(f\n a)\n"),
        ("(f ; x\n a)", "(f  ; x\n a)\n"),
        ("(defun f (x)\n\n\n  x\n  )", "(defun f (x)\n\n  x)\n"),
        ("' x", "'x\n"),
        ("", ""),
    ],
)
def test_blanks(text: str, wanted: str) -> None:
    assert laid_out(text) == wanted


def test_macros_with_a_body() -> None:
    own = "(defmacro twice ((n &key a) &body body)\n  `(progn ,@body))\n\n(twice (1)\n  (f))\n"
    assert laid_out(own) == own
    assert laid_out("(with-it a\nb)", **{"with-it": 1}) == "(with-it a\n  b)\n"
    assert laid_out("(lib:with-it a\nb)", **{"with-it": 1}) == "(lib:with-it a\n  b)\n"


def test_long_lines_break_outermost_first() -> None:
    long = "(defun f (x) (list (alpha-beta-gamma x 1 2 3) (delta-epsilon-zeta x 4 5 6) "
    text = laid_out(f"{long}(eta-theta-iota x 7 8 9) :key (kappa-lambda-mu 10)))")
    assert text == (
        "(defun f (x)\n"
        "  (list (alpha-beta-gamma x 1 2 3) (delta-epsilon-zeta x 4 5 6) (eta-theta-iota x 7 8 9)\n"
        "        :key (kappa-lambda-mu 10)))\n"
    )
    assert laid_out(text) == text


@pytest.mark.parametrize(
    "text, code",
    [("(a (b)", "E-READ-001"), ("a)", "E-READ-002"), ('(a "b)', "E-READ-003"),
     ("#| a", "E-READ-003"), ("|a", "E-READ-003")],
)  # fmt: skip
def test_text_that_does_not_read(text: str, code: str) -> None:
    with pytest.raises(SxError) as caught:
        laid_out(text)
    assert caught.value.diagnostics[0].code.id == code
