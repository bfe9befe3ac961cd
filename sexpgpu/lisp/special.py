"""The special operators, and evaluation of top-level forms."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.analyze import (
    AT,
    SPECIAL,
    Tails,
    analyze,
    analyze_car,
    body,
    expand_once,
    malformed,
    parts,
    run_node,
    site_here,
    special,
    variable,
)
from sexpgpu.lisp.calls import as_function, primary, values_list
from sexpgpu.lisp.control import CATCH_TAGS, ThrowExit
from sexpgpu.lisp.declarations import split_body
from sexpgpu.lisp.errors import control_error, program_error, type_error, undefined_function
from sexpgpu.lisp.journal import keep
from sexpgpu.lisp.lambda_lists import LambdaList, parse
from sexpgpu.lisp.lambdas import LambdaNode
from sexpgpu.lisp.nodes import (
    BindSpecial,
    BlockNode,
    Constant,
    Custom,
    Go,
    If,
    Let,
    LocalRef,
    Node,
    Progn,
    ReturnFrom,
    Run,
    Sequential,
    SetGlobal,
    SetLocal,
    TagbodyNode,
    UnwindProtect,
    progn,
    single,
)
from sexpgpu.lisp.scope import (
    DYNAMIC,
    Block,
    Frame,
    Level,
    LocalFunction,
    LocalMacro,
    Scope,
    SymbolMacro,
    Tagbody,
    Var,
    function_key,
    null_scope,
)
from sexpgpu.lisp.state import STATE, Site, limit
from sexpgpu.lisp.values import (
    CL,
    MV,
    NIL,
    UNBOUND,
    Cons,
    Function,
    SrcCons,
    Symbol,
    T,
    python_list,
)
from sexpgpu.reader.printer import brief
from sexpgpu.source import Span

LAMBDA = CL.own("lambda")
SETF = CL.own("setf")
VALUES = CL.own("values")


# ---------------------------------------------------------------- top level

_PROGN = CL.own("progn")
_EVAL_WHEN = CL.own("eval-when")
_LOCALLY = CL.own("locally")
_MACROLET = CL.own("macrolet")
_SYMBOL_MACROLET = CL.own("symbol-macrolet")


def evaluate_top_level(form: Any, scope: Scope | None = None) -> Any:
    """Evaluate a top-level form; the subforms of progn and its kin are top-level forms too."""
    if scope is None:
        scope = null_scope()
    saved_place, saved_expansions, saved_depth = AT.place, AT.expansions, AT.depth
    AT.expansions = saved_expansions if scope.parent is not None else ()
    try:
        while isinstance(form, Cons) and type(form.car) is Symbol:
            if type(form) is SrcCons:
                AT.place = form.place
            head = form.car
            if head is _PROGN:
                return _evaluate_each(form.cdr, scope)
            if head is _EVAL_WHEN:
                cells = parts(form, 1, None, "(eval-when (situation…) form…)")
                return _evaluate_each(form.cdr.cdr, scope) if _now(cells[0], form) else NIL
            if head is _LOCALLY:
                forms, specials, _ = split_body(form.cdr, False)
                return _evaluate_each(forms, _declared(scope, specials))
            if head is _MACROLET or head is _SYMBOL_MACROLET:
                parts(form, 1, None, f"({head.name} (definition…) form…)")
                make = macrolet_scope if head is _MACROLET else symbol_macrolet_scope
                forms, specials, _ = split_body(form.cdr.cdr, False)
                inner = _declared(make(form, scope), specials)
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
            AT.depth += 1
            if AT.depth > STATE.limits.expansions:
                raise limit("expansion", STATE.limits.expansions)
            form = expansion
        return run_node(analyze(form, scope))
    finally:
        AT.place, AT.expansions, AT.depth = saved_place, saved_expansions, saved_depth


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


def _now(situations: Any, form: Any) -> bool:
    if not isinstance(situations, Cons) and situations is not NIL:
        raise malformed("malformed eval-when: write (eval-when (situation…) form…)", form)
    names = {s.name for s in python_list(situations) if isinstance(s, Symbol)}
    unknown = names - {"compile-toplevel", "load-toplevel", "execute", "compile", "load", "eval"}
    if unknown:
        raise malformed(f"eval-when knows no situation {sorted(unknown)[0]}", form)
    return bool(names & {"execute", "eval"})


def _declared(scope: Scope, specials: set[Symbol]) -> Scope:
    """The scope with free special declarations."""
    inner = Scope(scope, scope.level, False)
    if specials:
        inner.variables = dict.fromkeys(specials, DYNAMIC)
    inner.top_level = scope.top_level
    return inner


# ---------------------------------------------------------------- simple operators


@special("quote")
def _quote(form: Any, scope: Scope, tails: Tails) -> Node:
    return Constant(parts(form, 1, 1, "(quote object)")[0])


@special("progn")
def _progn_form(form: Any, scope: Scope, tails: Tails) -> Node:
    return body(form.cdr, scope, tails)


@special("if")
def _if(form: Any, scope: Scope, tails: Tails) -> Node:
    cells = parts(form, 2, 3, "(if test then [else])")
    test = form.cdr
    condition = analyze_car(test, scope)
    yes = analyze_car(test.cdr, scope, tails)
    no = analyze_car(test.cdr.cdr, scope, tails) if len(cells) == 3 else Constant(NIL)
    return If(condition, yes, no)


@special("setq")
def _setq(form: Any, scope: Scope, tails: Tails) -> Node:
    cells = parts(form, 0, None, "(setq variable value …)")
    if len(cells) % 2:
        raise malformed("setq takes variables and values in pairs", form)
    nodes: list[Node] = []
    at = form.cdr
    while at is not NIL:
        nodes.append(set_variable(at.car, at.cdr, scope, form))
        at = at.cdr.cdr
    return progn(nodes)


def set_variable(name: Any, value_cell: Any, scope: Scope, form: Any) -> Node:
    """The node that sets a variable to the value of a cons's car."""
    if not isinstance(name, Symbol):
        raise malformed(f"{brief(name)} is not a variable", form)
    found = scope.variable(name)
    if type(found) is SymbolMacro or (found is None and name.symbol_macro is not UNBOUND):
        expansion = found.expansion if type(found) is SymbolMacro else name.symbol_macro
        return analyze(Cons(SETF, Cons(expansion, Cons(value_cell.car, NIL))), scope)
    return assign(name, analyze_car(value_cell, scope), scope, form)


