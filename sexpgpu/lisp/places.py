"""Generalised places: setf and all that is built on it, with CL's order of evaluation.

A place has a setf expansion (CLHS 5.1.1): temporaries, their value forms, store variables, the
storing form and the access form. `setf` of a function place is compiled directly when it is simple.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.analyze import (
    SPECIAL,
    Tails,
    analyze,
    analyze_car,
    items_of,
    malformed,
    native,
    parts,
    site_here,
)
from sexpgpu.lisp.callnodes import Direct
from sexpgpu.lisp.calls import check_count
from sexpgpu.lisp.errors import undefined_function
from sexpgpu.lisp.macros import macroexpand_1
from sexpgpu.lisp.nodes import (
    Constant,
    Node,
    Run,
    progn,
    single,
)
from sexpgpu.lisp.scope import Frame, LocalFunction, Scope
from sexpgpu.lisp.special import set_variable
from sexpgpu.lisp.state import STATE, Site
from sexpgpu.lisp.values import (
    CL,
    NIL,
    Cons,
    Function,
    SrcCons,
    Symbol,
    T,
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


# ---------------------------------------------------------------- setf


@native("setf")
def _setf(whole: Any, scope: Scope, tails: Tails) -> Node:
    """Stores values in places, in order."""
    cells = parts(whole, 0, None, "(setf place value …)")
    if len(cells) % 2:
        raise malformed("setf takes places and values in pairs", whole)
    nodes: list[Node] = []
    at = whole.cdr
    while at is not NIL:
        nodes.append(_set_place(at.car, at.cdr, scope, whole))
        at = at.cdr.cdr
    return progn(nodes)


def _set_place(place_form: Any, value: Any, scope: Scope, whole: Any) -> Node:
    if isinstance(place_form, Symbol):
        return set_variable(place_form, value, scope, whole)
    if (
        isinstance(place_form, Cons)
        and isinstance(place_form.car, Symbol)
        and place_form.car not in PLACES
        and place_form.car not in SPECIAL
    ):
        head = place_form.car
        local = scope.function(("setf", head))
        if local is not None or (isinstance(head.setf, Function) and scope.function(head) is None):
            return _direct(place_form, value, scope, local)
    made = expansion(place_form, scope)
    return analyze(_store_form(made, value.car), scope)


def _new_last(target: Callable[..., Any], arguments: int) -> Callable[..., Any]:
    """A setf function that takes the new value last, where it is evaluated."""
    if arguments == 1:

        def one(a: Any, new: Any) -> Any:
            return target(new, a)

        return one

    def two(a: Any, b: Any, new: Any) -> Any:
        return target(new, a, b)

    return two


def _direct(place_form: Any, value: Any, scope: Scope, local: Any) -> Node:
    """The arguments, then the value, then the setf function: no temporaries."""
    head = place_form.car
    nodes: list[Node] = []
    cells = place_form.cdr
    while isinstance(cells, Cons):
        nodes.append(analyze_car(cells, scope))
        cells = cells.cdr
    nodes.append(analyze_car(value, scope))
    site = site_here()
    if local is not None:
        from sexpgpu.lisp.nodes import LocalRef

        local.var.touch(scope.level)
        reference = LocalRef(local.var)
    else:
        reference = None
    fixed = head.setf if head.module is CL else None
    if fixed is not None and fixed.minimum <= len(nodes) <= 3:
        high = fixed.maximum
        if len(nodes) > 1 and (high is None or len(nodes) <= high):
            return Direct(_new_last(fixed.call, len(nodes) - 1), nodes, site)
    return SetPlace(head, reference, nodes, site)


class SetPlace(Node):
    """A call of a setf function; the new value is evaluated last and goes first."""

    __slots__ = ("arguments", "local", "site", "symbol")

    def __init__(
        self, symbol: Symbol, local: Node | None, arguments: list[Node], site: Site
    ) -> None:
        self.symbol = symbol
        self.local = local
        self.arguments = arguments
        self.site = site

    def function(self) -> Function:
        """The setf function that the symbol has now."""
        found = self.symbol.setf
        if not isinstance(found, Function):
            raise undefined_function(form(SETF, self.symbol), self.site)
        return found

    def emit(self, frame: Frame) -> Run:
        runs = tuple(single(node, frame) for node in self.arguments)
        function_of = self.local.emit(frame) if self.local is not None else None
        global_function, site, count = self.function, self.site, len(runs)

        def run(env: Any) -> Any:
            values = [one(env) for one in runs]
            function = global_function() if function_of is None else function_of(env)
            STATE.site = site
            check_count(function, count)
            return function.call(values[-1], *values[:-1])

        return run


def _bind(made: Place, body: Any) -> Any:
    """The body inside the place's temporaries."""
    if not made.variables:
        return body
    pairs = [form(v, e) for v, e in zip(made.variables, made.values, strict=True)]
    return form(LET_STAR, lisp_list(pairs), body)


