"""What ends a verb early, as an exit code and a message: coded errors, usage errors, errors of
the operating system, and faults of our own. Never a traceback, unless it was asked for."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from sexpgpu import __version__
from sexpgpu.cli import output
from sexpgpu.diagnostics.codes import system
from sexpgpu.diagnostics.model import Diagnostic, Note, SxError
from sexpgpu.diagnostics.suggest import nearest

if TYPE_CHECKING:
    from types import TracebackType

DONE = 0
FILE = 1
USAGE = 2
RUN = 3
MACHINE = 5
STOPPED_AT_ONCE = 130

_BY_FAMILY = {"CKPT": RUN, "DIST": RUN, "INT": RUN, "DEV": MACHINE}
_BY_ERRNO = {
    errno.ENOENT: system.E_STORE_001,
    errno.EACCES: system.E_STORE_002,
    errno.EPERM: system.E_STORE_002,
    errno.EROFS: system.E_STORE_002,
    errno.ENOSPC: system.E_STORE_004,
    errno.EDQUOT: system.E_STORE_004,
}


def exit_code(diagnostics: Iterable[Diagnostic]) -> int:
    """The exit code for diagnostics outside a run: 1 for what is wrong with the file, 3 and 5 for
    checkpoints and devices, 0 when there are only warnings. (A run's own errors: loop.failure.)"""
    errors = [diagnostic for diagnostic in diagnostics if diagnostic.severity == "error"]
    return max((_BY_FAMILY.get(e.code.id.split("-")[1], FILE) for e in errors), default=DONE)


def report_exception(error: BaseException, words: Sequence[str], traceback: bool) -> int:
    """Show what a verb raised and return the exit code. `words` are the command's arguments."""
    output.let_go()  # of a stream that what was raised may come from
    if isinstance(error, KeyboardInterrupt | click.Abort):
        output.say("interrupted")
        return STOPPED_AT_ONCE
    if isinstance(error, SxError):
        diagnostics, status = error.diagnostics, exit_code(error.diagnostics)
    else:
        diagnostics = [diagnosis(error, words)]
        status = exit_code(diagnostics)
    if traceback:
        import traceback as tracebacks

        output.say("".join(tracebacks.format_exception(error)).rstrip())
    if "--json" in words:
        try:
            output.fault_object(diagnostics)
        except OSError:
            output.let_go()
    output.show(diagnostics)
    return status


def diagnosis(error: BaseException, words: Sequence[str]) -> Diagnostic:
    """An exception that is no SxError as a diagnostic."""
    if isinstance(error, OSError) and error.errno is not None:
        code = _BY_ERRNO.get(error.errno, system.E_STORE_006)
        if error.filename is not None:
            return Diagnostic(code, f"{error.filename}: {error.strerror}")
        if error.errno in _BY_ERRNO:  # of a stream: its file has no name here
            return Diagnostic(code, f"a write failed: {error.strerror}")
    if isinstance(error, MemoryError):
        return Diagnostic(system.E_DEV_004, "this machine has no memory left")
    if isinstance(error, ModuleNotFoundError) and error.name and not _is_ours(error.name):
        return Diagnostic(system.E_DEV_005, f"the Python package {error.name} is not installed")
    said = str(error).strip().split("\n")[0]
    python = ".".join(map(str, sys.version_info[:3]))
    return Diagnostic(
        system.E_INT_001,
        f"this is a bug in sexpgpu: {type(error).__name__}{f': {said}' if said else ''}",
        notes=[
            Note(f"raised in {_place(error.__traceback__)}"),
            Note(f"sexpgpu {__version__}, Python {python}, {sys.platform}"),
            Note(f"the command was: sexpgpu {_quoted(words)}"),
        ],
    )


def _is_ours(module: str) -> bool:
    return module == "sexpgpu" or module.startswith("sexpgpu.")


def _place(trace: TracebackType | None) -> str:
    """The innermost place inside the product, as `module:line`."""
    found = "an unknown place"
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", ""))
        if _is_ours(module):
            found = f"{module}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def _quoted(words: Sequence[str]) -> str:
    from shlex import join

    return join(words)


NOT_YET = {
    "bundle": "an IR document runs anywhere: sexpgpu ir FILE --json > FILE.ir.json",
    "doctor": "`sexpgpu check FILE --data` reads the data, and `run --steps 1` tries the device",
    "lsp": "`sexpgpu watch FILE --json` checks again on every save",
    "report": "`sexpgpu run FILE --log csv` writes the curves; a notebook draws sx.open_run(RUN)",
    "sweep": "a point is run by `sexpgpu run FILE --set KNOB=VALUE`",
}
"""Verbs that the documentation speaks of as to come, and what does for now."""


class NoSuchVerb(click.UsageError):
    """The first word is no verb, or none of this release."""

    def __init__(self, verb: str, context: click.Context) -> None:
        more = ": it is not in this release" if verb in NOT_YET else ""
        super().__init__(f"no verb {verb}{more}", context)
        self.verb = verb


def report_usage(error: click.UsageError, verbs: Iterable[str], words: Sequence[str]) -> None:
    """Show a usage error, with the nearest verb or flag where one was misspelt. Under --json it is
    the object of any other fault, of the code "usage"."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        output.say(error.message)
        return
    context = error.ctx
    path = context.command_path if context else "sexpgpu"
    fix = None
    message = error.format_message()
    if isinstance(error, click.NoSuchOption):
        message = f"`{path}` has no flag {error.option_name}"
        if context is not None:
            near = nearest(error.option_name, _flags(context.command))
            fix = _knob_meant(error.option_name, context.command, words) or _did_you_mean(near)
    elif isinstance(error, NoSuchVerb):
        fix = NOT_YET.get(error.verb) or _did_you_mean(nearest(error.verb, verbs))
    if "--json" in words:
        told = {"code": "usage", "severity": "error", "message": message, "fix": fix}
        output.json_result({"kind": "error", "error": told, "diagnostics": []}, lines=True)
    output.say(f"{output.strong('error')}: {message}")
    if fix is not None:
        output.say(f"  fix: {fix}")
    output.say(f"  see: {path} --help")


def _did_you_mean(name: str | None) -> str | None:
    return None if name is None else f"did you mean {name}?"


def _knob_meant(flag: str, command: click.Command, words: Sequence[str]) -> str | None:
    """What to write for `--lr 1e-3`, where the file on the line has a knob `lr`."""
    file = next((word for word in words if word.endswith(".sx")), None)
    name = flag.lstrip("-").replace("_", "-").partition("=")[0]
    if file is None or "--set" not in _flags(command):
        return None
    from sexpgpu.cli.inputs import declarations

    try:
        known = {"seed", "steps", *declarations(file).knobs}
    except (SxError, OSError):
        return None  # a usage error is no place for what is wrong with the file
    return f"a knob is set by --set {name}=VALUE" if name in known else None


def _flags(command: click.Command) -> list[str]:
    return [name for option in command.params for name in (*option.opts, *option.secondary_opts)]
