"""What failed in a session, so that errors which only follow from it are not told too."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.defined import DEFINITION
from sexpgpu.lisp.errors import LispError
from sexpgpu.lisp.values import CL, Cons, Module, Symbol
from sexpgpu.reader.failures import ReadFailure


class Failed:
    """The symbols and the aliases of modules that forms which failed would have defined."""

    __slots__ = ("aliases", "symbols")

    def __init__(self) -> None:
        self.symbols: set[Symbol] = set()
        self.aliases: set[str] = set()

    def add_form(self, form: Any) -> None:
        """A form failed: what it would have defined is not to be missed again."""
        if not isinstance(form, Cons) or not isinstance(form.car, Symbol):
            return
        items = list(form.cdr) if isinstance(form.cdr, Cons) else []
        if form.car.name == "require":
            for key, value in zip(items[1::2], items[2::2], strict=False):
                if isinstance(key, Symbol) and isinstance(value, Symbol) and key.name == "as":
                    self.aliases.add(value.name)
                elif isinstance(value, Cons):
                    self.symbols.update(v for v in value if isinstance(v, Symbol))
            return
        if form.car.name.startswith("def") and items:
            name = items[0].car if isinstance(items[0], Cons) else items[0]
            if isinstance(name, Symbol):
                self.symbols.add(name)
        elif form.car is CL.own("progn"):
            for item in items:
                self.add_form(item)

    def add_text(self, text: str, start: int, end: int, module: Module) -> None:
        """A part of a text could not be read: the first definition in it is not to be missed."""
        match = DEFINITION.search(text, start, end)
        if match is not None:
            self.symbols.add(module.intern(match.group(2).lower()))

    def explains(self, error: LispError) -> bool:
        """Whether the error only follows from a form that failed before."""
        name = error.condition.slots.get("name")
        return isinstance(name, Symbol) and name in self.symbols

    def explains_text(self, failure: ReadFailure) -> bool:
        """Whether what could not be read names a module that could not be required."""
        span = failure.diagnostic.span
        if span is None:
            return False
        alias, colon, _ = span.text.partition(":")
        return bool(colon) and alias in self.aliases
