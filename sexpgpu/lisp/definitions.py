"""Definitions: functions, macros, variables, constants, types, setf methods, symbol macros."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.analyze import (
    AT,
    Tails,
    analyze,
    analyze_car,
    items_of,
    malformed,
    native,
    parts,
    site_here,
)
from sexpgpu.lisp.declarations import collect
from sexpgpu.lisp.errors import program_error
from sexpgpu.lisp.evaluation import proclaim, redefinable
from sexpgpu.lisp.functions import lambda_node
from sexpgpu.lisp.journal import keep, keep_entry
from sexpgpu.lisp.lambda_lists import parse
from sexpgpu.lisp.macros import macro_function
from sexpgpu.lisp.nodes import (
    Constant,
    Custom,
    Node,
    Run,
    single,
)
from sexpgpu.lisp.places import Expander, Place, expansion
from sexpgpu.lisp.scope import Frame, Scope, function_key
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import (
    CL,
    MV,
    NIL,
    UNBOUND,
    Cons,
    Function,
    SrcCons,
    String,
    Symbol,
    lisp_list,
)
from sexpgpu.reader.printer import brief


def definable(name: Any, kind: str, form: Any) -> Symbol:
    """The symbol that a definition of `name` defines in the module at hand: the name itself, or
    the module's own symbol of that name where a lower layer has it (a warning)."""
    if not isinstance(name, Symbol):
        raise malformed(f"{brief(name)} is not a name", form)
    session = STATE.session
    if session is None:
        return name
    return session.defining(name, kind, site_here())


def _effect(action: Any, result: Any = None) -> Node:
    """A node that runs a Python action when the form is evaluated and gives `result`."""

    def make(frame: Frame) -> Run:
        def run(env: Any) -> Any:
            value = action()
            return value if result is None else result

        return run

    return Custom(make, False)


# ---------------------------------------------------------------- functions and macros


@native("defun")
def _defun(form: Any, scope: Scope, tails: Tails) -> Node:
    cells = parts(form, 2, None, "(defun name (parameter…) form…)")
    key = function_key(cells[0])
    if key is None:
        raise malformed(f"{brief(cells[0])} is not a function name", form)
    if isinstance(key, tuple):
        symbol = key[1]
        node = lambda_node(f"(setf {symbol.name})", cells[1], form.cdr.cdr.cdr, scope, symbol, form)

        def make_setf(frame: Frame) -> Run:
            run_lambda = node.emit(frame)

            def run(env: Any) -> Any:
                keep(symbol)
                symbol.setf = run_lambda(env)
                return cells[0]

            return run

        return Custom(make_setf, False)
    redefinable(key)
    symbol = definable(key, "function", form)
    if AT.lazy and scope.parent is None:
        return _lazy(form, cells, symbol, key, scope)
    node = lambda_node(symbol.name, cells[1], form.cdr.cdr.cdr, scope, key, form)

    def make(frame: Frame) -> Run:
        run_lambda = node.emit(frame)

        def run(env: Any) -> Any:
            keep(symbol)
            symbol.function = run_lambda(env)
            symbol.macro = None
            return symbol

        return run

    return Custom(make, False)


def _lazy(form: Any, cells: list[Any], symbol: Symbol, key: Symbol, scope: Scope) -> Node:
    """A function of a standard module: its body is analysed when it is first called, because most
    files use few of them. (The body is known to be well-formed: the product's tests call it.)"""
    parsed = parse(cells[1], symbol.name)
    module, place, expansions = STATE.module, AT.place, AT.expansions
    doc = cells[2].text if len(cells) > 3 and isinstance(cells[2], String) else ""
    origin = form.span if type(form) is SrcCons else None
    function = Function(symbol.name, _unset, parsed.minimum, parsed.maximum, cells[1], doc, origin)

    def force() -> Any:
        from sexpgpu.lisp.analyze import run_node

        saved = AT.place, AT.expansions, AT.depth, AT.lazy, STATE.module
        AT.place, AT.expansions, AT.depth = place, expansions, 0
        STATE.module = module
        site = STATE.site
        try:
            node = lambda_node(symbol.name, cells[1], form.cdr.cdr.cdr, scope, key, form)
            function.call = run_node(node).call
        finally:
            AT.place, AT.expansions, AT.depth, AT.lazy, STATE.module = saved
            STATE.site = site
        return function.call

    def first(*arguments: Any) -> Any:
        target = function.call
        return (force() if target is first else target)(*arguments)

    first.force = force  # type: ignore[attr-defined]
    function.call = first

    def define() -> Any:
        keep(symbol)
        symbol.function = function
        symbol.macro = None
        return symbol

    return _effect(define)