def assign(name: Symbol, value: Node, scope: Scope, form: Any) -> Node:
    """The node that sets a variable (no symbol macro) to a node's value."""
    found = scope.variable(name)
    if type(found) is Var:
        found.touch(scope.level)
        return SetLocal(found, value)
    if name.constant:
        raise malformed(f"{brief(name)} is a constant and cannot be set", form)
    return SetGlobal(name, value, site_here(), found is not DYNAMIC)


@special("the")
def _the(form: Any, scope: Scope, tails: Tails) -> Node:
    parts(form, 2, 2, "(the type form)")
    return analyze_car(form.cdr.cdr, scope, tails)


@special("locally")
def _locally(form: Any, scope: Scope, tails: Tails) -> Node:
    forms, specials, _ = split_body(form.cdr, False)
    inner = _declared(scope, specials)
    inner.top_level = False
    return body(forms, inner, tails)


@special("eval-when")
def _eval_when(form: Any, scope: Scope, tails: Tails) -> Node:
    cells = parts(form, 1, None, "(eval-when (situation…) form…)")
    return body(form.cdr.cdr, scope, tails) if _now(cells[0], form) else Constant(NIL)


@special("load-time-value")
def _load_time_value(form: Any, scope: Scope, tails: Tails) -> Node:
    cells = parts(form, 1, 2, "(load-time-value form)")
    return Constant(primary(evaluate_top_level(cells[0])))


@special("declare")
def _declare(form: Any, scope: Scope, tails: Tails) -> Node:
    raise malformed("declare stands only at the beginning of a body", form)


# ---------------------------------------------------------------- binding


