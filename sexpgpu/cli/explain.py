"""`sexpgpu explain`: what the compiler made of a file, or what a code means."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from sexpgpu.cli import output
from sexpgpu.cli.options import json_flag, limit_flag, selection_flags

if TYPE_CHECKING:
    from sexpgpu.diagnostics.model import Code


@click.command("explain")
@click.argument("file", metavar="FILE|CODE")
@selection_flags
@json_flag
@click.option("--by-line", is_flag=True, help="Cost by source line as well as by model path.")
@limit_flag
def command(
    file: str,
    variants: tuple[str, ...],
    knobs: dict[str, str],
    as_json: bool,
    by_line: bool,
    limits: dict[str, str],
) -> int:
    """What the compiler made of FILE: parameters, groups, loaders, graphs, cost. Or what a
    diagnostic CODE means: explain E-FLOW-001."""
    if is_code(file) and not os.path.exists(file):
        explain_code(file, as_json)
        return 0
    from sexpgpu.cli.inputs import document_input
    from sexpgpu.explain.summary import summary
    from sexpgpu.explain.text import explain_text

    document, warnings = document_input(file, variants, knobs, limits)
    data = summary(document)
    output.show(warnings)
    if as_json:
        output.json_result(data)
    else:
        output.result(explain_text(data, by_line))
    return 0


def is_code(word: str) -> bool:
    """Whether a word looks like the code of a diagnostic, as far as one may mistype it."""
    parts = word.upper().split("-")
    return len(parts) == 3 and parts[0] in ("E", "W") and parts[1].isalpha() and parts[2].isdigit()


def explain_code(id: str, as_json: bool) -> None:
    """Print what the catalogue says of a code."""
    from sexpgpu.diagnostics.codes import all_codes, lookup
    from sexpgpu.diagnostics.suggest import nearest

    code = lookup(id)
    if code is None:
        near = nearest(id.upper(), all_codes())
        raise click.UsageError(f"no code {id}" + (f"; did you mean {near}?" if near else ""))
    if as_json:
        keys = ("id", "severity", "title", "explain", "fix", "bad", "good")
        output.json_result({key: getattr(code, key) for key in keys})
    else:
        output.result(code_text(code))


def code_text(code: Code) -> str:
    """A code for people: what it means, the fix, and a file that shows it with its mended form."""
    from textwrap import fill, indent

    parts = [f"{code.id}: {code.title}", fill(code.explain, 90), f"Fix: {code.fix}"]
    for words, example in (("This file shows it:", code.bad), ("Mended:", code.good)):
        if example:
            parts.append(f"{words}\n\n{indent(example.rstrip(), '    ')}")
    return "\n\n".join(parts)
