"""Nodes of variables: reading and setting lexical ones, dynamic ones and constants."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.calls import truth
from sexpgpu.lisp.errors import unbound_variable
from sexpgpu.lisp.journal import keep
from sexpgpu.lisp.nodes import Node, Run, Test, single
from sexpgpu.lisp.scope import Frame, Scope, Var
from sexpgpu.lisp.state import Site
from sexpgpu.lisp.values import NIL, UNBOUND, Symbol, T


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
