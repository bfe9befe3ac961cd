"""How the programs of references are compiled: quickly, since good machine code is no matter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as one XLA program. Op by op, each shape of each op would be compiled alone."""
    return jax.jit(function, compiler_options=QUICKLY)
