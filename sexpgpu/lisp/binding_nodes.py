"""Nodes that bind variables around a body: let, let* and dynamic binding."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.journal import keep
from sexpgpu.lisp.nodes import Node, Run, Test, single
from sexpgpu.lisp.scope import Frame, Var
from sexpgpu.lisp.values import Symbol


class Binding(Node):
    """Lexical variables with their first values, around a body. `in_loop`: it may run again."""

    __slots__ = ("body", "in_loop", "inits", "multi", "variables")

    def __init__(self, variables: list[Var], inits: list[Node], body: Node, in_loop: bool) -> None:
        self.variables = variables
        self.inits = inits
        self.body = body
        self.in_loop = in_loop
        self.multi = body.multi
        for var, init in zip(variables, inits, strict=True):
            var.inits = [init]


class Let(Binding):
    """Parallel binding of lexical variables."""

    __slots__ = ()

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


class Sequential(Binding):
    """let*: one variable after another (lexical ones only)."""

    __slots__ = ()

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
