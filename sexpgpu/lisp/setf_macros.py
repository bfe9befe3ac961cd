"""setf and the macros built on it, with CL's order of evaluation.

`setf` of a function place is compiled directly when it is simple; all else goes through the place's
expansion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.analyze import (
    SPECIAL,
    Tails,
    analyze,
    analyze_car,
    arguments,
    malformed,
    native,
    parts,
    site_here,
)
from sexpgpu.lisp.callnodes import emit_direct
from sexpgpu.lisp.calls import check_count
from sexpgpu.lisp.errors import undefined_function
from sexpgpu.lisp.macros import macroexpand_1
from sexpgpu.lisp.nodes import Constant, Node, Run, progn, single
from sexpgpu.lisp.places import (
    LET,
    PLACES,
    SETF,
    SETQ,
    VALUES,
    Place,
    expansion,
    form,
)
from sexpgpu.lisp.scope import Frame, Scope
from sexpgpu.lisp.special import set_variable
from sexpgpu.lisp.state import STATE, Site
from sexpgpu.lisp.values import (
    CL,
    MV,
    NIL,
    Cons,
    Function,
    SrcCons,
    Symbol,
    T,
    lisp_list,
    new_cons,
)
from sexpgpu.lisp.variable_nodes import LocalRef

LET_STAR = CL.own("let*")
PROGN = CL.own("progn")
MVB = CL.own("multiple-value-bind")

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
    nodes = [*arguments(place_form.cdr, scope, place_form), analyze_car(value, scope)]
    site = site_here()
    if local is not None:
        local.var.touch(scope.level)
        reference = LocalRef(local.var)
    else:
        reference = None
    fixed = head.setf if head.module is CL else None
    if fixed is not None and fixed.minimum <= len(nodes) <= 3:
        high = fixed.maximum
        if len(nodes) > 1 and (high is None or len(nodes) <= high):
            return SetFixed(fixed, nodes, site)
    return SetPlace(head, reference, nodes, site)


class SetFixed(Node):
    """A call of a setf function of CL's own; the new value is evaluated last and goes first."""

    __slots__ = ("arguments", "function", "site")

    def __init__(self, function: Function, arguments: list[Node], site: Site) -> None:
        self.function = function
        self.arguments = arguments
        self.site = site

    def target(self) -> Callable[..., Any]:
        """What is called with the arguments in the order of their evaluation."""
        return _new_last(self.function.call, len(self.arguments) - 1)

    def emit(self, frame: Frame) -> Run:
        return emit_direct(self.target(), self.arguments, self.site, frame)


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

    rest, found = remove_property(plist, indicator)
    return MV((rest, T if found else NIL))


_REMOVE_PROPERTY = Function("remf", _remove_property, 2, 2)
