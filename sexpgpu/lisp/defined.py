"""What a session's files define: each name once, their own or one of a lower layer's."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sexpgpu.diagnostics.codes import lisp as codes
from sexpgpu.diagnostics.model import Diagnostic, Label, SxError
from sexpgpu.lisp.errors import make_error
from sexpgpu.lisp.state import Site
from sexpgpu.lisp.values import CL, PRELUDE, TENSOR, Module, Symbol
from sexpgpu.source import Source, Span

DEFINERS = frozenset(
    (
        "defun",
        "defmacro",
        "defvar",
        "defparameter",
        "defconstant",
        "defstruct",
        "deftype",
        "defmodel",
        "define-modify-macro",
        "define-symbol-macro",
        "define-condition",
        "defoptimizer",
    )
)
DEFINITION = re.compile(r"^\((def[^\s()]*)\s+\(?([^\s()\"';]+)", re.MULTILINE)


def shadow(source: Source, module: Module) -> None:
    """Make names of lower layers that the file defines its own, before it is read."""
    for match in DEFINITION.finditer(source.text):
        if match.group(1).lower() not in DEFINERS:
            continue
        name = match.group(2).lower()
        if name in module.symbols or ":" in name or "|" in name:
            continue
        lower = module.find(name)
        if lower is not None and lower.module in (PRELUDE, TENSOR):
            module.shadows[lower] = module.own(name)


class Defined:
    """The definitions so far, with their places. `warn` is told of replaced names."""

    __slots__ = ("_places", "_warn")

    def __init__(self, warn: Callable[[Diagnostic], None]) -> None:
        self._places: dict[tuple[str, Symbol], tuple[Any, Span | None]] = {}
        self._warn = warn

    def define(self, name: Symbol, kind: str, site: Site, module: Module, once: bool) -> Symbol:
        """The symbol that a definition in a module defines. Errors: names of other modules, and,
        if `once`, a second definition in a file. Warning: names of lower layers."""
        symbol = name
        owner = name.module
        if owner in (PRELUDE, TENSOR) and module is not owner:
            symbol = module.symbols.get(name.name) or module.own(name.name)
            module.shadows[name] = symbol
        elif owner is not module and owner is not None and owner is not CL:
            raise make_error(
                "program-error",
                site,
                message=f"{name.name} belongs to the module {owner.name}",
                code="foreign-name",
            )
        self._warn_shadow(symbol, module, site.span)
        if once:
            self._once(symbol, kind, site)
        return symbol

    def _warn_shadow(self, symbol: Symbol, module: Module, span: Span | None) -> None:
        for lower, own in module.shadows.items():
            if not (lower.function or lower.macro or lower.special):
                continue  # a name that only occurs there, as a variable say
            if own is symbol and span is not None and not span.source.standard:
                where = "the prelude" if lower.module is PRELUDE else "the tensor operations"
                self._warn(
                    Diagnostic(
                        codes.W_NAME_001,
                        f"{symbol.name} is a name of {where}; this definition replaces it here",
                        [Label(span)],
                    )
                )

    def _once(self, symbol: Symbol, kind: str, site: Site) -> None:
        space = "function" if kind in ("function", "macro") else kind
        place = site.place
        key = (space, symbol)
        present = self._places.get(key)
        where = None if place is None else place[:3]
        if present is None or present[0] == where or where is None:
            self._places[key] = (where, site.span)
            return
        labels = [Label(site.span, "the second definition")] if site.span else []
        if present[1] is not None:
            labels.append(Label(present[1], "the first"))
        raise SxError(
            Diagnostic(codes.E_NAME_003, f"{symbol.name} is defined twice in this file", labels)
        )
