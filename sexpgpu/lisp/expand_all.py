"""macroexpand-all: a form with the macro calls in it expanded, wherever the analyser finds one.

The analyser itself walks the form, so that local macros, shadowing and quoted data are seen as
they are compiled; each expansion it makes is recorded by the identity of the call. CL's own macros
and the forms that are written in Python stay as they are (only what stands in them is expanded):
their expansions are not written in the language.
"""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.analyze import AT, analyze, check_finite
from sexpgpu.lisp.hostforms import HOST_MACROS
from sexpgpu.lisp.journal import Journal, activate
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.scope import environment_scope
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import CL, NIL, PRELUDE, Cons, Symbol, new_cons


@builtin("macroexpand-all", "(form &optional environment)", layer=PRELUDE, chapter="macros")
def macroexpand_all(form: Any, environment: Any = NIL) -> Any:
    """FORM with every macro call in it expanded; CL's own macros stay."""
    check_finite(form)
    scope = environment_scope(environment)
    made: dict[int, Any] = {}
    outer_record, AT.record = AT.record, made
    session, STATE.session = STATE.session, None  # nothing is defined, no call is noted
    journal = Journal()
    outer = activate(journal)
    try:
        analyze(form, scope)
    finally:
        journal.swap()
        activate(outer)
        STATE.session = session
        AT.record = outer_record
    return _substitute(form, {key: entry for key, entry in made.items() if _is_ours(entry[0])})


def _is_ours(call: Any) -> bool:
    """Whether the macro of a call is written in the language."""
    head = call.car
    return isinstance(head, Symbol) and head.module is not CL and head.name not in HOST_MACROS


def _substitute(form: Any, made: dict[int, Any]) -> Any:
    """The form with the calls replaced that are in the table, inside expansions too."""
    while isinstance(form, Cons) and id(form) in made:
        STATE.charge(1)
        form = made[id(form)][1]
    if not isinstance(form, Cons):
        return form
    cells: list[Cons] = []
    at: Any = form
    while isinstance(at, Cons) and (at is form or id(at) not in made):
        cells.append(at)
        at = at.cdr
    STATE.charge(len(cells))
    result = _substitute(at, made) if isinstance(at, Cons) else at
    for cell in reversed(cells):
        item = _substitute(cell.car, made)
        result = cell if item is cell.car and result is cell.cdr else new_cons(item, result)
    return result
