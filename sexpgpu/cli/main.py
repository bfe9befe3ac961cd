"""The entry of the command line: finds the verb, loads its file, and turns whatever comes out
into the documented exit code. Knows no verb's work; imports click and nothing heavier."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

import click

from sexpgpu import __version__
from sexpgpu.cli import output
from sexpgpu.cli.faults import USAGE, NoSuchVerb, report_exception, report_usage

VERBS = {
    "check": "Every diagnostic of a file, without running it.",
    "watch": "Check again on every save.",
    "explain": "What the compiler made of a file, or what a code means.",
    "diff": "What differs in meaning between two files or runs.",
    "ir": "The IR document of a file.",
    "new": "Begin a run file from a template, another file, or a run.",
    "fmt": "The one layout of a file.",
    "macroexpand": "What the macros of a file make.",
    "eval": "Evaluate Lisp forms at compile time.",
    "variants": "The knobs, variants and sweeps that a file declares.",
    "run": "Train.",
    "predict": "The trained model on records from a file or standard input.",
    "status": "The state of runs at a glance.",
    "tail": "The events of a run, and those to come.",
    "annotate": "Say something in the events of a run.",
    "checkpoint": "What a run has saved: list, show, verify, diff, export, prune.",
    "crosscheck": "A few steps on two backends, compared.",
    "bench": "Steps a second, time to the first step, memory.",
    "docs": "The documentation, offline.",
}
"""Verb -> its line in the help; each is the command of `sexpgpu/cli/VERB.py`."""


class Verbs(click.Group):
    """The verbs; none is imported before it is called (or asked for its own help)."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command = import_module(f"sexpgpu.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and args[0] not in VERBS:
            raise NoSuchVerb(args[0], ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.group(
    cls=Verbs,
    subcommand_metavar="VERB …",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`sexpgpu VERB --help` has the flags of each. With any verb, --traceback shows where "
    "an internal fault was raised.",
)
@click.version_option(__version__, message="sexpgpu %(version)s")
def commands() -> None:
    """Compile and run machine learning experiments written in Lisp."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line on `arguments` (default: the process's) and exit."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who started us (>&-)
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # Names and labels hold any character; a terminal of another encoding must not stop us.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")
    if arguments is None:
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # see __main__
            signal.signal(signal.SIGINT, signal.default_int_handler)
        # Compiling allocates much and drops little; `run` turns collection on again to train.
        gc.disable()
    given = list(sys.argv[1:] if arguments is None else arguments)
    words, traceback = without_traceback(given)
    try:
        if "_SEXPGPU_COMPLETE" in os.environ:
            commands.main(prog_name="sexpgpu")  # the shell asks for completions
        # An own process may be replaced (see run); one that only calls this may not.
        own = "process" if arguments is None else None
        with commands.make_context("sexpgpu", words, obj=own) as context:
            status = commands.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as stop:
        status = stop.exit_code
    except click.UsageError as error:
        report_usage(error, VERBS, words)
        status = USAGE
    except BrokenPipeError:
        output.let_go()  # its reader has seen enough
        status = 0
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - nothing may get past
        status = report_exception(error, words, traceback)
    output.let_go()
    sys.exit(status if isinstance(status, int) else 0)


def without_traceback(words: Sequence[str]) -> tuple[list[str], bool]:
    """The arguments less `--traceback`, which stands anywhere before `--`; and whether it did."""
    end = list(words).index("--") if "--" in words else len(words)
    kept = [word for word in words[:end] if word != "--traceback"]
    return [*kept, *words[end:]], len(kept) < end