def check_bindable(name: Any, form: Any) -> Symbol:
    """The variable of a binding."""
    if not isinstance(name, Symbol):
        raise malformed(f"{brief(name)} is not a variable", form)
    if name.constant:
        raise malformed(f"{brief(name)} is a constant and cannot be bound", form)
    return name


def is_dynamic(name: Symbol, specials: set[Symbol]) -> bool:
    """Whether a new binding of the name is dynamic."""
    return name.special or name in specials


def _bindings(form: Any, operator: str) -> list[tuple[Symbol, Any]]:
    """(variable, cons whose car is the init form, or None) of a let."""
    parts(form, 1, None, f"({operator} ((variable value)…) form…)")
    cells = form.cdr.car
    result: list[tuple[Symbol, Any]] = []
    while isinstance(cells, Cons):
        item = cells.car
        if isinstance(item, Cons):
            if item.cdr is NIL:
                init = None
            elif isinstance(item.cdr, Cons) and item.cdr.cdr is NIL:
                init = item.cdr
            else:
                raise malformed(
                    f"{brief(item)} is not a binding (variable value)",
                    item if type(item) is SrcCons else form,
                )
            result.append((check_bindable(item.car, form), init))
        else:
            result.append((check_bindable(item, form), None))
        cells = cells.cdr
    if cells is not NIL:
        raise malformed(f"malformed {operator}: write ({operator} ((variable value)…) form…)", form)
    return result


def _init(cell: Any, scope: Scope) -> Node:
    return Constant(NIL) if cell is None else analyze_car(cell, scope)


@special("let")
def _let(form: Any, scope: Scope, tails: Tails) -> Node:
    bindings = _bindings(form, "let")
    forms, specials, _ = split_body(form.cdr.cdr, False)
    names = [name for name, _ in bindings]
    if len(set(names)) != len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise malformed(f"let binds {twice.name} twice", form)
    inits = [_init(cell, scope) for _, cell in bindings]
    return bind_parallel(names, inits, specials, forms, scope, tails)


def bind_parallel(
    names: list[Symbol],
    inits: list[Node],
    specials: set[Symbol],
    forms: Any,
    scope: Scope,
    tails: Tails = (),
) -> Node:
    """A node that binds variables, lexical or dynamic, around a body."""
    level = scope.level
    inner = Scope(scope, level)
    table: dict[Symbol, Any] = dict.fromkeys(specials, DYNAMIC)
    variables: list[Var] = []
    dynamic: list[tuple[Symbol, Var]] = []
    for name in names:
        var = Var(name, level)
        variables.append(var)
        if is_dynamic(name, specials):
            table[name] = DYNAMIC
            dynamic.append((name, var))
        else:
            table[name] = var
    inner.variables = table or None
    in_loop = level.loops > 0
    if not names:
        return body(forms, inner, tails)
    if dynamic and len(dynamic) == len(names):
        return BindSpecial(names, inits, body(forms, inner, tails))
    made = body(forms, inner, tails)
    if dynamic:
        made = BindSpecial([n for n, _ in dynamic], [LocalRef(v) for _, v in dynamic], made)
    return Let(variables, inits, made, in_loop)


@special("let*")
def _let_star(form: Any, scope: Scope, tails: Tails) -> Node:
    bindings = _bindings(form, "let*")
    forms, specials, _ = split_body(form.cdr.cdr, False)
    return bind_sequential(bindings, specials, forms, scope, tails)


def bind_sequential(
    bindings: list[tuple[Symbol, Any]],
    specials: set[Symbol],
    forms: Any,
    scope: Scope,
    tails: Tails = (),
) -> Node:
    """let*: each init sees the variables before it."""
    free = specials - {name for name, _ in bindings}
    steps: list[tuple[Symbol, Var | None, Node]] = []
    level = scope.level
    for name, cell in bindings:
        init = _init(cell, scope)
        inner = Scope(scope, level)
        if is_dynamic(name, specials):
            inner.variables = {name: DYNAMIC}
            steps.append((name, None, init))
        else:
            var = Var(name, level)
            inner.variables = {name: var}
            steps.append((name, var, init))
        scope = inner
    if free:
        scope = _declared(scope, free)
        scope.top_level = False
    elif not bindings:
        scope = Scope(scope, level)
    made = body(forms, scope, tails)
    in_loop = level.loops > 0
    at = len(steps)
    while at:
        start = at - 1
        name, var, init = steps[start]
        if var is None:
            made = BindSpecial([name], [init], made)
            at = start
            continue
        while start > 0 and steps[start - 1][1] is not None:
            start -= 1
        run = steps[start:at]
        variables = [v for _, v, _ in run if v is not None]
        inits = [n for _, _, n in run]
        if len(run) == 1:
            made = Let(variables, inits, made, in_loop)
        else:
            made = Sequential(variables, inits, made, in_loop)
        at = start
    return made


