"""Functions made by lambda: the Python callables that bind parameters and run a body.

A callable pushes the site of its call and takes fuel; then it makes a frame,
[enclosing frame, parameters…, other variables…], and runs the body in it. One that is called often
comes to call its hot successor (lisp.tiers).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.errors import program_error
from sexpgpu.lisp.nodes import (
    Node,
    Run,
    single,
)
from sexpgpu.lisp.scope import Frame, Var
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.tiers import FunctionTier
from sexpgpu.lisp.values import NIL, Function, T, keyword, new_cons
from sexpgpu.reader.printer import brief

Maker = Callable[[Any], Callable[..., Any]]

_ALLOW = keyword("allow-other-keys")


class LambdaNode(Node):
    """A lambda expression. Parameters are already plain variables (specials were renamed)."""

    __slots__ = (
        "allow",
        "body",
        "doc",
        "keys",
        "maximum",
        "minimum",
        "name",
        "optional",
        "origin",
        "required",
        "rest",
        "text",
        "tier",
    )
    multi = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.required: list[Var] = []
        self.optional: list[tuple[Var, Node, Var | None]] = []
        self.rest: Var | None = None
        self.keys: list[tuple[Any, Var, Node, Var | None]] | None = None
        self.allow = False
        self.body: Node | None = None
        self.minimum = 0
        self.maximum: int | None = None
        self.text: Any = NIL
        self.doc = ""
        self.origin: Any = None
        self.tier = FunctionTier(self)

    def emit(self, frame: Frame) -> Run:
        make = self.maker(frame)
        tier = self.tier
        name, low, high = self.name, self.minimum, self.maximum
        text, doc, origin = self.text, self.doc, self.origin

        def run(env: Any) -> Any:
            hot = tier.make
            if hot is not None:
                return Function(name, hot(env), low, high, text, doc, origin)
            tier.latest = made = Function(name, make(env), low, high, text, doc, origin)
            return made

        tier.new = run
        return run

    def maker(self, outer: Frame) -> Maker:
        """From the enclosing frame to the callable."""
        assert self.body is not None
        frame = Frame(outer)
        tier = self.tier
        tier.outer, tier.frame = outer, frame
        frame.tier = tier
        for var in self.required:
            var.place(frame)
        if not self.optional and self.rest is None and self.keys is None:
            body = self.body.emit(frame)
            return _required(len(self.required), body, frame.size, tier)
        return self._general(frame)

    def _general(self, frame: Frame) -> Maker:
        assert self.body is not None
        low = len(self.required)
        optional: list[tuple[int, Run, int]] = []
        for var, default, supplied in self.optional:
            run = single(default, frame)
            index = var.place(frame)
            optional.append((index, run, supplied.place(frame) if supplied else 0))
        rest = self.rest.place(frame) if self.rest else 0
        keys: list[tuple[Any, int, Run, int]] | None = None
        if self.keys is not None:
            keys = []
            for key, var, default, supplied in self.keys:
                run = single(default, frame)
                index = var.place(frame)
                keys.append((key, index, run, supplied.place(frame) if supplied else 0))
        body = self.body.emit(frame)
        size = frame.size
        bind = _binder(self.name, low, tuple(optional), rest, keys, self.allow)
        self.tier.bind = bind
        padding = (None,) * (size - 1 - low)
        return _parsed(low, bind, body, padding, self.tier)


def _required(count: int, body: Run, size: int, tier: FunctionTier) -> Maker:
    """Makers of functions with required parameters only."""
    state, stack = STATE, STATE.stack
    padding = (None,) * (size - 1 - count)
    if count == 1:

        def make1(parent: Any) -> Callable[..., Any]:
            hot: Callable[..., Any] | None = None

            def call(a: Any) -> Any:
                nonlocal hot
                if hot is not None:
                    return hot(a)
                tier.left = left = tier.left - 1
                if left < 0:
                    hot = tier.heat(parent, call)
                    if hot is not None:
                        return hot(a)
                stack.append(state.site)
                try:
                    state.fuel = fuel = state.fuel - 1
                    if fuel < 0:
                        state.refuel()
                    return body([parent, a, *padding])
                finally:
                    state.site = stack.pop()

            return call

        return make1
    if count == 2:

        def make2(parent: Any) -> Callable[..., Any]:
            hot: Callable[..., Any] | None = None

            def call(a: Any, b: Any) -> Any:
                nonlocal hot
                if hot is not None:
                    return hot(a, b)
                tier.left = left = tier.left - 1
                if left < 0:
                    hot = tier.heat(parent, call)
                    if hot is not None:
                        return hot(a, b)
                stack.append(state.site)
                try:
                    state.fuel = fuel = state.fuel - 1
                    if fuel < 0:
                        state.refuel()
                    return body([parent, a, b, *padding])
                finally:
                    state.site = stack.pop()

            return call

        return make2

    def make(parent: Any) -> Callable[..., Any]:
        hot: Callable[..., Any] | None = None

        def call(*arguments: Any) -> Any:
            nonlocal hot
            if hot is not None:
                return hot(*arguments)
            tier.left = left = tier.left - 1
            if left < 0:
                hot = tier.heat(parent, call)
                if hot is not None:
                    return hot(*arguments)
            stack.append(state.site)
            try:
                state.fuel = fuel = state.fuel - 1
                if fuel < 0:
                    state.refuel()
                return body([parent, *arguments, *padding])
            finally:
                state.site = stack.pop()

        return call

    return make


def _parsed(
    low: int,
    bind: Callable[..., None],
    body: Run,
    padding: tuple[Any, ...],
    tier: FunctionTier,
) -> Maker:
    state, stack = STATE, STATE.stack

    def make(parent: Any) -> Callable[..., Any]:
        hot: Callable[..., Any] | None = None

        def call(*arguments: Any) -> Any:
            nonlocal hot
            if hot is not None:
                return hot(*arguments)
            tier.left = left = tier.left - 1
            if left < 0:
                hot = tier.heat(parent, call)
                if hot is not None:
                    return hot(*arguments)
            site = state.site
            stack.append(site)
            try:
                state.fuel = fuel = state.fuel - 1
                if fuel < 0:
                    state.refuel()
                env = [parent, *arguments[:low], *padding]
                bind(env, arguments, site)
                return body(env)
            finally:
                state.site = stack.pop()

        return call

    return make


def _binder(
    name: str,
    low: int,
    optional: tuple[tuple[int, Run, int], ...],
    rest: int,
    keys: list[tuple[Any, int, Run, int]] | None,
    allow: bool,
) -> Callable[[Any, tuple[Any, ...], Any], None]:
    """The closure that binds what follows the required parameters."""

    def bind(env: Any, arguments: tuple[Any, ...], site: Any) -> None:
        at, count = low, len(arguments)
        for index, default, supplied in optional:
            if at < count:
                env[index] = arguments[at]
                at += 1
                if supplied:
                    env[supplied] = T
            else:
                env[index] = default(env)
                if supplied:
                    env[supplied] = NIL
        if rest:
            tail: Any = NIL
            for value in arguments[: at - 1 : -1] if at else arguments[::-1]:
                tail = new_cons(value, tail)
            env[rest] = tail
        if keys is not None:
            bind_keys(env, keys, arguments[at:], allow, name, site)

    return bind


def bind_keys(
    env: Any,
    keys: list[tuple[Any, int, Run, int]],
    arguments: tuple[Any, ...] | list[Any],
    allow: bool,
    name: str,
    site: Any,
) -> None:
    """Bind &key parameters from a list of keywords and values."""
    given: dict[Any, Any] = {}
    count = len(arguments)
    if count % 2:
        known = " ".join(f":{key.name}" for key, _, _, _ in keys[:6])
        told = f"{name}: the keyword arguments ({known}) are not in pairs"
        raise program_error(told, site, code="keyword")
    for at in range(0, count, 2):
        key = arguments[at]
        if key not in given:
            given[key] = arguments[at + 1]
    if not allow and given:
        known = {key for key, _, _, _ in keys}
        if given.get(_ALLOW, NIL) is NIL:
            for key in given:
                if key not in known and key is not _ALLOW:
                    raise unknown_key(name, key, [k for k, _, _, _ in keys], site)
    for key, index, default, supplied in keys:
        if key in given:
            env[index] = given[key]
            if supplied:
                env[supplied] = T
        else:
            env[index] = default(env)
            if supplied:
                env[supplied] = NIL


def unknown_key(name: str, key: Any, known: list[Any], site: Any) -> Exception:
    """The program-error of a keyword that the function does not have."""
    words = " ".join(brief(k) for k in known)
    return program_error(
        f"{name} has no keyword {brief(key)}",
        site,
        code="keyword",
        key=key,
        known=[brief(k) for k in known],
        accepts=words,
    )
