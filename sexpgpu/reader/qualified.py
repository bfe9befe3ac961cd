"""`:keyword` and `alias:name`: the symbols that tokens with a colon denote."""

from __future__ import annotations

from sexpgpu.diagnostics.codes import read as codes
from sexpgpu.diagnostics.model import Code
from sexpgpu.lisp.values import CL, TENSOR, Module, Symbol, keyword
from sexpgpu.reader.names import nearest

# What a file inherits, by name: for where a definition of its own hides it.
LAYERS = {"cl": CL, "common-lisp": CL, "tensor": TENSOR}


class NoSymbol(Exception):
    """A token with a colon that denotes nothing: the code, what is wrong, and how to mend it."""

    def __init__(self, code: Code, headline: str, fix: str | None) -> None:
        super().__init__(headline)
        self.code = code
        self.headline = headline
        self.fix = fix


def qualified(name: str, colons: list[int], module: Module) -> Symbol:
    """The symbol of a token whose `colons` are at these places, read in that module."""
    first = colons[0]
    if len(colons) > 1 or (first == len(name) - 1 and len(name) > 1):
        raise NoSymbol(
            codes.E_READ_006,
            f"`{name}` is not a symbol: too many colons",
            "write alias:name, or :name for a keyword",
        )
    if first == 0:
        return keyword(name[1:])
    alias, inner = name[:first], name[first + 1 :]
    target = module.aliases.get(alias)
    if target is None:
        layer = LAYERS.get(alias)
        found = layer.symbols.get(inner) if layer is not None else None
        if found is not None:
            return found
        if layer is not None:
            raise _unknown_name(layer, alias, inner, False)
        raise _unknown_alias(module, alias, inner)
    found = target.local(inner)
    private = inner.startswith("%") or (target.exports is not None and inner not in target.exports)
    if found is None or private:
        raise _unknown_name(target, alias, inner, private)
    return found


def _unknown_alias(module: Module, alias: str, inner: str) -> NoSymbol:
    near = nearest(alias, module.aliases)
    if near:
        fix = f"write {near}:{inner}"
    elif alias in ("nn", "optim"):
        fix = f'begin the file with (require "sexpgpu/{alias}" :as {alias})'
    else:
        fix = f'name it above: (require "…" :as {alias})'
    return NoSymbol(codes.E_READ_007, f"no module is called `{alias}` here", fix)


def _unknown_name(target: Module, alias: str, inner: str, private: bool) -> NoSymbol:
    public = [
        n
        for n in target.public()
        if n in target.deferred
        or (s := target.symbols[n]).function
        or s.macro
        or s.special
        or s.constant
    ]
    near = nearest(inner, public)
    fix = f"write {alias}:{near}" if near else None
    for layer in LAYERS.values():
        if (own := layer.symbols.get(inner)) is not None and own.function is not None:
            fix = f"write {inner}"  # which needs no module
    if private and inner in target.symbols:
        return NoSymbol(codes.E_READ_007, f"`{inner}` is private to {target.name}", fix)
    return NoSymbol(codes.E_READ_007, f"{target.name} has no `{inner}`", fix)