@special("progv")
def _progv(form: Any, scope: Scope, tails: Tails) -> Node:
    parts(form, 2, None, "(progv symbols values form…)")
    symbols = analyze_car(form.cdr, scope)
    values = analyze_car(form.cdr.cdr, scope)
    inside = body(form.cdr.cdr.cdr, scope)

    def make(frame: Frame) -> Run:
        names_of, values_of = single(symbols, frame), single(values, frame)
        run_body = inside.emit(frame)

        def run(env: Any) -> Any:
            names = python_list(_proper(names_of(env)))
            given = python_list(_proper(values_of(env)))
            for name in names:
                if not isinstance(name, Symbol):
                    raise type_error(name, "symbol")
                if name.constant:
                    raise program_error(f"{brief(name)} is a constant and cannot be bound")
            saved = [(name, name.value) for name in names]
            for index, name in enumerate(names):
                keep(name)
                name.value = given[index] if index < len(given) else UNBOUND
            try:
                return run_body(env)
            finally:
                for name, value in reversed(saved):
                    name.value = value

        return run

    return Custom(make)


def _proper(value: Any) -> Any:
    at = value
    while isinstance(at, Cons):
        at = at.cdr
    if at is not NIL:
        raise type_error(value, "list")
    return value


def symbol_macrolet_scope(form: Any, scope: Scope) -> Scope:
    """The scope of a symbol-macrolet's body."""
    inner = Scope(scope, scope.level)
    table: dict[Symbol, Any] = {}
    for item in python_list(_proper(form.cdr.car)):
        if (
            not isinstance(item, Cons)
            or not isinstance(item.cdr, Cons)
            or item.cdr.cdr is not NIL
            or not isinstance(item.car, Symbol)
        ):
            raise malformed(f"{brief(item)} is not (symbol expansion)", form)
        if item.car.special or item.car.constant:
            raise malformed(f"{brief(item.car)} is a dynamic variable or constant", form)
        table[item.car] = SymbolMacro(item.cdr.car)
    _, specials, _ = split_body(form.cdr.cdr, False)
    if any(name in table for name in specials):
        raise malformed("symbol-macrolet: a name is declared special", form)
    inner.variables = table or None
    return inner


@special("symbol-macrolet")
def _symbol_macrolet(form: Any, scope: Scope, tails: Tails) -> Node:
    parts(form, 1, None, "(symbol-macrolet ((symbol expansion)…) form…)")
    inner = symbol_macrolet_scope(form, scope)
    forms, specials, _ = split_body(form.cdr.cdr, False)
    declared = _declared(inner, specials)
    declared.top_level = False
    return body(forms, declared, tails)


# ---------------------------------------------------------------- functions


