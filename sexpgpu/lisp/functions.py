"""Special operators of functions: function, lambda, flet, labels, macrolet."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.analyze import (
    AT,
    SPECIAL,
    Tails,
    analyze,
    body,
    hygiene,
    items_of,
    malformed,
    parts,
    site_here,
    special,
)
from sexpgpu.lisp.binding_nodes import Let
from sexpgpu.lisp.control_forms import block_body
from sexpgpu.lisp.declarations import split_body
from sexpgpu.lisp.errors import program_error, undefined_function
from sexpgpu.lisp.lambda_lists import LambdaList, parse
from sexpgpu.lisp.lambdas import LambdaNode
from sexpgpu.lisp.nodes import Constant, Custom, Node, Run
from sexpgpu.lisp.scope import (
    Frame,
    Level,
    LocalFunction,
    LocalMacro,
    Scope,
    Var,
    function_key,
)
from sexpgpu.lisp.special import (
    bind_sequential,
    declared_scope,
    is_dynamic,
)
from sexpgpu.lisp.state import STATE, Site
from sexpgpu.lisp.values import (
    CL,
    NIL,
    Cons,
    Function,
    SrcCons,
    Symbol,
    new_cons,
)
from sexpgpu.lisp.variable_nodes import LocalRef
from sexpgpu.reader.printer import brief
from sexpgpu.source import Span

LAMBDA = CL.own("lambda")


# ---------------------------------------------------------------- functions


def check_function_name(key: Any, form: Any, what: str) -> None:
    """CL's own operators may not be bound as functions or macros."""
    symbol = key if isinstance(key, Symbol) else None
    if symbol is None or symbol.module is not CL:
        return
    if symbol.function is not None or symbol.macro is not None or symbol in SPECIAL:
        raise program_error(
            f"{what} {brief(symbol)}: it is an operator of Common Lisp",
            Site(AT.place, AT.expansions),
            code="cl-operator",
            name=symbol,
        )


def lambda_node(
    name: str,
    lambda_list: Any,
    forms: Any,
    scope: Scope,
    block: Symbol | None = None,
    form: Any = None,
) -> LambdaNode:
    """The node of a function: parameters, declarations, body (in a block when named)."""
    parsed = parse(lambda_list, name)
    forms, specials, doc = split_body(forms, True)
    level = Level(scope.level)
    inner = Scope(scope, level)
    node = LambdaNode(name)
    node.text = lambda_list
    node.doc = doc
    node.minimum, node.maximum = parsed.minimum, parsed.maximum
    place = form.place if type(form) is SrcCons else AT.place
    node.origin = Span(place[0], place[1], place[2]) if place is not None else None
    if any(is_dynamic(n, specials) for n in _parameters(parsed)):
        _dynamic_parameters(node, parsed, specials, forms, inner, block)
        return node
    table: dict[Symbol, Any] = {}
    inner.variables = table

    written = hygiene().names(lambda_list, scope) if AT.checks else None

    def bind(symbol: Symbol) -> Var:
        var = Var(symbol, level)
        if written is not None:
            var.written = written.get(symbol)
        table[symbol] = var
        return var

    node.required = [bind(symbol) for symbol in parsed.required]
    scope_now = inner
    for item in parsed.optional:
        default = analyze(item.default, scope_now)
        var = bind(item.target)
        node.optional.append((var, default, bind(item.supplied) if item.supplied else None))
    if parsed.rest is not None:
        node.rest = bind(parsed.rest)
    if parsed.keys is not None:
        node.keys = []
        node.allow = parsed.allow
        for item in parsed.keys:
            default = analyze(item.default, scope_now)
            var = bind(item.target)
            supplied = bind(item.supplied) if item.supplied else None
            node.keys.append((item.key, var, default, supplied))
    if parsed.aux:  # a free declaration does not hold in their values
        bindings = [(n, new_cons(v, NIL)) for n, v in parsed.aux]
        node.body = bind_sequential(bindings, specials, _blocked(block, forms), inner)
        return node
    if specials:
        inner = declared_scope(inner, specials)
        inner.top_level = False
    node.body = block_body(block, forms, inner)
    return node


def _parameters(parsed: LambdaList) -> list[Symbol]:
    names = list(parsed.required)
    for item in (*parsed.optional, *(parsed.keys or ())):
        names.append(item.target)
        if item.supplied:
            names.append(item.supplied)
    if parsed.rest is not None:
        names.append(parsed.rest)
    return names


