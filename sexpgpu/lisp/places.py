"""Generalised places: what a place form stands for.

A place has a setf expansion (CLHS 5.1.1): temporaries, their value forms, store variables, the
storing form and the access form. Those of functions are made alike; getf, the, values, apply and
the byte functions have their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.analyze import (
    SPECIAL,
    items_of,
    malformed,
    parts,
)
from sexpgpu.lisp.macros import macroexpand_1
from sexpgpu.lisp.scope import LocalFunction, Scope
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import (
    CL,
    NIL,
    Cons,
    Function,
    Symbol,
    lisp_list,
    new_cons,
)
from sexpgpu.reader.printer import brief

LET_STAR = CL.own("let*")
LET = CL.own("let")
SETQ = CL.own("setq")
SETF = CL.own("setf")
PROGN = CL.own("progn")
VALUES = CL.own("values")
QUOTE = CL.own("quote")
FUNCTION = CL.own("function")
FUNCALL = CL.own("funcall")
MVB = CL.own("multiple-value-bind")


def form(*items: Any) -> Any:
    """A list form."""
    return lisp_list(items)


class Place:
    """A setf expansion."""

    __slots__ = ("access", "store", "stores", "values", "variables")

    def __init__(
        self,
        variables: list[Symbol],
        values: list[Any],
        stores: list[Symbol],
        store: Any,
        access: Any,
    ) -> None:
        self.variables = variables
        self.values = values
        self.stores = stores
        self.store = store
        self.access = access


class Expander:
    """What defsetf and define-setf-expander put in a symbol's setf slot."""

    __slots__ = ("expand",)

    def __init__(self, expand: Callable[[Any, Scope], Place]) -> None:
        self.expand = expand


PLACES: dict[Symbol, Callable[[Any, Scope], Place]] = {}  # the places that are not functions


def place(name: str) -> Callable[[Callable[[Any, Scope], Place]], Callable[[Any, Scope], Place]]:
    """Declare the expansion of a place form."""

    def declare(expand: Callable[[Any, Scope], Place]) -> Callable[[Any, Scope], Place]:
        PLACES[CL.own(name)] = expand
        return expand

    return declare


def expansion(place_form: Any, scope: Scope) -> Place:
    """The setf expansion of a place."""
    written = place_form
    for _ in range(STATE.limits.expansions):
        if isinstance(place_form, Symbol):
            expanded, more = macroexpand_1(place_form, scope)
            if more:
                place_form = expanded
                continue
            new = Symbol("new")
            return Place([], [], [new], form(SETQ, place_form, new), place_form)
        if not isinstance(place_form, Cons) or not isinstance(place_form.car, Symbol):
            raise malformed(f"{brief(place_form)} is not a place", place_form)
        head = place_form.car
        local = scope.function(head)
        local_setter = scope.function(("setf", head))
        if local is None and local_setter is None:
            special = PLACES.get(head)
            if special is not None:
                return special(place_form, scope)
            if isinstance(head.setf, Expander):
                return head.setf.expand(place_form, scope)
        if (
            local_setter is None
            and (local is None or not isinstance(local, LocalFunction))
            and not isinstance(head.setf, Function)
        ):
            expanded, more = macroexpand_1(place_form, scope)
            if more:
                place_form = expanded
                continue
        if head in SPECIAL:
            told = f"{brief(written)} is not a place"
            if written is not place_form:
                told += f": it stands for {brief(place_form)}"
            raise malformed(told, place_form)
        return _function_place(place_form)
    raise malformed(f"{brief(place_form)} is not a place", place_form)


def _temporaries(cells: Any) -> tuple[list[Symbol], list[Any], list[Any]]:
    """(temporaries, their value forms, what stands for each argument): constants stay."""
    variables: list[Symbol] = []
    values: list[Any] = []
    stand: list[Any] = []
    for item in items_of(cells):
        if isinstance(item, Symbol | Cons) and not _constant(item):
            temporary = Symbol("place")
            variables.append(temporary)
            values.append(item)
            stand.append(temporary)
        else:
            stand.append(item)
    return variables, values, stand


