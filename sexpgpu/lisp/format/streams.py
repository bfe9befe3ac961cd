"""Character streams: the console, strings written to, strings read from.

A stream knows its column, which `~&` and `~t` ask for. Files do not exist here.
"""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.errors import type_error
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import CL, NIL, String, T


class Stream:
    """Any stream."""

    __slots__ = ("closed",)

    def __init__(self) -> None:
        self.closed = False

    def __str__(self) -> str:
        return "#<stream>"


class OutputStream(Stream):
    """A stream that is written to."""

    __slots__ = ()

    @property
    def column(self) -> int:
        """The number of characters since the last newline."""
        return 0

    def write(self, text: str) -> None:
        """Write a text; this one forgets it."""


class ConsoleStream(OutputStream):
    """The stream behind *standard-output*: what the evaluation's caller sees."""

    __slots__ = ()

    @property
    def column(self) -> int:
        return STATE.output.column

    def write(self, text: str) -> None:
        STATE.output.write(text)


class StringOutput(OutputStream):
    """A stream that gathers what is written to it."""

    __slots__ = ("at", "parts")

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.at = 0

    @property
    def column(self) -> int:
        return self.at

    def write(self, text: str) -> None:
        if not text:
            return
        STATE.charge_memory(len(text))
        self.parts.append(text)
        newline = text.rfind("\n")
        self.at = self.at + len(text) if newline < 0 else len(text) - newline - 1

    def take(self) -> str:
        """What was written since the last time."""
        text = "".join(self.parts)
        self.parts.clear()
        return text


class StringAppender(StringOutput):
    """A stream that writes at the end of a string with a fill pointer."""

    __slots__ = ("target",)

    def __init__(self, target: String) -> None:
        super().__init__()
        if type(target) is not String or target.fill is None:
            raise type_error(target, "(and string (satisfies array-has-fill-pointer-p))")
        self.target = target
        before = target.text[: target.fill]
        self.at = len(before) - before.rfind("\n") - 1

    def write(self, text: str) -> None:
        super().write(text)
        self.parts.clear()
        target = self.target
        end = target.fill or 0
        target.text = target.text[:end] + text + target.text[end + len(text) :]
        target.fill = end + len(text)


class StringInput(Stream):
    """A stream that reads a text."""

    __slots__ = ("position", "text")

    def __init__(self, text: str, position: int = 0) -> None:
        super().__init__()
        self.text = text
        self.position = position


CONSOLE = ConsoleStream()

STANDARD_OUTPUT = CL.own("*standard-output*")
STANDARD_INPUT = CL.own("*standard-input*")


def _define_streams() -> None:
    for name in ("*standard-output*", "*error-output*", "*trace-output*", "*terminal-io*"):
        symbol = CL.own(name)
        symbol.value = CONSOLE
        symbol.special = True
    STANDARD_INPUT.value = StringInput("")
    STANDARD_INPUT.special = True


_define_streams()


def output_stream(designator: Any) -> OutputStream:
    """The output stream a designator means: nil the standard output, t the console."""
    if designator is None or designator is NIL:
        designator = STANDARD_OUTPUT.value
    if designator is T:
        return CONSOLE
    if not isinstance(designator, OutputStream):
        raise type_error(designator, "stream")
    return designator


def input_stream(designator: Any) -> StringInput:
    """The input stream a designator means."""
    if designator is None or designator is NIL or designator is T:
        designator = STANDARD_INPUT.value
    if not isinstance(designator, StringInput):
        raise type_error(designator, "stream")
    return designator


def call_with_string_output(function: Any, arguments: list[Any]) -> str:
    """What a formatter's function, called with (stream argument…), writes."""
    from sexpgpu.lisp.calls import as_function, call

    stream = StringOutput()
    call(as_function(function), stream, *arguments)
    return stream.take()


def printed_by(function: Any, value: Any) -> str:
    """What a printing function, called with (value stream), writes."""
    from sexpgpu.lisp.calls import as_function, call

    stream = StringOutput()
    call(as_function(function), value, stream)
    return stream.take()
