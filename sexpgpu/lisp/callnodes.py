"""Nodes that call functions: global, builtin, local, and computed ones.

Each sets STATE.site right before it calls. Lisp functions push that site on the call stack
themselves (lisp/lambdas.py), so a builtin that calls back is shown as the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.calls import as_function, check_count
from sexpgpu.lisp.errors import LispError, undefined_function
from sexpgpu.lisp.nodes import Node, Run, single
from sexpgpu.lisp.scope import Frame, LocalFunction, Scope
from sexpgpu.lisp.state import STATE, Site
from sexpgpu.lisp.values import MV, NIL, Function, Symbol
from sexpgpu.lisp.variable_nodes import LocalRef


def _emit_arguments(arguments: list[Node], frame: Frame) -> tuple[tuple[Run, ...], bool]:
    """The closures of the arguments, and whether one may give several values."""
    return tuple(node.emit(frame) for node in arguments), any(node.multi for node in arguments)


def evaluate_arguments(runs: tuple[Run, ...], env: Any) -> list[Any]:
    """The primary values of the arguments, in order."""
    values: list[Any] = []
    for run in runs:
        value = run(env)
        if type(value) is MV:
            value = value[0] if value else NIL
        values.append(value)
    return values


def _one(run: Run) -> Run:
    """The closure that gives one value where `run` may give several."""

    def one(env: Any) -> Any:
        value = run(env)
        if type(value) is MV:
            return value[0] if value else NIL
        return value

    return one


class CallGlobal(Node):
    """A call of whatever the symbol's function is when it runs."""

    __slots__ = ("arguments", "scope", "site", "symbol")

    def __init__(
        self, symbol: Symbol, arguments: list[Node], site: Site, scope: Scope | None = None
    ) -> None:
        self.symbol = symbol
        self.arguments = arguments
        self.site = site
        self.scope = scope  # of a function that is not defined yet: what else was meant

    def emit(self, frame: Frame) -> Run:
        symbol, site, scope = self.symbol, self.site, self.scope
        runs, multi = _emit_arguments(self.arguments, frame)
        count = len(runs)
        state = STATE
        known: Any = None
        target: Any = None

        def resolve(function: Any) -> Any:
            state.site = site
            if function is None:
                raise undefined_function(symbol, site, scope)
            check_count(function, count)
            force = getattr(function.call, "force", None)
            return function.call if force is None else force()

        if count == 0:

            def call0(env: Any) -> Any:
                nonlocal known, target
                function = symbol.function
                if function is not known or function is None:
                    target = resolve(function)
                    known = function
                state.site = site
                return target()

            return call0
        if count == 1:
            (first,) = runs

            def call1(env: Any) -> Any:
                nonlocal known, target
                a = first(env)
                if type(a) is MV:
                    a = a[0] if a else NIL
                function = symbol.function
                if function is not known or function is None:
                    target = resolve(function)
                    known = function
                state.site = site
                return target(a)

            return call1
        if count == 2 and not multi:
            first, second = runs

            def call2(env: Any) -> Any:
                nonlocal known, target
                a = first(env)
                b = second(env)
                function = symbol.function
                if function is not known or function is None:
                    target = resolve(function)
                    known = function
                state.site = site
                return target(a, b)

            return call2
        if count == 3 and not multi:
            first, second, third = runs

            def call3(env: Any) -> Any:
                nonlocal known, target
                a = first(env)
                b = second(env)
                c = third(env)
                function = symbol.function
                if function is not known or function is None:
                    target = resolve(function)
                    known = function
                state.site = site
                return target(a, b, c)

            return call3
        if count == 2:
            first, second = (_one(run) for run in runs)

            def call2m(env: Any) -> Any:
                nonlocal known, target
                a = first(env)
                b = second(env)
                function = symbol.function
                if function is not known or function is None:
                    target = resolve(function)
                    known = function
                state.site = site
                return target(a, b)

            return call2m

        def call(env: Any) -> Any:
            nonlocal known, target
            values = evaluate_arguments(runs, env)
            function = symbol.function
            if function is not known or function is None:
                target = resolve(function)
                known = function
            state.site = site
            return target(*values)

        return call


class Defined(Node):
    """A call whose function must be defined before the arguments are evaluated: its name is an
    operator elsewhere, and what follows it there is no list of arguments."""

    __slots__ = ("call", "failure")

    def __init__(self, call: CallGlobal, failure: LispError | None = None) -> None:
        self.call = call
        self.failure = failure  # of the analysis of its arguments

    def emit(self, frame: Frame) -> Run:
        call, failure, run = self.call, self.failure, self.call.emit(frame)

        def checked(env: Any) -> Any:
            if call.symbol.function is None:
                raise undefined_function(call.symbol, call.site, call.scope)
            if failure is not None:
                raise failure
            return run(env)

        return checked


class CallFixed(Node):
    """A call of a function known when compiling (CL's own cannot be redefined)."""

    __slots__ = ("arguments", "function", "site")

    def __init__(self, function: Function, arguments: list[Node], site: Site) -> None:
        self.function = function
        self.arguments = arguments
        self.site = site

    def emit(self, frame: Frame) -> Run:
        function, site = self.function, self.site
        count = len(self.arguments)
        target = target_of(function, count)
        high = function.maximum
        if count < function.minimum or (high is not None and count > high):
            return _wrong_count(function, self.arguments, site, frame)
        return emit_direct(target, self.arguments, site, frame)


def target_of(function: Function, count: int) -> Callable[..., Any]:
    """What is called with so many arguments: a builtin that takes keywords is without any."""
    plain, positional = getattr(function.call, "plain", (None, 0))
    return function.call if plain is None or count > positional else plain


