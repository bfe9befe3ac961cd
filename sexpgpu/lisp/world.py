"""Brings the Lisp up once a process: special forms, builtins, prelude."""

from __future__ import annotations

import sys
from importlib import import_module

OPERATORS = (
    "special",
    "functions",
    "control_forms",
    "control_macros",
    "case_macros",
    "loop_macros",
    "value_macros",
    "macros",
    "places",
    "setf_macros",
    "inline",
    "inline_numbers",
    "evaluation",
    "definitions",
    "setf_methods",
    "structures",
    "signalling",
    "handling",
    "restarts",
    "assertions",
    "condition_forms",
    "expand_all",
)
_ready = [False, False]


def prepare_operators() -> None:
    """Special forms, macros and the builtins of evaluation."""
    if _ready[0]:
        return
    _ready[0] = True
    for name in OPERATORS:
        import_module(f"sexpgpu.lisp.{name}")
    from sexpgpu.lisp.hostoperators import install_macros

    install_macros()


def prepare() -> None:
    """Everything, the prelude included."""
    if _ready[1]:
        return
    prepare_operators()
    from sexpgpu.lisp.builtins import load

    load()
    _ready[1] = True
    from sexpgpu.lisp.session import load_prelude

    # A Lisp call takes several Python frames. The caller's limit comes back: what else runs in its
    # thread may count on it (a JSON text nested too deeply would end the process).
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 20_000))
    try:
        load_prelude()
    finally:
        sys.setrecursionlimit(limit)
