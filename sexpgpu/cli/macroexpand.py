"""`sexpgpu macroexpand`: what macros make, of a form or of every use in a file, with places."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import click

from sexpgpu.cli import output
from sexpgpu.cli.eval import faults_of, scope_of
from sexpgpu.cli.inputs import compile_input
from sexpgpu.cli.options import PATH, json_flag, limit_flag, selection_flags
from sexpgpu.diagnostics.model import SxError
from sexpgpu.lisp.analyze import AT
from sexpgpu.lisp.expand_all import macroexpand_all
from sexpgpu.lisp.macros import macroexpand_1
from sexpgpu.lisp.printer import prin1_text
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.values import CL, NIL, Module, SrcCons, Symbol
from sexpgpu.reader.failures import ReadFailure, TooDeep
from sexpgpu.reader.layout import layout
from sexpgpu.reader.reader import END, Reader
from sexpgpu.source import Source


@click.command("macroexpand")
@click.argument("file", metavar="FILE", type=PATH)
@click.option("-e", "form", metavar="FORM", help="The form to expand, in the scope of FILE.")
@click.option("--all", "everywhere", is_flag=True, help="Expand inside the form, too.")
@selection_flags
@json_flag
@limit_flag
def command(
    file: str,
    form: str | None,
    everywhere: bool,
    variants: tuple[str, ...],
    knobs: dict[str, str],
    as_json: bool,
    limits: dict[str, str],
) -> int:
    """What the macros of FILE make: each step of FORM's expansion, or without FORM every use of a
    macro of the file and its modules, with its place. (CL's own macros and the forms of a run file
    are not written in the language: they stay.)

    \b
    sexpgpu macroexpand layers.sx
    sexpgpu macroexpand layers.sx -e '(with-twice x (f))' --all
    """
    if form is None:
        uses = _uses(file, variants, knobs, limits)
        if as_json:
            output.json_result({"uses": uses})
        else:
            for use in uses:
                place = f"{use['file']}:{use['line']}:{use['column']}"
                output.result(f"; {place}  {use['macro']}\n{use['expansion']}\n")
        return 0
    evaluator = scope_of(file, variants, knobs, limits)
    module = evaluator.module

    def work() -> list[str]:
        read = _read(form, module, evaluator.session)
        if everywhere:
            return [_text(macroexpand_all(read))]
        steps: list[str] = []
        expanded, more = macroexpand_1(read, NIL)
        while more:
            steps.append(_text(expanded))
            expanded, more = macroexpand_1(expanded, NIL)
        return steps or [_text(read)]

    steps = evaluator.session.run(work)
    if as_json:
        output.json_result({"expansion": steps[-1], "steps": steps})
    else:
        output.result("\n\n".join(steps))
    return 0


def _read(text: str, module: Module, session: Session) -> Any:
    """The one form of a text."""
    reader = Reader(Source("-e", text), module, session.features)
    try:
        form = reader.read()
        more = form is END or reader.read() is not END
    except (ReadFailure, TooDeep) as error:
        raise SxError(session.report(error)) from None
    if more:
        raise click.UsageError(f"-e takes one form: {text}")
    return form


def _uses(
    file: str, variants: Sequence[str], knobs: dict[str, str], limits: dict[str, str]
) -> list[dict[str, Any]]:
    """Every use in the user's texts of a macro written in the language, in order of place."""
    made: dict[int, Any] = {}
    outer, AT.record = AT.record, made
    try:
        compiled = compile_input(file, variants, knobs, limits)
    finally:
        AT.record = outer
    if compiled.module is None or (faults_of(compiled) and not made):
        raise SxError(*compiled.diagnostics)
    output.show(faults_of(compiled))
    found: dict[tuple[str, int], dict[str, Any]] = {}

    def collect() -> None:
        for call, expansion, *_ in made.values():
            if type(call) is not SrcCons or not isinstance(call.car, Symbol):
                continue
            span = call.span
            if call.car.module is CL or call.car.macro is None or span.source.standard:
                continue
            found[span.source.name, span.start] = {
                "macro": call.car.name,
                "file": span.source.name,
                "line": span.line,
                "column": span.column,
                "expansion": _text(expansion),
            }

    compiled.session.run(collect)
    return [found[key] for key in sorted(found)]


def _text(form: Any) -> str:
    """A form as text in the layout, with line breaks before the forms of bodies. Fresh symbols
    stand as the printer writes them."""
    text = prin1_text(form)
    return layout(Source("<expansion>", _broken(text))).rstrip("\n")


_BODY = re.compile(r"(?<=\)) (?=\()")


def _broken(text: str) -> str:
    """A line break between neighbouring lists of a long form: the layout indents them."""
    return text if len(text) <= 80 else _BODY.sub("\n", text)
