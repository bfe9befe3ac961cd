"""The interpreter of `format` directives.

One `Run` is one control string at work on its arguments; nested strings (~?) and iterations over
sublists are Runs of their own on the same stream. What each directive does is declared with `does`,
in arguments, layout and control, which builtins/formatting imports.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.errors import type_error
from sexpgpu.lisp.format.parse import COUNT, Directive, Node, V, format_error, parse
from sexpgpu.lisp.format.streams import OutputStream, StringOutput
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import NIL, Char

STEPS = 8  # of fuel for a directive, or a round of ~{: it takes as long as some calls


class Leave(Exception):
    """~^: leave the iteration, or (`all`: ~:^) the whole of a ~:{."""

    def __init__(self, all: bool) -> None:
        self.all = all


class Run:
    """A control string at work: its arguments, how many were used, where it writes."""

    __slots__ = ("at", "control", "items", "out", "outer")

    def __init__(
        self, control: str, items: list[Any], out: OutputStream, outer: list[Any] | None = None
    ) -> None:
        self.control = control
        self.items = items
        self.at = 0
        self.out = out
        self.outer = outer  # the sublists left, inside ~:{

    # ------------------------------------------------------------ arguments

    def error(self, message: str, directive: Directive) -> Exception:
        return format_error(message, self.control, directive.position)

    def next(self, directive: Directive) -> Any:
        """The next argument."""
        if self.at >= len(self.items):
            raise self.error("no argument is left", directive)
        self.at += 1
        return self.items[self.at - 1]

    def parameters(self, directive: Directive, *defaults: Any) -> list[Any]:
        """The directive's parameters, with defaults for those left out or nil."""
        given = directive.parameters
        if len(given) > len(defaults):
            raise self.error(f"too many parameters for ~{directive.kind}", directive)
        values: list[Any] = []
        for index, default in enumerate(defaults):
            value: Any = given[index] if index < len(given) else None
            if value is V:
                value = self.next(directive)
                if value is NIL:
                    value = None
                elif type(value) is Char:
                    value = chr(value.code)
                elif not isinstance(value, int):
                    raise type_error(value, "(or null integer character)")
            elif value is COUNT:
                value = len(self.items) - self.at
            if value is not None and default is not None:
                wanted = type(default) if isinstance(default, str) else int
                if not isinstance(value, wanted):
                    raise self.error(f"a wrong parameter for ~{directive.kind}", directive)
            values.append(default if value is None else value)
        return values

    def count(self, directive: Directive, default: int = 1) -> int:
        """The one parameter of a directive that repeats."""
        (count,) = self.parameters(directive, default)
        if count < 0:
            raise self.error("a negative count", directive)
        STATE.charge_memory(count)
        STATE.charge(count // 8)
        return count

    # ------------------------------------------------------------ running

    def run(self, nodes: list[Node]) -> None:
        """Do the directives."""
        out = self.out
        for node in nodes:
            if type(node) is str:
                out.write(node)
            else:
                STATE.charge(STEPS)
                _DIRECTIVES[node.kind](self, node)  # type: ignore[union-attr]

    def captured(self, nodes: list[Node]) -> tuple[str, Leave | None]:
        """What the directives write, kept back, and the ~^ that ended them."""
        saved, inner = self.out, StringOutput()
        inner.at = saved.column
        self.out = inner
        leave: Leave | None = None
        try:
            self.run(nodes)
        except Leave as raised:
            leave = raised
        finally:
            self.out = saved
        return inner.take(), leave

    def lay(self, text: str, field: list[Any], left: bool) -> None:
        """Write text in a field of (mincol, colinc, minpad, padchar)."""
        width, step, least, pad = field
        count = max(least, 0)
        if len(text) + count < width:
            step = max(step, 1)
            count += -(-(width - len(text) - count) // step) * step
        if count:
            STATE.charge_memory(count)
            STATE.charge(count // 8)
            padding = pad * count
            text = padding + text if left else text + padding
        self.out.write(text)


Handler = Callable[[Run, Directive], None]
_DIRECTIVES: dict[str, Handler] = {}


def does(*kinds: str) -> Callable[[Handler], Handler]:
    """Declare the function that does the directives of these letters."""

    def declare(handler: Handler) -> Handler:
        for kind in kinds:
            _DIRECTIVES[kind] = handler
        return handler

    return declare


def format_to(control: str, items: list[Any], out: OutputStream) -> list[Any]:
    """Do a control string on a stream; gives the arguments not used."""
    return run_nodes(control, parse(control), items, out)


def run_nodes(control: str, nodes: list[Node], items: list[Any], out: OutputStream) -> list[Any]:
    """Do parsed directives on a stream; gives the arguments not used."""
    run = Run(control, items, out)
    try:
        run.run(nodes)
    except Leave:
        return run.items[run.at :]
    return run.items[run.at :]
