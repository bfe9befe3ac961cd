"""Optimizers as values of the Lisp: hyperparameters, the body evaluated for a parameter, groups."""

from __future__ import annotations

from typing import Any

from sexpgpu.diagnostics.codes import run as codes
from sexpgpu.diagnostics.suggest import did_you_mean
from sexpgpu.forms.callbacks import call_given
from sexpgpu.forms.parse import at_place, here
from sexpgpu.ir.graph import Value
from sexpgpu.ir.types import SCALAR_F32, TensorType
from sexpgpu.lisp.calls import call as call_function
from sexpgpu.lisp.printer import prin1_text as print_value
from sexpgpu.lisp.state import current_origin
from sexpgpu.lisp.values import Foreign, Function
from sexpgpu.source import Origin, Span
from sexpgpu.trace.context import Trace
from sexpgpu.trace.errors import check_noted_once
from sexpgpu.trace.tensor import Tensor, TensorSource, resolve


class Optimizer(Foreign):
    """An optimizer: the body's function of its hyperparameters, and their values.

    `schedulable` are the hyperparameters whose default is a number: they may be functions of the
    step. `exceptions` are the groups of `optimizer-groups`, first match wins.
    """

    __slots__ = ("body", "exceptions", "kind", "origin", "schedulable", "values")
    lisp_type = "optimizer"

    def __init__(
        self,
        kind: str,
        values: dict[str, Any],
        schedulable: frozenset[str],
        body: Function,
        origin: Origin,
    ) -> None:
        self.kind = kind
        self.values = values
        self.schedulable = schedulable
        self.body = body
        self.origin = origin
        self.exceptions: tuple[GroupForm, ...] = ()

    def lisp_print(self) -> str:
        return f"#<optimizer {self.kind}>"

    def with_values(self, changes: dict[str, Any], also: tuple[str, ...] = ()) -> Optimizer:
        """The same optimizer with other hyperparameters. `also`: further names that may have been
        meant where one is unknown."""
        for name in changes:
            if name not in self.values:
                raise here(
                    codes.E_OPT_004,
                    f"the optimizer {self.kind} has no hyperparameter {name}",
                    did_you_mean(name, (*self.values, *also)) or f"it has {', '.join(self.values)}",
                )
        made = Optimizer(
            self.kind, {**self.values, **changes}, self.schedulable, self.body, self.origin
        )
        made.check()
        return made

    def schedules(self) -> dict[str, Function]:
        """The hyperparameters that are functions of the step."""
        return {
            n: v
            for n, v in self.values.items()
            if isinstance(v, Function) and n in self.schedulable
        }

    def check(self) -> None:
        """Schedulable hyperparameters are numbers or functions."""
        for name in self.schedulable:
            value = self.values[name]
            if not isinstance(value, int | float | Function) and not hasattr(value, "numerator"):
                raise at_place(
                    codes.E_OPT_001,
                    f"{self.kind}: {name} is a number or a schedule, not {print_value(value)}",
                    _given_at(),
                )


def _given_at() -> Span | None:
    """Where the constructor at work was called: its own text is not at fault."""
    origin = current_origin()
    calls = [span for span in origin.calls if not span.source.standard]
    return calls[0] if calls else origin.user_span


class GroupForm:
    """An exception of optimizer-groups. `optimizer` is None for a frozen group."""

    __slots__ = ("frozen", "name", "optimizer", "origin", "selector")

    def __init__(
        self,
        name: str,
        selector: Any,
        optimizer: Optimizer | None,
        frozen: bool,
        origin: Origin,
    ) -> None:
        self.name = name
        self.selector = selector
        self.optimizer = optimizer
        self.frozen = frozen
        self.origin = origin


class StateCell(TensorSource):
    """A state of an optimizer for the parameter at hand: a place."""

    __slots__ = ("dtype", "init", "name", "origin", "shape", "value")
    lisp_type = "optimizer state"

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: str,
        init: Function | None,
        value: Tensor,
        origin: Origin,
    ) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.init = init
        self.value = value
        self.origin = origin

    def current_tensor(self, trace: Trace) -> Tensor:
        return self.value

    def read(self) -> Any:
        return self.value

    def write(self, value: Any) -> Any:
        check_noted_once(f"the state {self.name} gets a new value")
        new = resolve(value) if isinstance(value, Tensor | TensorSource) else None
        if new is None or not new.type.same_value(self.value.type):
            shown = new.type if new is not None else print_value(value)
            raise here(
                codes.E_OPT_002,
                f"the state {self.name} holds {self.value.type}; its new value is {shown}",
            )
        self.value = new
        return value


class Body:
    """The evaluation of an optimizer's body for one parameter, while its update is traced."""

    __slots__ = ("asked", "parameter", "states", "trace", "update")

    def __init__(self, trace: Trace, parameter: Any) -> None:
        self.trace = trace
        self.parameter = parameter
        self.states: dict[str, StateCell] = {}
        self.update: Function | None = None
        self.asked = False  # for more than the parameter's shape


BODIES: list[Body] = []


def body(what: str) -> Body:
    """The body being evaluated; E-OPT-005 when there is none."""
    if not BODIES:
        raise here(codes.E_OPT_005, f"{what} has a meaning only in the body of an optimizer")
    return BODIES[-1]


def run_body(optimizer: Optimizer, trace: Trace, parameter: Any) -> tuple[Body, Value]:
    """Evaluate an optimizer's body for a parameter inside the trace of its update.

    Gives the body (its states hold their new values) and the value of the new parameter."""
    at = Body(trace, parameter)
    BODIES.append(at)
    try:
        arguments: list[Any] = []
        scheduled = optimizer.schedules()
        for name, value in optimizer.values.items():
            if name in scheduled:
                made = trace.input(f"hyper/{name}", SCALAR_F32)
                value = Tensor(made, trace, optimizer.origin)
            arguments.append(value)
        call_function(optimizer.body, *arguments)
        if at.update is None:
            raise here(codes.E_OPT_001, f"the optimizer {optimizer.kind} has no optimizer-update")
        type = TensorType(parameter.shape, "f32")
        p = Tensor(trace.input("p", type), trace, optimizer.origin)
        g = Tensor(trace.input("g", type), trace, optimizer.origin)
        result = call_given(at.update, (p, g), "the parameter and its gradient")
        new = resolve(result) if isinstance(result, Tensor | TensorSource) else None
        if new is None or not new.type.same_value(type):
            shown = str(new.type) if new is not None else print_value(result)
            raise at_place(
                codes.E_OPT_002,
                f"the update of {optimizer.kind} gives {shown}; the parameter {parameter.path} is "
                f"{type}",
                at.update.origin or current_origin().user_span,
            )
        return at, new.value
    finally:
        BODIES.pop()
