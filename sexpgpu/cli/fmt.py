"""`sexpgpu fmt`: the one layout. Comments and line breaks stay; the forms stay the same."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence

import click

from sexpgpu.cli import output
from sexpgpu.cli.check import write_whole
from sexpgpu.cli.faults import FILE, exit_code
from sexpgpu.cli.inputs import source_of
from sexpgpu.cli.options import PATH, json_flag
from sexpgpu.diagnostics.codes.lisp import E_LIMIT_006
from sexpgpu.diagnostics.model import Diagnostic, Label, SxError
from sexpgpu.reader.layout import layout
from sexpgpu.reader.layout.rules import body_macros
from sexpgpu.source import Source, Span


@click.command("fmt")
@click.argument("files", metavar="[FILE|FOLDER]…", type=PATH, nargs=-1)
@click.option("--check", "only_check", is_flag=True, help="Write nothing; exit 1 if any differs.")
@click.option("--diff", is_flag=True, help="Write nothing; show what would change.")
@json_flag
def command(files: tuple[str, ...], only_check: bool, diff: bool, as_json: bool) -> int:
    """Lay out each FILE, and each .sx file under a FOLDER, in place. Without one, or with `-`,
    standard input is laid out to standard output.

    \b
    sexpgpu fmt digits.sx              write the layout into the file
    sexpgpu fmt --check .              is everything here laid out?
    sexpgpu fmt - < digits.sx          a filter, for editors
    """
    if not files and sys.stdin.isatty():
        raise click.UsageError("name a FILE, or give a text on standard input")
    changed: list[str] = []
    problems: list[Diagnostic] = []
    named = [*_named(files or ("-",))]
    for file in named:
        source, _ = source_of(file)
        try:
            text = laid_out(source)
        except SxError as error:
            problems += error.diagnostics
            continue
        if text != source.text:
            changed.append(file)
        if diff:
            _show_diff(source, text)
        elif only_check:
            if text != source.text and not as_json:
                output.result(f"{file}: not in layout")
        elif file == "-":
            output.result(text or "\n") if not as_json else None
        elif text != source.text:
            write_whole(file, text)
            if not as_json:
                output.result(f"{file}: laid out")
    if as_json:
        output.json_result({"files": named, "changed": changed})
    output.show(problems)
    if problems:
        return exit_code(problems)
    return FILE if only_check and changed else 0


def laid_out(source: Source) -> str:
    """The layout of a source, which knows the `&body` macros of what it requires."""
    try:
        return layout(source, macros_around(source))
    except RecursionError:
        place = [Label(Span(source, 0, 1))]
        raise SxError(Diagnostic(E_LIMIT_006, "lists are nested too deeply", place)) from None


def macros_around(source: Source) -> dict[str, int]:
    """The `&body` macros of the prelude, the standard modules, and local modules required."""
    from importlib.resources import files

    standard = files("sexpgpu") / "stdlib"
    found = body_macros((standard / "prelude.sx").read_text(encoding="utf-8"))
    for path in re.findall(r'\(require\s+"([^"]+)"', source.text):
        if path.startswith("."):
            base = os.path.dirname(source.path or os.path.join(os.getcwd(), "-"))
            try:
                with open(os.path.join(base, path), encoding="utf-8") as stream:
                    found.update(body_macros(stream.read()))
            except (OSError, UnicodeDecodeError):
                continue  # check tells of it; its macros are laid out like functions
        elif (standard / f"{path}.sx").is_file():
            found.update(body_macros((standard / f"{path}.sx").read_text(encoding="utf-8")))
    return found


def _named(words: Sequence[str]) -> Iterator[str]:
    """The files meant: a folder stands for the run files in it, hidden folders left out."""
    for word in words:
        if word == "-" or not os.path.isdir(word):
            yield word
            continue
        for folder, inner, files in os.walk(word):
            inner[:] = sorted(name for name in inner if not name.startswith("."))
            yield from (os.path.join(folder, f) for f in sorted(files) if f.endswith(".sx"))


def _show_diff(source: Source, text: str) -> None:
    from difflib import unified_diff

    before, after = source.text.splitlines(keepends=True), text.splitlines(keepends=True)
    for line in unified_diff(before, after, source.name, f"{source.name} (laid out)"):
        output.result(line)
