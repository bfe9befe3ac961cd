"""Tensors as Lisp values. Knows what a tensor answers to the Lisp, not what its functions do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeGuard

from sexpgpu.diagnostics.codes.tensor import E_FLOW_001, E_OP_001
from sexpgpu.diagnostics.model import SxError
from sexpgpu.ir.graph import Value
from sexpgpu.ir.types import TensorType
from sexpgpu.lisp.values import Foreign
from sexpgpu.source import Origin
from sexpgpu.trace.context import TRACES, Trace
from sexpgpu.trace.errors import failure, foreign_tensor, outside

if TYPE_CHECKING:
    from typing import NoReturn

# CL functions of numbers -> what they do when an argument is a tensor. Filled by functions/.
OPERATIONS: dict[str, Callable[..., Any]] = {}

# CL functions that a tensor refuses, and what to write instead.
REFUSED: dict[str, str] = {
    "zerop": "(= x 0), a bool tensor; test it with where",
    "plusp": "(> x 0), a bool tensor; test it with where",
    "minusp": "(< x 0), a bool tensor; test it with where",
    "evenp": "(= (mod x 2) 0), a bool tensor; test it with where",
    "oddp": "(= (mod x 2) 1), a bool tensor; test it with where",
    "length": "(dim x 0) for the extent of the first axis, (size x) for the number of elements",
    "elt": "(at x i)",
    "aref": "(at x i)",
    "float": "(cast x :f32)",
    "ffloor": "floor, which keeps a tensor's dtype",
    "fceiling": "ceiling, which keeps a tensor's dtype",
    "fround": "round, which keeps a tensor's dtype",
    "ftruncate": "truncate, which keeps a tensor's dtype",
}

TRUTH_FIX = (
    "choose elementwise with (where test a b) and combine tests with logical-and, logical-or, "
    "logical-not; to ask whether an optional tensor was given, write (null mask)"
)


class Tensor(Foreign):
    """A tensor of the graph being traced: a Value, its Trace, and where it was made."""

    __slots__ = ("origin", "trace", "value")

    lisp_type = "tensor"

    def __init__(self, value: Value, trace: Trace, origin: Origin) -> None:
        self.value = value
        self.trace = trace
        self.origin = origin

    @property
    def type(self) -> TensorType:
        return self.value.type

    def lisp_truth(self) -> bool:
        raise no_truth(self)

    def lisp_print(self) -> str:
        span = self.origin.user_span
        place = f" {span.source.name}:{span.line}" if span is not None else ""
        return f"#<tensor {self.value.type}{place}>"

    def lisp_advice(self, expected: str, function: str = "") -> str | None:
        from sexpgpu.trace.advice import advice

        return advice(expected, function)

    def lisp_operate(self, name: str, arguments: tuple[Any, ...]) -> Any:
        return operate(name, arguments)


class TensorSource(Foreign):
    """A value that stands for a tensor in whatever graph is traced (a parameter, a buffer)."""

    __slots__ = ()

    lisp_type = "tensor"
    make: Callable[[Trace], Tensor] | None = None  # of one that stands for a tensor of some trace

    def known_type(self) -> TensorType | None:
        """Its shape and dtype, where they are known without a graph."""
        return None

    def current_tensor(self, trace: Trace) -> Tensor:
        """Its tensor in this trace."""
        raise RuntimeError(f"{type(self).__name__} gives no tensor")

    def lisp_truth(self) -> bool:
        raise no_truth(TRACES[-1].tensor_of(self) if TRACES else self)

    def lisp_advice(self, expected: str, function: str = "") -> str | None:
        from sexpgpu.trace.advice import advice

        return advice(expected, function)

    def lisp_operate(self, name: str, arguments: tuple[Any, ...]) -> Any:
        return operate(name, arguments)


def no_truth(value: Any) -> SxError:
    """E-FLOW-001: a tensor in a test position."""
    return failure(
        E_FLOW_001,
        "a tensor has no truth: its value is known only when the graph runs",
        [("the test", value)],
        fix=TRUTH_FIX,
    )


def operate(name: str, arguments: tuple[Any, ...]) -> Any:
    """A CL function of numbers of which some argument is a tensor."""
    function = OPERATIONS.get(name)
    if function is not None:
        return function(*arguments)
    if name in REFUSED:
        refuse(name, arguments)
    return NotImplemented


def refuse(name: str, arguments: tuple[Any, ...]) -> NoReturn:
    """Raise E-OP-001 for a Lisp function that has no meaning for tensors."""
    raise failure(
        E_OP_001,
        f"{name} takes ordinary values, not a tensor",
        [("the argument", a) for a in arguments],
        fix=f"write {REFUSED[name]}",
    )


def is_tensor(value: Any) -> TypeGuard[Tensor | TensorSource]:
    """Whether the value is, or stands for, a tensor."""
    return type(value) is Tensor or isinstance(value, Tensor | TensorSource)


def resolve(value: Tensor | TensorSource) -> Tensor:
    """The tensor that a value is, or stands for, in the current trace. In a body a tensor of the
    graph around it is captured: it becomes an input of the body."""
    if isinstance(value, TensorSource):
        if not TRACES:
            raise outside(value.lisp_type)
        value = TRACES[-1].tensor_of(value)
    if TRACES and value.trace is not TRACES[-1]:
        adopted = TRACES[-1].adopt(value)
        if adopted is None:
            raise foreign_tensor(value)
        return adopted
    return value


def wrap(value: Value) -> Tensor:
    """The Lisp value of a new value of the current trace."""
    trace = TRACES[-1]
    return Tensor(value, trace, trace.builder.origin)
