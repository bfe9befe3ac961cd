"""A tree of items as lines of text: where each item that begins a line stands, and which lines are
too long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sexpgpu.reader.layout.rules import (
    BODIES,
    CLAUSES,
    DATA,
    HANDLERS,
    LOCAL_FUNCTIONS,
    LOOP_WORDS,
)
from sexpgpu.reader.layout.tree import Atom, Comment, List, Node

WIDTH = 100

# What a list is: code, names and bindings, one binding, the clause of a cond, a local function.
CALL, NAMES, BINDING, CLAUSE, FUNCTION, FUNCTIONS, QUOTED = range(7)


class Layout:
    """Writes items. `macros`: operator -> arguments before its body, beside the language's own."""

    def __init__(self, macros: Mapping[str, int]) -> None:
        self.macros = macros
        self.parts: list[str] = []
        self.column = 0

    def text(self, items: Sequence[Node]) -> str:
        """The text of top-level items, with a newline at its end."""
        self.parts = []
        self.column = 0
        before: Node | None = None
        for item in items:
            if before is not None:
                if item.breaks or _ends_line(before):
                    self.newline(0, blank=item.breaks > 1)
                else:
                    self.apart(item)
            self.item(item, 0, CALL)
            before = item
        return "".join([*self.parts, "\n"]) if items else ""

    # ------------------------------------------------------------ writing

    def write(self, text: str) -> None:
        self.parts.append(text)
        newline = text.rfind("\n")
        self.column = self.column + len(text) if newline < 0 else len(text) - newline - 1

    def newline(self, column: int, blank: bool = False) -> None:
        self.parts.append("\n\n" if blank else "\n")
        self.parts.append(" " * column)
        self.column = column

    def apart(self, item: Node) -> None:
        """The blanks between an item and the one before it on the same line."""
        if isinstance(item, Comment) and item.ends_line:
            self.write(" " * (max(self.column + 2, item.column) - self.column))
        else:
            self.write(" ")

    def item(self, item: Node, tail: int, role: int) -> None:
        """An item; `tail` closing parentheses follow it."""
        if isinstance(item, List):
            self.list(item, tail, role)
        else:
            self.write(item.text)

    def list(self, node: List, tail: int, role: int) -> None:
        if node.opening[0] == "'" or node.opening == "#(":
            role = QUOTED
        places = Places(self, node, role)
        self.write(node.opening)
        items = node.items
        for index, item in enumerate(items):
            closers = tail + 1 if index == len(items) - 1 else 0
            broken = index > 0 and (item.breaks > 0 or _ends_line(items[index - 1]))
            column = places.column_of(item)
            if not broken and self.overflows(items, index, closers, column):
                broken = True
            if broken:
                self.newline(column, blank=item.breaks > 1)
            elif index:
                self.apart(item)
            places.stands(item, self.column, broken)
            self.item(item, closers, places.role_of(item))
            places.passed(item)
        if items and _ends_line(items[-1]):
            self.newline(places.inner)
        self.write(")")

    def overflows(self, items: Sequence[Node], index: int, closers: int, column: int) -> bool:
        """Whether the item would not fit on the line, and would have more room on its own."""
        item = items[index]
        if index < 2 or isinstance(item, Comment) or column >= self.column:
            return False
        before = items[index - 1]
        if isinstance(before, Atom) and before.text.startswith((":", "#+", "#-")):
            return False  # a value stays with its key
        width, whole = first_line(item)
        last = index
        if isinstance(item, Atom) and item.text.startswith(":") and index + 1 < len(items):
            value = items[index + 1]
            if not value.breaks and not isinstance(value, Comment):
                more, whole = first_line(value)
                width += 1 + more
                last = index + 1
        if whole:
            width += closers if last == index else 1 if last == len(items) - 1 else 0
        return self.column + 1 + width > WIDTH


