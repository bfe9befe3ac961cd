"""Control macros that the analyser compiles directly: cond, case, loops, multiple values."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from sexpgpu.lisp.analyze import (
    Tails,
    analyze,
    analyze_car,
    body,
    malformed,
    native,
    parts,
    site_here,
)
from sexpgpu.lisp.calls import values_list
from sexpgpu.lisp.callnodes import CallValue
from sexpgpu.lisp.declarations import split_body
from sexpgpu.lisp.errors import make_error, type_error
from sexpgpu.lisp.nodes import (
    And,
    BindSpecial,
    BlockNode,
    Constant,
    Custom,
    If,
    Let,
    LocalRef,
    Node,
    Or,
    Progn,
    Run,
    progn,
    single,
)
from sexpgpu.lisp.patterns import pattern
from sexpgpu.lisp.scope import Block, Frame, Scope, Var
from sexpgpu.lisp.special import (
    assign,
    bind_parallel,
    bind_sequential,
    check_bindable,
    is_dynamic,
    return_from,
    tagbody_node,
)
from sexpgpu.lisp.state import STATE, Site
from sexpgpu.lisp.values import CL, MV, NIL, Char, Cons, SrcCons, Symbol, T, python_list
from sexpgpu.reader.printer import brief

OTHERWISE = CL.own("otherwise")
SETF = CL.own("setf")


@native("when")
def _when(form: Any, scope: Scope, tails: Tails) -> Node:
    parts(form, 1, None, "(when test form…)")
    return If(
        analyze_car(form.cdr, scope), body(form.cdr.cdr, scope, tails), Constant(NIL)
    )


@native("unless")
def _unless(form: Any, scope: Scope, tails: Tails) -> Node:
    parts(form, 1, None, "(unless test form…)")
    return If(
        analyze_car(form.cdr, scope), Constant(NIL), body(form.cdr.cdr, scope, tails)
    )


@native("and")
def _and(form: Any, scope: Scope, tails: Tails) -> Node:
    nodes = _each(form, scope, tails)
    return And(nodes) if len(nodes) > 1 else nodes[0] if nodes else Constant(T)


@native("or")
def _or(form: Any, scope: Scope, tails: Tails) -> Node:
    nodes = _each(form, scope, tails)
    return Or(nodes) if len(nodes) > 1 else nodes[0] if nodes else Constant(NIL)


def _each(form: Any, scope: Scope, tails: Tails) -> list[Node]:
    parts(form, 0, None, f"({form.car.name} form…)")
    nodes: list[Node] = []
    at = form.cdr
    while at is not NIL:
        nodes.append(analyze_car(at, scope, tails if at.cdr is NIL else ()))
        at = at.cdr
    return nodes


@native("cond")
def _cond(form: Any, scope: Scope, tails: Tails) -> Node:
    clauses = parts(form, 0, None, "(cond (test form…)…)")
    made: list[tuple[Node, Node | None]] = []
    for clause in clauses:
        if not isinstance(clause, Cons):
            raise malformed(f"{brief(clause)} is not a clause (test form…)", form)
        test = analyze_car(clause, scope)
        made.append((test, None if clause.cdr is NIL else body(clause.cdr, scope, tails)))
    result: Node = Constant(NIL)
    for test, then in reversed(made):
        if then is None:
            result = Or([test, result]) if result is not None else test
        elif isinstance(test, Constant) and test.value is not NIL:
            result = then
        else:
            result = If(test, then, result)
    return result


@native("prog1")
def _prog1(form: Any, scope: Scope, tails: Tails) -> Node:
    parts(form, 1, None, "(prog1 form form…)")
    return _first_of(analyze_car(form.cdr, scope), body(form.cdr.cdr, scope))


def _first_of(first: Node, rest: Node) -> Node:
    def make(frame: Frame) -> Run:
        run_first, run_rest = single(first, frame), rest.emit(frame)

        def run(env: Any) -> Any:
            value = run_first(env)
            run_rest(env)
            return value

        return run

    return Custom(make, False)


@native("prog2")
def _prog2(form: Any, scope: Scope, tails: Tails) -> Node:
    parts(form, 2, None, "(prog2 form form form…)")
    first = analyze_car(form.cdr, scope)
    kept = _first_of(analyze_car(form.cdr.cdr, scope), body(form.cdr.cdr.cdr, scope))
    made = Progn([first, kept])
    return made


@native("return")
def _return(form: Any, scope: Scope, tails: Tails) -> Node:
    cells = parts(form, 0, 1, "(return [value])")
    return return_from(NIL, form.cdr if cells else None, scope, tails, form)


# ---------------------------------------------------------------- case


def case_key(value: Any) -> Any:
    """A dictionary key that agrees with eql."""
    kind = type(value)
    if kind is float or kind is Fraction:
        return (kind, value, str(value))
    if isinstance(value, int):
        return (int, int(value))
    if kind is Char:
        return (Char, value.code)
    return value


def _case_clauses(form: Any, strict: bool) -> tuple[list[tuple[list[Any], Any]], Any]:
    """([(keys, body cells)…], the body cells of the otherwise clause or None)."""
    clauses: list[tuple[list[Any], Any]] = []
    otherwise: Any = None
    at = form.cdr.cdr
    while isinstance(at, Cons):
        clause = at.car
        if not isinstance(clause, Cons):
            raise malformed(f"{brief(clause)} is not a clause (keys form…)", form)
        keys = clause.car
        if not strict and (keys is T or keys is OTHERWISE):
            if at.cdr is not NIL:
                raise malformed(f"the clause {keys.name} must be the last", form)
            otherwise = clause.cdr
        elif isinstance(keys, Cons):
            clauses.append((python_list(keys), clause.cdr))
        else:
            clauses.append(([] if keys is NIL else [keys], clause.cdr))
        at = at.cdr
    return clauses, otherwise


def _case_node(form: Any, scope: Scope, tails: Tails, strict: bool, miss: Node | None) -> Node:
    name = form.car.name
    parts(form, 1, None, f"({name} key (keys form…)…)")
    clauses, otherwise = _case_clauses(form, strict)
    key = analyze_car(form.cdr, scope)
    bodies = [body(cells, scope, tails) for _, cells in clauses]
    default = body(otherwise, scope, tails) if otherwise is not None else miss or Constant(NIL)
    every = [k for keys, _ in clauses for k in keys]
    site = site_here()

    def make(frame: Frame) -> Run:
        run_key = single(key, frame)
        runs = [node.emit(frame) for node in bodies]
        run_default = default.emit(frame)
        table: dict[Any, Run] = {}
        for (keys, _), run in zip(clauses, runs, strict=True):
            for item in keys:
                table.setdefault(case_key(item), run)
        find = table.get

        def run(env: Any) -> Any:
            value = run_key(env)
            chosen = find(value if type(value) is Symbol else case_key(value))
            if chosen is not None:
                return chosen(env)
            if strict:
                STATE.site = site
                raise case_failure(value, every)
            return run_default(env)

        return run

    return Custom(make, any(node.multi for node in (*bodies, default)))


def case_failure(value: Any, keys: list[Any]) -> Exception:
    """The type-error of ecase and ccase."""
    from sexpgpu.lisp.values import lisp_list

    expected = Cons(CL.own("member"), lisp_list(keys))
    shown = " ".join(brief(k) for k in keys)
    return make_error(
        "type-error",
        datum=value,
        expected_form=expected,
        message=f"{brief(value)} is none of the keys {shown}" if keys else None,
        code="case",
    )


@native("case")
def _case(form: Any, scope: Scope, tails: Tails) -> Node:
    return _case_node(form, scope, tails, False, None)


@native("ecase")
def _ecase(form: Any, scope: Scope, tails: Tails) -> Node:
    return _case_node(form, scope, tails, True, None)


def _typecase_node(form: Any, scope: Scope, tails: Tails, strict: bool) -> Node:
    name = form.car.name
    parts(form, 1, None, f"({name} object (type form…)…)")
    key = analyze_car(form.cdr, scope)
    clauses: list[tuple[Any, Node]] = []
    at = form.cdr.cdr
    while isinstance(at, Cons):
        clause = at.car
        if not isinstance(clause, Cons):
            raise malformed(f"{brief(clause)} is not a clause (type form…)", form)
        kind = clause.car
        if not strict and kind is OTHERWISE:
            if at.cdr is not NIL:
                raise malformed("the clause otherwise must be the last", form)
            kind = T
        clauses.append((kind, body(clause.cdr, scope, tails)))
        at = at.cdr
    site = site_here()

    def make(frame: Frame) -> Run:
        from sexpgpu.lisp.builtins.type_specifiers import typep

        run_key = single(key, frame)
        runs = tuple((kind, node.emit(frame)) for kind, node in clauses)

        def run(env: Any) -> Any:
            value = run_key(env)
            STATE.site = site
            for kind, chosen in runs:
                if kind is T or typep(value, kind):
                    return chosen(env)
            if strict:
                from sexpgpu.lisp.values import lisp_list

                kinds = lisp_list([kind for kind, _ in runs])
                raise type_error(value, Cons(CL.own("or"), kinds))
            return NIL

        return run

    return Custom(make, True)


@native("typecase")
def _typecase(form: Any, scope: Scope, tails: Tails) -> Node:
    return _typecase_node(form, scope, tails, False)


@native("etypecase")
def _etypecase(form: Any, scope: Scope, tails: Tails) -> Node:
    return _typecase_node(form, scope, tails, True)


# ---------------------------------------------------------------- loops


def _in_block(make: Callable[[Scope], Node], scope: Scope) -> Node:
    """What `make` gives, inside a block named nil."""
    level = scope.level
    block = Block(NIL, level)
    inner = Scope(scope, level)
    inner.blocks = {NIL: block}
    in_loop = level.loops > 0
    made = make(inner)
    return BlockNode(block, made, in_loop) if block.exits else made


def _loop_body(cells: Any, scope: Scope, form: Any) -> Node:
    """The body of a loop: an implicit tagbody, analysed as running many times."""
    level = scope.level
    level.loops += 1
    try:
        return tagbody_node(cells, scope, (), form)
    finally:
        level.loops -= 1


class Counted(Node):
    """dotimes."""

    __slots__ = ("body", "count", "result", "site", "symbol", "var")

    def __init__(
        self, var: Var, symbol: Any, count: Node, body: Node, result: Node, site: Site
    ) -> None:
        self.var = var
        self.symbol = symbol
        self.count = count
        self.body = body
        self.result = result
        self.site = site

    def emit(self, frame: Frame) -> Run:
        count = single(self.count, frame)
        index = self.var.place(frame)
        run_body = self.body.emit(frame)
        result = self.result.emit(frame)
        site, state = self.site, STATE

        def run(env: Any) -> Any:
            limit = count(env)
            if not isinstance(limit, int):
                state.site = site
                raise type_error(limit, "integer")
            i = 0
            env[index] = 0
            while i < limit:
                state.fuel = fuel = state.fuel - 1
                if fuel < 0:
                    state.refuel()
                run_body(env)
                env[index] = i = env[index] + 1
            return result(env)

        return run


@native("dotimes")
def _dotimes(form: Any, scope: Scope, tails: Tails) -> Node:
    usage = "(dotimes (variable count [result]) form…)"
    spec = parts(form, 1, None, usage)[0]
    cells = _spec(spec, form, usage)
    name = check_bindable(spec.car, form)
    count_cell = spec.cdr
    result_cell = spec.cdr.cdr if len(cells) == 3 else None
    return _iteration(form, scope, name, count_cell, result_cell, Counted)


@native("dolist")
def _dolist(form: Any, scope: Scope, tails: Tails) -> Node:
    usage = "(dolist (variable list [result]) form…)"
    spec = parts(form, 1, None, usage)[0]
    cells = _spec(spec, form, usage)
    name = check_bindable(spec.car, form)
    result_cell = spec.cdr.cdr if len(cells) == 3 else None
    return _iteration(form, scope, name, spec.cdr, result_cell, Listed)


def _spec(spec: Any, form: Any, usage: str) -> list[Any]:
    cells: list[Any] = []
    at = spec
    while isinstance(at, Cons):
        cells.append(at.car)
        at = at.cdr
    if at is not NIL or not 2 <= len(cells) <= 3:
        raise malformed(f"malformed {form.car.name}: write {usage}", form)
    return cells


def _iteration(
    form: Any, scope: Scope, name: Symbol, over: Any, result: Any, kind: Any
) -> Node:
    """dotimes and dolist: the variable in a frame slot, the rest as it is."""
    forms, specials, _ = split_body(form.cdr.cdr, False)
    level = scope.level

    def make(inner: Scope) -> Node:
        source = analyze_car(over, inner)
        hidden = Var(name, level)
        dynamic = is_dynamic(name, specials)
        in_loop = level.loops > 0
        if dynamic:
            # A let of the dynamic variable around the loop; each round sets it.
            counter = Symbol("counter")
            outer = Scope(inner, level)
            outer.variables = {counter: hidden}

            def in_binding(cells: Any) -> Node:
                inside = Scope(outer, level)
                return bind_parallel([name], [LocalRef(hidden)], specials, cells, inside)

            level.loops += 1
            try:
                setter = Cons(CL.own("setq"), Cons(name, Cons(counter, NIL)))
                tagged = Cons(Cons(CL.own("tagbody"), forms), NIL)
                round_body = in_binding(Cons(setter, tagged))
            finally:
                level.loops -= 1
            end = in_binding(Cons(result.car, NIL)) if result is not None else Constant(NIL)
            return kind(hidden, name, source, round_body, end, site_here())
        bound = Scope(inner, level)
        bound.variables = {name: hidden}
        if specials:
            from sexpgpu.lisp.scope import DYNAMIC

            bound.variables = {**dict.fromkeys(specials, DYNAMIC), name: hidden}
        made_body = _loop_body(forms, bound, form)
        end = analyze_car(result, bound) if result is not None else Constant(NIL)
        node = kind(hidden, name, source, made_body, end, site_here())
        if in_loop and hidden.captured:
            return OwnFrame(node)
        return node

    return _in_block(make, scope)


class OwnFrame(Node):
    """Gives a loop inside a loop a frame of its own: a closure captured its variable."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    def emit(self, frame: Frame) -> Run:
        inner = Frame(frame)
        run = self.node.emit(inner)
        padding = (None,) * (inner.size - 1)
        return lambda env: run([env, *padding])


