"""Analysed forms. A node emits a Python closure `run(env)` that evaluates it in a frame.

`emit` gives the closure for its values, `test` one for its truth as a Python bool. `multi` says
that it may give several values (an MV) or none; then whoever wants one value asks `single`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.calls import truth
from sexpgpu.lisp.errors import LispError, unbound_variable
from sexpgpu.lisp.journal import keep
from sexpgpu.lisp.scope import Frame, Scope, Var
from sexpgpu.lisp.state import Site
from sexpgpu.lisp.values import MV, NIL, UNBOUND, Symbol, T

Run = Callable[[Any], Any]
Test = Callable[[Any], bool]


class Node:
    """An analysed form."""

    __slots__ = ()
    multi = True

    def emit(self, frame: Frame) -> Run:
        raise TypeError(type(self).__name__)

    def test(self, frame: Frame) -> Test:
        run = self.emit(frame)
        site: Site | None = getattr(self, "site", None)

        def test(env: Any) -> bool:
            value = run(env)
            if value is NIL:
                return False
            return value is T or truth(value, site)

        return test


def single(node: Node, frame: Frame) -> Run:
    """The closure of a node's primary value."""
    run = node.emit(frame)
    if not node.multi:
        return run

    def one(env: Any) -> Any:
        value = run(env)
        if type(value) is MV:
            return value[0] if value else NIL
        return value

    return one


class Constant(Node):
    """A value that is known."""

    __slots__ = ("value",)
    multi = False

    def __init__(self, value: Any) -> None:
        self.value = value

    def emit(self, frame: Frame) -> Run:
        value = self.value
        return lambda env: value

    def test(self, frame: Frame) -> Test:
        if self.value is NIL:
            return lambda env: False
        if isinstance(self.value, Symbol):
            return lambda env: True
        return Node.test(self, frame)


class LocalRef(Node):
    """A lexical variable. `site` is where it stands in the program, if it does."""

    __slots__ = ("site", "var")
    multi = False

    def __init__(self, var: Var, site: Site | None = None) -> None:
        self.var = var
        var.references += 1
        self.site = site

    def emit(self, frame: Frame) -> Run:
        var = self.var
        index, depth = var.index, var.depth(frame)
        if depth == 0:
            return lambda env: env[index]
        if depth == 1:
            return lambda env: env[0][index]
        if depth == 2:
            return lambda env: env[0][0][index]
        if depth == 3:
            return lambda env: env[0][0][0][index]

        def run(env: Any) -> Any:
            for _ in range(depth):
                env = env[0]
            return env[index]

        return run

    def test(self, frame: Frame) -> Test:
        var = self.var
        if var.depth(frame):
            return Node.test(self, frame)
        index, site = var.index, self.site

        def test(env: Any) -> bool:
            value = env[index]
            if value is NIL:
                return False
            return value is T or truth(value, site)

        return test


class GlobalRef(Node):
    """A dynamic variable or constant."""

    __slots__ = ("scope", "site", "symbol")
    multi = False

    def __init__(self, symbol: Symbol, site: Site, scope: Scope | None = None) -> None:
        self.symbol = symbol
        self.site = site
        self.scope = scope  # for the names that may have been meant

    def emit(self, frame: Frame) -> Run:
        symbol, site, scope = self.symbol, self.site, self.scope

        def run(env: Any) -> Any:
            value = symbol.value
            if value is UNBOUND:
                raise unbound_variable(symbol, site, scope)
            return value

        return run


class SetLocal(Node):
    """setq of a lexical variable."""

    __slots__ = ("value", "var")
    multi = False

    def __init__(self, var: Var, value: Node) -> None:
        self.var = var
        self.value = value

    def emit(self, frame: Frame) -> Run:
        var = self.var
        index, depth = var.index, var.depth(frame)
        value = single(self.value, frame)
        if depth == 0:

            def run(env: Any) -> Any:
                env[index] = result = value(env)
                return result

            return run
        if depth == 1:

            def run(env: Any) -> Any:
                env[0][index] = result = value(env)
                return result

            return run

        def run(env: Any) -> Any:
            result = value(env)
            for _ in range(depth):
                env = env[0]
            env[index] = result
            return result

        return run


class SetGlobal(Node):
    """setq of a dynamic variable."""

    __slots__ = ("check", "site", "symbol", "value")
    multi = False

    def __init__(self, symbol: Symbol, value: Node, site: Site, check: bool) -> None:
        self.symbol = symbol
        self.value = value
        self.site = site
        self.check = check  # it must have been defined

    def emit(self, frame: Frame) -> Run:
        symbol, site, check = self.symbol, self.site, self.check
        value = single(self.value, frame)

        def run(env: Any) -> Any:
            result = value(env)
            if check and symbol.value is UNBOUND and not symbol.special:
                raise unbound_variable(symbol, site)
            keep(symbol)
            symbol.value = result
            return result

        return run


