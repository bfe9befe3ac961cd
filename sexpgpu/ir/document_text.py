"""A document as text for people, and back: exactly but for places and the sources' texts.

    (document "sexpgpu-ir" 2
      (run (object "name" "line" "steps" 200 …))
      (parameters (list (object "path" "fit/w" …) …))
      …
      (graphs
    (graph "train/main" …)
    …))

Plain data is a number, true, false, none, a string, (list value…) or (object "key" value…); graphs
are as in `ir/text.py`.
"""

from __future__ import annotations

from typing import Any

from sexpgpu.diagnostics.codes.tensor import E_IR_009
from sexpgpu.ir.document import FORMAT, VERSION, Document
from sexpgpu.ir.document_json import document_from_json, document_to_json
from sexpgpu.ir.graph import Infer
from sexpgpu.ir.serial import graph_to_json
from sexpgpu.ir.text import GraphParser, Quoted, TextList, TextReader, Word, print_graph, quoted
from sexpgpu.source import Source

_APART = ("format", "version", "graphs", "sources", "origins")


def print_document(document: Document, origins: bool = True) -> str:
    """The text of a document. With `origins`, the places of nodes as comments."""
    data = document_to_json(document)
    lines = [f"(document {quoted(FORMAT)} {VERSION}"]
    for name in sorted(data):
        if name not in _APART:
            lines.append(f"  ({name} {_text(data[name], '    ')})")
    lines.append("  (graphs")
    for name in sorted(document.graphs):
        lines.append(print_graph(document.graphs[name], origins).rstrip("\n"))
    return "\n".join(lines) + "))\n"


def _text(value: Any, indent: str) -> str:
    if value is None:
        return "none"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list):
        rows: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
        return _wrapped("list", [_text(v, indent + "  ") for v in rows], indent)
    if isinstance(value, dict):
        table: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
        pairs = [f"{quoted(k)} {_text(v, indent + '  ')}" for k, v in sorted(table.items())]
        return _wrapped("object", pairs, indent)
    return repr(value)


def _wrapped(head: str, items: list[str], indent: str) -> str:
    """On one line where that is short, else an item a line."""
    one = f"({' '.join([head, *items])})"
    if len(one) + len(indent) <= 96 and "\n" not in one:
        return one
    return f"({head}" + "".join(f"\n{indent}{item}" for item in items) + ")"


def parse_document(text: str, infer: Infer) -> Document:
    """The document that `print_document` wrote, verified, without origins and sources."""
    source = Source("<document>", text)
    reader = TextReader(source)
    form = reader.read()
    if len(form) < 3 or form[0] != "document" or form[1] != FORMAT:
        reader.refuse(form.at, f"wanted (document {quoted(FORMAT)} {VERSION} …)", E_IR_009)
    data: dict[str, Any] = {"format": str(form[1]), "sources": [], "origins": []}
    parser = GraphParser(reader)
    data["version"] = parser.number(form[2], form.at)
    for part in form[3:]:
        if type(part) is not TextList or len(part) < 1 or type(part[0]) is not Word:
            reader.refuse(getattr(part, "at", form.at), "a part is (NAME value)")
        name = str(part[0])
        if name in data:
            reader.refuse(part.at, f"there is another part {name}")
        if name == "graphs":
            graphs = [parser.graph(g, 0) for g in part[1:]]
            data[name] = {g.name: graph_to_json(g) for g in graphs}
        elif len(part) == 2:
            data[name] = _data(part[1], reader, parser)
        else:
            reader.refuse(part.at, "a part is (NAME value)")
    return document_from_json(data, infer)


def _data(token: Any, reader: TextReader, parser: GraphParser) -> Any:
    if type(token) is Quoted:
        return str(token)
    if type(token) is Word:
        return parser.atom(token)
    if type(token) is TextList and token and type(token[0]) is Word:
        if token[0] == "list":
            return [_data(t, reader, parser) for t in token[1:]]
        if token[0] == "object" and len(token) % 2:
            keys = token[1::2]
            if all(type(k) is Quoted for k in keys):
                return {
                    str(k): _data(v, reader, parser) for k, v in zip(keys, token[2::2], strict=True)
                }
    wanted = 'wanted a value, (list …) or (object "key" value …)'
    return reader.refuse(getattr(token, "at", 0), wanted)