def check_function_name(key: Any, form: Any, what: str) -> None:
    """CL's own operators may not be bound as functions or macros."""
    symbol = key if isinstance(key, Symbol) else None
    if symbol is None or symbol.module is not CL:
        return
    if (
        symbol.function is not None
        or symbol.macro is not None
        or symbol in SPECIAL
        or symbol.constant
    ):
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

    def bind(symbol: Symbol) -> Var:
        var = Var(symbol, level)
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
    if specials:
        inner = _declared(inner, specials)
        inner.top_level = False
    if parsed.aux:
        bindings = [(n, Cons(v, NIL)) for n, v in parsed.aux]
        forms = _blocked(block, forms)
        node.body = bind_sequential(bindings, specials, forms, inner)
    else:
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
        bindings.append((symbol, Cons(hidden, NIL)))

    def later(item: Any) -> tuple[Var, Var]:
        var, hidden = hide(item.target)
        supplied, hidden_supplied = hide(Symbol("supplied"))
        choice = Cons(
            CL.own("if"), Cons(hidden_supplied, Cons(hidden, Cons(item.default, NIL)))
        )
        bindings.append((item.target, Cons(choice, NIL)))
        if item.supplied:
            bindings.append((item.supplied, Cons(hidden_supplied, NIL)))
        return var, supplied

    for item in parsed.optional:
        var, supplied = later(item)
        node.optional.append((var, missing, supplied))
    if parsed.rest is not None:
        var, hidden = hide(parsed.rest)
        node.rest = var
        bindings.append((parsed.rest, Cons(hidden, NIL)))
    if parsed.keys is not None:
        node.keys = []
        node.allow = parsed.allow
        for item in parsed.keys:
            var, supplied = later(item)
            node.keys.append((item.key, var, missing, supplied))
    bindings.extend((name, Cons(value, NIL)) for name, value in parsed.aux)
    node.body = bind_sequential(bindings, specials, _blocked(block, forms), inner)


_BLOCK = CL.own("block")


def _blocked(block: Symbol | None, forms: Any) -> Any:
    return forms if block is None else Cons(Cons(_BLOCK, Cons(block, forms)), NIL)


def block_body(name: Symbol | None, forms: Any, scope: Scope, tails: Tails = ()) -> Node:
    """A body in a block (none: without one)."""
    if name is None:
        return body(forms, scope, tails)
    level = scope.level
    block = Block(name, level)
    inner = Scope(scope, level)
    inner.blocks = {name: block}
    in_loop = level.loops > 0
    made = body(forms, inner, (block, *tails))
    return BlockNode(block, made, in_loop) if block.exits else made


@special("function")
def _function(form: Any, scope: Scope, tails: Tails) -> Node:
    (name,) = parts(form, 1, 1, "(function name) or (function (lambda …))")
    if isinstance(name, Cons) and name.car is LAMBDA:
        return _lambda(name, scope)
    key = function_key(name)
    if key is None:
        if isinstance(name, Function):
            return Constant(name)
        raise malformed(f"{brief(name)} is not a function name", form)
    local = scope.function(key)
    if type(local) is LocalFunction:
        local.var.touch(scope.level)
        return LocalRef(local.var)
    if isinstance(key, tuple):
        symbol = key[1]
        site = site_here()

        def make_setf(frame: Frame) -> Run:
            def run(env: Any) -> Any:
                if not isinstance(symbol.setf, Function):
                    raise undefined_function(name, site)
                return symbol.setf

            return run

        made = Custom(make_setf, False)
        return made
    if name in SPECIAL or name.macro is not None or type(local) is LocalMacro:
        what = "a special operator" if name in SPECIAL else "a macro"
        raise program_error(
            f"{name.name} is {what}, not a function", site_here(), code="not-function", name=name
        )
    if name.function is not None and name.module is CL:
        return Constant(name.function)
    site = site_here()
    if name.function is None and STATE.session is not None:
        STATE.session.note_call(name, site)

    def make(frame: Frame) -> Run:
        def run(env: Any) -> Any:
            function = name.function
            if function is None:
                raise undefined_function(name, site)
            return function

        return run

    return Custom(make, False)


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
    return _lambda(form, scope)


def _definitions(form: Any, operator: str) -> list[Any]:
    parts(form, 1, None, f"({operator} ((name (parameter…) form…)…) form…)")
    result: list[Any] = []
    for item in python_list(_proper(form.cdr.car)):
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
    return local


def _local_lambda(key: Any, item: Any, scope: Scope) -> LambdaNode:
    symbol = key if isinstance(key, Symbol) else key[1]
    name = key.name if isinstance(key, Symbol) else f"(setf {symbol.name})"
    return lambda_node(name, item.cdr.car, item.cdr.cdr, scope, symbol, item)


