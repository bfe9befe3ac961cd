"""Compile-time environments: what names mean where, and where variables live at run time.

A `Scope` answers what a name means. A `Level` is one function being compiled. A `Frame` is the
layout of one run-time list: slot 0 holds the enclosing frame, the others variables. Variables of
inner `let`s share their function's frame, unless a closure captures one inside a loop.
"""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.errors import type_error
from sexpgpu.lisp.values import NIL, Cons, Symbol


class Level:
    """One function being analysed. `loops` counts the loops around the form at hand."""

    __slots__ = ("loops", "parent")

    def __init__(self, parent: Level | None = None) -> None:
        self.parent = parent
        self.loops = 0


class Frame:
    """The layout of a run-time frame; known when the code of its body has been made. `reaches`:
    code inside it uses a variable of a frame around it. `tier`: of the function whose frame it is,
    None of one that a form made inside."""

    __slots__ = ("parent", "reaches", "size", "tier")

    def __init__(self, parent: Frame | None = None) -> None:
        self.parent = parent
        self.reaches = False
        self.size = 1
        self.tier: Any = None

    def add(self) -> int:
        """A new slot."""
        index = self.size
        self.size = index + 1
        return index


TOUCHED: list[set[Var]] = []  # where the variables are noted that code being made uses


class Var:
    """A lexical variable, or what is kept like one (a local function, a block's token).

    `inits` are the nodes of the values that it is bound to, None when they are not known (it is a
    parameter, say); `sets` those of the values that it is set to.
    `references` counts the nodes that look at it.
    """

    __slots__ = (
        "captured",
        "frame",
        "index",
        "inits",
        "level",
        "name",
        "references",
        "sets",
        "used",
        "written",
    )

    def __init__(self, name: Any, level: Level) -> None:
        self.name = name
        self.level = level
        self.inits: list[Any] | None = None
        self.sets: list[Any] = []
        self.references = 0
        self.captured = False
        self.used = False
        self.written: Any = None  # by a macro's text (lisp.hygiene)
        self.frame: Frame | None = None
        self.index = 0

    def place(self, frame: Frame) -> int:
        """Give it a slot of the frame: the same one when its code is made once more."""
        if self.frame is not frame:
            self.frame = frame
            self.index = frame.add()
        if TOUCHED:
            TOUCHED[-1].add(self)
        return self.index

    def touch(self, level: Level) -> None:
        """Note a use from the function `level`."""
        self.used = True
        if level is not self.level:
            self.captured = True

    def depth(self, frame: Frame) -> int:
        """How many frames out from `frame` it lives."""
        depth = 0
        at: Frame | None = frame
        while at is not self.frame or at is None:
            if at is None:
                raise self._too_early()
            at.reaches = True
            depth += 1
            at = at.parent
        if TOUCHED:
            TOUCHED[-1].add(self)
        return depth

    def _too_early(self) -> Exception:
        from sexpgpu.lisp.errors import program_error

        name = self.name.name if isinstance(self.name, Symbol) else str(self.name)
        message = f"{name} has no value yet when macros are expanded: a macro cannot use it"
        return program_error(message, code="form")


class SymbolMacro:
    """A lexical symbol macro."""

    __slots__ = ("expansion",)

    def __init__(self, expansion: Any) -> None:
        self.expansion = expansion


class Dynamic:
    """A name that is dynamic here, by a declaration."""

    __slots__ = ()


DYNAMIC = Dynamic()


class LocalFunction:
    """A function of flet, labels or FLET_VALUES. `function` knows its counts of arguments."""

    __slots__ = ("inlined", "lambda_list", "maximum", "minimum", "var", "written")

    def __init__(self, var: Var) -> None:
        self.var = var
        self.minimum = 0
        self.maximum: int | None = None
        self.lambda_list: Any = None  # None: known at run time only
        self.inlined = False
        self.written = False  # by a macro's text