def _unset(*arguments: Any) -> Any:
    return NIL


@native("defmacro")
def _defmacro(form: Any, scope: Scope, tails: Tails) -> Node:
    cells = parts(form, 2, None, "(defmacro name (parameter…) form…)")
    name = cells[0]
    if not isinstance(name, Symbol):
        raise malformed(f"{brief(name)} is not a macro name", form)
    redefinable(name)
    symbol = definable(name, "macro", form)
    function = macro_function(name, cells[1], form.cdr.cdr.cdr, scope, form)

    def define() -> Any:
        keep(symbol)
        symbol.macro = function
        symbol.function = None
        return symbol

    return _effect(define)


@native("define-compiler-macro")
def _define_compiler_macro(form: Any, scope: Scope, tails: Tails) -> Node:
    cells = parts(form, 2, None, "(define-compiler-macro name (parameter…) form…)")
    if function_key(cells[0]) is None:
        raise malformed(f"{brief(cells[0])} is not a function name", form)
    return Constant(cells[0])


# ---------------------------------------------------------------- variables


def _variable(form: Any, scope: Scope, always: bool) -> Node:
    operator = form.car.name
    usage = f"({operator} name value [documentation])"
    cells = parts(form, 2 if always else 1, 3, usage)
    if not isinstance(cells[0], Symbol) or cells[0].constant:
        raise malformed(f"{brief(cells[0])} is not a variable name", form)
    symbol = definable(cells[0], "variable", form)
    keep(symbol)
    if scope.top_level:
        symbol.special = True  # for what follows in the same form
    value = analyze_car(form.cdr.cdr, scope) if len(cells) > 1 else None

    def make(frame: Frame) -> Run:
        run_value = single(value, frame) if value is not None else None

        def run(env: Any) -> Any:
            keep(symbol)
            symbol.special = True
            if run_value is not None and (always or symbol.value is UNBOUND):
                symbol.value = run_value(env)
            return symbol

        return run

    return Custom(make, False)


@native("defvar")
def _defvar(form: Any, scope: Scope, tails: Tails) -> Node:
    return _variable(form, scope, False)


@native("defparameter")
def _defparameter(form: Any, scope: Scope, tails: Tails) -> Node:
    return _variable(form, scope, True)


@native("defconstant")
def _defconstant(form: Any, scope: Scope, tails: Tails) -> Node:
    cells = parts(form, 2, 3, "(defconstant name value [documentation])")
    if not isinstance(cells[0], Symbol):
        raise malformed(f"{brief(cells[0])} is not a name", form)
    symbol = definable(cells[0], "constant", form)
    value = analyze_car(form.cdr.cdr, scope)
    site = site_here()

    def make(frame: Frame) -> Run:
        run_value = single(value, frame)

        def run(env: Any) -> Any:
            from sexpgpu.lisp.builtins.equality import eql

            result = run_value(env)
            if symbol.constant and not eql(symbol.value, result):
                raise program_error(
                    f"the constant {symbol.name} has another value already", site, code="constant"
                )
            keep(symbol)
            symbol.value = result
            symbol.constant = symbol.special = True
            return symbol

        return run

    return Custom(make, False)


@native("define-symbol-macro")
def _define_symbol_macro(form: Any, scope: Scope, tails: Tails) -> Node:
    cells = parts(form, 2, 2, "(define-symbol-macro name expansion)")
    if not isinstance(cells[0], Symbol) or cells[0].special or cells[0].constant:
        raise malformed(f"{brief(cells[0])} cannot be a symbol macro", form)
    symbol = definable(cells[0], "symbol macro", form)

    def define() -> Any:
        keep(symbol)
        symbol.symbol_macro = cells[1]
        return symbol

    return _effect(define)


@native("declaim")
def _declaim(form: Any, scope: Scope, tails: Tails) -> Node:
    cells = parts(form, 0, None, "(declaim declaration…)")
    if scope.top_level:
        specials: set[Symbol] = set()
        collect(form, specials)
        for name in specials:
            keep(name)
            name.special = True

    def declare() -> Any:
        for cell in cells:
            proclaim(cell)
        return NIL

    return _effect(declare)


# ---------------------------------------------------------------- types