def _constant(item: Any) -> bool:
    if isinstance(item, Symbol):
        return item.constant
    return isinstance(item, Cons) and item.car is QUOTE


def _function_place(place_form: Any) -> Place:
    head = place_form.car
    variables, values, stand = _temporaries(place_form.cdr)
    new = Symbol("new")
    name = form(SETF, head)
    store = form(FUNCALL, form(FUNCTION, name), new, *stand)
    return Place(variables, values, [new], store, new_cons(head, lisp_list(stand)))


# ---------------------------------------------------------------- places of their own kind


@place("getf")
def _getf_place(place_form: Any, scope: Scope) -> Place:
    cells = items_of(place_form.cdr)
    if not 2 <= len(cells) <= 3:
        raise malformed("malformed place: write (getf place indicator [default])", place_form)
    inner = expansion(cells[0], scope)
    indicator, new = Symbol("indicator"), Symbol("new")
    variables = [*inner.variables, indicator]
    values = [*inner.values, cells[1]]
    default: list[Any] = []
    if len(cells) == 3:
        saved = Symbol("default")
        variables.append(saved)
        values.append(cells[2])
        default = [saved]
    store = form(
        LET,
        form(form(inner.stores[0], form(_PUT_PROPERTY, inner.access, indicator, new))),
        inner.store,
        new,
    )
    access = form(CL.own("getf"), inner.access, indicator, *default)
    return Place(variables, values, [new], store, access)


def _put_property(plist: Any, indicator: Any, value: Any) -> Any:
    from sexpgpu.lisp.builtins.lists import put_property

    return put_property(plist, indicator, value)


_PUT_PROPERTY = Function("putf", _put_property, 3, 3)


@place("the")
def _the_place(place_form: Any, scope: Scope) -> Place:
    kind, inner_form = parts(place_form, 2, 2, "(the type place)")
    inner = expansion(inner_form, scope)
    return Place(
        inner.variables,
        inner.values,
        inner.stores,
        inner.store,
        form(place_form.car, kind, inner.access),
    )


@place("values")
def _values_place(place_form: Any, scope: Scope) -> Place:
    inner = [expansion(item, scope) for item in items_of(place_form.cdr)]
    variables = [v for made in inner for v in made.variables]
    values = [e for made in inner for e in made.values]
    stores = [Symbol("new") for _ in inner]
    setting: list[Any] = []
    for made, new in zip(inner, stores, strict=True):
        extra = [form(v, NIL) for v in made.stores[1:]]
        setting.append(form(LET, lisp_list([form(made.stores[0], new), *extra]), made.store))
    store = new_cons(VALUES, lisp_list(setting))
    access = new_cons(VALUES, lisp_list([made.access for made in inner]))
    return Place(variables, values, stores, store, access)


@place("apply")
def _apply_place(place_form: Any, scope: Scope) -> Place:
    cells = parts(place_form, 2, None, "(apply #'function argument… list)")
    head = cells[0]
    if (
        not isinstance(head, Cons)
        or head.car not in (FUNCTION, QUOTE)
        or not isinstance(head.cdr.car, Symbol)
    ):
        raise malformed("a place (apply …) names its function: (apply #'aref …)", place_form)
    variables, values, stand = _temporaries(lisp_list(cells[1:]))
    new = Symbol("new")
    setter = form(FUNCTION, form(SETF, head.cdr.car))
    return Place(
        variables,
        values,
        [new],
        form(CL.own("apply"), setter, new, *stand),
        form(CL.own("apply"), head, *stand),
    )


def _byte_place(name: str, deposit: str) -> None:
    @place(name)
    def _(place_form: Any, scope: Scope) -> Place:
        byte, inner_form = parts(place_form, 2, 2, f"({name} byte place)")
        inner = expansion(inner_form, scope)
        saved, new = Symbol("byte"), Symbol("new")
        store = form(
            LET,
            form(form(inner.stores[0], form(CL.own(deposit), new, saved, inner.access))),
            inner.store,
            new,
        )
        return Place(
            [saved, *inner.variables],
            [byte, *inner.values],
            [new],
            store,
            form(CL.own(name), saved, inner.access),
        )


_byte_place("ldb", "dpb")
_byte_place("mask-field", "deposit-field")
