"""Analysed forms. A node emits a Python closure `run(env)` that evaluates it in a frame.

`emit` gives the closure for its values, `test` one for its truth as a Python bool. `multi` says
that it may give several values (an MV) or none; then whoever wants one value asks `single`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.calls import truth
from sexpgpu.lisp.errors import LispError
from sexpgpu.lisp.scope import Frame
from sexpgpu.lisp.state import Site
from sexpgpu.lisp.values import MV, NIL, Symbol, T

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