class Listed(Node):
    """dolist."""

    __slots__ = ("body", "list", "result", "site", "symbol", "var")

    def __init__(
        self, var: Var, symbol: Any, list: Node, body: Node, result: Node, site: Site
    ) -> None:
        self.var = var
        self.symbol = symbol
        self.list = list
        self.body = body
        self.result = result
        self.site = site

    def emit(self, frame: Frame) -> Run:
        list_of = single(self.list, frame)
        index = self.var.place(frame)
        run_body = self.body.emit(frame)
        result = self.result.emit(frame)
        site, state = self.site, STATE

        def run(env: Any) -> Any:
            at = list_of(env)
            while isinstance(at, Cons):
                state.fuel = fuel = state.fuel - 1
                if fuel < 0:
                    state.refuel()
                env[index] = at.car
                at = at.cdr
                run_body(env)
            if at is not NIL:
                state.site = site
                raise type_error(at, "list")
            env[index] = NIL
            return result(env)

        return run


class DoLoop(Node):
    """do and do*: test first, then body, then steps."""

    __slots__ = ("body", "condition", "result", "steps")

    def __init__(self, condition: Node, body: Node, steps: Node, result: Node) -> None:
        self.condition = condition
        self.body = body
        self.steps = steps
        self.result = result

    def emit(self, frame: Frame) -> Run:
        test = self.condition.test(frame)
        run_body = self.body.emit(frame)
        steps = self.steps.emit(frame)
        result = self.result.emit(frame)
        state = STATE

        def run(env: Any) -> Any:
            while not test(env):
                state.fuel = fuel = state.fuel - 1
                if fuel < 0:
                    state.refuel()
                run_body(env)
                steps(env)
            return result(env)

        return run


