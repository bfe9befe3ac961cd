"""How tensor functions are declared: a builtin of the TENSOR layer, guarded.

    @tensor_function("matmul", "(a b)")
    def matmul(a, b):
        "a [..., n, k], b [..., k, m] → [..., n, m]."

The guard demands a traced graph, gives the nodes their place, and turns a refusal of an op's
rule into a diagnostic at the call that describes each tensor. `outside=True`: the function also
works where nothing is traced (shapes, ordinary numbers).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.diagnostics.codes.lisp import E_LIMIT_008
from sexpgpu.lisp.errors import arithmetic_error
from sexpgpu.lisp.registry import BUILTINS, builtin
from sexpgpu.lisp.values import TENSOR
from sexpgpu.ops.schema import OpError
from sexpgpu.trace.context import TRACES
from sexpgpu.trace.errors import failure, outside
from sexpgpu.trace.tensor import OPERATIONS

Python = Callable[..., Any]


def tensor_function(
    name: str, lambda_list: str, *, outside: bool = False, chapter: str = ""
) -> Callable[[Python], Python]:
    """Declare a tensor function under that Lisp name and lambda list, in a chapter of the
    reference (that of the defining file if none is given)."""

    def declare(python: Python) -> Python:
        builtin(name, lambda_list, layer=TENSOR, chapter=chapter)(python)
        function = BUILTINS[name].function
        assert function is not None
        names = [word for word in lambda_list.strip("()").split() if not word.startswith("&")]
        function.call = guard(name, function.call, names, outside)
        return python

    return declare


def operation(*names: str) -> Callable[[Python], Python]:
    """Declare what CL functions of numbers do when an argument is a tensor. The Python function
    takes the Lisp arguments (and the name first, when several names are given)."""

    def declare(python: Python) -> Python:
        for name in names:
            call = python if len(names) == 1 else _bound(python, name)
            OPERATIONS[name] = guard(name, call, (), False)
        return python

    return declare


def _bound(python: Python, name: str) -> Python:
    def call(*arguments: Any) -> Any:
        return python(name, *arguments)

    return call


def guard(name: str, call: Python, names: Any, anywhere: bool) -> Python:
    """The function with a trace demanded, nodes located, and refusals of ops explained."""

    def guarded(*arguments: Any) -> Any:
        if TRACES:
            trace = TRACES[-1]
            trace.locate()
            if len(trace.builder.nodes) > trace.node_limit:
                raise failure(
                    E_LIMIT_008, f"the graph {trace.name} has more than {trace.node_limit:,} nodes"
                )
        elif not anywhere:
            raise outside(name)
        try:
            return call(*arguments)
        except OpError as error:
            raise refusal(name, error, arguments, names) from None
        except OverflowError:
            raise arithmetic_error(f"{name}: a number is too large for a float") from None
        except IndexError:
            if TRACES:
                raise
            raise outside(name) from None  # with these arguments it needs a graph after all

    return guarded


def refusal(name: str, error: OpError, arguments: tuple[Any, ...], names: Any) -> Exception:
    """The diagnostic of an op's refusal inside the function `name`."""
    message = error.message.removeprefix(f"{name}: ")  # where the op has the function's name
    return failure(error.code, f"{name}: {message}", named(arguments, names), fix=error.fix)


ORDINALS = ("the first", "the second", "the third", "the fourth", "the fifth", "the sixth")


def named(arguments: Any, names: Any = ()) -> list[tuple[str, Any]]:
    """The arguments with what to call them: their parameters' names, or their places."""
    result: list[tuple[str, Any]] = []
    for at, value in enumerate(arguments):
        if at < len(names):
            result.append((names[at], value))
        elif len(arguments) == 1:
            result.append(("the operand", value))
        elif at < len(ORDINALS):
            result.append((ORDINALS[at], value))
        else:
            result.append((f"operand {at + 1}", value))
    return result
