"""Transfers of control as Python exceptions. No Lisp form catches them but their own targets."""

from __future__ import annotations

from typing import Any


class Exit(BaseException):
    """A non-local exit on its way to its target."""


class BlockExit(Exit):
    """`return-from` out of a block: the token of the block's activation, and the values."""

    def __init__(self, token: Any, value: Any) -> None:
        self.token = token
        self.value = value


class GoExit(Exit):
    """`go` to a tag: the token of the tagbody's activation, and the index of the tag."""

    def __init__(self, token: Any, index: int) -> None:
        self.token = token
        self.index = index


class ThrowExit(Exit):
    """`throw` to a catch tag."""

    def __init__(self, tag: Any, value: Any) -> None:
        self.tag = tag
        self.value = value


class HandlerExit(Exit):
    """A clause of handler-case was chosen for a condition."""

    def __init__(self, token: Any, index: int, condition: Any) -> None:
        self.token = token
        self.index = index
        self.condition = condition


class RestartExit(Exit):
    """A restart of restart-case was invoked with these arguments."""

    def __init__(self, token: Any, index: int, arguments: tuple[Any, ...]) -> None:
        self.token = token
        self.index = index
        self.arguments = arguments


class Activation:
    """The token of one activation of a block or tagbody; dead once control has left it."""

    __slots__ = ("alive",)

    def __init__(self) -> None:
        self.alive = True


class Jump:
    """What a statement of a tagbody returns in place of raising, when a `go` is its last act."""

    __slots__ = ("body", "index")

    def __init__(self, body: Any, index: int) -> None:
        self.body = body
        self.index = index


CATCH_TAGS: list[Any] = []  # the tags of the active catches, innermost last