def _do_node(form: Any, scope: Scope, sequential: bool) -> Node:
    name = form.car.name
    usage = f"({name} ((variable init step)…) (test result…) form…)"
    cells = parts(form, 2, None, usage)
    if not isinstance(cells[1], Cons):
        raise malformed(f"malformed {name}: write {usage}", form)
    bindings: list[tuple[Symbol, Any]] = []
    steps: list[tuple[Symbol, Any]] = []
    at = cells[0]
    while isinstance(at, Cons):
        item = at.car
        if isinstance(item, Cons):
            rest = item.cdr
            more = rest.cdr if isinstance(rest, Cons) else NIL
            if (isinstance(more, Cons) and more.cdr is not NIL) or not (
                isinstance(rest, Cons) or rest is NIL
            ):
                raise malformed(f"{brief(item)} is not (variable init step)", form)
            variable = check_bindable(item.car, form)
            bindings.append((variable, rest if isinstance(rest, Cons) else None))
            if isinstance(more, Cons):
                steps.append((variable, more))
        else:
            bindings.append((check_bindable(item, form), None))
        at = at.cdr
    if at is not NIL:
        raise malformed(f"malformed {name}: write {usage}", form)
    forms, specials, _ = split_body(form.cdr.cdr.cdr, False)
    end = cells[1]

    def inside(inner: Scope) -> Node:
        level = inner.level
        level.loops += 1
        try:
            condition = analyze_car(end, inner)
            made_body = tagbody_node(forms, inner, (), form)
            nodes = [analyze_car(cell, inner) for _, cell in steps]
            if sequential or len(steps) <= 1:
                step = progn(
                    [
                        assign(variable, node, inner, form)
                        for (variable, _), node in zip(steps, nodes, strict=True)
                    ]
                )
            else:
                step = _parallel_assign([v for v, _ in steps], nodes, inner, form)
        finally:
            level.loops -= 1
        result = body(end.cdr, inner)
        return DoLoop(condition, made_body, step, result)

    def make(inner: Scope) -> Node:
        operator = Operator_(inside)
        expansion = Cons(Cons(operator, NIL), NIL)
        if sequential:
            return bind_sequential(bindings, specials, expansion, inner)
        inits = [
            Constant(NIL) if cell is None else analyze_car(cell, inner) for _, cell in bindings
        ]
        names = [variable for variable, _ in bindings]
        return bind_parallel(names, inits, specials, expansion, inner)

    return _in_block(make, scope)


