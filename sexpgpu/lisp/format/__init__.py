"""`format`: control strings, their directives, and the streams they write to."""

from __future__ import annotations

from typing import Any


def format_text(control: str, arguments: list[Any]) -> str:
    """The text that a control string makes of its arguments."""
    from sexpgpu.lisp.format.run import format_to
    from sexpgpu.lisp.format.streams import StringOutput

    out = StringOutput()
    format_to(control, arguments, out)
    return out.take()