class Direct(Node):
    """A call of a Python callable."""

    __slots__ = ("arguments", "site", "target")

    def __init__(self, target: Callable[..., Any], arguments: list[Node], site: Site) -> None:
        self.target = target
        self.arguments = arguments
        self.site = site

    def emit(self, frame: Frame) -> Run:
        return emit_direct(self.target, self.arguments, self.site, frame)


def emit_direct(target: Callable[..., Any], arguments: list[Node], site: Site, frame: Frame) -> Run:
    """A call of a Python callable with the arguments' primary values."""
    runs, multi = _emit_arguments(arguments, frame)
    state = STATE
    count = len(runs)
    if count == 0:

        def call0(env: Any) -> Any:
            state.site = site
            return target()

        return call0
    if count == 1:
        (first,) = runs
        if not multi:

            def call1(env: Any) -> Any:
                a = first(env)
                state.site = site
                return target(a)

            return call1

        def call1m(env: Any) -> Any:
            a = first(env)
            if type(a) is MV:
                a = a[0] if a else NIL
            state.site = site
            return target(a)

        return call1m
    if count == 2:
        first, second = runs
        if not multi:

            def call2(env: Any) -> Any:
                a = first(env)
                b = second(env)
                state.site = site
                return target(a, b)

            return call2

        def call2m(env: Any) -> Any:
            a = first(env)
            if type(a) is MV:
                a = a[0] if a else NIL
            b = second(env)
            if type(b) is MV:
                b = b[0] if b else NIL
            state.site = site
            return target(a, b)

        return call2m
    if count == 3:
        first, second, third = (_one(run) for run in runs) if multi else runs

        def call3(env: Any) -> Any:
            a = first(env)
            b = second(env)
            c = third(env)
            state.site = site
            return target(a, b, c)

        return call3
    if count == 4:
        first, second, third, fourth = (_one(run) for run in runs) if multi else runs

        def call4(env: Any) -> Any:
            a = first(env)
            b = second(env)
            c = third(env)
            d = fourth(env)
            state.site = site
            return target(a, b, c, d)

        return call4

    def call(env: Any) -> Any:
        values = evaluate_arguments(runs, env)
        state.site = site
        return target(*values)

    return call


def _wrong_count(function: Function, arguments: list[Node], site: Site, frame: Frame) -> Run:
    runs, _ = _emit_arguments(arguments, frame)

    def call(env: Any) -> Any:
        values = evaluate_arguments(runs, env)
        STATE.site = site
        check_count(function, len(values))
        return NIL

    return call


class CallLocal(Node):
    """A call of a function of flet or labels."""

    __slots__ = ("arguments", "local", "site")

    def __init__(self, local: LocalFunction, arguments: list[Node], site: Site) -> None:
        self.local = local
        self.arguments = arguments
        self.site = site

    def emit(self, frame: Frame) -> Run:
        local, site = self.local, self.site
        function_of = LocalRef(local.var).emit(frame)
        count = len(self.arguments)
        checked = (
            local.lambda_list is not None
            and count >= local.minimum
            and (local.maximum is None or count <= local.maximum)
        )
        return _emit_computed(function_of, self.arguments, site, frame, checked)


class CallValue(Node):
    """funcall: a call of a computed function designator."""

    __slots__ = ("arguments", "function", "site")

    def __init__(self, function: Node, arguments: list[Node], site: Site) -> None:
        self.function = function
        self.arguments = arguments
        self.site = site

    def emit(self, frame: Frame) -> Run:
        return _emit_computed(single(self.function, frame), self.arguments, self.site, frame, False)


def _emit_computed(
    function_of: Run, arguments: list[Node], site: Site, frame: Frame, checked: bool
) -> Run:
    runs, multi = _emit_arguments(arguments, frame)
    state = STATE
    count = len(runs)
    if checked and count == 1:
        (first,) = runs

        def local1(env: Any) -> Any:
            a = first(env)
            if type(a) is MV:
                a = a[0] if a else NIL
            function = function_of(env)
            state.site = site
            return function.call(a)

        return local1
    if checked and count == 2 and not multi:
        first, second = runs

        def local2(env: Any) -> Any:
            a = first(env)
            b = second(env)
            function = function_of(env)
            state.site = site
            return function.call(a, b)

        return local2
    if count == 1:
        (first,) = runs

        def call1(env: Any) -> Any:
            function = function_of(env)
            a = first(env)
            if type(a) is MV:
                a = a[0] if a else NIL
            state.site = site
            if type(function) is not Function:
                function = as_function(function)
            high = function.maximum
            if function.minimum > 1 or (high is not None and high < 1):
                check_count(function, 1)
            return function.call(a)

        return call1

    def call(env: Any) -> Any:
        function = function_of(env)
        values = evaluate_arguments(runs, env)
        state.site = site
        if type(function) is not Function:
            function = as_function(function)
        high = function.maximum
        if count < function.minimum or (high is not None and count > high):
            check_count(function, count)
        return function.call(*values)

    return call


class ApplyNode(Node):
    """apply: the last argument is spread."""

    __slots__ = ("arguments", "function", "site")

    def __init__(self, function: Node, arguments: list[Node], site: Site) -> None:
        self.function = function
        self.arguments = arguments
        self.site = site

    def emit(self, frame: Frame) -> Run:
        from sexpgpu.lisp.evaluation import spread

        function_of = single(self.function, frame)
        runs, _ = _emit_arguments(self.arguments, frame)
        site, state = self.site, STATE

        def call(env: Any) -> Any:
            function = function_of(env)
            values = evaluate_arguments(runs, env)
            state.site = site
            if type(function) is not Function:
                function = as_function(function)
            spread(values)
            check_count(function, len(values))
            return function.call(*values)

        return call
