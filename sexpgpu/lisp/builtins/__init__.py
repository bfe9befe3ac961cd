"""The CL functions that are not part of evaluation, one file a chapter. `load()` declares them."""

from __future__ import annotations

from importlib import import_module

CHAPTERS = (
    "equality",
    "conses",
    "lists",
    "sets",
    "mapping",
    "places",
    "sequences",
    "sequence_search",
    "sequence_edit",
    "sorting",
    "vectors",
    "characters",
    "strings",
    "symbols",
    "hash_tables",
    "arithmetic",
    "comparison",
    "rounding",
    "transcendental",
    "bits",
    "numbers",
    "types",
    "functions",
    "printing",
    "reading",
    "formatting",
)


def load() -> None:
    """Declare all builtins of these chapters (once)."""
    for chapter in CHAPTERS:
        import_module(f"sexpgpu.lisp.builtins.{chapter}")
    import_module("sexpgpu.lisp.loop_macro")
