"""Source texts and places in them. Knows nothing of Lisp, tensors or diagnostics."""

from __future__ import annotations

from bisect import bisect_right


class Source:
    """One text that was read: a file, standard input, or a string.

    `name` is what a person is shown (a path relative to where they are, or `<stdin>`);
    `path` is the absolute path, or None when the text did not come from a file.
    """

    __slots__ = ("_lines", "_sha256", "name", "path", "standard", "text")

    def __init__(
        self, name: str, text: str, path: str | None = None, standard: bool = False
    ) -> None:
        self.name = name
        self.text = text
        self.path = path
        self.standard = standard  # part of the product (prelude, sexpgpu/nn): never to blame first
        self._lines: list[int] | None = None
        self._sha256: str | None = None

    @property
    def sha256(self) -> str:
        """SHA-256 of the UTF-8 text, in hex."""
        if self._sha256 is None:
            import hashlib  # not at the top: most commands never ask

            self._sha256 = hashlib.sha256(self.text.encode()).hexdigest()
        return self._sha256

    def _starts(self) -> list[int]:
        if self._lines is None:
            starts = [0]
            find = self.text.find
            at = find("\n")
            while at >= 0:
                starts.append(at + 1)
                at = find("\n", at + 1)
            self._lines = starts
        return self._lines

    def line_column(self, offset: int) -> tuple[int, int]:
        """1-based line and column (in characters) of an offset."""
        starts = self._starts()
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        """The text of a 1-based line, without its newline."""
        starts = self._starts()
        end = starts[line] - 1 if line < len(starts) else len(self.text)
        return self.text[starts[line - 1] : end].rstrip("\r")

    @property
    def line_count(self) -> int:
        return len(self._starts())

    def __repr__(self) -> str:
        return f"Source({self.name!r})"


class Span:
    """A half-open range of characters of one source."""

    __slots__ = ("end", "source", "start")

    def __init__(self, source: Source, start: int, end: int) -> None:
        self.source = source
        self.start = start
        self.end = end

    @property
    def line(self) -> int:
        return self.source.line_column(self.start)[0]

    @property
    def column(self) -> int:
        return self.source.line_column(self.start)[1]

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Span)
            and self.source is other.source
            and self.start == other.start
            and self.end == other.end
        )

    def __hash__(self) -> int:
        return hash((id(self.source), self.start, self.end))

    def __str__(self) -> str:
        line, column = self.source.line_column(self.start)
        return f"{self.source.name}:{line}:{column}"

    __repr__ = __str__


class Origin:
    """Where a value or node came from.

    span        the innermost source form; None only for what the compiler itself adds
                (then `note` says which part of it)
    calls       the call sites around it, innermost first, at most 8
    expansions  macro expansions in between: (macro name, span of the use), innermost first
    path        the model path (`body/3/attn`), "" outside a model
    note        e.g. "gradient of", "cast for :bf16"
    """

    __slots__ = ("calls", "expansions", "note", "path", "span")

    def __init__(
        self,
        span: Span | None,
        calls: tuple[Span, ...] = (),
        expansions: tuple[tuple[str, Span], ...] = (),
        path: str = "",
        note: str = "",
    ) -> None:
        self.span = span
        self.calls = calls
        self.expansions = expansions
        self.path = path
        self.note = note

    @property
    def user_span(self) -> Span | None:
        """The innermost place outside the standard modules, else the innermost of all."""
        for span in (self.span, *self.calls):
            if span is not None and not span.source.standard:
                return span
        return self.span

    def derived(self, note: str) -> Origin:
        """The same place with a note (for nodes that a pass derives from a node)."""
        return Origin(self.span, self.calls, self.expansions, self.path, note)


NOWHERE = Origin(None)
