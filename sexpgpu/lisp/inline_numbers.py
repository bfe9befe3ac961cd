"""Arithmetic and comparisons of ordinary integers, done in place.

Everything else (floats that overflow, ratios, tensors, errors) goes to the builtin, which is looked
up when a form is compiled.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.analyze import INLINE
from sexpgpu.lisp.calls import primary, truth
from sexpgpu.lisp.inline import local_index
from sexpgpu.lisp.nodes import Constant, Node, Run, Test
from sexpgpu.lisp.scope import Frame
from sexpgpu.lisp.state import STATE, Site
from sexpgpu.lisp.values import CL, NIL, T

BIG = 1 << 256


class Arithmetic(Node):
    """+ - * of two operands. `written`: the function that stands there, which may be 1+ or 1-."""

    __slots__ = ("first", "name", "second", "site", "written")
    multi = True  # `floor` of tensors and kin may come back through the generic function

    def __init__(self, name: str, first: Node, second: Node, site: Site, written: str = "") -> None:
        self.name = name
        self.first = first
        self.second = second
        self.site = site
        self.written = written or name

    def generic(self) -> Callable[[Any, Any], Any]:
        """What the builtin makes of the operands."""
        function = CL.own(self.written).function
        assert function is not None
        generic, site, state = function.call, self.site, STATE

        def of_two(a: Any, b: Any) -> Any:
            state.site = site
            return generic(primary(a), primary(b))

        def of_one(a: Any, b: Any) -> Any:
            state.site = site
            return generic(primary(a))

        return of_two if self.written == self.name else of_one

    def emit(self, frame: Frame) -> Run:
        slow = self.generic()
        first, second = self.first.emit(frame), self.second.emit(frame)
        if self.name == "*":

            def multiply(env: Any) -> Any:
                a = first(env)
                b = second(env)
                if type(a) is int and type(b) is int and -BIG < a < BIG and -BIG < b < BIG:
                    return a * b
                return slow(a, b)

            return multiply
        plus = self.name == "+"
        constant = self.second.value if isinstance(self.second, Constant) else None
        if type(constant) is int:
            change = constant if plus else -constant
            index = local_index(self.first, frame)
            if index:

                def step(env: Any) -> Any:
                    a = env[index]
                    if type(a) is int:
                        return a + change
                    return slow(a, constant)

                return step

            def shift(env: Any) -> Any:
                a = first(env)
                if type(a) is int:
                    return a + change
                return slow(a, constant)

            return shift
        here = local_index(self.first, frame)
        there = local_index(self.second, frame)
        if plus and here and there:

            def add_locals(env: Any) -> Any:
                a = env[here]
                b = env[there]
                if type(a) is int and type(b) is int:
                    return a + b
                return slow(a, b)

            return add_locals
        if plus and here:

            def add_to_local(env: Any) -> Any:
                a = env[here]
                b = second(env)
                if type(a) is int and type(b) is int:
                    return a + b
                return slow(a, b)

            return add_to_local
        if plus:

            def add(env: Any) -> Any:
                a = first(env)
                b = second(env)
                if type(a) is int and type(b) is int:
                    return a + b
                return slow(a, b)

            return add

        def subtract(env: Any) -> Any:
            a = first(env)
            b = second(env)
            if type(a) is int and type(b) is int:
                return a - b
            return slow(a, b)

        return subtract


def _arithmetic(name: str) -> Callable[[list[Node], Site], Node | None]:
    def make(nodes: list[Node], site: Site) -> Node | None:
        if len(nodes) == 2:
            return Arithmetic(name, nodes[0], nodes[1], site)
        if len(nodes) > 2 and name != "-" and len(nodes) < 5:
            node = Arithmetic(name, nodes[0], nodes[1], site)
            for more in nodes[2:]:
                node = Arithmetic(name, node, more, site)
            return node
        return None

    return make


def _one(nodes: list[Node], site: Site) -> Node | None:
    return Arithmetic("+", nodes[0], Constant(1), site, "1+") if len(nodes) == 1 else None


def _less_one(nodes: list[Node], site: Site) -> Node | None:
    return Arithmetic("-", nodes[0], Constant(1), site, "1-") if len(nodes) == 1 else None


class Comparison(Node):
    """< > <= >= = of two operands. A tensor's answer is no bool: it comes from the builtin."""

    __slots__ = ("compare", "first", "name", "second", "site")
    multi = False

    def __init__(
        self,
        name: str,
        compare: Callable[[Any, Any], bool],
        first: Node,
        second: Node,
        site: Site,
    ) -> None:
        self.name = name
        self.compare = compare
        self.first = first
        self.second = second
        self.site = site

    def _slow(self) -> Callable[[Any, Any], Any]:
        function = CL.own(self.name).function
        assert function is not None
        generic, site = function.call, self.site

        def slow(a: Any, b: Any) -> Any:
            STATE.site = site
            return generic(primary(a), primary(b))

        return slow

    def emit(self, frame: Frame) -> Run:
        first, second = self.first.emit(frame), self.second.emit(frame)
        slow, compare = self._slow(), self.compare

        def run(env: Any) -> Any:
            a = first(env)
            b = second(env)
            if type(a) is int and type(b) is int:
                return T if compare(a, b) else NIL
            return slow(a, b)

        return run

    def test(self, frame: Frame) -> Test:
        slow = self._slow()
        first, second = self.first.emit(frame), self.second.emit(frame)
        name = self.name

        def other(a: Any, b: Any) -> bool:
            return truth(slow(a, b))

        constant = self.second.value if isinstance(self.second, Constant) else None
        here = local_index(self.first, frame)
        if type(constant) is int and here:
            return _with_constant(name, here, constant, other, self.compare)
        there = local_index(self.second, frame)
        if here and there:
            return _with_local(here, there, other, self.compare)
        if name == "<":

            def less(env: Any) -> bool:
                a = first(env)
                b = second(env)
                if type(a) is int and type(b) is int:
                    return a < b
                return other(a, b)

            return less
        compare = self.compare

        def test(env: Any) -> bool:
            a = first(env)
            b = second(env)
            if type(a) is int and type(b) is int:
                return compare(a, b)
            return other(a, b)

        return test