def _store_form(made: Place, value: Any) -> Any:
    if len(made.stores) == 1:
        body = form(LET, form(form(made.stores[0], value)), made.store)
    else:
        body = form(MVB, lisp_list(made.stores), value, made.store)
    return _bind(made, body)


@native("psetf")
def _psetf(whole: Any, scope: Scope, tails: Tails) -> Node:
    """Stores values in places in parallel: all values first."""
    cells = parts(whole, 0, None, "(psetf place value …)")
    if len(cells) % 2:
        raise malformed("psetf takes places and values in pairs", whole)
    places = [expansion(item, scope) for item in cells[::2]]
    body: Any = new_cons(PROGN, lisp_list([*[made.store for made in places], NIL]))
    for made, value in reversed(list(zip(places, cells[1::2], strict=True))):
        body = _bind(made, form(MVB, lisp_list(made.stores), value, body))
    return analyze(body, scope)


@native("rotatef")
def _rotatef(whole: Any, scope: Scope, tails: Tails) -> Node:
    """Moves the values of places one to the left, the first to the last."""
    cells = parts(whole, 0, None, "(rotatef place …)")
    if not cells:
        return Constant(NIL)
    places = [expansion(item, scope) for item in cells]
    result: Any = new_cons(PROGN, lisp_list([*[made.store for made in places], NIL]))
    # Nothing is stored before all is read: each place's stores get the next place's values, the
    # last one's those of the first.
    last = places[-1]
    result = form(MVB, lisp_list(last.stores), places[0].access, result)
    for before, after in zip(places[-2::-1], places[:0:-1], strict=True):
        result = _bind(after, form(MVB, lisp_list(before.stores), after.access, result))
    return analyze(_bind(places[0], result), scope)


@native("shiftf")
def _shiftf(whole: Any, scope: Scope, tails: Tails) -> Node:
    """Moves values one to the left, the new one into the last place; the old first value."""
    cells = parts(whole, 2, None, "(shiftf place … new)")
    places = [expansion(item, scope) for item in cells[:-1]]
    old = [Symbol("old") for _ in places[0].stores]
    new = cells[-1]
    stores = [made.store for made in places]
    body: Any = new_cons(PROGN, lisp_list([*stores, new_cons(VALUES, lisp_list(old))]))
    # bind: old <- first place; stores[i] <- place i+1; stores[last] <- new
    last = places[-1]
    result = form(MVB, lisp_list(last.stores), new, body)
    for index in range(len(places) - 1, 0, -1):
        made = places[index]
        target = places[index - 1]
        result = _bind(made, form(MVB, lisp_list(target.stores), made.access, result))
    result = _bind(places[0], form(MVB, lisp_list(old), places[0].access, result))
    return analyze(result, scope)


# ---------------------------------------------------------------- incf, push and kin


def modify(
    place_form: Any,
    scope: Scope,
    value: Callable[[Any], Any],
    before: list[tuple[Symbol, Any]] | None = None,
    after: list[tuple[Symbol, Any]] | None = None,
) -> Node:
    """Store what `value(access form)` gives. `before` and `after` are bindings evaluated before
    and after the place's subforms."""
    made = expansion(place_form, scope)
    pairs = [form(v, e) for v, e in before or ()]
    pairs += [form(v, e) for v, e in zip(made.variables, made.values, strict=True)]
    pairs += [form(v, e) for v, e in after or ()]
    inner: Any
    if len(made.stores) == 1:
        pairs.append(form(made.stores[0], value(made.access)))
        inner = made.store
    else:
        inner = form(MVB, lisp_list(made.stores), value(made.access), made.store)
    return analyze(form(LET_STAR, lisp_list(pairs), inner) if pairs else inner, scope)


def simple(place_form: Any, scope: Scope) -> bool:
    """Whether a place is a variable, no symbol macro."""
    return isinstance(place_form, Symbol) and not macroexpand_1(place_form, scope)[1]