def _dynamic_parameters(
    node: LambdaNode,
    parsed: LambdaList,
    specials: set[Symbol],
    forms: Any,
    inner: Scope,
    block: Symbol | None,
) -> None:
    """Parameters some of which are dynamic: arguments arrive in hidden variables, and a let*
    binds the parameters in order."""
    level = inner.level
    table: dict[Symbol, Any] = {}
    inner.variables = table
    bindings: list[tuple[Symbol, Any]] = []
    missing = Constant(NIL)

    def hide(symbol: Symbol) -> tuple[Var, Symbol]:
        hidden = Symbol(symbol.name)
        var = Var(hidden, level)
        table[hidden] = var
        return var, hidden

    for symbol in parsed.required:
        var, hidden = hide(symbol)
        node.required.append(var)
        bindings.append((symbol, new_cons(hidden, NIL)))

    def later(item: Any) -> tuple[Var, Var]:
        var, hidden = hide(item.target)
        supplied, hidden_supplied = hide(Symbol("supplied"))
        choice = new_cons(
            CL.own("if"), new_cons(hidden_supplied, new_cons(hidden, new_cons(item.default, NIL)))
        )
        bindings.append((item.target, new_cons(choice, NIL)))
        if item.supplied:
            bindings.append((item.supplied, new_cons(hidden_supplied, NIL)))
        return var, supplied

    for item in parsed.optional:
        var, supplied = later(item)
        node.optional.append((var, missing, supplied))
    if parsed.rest is not None:
        var, hidden = hide(parsed.rest)
        node.rest = var
        bindings.append((parsed.rest, new_cons(hidden, NIL)))
    if parsed.keys is not None:
        node.keys = []
        node.allow = parsed.allow
        for item in parsed.keys:
            var, supplied = later(item)
            node.keys.append((item.key, var, missing, supplied))
    bindings.extend((name, new_cons(value, NIL)) for name, value in parsed.aux)
    node.body = bind_sequential(bindings, specials, _blocked(block, forms), inner)


_BLOCK = CL.own("block")


def _blocked(block: Symbol | None, forms: Any) -> Any:
    return forms if block is None else new_cons(new_cons(_BLOCK, new_cons(block, forms)), NIL)


class GlobalFunction(Node):
    """The function that a symbol has when it runs."""

    __slots__ = ("site", "symbol")
    multi = False

    def __init__(self, symbol: Symbol, site: Site) -> None:
        self.symbol = symbol
        self.site = site

    def emit(self, frame: Frame) -> Run:
        symbol, site = self.symbol, self.site

        def run(env: Any) -> Any:
            function = symbol.function
            if function is None:
                raise undefined_function(symbol, site)
            return function

        return run


@special("function")
def _function(form: Any, scope: Scope, tails: Tails) -> Node:
    """The function of that name, or a closure."""
    (name,) = parts(form, 1, 1, "(function name) or (function (lambda …))")
    if type(name) in (Cons, SrcCons) and name.car is LAMBDA:
        return _lambda(name, scope)
    key = function_key(name)
    if key is None:
        if type(name) is Function:
            return Constant(name)
        raise malformed(f"{brief(name)} is not a function name", form)
    local = scope.function(key)
    if type(local) is LocalFunction:
        local.var.touch(scope.level)
        return LocalRef(local.var)
    if isinstance(key, tuple):
        symbol = key[1]
        if symbol.module is CL and isinstance(symbol.setf, Function):
            return Constant(symbol.setf)
        site = site_here()

        def make_setf(frame: Frame) -> Run:
            def run(env: Any) -> Any:
                if not isinstance(symbol.setf, Function):
                    raise undefined_function(name, site)
                return symbol.setf

            return run

        return Custom(make_setf, False)
    if name in SPECIAL or name.macro is not None or type(local) is LocalMacro:
        what = "a special operator" if name in SPECIAL else "a macro"
        raise program_error(
            f"{name.name} is {what}, not a function", site_here(), code="not-function", name=name
        )
    if name.function is not None and name.module is CL:
        return Constant(name.function)
    site = site_here()
    if name.function is None and STATE.session is not None:
        STATE.session.note_call(name, site, scope)

    return GlobalFunction(name, site)


def _lambda(form: Any, scope: Scope, name: str = "lambda") -> LambdaNode:
    parts(form, 1, None, "(lambda (parameter…) form…)")
    saved = AT.place
    if type(form) is SrcCons:
        AT.place = form.place
    try:
        return lambda_node(name, form.cdr.car, form.cdr.cdr, scope, None, form)
    finally:
        AT.place = saved


@special("lambda")
def _lambda_form(form: Any, scope: Scope, tails: Tails) -> Node:
    """A function."""
    return _lambda(form, scope)


def _expand_lambda(form: Any, environment: Any) -> Any:
    return new_cons(CL.own("function"), new_cons(form, NIL))


LAMBDA.macro = Function("lambda", _expand_lambda, 2, 2, "(form environment)")


