"""What code being written is made of beside its text: destinations of values, Python loops and the
exits that cross them, lines that can only be worded when all is written, and the global names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.control import Activation, BlockExit, GoExit, Jump
from sexpgpu.lisp.journal import keep
from sexpgpu.lisp.scope import Frame, Var
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import MV, NIL, UNBOUND, Cons, Function, Symbol, T

NAMES: dict[str, Any] = {
    "state": STATE,
    "stack": STATE.stack,
    "NIL": NIL,
    "T": T,
    "MV": MV,
    "Cons": Cons,
    "new": object.__new__,
    "Function": Function,
    "Symbol": Symbol,
    "UNBOUND": UNBOUND,
    "Activation": Activation,
    "BlockExit": BlockExit,
    "GoExit": GoExit,
    "Jump": Jump,
    "keep": keep,
    "type": type,
    "int": int,
    "float": float,
    "isinstance": isinstance,
    "len": len,
    "range": range,
    "NUMERIC": (TypeError, OverflowError),
}


def _enter() -> None:
    """Take fuel at the entry of a function that has not pushed its site yet."""
    STATE.stack.append(STATE.site)
    try:
        STATE.take_ticket()
    finally:
        STATE.site = STATE.stack.pop()


NAMES["enter"] = _enter


def pushing(function: Callable[..., Any]) -> Callable[..., Any]:
    """The slow path for code that has not pushed its call's site."""
    state, stack = STATE, STATE.stack

    def called(*arguments: Any) -> Any:
        stack.append(state.site)
        try:
            return function(*arguments)
        finally:
            state.site = stack.pop()

    return called


class Dest:
    """Where a node's value goes: nowhere (""), into a Python variable, or out by `return`.
    `single`: the primary value is wanted; `raw`: an MV will do as well, where it comes by itself.
    `statement`: a statement of a tagbody, which may jump."""

    __slots__ = ("name", "raw", "single", "statement")

    def __init__(
        self, name: str, single: bool = True, statement: bool = False, raw: bool = False
    ) -> None:
        self.name = name
        self.single = single
        self.statement = statement
        self.raw = raw


EFFECT = Dest("")
STATEMENT = Dest("", statement=True)
RETURN = Dest("return", single=False)


class Loop:
    """A Python loop around the code being written; `passing` are the exits that cross it."""

    __slots__ = ("passing",)

    def __init__(self) -> None:
        self.passing: list[Exit] = []


class Exit:
    """A block or tagbody that code inside it can leave or restart: `act` in its own loop, else
    by a flag that every loop in between looks at. Of a tagbody: `at` names where control goes on,
    `segments` are the places of its tags, `site` its own."""

    __slots__ = ("act", "at", "dest", "flag", "loop", "segments", "site", "used")

    def __init__(self, loop: Loop | None, act: str, flag: str, dest: Dest) -> None:
        self.loop = loop
        self.act = act
        self.flag = flag
        self.dest = dest
        self.used = False
        self.at = ""
        self.segments: tuple[int, ...] = ()
        self.site = ""


class MakeFrame:
    """The line that makes a frame list, if anything needs the frame."""

    __slots__ = ("frame", "values")

    def __init__(self, frame: Frame, values: dict[int, str]) -> None:
        self.frame = frame
        self.values = values  # slot -> expression


class Entry:
    """The line that takes a variable out of a frame list when the code is entered (`store`: puts
    it back when it is left), if it is a Python local."""

    __slots__ = ("store", "var")

    def __init__(self, var: Var, store: bool = False) -> None:
        self.var = var
        self.store = store