@native("deftype")
def _deftype(form: Any, scope: Scope, tails: Tails) -> Node:
    cells = parts(form, 2, None, "(deftype name (parameter…) form…)")
    name = cells[0]
    if not isinstance(name, Symbol):
        raise malformed(f"{brief(name)} is not a type name", form)
    symbol = definable(name, "type", form)
    lambda_list = _star_defaults(cells[1])
    expander = macro_function(name, lambda_list, form.cdr.cdr.cdr, scope, form)

    def expand(*arguments: Any) -> Any:
        return expander.call(Cons(name, lisp_list(arguments)), NIL)

    def define() -> Any:
        from sexpgpu.lisp.builtins.type_specifiers import DEFINED_TYPES, define_type

        keep_entry(DEFINED_TYPES, symbol)
        define_type(symbol, expand)
        return symbol

    return _effect(define)


def _star_defaults(lambda_list: Any) -> Any:
    """Optional and key parameters of deftype default to `*`."""
    result: list[Any] = []
    defaulting = False
    at = lambda_list
    while isinstance(at, Cons):
        item = at.car
        if isinstance(item, Symbol) and item.name.startswith("&"):
            defaulting = item.name in ("&optional", "&key")
        elif defaulting and isinstance(item, Symbol):
            item = lisp_list([item, lisp_list([CL.own("quote"), CL.own("*")])])
        result.append(item)
        at = at.cdr
    return lisp_list(result, at)


# ---------------------------------------------------------------- setf methods


@native("defsetf")
def _defsetf(form: Any, scope: Scope, tails: Tails) -> Node:
    cells = parts(form, 2, None, "(defsetf access update) or (defsetf access (…) (store) form…)")
    access = cells[0]
    if not isinstance(access, Symbol):
        raise malformed(f"{brief(access)} is not a name", form)
    if isinstance(cells[1], Symbol) and cells[1] is not NIL:
        update = cells[1]

        def short(place: Any, inner: Scope) -> Place:
            arguments = items_of(place.cdr)
            variables = [Symbol("place") for _ in arguments]
            new = Symbol("new")
            store = Cons(update, lisp_list([*variables, new]))
            return Place(variables, arguments, [new], store, Cons(access, lisp_list(variables)))

        expander = Expander(short)
    else:
        if len(cells) < 3:
            raise malformed("malformed defsetf: the store variables are missing", form)
        stores = items_of(cells[2])
        function = macro_function(
            access, lisp_list([cells[2], cells[1]]), form.cdr.cdr.cdr.cdr, scope, form
        )

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
            return Place(variables, values, news, store, Cons(access, lisp_list(stand)))

        expander = Expander(long)

    def define() -> Any:
        keep(access)
        access.setf = expander
        return access

    return _effect(define)


@native("define-setf-expander")
def _define_setf_expander(form: Any, scope: Scope, tails: Tails) -> Node:
    cells = parts(form, 2, None, "(define-setf-expander access (parameter…) form…)")
    access = cells[0]
    if not isinstance(access, Symbol):
        raise malformed(f"{brief(access)} is not a name", form)
    inner_name = Symbol(access.name)
    values_call = CL.own("multiple-value-list")
    block = Cons(CL.own("block"), Cons(access, form.cdr.cdr.cdr))
    function = macro_function(
        inner_name, cells[1], lisp_list([lisp_list([values_call, block])]), scope, form
    )

    def expand(place: Any, inner: Scope) -> Place:
        found = items_of(function.call(place, inner))
        if len(found) != 5:
            raise program_error(f"the setf expander of {access.name} gives {len(found)} values")
        return Place(items_of(found[0]), items_of(found[1]), items_of(found[2]), found[3], found[4])

    def define() -> Any:
        keep(access)
        access.setf = Expander(expand)
        return access

    return _effect(define)


def get_setf_expansion(place: Any, environment: Any = NIL) -> Any:
    """The five values of a place's setf expansion."""
    from sexpgpu.lisp.scope import null_scope

    scope = environment if isinstance(environment, Scope) else null_scope()
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


CL.own("get-setf-expansion").function = Function(
    "get-setf-expansion", get_setf_expansion, 1, 2, "(place &optional environment)"
)


@native("define-modify-macro")
def _define_modify_macro(form: Any, scope: Scope, tails: Tails) -> Node:
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
    expander = macro_function(name, Cons(place_name, lambda_list), lisp_list([body]), scope, form)
    if len(cells) == 4 and isinstance(cells[3], String):
        expander.doc = cells[3].text

    def define() -> Any:
        keep(symbol)
        symbol.macro = expander
        symbol.function = None
        return symbol

    return _effect(define)


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
        value = Cons(function, Cons(place_made.access, lisp_list(stand)))
        pairs.append(lisp_list([place_made.stores[0], value]))
        return analyze(lisp_list([CL.own("let*"), lisp_list(pairs), place_made.store]), scope)

    made.analyze = run
    return made


_MODIFY = _make_modify()