def Operator_(inside: Callable[[Scope], Node]) -> Any:  # noqa: N802
    """A one-off operator whose analysis is a Python function of the scope."""
    from sexpgpu.lisp.hostforms import Operator

    made = Operator("%inside")
    made.analyze = lambda form, scope, tails: inside(scope)
    return made


def _parallel_assign(
    names: list[Symbol], nodes: list[Node], scope: Scope, form: Any
) -> Node:
    """Compute all values, then set all variables."""
    level = scope.level
    temporaries = [Var(name, level) for name in names]
    sets = [
        assign(name, LocalRef(var), scope, form)
        for name, var in zip(names, temporaries, strict=True)
    ]
    return Let(temporaries, nodes, progn([*sets, Constant(NIL)]), False)


@native("do")
def _do(form: Any, scope: Scope, tails: Tails) -> Node:
    return _do_node(form, scope, False)


@native("do*")
def _do_star(form: Any, scope: Scope, tails: Tails) -> Node:
    return _do_node(form, scope, True)


@native("psetq")
def _psetq(form: Any, scope: Scope, tails: Tails) -> Node:
    cells = parts(form, 0, None, "(psetq variable value …)")
    if len(cells) % 2:
        raise malformed("psetq takes variables and values in pairs", form)
    names = cells[::2]
    for name in names:
        if not isinstance(name, Symbol):
            raise malformed(f"{brief(name)} is not a variable", form)
    from sexpgpu.lisp.macros import macroexpand_1

    if any(macroexpand_1(name, scope)[1] for name in names):
        return analyze(Cons(CL.own("psetf"), form.cdr), scope)
    nodes: list[Node] = []
    at = form.cdr
    while at is not NIL:
        nodes.append(analyze_car(at.cdr, scope))
        at = at.cdr.cdr
    if not names:
        return Constant(NIL)
    return _parallel_assign(names, nodes, scope, form)


