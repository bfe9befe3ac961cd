"""What is raised of a text that is not a form."""

from __future__ import annotations

from collections.abc import Iterable

from sexpgpu.diagnostics.model import Code, Diagnostic, Label, Note
from sexpgpu.source import Source, Span


class ReadFailure(Exception):
    """Text that is not a form. `at_end`: more text might have completed it."""

    def __init__(self, diagnostic: Diagnostic, at_end: bool = False) -> None:
        super().__init__(diagnostic.headline)
        self.diagnostic = diagnostic
        self.at_end = at_end


class TooDeep(Exception):
    """Lists nested beyond the limit, with the place of the one too many."""

    def __init__(self, span: Span, limit: int) -> None:
        super().__init__("lists are nested too deeply")
        self.span = span
        self.limit = limit


def failure(
    source: Source,
    code: Code,
    headline: str,
    start: int,
    end: int,
    label: str = "",
    notes: Iterable[Note] = (),
    fix: str | None = None,
    at_end: bool = False,
) -> ReadFailure:
    """The failure of the text from `start` to `end`."""
    span = Span(source, start, end)
    return ReadFailure(Diagnostic(code, headline, [Label(span, label)], list(notes), fix), at_end)
