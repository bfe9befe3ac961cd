"""A piece of Python being written: lines, names, variables. Knows no kind of node.

Lines hold two kinds of marks until all is written: `$3$` is the third variable (a Python local, or
a slot of a frame list when something else looks into it), `§3` the third slow path (one that pushes
the call's site first where the code around it has not).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sexpgpu.lisp.hot.parts import NAMES, Dest, Entry, Exit, Loop, MakeFrame, pushing
from sexpgpu.lisp.nodes import Node
from sexpgpu.lisp.scope import TOUCHED, Frame, Var
from sexpgpu.lisp.state import Site
from sexpgpu.lisp.values import NIL, Function, T

if TYPE_CHECKING:
    from sexpgpu.lisp.lambdas import LambdaNode

_VARIABLE = re.compile(r"\$(\d+)\$")
_SLOW = re.compile(r"§(\d+)")
_NUMBER = re.compile(r"\(?-?\d")
_ATOM = re.compile(r"[A-Za-z_]\w*$|\$\d+\$$|-?\d+$|\(-\d+\)$")

Line = tuple[int, Any]


class Unit:
    """See the module's docstring. `frame` is the frame at hand; `marks` counts what needs the
    call's site on the stack, `opaque` the closures called."""

    def __init__(self, base: Frame, own: str, outer: Frame | None) -> None:
        self.lines: list[Line] = []
        self.indent = 0
        self.names: dict[str, Any] = dict(NAMES)
        self.known: dict[int, str] = {}
        self.count = 0
        self.variables: list[Var] = []
        self.numbers: dict[Var, int] = {}
        self.boxed: set[Var] = set()
        self.whole: set[Var] = set()  # known to be integers
        self.unknown: set[Var] = set()  # not known to be
        self.keeps_bare = True
        self.bare: set[Var] = set()  # holding a text in place of a string, a list of a collector
        self.asked: dict[Var, int] = {}  # never changing, and how often asked whether they are
        self.bound: set[Var] = set()
        self.assigned: set[Var] = set()
        self.frames: dict[Frame, str] = {base: own}
        self.base = base
        self.frame = base
        self.outer: list[Frame] = []
        while outer is not None:
            self.frames[outer] = f"P{len(self.outer)}"
            self.outer.append(outer)
            outer = outer.parent
        self.needed: set[str] = set()
        self.marks = 0
        self.opaque = 0
        self.loops: list[Loop] = []
        self.exits: dict[Any, Exit] = {}
        self.slows: list[Callable[..., Any]] = []
        self.own: tuple[Function, LambdaNode] | None = None  # the function being written

    # ------------------------------------------------------------ text

    def emit(self, text: Any) -> None:
        """Add a line."""
        self.lines.append((self.indent, text))

    @contextmanager
    def block(self, header: str) -> Generator[None]:
        """The lines under a header."""
        self.emit(header)
        self.indent += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.emit("pass")
        self.indent -= 1

    @contextmanager
    def captured(self) -> Generator[list[Line]]:
        """The lines that are written inside, for a place to be chosen later (`put`)."""
        saved, lines = self.lines, []
        self.lines = lines
        yield lines
        self.lines = saved

    def put(self, lines: list[Line], deeper: int = 0) -> None:
        """Add captured lines, further in by `deeper`."""
        self.lines.extend((indent + deeper, text) for indent, text in lines)

    # ------------------------------------------------------------ names

    def name(self, prefix: str) -> str:
        """A fresh Python name."""
        self.count += 1
        return f"{prefix}{self.count}"

    def constant(self, value: Any) -> str:
        """The expression of a value."""
        if type(value) is int and -(1 << 62) < value < 1 << 62:
            return str(value) if value >= 0 else f"({value})"
        if value is NIL:
            return "NIL"
        if value is T:
            return "T"
        found = self.known.get(id(value))
        if found is None:
            found = self.known[id(value)] = self.name("K")
            self.names[found] = value  # and so it lives, and its id with it
        return found

    def site(self, site: Site) -> None:
        """Make a site the one of the call that follows."""
        self.emit(f"state.site = {self.constant(site)}")
        self.marks += 1

    def slow(self, function: Callable[..., Any]) -> str:
        """The name of a slow path: a callable that may fail or look at the stack of sites."""
        self.slows.append(function)
        return f"§{len(self.slows) - 1}"

    def settle(self, lines: list[Line], pushed: bool) -> list[Line]:
        """Lines with their slow paths chosen: the call's site is pushed around them, or not."""
        return [
            (indent, self.settled(text, pushed) if type(text) is str and "§" in text else text)
            for indent, text in lines
        ]

    def settled(self, text: str, pushed: bool) -> str:
        """A text with its slow paths chosen."""

        def choose(match: re.Match[str]) -> str:
            number = int(match[1])
            name = f"{'S' if pushed else 'Q'}_{number}"
            function = self.slows[number]
            self.names[name] = function if pushed else pushing(function)
            return name

        return _SLOW.sub(choose, text)

    # ------------------------------------------------------------ variables and frames

    def variable(self, var: Var) -> str:
        """The mark of a variable."""
        number = self.numbers.get(var)
        if number is None:
            number = self.numbers[var] = len(self.variables)
            self.variables.append(var)
            if var.captured:
                self.boxed.add(var)
        return f"${number}$"

    def bind(self, var: Var) -> str:
        """The mark of a variable that this code binds."""
        self.bound.add(var)
        return self.variable(var)

    def own_frame(self, frame: Frame, values: dict[int, str] | None = None) -> None:
        """Make a frame inside the one at hand, which becomes the one at hand."""
        if frame not in self.frames:
            self.frames[frame] = self.name("e")
        self.emit(MakeFrame(frame, values or {}))
        self.frame = frame

    def environment(self) -> str:
        """The expression of the frame list at hand."""
        name = self.frames[self.frame]
        self.needed.add(name)
        return name

    def closure(self, node: Node) -> str:
        """The call of a node's closure."""
        TOUCHED.append(set())
        try:
            run = node.emit(self.frame)
        finally:
            self.boxed |= TOUCHED.pop()
        self.marks += 1
        self.opaque += 1
        return f"{self.constant(run)}({self.environment()})"

    # ------------------------------------------------------------ values

    def give(self, expression: str, dest: Dest, multi: bool = False) -> None:
        """Deliver a value; `multi`: it may be an MV."""
        name = dest.name
        if name == "return":
            self.emit(f"return {expression}")
        elif name:
            self.emit(f"{name} = {expression}")
            if multi and dest.single and not dest.raw:
                self.emit(f"if type({name}) is MV: {name} = {name}[0] if {name} else NIL")
        elif not _ATOM.match(expression):
            self.emit(expression)

    def held(self, expression: str) -> str:
        """An expression that may be used anywhere later: a name or number as it is."""
        if _ATOM.match(expression) and not expression.startswith("$"):
            return expression
        name = self.name("t")
        self.emit(f"{name} = {expression}")
        return name

    def named(self, expression: str) -> str:
        """As `atom`, for where Python takes no numbers: before `.` and beside `is`."""
        if _ATOM.match(expression) and not _NUMBER.match(expression):
            return expression
        name = self.name("t")
        self.emit(f"{name} = {expression}")
        return name

    def atom(self, expression: str) -> str:
        """An expression that may be used more than once right here."""
        return expression if _ATOM.match(expression) else self.held(expression)

    def cons(self, first: str, second: str) -> str:
        """The name of a new cons."""
        name = self.name("t")
        self.emit(f"{name} = Cons()")
        self.emit(f"{name}.car = {first}")
        self.emit(f"{name}.cdr = {second}")
        return name

    # ------------------------------------------------------------ loops and exits

    @contextmanager
    def loop(self, header: str) -> Generator[Loop]:
        """A Python loop; after it stand the tests of the exits that crossed it."""
        loop = Loop()
        self.loops.append(loop)
        with self.block(header):
            yield loop
        self.loops.pop()
        self.pass_on(loop)

    def pass_on(self, loop: Loop) -> None:
        """After a loop: go on with the exits that crossed it."""
        for exit in dict.fromkeys(loop.passing):
            here = self.loops[-1] is exit.loop
            with self.block(f"if {exit.flag}:"):
                if here and exit.act == "continue":
                    self.emit(f"{exit.flag} = False")
                self.emit(exit.act if here else "break")

    def leave(self, exit: Exit) -> None:
        """Go to an exit."""
        exit.used = True
        if self.loops[-1] is exit.loop:
            self.emit(exit.act)
            return
        for loop in reversed(self.loops):
            if loop is exit.loop:
                break
            loop.passing.append(exit)
        self.emit(f"{exit.flag} = True")
        self.emit("break")

    def take_fuel(self, site: str = "") -> None:
        """A step of fuel; `site` is the place of a loop."""
        self.emit("state.fuel = f = state.fuel - 1")
        self.emit(f"if f < 0: state.refuel({site})")
        self.marks += 1

    def take_ticket(self, otherwise: str = "enter()") -> None:
        """The step of fuel of a call whose site is not pushed yet."""
        self.emit("for _ in state.tickets: break")
        self.emit(f"else: {otherwise}")

    # ------------------------------------------------------------ the whole text

    def address(self, var: Var) -> str:
        """A variable as Python: a local, or a slot of a frame list."""
        if var not in self.boxed and (var in self.bound or var.frame is self.base):
            return f"v{self.numbers[var]}"
        assert var.frame is not None
        name = self.frames[var.frame]
        self.needed.add(name)
        return f"{name}[{var.index}]"

    def text(self, header: list[str], footer: str) -> str:
        """The text: a header, whose line "{outer}" is where the frames around are taken out of
        one another, the lines, and a footer."""
        while True:
            before = set(self.needed)
            self._need_parents()
            body = self._rendered()
            if self.needed == before:
                break
        for at, line in enumerate(header):
            if line == "{outer}":
                given = any("P0" in text for text in header)
                header[at : at + 1] = self._outer_lines(given)
                break
        return "\n".join([*header, *body, footer, ""])

    def _outer_lines(self, given: bool) -> list[str]:
        indent = "    " if given else "        "
        lines = [] if given or "P0" not in self.needed else [f"{indent}P0 = e0[0]"]
        return lines + [
            f"{indent}P{at} = P{at - 1}[0]"
            for at in range(1, len(self.outer))
            if f"P{at}" in self.needed
        ]

    def _need_parents(self) -> None:
        for frame, name in self.frames.items():
            if name in self.needed and frame.parent is not None and name[0] == "e":
                parent = self.frames.get(frame.parent)
                if parent is not None:
                    self.needed.add(parent)
        for place in range(len(self.outer) - 1, 0, -1):
            if f"P{place}" in self.needed:
                self.needed.add(f"P{place - 1}")

    def _rendered(self) -> list[str]:
        rendered: list[str] = []

        def shown(match: re.Match[str]) -> str:
            return self.address(self.variables[int(match[1])])

        for indent, line in self.lines:
            if type(line) is str:
                text = _VARIABLE.sub(shown, line) if "$" in line else line
            elif type(line) is MakeFrame:
                text = self._frame_text(line, shown)
            else:
                text = self._entry_text(line)
            rendered.append("    " * indent + text)
        return rendered

    def _frame_text(self, line: MakeFrame, shown: Callable[[re.Match[str]], str]) -> str:
        frame = line.frame
        name = self.frames[frame]
        if name not in self.needed:
            return "pass"
        parent = "None" if frame.parent is None else self.frames[frame.parent]
        slots = [
            _VARIABLE.sub(shown, line.values.get(index, "None")) for index in range(1, frame.size)
        ]
        return f"{name} = [{', '.join([parent, *slots])}]"

    def _entry_text(self, line: Entry) -> str:
        var = line.var
        number = self.numbers.get(var)
        if number is None or var in self.boxed or var.frame is not self.base:
            return "pass"
        slot = f"{self.frames[self.base]}[{var.index}]"
        self.needed.add(self.frames[self.base])
        return f"{slot} = v{number}" if line.store else f"v{number} = {slot}"
