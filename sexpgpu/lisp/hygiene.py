"""Warnings about macros that mean another name than they say.

A name is *the macro's* where it stands in the text of its template, and *the caller's* where it
stands in the use, or came into the template by a comma. Two mistakes are told:

- the macro binds a name around a form of the caller's that means another variable of that name;
- the macro's text calls a global function that a local function around the use hides.

A name that means nothing at the use (the `it` of an anaphoric macro) is bound for the caller on
purpose. Macros of macrolet and of the standard modules are not looked at.
"""

from __future__ import annotations

from typing import Any

from sexpgpu.diagnostics.codes import lisp as codes
from sexpgpu.diagnostics.model import Code, Diagnostic, Label, Note
from sexpgpu.lisp.analyze import AT
from sexpgpu.lisp.scope import LocalFunction, Scope, Var
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import UNBOUND, Cons, SrcCons, Symbol, TemplateCons
from sexpgpu.source import Span


def in_use(cell: Any) -> bool:
    """Whether a cons was read as part of one of the macro uses around."""
    source, start, end = cell.place[:3]
    return any(
        use is not None and use.source is source and use.start <= start and end <= use.end
        for _, use in AT.expansions
    )


def is_macros(cell: Any) -> bool:
    """Whether the car of a cons is a name of a macro's text."""
    if type(cell) is TemplateCons:
        return cell.constant
    return type(cell) is SrcCons and not cell.place[0].standard and not in_use(cell)


def is_callers(cell: Any) -> bool:
    """Whether the car of a cons is a name that the macro was given."""
    if type(cell) is TemplateCons:
        return not cell.constant
    return type(cell) is SrcCons and in_use(cell)


class Written:
    """What is known of a variable that a macro's text binds: the macro, its place in the text, and
    what names meant around it."""

    __slots__ = ("macro", "scope", "span", "told")

    def __init__(self, cell: Any, scope: Scope) -> None:
        self.macro = AT.expansions[0][0]
        self.scope = scope
        self.told = False  # each variable is warned of once
        place = cell.place if type(cell) is SrcCons else None
        self.span = Span(place[0], place[1], place[2]) if place is not None else None


def names(cells: Any, scope: Scope) -> dict[Symbol, Written] | None:
    """Of a list of variables or bindings, those that a macro's text names."""
    found: dict[Symbol, Written] = {}
    while isinstance(cells, Cons):
        item = cells.car
        cell = item if isinstance(item, Cons) else cells
        if isinstance(cell.car, Symbol) and is_macros(cell):
            found[cell.car] = Written(cell, scope)
        cells = cells.cdr
    return found or None


def note_use(cell: Any, scope: Scope) -> None:
    """The car of a cons is used as a variable: warn when a macro's binding captures it."""
    name = cell.car
    if not isinstance(name, Symbol) or not is_callers(cell):
        return
    found = scope.variable(name)
    if type(found) is not Var or not isinstance(found.written, Written):
        return
    written = found.written
    if written.told:
        return
    meant = written.scope.variable(name)
    if meant is None and name.value is UNBOUND and name.symbol_macro is UNBOUND:
        return
    if type(meant) is Var and meant.written is not None:
        return
    written.told = True
    note = Note(f"{name.name} is bound in the text of the macro {written.macro}", written.span)
    _warn(
        codes.W_MACRO_001,
        f"the macro {written.macro} binds {name.name}, which hides the {name.name} of its use",
        cell,
        [note],
        f"bind a fresh symbol in the macro: (with-gensyms ({name.name}) …)",
    )


def note_call(form: Any, local: LocalFunction) -> None:
    """A local function is called: warn when the call stands in a macro's text, which means the
    global function."""
    head = form.car
    if local.written or (head.function is None and head.macro is None) or not is_macros(form):
        return
    macro = AT.expansions[0][0]
    text = f"the text of the macro {macro} calls {head.name}, which a local function hides here"
    _warn(codes.W_MACRO_002, text, None, [], f"give the local function {head.name} another name")


def _warn(code: Code, headline: str, cell: Any, notes: list[Note], fix: str) -> None:
    if STATE.session is None:
        return
    span = cell.car_span if type(cell) is SrcCons else None
    if span is None or span.source.standard:
        span = next((use for _, use in reversed(AT.expansions) if use is not None), None)
    STATE.session.warn(Diagnostic(code, headline, [Label(span)] if span else [], notes, fix))