def _prog_node(form: Any, scope: Scope, sequential: bool) -> Node:
    name = form.car.name
    parts(form, 1, None, f"({name} (variable…) form…)")
    forms, specials, _ = split_body(form.cdr.cdr, False)
    declared: Any = NIL
    if specials:
        from sexpgpu.lisp.values import lisp_list

        declaration = Cons(CL.own("special"), lisp_list(list(specials)))
        declared = Cons(CL.own("declare"), Cons(declaration, NIL))
    tagged = Cons(Cons(CL.own("tagbody"), forms), NIL)
    inner = Cons(declared, tagged) if declared is not NIL else tagged
    let = Cons(CL.own("let*" if sequential else "let"), Cons(form.cdr.car, inner))
    return _in_block(lambda inside: analyze(let, inside), scope)


@native("prog")
def _prog(form: Any, scope: Scope, tails: Tails) -> Node:
    return _prog_node(form, scope, False)


@native("prog*")
def _prog_star(form: Any, scope: Scope, tails: Tails) -> Node:
    return _prog_node(form, scope, True)


# ---------------------------------------------------------------- multiple values


@native("multiple-value-bind")
def _multiple_value_bind(form: Any, scope: Scope, tails: Tails) -> Node:
    cells = parts(form, 2, None, "(multiple-value-bind (variable…) form form…)")
    names = [check_bindable(item, form) for item in _list_of(cells[0], form)]
    source = analyze_car(form.cdr.cdr, scope)
    forms, specials, _ = split_body(form.cdr.cdr.cdr, False)
    level = scope.level
    inner = Scope(scope, level)
    table: dict[Symbol, Any] = {}
    from sexpgpu.lisp.scope import DYNAMIC

    table.update(dict.fromkeys(specials, DYNAMIC))
    variables: list[Var] = []
    dynamic: list[tuple[Symbol, Var]] = []
    for name in names:
        var = Var(name, level)
        variables.append(var)
        if is_dynamic(name, specials):
            dynamic.append((name, var))
            table[name] = DYNAMIC
        else:
            table[name] = var
    inner.variables = table or None
    in_loop = level.loops > 0
    made = body(forms, inner, tails)
    if dynamic:
        made = BindSpecial([n for n, _ in dynamic], [LocalRef(v) for _, v in dynamic], made)
    return BindValues(variables, source, made, in_loop)


