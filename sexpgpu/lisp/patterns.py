"""Destructuring: the lambda lists of macros and destructuring-bind, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.analyze import analyze
from sexpgpu.lisp.binding_nodes import BindSpecial
from sexpgpu.lisp.builtins.designators import list_items
from sexpgpu.lisp.errors import program_error
from sexpgpu.lisp.lambda_lists import LambdaList, parse
from sexpgpu.lisp.lambdas import bind_keys
from sexpgpu.lisp.nodes import Node, single
from sexpgpu.lisp.scope import DYNAMIC, Frame, Level, Scope, Var
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import NIL, Cons, Foreign, Symbol, T
from sexpgpu.lisp.variable_nodes import LocalRef
from sexpgpu.reader.printer import brief

Bind = Callable[[Any, Any], None]


class Pattern:
    """A compiled pattern. Analyse the body in `scope` afterwards, then emit."""

    __slots__ = (
        "aux",
        "dynamic",
        "environment",
        "keys",
        "level",
        "optional",
        "parsed",
        "required",
        "rest",
        "scope",
        "specials",
        "variables",
        "who",
        "whole",
    )

    def __init__(self, parsed: LambdaList, who: str, scope: Scope, specials: set[Symbol]) -> None:
        self.parsed = parsed
        self.who = who
        self.level: Level = scope.level
        self.specials = specials
        self.variables: list[Var] = []
        self.dynamic: list[tuple[Symbol, Var]] = []
        self.scope = scope
        self.whole: Any = self._target(parsed.whole) if parsed.whole is not None else None
        self.environment = self._target(parsed.environment) if parsed.environment else None
        self.required = [self._target(item) for item in parsed.required]
        self.optional = [self._later(item) for item in parsed.optional]
        self.rest: Any = self._target(parsed.rest) if parsed.rest is not None else None
        self.keys = None
        if parsed.keys is not None:
            self.keys = [(item.key, *self._later(item)) for item in parsed.keys]
        self.aux: list[tuple[Any, Node]] = []
        for name, value in parsed.aux:
            node = analyze(value, self.scope)
            self.aux.append((self._target(name), node))

    def _target(self, target: Any) -> Any:
        if isinstance(target, Symbol) and target is not NIL:
            inner = Scope(self.scope, self.level)
            var = Var(target, self.level)
            self.variables.append(var)
            if target.special or target in self.specials:
                self.dynamic.append((target, var))
                hidden = DYNAMIC
                inner.variables = {target: hidden}
            else:
                inner.variables = {target: var}
            self.scope = inner
            return var
        nested = Pattern(parse(target, self.who, True), self.who, self.scope, self.specials)
        self.scope = nested.scope
        self.variables.extend(nested.variables)
        self.dynamic.extend(nested.dynamic)
        return nested

    def _later(self, item: Any) -> tuple[Any, Node, Any]:
        default = analyze(item.default, self.scope)
        target = self._target(item.target)
        return target, default, self._target(item.supplied) if item.supplied else None

    def wrap(self, body: Node) -> Node:
        """The body inside the dynamic bindings that the pattern makes."""
        if not self.dynamic:
            return body
        symbols = [symbol for symbol, _ in self.dynamic]
        return BindSpecial(symbols, [LocalRef(var) for _, var in self.dynamic], body)

    def emit(self, frame: Frame) -> Bind:
        """The closure that binds the variables in a frame from a value."""
        required = tuple(store(target, frame) for target in self.required)
        whole = store(self.whole, frame) if self.whole is not None else None
        optional = tuple(
            (single(default, frame), store(target, frame), _store_flag(supplied, frame))
            for target, default, supplied in self.optional
        )
        rest = store(self.rest, frame) if self.rest is not None else None
        keys = self._emit_keys(frame)
        aux = tuple((single(node, frame), store(target, frame)) for target, node in self.aux)
        who, parsed = self.who, self.parsed
        open_end = rest is not None or keys is not None
        low = len(required)

        def bind(env: Any, value: Any) -> None:
            if whole is not None:
                whole(env, value)
            at = value
            for put in required:
                if not isinstance(at, Cons):
                    raise _mismatch(who, parsed, value, low, at)
                put(env, at.car)
                at = at.cdr
            for default, put, flag in optional:
                if isinstance(at, Cons):
                    put(env, at.car)
                    at = at.cdr
                    flag(env, T)
                else:
                    put(env, default(env))
                    flag(env, NIL)
            if rest is not None:
                rest(env, at)
            if keys is not None:
                keys(env, at)
            elif not open_end and at is not NIL:
                raise _mismatch(who, parsed, value, low, at)
            for run, put in aux:
                put(env, run(env))

        return bind

    def _emit_keys(self, frame: Frame) -> Bind | None:
        if self.keys is None:
            return None
        table: list[tuple[Any, int, Any, int]] = []
        nested: list[tuple[int, Any]] = []
        for key, target, default, supplied in self.keys:
            run = single(default, frame)
            if isinstance(target, Var):
                index = target.place(frame)
            else:
                index = frame.add()
                nested.append((index, store(target, frame)))
            table.append((key, index, run, supplied.place(frame) if supplied else 0))
        allow, who = self.parsed.allow, self.who

        def bind(env: Any, value: Any) -> None:
            bind_keys(env, table, list_items(value), allow, who, STATE.site)
            for index, put in nested:
                put(env, env[index])

        return bind


def store(target: Any, frame: Frame) -> Bind:
    """The closure that puts a value into a variable, or takes it apart."""
    if isinstance(target, Var):
        index = target.place(frame)

        def put(env: Any, value: Any) -> None:
            env[index] = value

        return put
    return target.emit(frame)


def _store_flag(target: Any, frame: Frame) -> Bind:
    if target is None:
        return lambda env, value: None
    return store(target, frame)


def _mismatch(who: str, parsed: LambdaList, value: Any, low: int, rest: Any) -> Exception:
    given = 0
    at = value
    while isinstance(at, Cons) and given < 10_000:
        given += 1
        at = at.cdr
    if at is not NIL and not isinstance(at, Cons) and given >= low and rest is at:
        what = f"the list {brief(value)} is dotted"
    elif not isinstance(value, Cons) and value is not NIL:
        what = f"{brief(value)} is not a list"
    elif given < low:
        what = f"too few arguments: {given} given"
    else:
        what = f"too many arguments: {given} given"
    fix = at.lisp_advice("list") if isinstance(at, Foreign) else None
    return program_error(
        f"{who}: {what}; its lambda list is {brief(parsed.text)}",
        code="macro-arguments",
        fix=fix,
    )


def pattern(form: Any, who: str, scope: Scope, specials: set[Symbol]) -> Pattern:
    """Parse and compile a destructuring lambda list."""
    return Pattern(parse(form, who, True), who, scope, specials)
