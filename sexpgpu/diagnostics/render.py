"""Diagnostics as text, one-line text, JSON objects, GitHub annotations and SARIF. Pure: a
diagnostic in, a string or plain data out; its spans carry the sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sexpgpu.diagnostics.excerpt import Mark, excerpt, sources_in_order, visible

if TYPE_CHECKING:
    from sexpgpu.diagnostics.model import Diagnostic, Note
    from sexpgpu.source import Span

Json = Mapping[str, object]

MOST_NOTES = 8
"""How many notes are shown: the innermost of a long expansion say the most."""

MOST_SHOWN = 20
"""How many errors, and how many warnings, are shown for people. Data formats have them all."""

_STYLES = {
    "error": "\x1b[1;31m",
    "warning": "\x1b[1;33m",
    "headline": "\x1b[1m",
    "gutter": "\x1b[34m",
    "secondary": "\x1b[36m",
    "word": "\x1b[1;36m",
}


def text(diagnostic: Diagnostic, *, colour: bool = False, width: int = 100) -> str:
    """A diagnostic for people: headline, excerpt with labels, notes, fix and where to read on.

    `width` is the most columns of a source line that are shown. No newline at the end.
    """
    severity = diagnostic.severity

    def paint(role: str, words: str) -> str:
        if not colour or not words:
            return words
        return f"{_STYLES[severity if role == 'primary' else role]}{words}\x1b[0m"

    marks = [
        Mark(label.span, label.text, index == 0) for index, label in enumerate(diagnostic.labels)
    ]
    gutter = max([2, *(len(str(mark.last)) for mark in marks)])
    head = paint(severity, f"{severity}[{diagnostic.code.id}]")
    first, *more = visible(diagnostic.headline).split("\n")
    lines = [f"{head}: {paint('headline', first)}", *(f"  {line}" for line in more)]
    for source in sources_in_order(marks):
        lines.extend(excerpt([m for m in marks if m.source is source], gutter, width, paint))
    for note in diagnostic.notes[:MOST_NOTES]:
        lines.append(_said(paint("word", "note"), _note(note)))
    if len(diagnostic.notes) > MOST_NOTES:
        left = len(diagnostic.notes) - MOST_NOTES
        lines.append(_said(paint("word", "note"), f"and {left} more of these"))
    lines.append(_said(paint("word", "fix"), visible(fix_of(diagnostic))))
    lines.append(_said(paint("word", "see"), docs_of(diagnostic)))
    return "\n".join(lines)


def texts(diagnostics: Sequence[Diagnostic], *, colour: bool = False, width: int = 100) -> str:
    """Several diagnostics for people: the first MOST_SHOWN errors and as many warnings, in order,
    and how many more there are. "" for none."""
    shown = list(_first(diagnostics))
    parts = [text(diagnostic, colour=colour, width=width) for diagnostic in shown]
    left = len(diagnostics) - len(shown)
    if left:
        kept = {id(diagnostic) for diagnostic in shown}
        more = summary([d for d in diagnostics if id(d) not in kept])
        parts.append(f"and {more} more; `sexpgpu check --format concise` lists each on a line")
    return "\n\n".join(parts)


def _first(diagnostics: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    """The first MOST_SHOWN of each severity."""
    left = {"error": MOST_SHOWN, "warning": MOST_SHOWN}
    for diagnostic in diagnostics:
        left[diagnostic.severity] -= 1
        if left[diagnostic.severity] >= 0:
            yield diagnostic


def summary(diagnostics: Sequence[Diagnostic]) -> str:
    """`2 errors, 1 warning`."""
    parts: list[str] = []
    for severity in ("error", "warning"):
        count = sum(1 for diagnostic in diagnostics if diagnostic.severity == severity)
        if count:
            parts.append(f"{count} {severity}{'s' if count > 1 else ''}")
    return ", ".join(parts) if parts else "no errors"


def concise(diagnostic: Diagnostic) -> str:
    """A diagnostic on one line: `digits.sx:14:18: error[E-SHAPE-002]: …`."""
    where = f"{visible(str(diagnostic.span))}: " if diagnostic.span else ""
    headline = " ".join(visible(diagnostic.headline).split("\n"))
    return f"{where}{diagnostic.severity}[{diagnostic.code.id}]: {headline}"


def to_json(diagnostic: Diagnostic) -> dict[str, object]:
    """A diagnostic as plain data. Lines and columns count from 1, columns in characters; the end
    is exclusive; all five are null where there is no place.

    Keys: code, severity, message, file, line, column, end_line, end_column, notes, fix, edits,
    docs. The labels come first among the notes. `edits` is there only when there are some.
    """
    notes: list[dict[str, object]] = []
    for label in diagnostic.labels:
        if label.text:
            notes.append(_placed(label.text, label.span))
    notes.extend(_placed(note.text, note.span) for note in diagnostic.notes)
    out: dict[str, object] = {
        "code": diagnostic.code.id,
        "severity": diagnostic.severity,
        "message": diagnostic.headline,
        **_range(diagnostic.span),
        "notes": notes,
        "fix": fix_of(diagnostic),
    }
    if diagnostic.edits:
        out["edits"] = [
            {**_range(edit.span), "text": edit.text, "safe": edit.safe} for edit in diagnostic.edits
        ]
    out["docs"] = docs_of(diagnostic)
    return out


def github(diagnostic: Diagnostic) -> str:
    """A workflow command that GitHub shows beside the line."""
    properties: dict[str, object] = {}
    span = diagnostic.span
    if span is not None:
        place = _range(span)
        properties["file"] = place["file"]
        properties["line"] = place["line"]
        properties["endLine"] = place["end_line"]
        if place["line"] == place["end_line"]:
            properties["col"] = place["column"]
            properties["endColumn"] = place["end_column"]
    properties["title"] = f"{diagnostic.code.id} {diagnostic.code.title}"
    listed = ",".join(
        f"{key}={_github_escaped(str(value), ':,')}" for key, value in properties.items()
    )
    lines = [diagnostic.headline]
    lines += [label.text for label in diagnostic.labels if label.text]
    lines += [f"note: {_note(note)}" for note in diagnostic.notes[:MOST_NOTES]]
    lines.append(f"fix: {fix_of(diagnostic)}")
    message = _github_escaped("\n".join(lines))
    return f"::{diagnostic.severity} {listed}::{message}"


def _github_escaped(words: str, also: str = "") -> str:
    for char in "%\r\n" + also:
        words = words.replace(char, f"%{ord(char):02X}")
    return words


def sarif(diagnostics: Sequence[Diagnostic], version: str) -> dict[str, object]:
    """A SARIF 2.1.0 log with one run. `version` is the product's."""
    codes = list({d.code.id: d.code for d in diagnostics}.values())
    rules = [
        {
            "id": code.id,
            "shortDescription": {"text": code.title},
            "fullDescription": {"text": code.explain},
            "help": {"text": code.fix},
            "defaultConfiguration": {"level": code.severity},
        }
        for code in codes
    ]
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "sexpgpu", "version": version, "rules": rules}},
                "columnKind": "unicodeCodePoints",
                "results": [_sarif_result(d, codes.index(d.code)) for d in diagnostics],
            }
        ],
    }