class BindValues(Node):
    """Bind variables to the values of one form."""

    __slots__ = ("body", "in_loop", "multi", "source", "variables")

    def __init__(self, variables: list[Var], source: Node, body: Node, in_loop: bool) -> None:
        self.variables = variables
        self.source = source
        self.body = body
        self.in_loop = in_loop
        self.multi = body.multi

    def emit(self, frame: Frame) -> Run:
        source = self.source.emit(frame)
        inner = frame
        if self.in_loop and any(var.captured for var in self.variables):
            inner = Frame(frame)
        indices = [var.place(inner) for var in self.variables]
        run_body = self.body.emit(inner)
        count = len(indices)
        low = indices[0] if indices else 1
        high = low + count
        fresh = inner is not frame
        padding = (None,) * (inner.size - 1)
        missing = (NIL,) * count

        def run(env: Any) -> Any:
            value = source(env)
            if fresh:
                env = [env, *padding]
            if count:
                values = value if type(value) is MV else (value,)
                env[low:high] = (
                    values[:count] if len(values) >= count else (*values, *missing)[:count]
                )
            return run_body(env)

        return run


def _list_of(value: Any, form: Any) -> list[Any]:
    result: list[Any] = []
    at = value
    while isinstance(at, Cons):
        result.append(at.car)
        at = at.cdr
    if at is not NIL:
        raise malformed(f"{brief(value)} is not a list of variables", form)
    return result


