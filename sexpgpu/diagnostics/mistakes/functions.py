"""Calls of functions that do not exist."""

from __future__ import annotations

import re

from sexpgpu.diagnostics.mistakes.mend import (
    NAME,
    Mend,
    before,
    operator,
)
from sexpgpu.diagnostics.model import Diagnostic
from sexpgpu.source import Span

CERTAIN = frozenset(
    ("call", "def", "len", "==", "!=", "**", "%", "+=", "-=", "@", "&&", "null?", "zero?", "begin")
)
"""Names of other languages for which the proposed name takes the same arguments."""


def call_behind_name(found: Diagnostic, span: Span) -> Mend | None:
    match = before(span, NAME)
    if match is None:
        return None
    name = match.group()
    if name.endswith(("'", "#", ",", "@", "`")) or name.startswith("#"):
        return None
    inner = span.text[1:-1].strip()
    ours = f"({name} {inner})" if inner else f"({name})"
    told = (
        f"the operator stands inside the parentheses: {ours if len(ours) < 50 else f'({name} …)'}"
    )
    place = (span.start - len(name), span.end)
    return Mend(told, (*place, ours), place=place)


def dotted(found: Diagnostic, span: Span) -> Mend | None:
    start, end, name = operator(span)
    alias, dot, inner = name.partition(".")
    if not dot or not re.search(rf":as\s+{re.escape(alias)}\b", span.source.text):
        return None
    ours = f"{alias}:{inner.replace('_', '-')}"
    return Mend(f"write {ours}", (start, end, ours), safe=True)


def scheme_define(found: Diagnostic, span: Span) -> Mend | None:
    match = re.match(rf"\(\s*define\s+\(({NAME})\s*([^()]*)\)", span.text)
    if match is None:
        return None
    ours = f"(defun {match[1]} ({match[2].strip()})"
    return Mend(f"write {ours} …)", (span.start, span.start + match.end(), ours), safe=True)


def for_loop(found: Diagnostic, span: Span) -> Mend | None:
    match = re.match(rf"\(\s*for\s+({NAME})\s+in\s+", span.text)
    if match is None:
        return None
    return Mend(f"write (dolist ({match[1]} list) …), or (dotimes ({match[1]} n) …)")


def variable_called(found: Diagnostic, span: Span) -> Mend | None:
    start, _, name = operator(span)
    if f"{name} is a variable here" not in (found.fix or "") or span.text == f"({name})":
        return None
    return Mend(found.fix or "", (start, start, "funcall "), safe=True)


def other_name(found: Diagnostic, span: Span) -> Mend | None:
    match = re.fullmatch(r"write (\S+)", found.fix or "")
    start, end, name = operator(span)
    if match is None or not name:
        return None
    certain = name.lower() in CERTAIN or match[1].endswith(f":{name.lower()}")
    return Mend(found.fix or "", (start, end, match[1]), safe=certain)