def first_line(node: Node) -> tuple[int, bool]:
    """How wide the node is up to its first line break, and whether that is all of it."""
    if not isinstance(node, List):
        newline = node.text.find("\n")
        return (len(node.text), True) if newline < 0 else (newline, False)
    width = len(node.opening)
    for index, item in enumerate(node.items):
        if index:
            if item.breaks or _ends_line(node.items[index - 1]):
                return width, False
            width += 1
        inner, whole = first_line(item)
        width += inner
        if not whole:
            return width, False
    return width + 1, True


def _ends_line(item: Node) -> bool:
    return isinstance(item, Comment) and item.ends_line


class Places:
    """Where the elements of one list stand when they begin a line, and what they are."""

    def __init__(self, layout: Layout, node: List, role: int) -> None:
        self.role = role
        self.start = layout.column + len(node.opening) - 1
        self.inner = layout.column + len(node.opening)
        elements = [item for item in node.items if not isinstance(item, Comment)]
        head = elements[0] if elements else None
        self.named = isinstance(head, Atom) and head.text[0] not in "\"'`,#"
        self.operator = head.text.lower() if isinstance(head, Atom) and role == CALL else ""
        third = elements[2] if len(elements) > 2 else None
        self.plist = (
            self.operator.startswith(":") and isinstance(third, Atom) and third.text[0] == ":"
        )
        self.body = self._body(layout)
        self.place = 0  # of the next element
        self.argument: int | None = None  # the column of the first argument, on the operator's line
        self.marked: int | None = None  # the column behind the last &key, or word of a loop
        self.after_mark = False
        self.broken = False

    def _body(self, layout: Layout) -> int | None:
        if self.role == FUNCTION:
            return 1
        name = self.operator
        count = layout.macros.get(name.rpartition(":")[2], BODIES.get(name))
        if count is None and name.startswith("def") and len(name) > 3:
            return 1
        return count

    def column_of(self, item: Node) -> int:
        """The column of the next element, should it begin a line."""
        if self.role in (NAMES, QUOTED, FUNCTIONS) or not self.named or self.plist:
            if self.marked is not None and not _is_marker(item):
                return self.marked
            return self.inner
        if self.body is not None:
            return self.start + (2 if self.place > self.body or self.place == 0 else 4)
        if self.operator == "loop":
            base = self.inner if self.argument is None else self.argument
            if isinstance(item, Atom) and item.text.lower().lstrip(":") in LOOP_WORDS:
                return base
            return base if self.marked is None or isinstance(item, Comment) else self.marked
        return self.inner if self.argument is None else self.argument

    def stands(self, item: Node, column: int, broken: bool) -> None:
        """The element was put at a column."""
        self.broken = self.broken or broken
        if isinstance(item, Comment):
            return
        if self.place == 1 and not self.broken:
            self.argument = column
        if self.after_mark and not broken:
            self.marked = column
        self.after_mark = False
        if self.role == NAMES and _is_marker(item):
            self.after_mark = True
            self.marked = None
        if self.operator == "loop" and isinstance(item, Atom):
            if item.text.lower().lstrip(":") in LOOP_WORDS:
                self.after_mark = True
                self.marked = None

    def passed(self, item: Node) -> None:
        if not isinstance(item, Comment):
            self.place += 1

    def role_of(self, item: Node) -> int:
        """What the element that was placed last is."""
        place = self.place
        if self.role == QUOTED:
            return QUOTED
        if self.role == NAMES:
            return BINDING
        if self.role == FUNCTIONS:
            return FUNCTION
        if self.role == FUNCTION:
            return NAMES if place == 1 else CALL
        if self.role in (BINDING, CLAUSE):
            return CALL
        name = self.operator
        if DATA.get(name) == place:
            return NAMES
        if name in LOCAL_FUNCTIONS and place == 1:
            return FUNCTIONS
        if place >= CLAUSES.get(name, 1_000):
            return CLAUSE
        if place >= HANDLERS.get(name, 1_000):
            return FUNCTION
        return CALL


def _is_marker(item: Node) -> bool:
    return isinstance(item, Atom) and item.text.startswith("&")
