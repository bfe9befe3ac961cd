"""Source lines with labelled places under them, as text for people. Knows spans, not diagnostics.

Lines are cut into cells, one a character, each with the columns it takes on a terminal, so that
tabs, wide characters and control characters keep the marks under what they mark.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache

from sexpgpu.source import Source, Span

TAB = 4
PRIMARY = "─"
SECONDARY = "┄"

Paint = Callable[[str, str], str]
"""Paints a text in a role: gutter, primary or secondary."""


class Mark:
    """A place to mark: a span, what to say, and whether it is the primary one."""

    __slots__ = ("first", "is_primary", "last", "source", "start", "stop", "text")

    def __init__(self, span: Span, text: str, is_primary: bool) -> None:
        source = span.source
        length = len(source.text)
        start = min(max(span.start, 0), length)
        end = min(max(span.end, start), length)
        if end > start and source.text[end - 1] == "\n" and end - 1 > start:
            end -= 1  # a line's end belongs to the line
        self.source = source
        self.text = visible(text)
        self.is_primary = is_primary
        self.first, column = source.line_column(start)
        self.start = column - 1
        if end > start:
            self.last, column = source.line_column(end - 1)
            self.stop = column
        else:
            self.last, self.stop = self.first, self.start + 1

    @property
    def role(self) -> str:
        return "primary" if self.is_primary else "secondary"


class Row:
    """A source line as cells: for each character its text and its first terminal column."""

    __slots__ = ("cells", "columns")

    def __init__(self, line: str) -> None:
        self.cells: list[str] = []
        self.columns: list[int] = [0]
        if line.isascii() and line.isprintable():
            self.cells = list(line)
            self.columns = list(range(len(line) + 1))
            return
        at = 0
        joined = False
        for index, char in enumerate(line):
            if char == "\t":
                width = TAB - at % TAB
                cell = " " * width
            else:
                cell = shown(char)
                width = 0 if joined else _width(char)
                if char == "\ufe0f" and index and at - self.columns[-2] == 1:
                    width = 1  # asks for the wide picture of the character before
            joined = char == "\u200d"
            at += width
            self.cells.append(cell)
            self.columns.append(at)

    def column(self, index: int) -> int:
        """The terminal column where character `index` starts; past the end, beyond the line."""
        if index < len(self.columns):
            return self.columns[index]
        return self.columns[-1] + index - len(self.cells)

    def window(self, low: int, high: int) -> str:
        """What stands in the terminal columns low to high, cut where the line goes on."""
        first, last = bisect_left(self.columns, low), bisect_right(self.columns, high) - 1
        return "".join(self.cells[first : max(first, last)])

    @property
    def width(self) -> int:
        return self.columns[-1]


@lru_cache(maxsize=2)
def _row(line: str) -> Row:
    """The cells of a line: a long line with many mistakes is laid out once."""
    return Row(line)


def _width(char: str) -> int:
    if " " <= char <= "~":
        return 1
    import unicodedata

    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0 if shown(char) == char else 1
    if "\U0001f3fb" <= char <= "\U0001f3ff":
        return 0  # a skin tone, drawn on the character before
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def shown(char: str) -> str:
    """A character as it may be sent to a terminal: controls, and marks that turn the direction of
    the text around, become pictures."""
    number = ord(char)
    if number < 32:
        return chr(0x2400 + number)
    if number == 127:
        return "␡"
    if 0x80 <= number < 0xA0 or 0x202A <= number <= 0x202E or 0x2066 <= number <= 0x2069:
        return "�"
    if number in (0x2028, 0x2029, 0x200E, 0x200F) or 0xD800 <= number < 0xE000:
        return "�"
    return char


def visible(text: str) -> str:
    """A text without anything that a terminal would obey; newlines are kept."""
    if text.isprintable():
        return text
    return "".join(c if c == "\n" else " " if c == "\t" else shown(c) for c in text)


def excerpt(marks: Sequence[Mark], gutter: int, width: int, paint: Paint) -> list[str]:
    """The lines of one source that the marks touch, with the marks. The first mark's place is
    named in the head. `gutter` is the width of line numbers, `width` that of source text."""
    source = marks[0].source
    blank = " " * gutter
    bar = paint("gutter", f"{blank}│")
    out = [f"{paint('gutter', blank + '┌─')} {place(marks[0])}"]
    lanes = Lanes([mark for mark in marks if mark.last > mark.first], paint)
    before = 0
    for line in _wanted_lines(marks):
        if before and line > before + 1:
            out.append(f"{paint('gutter', blank + '┆')} {lanes.beside(line)}".rstrip())
        before = line
        row = _row(source.line_text(line))
        here = [mark for mark in marks if mark.first == mark.last == line]
        opening = [mark for mark in lanes.spans if mark.first == line]
        closing = [mark for mark in lanes.spans if mark.last == line]
        low, high = _window(row, here, opening, closing, width)
        text = ("…" if low else "") + row.window(low, high) + ("…" if high < row.width else "")
        number = paint("gutter", f"{line:>{gutter}}│")
        out.append(f"{number} {lanes.beside(line, row)}{text}".rstrip())

        def at(index: int, row: Row = row, low: int = low, high: int = high) -> int:
            return min(max(row.column(index), low), high) - low + (1 if low else 0)

        beside = lanes.under(line, row)
        out.extend(f"{bar} {beside}{under}" for under in _under(here, at, paint))
        for mark in opening:
            if mark.start > _indent(row):
                out.append(f"{bar} {lanes.edge(mark, '╭', at(mark.start))}")
        for mark in closing:
            said = mark.text.replace("\n", " ")
            out.append(f"{bar} {lanes.edge(mark, '╰', at(mark.stop - 1), said)}".rstrip())
    return out


def place(mark: Mark) -> str:
    """`file:line:column` of a mark."""
    return f"{visible(mark.source.name)}:{mark.first}:{mark.start + 1}"


class Lanes:
    """The left margin: one column for each span of several lines, the primary one outermost."""

    __slots__ = ("_lane", "_paint", "spans")

    def __init__(self, spans: Sequence[Mark], paint: Paint) -> None:
        self.spans = sorted(spans, key=lambda mark: (not mark.is_primary, mark.first, -mark.last))
        self._lane = {id(mark): lane for lane, mark in enumerate(self.spans)}
        self._paint = paint

    def _margin(self, chars: Sequence[tuple[Mark, str]]) -> str:
        if not self.spans:
            return ""
        return "".join(self._paint(mark.role, char) for mark, char in chars) + " "

    def beside(self, line: int, row: Row | None = None) -> str:
        """The margin of a line; of the gap before it when there is no row."""

        def char(mark: Mark) -> str:
            if mark.first < line <= mark.last:
                return "│"
            return "╭" if row and mark.first == line and mark.start <= _indent(row) else " "

        return self._margin([(mark, char(mark)) for mark in self.spans])

    def under(self, line: int, row: Row) -> str:
        """The margin of the marks under a line."""

        def char(mark: Mark) -> str:
            opened = mark.first < line or (mark.first == line and mark.start <= _indent(row))
            return "│" if opened and line <= mark.last else " "

        return self._margin([(mark, char(mark)) for mark in self.spans])

    def edge(self, mark: Mark, corner: str, at: int, text: str = "") -> str:
        """The row under a span's first or last line, from its lane to the character it ends at."""
        lane = self._lane[id(mark)]
        line = mark.first if corner == "╭" else mark.last
        outer = "".join(
            self._paint(other.role, "│" if other.first <= line < other.last else " ")
            for other in self.spans[:lane]
        )
        rule = PRIMARY if mark.is_primary else SECONDARY
        body = corner + rule * (len(self.spans) - lane + at) + "╯"
        return outer + self._paint(mark.role, f"{body} {text}" if text else body)


