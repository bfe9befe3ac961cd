"""The loops of CL that are compiled directly: dotimes, dolist, do, prog, psetq."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.analyze import (
    AT,
    Tails,
    analyze,
    analyze_car,
    body,
    hygiene,
    malformed,
    native,
    parts,
    site_here,
)
from sexpgpu.lisp.binding_nodes import Let
from sexpgpu.lisp.control_forms import tagbody_node
from sexpgpu.lisp.declarations import split_body
from sexpgpu.lisp.errors import type_error
from sexpgpu.lisp.exits import BlockNode
from sexpgpu.lisp.nodes import Constant, Node, Run, progn, single
from sexpgpu.lisp.scope import Block, Frame, Scope, Var
from sexpgpu.lisp.special import (
    assign,
    bind_parallel,
    bind_sequential,
    check_bindable,
    is_dynamic,
)
from sexpgpu.lisp.state import STATE, Site
from sexpgpu.lisp.tiers import LoopTier
from sexpgpu.lisp.values import CL, NIL, Cons, Symbol, new_cons
from sexpgpu.lisp.variable_nodes import LocalRef
from sexpgpu.reader.printer import brief

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

    __slots__ = ("body", "count", "result", "site", "symbol", "tier", "var")

    def __init__(
        self, var: Var, symbol: Any, count: Node, body: Node, result: Node, site: Site
    ) -> None:
        self.var = var
        self.symbol = symbol
        self.count = count
        var.inits = [Constant(0)]
        self.body = body
        self.result = result
        self.site = site
        self.tier = LoopTier(self)

    def emit(self, frame: Frame) -> Run:
        count = single(self.count, frame)
        index = self.var.place(frame)
        run_body = self.body.emit(frame)
        result = self.result.emit(frame)
        site, state, tier = self.site, STATE, self.tier
        tier.frame = frame

        def run(env: Any) -> Any:
            limit = count(env)
            if type(limit) is not int and not isinstance(limit, int):
                state.site = site
                raise type_error(limit, "integer")
            i = 0
            env[index] = 0
            while i < limit:
                tier.left = left = tier.left - 1
                if left < 0:
                    hot = tier.heat()
                    if hot is not None:
                        return hot(env, limit)
                state.fuel = fuel = state.fuel - 1
                if fuel < 0:
                    state.refuel(site)
                run_body(env)
                env[index] = i = env[index] + 1
            return result(env)

        return run


@native("dotimes")
def _dotimes(form: Any, scope: Scope, tails: Tails) -> Node:
    """Evaluates the forms with the variable bound to 0, 1, … below the count."""
    usage = "(dotimes (variable count [result]) form…)"
    spec = parts(form, 1, None, usage)[0]
    cells = _spec(spec, form, usage)
    name = check_bindable(spec.car, form)
    count_cell = spec.cdr
    result_cell = spec.cdr.cdr if len(cells) == 3 else None
    return _iteration(form, scope, name, count_cell, result_cell, Counted)


@native("dolist")
def _dolist(form: Any, scope: Scope, tails: Tails) -> Node:
    """Evaluates the forms with the variable bound to each element of a list."""
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


def _iteration(form: Any, scope: Scope, name: Symbol, over: Any, result: Any, kind: Any) -> Node:
    """dotimes and dolist: the variable in a frame slot, the rest as it is."""
    forms, specials, _ = split_body(form.cdr.cdr, False)
    level = scope.level

    def make(inner: Scope) -> Node:
        source = analyze_car(over, inner)
        hidden = Var(name, level)
        if AT.checks:
            named = hygiene().names(new_cons(form.cdr.car, NIL), inner)
            hidden.written = named.get(name) if named is not None else None
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
                setter = new_cons(CL.own("setq"), new_cons(name, new_cons(counter, NIL)))
                tagged = new_cons(new_cons(CL.own("tagbody"), forms), NIL)
                round_body = in_binding(new_cons(setter, tagged))
            finally:
                level.loops -= 1
            end = in_binding(new_cons(result.car, NIL)) if result is not None else Constant(NIL)
            return kind(hidden, name, source, round_body, end, site_here())
        bound = Scope(inner, level)
        bound.variables = {name: hidden}
        if specials:
            from sexpgpu.lisp.scope import DYNAMIC

            bound.variables = {**dict.fromkeys(specials, DYNAMIC), name: hidden}
        made_body = _loop_body(forms, bound, form)
        end = analyze_car(result, bound) if result is not None else Constant(NIL)
        node = kind(hidden, name, source, made_body, end, site_here())
        if in_loop and hidden.captured and kind is Counted:
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

    __slots__ = ("body", "list", "result", "site", "symbol", "tier", "var")

    def __init__(
        self, var: Var, symbol: Any, list: Node, body: Node, result: Node, site: Site
    ) -> None:
        self.var = var
        self.symbol = symbol
        self.list = list
        self.body = body
        self.result = result
        self.site = site
        self.tier = LoopTier(self)

    def emit(self, frame: Frame) -> Run:
        list_of = single(self.list, frame)
        self.tier.frame = frame
        if self.var.captured:
            return self._fresh(list_of, frame)
        index = self.var.place(frame)
        run_body = self.body.emit(frame)
        result = self.result.emit(frame)
        site, state, tier = self.site, STATE, self.tier

        def run(env: Any) -> Any:
            at = list_of(env)
            while isinstance(at, Cons):
                tier.left = left = tier.left - 1
                if left < 0:
                    hot = tier.heat()
                    if hot is not None:
                        return hot(env, at)
                state.fuel = fuel = state.fuel - 1
                if fuel < 0:
                    state.refuel(site)
                env[index] = at.car
                at = at.cdr
                run_body(env)
            if at is not NIL:
                state.site = site
                raise type_error(at, "list")
            env[index] = NIL
            return result(env)

        return run

    def _fresh(self, list_of: Run, frame: Frame) -> Run:
        """A closure captured the variable: each round has its own."""
        inner = Frame(frame)
        self.var.place(inner)
        run_body = self.body.emit(inner)
        result = self.result.emit(inner)
        padding = (None,) * (inner.size - 2)
        site, state, tier = self.site, STATE, self.tier

        def run(env: Any) -> Any:
            at = list_of(env)
            while isinstance(at, Cons):
                tier.left = left = tier.left - 1
                if left < 0:
                    hot = tier.heat()
                    if hot is not None:
                        return hot(env, at)
                state.fuel = fuel = state.fuel - 1
                if fuel < 0:
                    state.refuel(site)
                item = at.car
                at = at.cdr
                run_body([env, item, *padding])
            if at is not NIL:
                state.site = site
                raise type_error(at, "list")
            return result([env, NIL, *padding])

        return run


class DoLoop(Node):
    """do and do*: test first, then body, then steps."""

    __slots__ = ("body", "condition", "result", "site", "steps", "tier")

    def __init__(self, condition: Node, body: Node, steps: Node, result: Node, site: Site) -> None:
        self.condition = condition
        self.body = body
        self.steps = steps
        self.result = result
        self.site = site
        self.tier = LoopTier(self)

    def emit(self, frame: Frame) -> Run:
        test = self.condition.test(frame)
        run_body = self.body.emit(frame)
        steps = self.steps.emit(frame)
        result = self.result.emit(frame)
        site, state, tier = self.site, STATE, self.tier
        tier.frame = frame

        def run(env: Any) -> Any:
            while True:
                tier.left = left = tier.left - 1
                if left < 0:
                    hot = tier.heat()
                    if hot is not None:
                        return hot(env)
                if test(env):
                    return result(env)
                state.fuel = fuel = state.fuel - 1
                if fuel < 0:
                    state.refuel(site)
                run_body(env)
                steps(env)

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
        return DoLoop(condition, made_body, step, result, site_here())

    def make(inner: Scope) -> Node:
        written = hygiene().names(cells[0], inner) if AT.checks else None
        operator = inside_operator(inside)
        expansion = new_cons(new_cons(operator, NIL), NIL)
        if sequential:
            return bind_sequential(bindings, specials, expansion, inner, (), written)
        inits = [
            Constant(NIL) if cell is None else analyze_car(cell, inner) for _, cell in bindings
        ]
        names = [variable for variable, _ in bindings]
        return bind_parallel(names, inits, specials, expansion, inner, (), written)

    return _in_block(make, scope)


def inside_operator(inside: Callable[[Scope], Node]) -> Any:
    """A one-off operator whose analysis is a Python function of the scope."""
    from sexpgpu.lisp.hostforms import Operator

    made = Operator("%inside")

    def analyzer(form: Any, scope: Scope, tails: Tails) -> Node:
        return inside(scope)

    made.analyze = analyzer
    return made


def _parallel_assign(names: list[Symbol], nodes: list[Node], scope: Scope, form: Any) -> Node:
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
    """Loops until the test is true; the variables step in parallel."""
    return _do_node(form, scope, False)


@native("do*")
def _do_star(form: Any, scope: Scope, tails: Tails) -> Node:
    """Loops until the test is true; the variables step in order."""
    return _do_node(form, scope, True)


@native("psetq")
def _psetq(form: Any, scope: Scope, tails: Tails) -> Node:
    """Sets variables in parallel: all values first."""
    cells = parts(form, 0, None, "(psetq variable value …)")
    if len(cells) % 2:
        raise malformed("psetq takes variables and values in pairs", form)
    names = cells[::2]
    for name in names:
        if not isinstance(name, Symbol):
            raise malformed(f"{brief(name)} is not a variable", form)
    from sexpgpu.lisp.macros import macroexpand_1

    if any(macroexpand_1(name, scope)[1] for name in names):
        return analyze(new_cons(CL.own("psetf"), form.cdr), scope)
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

        declaration = new_cons(CL.own("special"), lisp_list(list(specials)))
        declared = new_cons(CL.own("declare"), new_cons(declaration, NIL))
    tagged = new_cons(new_cons(CL.own("tagbody"), forms), NIL)
    inner = new_cons(declared, tagged) if declared is not NIL else tagged
    let = new_cons(CL.own("let*" if sequential else "let"), new_cons(form.cdr.car, inner))
    return _in_block(lambda inside: analyze(let, inside), scope)


@native("prog")
def _prog(form: Any, scope: Scope, tails: Tails) -> Node:
    """A let around a tagbody, in a block nil."""
    return _prog_node(form, scope, False)


@native("prog*")
def _prog_star(form: Any, scope: Scope, tails: Tails) -> Node:
    """A let* around a tagbody, in a block nil."""
    return _prog_node(form, scope, True)
