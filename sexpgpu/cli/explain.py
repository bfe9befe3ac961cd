"""`sexpgpu explain`: what the compiler made of a file, or what a code means."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from sexpgpu.cli import output
from sexpgpu.cli.options import PATH, json_flag, limit_flag, selection_flags

if TYPE_CHECKING:
    from sexpgpu.diagnostics.model import Code


@click.command("explain")
@click.argument("file", metavar="FILE|CODE", type=PATH)
@selection_flags
@json_flag
@click.option("--by-line", is_flag=True, help="Cost by source line as well as by model path.")
@click.option("--casts", is_flag=True, help="Every cast, with its reason.")
@click.option(
    "--lowering",
    "platform",
    type=click.Choice(("cpu", "cuda")),
    help="Report on the lowered training graph in place of the rest; needs no such device.",
)
@click.option("--html", "page", metavar="OUT", type=PATH, help="Write one self-contained page.")
@click.option("--diagnostics", is_flag=True, help="The diagnostics that a run may select.")
@limit_flag
def command(
    file: str,
    variants: tuple[str, ...],
    knobs: dict[str, str],
    as_json: bool,
    by_line: bool,
    casts: bool,
    platform: str | None,
    page: str | None,
    diagnostics: bool,
    limits: dict[str, str],
) -> int:
    """What the compiler made of FILE: parameters, groups, schedules, loaders with the first batch,
    memory, random draws, cost, graphs. Or what a diagnostic CODE means.

    \b
    sexpgpu explain digits.sx --by-line
    sexpgpu explain digits.sx --lowering cuda
    sexpgpu explain digits.sx --html digits.html
    sexpgpu explain E-FLOW-001
    """
    if is_code(file) and not os.path.exists(file):
        explain_code(file, as_json)
        return 0
    if diagnostics:
        return _diagnostics(file, variants, knobs, limits, as_json)
    from sexpgpu.cli.inputs import document_input
    from sexpgpu.explain.batch import example_batch
    from sexpgpu.explain.summary import summary
    from sexpgpu.explain.text import explain_text

    document, warnings = document_input(file, variants, knobs, limits)
    output.show(warnings)
    if platform is not None:
        from sexpgpu.explain.lowering import lowering, lowering_text

        report = lowering(document, platform)
        if as_json:
            output.json_result(report)
        else:
            output.result(lowering_text(report))
        return 0
    data = {**summary(document), "batch": example_batch(document)}
    if page is not None:
        from sexpgpu.cli.check import write_whole
        from sexpgpu.explain.page import html_page

        write_whole(page, html_page(document, data))
        output.say(f"{page}: written")
    if as_json:
        output.json_result(data)
    elif page is None:
        output.result(explain_text(data, by_line, casts))
    return 0


def _diagnostics(
    file: str,
    variants: tuple[str, ...],
    knobs: dict[str, str],
    limits: dict[str, str],
    as_json: bool,
) -> int:
    """The names of what FILE offers, for `run --diagnostics`."""
    from sexpgpu.cli.inputs import compile_input

    compiled = compile_input(file, variants, knobs, limits)
    compiled.checked()
    names = compiled.assembly.offered if compiled.assembly is not None else []
    if as_json:
        output.json_result({"diagnostics": names})
    else:
        output.result("\n".join(names))
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
