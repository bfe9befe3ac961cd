"""Macros: functions from forms to forms, expansion, and the backquote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.analyze import (
    AT,
    NATIVE,
    SPECIAL,
    Tails,
    analyze,
    analyze_car,
    expand_once,
    malformed,
    parts,
    site_here,
    special,
)
from sexpgpu.lisp.builtins.designators import list_items
from sexpgpu.lisp.callnodes import evaluate_arguments
from sexpgpu.lisp.control_forms import block_body
from sexpgpu.lisp.declarations import split_body
from sexpgpu.lisp.nodes import (
    Constant,
    Custom,
    Node,
    Run,
    single,
)
from sexpgpu.lisp.patterns import Pattern, pattern, store
from sexpgpu.lisp.scope import Frame, Level, LocalMacro, Scope, SymbolMacro, environment_scope
from sexpgpu.lisp.state import STATE, limit
from sexpgpu.lisp.values import (
    CL,
    NIL,
    UNBOUND,
    Cons,
    Function,
    SrcCons,
    Symbol,
    TemplateCons,
    Vector,
    new_cons,
)
from sexpgpu.source import Span

Expander = Callable[[Any], Function]  # of the frame at run time (None: there is none)


def macro_function(name: Symbol, lambda_list: Any, forms: Any, scope: Scope, form: Any) -> Function:
    """The expander of a macro of macrolet or at top level: a function of the form and the
    environment. It sees no run-time variables around it, which have no values yet."""
    return macro_maker(name, lambda_list, forms, scope, form)(None)(None)


def macro_maker(
    name: Symbol, lambda_list: Any, forms: Any, scope: Scope, form: Any
) -> Callable[[Frame | None], Expander]:
    """The expander of a macro definition, analysed: given the layout of the frame around it, and
    then that frame, it is the expander, which sees the variables there."""
    level = Level(scope.level)
    forms, specials, doc = split_body(forms, True)
    saved, AT.templates = AT.templates, AT.place is not None and not AT.place[0].standard
    try:
        made = pattern(lambda_list, name.name, Scope(scope, level), specials)
        body = made.wrap(block_body(name, forms, made.scope))
    finally:
        AT.templates = saved
    place = form.place if type(form) is SrcCons else AT.place
    origin = Span(place[0], place[1], place[2]) if place is not None else None

    # The whole form, where the rest of the pattern is for its cdr.
    whole, made.whole = made.whole, None

    def emit(outer: Frame | None) -> Expander:
        caller = _emit_expander(made, whole, body, outer)
        return lambda env: Function(name.name, caller(env), 2, 2, lambda_list, doc, origin)

    return emit


def _emit_expander(
    made: Pattern, whole: Any, body: Node, outer: Frame | None
) -> Callable[[Any], Any]:
    frame = Frame(outer)
    environment = made.environment.place(frame) if made.environment is not None else 0
    store_whole = store(whole, frame) if whole is not None else None
    bind = made.emit(frame)
    run = single(body, frame)
    padding = (None,) * (frame.size - 1)
    state, stack = STATE, STATE.stack

    def caller(parent: Any) -> Any:
        def call(form: Any, env: Any) -> Any:
            stack.append(state.site)
            try:
                state.fuel = fuel = state.fuel - 1
                if fuel < 0:
                    state.refuel()
                slots = [parent, *padding]
                if environment:
                    slots[environment] = env
                if store_whole is not None:
                    store_whole(slots, form)
                bind(slots, form.cdr if isinstance(form, Cons) else form)
                return run(slots)
            finally:
                state.site = stack.pop()

        return call

    return caller


# ---------------------------------------------------------------- expansion


def macroexpand_1(form: Any, scope: Any) -> tuple[Any, bool]:
    """(expansion, whether there was one)."""
    scope = environment_scope(scope)
    if isinstance(form, Symbol):
        found = scope.variable(form)
        if type(found) is SymbolMacro:
            return found.expansion, True
        if found is None and form.symbol_macro is not UNBOUND:
            return form.symbol_macro, True
        return form, False
    if not isinstance(form, Cons) or not isinstance(form.car, Symbol):
        return form, False
    head = form.car
    local = scope.function(head)
    if local is not None:
        if type(local) is LocalMacro:
            return expand_once(form, local.function, scope), True
        return form, False
    if head.macro is None or (head in SPECIAL and head.name != "lambda"):
        return form, False
    return expand_once(form, head.macro, scope), True


def macroexpand(form: Any, scope: Any = NIL) -> tuple[Any, bool]:
    """(expansion, whether there was one), until the form is no macro call."""
    expanded = False
    count = 0
    while True:
        form, more = macroexpand_1(form, scope)
        if not more:
            return form, expanded
        expanded = True
        count += 1
        if count > STATE.limits.expansions:
            raise limit("expansion", STATE.limits.expansions)


def is_native(name: Symbol) -> bool:
    """Whether the symbol names a macro that the analyser knows."""
    return name in NATIVE


# ---------------------------------------------------------------- backquote

_QUASIQUOTE = CL.own("quasiquote")
_UNQUOTE = CL.own("unquote")
_SPLICE = CL.own("unquote-splicing")


@special("quasiquote")
def _quasiquote(form: Any, scope: Scope, tails: Tails) -> Node:
    """A template: what stands after a comma is evaluated."""
    parts(form, 1, 1, "`form")
    return _template(form.cdr.car, 1, scope, form.cdr)


def _has_unquote(form: Any) -> bool:
    """Whether a template has an unquote anywhere."""
    work = [form]
    while work:
        at = work.pop()
        if isinstance(at, Vector):
            work.extend(at.items)
        while isinstance(at, Cons):
            head = at.car
            if head is _UNQUOTE or head is _SPLICE:
                return True
            if isinstance(head, Cons | Vector):
                work.append(head)
            at = at.cdr
            if isinstance(at, Vector):
                work.append(at)
    return False


def _template(form: Any, depth: int, scope: Scope, cell: Any = None) -> Node:
    """The node that builds a template's value."""
    if isinstance(form, Vector):
        if not _has_unquote(form):
            return Constant(form)
        from sexpgpu.lisp.values import lisp_list

        return _vector(_template(lisp_list(form.items), depth, scope))
    if not isinstance(form, Cons) or not _has_unquote(form):
        return Constant(form)
    saved = AT.place
    if type(form) is SrcCons:
        AT.place = form.place
    try:
        return _list_template(form, depth, scope)
    finally:
        AT.place = saved


