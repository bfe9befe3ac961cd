"""Setf methods: defsetf, define-setf-expander, get-setf-expansion, define-modify-macro."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.analyze import Tails, analyze, items_of, malformed, native, parts
from sexpgpu.lisp.definitions import definable, effect, installing
from sexpgpu.lisp.errors import program_error
from sexpgpu.lisp.evaluation import redefinable
from sexpgpu.lisp.journal import keep
from sexpgpu.lisp.lambda_lists import parse
from sexpgpu.lisp.macros import macro_function, macro_maker
from sexpgpu.lisp.nodes import Node
from sexpgpu.lisp.places import Expander, Place, expansion
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.scope import Scope
from sexpgpu.lisp.values import CL, MV, NIL, Function, String, Symbol, lisp_list, new_cons
from sexpgpu.reader.printer import brief


@native("defsetf")
def _defsetf(form: Any, scope: Scope, tails: Tails) -> Node:
    """Says how setf stores into (access …)."""
    cells = parts(form, 2, None, "(defsetf access update) or (defsetf access (…) (store) form…)")
    access = cells[0]
    if not isinstance(access, Symbol):
        raise malformed(f"{brief(access)} is not a name", form)
    redefinable(access)
    if isinstance(cells[1], Symbol) and cells[1] is not NIL:
        update = cells[1]

        def short(place: Any, inner: Scope) -> Place:
            arguments = items_of(place.cdr)
            variables = [Symbol("place") for _ in arguments]
            new = Symbol("new")
            store = new_cons(update, lisp_list([*variables, new]))
            return Place(variables, arguments, [new], store, new_cons(access, lisp_list(variables)))

        return effect(lambda: _install(access, short))
    if len(cells) < 3:
        raise malformed("malformed defsetf: the store variables are missing", form)
    stores = items_of(cells[2])

    def define(function: Function) -> Any:
        def long(place: Any, inner: Scope) -> Place:
            arguments = items_of(place.cdr)
            variables: list[Symbol] = []
            values: list[Any] = []
            stand: list[Any] = []
            for argument in arguments:
                if isinstance(argument, Symbol) and argument.constant:
                    stand.append(argument)  # a keyword keeps its meaning
                else:
                    temporary = Symbol("place")
                    variables.append(temporary)
                    values.append(argument)
                    stand.append(temporary)
            news = [Symbol("new") for _ in stores]
            call = lisp_list([access, lisp_list(news), lisp_list(stand)])
            store = function.call(call, inner)
            return Place(variables, values, news, store, new_cons(access, lisp_list(stand)))

        return _install(access, long)

    maker = macro_maker(access, lisp_list([cells[2], cells[1]]), form.cdr.cdr.cdr.cdr, scope, form)
    return installing(maker, scope, define)


def _install(access: Symbol, expand: Callable[[Any, Scope], Place]) -> Symbol:
    keep(access)
    access.setf = Expander(expand)
    return access


@native("define-setf-expander")
def _define_setf_expander(form: Any, scope: Scope, tails: Tails) -> Node:
    """Says, with five values, how places (access …) are read and stored."""
    cells = parts(form, 2, None, "(define-setf-expander access (parameter…) form…)")
    access = cells[0]
    if not isinstance(access, Symbol):
        raise malformed(f"{brief(access)} is not a name", form)
    redefinable(access)
    inner_name = Symbol(access.name)
    values_call = CL.own("multiple-value-list")
    block = new_cons(CL.own("block"), new_cons(access, form.cdr.cdr.cdr))
    maker = macro_maker(
        inner_name, cells[1], lisp_list([lisp_list([values_call, block])]), scope, form
    )

    def define(function: Function) -> Any:
        def expand(place: Any, inner: Scope) -> Place:
            found = items_of(function.call(place, inner))
            if len(found) != 5:
                raise program_error(f"the setf expander of {access.name} gives {len(found)} values")
            lists = [items_of(value) for value in found[:3]]
            return Place(lists[0], lists[1], lists[2], found[3], found[4])

        return _install(access, expand)

    return installing(maker, scope, define)


@builtin("get-setf-expansion", "(place &optional environment)")
def get_setf_expansion(place: Any, environment: Any = NIL) -> Any:
    """The five values of a place's setf expansion."""
    from sexpgpu.lisp.scope import environment_scope

    scope = environment_scope(environment)
    made = expansion(place, scope)
    return MV(
        (
            lisp_list(made.variables),
            lisp_list(made.values),
            lisp_list(made.stores),
            made.store,
            made.access,
        )
    )


@native("define-modify-macro")
def _define_modify_macro(form: Any, scope: Scope, tails: Tails) -> Node:
    """Defines a macro that changes a place by a function, as incf does by +."""
    cells = parts(form, 3, 4, "(define-modify-macro name (parameter…) function [doc])")
    name, lambda_list, function = cells[0], cells[1], cells[2]
    if not isinstance(name, Symbol):
        raise malformed(f"{brief(name)} is not a macro name", form)
    redefinable(name)
    parsed = parse(lambda_list, name.name)
    if parsed.keys is not None or parsed.aux:
        raise malformed("define-modify-macro takes &optional and &rest only", form)
    symbol = definable(name, "macro", form)
    # The macro gives (modify place function arguments…): the analyser of _MODIFY does the rest.
    names = [*parsed.required, *[item.target for item in parsed.optional]]
    quote = CL.own("quote")
    list_star = CL.own("list*")
    place_name = Symbol("place")
    body = lisp_list(
        [
            list_star,
            lisp_list([quote, _MODIFY]),
            place_name,
            lisp_list([quote, function]),
            *names,
            parsed.rest if parsed.rest is not None else NIL,
        ]
    )
    expander = macro_function(
        name, new_cons(place_name, lambda_list), lisp_list([body]), scope, form
    )
    if len(cells) == 4 and isinstance(cells[3], String):
        expander.doc = cells[3].text

    def define() -> Any:
        keep(symbol)
        symbol.macro = expander
        symbol.function = None
        return symbol

    return effect(define)


def _make_modify() -> Any:
    from sexpgpu.lisp.hostforms import Operator

    made = Operator("%modify")

    def run(form: Any, scope: Scope, tails: Tails) -> Node:
        place = form.cdr.car
        function = form.cdr.cdr.car
        given = items_of(form.cdr.cdr.cdr)
        place_made = expansion(place, scope)
        pairs = [
            lisp_list([v, e]) for v, e in zip(place_made.variables, place_made.values, strict=True)
        ]
        stand: list[Any] = []
        for argument in given:
            saved = Symbol("argument")
            pairs.append(lisp_list([saved, argument]))
            stand.append(saved)
        value = new_cons(function, new_cons(place_made.access, lisp_list(stand)))
        pairs.append(lisp_list([place_made.stores[0], value]))
        return analyze(lisp_list([CL.own("let*"), lisp_list(pairs), place_made.store]), scope)

    made.analyze = run
    return made


_MODIFY = _make_modify()
