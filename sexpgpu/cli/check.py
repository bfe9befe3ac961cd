"""`sexpgpu check`: every diagnostic of a file. Loads neither jax nor numpy."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from sexpgpu import __version__
from sexpgpu.cli import output
from sexpgpu.cli.faults import exit_code
from sexpgpu.cli.inputs import diagnostics_of
from sexpgpu.cli.options import PATH, json_flag, limit_flag, selection_flags
from sexpgpu.diagnostics import render
from sexpgpu.diagnostics.codes.system import E_STORE_001
from sexpgpu.diagnostics.model import Diagnostic, Edit, SxError

FIX_ROUNDS = 20
"""How often `--fix` checks again: within a form each mistake shows only when the one before is
mended."""
FORMATS = ("text", "concise", "json", "github", "sarif")


@click.command("check")
@click.argument("files", metavar="FILE…", type=PATH, nargs=-1, required=True)
@selection_flags
@json_flag
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("--fix", is_flag=True, help="Apply the certain fixes while there are any.")
@click.option(
    "--data", is_flag=True, help="Open every loader, and read its first batch and last record."
)
@limit_flag
def command(
    files: tuple[str, ...],
    variants: tuple[str, ...],
    knobs: dict[str, str],
    as_json: bool,
    form: str,
    fix: bool,
    data: bool,
    limits: dict[str, str],
) -> int:
    """Read, evaluate, trace, assemble, validate and differentiate each FILE, and report every
    diagnostic found. `-` is standard input. Exit 1 when there are errors."""
    if files.count("-") > 1:
        raise click.UsageError("standard input can be read only once")

    def of(file: str) -> list[Diagnostic]:
        return diagnostics_of(file, variants, knobs, limits, data=data)

    found = {file: of(file) for file in files}
    if fix:
        for file in files:
            rounds = 0
            while file != "-" and rounds < FIX_ROUNDS and apply_edits(found[file]):
                found[file] = of(file)
                rounds += 1
    everything = [diagnostic for diagnostics in found.values() for diagnostic in diagnostics]
    _print(found, everything, "json" if as_json else form)
    return exit_code(everything)


def _print(found: dict[str, list[Diagnostic]], everything: Sequence[Diagnostic], form: str) -> None:
    if form == "json":
        output.json_result(
            {
                "files": list(found),
                "errors": sum(d.severity == "error" for d in everything),
                "warnings": sum(d.severity == "warning" for d in everything),
                "diagnostics": [render.to_json(d) for d in everything],
            }
        )
    elif form == "sarif":
        output.json_result(render.sarif(everything, __version__))
    elif form in ("github", "concise"):
        show = render.github if form == "github" else render.concise
        for diagnostic in everything:
            output.result(show(diagnostic))
    else:
        output.show(everything)
        for file, diagnostics in found.items():
            name = "<stdin>" if file == "-" else file
            output.result(f"{name}: {render.summary(diagnostics)}")


def apply_edits(diagnostics: Sequence[Diagnostic]) -> bool:
    """Write the safe edits of diagnostics into their files; True when any was written. Of edits
    that overlap the first is taken: the next check offers the others again."""
    by_path: dict[str, list[Edit]] = {}
    for diagnostic in diagnostics:
        for edit in diagnostic.edits:
            path = edit.span.source.path
            if edit.safe and path is not None and not edit.span.source.standard:
                by_path.setdefault(path, []).append(edit)
    for path, edits in by_path.items():
        text = edits[0].span.source.text
        start = len(text) + 1
        for edit in sorted(edits, key=lambda edit: (edit.span.start, edit.span.end), reverse=True):
            if edit.span.end <= start:
                text = text[: edit.span.start] + edit.text + text[edit.span.end :]
                start = edit.span.start
        write_whole(path, text)
    return bool(by_path)


def write_whole(path: str, text: str) -> None:
    """Write or replace a file at once, so that no half of it can be left behind. OSError names the
    path as it was given."""
    place = os.path.realpath(path)
    beside = f"{place}.{os.getpid()}.new"
    try:
        with open(beside, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
        if sys.platform != "win32" and os.path.exists(place):
            os.chmod(beside, os.stat(place).st_mode & 0o7777)
        os.replace(beside, place)
    except OSError as error:
        if os.path.exists(beside):
            os.unlink(beside)
        folder = os.path.dirname(place)
        if not os.path.isdir(folder):
            told = f"{path} cannot be written: there is no folder {os.path.dirname(path)}"
            fix = "make the folder, or name another"
            raise SxError(Diagnostic(E_STORE_001, told, fix=fix)) from None
        raise OSError(error.errno, error.strerror, path) from None
