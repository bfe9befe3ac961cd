"""counter: 64-bit totals of a whole run, which a training graph adds to.

What a graph adds is noted on the trace; the loop keeps the totals.
"""

from __future__ import annotations

from typing import Any

from sexpgpu.diagnostics.codes.run import E_RUN_022
from sexpgpu.diagnostics.model import SxError
from sexpgpu.ir.graph import Value
from sexpgpu.ir.types import INTEGERS, ITEMSIZE, TensorType
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.values import TENSOR, Foreign
from sexpgpu.reader.printer import brief
from sexpgpu.trace.arguments import name_of
from sexpgpu.trace.context import TRACES
from sexpgpu.trace.declare import tensor_function
from sexpgpu.trace.errors import check_noted_once, failure, outside
from sexpgpu.trace.primitives import cast
from sexpgpu.trace.tensor import Tensor, is_tensor, resolve, wrap

COUNTER_TYPE = TensorType((), "i64")


class Count(Foreign):
    """The place `(counter :name)`: what this graph has added to the total so far."""

    __slots__ = ("amount", "name")

    lisp_type = "counter"

    def __init__(self, name: str, amount: Any) -> None:
        self.name = name
        self.amount = amount  # an int, or a scalar integer Tensor

    def lisp_print(self) -> str:
        return f"#<counter {self.name}>"

    def lisp_operate(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Adding to it (incf), or taking from it (decf)."""
        first, *rest = arguments
        if name == "+" and len(rest) == 1:
            count, n = (first, rest[0]) if isinstance(first, Count) else (rest[0], first)
            return Count(count.name, _added(count.amount, _increment(count.name, n)))
        if name == "-" and len(rest) == 1 and isinstance(first, Count):
            n = _increment(first.name, rest[0])
            return Count(first.name, _added(first.amount, _negative(n)))
        if name in ("1+", "1-"):
            return Count(self.name, _added(self.amount, 1 if name == "1+" else -1))
        raise _misused(self.name, f"{name} of the counter {self.name}")


def _misused(name: str, message: str) -> SxError:
    return failure(
        E_RUN_022,
        message,
        fix=f"write (incf (counter :{name}) n) to add, (ctx :counter/{name}) for the total",
    )


def _increment(name: str, value: Any) -> Any:
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return int(value)
    if is_tensor(value):
        t = resolve(value)
        if t.type.shape == () and t.type.dtype in INTEGERS:
            return t
    raise _misused(
        name,
        f"the counter {name} grows by a 64-bit integer or a scalar integer tensor, not by "
        f"{brief(value)}",
    )


def _wide(t: Any) -> Value:
    trace = TRACES[-1]
    if isinstance(t, Tensor):
        return cast(trace, t.value, "i64")
    return trace.full(t, (), "i64")


def _added(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if a == 0:
        return b
    return wrap(TRACES[-1].emit("add", _wide(a), _wide(b)))


def _negative(n: Any) -> Any:
    return -n if isinstance(n, int) else wrap(TRACES[-1].emit("neg", _wide(n)))


@tensor_function("counter", "(name)", chapter="runfile")
def counter(name: Any) -> Count:
    """The place of a run-long 64-bit total: (incf (counter :tokens) n) in a training graph adds n,
    an integer or a scalar integer tensor. No effect in evaluation. (ctx :counter/tokens) is the
    total at the step's start."""
    given = name_of(name)
    if given is None:
        raise failure(E_RUN_022, f"counter: the name is {brief(name)}, wanted a keyword")
    trace = TRACES[-1]
    noted = trace.counted(given)
    return Count(given, 0 if noted is None else Tensor(noted, trace, trace.builder.origin))


@builtin("(setf counter)", "(new name)", layer=TENSOR, chapter="runfile")
def set_counter(new: Any, name: Any) -> Any:
    """What (incf (counter :name) n) stores."""
    if not TRACES:
        raise outside("(setf counter)")
    trace = TRACES[-1]
    trace.locate()
    given = name_of(name) or ""
    if not isinstance(new, Count) or new.name != given:
        raise _misused(given, f"the counter {given} is set to {brief(new)}")
    check_noted_once(f"the counter {given}")
    if trace.domain == "train":
        amount = new.amount
        if isinstance(amount, int):
            dtype = "i32" if -(1 << 31) <= amount < 1 << 31 else "i64"
            trace.counters[given] = trace.full(amount, (), dtype)
        else:
            own = amount.type.dtype
            dtype = "i32" if ITEMSIZE[own] < 4 or own == "i32" else "i64"
            trace.counters[given] = cast(trace, amount.value, dtype)
    return new