def _list_template(form: Any, depth: int, scope: Scope) -> Node:
    head = form.car
    if head is _UNQUOTE:
        if depth == 1:
            if not isinstance(form.cdr, Cons):
                raise malformed("malformed comma", form)
            return analyze_car(form.cdr, scope)
        return _build([(_template(form.cdr.car, depth - 1, scope), False)], Constant(NIL), head)
    if head is _SPLICE and depth == 1:
        raise malformed(",@ must stand inside a list", form)
    if head is _QUASIQUOTE:
        return _build([(_template(form.cdr.car, depth + 1, scope), False)], Constant(NIL), head)
    elements: list[tuple[Node, bool]] = []
    at: Any = form
    tail: Node = Constant(NIL)
    while isinstance(at, Cons):
        item = at.car
        if at is not form and item in (_UNQUOTE, _SPLICE, _QUASIQUOTE):
            tail = _template(at, depth, scope)  # (a . ,b)
            break
        if isinstance(item, Cons) and item.car is _SPLICE:
            if depth == 1:
                elements.append((analyze_car(item.cdr, scope), True))
            else:
                inner = item.cdr.car
                nested = isinstance(inner, Cons) and inner.car is _SPLICE and depth == 2
                if nested:
                    elements.append((_spread(analyze(inner.cdr.car, scope), _SPLICE), True))
                else:
                    elements.append(
                        (
                            _build(
                                [(_template(inner, depth - 1, scope), False)],
                                Constant(NIL),
                                _SPLICE,
                            ),
                            False,
                        )
                    )
        elif (
            isinstance(item, Cons)
            and item.car is _UNQUOTE
            and depth == 2
            and isinstance(item.cdr.car, Cons)
            and item.cdr.car.car is _SPLICE
        ):
            elements.append((_spread(analyze(item.cdr.car.cdr.car, scope), _UNQUOTE), True))
        else:
            elements.append((_template(item, depth, scope), False))
        at = at.cdr
        if not _has_unquote(at):
            tail = Constant(at)
            break
    return _build(elements, tail, None)


def _spread(node: Node, mark: Symbol) -> Node:
    """`,,@x`: each value of x under its own comma."""

    def make(frame: Frame) -> Run:
        run = single(node, frame)

        def spread(env: Any) -> Any:
            value = run(env)
            result: Any = NIL
            for item in reversed(list(value) if isinstance(value, Cons) else []):
                result = new_cons(new_cons(mark, new_cons(item, NIL)), result)
            return result

        return spread

    return Custom(make, False)


def _build(elements: list[tuple[Node, bool]], tail: Node, head: Symbol | None) -> Node:
    """The node of a list of elements (spliced where true) and a tail, `head` in front."""
    site = site_here()
    names = [type(node) is Constant and type(node.value) is Symbol for node, _ in elements]
    in_macro = AT.templates and head is None

    def make(frame: Frame) -> Run:
        runs = tuple(node.emit(frame) for node, _ in elements)
        splices = tuple(splice for _, splice in elements)
        tail_of = single(tail, frame)
        plain = not any(splices)

        def build(env: Any) -> Any:
            values = evaluate_arguments(runs, env)
            result = tail_of(env)
            if plain and in_macro:
                for value, constant in zip(reversed(values), reversed(names), strict=True):
                    result = TemplateCons(value, result, constant)
            elif plain:
                for value in reversed(values):
                    result = new_cons(value, result)
            else:
                last = result is NIL
                for value, splice, constant in zip(
                    reversed(values), reversed(splices), reversed(names), strict=True
                ):
                    if not splice:
                        cell = TemplateCons(value, result, constant) if in_macro else None
                        result = cell or new_cons(value, result)
                    elif last:
                        result = value  # the last part is shared, and may be an atom
                    else:
                        STATE.site = site
                        items = list_items(value)
                        STATE.charge(len(items) >> 3)
                        for item in reversed(items):
                            result = new_cons(item, result)
                    last = False
            return result if head is None else new_cons(head, result)

        return build

    return Custom(make, False)


def _vector(node: Node) -> Node:
    def make(frame: Frame) -> Run:
        run = single(node, frame)

        def build(env: Any) -> Any:
            value = run(env)
            return Vector(list(value) if isinstance(value, Cons) else [])

        return build

    return Custom(make, False)
