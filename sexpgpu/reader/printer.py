"""Short texts of values and forms for messages. The printer of the language is lisp/printer.py.

Never fails, never runs long: circular and deep values are cut.
"""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.values import NIL, Cons, Foreign, Function, String, Structure, Symbol, Vector

_PREFIXES = {
    "quote": "'",
    "function": "#'",
    "quasiquote": "`",
    "unquote": ",",
    "unquote-splicing": ",@",
}


def brief(value: Any, width: int = 60) -> str:
    """The value on one line, at most about `width` characters, with … where it was cut."""
    parts: list[str] = []
    _write(value, parts, [width], 0)
    text = "".join(parts)
    return text if len(text) <= width else text[: width - 1] + "…"


def _emit(text: str, parts: list[str], left: list[int]) -> None:
    parts.append(text)
    left[0] -= len(text)


def _write(value: Any, parts: list[str], left: list[int], depth: int) -> None:
    if left[0] <= 0 or depth > 12:
        _emit("…", parts, left)
    elif isinstance(value, Cons):
        prefix = _PREFIXES.get(value.car.name) if isinstance(value.car, Symbol) else None
        if prefix and isinstance(value.cdr, Cons) and value.cdr.cdr is NIL:
            _emit(prefix, parts, left)
            _write(value.cdr.car, parts, left, depth + 1)
            return
        _emit("(", parts, left)
        first = True
        at: Any = value
        while isinstance(at, Cons) and left[0] > 0:
            if not first:
                _emit(" ", parts, left)
            first = False
            _write(at.car, parts, left, depth + 1)
            at = at.cdr
        if isinstance(at, Cons):
            _emit(" …", parts, left)
        elif at is not NIL:
            _emit(" . ", parts, left)
            _write(at, parts, left, depth + 1)
        _emit(")", parts, left)
    elif isinstance(value, Vector):
        _emit("#(", parts, left)
        for index, item in enumerate(value.items[:40]):
            if index:
                _emit(" ", parts, left)
            if left[0] <= 0:
                break
            _write(item, parts, left, depth + 1)
        _emit(")", parts, left)
    else:
        _emit(atom_text(value, max(left[0], 8)), parts, left)


def atom_text(value: Any, width: int = 60) -> str:
    """The text of a value that is not a list or vector."""
    if isinstance(value, String):
        text = value.text[: width + 1]
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, Foreign):
        return value.lisp_print()
    if isinstance(value, Function):
        return f"#<function {value.name}>"
    if isinstance(value, Structure):
        return f"#<{value.type.name.name}>"
    if isinstance(value, int) and value.bit_length() > 400:
        return f"#<integer of {value.bit_length()} bits>"
    from sexpgpu.lisp.printer import prin1_text

    return prin1_text(value)
