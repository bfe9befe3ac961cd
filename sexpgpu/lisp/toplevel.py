"""Evaluation of top-level forms: the subforms of progn and its kin are top-level forms too."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.analyze import (
    AT,
    SPECIAL,
    analyze,
    expand_once,
    is_checked,
    malformed,
    parts,
    run_node,
)
from sexpgpu.lisp.declarations import split_body
from sexpgpu.lisp.functions import macrolet_scope
from sexpgpu.lisp.scope import (
    LocalFunction,
    LocalMacro,
    Scope,
    null_scope,
)
from sexpgpu.lisp.special import (
    declared_scope,
    is_now,
    symbol_macrolet_scope,
)
from sexpgpu.lisp.state import STATE, limit
from sexpgpu.lisp.values import (
    CL,
    NIL,
    Cons,
    SrcCons,
    Symbol,
)
from sexpgpu.source import Span

# ---------------------------------------------------------------- top level

_PROGN = CL.own("progn")
_EVAL_WHEN = CL.own("eval-when")
_LOCALLY = CL.own("locally")
_MACROLET = CL.own("macrolet")
_SYMBOL_MACROLET = CL.own("symbol-macrolet")


def evaluate_top_level(form: Any, scope: Scope | None = None, place: Any = None) -> Any:
    """Evaluate a top-level form; the subforms of progn and its kin are top-level forms too.
    `place`: that of an atom, which does not know it."""
    if scope is None:
        scope = null_scope()
    saved_place, saved_expansions, saved_depth = AT.place, AT.expansions, AT.depth
    saved_checks = AT.checks
    if scope.parent is None:
        AT.expansions, AT.checks = (), False
    if place is not None:
        AT.place = place
    try:
        while isinstance(form, Cons) and type(form.car) is Symbol:
            if type(form) is SrcCons:
                AT.place = form.place
            head = form.car
            if head is _PROGN:
                return _evaluate_each(form.cdr, scope)
            if head is _EVAL_WHEN:
                cells = parts(form, 1, None, "(eval-when (situation…) form…)")
                return _evaluate_each(form.cdr.cdr, scope) if is_now(cells[0], form) else NIL
            if head is _LOCALLY:
                forms, specials, _ = split_body(form.cdr, False)
                return _evaluate_each(forms, declared_scope(scope, specials))
            if head is _MACROLET or head is _SYMBOL_MACROLET:
                parts(form, 1, None, f"({head.name} (definition…) form…)")
                make = macrolet_scope if head is _MACROLET else symbol_macrolet_scope
                forms, specials, _ = split_body(form.cdr.cdr, False)
                inner = declared_scope(make(form, scope), specials)
                inner.top_level = True
                return _evaluate_each(forms, inner)
            local = scope.function(head)
            macro = local.function if type(local) is LocalMacro else head.macro
            if macro is None or head in SPECIAL or type(local) is LocalFunction:
                break
            from sexpgpu.lisp.analyze import NATIVE

            if head in NATIVE:
                break
            place = AT.place
            expansion = expand_once(form, macro, scope)
            use = Span(place[0], place[1], place[2]) if place is not None else None
            AT.expansions = ((head.name, use), *AT.expansions)
            AT.checks = is_checked(form, macro)
            AT.depth += 1
            if AT.depth > STATE.limits.expansions:
                raise limit("expansion", STATE.limits.expansions)
            form = expansion
        return run_node(analyze(form, scope))
    finally:
        AT.place, AT.expansions, AT.depth = saved_place, saved_expansions, saved_depth
        AT.checks = saved_checks


def _evaluate_each(cells: Any, scope: Scope) -> Any:
    result: Any = NIL
    expansions, place = AT.expansions, AT.place
    while isinstance(cells, Cons):
        AT.expansions, AT.place = expansions, place
        if expansions:
            result = _evaluate_inside(cells.car, scope)
        else:
            result = evaluate_top_level(cells.car, scope)
        cells = cells.cdr
    if cells is not NIL:
        raise malformed("a body is a dotted list")
    return result


def _evaluate_inside(form: Any, scope: Scope) -> Any:
    """A top-level form inside an expansion: the expansions around it stay known."""
    inner = Scope(scope, scope.level, True)
    return evaluate_top_level(form, inner)
