"""`sexpgpu new`: a run file from a template, from another file, or from a run."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from glob import glob
from importlib.resources import files
from typing import Any

import click

from sexpgpu.cli import output
from sexpgpu.cli.check import write_whole
from sexpgpu.cli.fmt import laid_out
from sexpgpu.cli.inputs import document_of_run, source_of
from sexpgpu.cli.options import PATH, selection_flags
from sexpgpu.compiler import declarations, lisp_value, read_value
from sexpgpu.diagnostics.codes.run import E_KNOB_001
from sexpgpu.diagnostics.model import Diagnostic, SxError
from sexpgpu.forms.knobs import select
from sexpgpu.lisp.printer import prin1_text
from sexpgpu.reader.layout.tree import Atom, List, Node, parse
from sexpgpu.source import Source

TEMPLATES = {
    "mlp": "a classifier of vectors",
    "convnet": "a classifier of images",
    "gpt": "a transformer over bytes",
    "vit": "a transformer over patches of images",
    "rnn": "a gated recurrent network over sequences",
}
"""Template -> what it is; each is the file `templates/NAME.sx` beside this one."""


@click.command("new")
@click.argument("words", metavar="[FROM] TO", type=PATH, nargs=-1, required=True)
@click.option(
    "--template", type=click.Choice(list(TEMPLATES)), help="Begin from a template: no FROM."
)
@selection_flags
def command(
    words: tuple[str, ...],
    template: str | None,
    variants: tuple[str, ...],
    knobs: dict[str, str],
) -> int:
    """Begin a run file TO from FROM, a run file or the directory of a run, or from a template. The
    selection becomes the defaults of its knobs, relative paths are made to lead to the same files,
    and a comment at the top says where it came from. TO must not exist; `-` is standard output.

    \b
    sexpgpu new --template gpt mine.sx
    sexpgpu new digits.sx wide.sx --variant wide --set lr=1e-3
    sexpgpu new runs/digits-1f0c22aa again.sx        as that run was, text and knobs
    """
    if len(words) != (1 if template else 2):
        raise click.UsageError("name TO alone with --template, and FROM and TO without it")
    to = words[-1]
    if to != "-" and os.path.exists(to):
        raise click.UsageError(f"{to} exists: `new` replaces nothing; choose another name")
    settings = [(name, read_value(name, text)) for name, text in knobs.items()]
    if template:
        text = (files("sexpgpu") / "cli" / "templates" / f"{template}.sx").read_text("utf-8")
        source, base = Source(f"{template}.sx", text), None
        origin = f"the template {template}"
    else:
        source, base, variants, settings = _begin(words[0], variants, settings)
        origin = words[0]
    text = with_defaults(source, variants, settings)
    if base is not None:
        text = with_paths(Source(source.name, text), base, os.path.dirname(os.path.abspath(to)))
    changed = [*variants, *(f"{name}={prin1_text(value)}" for name, value in settings)]
    chosen = f" with {' '.join(changed)}" if changed else ""
    text = f";; Begun from {origin}{chosen} (SHA-256 {source.sha256[:12]}).\n{text}"
    text = laid_out(Source(to, text))
    if to == "-":
        output.result(text)
    else:
        write_whole(to, text)
        output.result(f"{to}: begun from {origin}{chosen}")
    return 0


def _begin(
    origin: str, variants: Sequence[str], settings: list[tuple[str, Any]]
) -> tuple[Source, str, tuple[str, ...], list[tuple[str, Any]]]:
    """The text that FROM stands for, the folder of its paths, and the selection to write in: that
    of a run is its own, changed by the one given."""
    if document_of_run(origin) is None:
        source, base = source_of(origin)
        return source, base, tuple(variants), settings
    from sexpgpu.ir.document_json import read_document
    from sexpgpu.ops import infer

    document = read_document(source_of(origin)[0].text, infer)
    entry = document.manifest.get("entry")
    source = next(s for s in document.sources if s.name == entry)
    stage = document.loaders[0].stages[0]
    selection = document.manifest.get("selection", {})
    own = [
        (name, lisp_value(knob["value"]))
        for name, knob in selection.get("knobs", {}).items()
        if knob["source"] != "default"
    ]
    names = {name for name, _ in settings}
    settings = [*((n, v) for n, v in own if n not in names), *settings]
    return source, stage.base, tuple(variants), settings


def with_defaults(
    source: Source, variants: Sequence[str], settings: Sequence[tuple[str, Any]]
) -> str:
    """The text with the selection's values as the defaults of its knobs."""
    declared, problems = declarations(source)
    if problems:
        raise SxError(*problems)
    selection = select(declared, variants, settings)
    if selection.overrides:
        name = next(iter(selection.overrides))
        raise SxError(
            Diagnostic(
                E_KNOB_001,
                f"no knob {name} is declared: its value can be written nowhere",
                fix=f"declare (defknob {name} …) in the file, and use it in defrun",
            )
        )
    edits: list[tuple[int, int, str]] = []
    for knob in selection.knobs.values():
        if knob.source == "default" or knob.span is None:
            continue
        place = _default_place(source.text, knob.span.start)
        if place is not None:
            edits.append((*place, prin1_text(knob.value)))
    text = source.text
    for start, end, written in sorted(edits, reverse=True):
        text = text[:start] + written + text[end:]
    return text


_KNOB = re.compile(r"\(\s*defknob\s+[^\s()]+\s+", re.IGNORECASE)


def _default_place(text: str, near: int) -> tuple[int, int] | None:
    """Where the default stands of the defknob around an offset."""
    found = None
    for match in _KNOB.finditer(text):
        if match.start() <= near <= match.end():
            found = match
    if found is None:
        return None
    start = found.end()
    depth, at = 0, start
    while at < len(text):
        letter = text[at]
        if letter == '"':
            at = text.index('"', at + 1)
        elif letter == "(":
            depth += 1
        elif letter == ")":
            if depth == 0:
                return start, at
            depth -= 1
            if depth == 0:
                return start, at + 1
        elif letter in " \t\n" and depth == 0 and text[start] not in "('":
            return start, at
        at += 1
    return None


def with_paths(source: Source, old: str, new: str) -> str:
    """The text with relative paths that lead to files from the folder `old` leading to the same
    files from `new`."""
    if os.path.realpath(old) == os.path.realpath(new):
        return source.text
    text = source.text
    for path in sorted(_strings(parse(source)), key=len, reverse=True):
        if os.path.isabs(path) or "://" in path or not path or path.startswith("sexpgpu/"):
            continue
        if not glob(os.path.join(old, path)):
            continue
        moved = os.path.relpath(os.path.join(old, path), new).replace(os.sep, "/")
        if path.startswith(".") and not moved.startswith("."):
            moved = f"./{moved}"
        text = text.replace(f'"{path}"', f'"{moved}"')
    return text


def _strings(items: Sequence[Node]) -> set[str]:
    found: set[str] = set()
    for item in items:
        if isinstance(item, List):
            found |= _strings(item.items)
        elif isinstance(item, Atom) and item.text.startswith('"') and "\\" not in item.text:
            found.add(item.text[1:-1])
    return found
