"""Definitions: functions, macros, variables, constants, types, symbol macros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.analyze import (
    AT,
    Tails,
    analyze_car,
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
from sexpgpu.lisp.macros import Expander as MacroExpander
from sexpgpu.lisp.macros import macro_maker
from sexpgpu.lisp.nodes import (
    Constant,
    Custom,
    Node,
    Run,
    single,
)
from sexpgpu.lisp.scope import Frame, Scope, function_key
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import (
    CL,
    NIL,
    UNBOUND,
    Cons,
    Function,
    SrcCons,
    String,
    Symbol,
    lisp_list,
    new_cons,
)
from sexpgpu.reader.printer import brief

_KINDS_OF_TYPE = ("type", "structure", "condition type")


def definable(name: Any, kind: str, form: Any) -> Symbol:
    """The symbol that a definition of `name` defines in the module at hand: the name itself, or
    the module's own symbol of that name where a lower layer has it (a warning)."""
    if not isinstance(name, Symbol):
        raise malformed(f"{brief(name)} is not a name", form)
    if name.module is CL and kind in _KINDS_OF_TYPE:
        from sexpgpu.lisp.builtins.type_specifiers import names_type

        if names_type(name):
            raise program_error(
                f"{name.name} is a type of Common Lisp and cannot be redefined",
                code="cl-operator",
                name=name,
            )
    session = STATE.session
    if session is None:
        return name
    return session.defining(name, kind, site_here())


def effect(action: Any, result: Any = None) -> Node:
    """A node that runs a Python action when the form is evaluated and gives `result`."""

    def make(frame: Frame) -> Run:
        def run(env: Any) -> Any:
            value = action()
            return value if result is None else result

        return run

    return Custom(make, False)


def installing(
    maker: Callable[[Frame | None], MacroExpander], scope: Scope, install: Callable[[Function], Any]
) -> Node:
    """A node that makes an expander where the form is evaluated, with the variables around it,
    and installs it."""

    def make(frame: Frame) -> Run:
        expander = maker(None if scope.top_level else frame)
        return lambda env: install(expander(env))

    return Custom(make, False)


# ---------------------------------------------------------------- functions and macros


@native("defun")
def _defun(form: Any, scope: Scope, tails: Tails) -> Node:
    """Defines a function."""
    cells = parts(form, 2, None, "(defun name (parameter…) form…)")
    key = function_key(cells[0])
    if key is None:
        raise malformed(f"{brief(cells[0])} is not a function name", form)
    if isinstance(key, tuple):
        symbol = key[1]
        redefinable(symbol)
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
            node.tier.latest = function
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

    return effect(define)


def _unset(*arguments: Any) -> Any:
    return NIL


@native("defmacro")
def _defmacro(form: Any, scope: Scope, tails: Tails) -> Node:
    """Defines a macro: a function from forms to a form."""
    cells = parts(form, 2, None, "(defmacro name (parameter…) form…)")
    name = cells[0]
    if not isinstance(name, Symbol):
        raise malformed(f"{brief(name)} is not a macro name", form)
    redefinable(name)
    symbol = definable(name, "macro", form)
    maker = macro_maker(name, cells[1], form.cdr.cdr.cdr, scope, form)

    def define(function: Function) -> Any:
        keep(symbol)
        symbol.macro = function
        symbol.function = None
        return symbol

    return installing(maker, scope, define)


@native("define-compiler-macro")
def _define_compiler_macro(form: Any, scope: Scope, tails: Tails) -> Node:
    """Accepted, and without effect."""
    cells = parts(form, 2, None, "(define-compiler-macro name (parameter…) form…)")
    if function_key(cells[0]) is None:
        raise malformed(f"{brief(cells[0])} is not a function name", form)
    return Constant(cells[0])


# ---------------------------------------------------------------- variables


def _variable(form: Any, scope: Scope, always: bool) -> Node:
    operator = form.car.name
    value = "value [documentation]" if always else "[value [documentation]]"
    usage = f"({operator} name {value})"
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
    """Declares a dynamic variable; the value is used when it has none yet."""
    return _variable(form, scope, False)


@native("defparameter")
def _defparameter(form: Any, scope: Scope, tails: Tails) -> Node:
    """Declares a dynamic variable and sets it."""
    return _variable(form, scope, True)


@native("defconstant")
def _defconstant(form: Any, scope: Scope, tails: Tails) -> Node:
    """Defines a constant."""
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
    """Makes a name stand for a form."""
    cells = parts(form, 2, 2, "(define-symbol-macro name expansion)")
    if not isinstance(cells[0], Symbol) or cells[0].special or cells[0].constant:
        raise malformed(f"{brief(cells[0])} cannot be a symbol macro", form)
    symbol = definable(cells[0], "symbol macro", form)

    def define() -> Any:
        keep(symbol)
        symbol.symbol_macro = cells[1]
        return symbol

    return effect(define)


@native("declaim")
def _declaim(form: Any, scope: Scope, tails: Tails) -> Node:
    """Makes declarations for the whole module; special counts."""
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

    return effect(declare)


# ---------------------------------------------------------------- types


@native("deftype")
def _deftype(form: Any, scope: Scope, tails: Tails) -> Node:
    """Defines a name for a type specifier."""
    cells = parts(form, 2, None, "(deftype name (parameter…) form…)")
    name = cells[0]
    if not isinstance(name, Symbol):
        raise malformed(f"{brief(name)} is not a type name", form)
    symbol = definable(name, "type", form)
    lambda_list = _star_defaults(cells[1])
    maker = macro_maker(name, lambda_list, form.cdr.cdr.cdr, scope, form)

    def define(expander: Function) -> Any:
        from sexpgpu.lisp.builtins.type_specifiers import DEFINED_TYPES, define_type

        def expand(*arguments: Any) -> Any:
            return expander.call(new_cons(name, lisp_list(arguments)), NIL)

        keep_entry(DEFINED_TYPES, symbol)
        define_type(symbol, expand)
        return symbol

    return installing(maker, scope, define)


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