class Progn(Node):
    """Forms in order; the values of the last."""

    __slots__ = ("multi", "nodes")

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.multi = nodes[-1].multi

    def emit(self, frame: Frame) -> Run:
        runs = [node.emit(frame) for node in self.nodes]
        return sequence(runs)

    def test(self, frame: Frame) -> Test:
        runs = [node.emit(frame) for node in self.nodes[:-1]]
        return sequence([*runs, self.nodes[-1].test(frame)])


def sequence(runs: list[Run]) -> Run:
    """One closure that runs several and gives what the last gives."""
    if len(runs) == 1:
        return runs[0]
    if len(runs) == 2:
        a, b = runs

        def two(env: Any) -> Any:
            a(env)
            return b(env)

        return two
    if len(runs) == 3:
        a, b, c = runs

        def three(env: Any) -> Any:
            a(env)
            b(env)
            return c(env)

        return three
    before, last = tuple(runs[:-1]), runs[-1]

    def many(env: Any) -> Any:
        for run in before:
            run(env)
        return last(env)

    return many


def progn(nodes: list[Node]) -> Node:
    """A node for a body."""
    if not nodes:
        return Constant(NIL)
    return nodes[0] if len(nodes) == 1 else Progn(nodes)


class If(Node):
    """Two branches."""

    __slots__ = ("condition", "multi", "no", "yes")

    def __init__(self, condition: Node, yes: Node, no: Node) -> None:
        self.condition = condition
        self.yes = yes
        self.no = no
        self.multi = yes.multi or no.multi

    def emit(self, frame: Frame) -> Run:
        test = self.condition.test(frame)
        yes = self.yes.emit(frame)
        if isinstance(self.no, Constant) and self.no.value is NIL:

            def when(env: Any) -> Any:
                if test(env):
                    return yes(env)
                return NIL

            return when
        no = self.no.emit(frame)

        def run(env: Any) -> Any:
            if test(env):
                return yes(env)
            return no(env)

        return run

    def test(self, frame: Frame) -> Test:
        test = self.condition.test(frame)
        yes, no = self.yes.test(frame), self.no.test(frame)

        def run(env: Any) -> bool:
            if test(env):
                return yes(env)
            return no(env)

        return run


class And(Node):
    """and: all values of the last form."""

    __slots__ = ("multi", "nodes")

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.multi = nodes[-1].multi

    def emit(self, frame: Frame) -> Run:
        tests = tuple(node.test(frame) for node in self.nodes[:-1])
        last = self.nodes[-1].emit(frame)
        if len(tests) == 1:
            first = tests[0]
            return lambda env: last(env) if first(env) else NIL

        def run(env: Any) -> Any:
            for test in tests:
                if not test(env):
                    return NIL
            return last(env)

        return run

    def test(self, frame: Frame) -> Test:
        tests = tuple(node.test(frame) for node in self.nodes)
        if len(tests) == 2:
            a, b = tests
            return lambda env: a(env) and b(env)

        def run(env: Any) -> bool:
            for test in tests:  # noqa: SIM110  (all() would cost a generator)
                if not test(env):
                    return False
            return True

        return run


class Or(Node):
    """or: the first true primary value, or all values of the last form."""

    __slots__ = ("multi", "nodes")

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.multi = nodes[-1].multi

    def emit(self, frame: Frame) -> Run:
        firsts = tuple(
            (single(node, frame), getattr(node, "site", None)) for node in self.nodes[:-1]
        )
        last = self.nodes[-1].emit(frame)

        def run(env: Any) -> Any:
            for first, site in firsts:
                value = first(env)
                if value is not NIL and (value is T or truth(value, site)):
                    return value
            return last(env)

        return run

    def test(self, frame: Frame) -> Test:
        tests = tuple(node.test(frame) for node in self.nodes)
        if len(tests) == 2:
            a, b = tests
            return lambda env: a(env) or b(env)

        def run(env: Any) -> bool:
            for test in tests:  # noqa: SIM110  (any() would cost a generator)
                if test(env):
                    return True
            return False

        return run


class Let(Node):
    """Parallel binding of lexical variables."""

    __slots__ = ("body", "in_loop", "inits", "multi", "variables")

    def __init__(self, variables: list[Var], inits: list[Node], body: Node, in_loop: bool) -> None:
        self.variables = variables
        self.inits = inits
        self.body = body
        self.in_loop = in_loop
        self.multi = body.multi
        for var, init in zip(variables, inits, strict=True):
            var.inits = [init]

    def emit(self, frame: Frame) -> Run:
        return self._emit(frame, False)

    def test(self, frame: Frame) -> Test:
        return self._emit(frame, True)

    def _emit(self, frame: Frame, test: bool) -> Run:
        inits = [single(node, frame) for node in self.inits]
        inner = frame
        if self.in_loop and any(var.captured for var in self.variables):
            inner = Frame(frame)
        indices = [var.place(inner) for var in self.variables]
        body = self.body.test(inner) if test else self.body.emit(inner)
        if inner is not frame:
            return fresh_frame(inits, body, inner)
        if len(indices) == 1:
            index, init = indices[0], inits[0]

            def one(env: Any) -> Any:
                env[index] = init(env)
                return body(env)

            return one
        if len(indices) == 2:
            first, second = indices
            a, b = inits

            def two(env: Any) -> Any:
                x = a(env)
                env[second] = b(env)
                env[first] = x
                return body(env)

            return two
        low, high = indices[0], indices[-1] + 1
        frozen = tuple(inits)

        def many(env: Any) -> Any:
            env[low:high] = [init(env) for init in frozen]
            return body(env)

        return many


