"""Text to forms. Iterative: depth of nesting costs no Python stack.

`Reader` reads one top-level form after another; what is wrong is a ReadFailure, after which it can
go on. Symbols are interned in a module as they are read; `alias:name` asks that module's aliases.
Knows nothing of evaluation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sexpgpu.diagnostics.codes import read as codes
from sexpgpu.diagnostics.model import Note
from sexpgpu.lisp.values import (
    CL,
    NIL,
    Module,
    SrcCons,
    String,
    Symbol,
    Vector,
)
from sexpgpu.reader.atoms import AtomReader
from sexpgpu.reader.failures import ReadFailure, TooDeep, failure
from sexpgpu.reader.lexer import (
    G_CLOSE,
    G_OPEN,
    G_QUOTE,
    G_STRING,
    G_TOKEN,
    NEXT,
    SKIP,
    TOKEN,
    comment_end,
    escaped_token,
    lists_end,
    string_end,
)
from sexpgpu.source import Source, Span

QUOTE = CL.own("quote")
FUNCTION = CL.own("function")
QUASIQUOTE = CL.own("quasiquote")
UNQUOTE = CL.own("unquote")
UNQUOTE_SPLICING = CL.own("unquote-splicing")

_LIST, _VECTOR, _PREFIX, _TEST, _SKIP_ONE = range(5)


_MISSING: Any = object()


class _End:
    __slots__ = ()


END = _End()  # no more forms


class _Frame:
    """An open list, vector or prefix."""

    __slots__ = ("dot", "items", "kind", "mark", "places", "start", "tail")

    def __init__(self, kind: int, start: int, mark: Any = None) -> None:
        self.kind = kind
        self.start = start
        self.mark = mark  # the prefix's symbol; the wanted outcome of a feature test
        self.items: list[Any] = []
        self.places: list[int] = []  # start and end of each item, the end -1 for a list
        self.dot = -1
        self.tail: Any = None


class Reader(AtomReader):
    """Reads the forms of one source into one module.

    `features` are the names (no colon) that `#+` finds. After a ReadFailure `read` may be called
    again: it goes on after the form that failed, so that one mistake does not hide the others.
    """

    def __init__(
        self,
        source: Source,
        module: Module,
        features: Iterable[str] = ("sexpgpu",),
        start: int = 0,
        nesting: int = 1_000,
        base: int = 10,
    ) -> None:
        super().__init__(source, module, features, start, base)
        self.nesting = nesting
        self._start = 0  # of the list closed last

    # ------------------------------------------------------------ lists that are not closed

    def _unclosed(self, frames: list[_Frame]) -> ReadFailure:
        """The text ended inside `frames`. A later line that begins with `(` in column 1 shows
        where the form was meant to end: blame the list that was open there."""
        outermost = frames[0]
        text = self.source.text
        resume = text.find("\n(", outermost.start)
        frame = frames[-1]
        if resume >= 0:
            frame = self._open_at(outermost.start, resume) or outermost
        self._restart(outermost.start)
        notes: list[Note] = []
        if resume >= 0:
            notes.append(
                Note(
                    "the next top-level form begins here", Span(self.source, resume + 1, resume + 2)
                )
            )
        if frame.kind >= _PREFIX:
            return self._fail(
                codes.E_READ_010,
                "the text ends where a form should follow",
                frame.start,
                min(frame.start + 2, len(text)),
                at_end=True,
            )
        return failure(
            self.source,
            codes.E_READ_001,
            "this parenthesis is never closed",
            frame.start,
            frame.start + (2 if frame.kind == _VECTOR else 1),
            "opened here",
            notes,
            at_end=True,
        )

    def _open_at(self, start: int, end: int) -> _Frame | None:
        """The innermost list open at `end`, reading from `start`."""
        inner = Reader(
            Source(self.source.name, self.source.text[:end]), Module("scratch", (CL,)), (), start
        )
        try:
            inner.read()
        except ReadFailure as failed:
            span = failed.diagnostic.span
            if span is not None and failed.diagnostic.code is codes.E_READ_001:
                return _Frame(_LIST, span.start)
        except TooDeep:
            pass
        return None

    # ------------------------------------------------------------ the loop

    def skip(self) -> None:
        """Pass over blanks and comments."""
        text = self.source.text
        while True:
            found = SKIP.match(text, self.at)
            assert found is not None
            at = found.end()
            if not text.startswith("#|", at):
                self.at = at
                return
            end = comment_end(text, at)
            if end < 0:
                self._restart(at)
                raise self._fail(
                    codes.E_READ_003, "this comment is never closed", at, at + 2, at_end=True
                )
            self.at = end

    def read(self) -> Any:
        """The next form, or END."""
        self._suppressed = self._testing = self._quoting = 0
        if len(self._known) != self._size or self.module.version != self._version:
            self._atoms.clear()
            self._version = self.module.version
            self._size = len(self._known)
        frames: list[_Frame] = []
        try:
            return self._read(frames)
        except ReadFailure:
            # Go on after the form: at the next line that begins a top-level form.
            if frames and self.at > frames[0].start:
                depth = sum(1 for frame in frames if frame.kind in (_LIST, _VECTOR))
                self.at = lists_end(self.source.text, self.at, depth)
            raise

    def _read(self, frames: list[_Frame]) -> Any:
        source, text = self.source, self.source.text
        token_at, atoms = NEXT.match, self._atoms
        missing = _MISSING
        at = self.at
        while True:
            found = token_at(text, at)
            if found is None:  # only blanks and comments are left
                self.at = len(text)
                if frames:
                    raise self._unclosed(frames)
                return END
            group = found.lastindex or 0
            start, end = found.span(group)
            if group == G_TOKEN:
                token: str = found.group(group)
                value = atoms.get(token, missing)
                if value is missing or self._suppressed or self._testing:
                    self.at = end
                    if token == ".":
                        self._dot(frames, start)
                        at = end
                        continue
                    value = self._atom(token, start, end)
                at = end
                listed = False
            elif group == G_OPEN:
                self._open(frames, _Frame(_LIST, start))
                at = end
                continue
            elif group == G_CLOSE:
                self.at = at = end
                value = self._close(frames, start, end)
                start = self._start
                listed = True
            else:
                self.at = start
                listed = False
                if group == G_STRING:
                    contents, end = string_end(text, start)
                    if end < 0:
                        self._restart(start)
                        frames.clear()
                        raise self._fail(
                            codes.E_READ_003,
                            "this string is never closed",
                            start,
                            start + 1,
                            at_end=True,
                        )
                    value = String(contents, True)
                elif group == G_QUOTE:
                    self._open(frames, _Frame(_PREFIX, start, QUOTE))
                    at = end
                    continue
                else:
                    done, value, end, listed = self._other(frames, start)
                    if not done:
                        at = self.at
                        continue
                at = end
            # A datum is complete: hand it to what waits for it.
            while True:
                if not frames:
                    self.at = at
                    return value
                frame = frames[-1]
                kind = frame.kind
                if kind <= _VECTOR:
                    if frame.dot >= 0:
                        if frame.tail is not None:
                            self.at = at
                            raise self._fail(
                                codes.E_READ_004, "more than one element after a dot", start, end
                            )
                        frame.tail = (value,)
                    else:
                        frame.items.append(value)
                        frame.places.append(start)
                        frame.places.append(-1 if listed else end)
                    break
                frames.pop()
                if kind == _PREFIX:
                    mark = frame.mark
                    if mark is QUASIQUOTE:
                        self._quoting -= 1
                    elif mark is not QUOTE and mark is not FUNCTION:
                        self._quoting += 1
                    if listed:
                        place = (source, start, end, -1, -1)
                    else:
                        place = (source, start, end, start, end)
                    last = SrcCons(value, NIL, place)
                    begin = frame.start
                    value = SrcCons(mark, last, (source, begin, end, begin, start))
                    start = begin
                    listed = True
                    continue
                if kind == _TEST:
                    self._testing -= 1
                    self.at = at
                    if self._suppressed or self._feature(value, start, end) is frame.mark:
                        break
                    self._suppressed += 1
                    frames.append(_Frame(_SKIP_ONE, frame.start))
                    break
                self._suppressed -= 1
                break

    def _other(self, frames: list[_Frame], at: int) -> tuple[bool, Any, int, bool]:
        """A datum that begins with `#`, a backquote, a comma, a bar or a backslash:
        (whether it is complete, the datum, its end, whether it is a list)."""
        text = self.source.text
        letter = text[at]
        if letter == "#":
            done, value, end = self._sharp(frames, at)
            return done, value, end, False
        if letter == "`":
            self._quoting += 1
            self._open(frames, _Frame(_PREFIX, at, QUASIQUOTE))
            self.at = at + 1
            return False, None, 0, False
        if letter == ",":
            splicing = text.startswith(("@", "."), at + 1)
            self.at = at + (2 if splicing else 1)
            if self._quoting == 0 and not self._suppressed:
                raise self._fail(codes.E_READ_008, "comma outside a backquote", at, self.at)
            self._quoting -= 1
            mark = UNQUOTE_SPLICING if splicing else UNQUOTE
            self._open(frames, _Frame(_PREFIX, at, mark))
            return False, None, 0, False
        value, end = self._escaped(at)
        return True, value, end, False

    def _open(self, frames: list[_Frame], frame: _Frame) -> None:
        frames.append(frame)
        if len(frames) > self.nesting:
            span = Span(self.source, frame.start, frame.start + 1)
            frames.clear()
            self._restart(frame.start)
            raise TooDeep(span, self.nesting)

    def _close(self, frames: list[_Frame], at: int, end: int) -> Any:
        """A closing parenthesis: the list or vector it ends."""
        if not frames:
            # Those that follow close nothing either: one mistake, however many there are.
            text = self.source.text
            while text.startswith(")", end):
                end += 1
            self.at = end
            told = "this parenthesis closes" if end == at + 1 else f"{end - at} parentheses close"
            before = at
            while before and text[before - 1].isspace():
                before -= 1
            notes: list[Note] = []
            if text.endswith(")", 0, before):
                last = Span(self.source, before - 1, before)
                notes.append(Note("the form above ends here", last))
            raise failure(
                self.source,
                codes.E_READ_002,
                f"{told} nothing",
                at,
                end,
                "nothing is open",
                notes,
            )
        frame = frames[-1]
        if frame.kind >= _PREFIX:
            self.at = at  # the parenthesis still closes its list
            raise self._fail(
                codes.E_READ_010,
                "a form should follow this mark",
                frame.start,
                at + 1,
            )
        frames.pop()
        self._start = start = frame.start
        items = frame.items
        if frame.kind == _VECTOR:
            return self._vector(frame, end)
        value: Any = NIL
        if frame.dot >= 0:
            if frame.tail is None:
                raise self._fail(
                    codes.E_READ_004, "nothing after the dot", frame.dot, frame.dot + 1
                )
            value = frame.tail[0]
        source = self.source
        places = frame.places
        index = len(items)
        while index:
            index -= 1
            begin = places[2 * index] if index else start
            close = places[2 * index + 1]
            if close < 0:
                place = (source, begin, end, -1, -1)
            else:
                place = (source, begin, end, places[2 * index], close)
            value = SrcCons(items[index], value, place)
        return value

    def _vector(self, frame: _Frame, end: int) -> Vector:
        """`#(a b)`, or `#4(a b)`: as many elements as it says, the last again and again."""
        items, size = frame.items, frame.mark
        if size is not None and size != len(items):
            if size < len(items) or not items:
                text = f"`#{size}(` has {len(items)} elements"
                raise self._fail(codes.E_READ_005, text, frame.start, end)
            items = items + [items[-1]] * (size - len(items))
        return Vector(items, True)

    def _dot(self, frames: list[_Frame], at: int) -> None:
        frame = frames[-1] if frames else None
        if frame is None or frame.kind != _LIST or not frame.items or frame.dot >= 0:
            raise self._fail(codes.E_READ_004, "a dot has no meaning here", at, at + 1)
        frame.dot = at

    # ------------------------------------------------------------ sharpsign

    def _sharp(self, frames: list[_Frame], at: int) -> tuple[bool, Any, int]:
        """What begins with `#`: (whether a datum is complete, the datum, its end)."""
        text = self.source.text
        size = len(text)
        mark_at = at + 1
        while mark_at < size and text[mark_at] in "0123456789":
            mark_at += 1
        digits = text[at + 1 : mark_at]
        mark = text[mark_at].lower() if mark_at < size else ""
        after = mark_at + 1
        if mark == "(" and len(digits) < 7:
            self._open(frames, _Frame(_VECTOR, at, int(digits) if digits else None))
            self.at = after
            return False, None, 0
        if not digits:
            if mark == "'":
                self._open(frames, _Frame(_PREFIX, at, FUNCTION))
                self.at = after
                return False, None, 0
            if mark == "\\":
                return self._character(at, after)
            if mark == "|":
                end = comment_end(text, at)
                if end < 0:
                    self._restart(at)
                    raise self._fail(
                        codes.E_READ_003, "this comment is never closed", at, at + 2, at_end=True
                    )
                self.at = end
                return False, None, 0
            if mark in ("+", "-"):
                self._testing += 1
                self._open(frames, _Frame(_TEST, at, mark == "+"))
                self.at = after
                return False, None, 0
            if mark == ":":
                name, end, colons = escaped_token(text, after)
                if colons:
                    self.at = end
                    raise self._fail(codes.E_READ_006, f"`{text[at:end]}` has a colon", at, end)
                if end < 0:
                    self._restart(at)
                    raise self._fail(
                        codes.E_READ_003,
                        "this symbol's bar is never closed",
                        at,
                        after,
                        at_end=True,
                    )
                self.at = end
                return True, Symbol(name), end
        base = {"b": 2, "o": 8, "x": 16}.get(mark) if not digits else None
        if mark == "r" and digits:
            base = int(digits) if len(digits) < 4 else 0
        if base is not None:
            return self._radix(at, after, base)
        found = TOKEN.match(text, at)
        end = self.at = max(found.end() if found else after, min(after, size))
        if self._suppressed and mark:
            return True, NIL, end
        what = text[at : min(after, size)]
        fix = None
        if mark == ".":
            fix = "evaluation at read time is refused; write the form itself"
        elif mark in ("=", "#"):
            fix = "shared and circular structure is refused; name it with let"
        raise self._fail(codes.E_READ_005, f"`{what}` is not reader syntax here", at, end, fix=fix)


def read_type(text: str) -> Any:
    """The type specifier that a text of ours denotes (the expected type of a type-error)."""
    value = Reader(Source("<type>", text), CL).read()
    return NIL if value is END else value
