"""The catalogue of codes, one file per family of families.

The files are imported where their codes are raised; `all_codes` and `lookup` import them all.
"""

from __future__ import annotations

from importlib import import_module

from sexpgpu.diagnostics.model import CODES, Code

FAMILIES = {
    "read": ("READ",),
    "lisp": ("NAME", "ARG", "TYPE", "COND", "MACRO", "LIMIT", "MOD"),
    "tensor": ("FLOW", "SHAPE", "DTYPE", "OP", "GRAD", "NUM", "IR"),
    "run": ("KNOB", "RUN"),
    "parameters": ("PARAM", "OPT"),
    "data": ("DATA", "EVAL", "METRIC"),
    "system": ("CKPT", "DEV", "STORE", "DIST", "INT"),
}
"""File -> the families of codes it declares."""


def all_codes() -> dict[str, Code]:
    """Every declared code by its id, family by family as FAMILIES lists them, in order of number;
    errors before warnings."""
    for file in FAMILIES:
        import_module(f"{__name__}.{file}")
    families = [family for group in FAMILIES.values() for family in group]

    def place(code: Code) -> tuple[int, str]:
        return families.index(code.id.split("-")[1]), code.id

    return {code.id: code for code in sorted(CODES.values(), key=place)}


def lookup(id: str) -> Code | None:
    """The code of this id, in either case; None when there is none."""
    return all_codes().get(id.upper())
