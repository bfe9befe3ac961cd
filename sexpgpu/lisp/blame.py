"""Which builtin got a value that it cannot take, and as which of its parameters.

Found in Python's frames when the error is made, so that calls pay nothing for it.
"""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import Any

from sexpgpu.lisp.registry import BUILTINS, Builtin

# What stands between a builtin and the error it raises; any other frame is the caller's.
_INSIDE = (
    "sexpgpu.lisp.builtins.",
    "sexpgpu.lisp.format",
    "sexpgpu.lisp.errors",
    "sexpgpu.lisp.calls",
    "sexpgpu.lisp.registry",
    "sexpgpu.lisp.printer",
    "sexpgpu.lisp.evaluation",
    "sexpgpu.lisp.signalling",
)

# What calls a function that was given to a builtin: that one raises the error, not the builtin.
_CALLS = frozenset(("invoke", "invoke_each", "invoke_between", "call", "call_values"))

_by_code: dict[CodeType, list[Builtin]] = {}
_counted = [0]  # the builtins in it


def blame(datum: Any) -> tuple[str, str]:
    """The builtin that is raising an error about `datum`, the outermost that the program called,
    and as what it was given: `LIST in (nth n LIST)`. "" what is not known."""
    found: tuple[Builtin, FrameType] | None = None
    frame: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    table = _table()
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_INSIDE):
        if frame.f_code.co_name in _CALLS:
            break
        record = _record(table.get(frame.f_code), frame)
        if record is not None:
            found = record, frame
        frame = frame.f_back
    if found is None:
        return "", ""
    record, frame = found
    return record.name, _call(record, _parameter(datum, frame))


def _table() -> dict[CodeType, list[Builtin]]:
    if len(BUILTINS) != _counted[0]:
        _counted[0] = len(BUILTINS)
        _by_code.clear()
        for record in BUILTINS.values():
            _by_code.setdefault(record.python.__code__, []).append(record)
    return _by_code


def _record(candidates: list[Builtin] | None, frame: FrameType) -> Builtin | None:
    """The builtin that runs in a frame: of those made by one definition, the one that closes over
    the same values."""
    for record in candidates or ():
        cells = record.python.__closure__ or ()
        names = record.python.__code__.co_freevars
        here = frame.f_locals
        if all(here.get(n) is c.cell_contents for n, c in zip(names, cells, strict=True)):
            return record
    return None


def _parameter(datum: Any, frame: FrameType) -> int:
    """The place of the one parameter that holds the value, or -1."""
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    here = frame.f_locals
    places = [at for at, name in enumerate(code.co_varnames[:count]) if here.get(name) is datum]
    return places[0] if len(places) == 1 else -1


def _call(record: Builtin, at: int) -> str:
    """`LIST in (nth n LIST)`; keywords are left out but for the one that is meant."""
    shown: list[str] = []
    meant = ""
    keys = False
    place = 0
    for word in record.lambda_list[1:-1].split():
        if word.startswith("&"):
            keys = keys or word == "&key"
            continue
        if place == at:
            meant = word.upper()
            shown.append(f":{word} {meant}" if keys else meant)
        elif not keys:
            shown.append(word)
        place += 1
    return f"{meant} in ({' '.join([record.name, *shown])})" if meant else ""