def _definitions(form: Any, operator: str) -> list[Any]:
    parts(form, 1, None, f"({operator} ((name (parameter…) form…)…) form…)")
    result: list[Any] = []
    for item in items_of(form.cdr.car):
        if not isinstance(item, Cons) or not isinstance(item.cdr, Cons):
            raise malformed(f"{brief(item)} is not (name (parameter…) form…)", form)
        key = function_key(item.car)
        if key is None:
            raise malformed(f"{brief(item.car)} is not a function name", form)
        check_function_name(key, form, f"{operator} cannot bind")
        result.append((key, item))
    return result


def _local(key: Any, item: Any, level: Level) -> LocalFunction:
    local = LocalFunction(Var(key, level))
    name = key.name if isinstance(key, Symbol) else f"(setf {key[1].name})"
    parsed = parse(item.cdr.car, name)
    local.minimum, local.maximum = parsed.minimum, parsed.maximum
    local.lambda_list = item.cdr.car
    local.written = AT.checks and hygiene().is_macros(item)
    return local


def _local_lambda(key: Any, item: Any, scope: Scope) -> LambdaNode:
    symbol = key if isinstance(key, Symbol) else key[1]
    name = key.name if isinstance(key, Symbol) else f"(setf {symbol.name})"
    return lambda_node(name, item.cdr.car, item.cdr.cdr, scope, symbol, item)


@special("flet")
def _flet(form: Any, scope: Scope, tails: Tails) -> Node:
    """Binds local functions; they do not see each other."""
    definitions = _definitions(form, "flet")
    level = scope.level
    inner = Scope(scope, level)
    inner.functions = {}
    nodes: list[Node] = []
    locals_: list[LocalFunction] = []
    for key, item in definitions:
        if key in inner.functions:
            raise malformed(f"flet defines {brief(item.car)} twice", form)
        local = _local(key, item, level)
        nodes.append(_local_lambda(key, item, scope))
        locals_.append(local)
        inner.functions[key] = local
    forms, specials, _ = split_body(form.cdr.cdr, False)
    declared = declared_scope(inner, specials)
    declared.top_level = False
    in_loop = level.loops > 0
    made = body(forms, declared, tails)
    return Let([local.var for local in locals_], nodes, made, in_loop) if nodes else made


class Labels(Node):
    """Local functions that see each other."""

    __slots__ = ("body", "in_loop", "multi", "nodes", "variables")

    def __init__(self, variables: list[Var], nodes: list[Node], body: Node, in_loop: bool) -> None:
        self.variables = variables
        self.nodes = nodes
        self.body = body
        self.in_loop = in_loop
        self.multi = body.multi

    def emit(self, frame: Frame) -> Run:
        target = frame
        if self.in_loop and any(var.captured for var in self.variables):
            target = Frame(frame)
        indices = [var.place(target) for var in self.variables]
        runs = [node.emit(target) for node in self.nodes]
        run_body = self.body.emit(target)
        pairs = tuple(zip(indices, runs, strict=True))
        fresh = target is not frame
        padding = (None,) * (target.size - 1)

        def run(env: Any) -> Any:
            if fresh:
                env = [env, *padding]
            for index, init in pairs:
                env[index] = init(env)
            return run_body(env)

        return run


@special("labels")
def _labels(form: Any, scope: Scope, tails: Tails) -> Node:
    """Binds local functions; they see each other."""
    definitions = _definitions(form, "labels")
    level = scope.level
    inner = Scope(scope, level)
    inner.functions = {}
    locals_: list[LocalFunction] = []
    for key, item in definitions:
        if key in inner.functions:
            raise malformed(f"labels defines {brief(item.car)} twice", form)
        local = _local(key, item, level)
        locals_.append(local)
        inner.functions[key] = local
    nodes: list[Node] = [_local_lambda(key, item, inner) for key, item in definitions]
    forms, specials, _ = split_body(form.cdr.cdr, False)
    declared = declared_scope(inner, specials)
    declared.top_level = False
    in_loop = level.loops > 0
    made = body(forms, declared, tails)
    if not nodes:
        return made
    return Labels([local.var for local in locals_], nodes, made, in_loop)


def macrolet_scope(form: Any, scope: Scope) -> Scope:
    """The scope of a macrolet's body."""
    from sexpgpu.lisp.macros import macro_function

    inner = Scope(scope, scope.level)
    inner.functions = {}
    for key, item in _definitions(form, "macrolet"):
        if not isinstance(key, Symbol):
            raise malformed("macrolet names are symbols", form)
        function = macro_function(key, item.cdr.car, item.cdr.cdr, scope, item)
        inner.functions[key] = LocalMacro(key, function)
    return inner


@special("macrolet")
def _macrolet(form: Any, scope: Scope, tails: Tails) -> Node:
    """Binds local macros."""
    inner = macrolet_scope(form, scope)
    forms, specials, _ = split_body(form.cdr.cdr, False)
    declared = declared_scope(inner, specials)
    declared.top_level = False
    return body(forms, declared, tails)
