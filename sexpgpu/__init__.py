"""A Common Lisp for machine learning experiments: compiler, training loop, Python API.

Importing this package imports neither jax nor numpy: the names of the API come from
`sexpgpu.api` when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sexpgpu.api import (
        CompileError,
        Experiment,
        ParameterInfo,
        Run,
        RunError,
        Series,
        TracedFunction,
        check,
        compile,
        compile_text,
        crosscheck,
        evaluate,
        function,
        open_run,
    )

__version__ = "0.1.0"

__all__ = [
    "CompileError",
    "Experiment",
    "ParameterInfo",
    "Run",
    "RunError",
    "Series",
    "TracedFunction",
    "__version__",
    "check",
    "compile",
    "compile_text",
    "crosscheck",
    "evaluate",
    "function",
    "open_run",
]


def __getattr__(name: str) -> object:
    if name in __all__:
        from sexpgpu import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
