"""`sexpgpu eval`: Lisp evaluated at compile time; one form, a stream of forms, or a dialogue."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from sexpgpu.cli import output
from sexpgpu.cli.inputs import compile_input, limits_of, source_of
from sexpgpu.cli.options import PATH, json_flag, limit_flag, selection_flags
from sexpgpu.compiler import decoded
from sexpgpu.diagnostics import render
from sexpgpu.diagnostics.codes import run as run_codes
from sexpgpu.diagnostics.model import Diagnostic, SxError
from sexpgpu.lisp.batch import Batch
from sexpgpu.lisp.conditions import precedence
from sexpgpu.lisp.errors import LispError
from sexpgpu.lisp.listener import Listener
from sexpgpu.lisp.printer import prin1_text
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.state import STATE
from sexpgpu.source import Source

if TYPE_CHECKING:
    from sexpgpu.compiler import Compiled
    from sexpgpu.lisp.values import Module


@click.command("eval")
@click.argument("file", metavar="[FILE]", type=PATH, required=False)
@click.option("-e", "forms", multiple=True, metavar="FORM", help="What to evaluate. Repeatable.")
@selection_flags
@json_flag
@limit_flag
def command(
    file: str | None,
    forms: tuple[str, ...],
    variants: tuple[str, ...],
    knobs: dict[str, str],
    as_json: bool,
    limits: dict[str, str],
) -> int:
    """Evaluate FORM, in the scope of FILE when one is given, and print the values of the last.

    With --json: {"values": [printed…], "output": …} or {"error": {code, message, condition…}}.
    `eval --json -` reads a form a line from standard input, evaluates each in a fresh environment,
    and prints an object a line. Without FORM: standard input, or on a terminal a dialogue."""
    if file == "-" and not forms and as_json:
        stream(Batch(limits_of(limits) if limits else None))
        return 0
    if forms:
        text = Source("-e", "\n".join(forms))
    elif file is None and sys.stdin.isatty() and not as_json:
        converse(Evaluator(Session(limits_of(limits))))
        return 0
    elif file is None or file == "-":
        text, _ = source_of("-")
        file = None
    elif sys.stdin.isatty() and not as_json:
        converse(scope_of(file, variants, knobs, limits))
        return 0
    else:
        raise click.UsageError(f"say what to evaluate in {file}: -e FORM")
    if file is None:
        evaluator = Evaluator(Session(limits_of(limits)))
    else:
        evaluator = scope_of(file, variants, knobs, limits)
    try:
        values, written = evaluator.evaluate(text)
    except SxError as error:
        if as_json:
            output.json_result({"error": error_object(error)}, lines=True)
        raise Shown(error, as_json) from None
    if as_json:
        output.json_result({"values": values, "output": written}, lines=True)
    else:
        print_values(values, written)
    output.show(evaluator.warnings())
    return 0


class Shown(click.exceptions.Exit):
    """The form failed. What is still to be said is said here; the exit code is 1."""

    def __init__(self, error: SxError, as_json: bool) -> None:
        super().__init__(1)
        if not as_json:
            output.show(error.diagnostics)


class Evaluator:
    """A session and a module in it, in which texts are evaluated one after the other."""

    def __init__(self, session: Session, module: Module | None = None) -> None:
        self.session = session
        self.module = session.new_module("eval") if module is None else module
        self._listener: _Listener | None = None  # of a dialogue
        self.session.diagnostics.clear()

    def evaluate(self, text: Source) -> tuple[list[str], str]:
        """The last form's values as printed, and what was written. Raises SxError."""

        def work() -> tuple[list[str], str]:
            STATE.output.take()
            values = self.session.evaluate(text, self.module)
            return [prin1_text(value) for value in values], STATE.output.take()

        return self.session.run(work)

    def converse(self, text: Source, show: Callable[[list[str], str], None]) -> None:
        """Evaluate each form, then give `show` its values as printed and what it wrote. What was
        read and evaluated before is in the variables `+ * /` and their kin. Raises SxError."""

        def work() -> None:
            STATE.output.take()
            if self._listener is None:
                self._listener = _Listener()
            self._listener.show = show
            self.session.evaluate(text, self.module, self._listener)

        self.session.run(work)

    def unfinished(self, text: str) -> bool:
        """Whether a text ends inside a form."""
        return self.session.unfinished(text, self.module)

    def written(self) -> str:
        """What a form wrote before it failed."""
        return STATE.output.take()

    def warnings(self) -> list[Diagnostic]:
        """The warnings since the last call."""
        found = list(self.session.diagnostics)
        self.session.diagnostics.clear()
        return found


class _Listener(Listener):
    """Shows what came of each form of a dialogue."""

    show: Callable[[list[str], str], None]

    def after(self, values: list[Any]) -> None:
        super().after(values)
        printed = [prin1_text(value) for value in values]
        self.show(printed, STATE.output.take())


def scope_of(
    file: str, variants: Sequence[str], knobs: dict[str, str], limits: dict[str, str]
) -> Evaluator:
    """An evaluator in the scope of a file, which may be a library; SxError with every diagnostic
    when it has errors."""
    compiled = compile_input(file, variants, knobs, limits)
    if compiled.module is None or faults_of(compiled):
        raise SxError(*compiled.diagnostics)
    return Evaluator(compiled.session, compiled.module)


def faults_of(compiled: Compiled) -> list[Diagnostic]:
    """The errors of a file, but for the contract names that a library does not define."""
    return [e for e in compiled.errors if e.code is not run_codes.E_RUN_001]


def error_object(error: SxError) -> dict[str, Any]:
    """The error of a form: a diagnostic's keys, and `condition`, the class precedence list of the
    Lisp condition where there was one."""
    found = render.to_json(error.diagnostics[0])
    cause = error.__context__
    if isinstance(cause, LispError):
        found["condition"] = precedence(cause.condition)
    return found


def print_values(values: Sequence[str], written: str) -> None:
    """What was written, then each value on a line of its own."""
    if written:
        output.result(written)
    for value in values:
        output.result(value)


def stream(batch: Batch) -> None:
    """A form a line from stdin, an object a line to stdout, in order."""

    def work() -> None:
        for line in sys.stdin.buffer:
            try:
                form = decoded(line, "the line").strip()
            except SxError as error:
                output.json_result(batch.refusal(error.diagnostics[0]), lines=True)
                continue
            if form:
                output.json_result(batch.answer(form), lines=True)

    batch.session.run(work)


def converse(evaluator: Evaluator) -> None:
    """The dialogue on a terminal."""
    from sexpgpu.cli.dialogue import dialogue

    dialogue(evaluator)
