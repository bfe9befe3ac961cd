"""Directives that lay text out: ~% ~& ~| ~~ ~t, the case of ~( ~) and the field of ~< ~>."""

from __future__ import annotations

from sexpgpu.lisp.builtins.strings import capitalize, downcase, upcase
from sexpgpu.lisp.format.parse import Directive
from sexpgpu.lisp.format.run import Run, does
from sexpgpu.lisp.state import STATE


@does("%")
def _newlines(run: Run, directive: Directive) -> None:
    """~%"""
    run.out.write("\n" * run.count(directive))


@does("&")
def _fresh_line(run: Run, directive: Directive) -> None:
    """~&"""
    count = run.count(directive)
    if count:
        run.out.write("\n" * (count - (run.out.column == 0)))


@does("|")
def _pages(run: Run, directive: Directive) -> None:
    """~|"""
    run.out.write("\f" * run.count(directive))


@does("~")
def _tildes(run: Run, directive: Directive) -> None:
    """~~"""
    run.out.write("~" * run.count(directive))


@does("t")
def _tabulate(run: Run, directive: Directive) -> None:
    """~t"""
    if directive.colon:
        raise run.error("pretty printing (~:t) is not here", directive)
    first, step = run.parameters(directive, 1, 1)
    column = run.out.column
    if directive.at:
        count = first
        if step > 0:
            count += -(column + first) % step
    elif column < first:
        count = first - column
    else:
        count = step - (column - first) % step if step > 0 else 0
    STATE.charge_memory(max(count, 0))
    STATE.charge(max(count, 0) // 8)
    run.out.write(" " * count)


@does("(")
def _case(run: Run, directive: Directive) -> None:
    """~( ~)"""
    text, leave = run.captured(directive.clauses[0])
    if directive.colon and directive.at:
        text = upcase(text)
    elif directive.colon:
        text = capitalize(text)
    elif directive.at:
        text = downcase(text)
        first = next((i for i, letter in enumerate(text) if letter.isalnum()), len(text))
        text = text[:first] + upcase(text[first : first + 1]) + text[first + 1 :]
    else:
        text = downcase(text)
    run.out.write(text)
    if leave is not None:
        raise leave


@does("<")
def _justify(run: Run, directive: Directive) -> None:
    """~< ~>: segments spread over a field."""
    width, step, least, pad = run.parameters(directive, 0, 1, 0, " ")
    segments: list[str] = []
    prefix: str | None = None
    spare, line = 0, 72
    clauses = directive.clauses
    separators = directive.separators
    for index, clause in enumerate(clauses):
        text, leave = run.captured(clause)
        if leave is not None:
            break
        if index == 0 and separators and separators[0].colon:
            spare, line = run.parameters(separators[0], 0, 72)
            prefix = text
        else:
            segments.append(text)
    text = _spread(segments, width, max(step, 1), least, pad, directive.colon, directive.at)
    if prefix is not None and run.out.column + len(text) + spare > line:
        run.out.write(prefix)
    run.out.write(text)


def _spread(
    segments: list[str], width: int, step: int, least: int, pad: str, before: bool, after: bool
) -> str:
    """The segments with padding between them, and before and after where asked."""
    if not segments:
        segments = [""]
    gaps = len(segments) - 1 + before + after
    lone = gaps == 0
    if lone:
        gaps = 1
        before = True
    length = sum(len(segment) for segment in segments)
    total = length + least * gaps
    if total > width:
        total = width + -(-(total - width) // step) * step
    total = max(total, width)
    STATE.charge_memory(total)
    STATE.charge(total // 8)
    missing = total - length
    sizes = [missing * (i + 1) // gaps - missing * i // gaps for i in range(gaps)]
    parts: list[str] = []
    if before:
        parts.append(pad * sizes.pop(0))
    for index, segment in enumerate(segments):
        if index:
            parts.append(pad * sizes.pop(0))
        parts.append(segment)
    if after:
        parts.append(pad * sizes.pop(0))
    return "".join(parts)
