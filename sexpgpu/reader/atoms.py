"""Tokens that are forms by themselves: numbers, symbols, characters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sexpgpu.diagnostics.codes import read as codes
from sexpgpu.diagnostics.model import Code
from sexpgpu.lisp.values import KEYWORD, NIL, Cons, Module, Symbol, char, keyword
from sexpgpu.reader.failures import ReadFailure, failure
from sexpgpu.reader.lexer import TERMINATORS, TOKEN, character_code, escaped_token
from sexpgpu.reader.numbers import BadNumber, parse_number, parse_radix
from sexpgpu.reader.qualified import NoSymbol, qualified
from sexpgpu.source import Source

_NUMERIC = frozenset("0123456789+-.")


class AtomReader:
    """Reads the atoms of one source into one module: what is common to all of a text's forms.

    Behind `#-` what is read is suppressed: its symbols are not interned, its mistakes not told.
    """

    def __init__(
        self, source: Source, module: Module, features: Iterable[str], start: int, base: int
    ) -> None:
        self.source = source
        self.module = module
        self.features = frozenset(features)
        self.at = start
        self.base = base
        self._atoms: dict[str, Any] = {}
        self._known = module.symbols  # a cached atom is good while no name was added over it
        self._size = len(module.symbols)
        self._version = module.version
        self._suppressed = 0
        self._testing = 0
        self._quoting = 0

    def _fail(
        self,
        code: Code,
        headline: str,
        start: int,
        end: int,
        fix: str | None = None,
        at_end: bool = False,
    ) -> ReadFailure:
        return failure(self.source, code, headline, start, end, fix=fix, at_end=at_end)

    def _restart(self, after: int) -> None:
        """Go on at the next line that begins with an open parenthesis."""
        found = self.source.text.find("\n(", after)
        self.at = len(self.source.text) if found < 0 else found + 1
        self._suppressed = self._testing = self._quoting = 0

    def _atom(self, token: str, at: int, end: int) -> Any:
        if self._suppressed:
            return NIL
        if token[0] in _NUMERIC or self.base != 10:
            try:
                number = parse_number(token, self.base)
            except BadNumber as bad:
                raise self._fail(codes.E_READ_006, str(bad), at, end) from None
            if number is not None:
                if not self._testing:
                    self._atoms[token] = number
                return number
        if not token.strip("."):
            raise self._fail(codes.E_READ_004, "a dot has no meaning here", at, end)
        name = token if token.islower() else token.lower()
        if not name.isprintable() and ("\b" in name or "\x7f" in name):
            raise self._fail(codes.E_READ_006, "a control character in a symbol", at, end)
        if ":" in name:
            value = self._qualified(name, [i for i, c in enumerate(name) if c == ":"], at, end)
            if name[0] == ":":
                self._atoms[token] = value
            return value
        if self._testing:
            return keyword(name)
        before = len(self._known)
        value = self.module.intern(name)
        self._size += len(self._known) - before
        self._atoms[token] = value
        return value

    def _escaped(self, at: int) -> tuple[Any, int]:
        """A token with bars or backslashes: always a symbol."""
        name, end, colons = escaped_token(self.source.text, at)
        if end < 0:
            self._restart(at)
            raise self._fail(
                codes.E_READ_003, "this symbol's bar is never closed", at, at + 1, at_end=True
            )
        self.at = end
        if self._suppressed:
            return NIL, end
        if colons:
            return self._qualified(name, colons, at, end), end
        if self._testing:
            return keyword(name), end
        return self.module.intern(name), end

    def _qualified(self, name: str, colons: list[int], at: int, end: int) -> Symbol:
        """`:keyword` or `alias:name`."""
        try:
            return qualified(name, colons, self.module)
        except NoSymbol as wrong:
            raise self._fail(wrong.code, wrong.headline, at, end, fix=wrong.fix) from None

    def _character(self, at: int, after: int) -> tuple[bool, Any, int]:
        text = self.source.text
        if after >= len(text):
            self.at = after
            raise self._fail(
                codes.E_READ_009, "the text ends inside a character", at, after, at_end=True
            )
        end = after + 1
        size = len(text)
        while end < size and text[end] not in TERMINATORS:
            end += 1
        self.at = end
        name = text[after:end]
        code = character_code(name)
        if code is None:
            if self._suppressed:
                return True, NIL, end
            raise self._fail(codes.E_READ_009, f"no character is called {name}", at, end)
        return True, char(code), end

    def _radix(self, at: int, after: int, base: int) -> tuple[bool, Any, int]:
        found = TOKEN.match(self.source.text, after)
        end = self.at = found.end() if found else after
        if self._suppressed:
            return True, NIL, end
        value = None
        if found and 2 <= base <= 36:
            try:
                value = parse_radix(found.group(), base)
            except BadNumber as bad:
                raise self._fail(codes.E_READ_006, str(bad), at, end) from None
        if value is None:
            shown = self.source.text[at:end]
            raise self._fail(codes.E_READ_006, f"`{shown}` is not a number in base {base}", at, end)
        return True, value, end

    def _feature(self, test: Any, start: int, end: int) -> bool:
        """Whether a feature expression holds."""
        if isinstance(test, Symbol):
            return test.module is KEYWORD and test.name in self.features
        if isinstance(test, Cons) and isinstance(test.car, Symbol):
            parts = list(test.cdr) if isinstance(test.cdr, Cons) else []
            name = test.car.name
            if name == "and":
                return all(self._feature(part, start, end) for part in parts)
            if name == "or":
                return any(self._feature(part, start, end) for part in parts)
            if name == "not" and len(parts) == 1:
                return not self._feature(parts[0], start, end)
        raise self._fail(
            codes.E_READ_005,
            "a feature test is a keyword, or and, or, not of them",
            start,
            end,
        )
