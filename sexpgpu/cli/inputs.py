"""The file a verb is given, as something compiled: a run file or an IR document, `-` being
standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from sexpgpu.cli.output import say
from sexpgpu.compiler import Compiled, compile_source, decoded, read_all, read_source, read_value
from sexpgpu.compiler import declarations as declarations_of
from sexpgpu.diagnostics.codes.system import E_STORE_006
from sexpgpu.diagnostics.model import Diagnostic, SxError
from sexpgpu.lisp.state import Limits
from sexpgpu.source import Source

if TYPE_CHECKING:
    from sexpgpu.forms.knobs import Declarations
    from sexpgpu.ir.document import Diagnostics, Document
    from sexpgpu.source import Span


def source_of(file: str) -> tuple[Source, str]:
    """The text of FILE, and the folder that its relative paths start from. A run directory, or a
    checkpoint in one, stands for the document that it was made of."""
    if file != "-":
        file = document_of_run(file) or file
        return read_source(file), os.path.dirname(os.path.abspath(file))
    return Source("<stdin>", decoded(_standard_input(), "<stdin>")), os.getcwd()


def _standard_input() -> bytes:
    try:
        return read_all(sys.stdin.buffer)
    except OSError as error:
        raise SxError(
            Diagnostic(E_STORE_006, f"standard input cannot be read: {error.strerror}")
        ) from None


def document_of_run(path: str) -> str | None:
    """The IR document in a run directory, or in that of a checkpoint; None for another path."""
    if os.path.isdir(path):
        for folder in (path, os.path.join(path, os.pardir, os.pardir)):
            found = os.path.normpath(os.path.join(folder, "experiment.ir.json"))
            if os.path.exists(found):
                return found
    return None


def limits_of(given: Mapping[str, str]) -> Limits:
    """The limits of evaluation, with those given by `--limit NAME=N` changed."""
    limits = Limits()
    for name, text in given.items():
        if name not in Limits.__slots__:
            from sexpgpu.diagnostics.suggest import did_you_mean

            known = ", ".join(sorted(Limits.__slots__))
            near = did_you_mean(name, Limits.__slots__)
            raise click.UsageError(f"--limit: no limit {name}; {near or f'there are {known}'}")
        try:
            number = float(text) if name == "seconds" else int(text.replace("_", ""))
        except ValueError:
            number = 0
        if not 0 < number < float("inf"):
            raise click.UsageError(f"--limit {name}: {text!r} is not a positive number")
        setattr(limits, name, number)
    return limits


def is_document(source: Source) -> bool:
    """Whether a text is an IR document and not a run file."""
    return source.text.lstrip().startswith("{")


def compile_input(
    file: str,
    variants: Sequence[str] = (),
    knobs: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
) -> Compiled:
    """FILE compiled with a selection. Errors in it are in `.diagnostics`; SxError only when it
    cannot be read or the selection cannot be applied."""
    source, base = source_of(file)
    return _compile(source, base, variants, knobs or {}, limits or {})


def _compile(
    source: Source,
    base: str,
    variants: Sequence[str],
    knobs: Mapping[str, str],
    limits: Mapping[str, str],
    predict: str = "predict",
    diagnostics: Diagnostics | None = None,
) -> Compiled:
    settings = [(name, read_value(name, text)) for name, text in knobs.items()]
    compiled = compile_source(
        source,
        base,
        variants=variants,
        settings=settings,
        limits=limits_of(limits),
        predict=predict,
        diagnostics=diagnostics,
    )
    if compiled.output:
        say(compiled.output.rstrip("\n"))
    return compiled


def document_input(
    file: str,
    variants: Sequence[str] = (),
    knobs: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    predict: str = "predict",
    diagnostics: Diagnostics | None = None,
) -> tuple[Document, list[Diagnostic]]:
    """The document of FILE, a run file or an IR document (`sexpgpu ir --json` writes one), and
    the warnings about it. `predict` names the function that predicts. Raises SxError with every
    diagnostic when there are errors."""
    source, base = source_of(file)
    if not is_document(source):
        compiled = _compile(source, base, variants, knobs or {}, limits or {}, predict, diagnostics)
        return compiled.checked(), compiled.diagnostics
    if predict != "predict":
        raise click.UsageError(f"{file} is an IR document: it predicts by one function, traced")
    if variants or knobs or diagnostics is not None:
        raise click.UsageError(f"{file} is an IR document: its selection is made already")
    from sexpgpu.ir.document_json import read_document
    from sexpgpu.ops import infer

    return read_document(source.text, infer), []


def declarations(file: str) -> Declarations:
    """The knobs, variants and sweeps that FILE declares; SxError with what is wrong there."""
    source, _ = source_of(file)
    declared, problems = declarations_of(source)
    if problems:
        raise SxError(*problems)
    return declared


def diagnostics_of(
    file: str,
    variants: Sequence[str] = (),
    knobs: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    *,
    data: bool = False,
) -> list[Diagnostic]:
    """Every diagnostic of FILE; with `data` also what is wrong with the data of a sound one."""
    places: dict[str, Span | None] = {}
    found: list[Diagnostic] = []
    try:
        source, base = source_of(file)
        if is_document(source):
            from sexpgpu.ir.document_json import read_document
            from sexpgpu.ops import infer

            document = read_document(source.text, infer)
        else:
            compiled = _compile(source, base, variants, knobs or {}, limits or {})
            found = compiled.diagnostics
            document = compiled.document if data else None  # which takes more than a check
            places = _places(compiled)
    except SxError as error:
        return error.diagnostics
    if not data or document is None:
        return found
    from sexpgpu.loop.data.sample import data_problems

    return [*found, *data_problems(document, places)]


def _places(compiled: Compiled) -> dict[str, Span | None]:
    """Where the loaders of a file are declared."""
    if compiled.assembly is None:
        return {}
    return {name: form.span for name, form in compiled.assembly.experiment.loaders.items()}