def _with_constant(
    name: str,
    index: int,
    constant: int,
    other: Callable[[Any, Any], bool],
    compare: Callable[[Any, Any], bool],
) -> Test:
    if name == "<":

        def less(env: Any) -> bool:
            a = env[index]
            if type(a) is int:
                return a < constant
            return other(a, constant)

        return less
    if name == "=":

        def equal(env: Any) -> bool:
            a = env[index]
            if type(a) is int:
                return a == constant
            return other(a, constant)

        return equal

    def test(env: Any) -> bool:
        a = env[index]
        if type(a) is int:
            return compare(a, constant)
        return other(a, constant)

    return test


def _with_local(
    here: int,
    there: int,
    other: Callable[[Any, Any], bool],
    compare: Callable[[Any, Any], bool],
) -> Test:
    def test(env: Any) -> bool:
        a = env[here]
        b = env[there]
        if type(a) is int and type(b) is int:
            return compare(a, b)
        return other(a, b)

    return test


def _comparison(
    name: str, compare: Callable[[Any, Any], bool]
) -> Callable[[list[Node], Site], Node | None]:
    def make(nodes: list[Node], site: Site) -> Node | None:
        if len(nodes) != 2:
            return None
        return Comparison(name, compare, nodes[0], nodes[1], site)

    return make


def _zerop(nodes: list[Node], site: Site) -> Node | None:
    if len(nodes) != 1 or CL.own("zerop").function is None:
        return None
    return ZeroTest("=", operator.eq, nodes[0], Constant(0), site)


class ZeroTest(Comparison):
    """zerop: (= x 0), but the builtin judges what is not an integer (a tensor has no zerop)."""

    __slots__ = ()

    def _slow(self) -> Callable[[Any, Any], Any]:
        function = CL.own("zerop").function
        assert function is not None
        generic, site = function.call, self.site

        def slow(a: Any, _zero: Any) -> Any:
            STATE.site = site
            return generic(primary(a))

        return slow


for _name in "+-*":
    INLINE[CL.own(_name)] = _arithmetic(_name)
INLINE[CL.own("1+")] = _one
INLINE[CL.own("1-")] = _less_one
for _name, _compare in (
    ("<", operator.lt),
    (">", operator.gt),
    ("<=", operator.le),
    (">=", operator.ge),
    ("=", operator.eq),
):
    INLINE[CL.own(_name)] = _comparison(_name, _compare)
INLINE[CL.own("zerop")] = _zerop