@native("multiple-value-list")
def _multiple_value_list(form: Any, scope: Scope, tails: Tails) -> Node:
    parts(form, 1, 1, "(multiple-value-list form)")
    source = analyze_car(form.cdr, scope)

    def make(frame: Frame) -> Run:
        from sexpgpu.lisp.values import lisp_list

        run = source.emit(frame)
        return lambda env: lisp_list(values_list(run(env)))

    return Custom(make, False)


@native("multiple-value-setq")
def _multiple_value_setq(form: Any, scope: Scope, tails: Tails) -> Node:
    cells = parts(form, 2, 2, "(multiple-value-setq (variable…) form)")
    names = _list_of(cells[0], form)
    if not names:
        return _first_of(analyze_car(form.cdr.cdr, scope), Constant(NIL))
    from sexpgpu.lisp.values import lisp_list

    places = Cons(CL.own("values"), lisp_list(names))
    setting = Cons(SETF, Cons(places, form.cdr.cdr))
    return _first_of(analyze(setting, scope), Constant(NIL))


@native("nth-value")
def _nth_value(form: Any, scope: Scope, tails: Tails) -> Node:
    parts(form, 2, 2, "(nth-value n form)")
    number, source = analyze_car(form.cdr, scope), analyze_car(form.cdr.cdr, scope)
    site = site_here()

    def make(frame: Frame) -> Run:
        run_number, run_source = single(number, frame), source.emit(frame)

        def run(env: Any) -> Any:
            index = run_number(env)
            values = values_list(run_source(env))
            if not isinstance(index, int) or index < 0:
                STATE.site = site
                raise type_error(index, "(integer 0)")
            return values[index] if index < len(values) else NIL

        return run

    return Custom(make, False)


@native("destructuring-bind")
def _destructuring_bind(form: Any, scope: Scope, tails: Tails) -> Node:
    cells = parts(form, 2, None, "(destructuring-bind (pattern…) form form…)")
    source = analyze_car(form.cdr.cdr, scope)
    forms, specials, _ = split_body(form.cdr.cdr.cdr, False)
    level = scope.level
    made = pattern(cells[0], "destructuring-bind", Scope(scope, level), specials)
    inner = made.scope
    in_loop = level.loops > 0
    inside = made.wrap(body(forms, inner, tails))
    site = site_here()

    def emit(frame: Frame) -> Run:
        run_source = single(source, frame)
        target = frame
        if in_loop and any(var.captured for var in made.variables):
            target = Frame(frame)
        bind = made.emit(target)
        run_body = inside.emit(target)
        fresh = target is not frame
        padding = (None,) * (target.size - 1)

        def run(env: Any) -> Any:
            value = run_source(env)
            STATE.site = site
            if fresh:
                env = [env, *padding]
            bind(env, value)
            return run_body(env)

        return run

    return Custom(emit, inside.multi)


# ---------------------------------------------------------------- calls


@native("funcall")
def _funcall(form: Any, scope: Scope, tails: Tails) -> Node:
    parts(form, 1, None, "(funcall function argument…)")
    function = analyze_car(form.cdr, scope)
    nodes: list[Node] = []
    at = form.cdr.cdr
    while at is not NIL:
        nodes.append(analyze_car(at, scope))
        at = at.cdr
    return CallValue(function, nodes, site_here())


@native("apply")
def _apply(form: Any, scope: Scope, tails: Tails) -> Node:
    from sexpgpu.lisp.callnodes import ApplyNode

    parts(form, 2, None, "(apply function argument… list)")
    function = analyze_car(form.cdr, scope)
    nodes: list[Node] = []
    at = form.cdr.cdr
    while at is not NIL:
        nodes.append(analyze_car(at, scope))
        at = at.cdr
    return ApplyNode(function, nodes, site_here())


__all__ = ["SrcCons"]
