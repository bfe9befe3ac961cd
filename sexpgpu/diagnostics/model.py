"""What a compile diagnostic is. Knows nothing of how it is shown or who raises it."""

from __future__ import annotations

from collections.abc import Sequence

from sexpgpu.source import Origin, Span


class Code:
    """A declared kind of diagnostic. Made only by `code()`, in `diagnostics/codes/`."""

    __slots__ = ("bad", "explain", "fix", "good", "id", "title")

    def __init__(self, id: str, title: str, explain: str, fix: str, bad: str, good: str) -> None:
        self.id = id
        self.title = title
        self.explain = explain
        self.fix = fix
        self.bad = bad
        self.good = good

    @property
    def severity(self) -> str:
        return "warning" if self.id.startswith("W-") else "error"

    def __repr__(self) -> str:
        return self.id


CODES: dict[str, Code] = {}


def code(id: str, *, title: str, explain: str, fix: str, bad: str = "", good: str = "") -> Code:
    """Declare a code. `bad` is a file that yields exactly this code, `good` its mended form;
    both are empty only for what no single file can show (devices, full disks)."""
    if id in CODES:
        raise ValueError(f"code {id} is declared twice")
    CODES[id] = made = Code(id, title, explain, fix, bad, good)
    return made


class Label:
    """A place and what to say beside it."""

    __slots__ = ("span", "text")

    def __init__(self, span: Span, text: str = "") -> None:
        self.span = span
        self.text = text


class Note:
    """A further sentence, with a place where it has one."""

    __slots__ = ("span", "text")

    def __init__(self, text: str, span: Span | None = None) -> None:
        self.text = text
        self.span = span


class Edit:
    """A text edit: replace the span by `text`. `safe` edits are applied by `check --fix`."""

    __slots__ = ("safe", "span", "text")

    def __init__(self, span: Span, text: str, safe: bool = False) -> None:
        self.span = span
        self.text = text
        self.safe = safe


class Diagnostic:
    """One finding: a code, a headline that stands alone, places, notes and a fix.

    The first label is the primary place. `fix` overrides the code's general fix.
    """

    __slots__ = ("code", "edits", "fix", "headline", "labels", "notes")

    def __init__(
        self,
        code: Code,
        headline: str,
        labels: Sequence[Label] = (),
        notes: Sequence[Note] = (),
        fix: str | None = None,
        edits: Sequence[Edit] = (),
    ) -> None:
        self.code = code
        self.headline = headline
        self.labels = list(labels)
        self.notes = list(notes)
        self.fix = fix
        self.edits = list(edits)

    @property
    def severity(self) -> str:
        return self.code.severity

    @property
    def span(self) -> Span | None:
        return self.labels[0].span if self.labels else None

    def __repr__(self) -> str:
        return f"<{self.code.id} {self.headline!r} at {self.span}>"


class SxError(Exception):
    """The user's fault: carries diagnostics. Any other exception is a bug of ours."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__(diagnostics[0].headline if diagnostics else "")
        self.diagnostics: list[Diagnostic] = list(diagnostics)


def located(origin: Origin, text: str = "") -> tuple[list[Label], list[Note]]:
    """Labels and notes that show an origin: the user's own line first, then the standard
    module's line and the macro expansions as notes (at most 8)."""
    notes: list[Note] = []
    primary = origin.user_span
    if primary is None:
        return [], notes
    if origin.span is not None and origin.span is not primary:
        notes.append(Note("raised here", origin.span))
    notes.extend(Note(f"in the expansion of {name}", span) for name, span in origin.expansions)
    if origin.path:
        notes.append(Note(f"in the model {origin.path}"))
    return [Label(primary, text)], notes[:8]
