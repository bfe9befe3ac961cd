"""Symbols that only expansions use: no module inherits theirs, so programs cannot name them."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.values import NIL, Function, Module

HOST = Module("host")


def _read(cell: Any) -> Any:
    return NIL if cell is NIL else cell.read()  # nil: declared with a false :when


def _write(value: Any, cell: Any) -> Any:
    return cell.write(value)


# (cell-value cell) is a place; a cell has read() and write(value): buffers, optimizer states.
CELL_VALUE = HOST.own("cell-value")
CELL_VALUE.function = Function("cell-value", _read, 1, 1, "(cell)")
CELL_VALUE.setf = Function("(setf cell-value)", _write, 2, 2, "(value cell)")
