"""What a verb prints: results to stdout, diagnostics and progress to stderr. Colour only on a
terminal, and not under NO_COLOR."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from sexpgpu.diagnostics import render

if TYPE_CHECKING:
    from sexpgpu.diagnostics.model import Diagnostic


def is_terminal(stream: TextIO) -> bool:
    return stream.isatty()


def has_colour(stream: TextIO) -> bool:
    """Whether to colour what goes to this stream."""
    unwanted = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return is_terminal(stream) and not unwanted


def width() -> int:
    """How many columns of a source line are shown."""
    if not is_terminal(sys.stderr):
        return 100
    from shutil import get_terminal_size

    return min(max(get_terminal_size().columns - 8, 40), 160)


def result(text: str) -> None:
    """A result: a line or lines on stdout."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def flush() -> None:
    """Let readers have what was printed so far."""
    sys.stdout.flush()


def say(text: str) -> None:
    """A message for people: a line or lines on stderr. Where nobody hears it, it is dropped."""
    sys.stdout.flush()
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:
        let_go()


def strong(text: str) -> str:
    """A word of a message on stderr, in bold red where there is colour."""
    return f"\x1b[1;31m{text}\x1b[0m" if has_colour(sys.stderr) else text


def show(diagnostics: Sequence[Diagnostic]) -> None:
    """Diagnostics for people, on stderr, not more than they can read; nothing when there are
    none."""
    if diagnostics:
        say(render.texts(diagnostics, colour=has_colour(sys.stderr), width=width()))


def json_text(value: object, *, lines: bool = False) -> str:
    """A JSON document for stdout, indented unless it is one of several `lines`."""
    import json

    if lines:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2)


def json_result(value: object, *, lines: bool = False) -> None:
    """A JSON document (or one line of JSON lines) on stdout, written out at once."""
    result(json_text(value, lines=lines))
    sys.stdout.flush()


def let_go() -> None:
    """Send what is still written to stdout or stderr, where it cannot be, nowhere, so that it
    fails no more, at exit either."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def fault_object(diagnostics: Sequence[Diagnostic]) -> None:
    """The object that stands on stdout under --json when a verb could not do its work:
    `{"kind": "error", "error": {first error}, "diagnostics": [all]}`, on one line."""
    all_of_them = [render.to_json(diagnostic) for diagnostic in diagnostics]
    first = next((d for d in all_of_them if d["severity"] == "error"), None)
    json_result({"kind": "error", "error": first, "diagnostics": all_of_them}, lines=True)


def plain_json(value: object) -> object:
    """A value with NumPy numbers and non-finite floats as JSON has them ("nan", "inf", "-inf")."""
    from sexpgpu.loop.events import plain

    return plain(value)


def table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()
) -> None:
    """Rows in columns as wide as their widest cell; those of `right` end together."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    for row in (headings, *rows):
        cells = [
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        result("  ".join(cells).rstrip())


def bytes_text(count: int) -> str:
    """`1.5 MB`, in powers of ten."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.4g} TB"


def time_text(seconds: float) -> str:
    """A time in seconds since 1970 as local time: `2026-01-31 12:00:00`."""
    from time import localtime, strftime

    return strftime("%Y-%m-%d %H:%M:%S", localtime(seconds))
