"""Tests, car and cdr, cons, list and values, done in place.

Each has a fast path for what is common and calls the builtin for everything else (tensors, errors).
The builtins are looked up when a form is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.analyze import INLINE
from sexpgpu.lisp.calls import primary
from sexpgpu.lisp.nodes import Node, Predicate, Run, Test, single
from sexpgpu.lisp.scope import Frame
from sexpgpu.lisp.state import STATE, Site
from sexpgpu.lisp.values import CL, MV, NIL, Cons, SrcCons, T, new_cons
from sexpgpu.lisp.variable_nodes import LocalRef


def local_index(node: Node, frame: Frame) -> int:
    """The slot of a variable of this very frame, or 0."""
    if isinstance(node, LocalRef) and node.var.frame is frame:
        return node.var.index
    return 0


class Access(Node):
    """car or cdr."""

    __slots__ = ("argument", "name", "site")
    multi = False

    def __init__(self, name: str, argument: Node, site: Site) -> None:
        self.name = name
        self.argument = argument
        self.site = site

    def emit(self, frame: Frame) -> Run:
        function = CL.own(self.name).function
        assert function is not None
        generic, site = function.call, self.site
        argument = self.argument.emit(frame)

        def slow(value: Any) -> Any:
            STATE.site = site
            return generic(primary(value))

        here = local_index(self.argument, frame)
        if here and self.name in ("car", "first"):

            def car_of_local(env: Any) -> Any:
                value = env[here]
                kind = type(value)  # pyright: ignore[reportUnknownVariableType]
                if kind is Cons or kind is SrcCons:
                    return value.car
                return slow(value)

            return car_of_local
        if self.name in ("car", "first"):

            def car(env: Any) -> Any:
                value = argument(env)
                kind = type(value)  # pyright: ignore[reportUnknownVariableType]
                if kind is Cons or kind is SrcCons:
                    return value.car
                return slow(value)

            return car

        def cdr(env: Any) -> Any:
            value = argument(env)
            kind = type(value)  # pyright: ignore[reportUnknownVariableType]
            if kind is Cons or kind is SrcCons:
                return value.cdr
            return slow(value)

        return cdr


def _access(name: str) -> Callable[[list[Node], Site], Node | None]:
    def make(nodes: list[Node], site: Site) -> Node | None:
        return Access(name, nodes[0], site) if len(nodes) == 1 else None

    return make


class Not(Node):
    """not: asks the truth of its argument."""

    __slots__ = ("node",)
    multi = False

    def __init__(self, node: Node) -> None:
        self.node = node

    def emit(self, frame: Frame) -> Run:
        test = self.node.test(frame)
        return lambda env: NIL if test(env) else T

    def test(self, frame: Frame) -> Test:
        test = self.node.test(frame)
        return lambda env: not test(env)


def _not(nodes: list[Node], site: Site) -> Node | None:
    return Not(nodes[0]) if len(nodes) == 1 else None


class Kind(Predicate):
    """null, consp, atom: about the value itself, so a tensor is simply not nil."""

    __slots__ = ("name", "node")

    def __init__(self, name: str, node: Node) -> None:
        super().__init__(self._make)
        self.name = name
        self.node = node

    def _make(self, frame: Frame) -> Test:
        run = single(self.node, frame)
        if self.name == "null":
            return lambda env: run(env) is NIL
        if self.name == "consp":
            return lambda env: isinstance(run(env), Cons)
        return lambda env: not isinstance(run(env), Cons)


def _kind(name: str) -> Callable[[list[Node], Site], Node | None]:
    def make(nodes: list[Node], site: Site) -> Node | None:
        return Kind(name, nodes[0]) if len(nodes) == 1 else None

    return make


class Endp(Predicate):
    """endp."""

    __slots__ = ("node", "site")

    def __init__(self, node: Node, site: Site) -> None:
        super().__init__(self._make)
        self.node = node
        self.site = site

    def _make(self, frame: Frame) -> Test:
        function = CL.own("endp").function
        assert function is not None
        run, generic, site = single(self.node, frame), function.call, self.site

        def test(env: Any) -> bool:
            value = run(env)
            kind = type(value)  # pyright: ignore[reportUnknownVariableType]
            if kind is Cons or kind is SrcCons:
                return False
            if value is NIL:
                return True
            STATE.site = site
            return generic(value) is not NIL

        return test


def _endp(nodes: list[Node], site: Site) -> Node | None:
    return Endp(nodes[0], site) if len(nodes) == 1 else None


class Same(Predicate):
    """eq and eql."""

    __slots__ = ("first", "second")

    def __init__(self, first: Node, second: Node) -> None:
        super().__init__(self._make)
        self.first = first
        self.second = second

    def _make(self, frame: Frame) -> Test:
        from sexpgpu.lisp.builtins.equality import eql

        a, b = single(self.first, frame), single(self.second, frame)

        def test(env: Any) -> bool:
            x = a(env)
            y = b(env)
            return x is y or eql(x, y)

        return test


def _eq(nodes: list[Node], site: Site) -> Node | None:
    return Same(nodes[0], nodes[1]) if len(nodes) == 2 else None


class ConsNode(Node):
    """cons."""

    __slots__ = ("first", "second")
    multi = False

    def __init__(self, first: Node, second: Node) -> None:
        self.first = first
        self.second = second

    def emit(self, frame: Frame) -> Run:
        a, b = single(self.first, frame), single(self.second, frame)
        return lambda env: new_cons(a(env), b(env))


def _cons(nodes: list[Node], site: Site) -> Node | None:
    return ConsNode(nodes[0], nodes[1]) if len(nodes) == 2 else None


class ListNode(Node):
    """list."""

    __slots__ = ("nodes",)
    multi = False

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes

    def emit(self, frame: Frame) -> Run:
        runs = tuple(single(node, frame) for node in self.nodes)
        if len(runs) == 2:
            a, b = runs
            return lambda env: new_cons(a(env), new_cons(b(env), NIL))

        def run(env: Any) -> Any:
            result: Any = NIL
            for value in reversed([one(env) for one in runs]):
                result = new_cons(value, result)
            return result

        return run


def _list(nodes: list[Node], site: Site) -> Node | None:
    return ListNode(nodes)


class ValuesNode(Node):
    """values."""

    __slots__ = ("multi", "nodes")

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.multi = len(nodes) != 1

    def emit(self, frame: Frame) -> Run:
        runs = tuple(single(node, frame) for node in self.nodes)
        if len(runs) == 1:
            return runs[0]
        return lambda env: MV([one(env) for one in runs])


def _values(nodes: list[Node], site: Site) -> Node | None:
    return ValuesNode(nodes)


for _name in ("car", "cdr", "first", "rest"):
    INLINE[CL.own(_name)] = _access(_name)
INLINE[CL.own("not")] = _not
for _name in ("null", "consp", "atom"):
    INLINE[CL.own(_name)] = _kind(_name)
INLINE[CL.own("endp")] = _endp
INLINE[CL.own("eq")] = _eq
INLINE[CL.own("eql")] = _eq
INLINE[CL.own("cons")] = _cons
INLINE[CL.own("list")] = _list
INLINE[CL.own("values")] = _values
