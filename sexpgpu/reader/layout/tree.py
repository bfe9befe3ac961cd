"""Text as a tree that forgets nothing but blanks: atoms, lists, comments, and where the author
broke lines. Knows nothing of modules or values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from sexpgpu.diagnostics.codes import read as codes
from sexpgpu.diagnostics.model import Code, Diagnostic, Label, SxError
from sexpgpu.reader.lexer import BLANKS, TERMINATORS, comment_end, escaped_token, string_end
from sexpgpu.source import Source, Span


class Item:
    """What stands before an item: `breaks` newlines since the one before (0: the same line), and
    the column where it began in the author's text."""

    __slots__ = ("breaks", "column")

    def __init__(self, breaks: int, column: int) -> None:
        self.breaks = breaks
        self.column = column


class Atom(Item):
    """A token, a string, or a character, as it was written, with its prefixes."""

    __slots__ = ("text",)

    def __init__(self, text: str, breaks: int, column: int) -> None:
        super().__init__(breaks, column)
        self.text = text


class Comment(Item):
    """A comment to the end of its line, or `#| … |#`."""

    __slots__ = ("text",)

    def __init__(self, text: str, breaks: int, column: int) -> None:
        super().__init__(breaks, column)
        self.text = text

    @property
    def ends_line(self) -> bool:
        return self.text.startswith(";")


class List(Item):
    """A list: its prefix with the opening parenthesis (`(`, `'(`, `#(`), and what is in it."""

    __slots__ = ("items", "opening")

    def __init__(self, opening: str, breaks: int, column: int) -> None:
        super().__init__(breaks, column)
        self.opening = opening
        self.items: list[Node] = []


Node: TypeAlias = Atom | Comment | List
PREFIXES = ("#'", ",@", ",.", "'", "`", ",")


def tokens(items: Sequence[Node]) -> Iterator[str]:
    """What the items say, without where: each opening, text and closing, in order. (Iterative:
    lists may be nested deeply.)"""
    waiting: list[Node | None] = [*reversed(items)]
    while waiting:
        item = waiting.pop()
        if item is None:
            yield ")"
        elif isinstance(item, List):
            yield item.opening
            waiting.append(None)
            waiting.extend(reversed(item.items))
        else:
            yield item.text


def parse(source: Source) -> list[Node]:
    """The items of a text. SxError for what is not closed, or closes nothing."""
    return _Parser(source).parse()


class _Parser:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.at = 0
        self.line_start = 0
        self.breaks = 0

    def fail(self, code: Code, headline: str, start: int, end: int) -> SxError:
        return SxError(Diagnostic(code, headline, [Label(Span(self.source, start, end))]))

    def parse(self) -> list[Node]:
        top: list[Node] = []
        open_lists: list[tuple[List, int]] = []
        here = top
        text, size = self.text, len(self.text)
        while True:
            self.blanks()
            at = self.at
            if at >= size:
                break
            column = at - self.line_start
            if text[at] == ";":
                end = text.find("\n", at)
                end = size if end < 0 else end
                here.append(Comment(text[at:end].rstrip(), self.take_breaks(), column))
                self.at = end
            elif text.startswith("#|", at):
                end = comment_end(text, at)
                if end < 0:
                    raise self.fail(codes.E_READ_003, "this comment is never closed", at, at + 2)
                here.append(Comment(text[at:end], self.take_breaks(), column))
                self.move(end)
            elif text[at] == ")":
                if not open_lists:
                    raise self.fail(codes.E_READ_002, "this parenthesis closes nothing", at, at + 1)
                open_lists.pop()
                here = open_lists[-1][0].items if open_lists else top
                self.at = at + 1
                self.breaks = 0
            else:
                breaks = self.take_breaks()
                prefix = self.prefixes()
                if text.startswith("(", self.at) or text.startswith("#(", self.at):
                    opening = "#(" if text[self.at] == "#" else "("
                    made = List(prefix + opening, breaks, column)
                    here.append(made)
                    open_lists.append((made, self.at))
                    here = made.items
                    self.at += len(opening)
                else:
                    here.append(Atom(prefix + self.token(), breaks, column))
        if open_lists:
            start = open_lists[-1][1]
            raise self.fail(codes.E_READ_001, "this parenthesis is never closed", start, start + 1)
        return top

    def blanks(self) -> None:
        text, size = self.text, len(self.text)
        while self.at < size and text[self.at] in BLANKS:
            if text[self.at] == "\n":
                self.breaks += 1
                self.line_start = self.at + 1
            self.at += 1

    def take_breaks(self) -> int:
        found, self.breaks = self.breaks, 0
        return found

    def move(self, end: int) -> None:
        """Go on at `end`, which may be on a later line."""
        newline = self.text.rfind("\n", self.at, end)
        if newline >= 0:
            self.line_start = newline + 1
        self.at = end

    def prefixes(self) -> str:
        """The quotes and commas before a datum, without the blanks behind them. One that a comment
        or the end of a list follows stands for itself."""
        found = ""
        while True:
            prefix = next((p for p in PREFIXES if self.text.startswith(p, self.at)), None)
            if prefix is None:
                return found
            after = self.at + len(prefix)
            while after < len(self.text) and self.text[after] in BLANKS:
                after += 1
            rest = self.text[after : after + 2]
            if not rest or rest[0] in ");" or rest == "#|":
                return found
            found += prefix
            self.move(after)

    def token(self) -> str:
        """An atom at the place where the parser stands."""
        text, at, size = self.text, self.at, len(self.text)
        if text[at] == '"':
            _, end = string_end(text, at)
            if end < 0:
                raise self.fail(codes.E_READ_003, "this string is never closed", at, at + 1)
        elif text.startswith("#\\", at):
            end = min(at + 3, size)
            while end < size and text[end] not in TERMINATORS:
                end += 1
        elif (prefix := next((p for p in PREFIXES if text.startswith(p, at)), None)) is not None:
            end = at + len(prefix)  # one that stands for itself
        else:
            _, end, _ = escaped_token(text, at)
            if end < 0:
                raise self.fail(codes.E_READ_003, "this symbol's bar is never closed", at, at + 1)
            end = max(end, at + 1)
        self.move(end)
        return text[at:end]
