"""Symbols: names, making and finding them, property lists."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.builtins.conses import copy_list_of
from sexpgpu.lisp.builtins.designators import string_text, truth
from sexpgpu.lisp.builtins.equality import text_of_string
from sexpgpu.lisp.builtins.lists import getf, put_property, remove_property
from sexpgpu.lisp.errors import package_error, type_error
from sexpgpu.lisp.journal import keep
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import (
    CL,
    KEYWORD,
    MV,
    NIL,
    PRELUDE,
    Module,
    String,
    Symbol,
    T,
    keyword,
)


def symbol_argument(value: Any) -> Symbol:
    """A symbol argument."""
    if not isinstance(value, Symbol):
        raise type_error(value, "symbol")
    return value


@builtin("symbolp", "(value)")
def symbolp(value: Any) -> Any:
    """Whether VALUE is a symbol."""
    return truth(isinstance(value, Symbol))


@builtin("keywordp", "(value)")
def keywordp(value: Any) -> Any:
    """Whether VALUE is a keyword."""
    return truth(isinstance(value, Symbol) and value.module is KEYWORD)


@builtin("symbol-name", "(symbol)")
def symbol_name(symbol: Any) -> Any:
    """The name of SYMBOL: in lower case unless it was written between bars."""
    return String(symbol_argument(symbol).name, literal=True)


@builtin("make-symbol", "(name)")
def make_symbol(name: Any) -> Any:
    """A new symbol that no module knows."""
    if type(name) is not String:
        raise type_error(name, "string")
    return Symbol(text_of_string(name))


@builtin("copy-symbol", "(symbol &optional copy-properties)")
def copy_symbol(symbol: Any, copy_properties: Any = NIL) -> Any:
    """A new symbol of that name that no module knows; with its value, function and properties
    when asked."""
    source = symbol_argument(symbol)
    made = Symbol(source.name)
    if copy_properties is not NIL:
        made.value = source.value
        made.function = source.function
        made.macro = source.macro
        made.plist = _copied(source.plist)
    return made


def _copied(plist: Any) -> Any:
    return None if plist is None else copy_list_of(plist)


def _module_argument(value: Any) -> Module:
    if value is None:
        return STATE.module or PRELUDE
    if isinstance(value, Module):
        return value
    name = string_text(value).lower()
    if name == "keyword":
        return KEYWORD
    if name in ("common-lisp", "cl"):
        return CL
    current = STATE.module or PRELUDE
    found = current.aliases.get(name)
    if found is not None:
        return found
    if name in (current.name, "common-lisp-user", "cl-user"):
        return current
    raise package_error(f"there is no module called {name} here")


def _found(text: str, home: Module) -> Symbol | None:
    """The symbol of that name that is visible in a module, defined if its module is a library."""
    found = home.find(text)
    if STATE.session is not None:
        STATE.session.deferred.settle()
    return found


@builtin("intern", "(name &optional module)")
def intern(name: Any, module: Any = None) -> Any:
    """The symbol of that name in the current module, made when there is none; and its status."""
    if type(name) is not String:
        raise type_error(name, "string")
    text = text_of_string(name)
    home = _module_argument(module)
    found = _found(text, home)
    if home is KEYWORD:
        return MV((keyword(text), NIL if found is None else keyword("external")))
    if found is None:
        if home is not (STATE.module or PRELUDE):
            raise package_error(f"intern: a symbol of {home.name} cannot be made from outside")
        return MV((home.intern(text), NIL))
    return MV((found, _status(found, home)))


def _status(symbol: Symbol, home: Module) -> Symbol:
    if symbol.module is home:
        return keyword("internal" if home not in (KEYWORD, CL) else "external")
    return keyword("inherited")


@builtin("find-symbol", "(name &optional module)")
def find_symbol(name: Any, module: Any = None) -> Any:
    """The symbol of that name that is visible, or nil; and its status."""
    if type(name) is not String:
        raise type_error(name, "string")
    home = _module_argument(module)
    found = _found(text_of_string(name), home)
    return MV((NIL, NIL)) if found is None else MV((found, _status(found, home)))


@builtin("symbol-package", "(symbol)")
def symbol_package(symbol: Any) -> Any:
    """The module SYMBOL belongs to, or nil."""
    return symbol_argument(symbol).module or NIL


# ---------------------------------------------------------------- properties


def _plist(symbol: Any) -> Any:
    plist = symbol_argument(symbol).plist
    return NIL if plist is None else plist


@builtin("symbol-plist", "(symbol)")
def symbol_plist(symbol: Any) -> Any:
    """The property list of SYMBOL."""
    return _plist(symbol)


@builtin("(setf symbol-plist)", "(new symbol)")
def set_symbol_plist(new: Any, symbol: Any) -> Any:
    """Replace the property list of SYMBOL."""
    keep(symbol_argument(symbol))
    symbol.plist = new
    return new


@builtin("get", "(symbol indicator &optional default)")
def get(symbol: Any, indicator: Any, default: Any = NIL) -> Any:
    """The value of a property of SYMBOL, or DEFAULT."""
    return getf(_plist(symbol), indicator, default)


@builtin("(setf get)", "(new symbol indicator &optional default)")
def set_get(new: Any, symbol: Any, indicator: Any, default: Any = NIL) -> Any:
    """Set a property of SYMBOL."""
    keep(symbol_argument(symbol))
    symbol.plist = put_property(copy_list_of(_plist(symbol)), indicator, new)
    return new


@builtin("remprop", "(symbol indicator)")
def remprop(symbol: Any, indicator: Any) -> Any:
    """Remove a property of SYMBOL; whether it was there."""
    keep(symbol_argument(symbol))
    symbol.plist, found = remove_property(copy_list_of(_plist(symbol)), indicator)
    return T if found else NIL