def _step(whole: Any, scope: Scope, operator: str) -> Node:
    cells = parts(whole, 1, 2, f"({whole.car.name} place [delta])")
    place_form = cells[0]
    delta: Any = cells[1] if len(cells) == 2 else 1
    name = CL.own(operator)
    if simple(place_form, scope):
        value = form(name, place_form, delta)
        if type(whole) is SrcCons:
            value = SrcCons(name, value.cdr, whole.place)
        if isinstance(delta, Cons | Symbol):
            # the delta is evaluated before the variable is read
            saved = Symbol("delta")
            setting = form(SETQ, place_form, form(name, place_form, saved))
            return analyze(form(LET, form(form(saved, delta)), setting), scope)
        return set_variable(place_form, new_cons(value, NIL), scope, whole)
    if isinstance(delta, Cons | Symbol):
        saved = Symbol("delta")
        return modify(
            place_form, scope, lambda access: form(name, access, saved), None, [(saved, delta)]
        )
    return modify(place_form, scope, lambda access: form(name, access, delta))


@native("incf")
def _incf(whole: Any, scope: Scope, tails: Tails) -> Node:
    """Adds to the number in a place."""
    return _step(whole, scope, "+")


@native("decf")
def _decf(whole: Any, scope: Scope, tails: Tails) -> Node:
    """Subtracts from the number in a place."""
    return _step(whole, scope, "-")


@native("push")
def _push(whole: Any, scope: Scope, tails: Tails) -> Node:
    """Puts an item in front of the list in a place."""
    item, place_form = parts(whole, 2, 2, "(push item place)")
    cons = CL.own("cons")
    if simple(place_form, scope):
        return set_variable(place_form, new_cons(form(cons, item, place_form), NIL), scope, whole)
    saved = Symbol("item")
    return modify(place_form, scope, lambda access: form(cons, saved, access), [(saved, item)])


@native("pushnew")
def _pushnew(whole: Any, scope: Scope, tails: Tails) -> Node:
    """As push, unless the list has the item already."""
    cells = parts(whole, 2, None, "(pushnew item place [:key …] [:test …])")
    item, place_form, *keys = cells
    adjoin = CL.own("adjoin")
    saved = Symbol("item")
    kept: list[tuple[Symbol, Any]] = []
    shown: list[Any] = []
    for index, key in enumerate(keys):
        if index % 2 == 0 and isinstance(key, Symbol) and key.constant:
            shown.append(key)
        else:
            temporary = Symbol("key")
            kept.append((temporary, key))
            shown.append(temporary)
    return modify(
        place_form,
        scope,
        lambda access: form(adjoin, saved, access, *shown),
        [(saved, item)],
        kept,
    )


@native("pop")
def _pop(whole: Any, scope: Scope, tails: Tails) -> Node:
    """Takes the first element off the list in a place, and gives it."""
    (place_form,) = parts(whole, 1, 1, "(pop place)")
    made = expansion(place_form, scope)
    old = Symbol("list")
    pairs = [form(v, e) for v, e in zip(made.variables, made.values, strict=True)]
    pairs.append(form(old, made.access))
    pairs.append(form(made.stores[0], form(CL.own("cdr"), old)))
    body = form(LET_STAR, lisp_list(pairs), made.store, form(CL.own("car"), old))
    return analyze(body, scope)


@native("remf")
def _remf(whole: Any, scope: Scope, tails: Tails) -> Node:
    """Takes an indicator and its value out of the property list in a place."""
    place_form, indicator = parts(whole, 2, 2, "(remf place indicator)")
    made = expansion(place_form, scope)
    saved, found = Symbol("indicator"), Symbol("found")
    pairs = [form(v, e) for v, e in zip(made.variables, made.values, strict=True)]
    pairs.append(form(saved, indicator))
    body = form(
        MVB,
        form(made.stores[0], found),
        form(_REMOVE_PROPERTY, made.access, saved),
        made.store,
        found,
    )
    return analyze(form(LET_STAR, lisp_list(pairs), body), scope)


def _remove_property(plist: Any, indicator: Any) -> Any:
    from sexpgpu.lisp.builtins.lists import remove_property
    from sexpgpu.lisp.values import MV

    rest, found = remove_property(plist, indicator)
    return MV((rest, T if found else NIL))


_REMOVE_PROPERTY = Function("remf", _remove_property, 2, 2)


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


def _progn_place(name: str) -> None:
    """(if …), (progn …) are no places; this says so with a fix."""

    @place(name)
    def _(place_form: Any, scope: Scope) -> Place:
        raise malformed(f"{brief(place_form)} is not a place", place_form)


_progn_place("if")
_progn_place("progn")
