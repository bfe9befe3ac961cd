"""Printing and string streams: princ, prin1, print, write, write-to-string and their kin."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.builtins.designators import bounds, character_argument, truth
from sexpgpu.lisp.builtins.equality import text_of_string
from sexpgpu.lisp.errors import program_error, type_error
from sexpgpu.lisp.format.streams import (
    OutputStream,
    Stream,
    StringAppender,
    StringInput,
    StringOutput,
    output_stream,
)
from sexpgpu.lisp.hostforms import form, host_macro, symbol
from sexpgpu.lisp.number_text import PRINT_BASE, PRINT_RADIX
from sexpgpu.lisp.printer import (
    PRINT_ARRAY,
    PRINT_CASE,
    PRINT_CIRCLE,
    PRINT_ESCAPE,
    PRINT_GENSYM,
    PRINT_LENGTH,
    PRINT_LEVEL,
    PRINT_LINES,
    PRINT_MISER_WIDTH,
    PRINT_PRETTY,
    PRINT_READABLY,
    PRINT_RIGHT_MARGIN,
    prin1_text,
    princ_text,
    written_text,
)
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.values import MV, NIL, Cons, Function, String, Symbol, T, keyword, lisp_list


@builtin("princ", "(value &optional stream)")
def princ(value: Any, stream: Any = None) -> Any:
    """Write VALUE for people: strings without quotes. Gives VALUE."""
    output_stream(stream).write(_bound(PRINT_ESCAPE, NIL, princ_text, value))
    return value


@builtin("prin1", "(value &optional stream)")
def prin1(value: Any, stream: Any = None) -> Any:
    """Write VALUE so that it reads back. Gives VALUE."""
    output_stream(stream).write(prin1_text(value))
    return value


@builtin("print", "(value &optional stream)")
def print_(value: Any, stream: Any = None) -> Any:
    """Write a newline, VALUE as prin1 does, and a space. Gives VALUE."""
    output_stream(stream).write("\n" + prin1_text(value) + " ")
    return value


@builtin("pprint", "(value &optional stream)")
def pprint(value: Any, stream: Any = None) -> Any:
    """Write a newline and VALUE as prin1 does; no values."""
    output_stream(stream).write("\n" + prin1_text(value))
    return MV(())


def _bound(variable: Symbol, value: Any, function: Any, argument: Any) -> Any:
    """Call a Python function with a printer variable bound."""
    saved = variable.value
    variable.value = value
    try:
        return function(argument)
    finally:
        variable.value = saved


_WRITE_VARIABLES = {
    "array": PRINT_ARRAY,
    "base": PRINT_BASE,
    "case": PRINT_CASE,
    "circle": PRINT_CIRCLE,
    "escape": PRINT_ESCAPE,
    "gensym": PRINT_GENSYM,
    "length": PRINT_LENGTH,
    "level": PRINT_LEVEL,
    "lines": PRINT_LINES,
    "miser_width": PRINT_MISER_WIDTH,
    "pretty": PRINT_PRETTY,
    "radix": PRINT_RADIX,
    "readably": PRINT_READABLY,
    "right_margin": PRINT_RIGHT_MARGIN,
}
_WRITE_KEYS = (
    "array base case circle escape gensym length level lines miser-width pprint-dispatch pretty "
    "radix readably right-margin"
)


def _written(value: Any, settings: dict[str, Any]) -> str:
    """The text of a value with printer variables bound as the keywords say."""
    saved = [(v, v.value) for name, v in _WRITE_VARIABLES.items() if name in settings]
    try:
        for name, setting in settings.items():
            if name in _WRITE_VARIABLES:
                _WRITE_VARIABLES[name].value = setting
        return written_text(value)
    finally:
        for variable, before in saved:
            variable.value = before


def _write_function(name: str, to_string: bool) -> Any:
    known = {keyword(key): key.replace("-", "_") for key in _WRITE_KEYS.split()}
    known[keyword("stream")] = "stream"
    if to_string:
        del known[keyword("stream")]

    def write(value: Any, *pairs: Any) -> Any:
        if len(pairs) % 2:
            raise program_error(f"{name}: the keyword arguments are not in pairs")
        settings: dict[str, Any] = {}
        others: Any = None
        unknown: Any = None
        for at in range(0, len(pairs), 2):
            if pairs[at] in known:
                settings.setdefault(known[pairs[at]], pairs[at + 1])
            elif pairs[at] is keyword("allow-other-keys"):
                others = pairs[at + 1] if others is None else others
            else:
                unknown = pairs[at]
        if unknown is not None and others in (None, NIL):
            raise program_error(f"{name} has no keyword {prin1_text(unknown)}")
        stream = settings.pop("stream", None)
        text = _written(value, settings)
        if to_string:
            return String(text)
        output_stream(stream).write(text)
        return value

    return write


def _declare_write() -> None:
    write = _write_function("write", to_string=False)
    write.__doc__ = "Write VALUE with the printer variables that the keywords set."
    builtin("write", "(value &rest keywords)")(write)
    to_string = _write_function("write-to-string", to_string=True)
    to_string.__doc__ = "The text that `write` would write, as a string."
    builtin("write-to-string", "(value &rest keywords)")(to_string)


_declare_write()


@builtin("princ-to-string", "(value)")
def princ_to_string(value: Any) -> Any:
    """The text that princ writes, as a string."""
    return String(_bound(PRINT_ESCAPE, NIL, princ_text, value))


@builtin("prin1-to-string", "(value)")
def prin1_to_string(value: Any) -> Any:
    """The text that prin1 writes, as a string."""
    return String(prin1_text(value))


@builtin("terpri", "(&optional stream)")
def terpri(stream: Any = None) -> Any:
    """Write a newline."""
    output_stream(stream).write("\n")
    return NIL


@builtin("fresh-line", "(&optional stream)")
def fresh_line(stream: Any = None) -> Any:
    """Write a newline unless at the start of a line; whether one was written."""
    target = output_stream(stream)
    if target.column == 0:
        return NIL
    target.write("\n")
    return T


@builtin("write-char", "(char &optional stream)")
def write_char(char: Any, stream: Any = None) -> Any:
    """Write one character."""
    output_stream(stream).write(chr(character_argument(char).code))
    return char


def _text_part(string: Any, start: Any, end: Any) -> str:
    if type(string) is not String:
        raise type_error(string, "string")
    text = text_of_string(string)
    low, high = bounds(len(text), start, end)
    return text[low:high]


@builtin("write-string", "(string &optional stream &key start end)")
def write_string(string: Any, stream: Any = None, start: Any = None, end: Any = None) -> Any:
    """Write STRING, or its part."""
    output_stream(stream).write(_text_part(string, start, end))
    return string


@builtin("write-line", "(string &optional stream &key start end)")
def write_line(string: Any, stream: Any = None, start: Any = None, end: Any = None) -> Any:
    """Write STRING, or its part, and a newline."""
    output_stream(stream).write(_text_part(string, start, end) + "\n")
    return string


for _name in ("finish-output", "force-output", "clear-output"):

    def _nothing(stream: Any = None) -> Any:
        """Nothing to do here: what is written is never held back. Gives nil."""
        output_stream(stream)
        return NIL

    builtin(_name, "(&optional stream)")(_nothing)


# ---------------------------------------------------------------- streams


@builtin("streamp", "(value)")
def streamp(value: Any) -> Any:
    """Whether VALUE is a stream."""
    return truth(isinstance(value, Stream))


@builtin("output-stream-p", "(stream)")
def output_stream_p(stream: Any) -> Any:
    """Whether STREAM can be written to."""
    if not isinstance(stream, Stream):
        raise type_error(stream, "stream")
    return truth(isinstance(stream, OutputStream))


@builtin("input-stream-p", "(stream)")
def input_stream_p(stream: Any) -> Any:
    """Whether STREAM can be read from."""
    if not isinstance(stream, Stream):
        raise type_error(stream, "stream")
    return truth(isinstance(stream, StringInput))


@builtin("open-stream-p", "(stream)")
def open_stream_p(stream: Any) -> Any:
    """Whether STREAM was not closed."""
    if not isinstance(stream, Stream):
        raise type_error(stream, "stream")
    return truth(not stream.closed)


@builtin("close", "(stream &key abort)")
def close(stream: Any, abort: Any = NIL) -> Any:
    """Close STREAM."""
    if not isinstance(stream, Stream):
        raise type_error(stream, "stream")
    stream.closed = True
    return T


@builtin("make-string-output-stream", "(&key element-type)")
def make_string_output_stream(element_type: Any = None) -> Any:
    """A stream that gathers what is written to it."""
    return StringOutput()


@builtin("get-output-stream-string", "(stream)")
def get_output_stream_string(stream: Any) -> Any:
    """What was written to a string output stream since the last time."""
    if not isinstance(stream, StringOutput):
        raise type_error(stream, "stream")
    return String(stream.take())


def _open(string: Any = NIL, element_type: Any = None) -> Any:
    return StringOutput() if string is NIL else StringAppender(string)


_OPEN = Function("%open-string-output", _open, 0, 2)
_TAKE = Function("get-output-stream-string", get_output_stream_string, 1, 1)


def _stream_binding(name: str, whole: Any) -> tuple[list[Any], list[Any]]:
    """The parts of the (variable …) list, and the body."""
    parts = list(whole.cdr) if isinstance(whole.cdr, Cons) else []
    if not parts or not isinstance(parts[0], Cons):
        raise program_error(f"{name}: needs (variable …) first")
    return list(parts[0]), parts[1:]


@host_macro("with-output-to-string", "((variable &optional string &key element-type) &body body)")
def with_output_to_string(whole: Any, context: Any) -> Any:
    """Run BODY with a stream that gathers what is written; gives that as a string."""
    binding, body = _stream_binding("with-output-to-string", whole)
    variable, string = binding[0], binding[1] if len(binding) > 1 else NIL
    arguments = [string, *binding[3:4]]
    opened = form(form(variable, lisp_list([_OPEN, *arguments])))
    if string is NIL:
        body = [*body, form(_TAKE, variable)]
    return lisp_list([symbol("let"), opened, *body])