def _sarif_result(diagnostic: Diagnostic, rule: int) -> dict[str, object]:
    result: dict[str, object] = {
        "ruleId": diagnostic.code.id,
        "ruleIndex": rule,
        "level": diagnostic.severity,
        "message": {"text": f"{diagnostic.headline}\nfix: {fix_of(diagnostic)}"},
    }
    if diagnostic.labels:
        first, *others = diagnostic.labels
        result["locations"] = [_sarif_location(first.span, first.text)]
        related = [_sarif_location(label.span, label.text) for label in others]
        related += [
            _sarif_location(note.span, note.text)
            for note in diagnostic.notes
            if note.span is not None
        ]
        if related:
            result["relatedLocations"] = [
                {"id": number, **location} for number, location in enumerate(related, 1)
            ]
    if diagnostic.edits:
        changes: dict[str, list[dict[str, object]]] = {}
        for edit in diagnostic.edits:
            changes.setdefault(_uri(edit.span), []).append(
                {"deletedRegion": _region(edit.span), "insertedContent": {"text": edit.text}}
            )
        result["fixes"] = [
            {
                "description": {"text": fix_of(diagnostic)},
                "artifactChanges": [
                    {"artifactLocation": {"uri": uri}, "replacements": replacements}
                    for uri, replacements in changes.items()
                ],
            }
        ]
    return result


def _sarif_location(span: Span, words: str) -> dict[str, object]:
    location: dict[str, object] = {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(span)},
            "region": _region(span),
        }
    }
    if words:
        location["message"] = {"text": words}
    return location


def _uri(span: Span) -> str:
    from urllib.parse import quote

    return quote(span.source.name.replace("\\", "/"), safe="/:")


def _region(span: Span) -> dict[str, object]:
    place = _range(span)
    return {
        "startLine": place["line"],
        "startColumn": place["column"],
        "endLine": place["end_line"],
        "endColumn": place["end_column"],
    }


def fix_of(diagnostic: Diagnostic) -> str:
    """What to do: the diagnostic's own fix, else that of its code."""
    return diagnostic.fix or diagnostic.code.fix


def docs_of(diagnostic: Diagnostic) -> str:
    """The command that explains the code, offline."""
    return f"sexpgpu docs {diagnostic.code.id}"


def _said(word: str, words: str) -> str:
    first, *more = words.split("\n")
    return "\n".join([f"  {word}: {first}", *(f"    {line}" for line in more)])


def _note(note: Note) -> str:
    if note.span is None:
        return visible(note.text)
    line = f"{note.span.source.name}:{note.span.line}"
    snippet, *more = note.span.text.strip().split("\n")
    snippet = snippet.rstrip()
    if more or len(snippet) > 60:
        snippet = snippet[:60].rstrip() + " …"
    return visible(f"{note.text}: {line}  {snippet}".rstrip())


def _placed(message: str, span: Span | None) -> dict[str, object]:
    if span is None:
        return {"message": message}
    return {"message": message, "file": span.source.name, "line": span.line}


def _range(span: Span | None) -> dict[str, object]:
    if span is None:
        return {"file": None, "line": None, "column": None, "end_line": None, "end_column": None}
    line, column = span.source.line_column(span.start)
    end_line, end_column = span.source.line_column(max(span.start, span.end))
    return {
        "file": span.source.name,
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
    }
