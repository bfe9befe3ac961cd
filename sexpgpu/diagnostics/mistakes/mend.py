"""What a rule about a mistake gives, and how it looks at the text around a diagnostic."""

from __future__ import annotations

import re
from collections.abc import Callable

from sexpgpu.diagnostics.model import Diagnostic
from sexpgpu.source import Span


class Mend:
    """What to say and to write. `edits` are (start, end, text) in the source; `place` is a better
    primary place, as (start, end)."""

    __slots__ = ("edits", "fix", "place", "safe")

    def __init__(
        self,
        fix: str,
        *edits: tuple[int, int, str],
        safe: bool = False,
        place: tuple[int, int] | None = None,
    ) -> None:
        self.fix = fix
        self.edits = edits
        self.safe = safe
        self.place = place


Rule = Callable[[Diagnostic, Span], "Mend | None"]


def says(fix: str, *, headline: str = "", written: str = "") -> Rule:
    """A rule that says `fix`, without an edit, where the headline and what is written at the place
    have these patterns."""

    def rule(found: Diagnostic, span: Span) -> Mend | None:
        if re.search(headline, found.headline) and re.search(written, span.text):
            return Mend(fix)
        return None

    return rule


NAME = r"[^\s()'\"`,;|]+"
NUMBER = r"[-+]?\d+(?:\.\d*)?(?:[ed][-+]?\d+)?"


def before(span: Span, pattern: str) -> re.Match[str] | None:
    """The text of the form before the place, where it ends with a pattern."""
    return re.search(f"(?:{pattern})$", span.source.text[max(0, span.start - 200) : span.start])


def after(span: Span, pattern: str) -> re.Match[str] | None:
    """The text behind the place, where it begins with a pattern."""
    return re.match(pattern, span.source.text[span.end : span.end + 200])


def replaced(span: Span, text: str) -> tuple[int, int, str]:
    return span.start, span.end, text


def operator(span: Span) -> tuple[int, int, str]:
    """The operator of the call at a place: its start, end and text."""
    match = re.match(rf"\(\s*({NAME})", span.text)
    if match is None:
        return span.start, span.start, ""
    return span.start + match.start(1), span.start + match.end(1), match.group(1)
