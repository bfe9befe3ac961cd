"""Nodes of blocks, tagbodies and unwind-protect: exits as returns where possible, else as
exceptions with a token made per activation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.control import Activation, BlockExit, GoExit, Jump
from sexpgpu.lisp.errors import LimitError, control_error
from sexpgpu.lisp.nodes import Node, Run
from sexpgpu.lisp.scope import Block, Frame, Tagbody
from sexpgpu.lisp.state import STATE, Site
from sexpgpu.lisp.tiers import LoopTier
from sexpgpu.lisp.values import NIL
from sexpgpu.lisp.variable_nodes import LocalRef


class BlockNode(Node):
    """block. Costs nothing when all exits were compiled as returns."""

    __slots__ = ("block", "body", "in_loop")

    def __init__(self, block: Block, body: Node, in_loop: bool) -> None:
        self.block = block
        self.body = body
        self.in_loop = in_loop

    def emit(self, frame: Frame) -> Run:
        block = self.block
        if not block.exits:
            return self.body.emit(frame)
        if not block.var.captured:
            body = self.body.emit(frame)

            def near(env: Any) -> Any:
                try:
                    return body(env)
                except BlockExit as leaving:
                    if leaving.token is block:
                        return leaving.value
                    raise

            return near
        inner = Frame(frame) if self.in_loop else frame
        index = block.var.place(inner)
        body = self.body.emit(inner)
        fresh = inner is not frame
        padding = (None,) * (inner.size - 1)

        def far(env: Any) -> Any:
            if fresh:
                env = [env, *padding]
            env[index] = token = Activation()
            try:
                return body(env)
            except BlockExit as leaving:
                if leaving.token is token:
                    return leaving.value
                raise
            finally:
                token.alive = False

        return far


class ReturnFrom(Node):
    """return-from by exception."""

    __slots__ = ("block", "far", "site", "value")

    def __init__(self, block: Block, value: Node, far: bool, site: Site) -> None:
        self.block = block
        self.value = value
        self.far = far
        self.site = site
        block.exits = True

    def emit(self, frame: Frame) -> Run:
        block, site = self.block, self.site
        value = self.value.emit(frame)
        if not block.var.captured:

            def near(env: Any) -> Any:
                raise BlockExit(block, value(env))

            return near
        token_of = LocalRef(block.var).emit(frame)

        def far(env: Any) -> Any:
            token = token_of(env)
            result = value(env)
            if not token.alive:
                STATE.site = site
                raise control_error(f"block {block.name.name} was left before")
            raise BlockExit(token, result)

        return far


class TagbodyNode(Node):
    """tagbody: segments of statements between tags. Gives nil, or a Jump to an outer tagbody."""

    __slots__ = ("in_loop", "site", "statements", "tagbody", "targets", "tier")
    multi = False

    def __init__(
        self,
        tagbody: Tagbody,
        statements: list[Node],
        targets: list[int],
        in_loop: bool,
        site: Site,
    ) -> None:
        self.tagbody = tagbody
        self.site = site
        self.statements = statements
        self.targets = targets  # tag index -> index of the statement after it
        self.in_loop = in_loop
        self.tier = LoopTier(self)

    def emit(self, frame: Frame) -> Run:
        tagbody = self.tagbody
        if tagbody.exits and tagbody.var.captured:
            return self._emit_far(frame)
        code = self._code(frame)
        walk = self._walk(code, self.tier)
        self.tier.frame = frame
        if not tagbody.exits:
            return lambda env: walk(env, 0)
        targets, site = tuple(self.targets), self.site

        def run(env: Any) -> Any:
            at = 0
            while True:
                try:
                    return walk(env, at)
                except GoExit as going:
                    if going.token is not tagbody:
                        raise
                    at = targets[going.index]
                    _step(site)

        return run

    def _emit_far(self, frame: Frame) -> Run:
        inner = Frame(frame) if self.in_loop else frame
        index = self.tagbody.var.place(inner)
        code = self._code(inner)
        walk = self._walk(code, None)
        targets, site = tuple(self.targets), self.site
        fresh = inner is not frame
        padding = (None,) * (inner.size - 1)

        def run(env: Any) -> Any:
            if fresh:
                env = [env, *padding]
            env[index] = token = Activation()
            at = 0
            try:
                while True:
                    try:
                        return walk(env, at)
                    except GoExit as going:
                        if going.token is not token:
                            raise
                        at = targets[going.index]
                        _step(site)
            finally:
                token.alive = False

        return run

    def _code(self, frame: Frame) -> tuple[Run, ...]:
        return tuple(node.emit(frame) for node in self.statements)

    def _walk(self, code: tuple[Run, ...], tier: LoopTier | None) -> Callable[[Any, int], Any]:
        tagbody, targets, size = self.tagbody, tuple(self.targets), len(code)
        site, state = self.site, STATE

        def walk(env: Any, at: int) -> Any:
            while at < size:
                result = code[at](env)
                if type(result) is Jump:
                    if result.body is not tagbody:
                        return result
                    at = targets[result.index]
                    state.fuel = fuel = state.fuel - 1
                    if fuel < 0:
                        state.refuel(site)
                    if tier is not None:
                        tier.left = left = tier.left - 1
                        if left < 0:
                            hot = tier.heat()
                            if hot is not None:
                                return hot(env, at)
                else:
                    at += 1
            return NIL

        return walk


def _step(site: Site) -> None:
    STATE.fuel -= 1
    if STATE.fuel < 0:
        STATE.refuel(site)


class Go(Node):
    """go: a Jump where it is the last act of a statement, else an exception."""

    __slots__ = ("index", "near", "site", "tagbody")
    multi = False

    def __init__(self, tagbody: Tagbody, index: int, near: bool, site: Site) -> None:
        self.tagbody = tagbody
        self.index = index
        self.near = near
        self.site = site
        if not near:
            tagbody.exits = True

    def emit(self, frame: Frame) -> Run:
        tagbody, index, site = self.tagbody, self.index, self.site
        if self.near:
            jump = Jump(tagbody, index)
            return lambda env: jump
        if not tagbody.var.captured:

            def go(env: Any) -> Any:
                raise GoExit(tagbody, index)

            return go
        token_of = LocalRef(tagbody.var).emit(frame)

        def far(env: Any) -> Any:
            token = token_of(env)
            if not token.alive:
                STATE.site = site
                raise control_error("the tagbody of this tag was left before")
            raise GoExit(token, index)

        return far


class UnwindProtect(Node):
    """unwind-protect. Limits run no cleanup."""

    __slots__ = ("body", "cleanup")

    def __init__(self, body: Node, cleanup: Node) -> None:
        self.body = body
        self.cleanup = cleanup

    def emit(self, frame: Frame) -> Run:
        body, cleanup = self.body.emit(frame), self.cleanup.emit(frame)

        def run(env: Any) -> Any:
            try:
                result = body(env)
            except (LimitError, RecursionError, KeyboardInterrupt):
                raise
            except BaseException:
                cleanup(env)
                raise
            cleanup(env)
            return result

        return run
