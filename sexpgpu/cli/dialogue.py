"""The dialogue of `sexpgpu eval` on a terminal: read, evaluate, print.

A form may take several lines; names are completed with Tab; Ctrl-C gives up a form or stops its
evaluation, Ctrl-D ends. What is written is kept from one dialogue to the next, where the home
directory can be written to.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sexpgpu.cli import output
from sexpgpu.diagnostics.model import SxError
from sexpgpu.diagnostics.suggest import nearest
from sexpgpu.lisp.names import described, visible_names
from sexpgpu.source import Source

if TYPE_CHECKING:
    from sexpgpu.cli.eval import Evaluator

HISTORY = 1000  # lines kept
HELP = """A form is evaluated when its parentheses are closed; its values are printed.
  * + /       the last value, form, and list of values; ** and *** those before, and so on
  :doc NAME   what a function, macro or special form is for
  :help       this text
  :quit       end (also Ctrl-D)
Tab completes a name. Ctrl-C gives up what is being written or evaluated."""


def dialogue(evaluator: Evaluator) -> None:
    """Read, evaluate, print, until the input ends."""
    line_editor = _line_editor(evaluator)
    pending = ""
    try:
        while True:
            try:
                line = input("... " if pending else "sx> ")
            except EOFError:
                output.result("")
                return
            except KeyboardInterrupt:
                pending = ""
                output.result("")
                continue
            if not pending and line.strip().startswith(":"):
                word, _, rest = line.strip().partition(" ")
                if word == ":quit":
                    return
                if word in (":help", ":doc"):
                    output.result(HELP if word == ":help" else _document(evaluator, rest.strip()))
                    continue
            pending += line + "\n"
            if not pending.strip():
                pending = ""
            elif not evaluator.unfinished(pending):
                _answer(evaluator, pending)
                pending = ""
    finally:
        if line_editor is not None:
            _keep_history(line_editor)


def _answer(evaluator: Evaluator, text: str) -> None:
    """Evaluate a text, and show what comes of each form. No error ends the dialogue."""
    try:
        evaluator.converse(Source("<input>", text), _show)
    except SxError as error:
        _show([], evaluator.written())
        output.show(error.diagnostics)
    except KeyboardInterrupt:
        output.say("interrupted")
    output.show(evaluator.warnings())
    sys.stdout.flush()


def _show(values: list[str], written: str) -> None:
    """What a form wrote, then its values, a line each."""
    for text in (written, *values):
        if text:
            output.result(text)


def _document(evaluator: Evaluator, name: str) -> str:
    """What `:doc NAME` prints."""
    if not name:
        return "write :doc NAME"
    text = evaluator.session.run(lambda: described(evaluator.module, name.lower()))
    if text is not None:
        return text
    near = nearest(name.lower(), visible_names(evaluator.module))
    return f"nothing is called {name}" + (f"; the nearest name is {near}" if near else "")


# ---------------------------------------------------------------- the line editor


def _line_editor(evaluator: Evaluator) -> Any:
    """The module `readline` with history and completion set up, or None where there is none."""
    try:
        readline: Any = import_module("readline")
    except ImportError:
        return None
    with suppress(OSError):
        readline.read_history_file(_history_path())
    found: list[str] = []

    def complete(text: str, state: int) -> str | None:
        if state == 0:
            found[:] = sorted(n for n in visible_names(evaluator.module) if n.startswith(text))
        return found[state] if state < len(found) else None

    readline.set_completer_delims(" \t\n()'`,\"#;")
    readline.set_completer(complete)
    libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")
    return readline


def _history_path() -> Path:
    """Where the lines of earlier dialogues are kept."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "sexpgpu" / "history"


def _keep_history(readline: Any) -> None:
    readline.set_history_length(HISTORY)
    with suppress(OSError):  # a home that cannot be written to is no reason to complain
        path = _history_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        readline.write_history_file(path)
