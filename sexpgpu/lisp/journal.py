"""The journal of changed global slots, so that a session or a form leaves no trace.

Before a symbol's slots or an entry of a global table change, `keep` and `keep_entry` save them
once in the active journal. `swap` exchanges what is and what was: after it the journal's changes
are gone, after another they are back.
"""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.values import Symbol

_ABSENT: Any = object()


class Journal:
    """What one session (or one form of a batch) has changed."""

    __slots__ = ("entries", "symbols")

    def __init__(self) -> None:
        self.symbols: dict[Symbol, tuple[Any, ...]] = {}
        self.entries: dict[tuple[int, Any], tuple[dict[Any, Any], Any]] = {}

    def swap(self) -> None:
        """Exchange the kept slots and entries with the present ones."""
        symbols = self.symbols
        for symbol, slots in symbols.items():
            symbols[symbol] = _slots(symbol)
            (
                symbol.value,
                symbol.special,
                symbol.constant,
                symbol.function,
                symbol.macro,
                symbol.symbol_macro,
                symbol.setf,
                symbol.plist,
            ) = slots
        for key, (table, before) in self.entries.items():
            self.entries[key] = (table, table.get(key[1], _ABSENT))
            if before is _ABSENT:
                table.pop(key[1], None)
            else:
                table[key[1]] = before


def _slots(symbol: Symbol) -> tuple[Any, ...]:
    return (
        symbol.value,
        symbol.special,
        symbol.constant,
        symbol.function,
        symbol.macro,
        symbol.symbol_macro,
        symbol.setf,
        symbol.plist,
    )


_active: list[Journal | None] = [None]
_kept: dict[Symbol, tuple[Any, ...]] = {}


def keep(symbol: Symbol) -> None:
    """Save the slots of a symbol that is about to change."""
    journal = _active[0]
    if journal is not None and symbol not in journal.symbols:
        journal.symbols[symbol] = _slots(symbol)


def keep_entry(table: dict[Any, Any], key: Any) -> None:
    """Save the entry of a global table that is about to change."""
    journal = _active[0]
    if journal is not None and (id(table), key) not in journal.entries:
        journal.entries[id(table), key] = (table, table.get(key, _ABSENT))


def activate(journal: Journal | None) -> Journal | None:
    """Make a journal the active one; gives the one that was."""
    before = _active[0]
    _active[0] = journal
    return before