@special("flet")
def _flet(form: Any, scope: Scope, tails: Tails) -> Node:
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
    declared = _declared(inner, specials)
    declared.top_level = False
    in_loop = level.loops > 0
    made = body(forms, declared, tails)
    return Let([local.var for local in locals_], nodes, made, in_loop) if nodes else made


@special("labels")
def _labels(form: Any, scope: Scope, tails: Tails) -> Node:
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
    declared = _declared(inner, specials)
    declared.top_level = False
    in_loop = level.loops > 0
    made = body(forms, declared, tails)
    if not nodes:
        return made
    variables = [local.var for local in locals_]

    def make(frame: Frame) -> Run:
        target = frame
        if in_loop and any(var.captured for var in variables):
            target = Frame(frame)
        indices = [var.place(target) for var in variables]
        runs = [node.emit(target) for node in nodes]
        run_body = made.emit(target)
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

    return Custom(make, made.multi)


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
    inner = macrolet_scope(form, scope)
    forms, specials, _ = split_body(form.cdr.cdr, False)
    declared = _declared(inner, specials)
    declared.top_level = False
    return body(forms, declared, tails)


# ---------------------------------------------------------------- control


@special("block")
def _block(form: Any, scope: Scope, tails: Tails) -> Node:
    name = parts(form, 1, None, "(block name form…)")[0]
    if not isinstance(name, Symbol):
        raise malformed(f"{brief(name)} is not a block name", form)
    return block_body(name, form.cdr.cdr, scope, tails)


@special("return-from")
def _return_from(form: Any, scope: Scope, tails: Tails) -> Node:
    cells = parts(form, 1, 2, "(return-from name [value])")
    name = cells[0]
    if not isinstance(name, Symbol):
        raise malformed(f"{brief(name)} is not a block name", form)
    return return_from(name, form.cdr.cdr if len(cells) == 2 else None, scope, tails, form)


def return_from(
    name: Symbol, value_cell: Any, scope: Scope, tails: Tails, form: Any
) -> Node:
    """A return: the value itself where the form is the last act of the block."""
    block = scope.block(name)
    if block is None:
        raise malformed(f"there is no block named {brief(name)} around this return", form)
    if block in tails:
        return Constant(NIL) if value_cell is None else analyze_car(value_cell, scope, tails)
    value = Constant(NIL) if value_cell is None else analyze_car(value_cell, scope)
    far = block.level is not scope.level
    if far:
        block.var.captured = True
    return ReturnFrom(block, value, far, site_here())


def tag_key(tag: Any) -> Any:
    """The key of a tag: symbols by identity, integers by value."""
    return tag if isinstance(tag, Symbol) else ("integer", tag)


def is_tag(item: Any) -> bool:
    return isinstance(item, Symbol) or isinstance(item, int)


@special("tagbody")
def _tagbody(form: Any, scope: Scope, tails: Tails) -> Node:
    return tagbody_node(form.cdr, scope, tails, form)


def tagbody_node(cells: Any, scope: Scope, tails: Tails, form: Any) -> Node:
    """A tagbody of statements and tags."""
    level = scope.level
    tagbody = Tagbody(level)
    items: list[Any] = []
    at = cells
    count = 0
    targets: list[int] = []
    while isinstance(at, Cons):
        item = at.car
        if is_tag(item):
            key = tag_key(item)
            if key in tagbody.indices:
                raise malformed(f"the tag {brief(item)} occurs twice", form)
            tagbody.indices[key] = len(targets)
            targets.append(count)
        else:
            items.append(at)
            count += 1
        at = at.cdr
    if at is not NIL:
        raise malformed("a tagbody is a dotted list", form)
    inner = scope
    in_loop = level.loops > 0
    outer = tuple(t for t in tails if type(t) is Tagbody)
    if targets:
        inner = Scope(scope, level)
        inner.tags = dict.fromkeys(tagbody.indices, tagbody)
        level.loops += 1
    try:
        around = (tagbody, *outer)
        statements = [analyze_car(cell, inner, around) for cell in items]
    finally:
        if targets:
            level.loops -= 1
    if not targets:
        if not statements:
            return Constant(NIL)
        if not outer:
            return Progn([*statements, Constant(NIL)])
    return TagbodyNode(tagbody, statements, targets, in_loop)


