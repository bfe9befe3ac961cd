"""How often functions and loops run, and their hot code once they have some.

Forms are evaluated by closures (lisp.nodes), which are quick to make. What turns out to run often
is written as Python by lisp.hot, which takes over: a function at its next call, a loop in the
middle of its turns. Nothing of lisp.hot is loaded before that.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sexpgpu.lisp.scope import Frame
from sexpgpu.lisp.values import Function

if TYPE_CHECKING:
    from sexpgpu.lisp.lambdas import LambdaNode
    from sexpgpu.lisp.nodes import Node

FOREVER = 1 << 62


class Thresholds:
    """After how many calls a function is hot, and after how many turns a loop."""

    __slots__ = ("calls", "turns")

    def __init__(self, calls: int, turns: int) -> None:
        self.calls = calls
        self.turns = turns


# Writing and compiling takes as long as some thousand calls or turns in closures.
THRESHOLDS = Thresholds(1000, 2000)


@contextmanager
def thresholds(calls: int, turns: int) -> Generator[None]:
    """Others for what is analysed meanwhile: 0 and it is hot at once, FOREVER and it never is."""
    saved = THRESHOLDS.calls, THRESHOLDS.turns
    THRESHOLDS.calls, THRESHOLDS.turns = calls, turns
    try:
        yield
    finally:
        THRESHOLDS.calls, THRESHOLDS.turns = saved


def heat_around(frame: Frame | None) -> None:
    """The function around a frame is hot from its next call on: it does much, however rarely it is
    called. (One that has to stay cold has FOREVER left.)"""
    while frame is not None and frame.tier is None:
        frame = frame.parent
    if frame is not None and frame.tier.left <= THRESHOLDS.calls:
        frame.tier.left = min(frame.tier.left, 0)


class FunctionTier:
    """Of one lambda expression, shared by its closures.

    left    calls until it is hot; below zero it is
    make    makes the hot callable over an enclosing frame, None while cold
    outer, frame  the layouts that it was emitted in
    bind    binds what follows the required parameters, None when there is nothing
    new     makes a Function over an enclosing frame
    latest  the last Function made while cold: its `call` is exchanged
    """

    __slots__ = ("bind", "frame", "latest", "left", "make", "new", "node", "outer")

    def __init__(self, node: LambdaNode) -> None:
        self.node = node
        self.left = THRESHOLDS.calls
        self.make: Callable[[Any], Callable[..., Any]] | None = None
        self.outer: Frame | None = None
        self.frame: Frame | None = None
        self.bind: Any = None
        self.new: Any = None
        self.latest: Function | None = None

    def heat(self, parent: Any, cold: Callable[..., Any]) -> Callable[..., Any] | None:
        """The hot callable that takes over from `cold`; None when it has to stay cold."""
        if self.make is None:
            from sexpgpu.lisp.hot.compile import compile_lambda

            self.make = compile_lambda(self)
            if self.make is None:
                self.left = FOREVER
                self.latest = None
                return None
            heat_around(self.outer)
        hot = self.make(parent)
        latest = self.latest
        if latest is not None and latest.call is cold:
            latest.call = hot
            self.latest = None
        return hot


class LoopTier:
    """Of one loop. `left`: turns until it is hot. `run` goes on with a loop in a frame."""

    __slots__ = ("frame", "left", "node", "run")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.left = THRESHOLDS.turns
        self.frame: Frame | None = None
        self.run: Callable[..., Any] | None = None

    def heat(self) -> Callable[..., Any] | None:
        """The hot loop; None when it has to stay cold."""
        if self.run is None:
            from sexpgpu.lisp.hot.compile import compile_loop

            self.run = compile_loop(self)
            if self.run is None:
                self.left = FOREVER
            heat_around(self.frame)
        return self.run
