"""The one layout of Lisp text: `layout(source)` gives the same forms, laid out.

Line breaks and comments stay the author's; indentation, blanks between elements, closing
parentheses, blank lines, and breaks of lines that are too long are the layout's.
"""

from __future__ import annotations

from collections.abc import Mapping

from sexpgpu.reader.layout.lines import Layout
from sexpgpu.reader.layout.rules import body_macros
from sexpgpu.reader.layout.tree import parse, tokens
from sexpgpu.source import Source


def layout(source: Source, macros: Mapping[str, int] | None = None) -> str:
    """The text of a source in the one layout; SxError where it does not read. `macros`: how many
    arguments come before the body of a macro that the file did not define itself."""
    items = parse(source)
    text = Layout({**(macros or {}), **body_macros(source.text)}).text(items)
    if list(tokens(parse(Source(source.name, text)))) != list(tokens(items)):
        raise AssertionError(f"the layout of {source.name} would change what it says")
    return text