@special("go")
def _go(form: Any, scope: Scope, tails: Tails) -> Node:
    (tag,) = parts(form, 1, 1, "(go tag)")
    if not is_tag(tag):
        raise malformed(f"{brief(tag)} is not a tag", form)
    key = tag_key(tag)
    tagbody = scope.tag(key)
    if tagbody is None:
        raise malformed(f"there is no tag {brief(tag)} here", form)
    if tagbody.level is not scope.level:
        tagbody.var.captured = True
    return Go(tagbody, tagbody.indices[key], tagbody in tails, site_here())


@special("catch")
def _catch(form: Any, scope: Scope, tails: Tails) -> Node:
    parts(form, 1, None, "(catch tag form…)")
    tag = analyze_car(form.cdr, scope)
    inside = body(form.cdr.cdr, scope)

    def make(frame: Frame) -> Run:
        tag_of, run_body = single(tag, frame), inside.emit(frame)

        def run(env: Any) -> Any:
            value = tag_of(env)
            depth = len(CATCH_TAGS)
            CATCH_TAGS.append(value)
            try:
                return run_body(env)
            except ThrowExit as thrown:
                if thrown.tag is not value:
                    raise
                return thrown.value
            finally:
                del CATCH_TAGS[depth:]

        return run

    return Custom(make)


@special("throw")
def _throw(form: Any, scope: Scope, tails: Tails) -> Node:
    parts(form, 2, 2, "(throw tag value)")
    tag, value = analyze_car(form.cdr, scope), analyze_car(form.cdr.cdr, scope)
    site = site_here()

    def make(frame: Frame) -> Run:
        tag_of, value_of = single(tag, frame), value.emit(frame)

        def run(env: Any) -> Any:
            wanted = tag_of(env)
            result = value_of(env)
            for active in reversed(CATCH_TAGS):
                if active is wanted or (
                    type(active) is int and type(wanted) is int and active == wanted
                ):
                    raise ThrowExit(active, result)
            STATE.site = site
            raise control_error(f"no catch for the tag {brief(wanted)}")

        return run

    return Custom(make)


@special("unwind-protect")
def _unwind_protect(form: Any, scope: Scope, tails: Tails) -> Node:
    parts(form, 1, None, "(unwind-protect form cleanup…)")
    protected = analyze_car(form.cdr, scope)
    if form.cdr.cdr is NIL:
        return protected
    return UnwindProtect(protected, body(form.cdr.cdr, scope))


# ---------------------------------------------------------------- multiple values


@special("multiple-value-call")
def _multiple_value_call(form: Any, scope: Scope, tails: Tails) -> Node:
    parts(form, 1, None, "(multiple-value-call function form…)")
    function = analyze_car(form.cdr, scope)
    nodes: list[Node] = []
    at = form.cdr.cdr
    while at is not NIL:
        nodes.append(analyze_car(at, scope))
        at = at.cdr
    site = site_here()

    def make(frame: Frame) -> Run:
        from sexpgpu.lisp.calls import call_values

        function_of = single(function, frame)
        runs = tuple(node.emit(frame) for node in nodes)

        def run(env: Any) -> Any:
            target = function_of(env)
            values: list[Any] = []
            for one in runs:
                values.extend(values_list(one(env)))
            STATE.site = site
            return call_values(as_function(target), *values)

        return run

    return Custom(make)


@special("multiple-value-prog1")
def _multiple_value_prog1(form: Any, scope: Scope, tails: Tails) -> Node:
    parts(form, 1, None, "(multiple-value-prog1 form form…)")
    first = analyze_car(form.cdr, scope)
    rest = body(form.cdr.cdr, scope)

    def make(frame: Frame) -> Run:
        run_first, run_rest = first.emit(frame), rest.emit(frame)

        def run(env: Any) -> Any:
            result = run_first(env)
            run_rest(env)
            return result

        return run

    return Custom(make, first.multi)


__all__ = ["MV", "T", "variable"]