class LocalMacro:
    """A macro of macrolet."""

    __slots__ = ("function", "name")

    def __init__(self, name: Symbol, function: Any) -> None:
        self.name = name
        self.function = function


class Block:
    """A block. `exits`: somebody leaves it by an exception. `var` holds the activation's token."""

    __slots__ = ("exits", "level", "name", "var")

    def __init__(self, name: Symbol, level: Level) -> None:
        self.name = name
        self.level = level
        self.exits = False
        self.var = Var(name, level)


class Tagbody:
    """A tagbody, like Block."""

    __slots__ = ("exits", "indices", "level", "var")

    def __init__(self, level: Level) -> None:
        self.level = level
        self.exits = False
        self.indices: dict[Any, int] = {}
        self.var = Var(NIL, level)


class Scope:
    """What names mean at a place. Immutable once forms were analysed in it, but for `define`."""

    __slots__ = ("blocks", "functions", "level", "parent", "tags", "top_level", "variables")

    def __init__(self, parent: Scope | None, level: Level, top_level: bool = False) -> None:
        self.parent = parent
        self.level = level
        self.top_level = top_level
        self.variables: dict[Symbol, Any] | None = None
        self.functions: dict[Any, Any] | None = None
        self.blocks: dict[Symbol, Block] | None = None
        self.tags: dict[Any, Tagbody] | None = None

    def variable(self, name: Symbol) -> Any:
        """Var, SymbolMacro, DYNAMIC, or None when it is not bound here."""
        at: Scope | None = self
        while at is not None:
            if at.variables is not None:
                found = at.variables.get(name)
                if found is not None:
                    return found
            at = at.parent
        return None

    def function(self, name: Any) -> Any:
        """LocalFunction, LocalMacro or None. The name is a symbol or ("setf", symbol)."""
        at: Scope | None = self
        while at is not None:
            if at.functions is not None:
                found = at.functions.get(name)
                if found is not None:
                    return found
            at = at.parent
        return None

    def block(self, name: Symbol) -> Block | None:
        at: Scope | None = self
        while at is not None:
            if at.blocks is not None and name in at.blocks:
                return at.blocks[name]
            at = at.parent
        return None

    def tag(self, key: Any) -> Tagbody | None:
        at: Scope | None = self
        while at is not None:
            if at.tags is not None and key in at.tags:
                return at.tags[key]
            at = at.parent
        return None

    def define(self, name: Symbol, meaning: SymbolMacro) -> None:
        """Give a name a meaning for the forms that follow in the body at hand."""
        if self.variables is None:
            self.variables = {}
        self.variables[name] = meaning

    def local_function_names(self) -> list[str]:
        names: list[str] = []
        at: Scope | None = self
        while at is not None:
            for name in at.functions or ():
                if isinstance(name, Symbol):
                    names.append(name.name)
            at = at.parent
        return names

    def variable_names(self) -> list[str]:
        names: list[str] = []
        at: Scope | None = self
        while at is not None:
            names.extend(name.name for name in at.variables or ())
            at = at.parent
        return names


def null_scope(top_level: bool = True) -> Scope:
    """The null lexical environment."""
    return Scope(None, Level(), top_level)


def environment_scope(environment: Any) -> Scope:
    """The scope of an environment argument: what &environment gave, or nil."""
    if environment is NIL or environment is None:
        return null_scope()
    if isinstance(environment, Scope):
        return environment
    raise type_error(environment, "environment (what &environment binds)")


def function_key(name: Any) -> Symbol | tuple[str, Symbol] | None:
    """The key of a function name in a scope: the symbol, or ("setf", symbol); None: no name."""
    if isinstance(name, Symbol):
        return name
    if (
        isinstance(name, Cons)
        and isinstance(name.car, Symbol)
        and name.car.name == "setf"
        and isinstance(name.cdr, Cons)
        and isinstance(name.cdr.car, Symbol)
        and name.cdr.cdr is NIL
    ):
        return ("setf", name.cdr.car)
    return None
