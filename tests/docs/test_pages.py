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
from sexpgpu.diagnostics.model import Diagnostic, SxError
from sexpgpu.docs import generate
from sexpgpu.lisp.printer import prin1_text
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.values import CL, PRELUDE, TENSOR, Module
from sexpgpu.reader.reader import END, Reader
from sexpgpu.source import Source

ROOT = Path(__file__).parents[2]
PAGES = sorted(generate.PAGES.glob("*.md"))
EXAMPLES = ROOT / "examples"
FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ASSERTION = re.compile(r"^[ \t]*; (=>|error:) (.*)$")


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


def forms_of(text: str) -> list[tuple[Any, str, str, str]]:
    """Each top-level form, its text, and the kind and text of the assertion after it."""
    reader = Reader(Source("block", text), Module("block", (PRELUDE, TENSOR, CL)))
    found: list[tuple[Any, str, str, str]] = []
    start = 0
    while (form := reader.read()) is not END:
        rest = text[reader.at :].partition("\n")[0]
        said = ASSERTION.match(rest)
        written = text[start : reader.at]
        written = "\n".join(line for line in written.split("\n") if not line.startswith(";"))
        found.append((form, written.strip(), *(said.groups() if said else ("", ""))))
        start = reader.at
    return found


def read_forms_lazily(block: Block) -> list[tuple[str, str, str]]:
    """As `forms_of`, without the forms."""
    return [(written, kind, said) for _, written, kind, said in forms_of(block.text)]


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
    for written, kind, said in read_forms_lazily(block):
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
    for written, kind, said in read_forms_lazily(block):
        if kind == "error:":
            with pytest.raises(sx.CompileError) as caught:
                tensor_text(written)
            assert_code(caught.value.diagnostics, said, written)
            continue
        found = tensor_text(written)
        if kind == "=>":
            assert found == said.strip(), written


def tensor_text(written: str) -> str:
    """What a form evaluated in a traced function gives, as the printer would write it."""
    printed: list[str] = []
    text = f'(lambda () (let ((value {written})) (if (tensorp value) value (error "~s" value))))'
    try:
        array = sx.function(text)()
    except sx.CompileError as error:  # an ordinary value: its text is in the message
        if not error.diagnostics[0].code.id.startswith("E-COND"):
            raise
        printed.append(error.diagnostics[0].headline)
        return printed[0].rpartition(": ")[2]
    return nested(array.tolist(), array.dtype)


def nested(value: Any, dtype: Any) -> str:
    if isinstance(value, list):
        return f"({' '.join(nested(item, dtype) for item in value)})"
    if dtype == np.bool_:
        return "t" if value else "nil"
    return prin1_text(value)


# -- run files ----------------------------------------------------------------------------------


def key_of(form: Any) -> tuple[str, str]:
    """What a definition defines: a later one of the same key takes its place."""
    head = form.car.name
    second = getattr(form.cdr.car, "name", "") if head != "require" else form.cdr.car.text
    return ("defrun", "") if head == "defrun" else (head, second)


def inserted(block: Block) -> str:
    """The example that the block names, with the block's definitions in it."""
    name = next(word[3:] for word in block.words if word.startswith("in="))
    example = (EXAMPLES / f"{name}.sx").read_text(encoding="utf-8")
    ours = {key_of(form): written for form, written, _, _ in forms_of(block.text)}
    # the text of a block keeps its comments: they hold the assertions
    texts = dict(zip(ours, split_forms(block.text), strict=True))
    parts: list[str] = []
    last = ""
    for form, written, _, _ in forms_of(example):
        key = key_of(form)
        if key == ("defrun", ""):
            last = texts.pop(key, written)
        else:
            parts.append(texts.pop(key, written))
    requires = [t for k, t in texts.items() if k[0] in ("require", "defknob", "defvariant")]
    others = [t for k, t in texts.items() if k[0] not in ("require", "defknob", "defvariant")]
    return "\n".join([*requires, *parts, *others, last])


def split_forms(text: str) -> list[str]:
    """The top-level forms of a block, each with the rest of its last line."""
    reader = Reader(Source("block", text), Module("block", (PRELUDE, TENSOR, CL)))
    found: list[str] = []
    start = 0
    while reader.read() is not END:
        end = text.find("\n", reader.at)
        end = len(text) if end < 0 else end
        found.append(text[start:end].strip("\n"))
        start = end
    return found


def check_file(text: str) -> None:
    diagnostics = sx.check_text(text, base=str(EXAMPLES))
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
