"""`format` and `formatter`. Importing this declares the directives, family by family."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sexpgpu.lisp.builtins.designators import new_list
from sexpgpu.lisp.builtins.equality import text_of_string
from sexpgpu.lisp.calls import call
from sexpgpu.lisp.errors import program_error, type_error
from sexpgpu.lisp.format.parse import parse
from sexpgpu.lisp.format.run import format_to, run_nodes
from sexpgpu.lisp.format.streams import (
    STANDARD_OUTPUT,
    OutputStream,
    StringAppender,
    StringOutput,
    output_stream,
)
from sexpgpu.lisp.hostforms import host_macro, quoted
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.values import NIL, Cons, Function, String, T

for _family in ("arguments", "layout", "control"):
    import_module(f"sexpgpu.lisp.format.{_family}")


@builtin("format", "(destination control &rest arguments)")
def format_(destination: Any, control: Any, *arguments: Any) -> Any:
    """Write the arguments as the CONTROL string says: to nil (gives a string), t (the standard
    output), a stream, or a string with a fill pointer."""
    out: OutputStream
    if destination is NIL:
        out = StringOutput()
    elif destination is T:
        out = output_stream(STANDARD_OUTPUT.value)
    elif type(destination) is String:
        out = StringAppender(destination)
    else:
        out = output_stream(destination)
    if type(control) is String:
        format_to(text_of_string(control), list(arguments), out)
    elif isinstance(control, Function):
        call(control, out, *arguments)
    else:
        raise type_error(control, "(or string function)")
    return String(out.take()) if destination is NIL and isinstance(out, StringOutput) else NIL


@host_macro("formatter", "(control)")
def formatter(whole: Any, context: Any) -> Any:
    """The function of (stream &rest arguments) that does what `format` does with CONTROL; it gives
    the arguments that were not used."""
    control = whole.cdr.car if isinstance(whole.cdr, Cons) else None
    if type(control) is not String:
        raise program_error("formatter takes a literal control string")
    text = text_of_string(control)
    nodes = parse(text)

    def write(stream: Any, *arguments: Any) -> Any:
        out = stream if isinstance(stream, OutputStream) else output_stream(stream)
        return new_list(run_nodes(text, nodes, list(arguments), out))

    return quoted(Function("formatter", write, 1, None, "(stream &rest arguments)"))
