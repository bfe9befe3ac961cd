"""Every fenced `lisp` block of the documentation runs, and its comments are the assertions.

The word after the language says how:

    lisp           a whole run file when it holds a defrun: it compiles. Otherwise forms,
                   evaluated in order in a module of their own.
    lisp in=line   definitions put into examples/line.sx (in place of those of the same name): the
                   file compiles.
    lisp tensor    forms evaluated inside a traced function, on the NumPy evaluator.

`; => text` after a form is the text its values print as, separated by `, `. `; error: CODE` after a
form (or, in a run file, on the line of the primary place) is the beginning of the code of the one
error that it gives. A block without such a comment gives no error.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import sexpgpu as sx
from sexpgpu.compiler import check_text
from sexpgpu.diagnostics.model import Diagnostic, SxError
from sexpgpu.docs import generate
from sexpgpu.lisp.printer import prin1_text
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.values import CL, PRELUDE, TENSOR, Module

ROOT = Path(__file__).parents[2]
PAGES = sorted(generate.PAGES.glob("*.md"))
EXAMPLES = ROOT / "examples"
FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ASSERTION = re.compile(r"; (=>|error:) (.*)$")


class Block(NamedTuple):
    """A fenced block: its page and line, the words after `lisp`, and its text."""

    page: str
    line: int
    words: tuple[str, ...]
    text: str


def blocks_of(name: str, text: str) -> list[Block]:
    found: list[Block] = []
    for match in FENCE.finditer(text):
        if match.group(1) == "lisp":
            line = text.count("\n", 0, match.start()) + 2
            found.append(Block(name, line, tuple(match.group(2).split()), match.group(3)))
    return found


BLOCKS = [
    block
    for path in [*PAGES, ROOT / "README.md"]
    for block in blocks_of(path.stem, path.read_text(encoding="utf-8"))
]


class Form(NamedTuple):
    """A top-level form of a block: its text with what stands before it and on its last line, and
    the kind and text of the assertion there."""

    text: str
    kind: str
    said: str

    @property
    def key(self) -> tuple[str, str]:
        """What it defines; a later one of the same key takes its place."""
        match = re.search(r"^\((\S+)\s+\"?([^\s()\"]*)", self.text, re.MULTILINE)
        head, name = match.groups() if match else (self.text, "")
        return (head, "") if head == "defrun" else (head, name)


def forms_of(text: str) -> list[Form]:
    """The top-level forms: each begins in column 1, and its other lines are indented."""
    parts: list[list[str]] = [[]]
    begun = False
    for line in text.split("\n"):
        begins = bool(line) and line[0] not in " ;"
        if begins and begun:
            parts.append([])
        begun = begun or begins
        parts[-1].append(line)
    found: list[Form] = []
    for lines in parts:
        while lines and (not lines[-1].strip() or lines[-1].startswith(";")):
            lines.pop()
        if lines:
            said = ASSERTION.search(lines[-1])
            found.append(Form("\n".join(lines), *(said.groups() if said else ("", ""))))
    return found


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: f"{b.page}:{b.line}")
def test_block(block: Block) -> None:
    if "tensor" in block.words:
        run_tensor_forms(block)
    elif any(word.startswith("in=") for word in block.words):
        check_file(inserted(block))
    elif "(defrun" in block.text:
        check_file(block.text)
    else:
        run_forms(block)


# -- forms on ordinary values -------------------------------------------------------------------


def run_forms(block: Block) -> None:
    session = Session()
    module = Module("block", (PRELUDE, TENSOR, CL))
    for written, kind, said in forms_of(block.text):
        if kind == "error:":
            with pytest.raises(SxError) as caught:
                session.evaluate(written, module)
            assert_code(caught.value.diagnostics, said, written)
            continue
        values = session.evaluate(written, module)
        if kind == "=>":
            assert ", ".join(prin1_text(v) for v in values) == said.strip(), written


def assert_code(diagnostics: list[Diagnostic], said: str, written: str) -> None:
    code = said.split(maxsplit=1)[0]
    errors = [d for d in diagnostics if d.severity == "error"]
    assert len(errors) == 1, f"{written}: {errors}"
    assert errors[0].code.id.startswith(code), f"{written}: {errors}"


# -- forms on tensors ---------------------------------------------------------------------------


def run_tensor_forms(block: Block) -> None:
    for written, kind, said in forms_of(block.text):
        if kind == "error:":
            with pytest.raises(sx.CompileError) as caught:
                tensor_text(written)
            assert_code(caught.value.diagnostics, said, written)
            continue
        found = tensor_text(written)
        if kind == "=>":
            assert found == said.strip(), written


def tensor_text(written: str) -> str:
    """What a form evaluated in a traced function gives, all its values where all are tensors, as
    the printer would write it. An ordinary value comes out as the message of an error."""
    text = f"""(lambda () (let ((values (multiple-value-list {written}
)))
      (cond ((every #'tensorp values) (values-list values))
            ((tensorp (first values)) (first values))
            (t (error "~s" (first values))))))"""
    try:
        arrays = sx.function(text)()
    except sx.CompileError as error:
        found = error.diagnostics[0]
        if found.code.id != "E-COND-001":
            raise
        return found.headline
    several = arrays if isinstance(arrays, tuple) else (arrays,)
    return ", ".join(nested(array.tolist(), array.dtype) for array in several)


def nested(value: Any, dtype: Any) -> str:
    if isinstance(value, list):
        return f"({' '.join(nested(item, dtype) for item in value)})"
    if dtype == np.bool_:
        return "t" if value else "nil"
    return prin1_text(value)


# -- run files ----------------------------------------------------------------------------------


def inserted(block: Block) -> str:
    """The example that the block names, with the block's definitions in it."""
    name = next(word[3:] for word in block.words if word.startswith("in="))
    ours = {form.key: form.text for form in forms_of(block.text)}
    theirs = forms_of((EXAMPLES / f"{name}.sx").read_text(encoding="utf-8"))
    kept = {form.key: ours.pop(form.key, form.text) for form in theirs}
    last = kept.pop(("defrun", ""))
    early = ("require", "defknob", "defvariant", "defsweep")
    first = [text for key, text in ours.items() if key[0] in early]
    more = [text for key, text in ours.items() if key[0] not in early]
    return "\n".join([*first, *kept.values(), *more, last])


def check_file(text: str) -> None:
    diagnostics = check_text(text, base=str(EXAMPLES))
    expected = [
        (number, match.group(1))
        for number, line in enumerate(text.split("\n"), 1)
        if (match := re.search(r"; error: (\S+)", line))
    ]
    errors = [d for d in diagnostics if d.severity == "error"]
    assert len(errors) == len(expected), f"{errors}\n{text}"
    for (line, code), found in zip(expected, errors, strict=True):
        assert found.code.id.startswith(code), found
        assert found.span is not None
        assert found.span.line == line, found
    if not expected:
        warnings = [d for d in diagnostics if d.code.id not in TOLERATED]
        assert not warnings, f"{warnings}\n{text}"


# Examples of knobs and groups need not use each of them.
TOLERATED = ("W-KNOB-001",)


# -- the pages themselves -------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_tables_are_current(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == generate.current(page), (
        "run python -m sexpgpu.docs.generate"
    )


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda p: p.stem)
def test_links_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        path = page.parent / file if file else page
        assert path.exists(), f"{page.name}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^a-z0-9 -]", "", h.lower()).replace(" ", "-") for h in headings}
            assert anchor in slugs, f"{page.name}: {target}"


def test_every_page_is_listed() -> None:
    index = (generate.PAGES / "index.md").read_text(encoding="utf-8")
    for page in PAGES:
        assert page.stem == "index" or f"({page.name})" in index, page.name


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_example_first(page: Path) -> None:
    """A page is a title, then an example (a few open with a table or a list), and links."""
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# ")
    if page.stem not in ("index", "how-it-works"):
        head = text.split("\n## ")[0]
        assert "```" in head, "no example before the first section"
        assert "\nRelated: " in text


@pytest.mark.parametrize("file", sorted(generate.STDLIB.rglob("*.sx")), ids=lambda p: p.name)
def test_every_standard_definition_says_what_it_is(file: Path) -> None:
    found = generate.definitions(file)
    assert len(found) >= 3
    assert not [definition.name for definition in found if not definition.doc]
