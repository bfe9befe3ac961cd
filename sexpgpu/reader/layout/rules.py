"""How operators are indented: how many arguments are distinguished before a body, and which
arguments are no calls."""

from __future__ import annotations

import re

_NONE = "progn prog1 tagbody locally f32 unwind-protect ignore-errors"
_ONE = """
block catch let let* flet labels macrolet symbol-macrolet lambda when unless dolist dotimes case
ecase ccase typecase etypecase ctypecase handler-case handler-bind restart-case return-from
eval-when with-output-to-string with-numerics while until when-let with-gensyms once-only
defloader defeval defrun defknob defvariant defsweep defstruct defvar defparameter defconstant
forward optimizer-update submodel defstate prog
"""
_TWO = """
defun defmacro deftype define-modify-macro define-symbol-macro defmodel defoptimizer
multiple-value-bind destructuring-bind do do* if-let
"""
BODIES: dict[str, int] = {
    name: count for count, names in enumerate((_NONE, _ONE, _TWO)) for name in names.split()
}
"""Operator -> how many arguments stand before the body, which is indented by two."""

DATA: dict[str, int] = {
    "let": 1, "let*": 1, "symbol-macrolet": 1, "do": 1, "do*": 1, "prog": 1, "lambda": 1,
    "forward": 1, "optimizer-update": 1, "multiple-value-bind": 1, "destructuring-bind": 1,
    "dolist": 1, "dotimes": 1, "with-gensyms": 1, "once-only": 1, "defun": 2, "defmacro": 2,
    "defmodel": 2, "defoptimizer": 2, "deftype": 2,
}  # fmt: skip
"""Operator -> the place of the argument that is a list of names or bindings."""

LOCAL_FUNCTIONS = frozenset(("flet", "labels", "macrolet"))
"""Operators whose first argument is a list of functions, each laid out like a lambda."""

CLAUSES: dict[str, int] = {
    "cond": 1, "case": 2, "ecase": 2, "ccase": 2, "typecase": 2, "etypecase": 2, "ctypecase": 2,
}  # fmt: skip
"""Operator -> the place from where its arguments are clauses."""

HANDLERS: dict[str, int] = {"handler-case": 2, "restart-case": 2}
"""Operator -> the place from where its arguments are (name (variables) form…)."""

_LOOP = """
named with and initially finally repeat for as while until always never thereis return do doing
collect collecting append appending nconc nconcing sum summing count counting maximize maximizing
minimize minimizing if when unless else end into
"""
LOOP_WORDS = frozenset(_LOOP.split())

_MACRO = re.compile(
    r"\(defmacro\s+([^\s()]+)\s+\(([^()]*(?:\([^()]*\)[^()]*)*)&body", re.IGNORECASE
)


def body_macros(text: str) -> dict[str, int]:
    """The macros that a text defines with `&body`, and how many arguments come before it."""
    found: dict[str, int] = {}
    for match in _MACRO.finditer(text):
        before = re.sub(r"\([^()]*\)", "x", match.group(2)).split()
        found[match.group(1).lower()] = sum(not word.startswith("&") for word in before)
    return found
