"""Functions that make functions: identity, constantly, complement."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.builtins.designators import true
from sexpgpu.lisp.calls import as_function, call_values, primary
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.values import NIL, Function, T


@builtin("identity", "(value)")
def identity(value: Any) -> Any:
    """VALUE itself."""
    return value


@builtin("constantly", "(value)")
def constantly(value: Any) -> Any:
    """A function of any arguments that gives VALUE."""
    return Function("constantly", lambda *arguments: value, 0, None, "(&rest arguments)")


@builtin("complement", "(function)")
def complement(function: Any) -> Any:
    """The function that is true where FUNCTION is false."""
    inner = as_function(function)

    def negated(*arguments: Any) -> Any:
        return NIL if true(primary(call_values(inner, *arguments))) else T

    return Function("complement", negated, 0, None, "(&rest arguments)")
