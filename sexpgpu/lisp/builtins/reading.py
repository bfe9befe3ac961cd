"""Reading from strings: read-from-string, string input streams, read and the character readers."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.builtins.designators import bounds
from sexpgpu.lisp.builtins.equality import text_of_string
from sexpgpu.lisp.errors import end_of_file, program_error, reader_error, type_error
from sexpgpu.lisp.format.streams import StringInput, input_stream
from sexpgpu.lisp.hostforms import form, host_macro, symbol
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.state import STATE, limit
from sexpgpu.lisp.values import (
    CL,
    MV,
    NIL,
    PRELUDE,
    Char,
    Cons,
    Function,
    SrcCons,
    String,
    Symbol,
    T,
    Vector,
    char,
    lisp_list,
)
from sexpgpu.reader.printer import brief
from sexpgpu.source import Source

READ_BASE = CL.own("*read-base*")
READ_BASE.value = 10
READ_BASE.special = True

_BLANKS = " \t\n\r\f"


def _base() -> int:
    """The value of *read-base*."""
    base = READ_BASE.value
    if type(base) is int and 2 <= base <= 36:
        return base
    message = f"*read-base* is {brief(base)}, not an integer from 2 to 36"
    raise type_error(base, "(integer 2 36)", message)


def _fresh(value: Any) -> Any:
    """A copy of what was read that the program may change: it is no part of its text."""
    if isinstance(value, SrcCons):
        items: list[Any] = []
        at: Any = value
        while isinstance(at, Cons):
            items.append(_fresh(at.car))
            at = at.cdr
        return lisp_list(items, _fresh(at))
    if type(value) is String:
        return String(value.text)
    if type(value) is Vector:
        return Vector([_fresh(item) for item in value.items])
    return value


class _NoForm(Exception):
    """There was nothing more to read."""


def _read(text: str, start: int, preserve: bool) -> tuple[Any, int]:
    """The form that begins at `start` and where it ends; _NoForm when there is none."""
    from sexpgpu.reader.failures import ReadFailure, TooDeep
    from sexpgpu.reader.reader import END, Reader

    session = STATE.session
    features = session.features if session is not None else ("sexpgpu",)
    reader = Reader(
        Source("<string>", text),
        STATE.module or PRELUDE,
        features,
        start=start,
        nesting=STATE.limits.nesting,
        base=_base(),
    )
    STATE.charge((len(text) - start) // 8)
    try:
        value = reader.read()
    except ReadFailure as failure:
        headline = failure.diagnostic.headline
        if failure.at_end:
            raise end_of_file(headline) from None
        raise reader_error(headline) from None
    except TooDeep:
        raise limit("nesting", STATE.limits.nesting) from None
    if value is END:
        raise _NoForm
    if session is not None:
        session.deferred.settle()
    end = reader.at
    if not preserve and end < len(text) and text[end] in _BLANKS:
        end += 1
    return _fresh(value), end


def _no_more(eof_error: Any, eof_value: Any) -> Any:
    """What a reader gives at the end of its text."""
    if eof_error is not NIL:
        raise end_of_file("the end of the text was reached")
    return eof_value


@builtin(
    "read-from-string",
    "(string &optional eof-error-p eof-value &key start end preserve-whitespace)",
)
def read_from_string(
    string: Any,
    eof_error_p: Any = T,
    eof_value: Any = NIL,
    start: Any = None,
    end: Any = None,
    preserve_whitespace: Any = NIL,
) -> Any:
    """The first form written in STRING, and the index after it."""
    if type(string) is not String:
        raise type_error(string, "string")
    text = text_of_string(string)
    low, high = bounds(len(text), start, end)
    try:
        return MV(_read(text[:high], low, preserve_whitespace is not NIL))
    except _NoForm:
        return MV((_no_more(eof_error_p, eof_value), high))


@builtin("make-string-input-stream", "(string &optional start end)")
def make_string_input_stream(string: Any, start: Any = None, end: Any = None) -> Any:
    """A stream that reads STRING, or its part."""
    if type(string) is not String:
        raise type_error(string, "string")
    text = text_of_string(string)
    low, high = bounds(len(text), start, end)
    return StringInput(text[:high], low)


_READ = "(&optional stream eof-error-p eof-value recursive-p)"


def _read_form(
    stream: Any = None,
    eof_error_p: Any = T,
    eof_value: Any = NIL,
    recursive_p: Any = NIL,
) -> Any:
    """The next form of a string input stream."""
    source = input_stream(stream)
    try:
        value, source.position = _read(source.text, source.position, preserve=False)
    except _NoForm:
        source.position = len(source.text)
        return _no_more(eof_error_p, eof_value)
    return value


builtin("read", _READ)(_read_form)
builtin("read-preserving-whitespace", _READ)(_read_form)


@builtin("read-char", _READ)
def read_char(
    stream: Any = None, eof_error_p: Any = T, eof_value: Any = NIL, recursive_p: Any = NIL
) -> Any:
    """The next character of a string input stream."""
    source = input_stream(stream)
    if source.position >= len(source.text):
        return _no_more(eof_error_p, eof_value)
    source.position += 1
    return char(source.text[source.position - 1])


@builtin("unread-char", "(char &optional stream)")
def unread_char(char: Any, stream: Any = None) -> Any:
    """Put back the character that was read last."""
    source = input_stream(stream)
    if source.position == 0:
        raise program_error("unread-char: nothing was read")
    source.position -= 1
    return NIL


@builtin("peek-char", "(&optional type stream eof-error-p eof-value recursive-p)")
def peek_char(
    type: Any = NIL,
    stream: Any = None,
    eof_error_p: Any = T,
    eof_value: Any = NIL,
    recursive_p: Any = NIL,
) -> Any:
    """The next character, not taken; T skips blanks first, a character skips up to it."""
    source = input_stream(stream)
    text, at = source.text, source.position
    if type is T:
        while at < len(text) and text[at] in _BLANKS:
            at += 1
    elif isinstance(type, Char):
        while at < len(text) and text[at] != chr(type.code):
            at += 1
    source.position = at
    return char(text[at]) if at < len(text) else _no_more(eof_error_p, eof_value)


@builtin("read-line", _READ)
def read_line(
    stream: Any = None, eof_error_p: Any = T, eof_value: Any = NIL, recursive_p: Any = NIL
) -> Any:
    """The next line as a string, and whether the text ended without a newline."""
    source = input_stream(stream)
    text, at = source.text, source.position
    if at >= len(text):
        return MV((_no_more(eof_error_p, eof_value), T))
    end = text.find("\n", at)
    if end < 0:
        source.position = len(text)
        return MV((String(text[at:]), T))
    source.position = end + 1
    return MV((String(text[at:end]), NIL))


@builtin("listen", "(&optional stream)")
def listen(stream: Any = None) -> Any:
    """Whether a character is there to be read."""
    source = input_stream(stream)
    return T if source.position < len(source.text) else NIL


_OPEN = Function("make-string-input-stream", make_string_input_stream, 1, 3)


def _position(stream: StringInput) -> int:
    return stream.position


_POSITION = Function("%position", _position, 1, 1)


@host_macro("with-input-from-string", "((variable string &key index start end) &body body)")
def with_input_from_string(whole: Any, context: Any) -> Any:
    """Run BODY with a stream that reads a string; :index is a place for where it stopped."""
    parts = list(whole.cdr) if isinstance(whole.cdr, Cons) else []
    binding = list(parts[0]) if parts and isinstance(parts[0], Cons) else []
    named = all(isinstance(key, Symbol) for key in binding[2::2])
    if len(binding) < 2 or len(binding) % 2 or not named:
        raise program_error("with-input-from-string: needs (variable string …) first")
    variable, string = binding[0], binding[1]
    options = {binding[at].name: binding[at + 1] for at in range(2, len(binding), 2)}
    opened = form(_OPEN, string, options.get("start", 0), options.get("end", NIL))
    body = parts[1:]
    declarations: list[Any] = []
    while body and isinstance(body[0], Cons) and body[0].car is symbol("declare"):
        declarations.append(body.pop(0))
    if "index" in options:
        stop = form(symbol("setf"), options["index"], form(_POSITION, variable))
        work = lisp_list([symbol("progn"), *body])
        body = [form(symbol("multiple-value-prog1"), work, stop)]
    bound = form(form(variable, opened))
    return lisp_list([symbol("let"), bound, *declarations, *body])