def fresh_frame(inits: list[Run], body: Run, inner: Frame) -> Run:
    """Run a body in a new frame whose first slots are the values of `inits`."""
    frozen = tuple(inits)
    padding = (None,) * (inner.size - 1 - len(frozen))

    def run(env: Any) -> Any:
        return body([env, *[init(env) for init in frozen], *padding])

    return run


class Sequential(Node):
    """let*: one variable after another (lexical ones only)."""

    __slots__ = ("body", "in_loop", "inits", "multi", "variables")

    def __init__(self, variables: list[Var], inits: list[Node], body: Node, in_loop: bool) -> None:
        self.variables = variables
        self.inits = inits
        self.body = body
        self.in_loop = in_loop
        self.multi = body.multi
        for var, init in zip(variables, inits, strict=True):
            var.inits = [init]

    def emit(self, frame: Frame) -> Run:
        if self.in_loop and any(var.captured for var in self.variables):
            inner = Frame(frame)
            run = self._steps(inner)
            padding = (None,) * (inner.size - 1)
            return lambda env: run([env, *padding])
        return self._steps(frame)

    def _steps(self, frame: Frame) -> Run:
        steps: list[tuple[int, Run]] = []
        for var, node in zip(self.variables, self.inits, strict=True):
            init = single(node, frame)
            steps.append((var.place(frame), init))
        body = self.body.emit(frame)
        if len(steps) == 2:
            (i, a), (j, b) = steps

            def two(env: Any) -> Any:
                env[i] = a(env)
                env[j] = b(env)
                return body(env)

            return two
        frozen = tuple(steps)

        def run(env: Any) -> Any:
            for index, init in frozen:
                env[index] = init(env)
            return body(env)

        return run


class BindSpecial(Node):
    """Dynamic binding: all values are computed, then bound around the body."""

    __slots__ = ("body", "inits", "multi", "symbols")

    def __init__(self, symbols: list[Symbol], inits: list[Node], body: Node) -> None:
        self.symbols = symbols
        self.inits = inits
        self.body = body
        self.multi = body.multi

    def emit(self, frame: Frame) -> Run:
        symbols = tuple(self.symbols)
        inits = tuple(single(node, frame) for node in self.inits)
        body = self.body.emit(frame)
        if len(symbols) == 1:
            symbol, init = symbols[0], inits[0]

            def one(env: Any) -> Any:
                value = init(env)
                keep(symbol)
                saved = symbol.value
                symbol.value = value
                try:
                    return body(env)
                finally:
                    symbol.value = saved

            return one

        def run(env: Any) -> Any:
            values = [init(env) for init in inits]
            saved = [symbol.value for symbol in symbols]
            for symbol, value in zip(symbols, values, strict=True):
                keep(symbol)
                symbol.value = value
            try:
                return body(env)
            finally:
                for symbol, value in zip(symbols, saved, strict=True):
                    symbol.value = value

        return run


class Custom(Node):
    """A node of one's own: a function from the frame to the closure."""

    __slots__ = ("make", "multi")

    def __init__(self, make: Callable[[Frame], Run], multi: bool = True) -> None:
        self.make = make
        self.multi = multi

    def emit(self, frame: Frame) -> Run:
        return self.make(frame)


class Predicate(Node):
    """A node that makes a Python bool: cheap in tests, T or NIL as a value."""

    __slots__ = ("make",)
    multi = False

    def __init__(self, make: Callable[[Frame], Test]) -> None:
        self.make = make

    def emit(self, frame: Frame) -> Run:
        test = self.make(frame)
        return lambda env: T if test(env) else NIL

    def test(self, frame: Frame) -> Test:
        return self.make(frame)


class Failure(Node):
    """A form that could not be analysed, inside a form that handles errors: raises when run."""

    __slots__ = ("error",)
    multi = False

    def __init__(self, error: LispError) -> None:
        self.error = error

    def emit(self, frame: Frame) -> Run:
        from sexpgpu.lisp.errors import signal_error

        error = self.error

        def run(env: Any) -> Any:
            raise signal_error(LispError(error.condition, error.site))

        return run
