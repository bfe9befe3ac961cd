"""The names that a module sees, and what each is for: completion and documentation."""

from __future__ import annotations

from sexpgpu.lisp import world
from sexpgpu.lisp.analyze import SPECIAL
from sexpgpu.lisp.evaluation import documentation
from sexpgpu.lisp.reports import lambda_text
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import NIL, UNBOUND, Module, String, Symbol


def _means_something(symbol: Symbol) -> bool:
    return bool(
        symbol.function
        or symbol.macro
        or symbol.special
        or symbol.value is not UNBOUND
        or symbol in SPECIAL
    )


def visible_names(module: Module) -> list[str]:
    """Every name that means something in a module, those of other modules with their alias."""
    world.prepare()
    names = {
        name
        for layer in (module, *module.inherits)
        for name, symbol in layer.symbols.items()
        if _means_something(symbol) and (layer is module or not name.startswith("%"))
    }
    for alias, target in module.aliases.items():
        names.update(
            f"{alias}:{name}"
            for name in target.public()
            if name in target.deferred or _means_something(target.symbols[name])
        )
    return list(names)


def described(module: Module, name: str) -> str | None:
    """How a name is called and what it is for; None when it means nothing."""
    world.prepare()
    alias, colon, rest = name.partition(":")
    if colon and alias in module.aliases:
        symbol = module.aliases[alias].local(rest)
    else:
        symbol = module.find(name)
    if STATE.session is not None:
        STATE.session.deferred.settle()
    if symbol is None or not _means_something(symbol):
        return None
    if symbol in SPECIAL:
        head = f"({name} …)  special form"
    elif symbol.function is not None or symbol.macro is not None:
        function = symbol.function or symbol.macro
        assert function is not None
        inner = lambda_text(function)[1:-1]
        kind = "function" if symbol.function is not None else "macro"
        head = f"({name}{' ' + inner if inner else ''})  {kind}"
    else:
        head = f"{name}  {'constant' if symbol.constant else 'variable'}"
    text = documentation(symbol, NIL)
    return f"{head}\n{text.text}" if isinstance(text, String) and text.text else head