def _indent(row: Row) -> int:
    return next((index for index, cell in enumerate(row.cells) if not cell.isspace()), 0)


def _wanted_lines(marks: Sequence[Mark]) -> list[int]:
    """All marked lines in order; of a long span only its ends; a gap of one line is filled."""
    lines: set[int] = set()
    for mark in marks:
        if mark.last - mark.first <= 4:
            lines.update(range(mark.first, mark.last + 1))
        else:
            lines.update((mark.first, mark.first + 1, mark.last))
    for line in sorted(lines):
        if line + 2 in lines:
            lines.add(line + 1)
    return sorted(lines)


def _window(
    row: Row,
    here: Sequence[Mark],
    opening: Sequence[Mark],
    closing: Sequence[Mark],
    width: int,
) -> tuple[int, int]:
    """The terminal columns of a line to show: all, or a window around the first mark on it."""
    if row.width <= width:
        return 0, row.width + 1
    firsts = [row.column(mark.start) for mark in (*here, *opening)]
    firsts += [row.column(mark.stop - 1) for mark in closing]
    lasts = [row.column(mark.stop) for mark in here]
    if not firsts:
        return 0, width
    primary = next((mark for mark in here if mark.is_primary), None)
    low, high = min(firsts), max(firsts + lasts)
    if high - low > width - 20 and primary is not None:
        low, high = row.column(primary.start), row.column(primary.stop)
    if high <= width:
        return 0, width
    low = max(0, min(low - 10, row.width - width))
    return low, low + width


def _under(marks: Sequence[Mark], at: Callable[[int], int], paint: Paint) -> list[str]:
    """The rows under a line: the underlines, with the last label beside them; then each further
    label on a row of its own under its place."""
    if not marks:
        return []
    places: list[tuple[int, int, Mark]] = []
    for mark in marks:
        start = at(mark.start)
        places.append((start, max(at(mark.stop), start + 1), mark))
    end = max(stop for _, stop, _ in places)
    drawn: list[tuple[str, str]] = [(" ", "")] * end
    # Wide marks first, so that what they enclose stays visible; of equal ones the primary last.
    for start, stop, mark in sorted(places, key=lambda it: (it[0] - it[1], it[2].is_primary)):
        char = PRIMARY if mark.is_primary else SECONDARY
        drawn[start:stop] = [(char, mark.role)] * (stop - start)
    rows = [_joined(drawn, paint)]
    told = sorted(
        (place for place in places if place[2].text),
        key=lambda place: (place[0], -place[1], place[2].is_primary),
    )
    if told and told[-1][1] == end:
        mark = told.pop()[2]
        first, *more = mark.text.split("\n")
        rows[0] += " " + paint(mark.role, first)
        rows.extend(" " * (end + 1) + paint(mark.role, line) for line in more)
    while told:
        start, _, mark = told.pop()
        stems = {place[0]: place[2].role for place in told if place[0] < start}
        lead = [("│", stems[index]) if index in stems else (" ", "") for index in range(start)]
        rows.extend(_joined(lead, paint) + paint(mark.role, line) for line in mark.text.split("\n"))
    return rows


def _joined(cells: Sequence[tuple[str, str]], paint: Paint) -> str:
    """Cells as text, each run of one role painted at once."""
    out: list[str] = []
    run, role = "", ""
    for char, of in [*cells, ("", "?")]:
        if of != role:
            out.append(paint(role, run) if role and run else run)
            run, role = "", of
        run += char
    return "".join(out)


def sources_in_order(marks: Sequence[Mark]) -> list[Source]:
    """The sources the marks are in, that of the first mark first."""
    return list({id(mark.source): mark.source for mark in marks}.values())
