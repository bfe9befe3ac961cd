"""Optimizers as values of the Lisp: hyperparameters, the body evaluated for a parameter, groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.diagnostics.codes import parameters as codes
from sexpgpu.diagnostics.model import Code
from sexpgpu.diagnostics.suggest import did_you_mean
from sexpgpu.forms.callbacks import call_given
from sexpgpu.forms.models import tensor_like
from sexpgpu.forms.parse import at_place, here
from sexpgpu.ir.graph import Value
from sexpgpu.ir.types import SCALAR_F32, TensorType
from sexpgpu.lisp.calls import call as call_function
from sexpgpu.lisp.calls import values_list
from sexpgpu.lisp.printer import prin1_text as print_value
from sexpgpu.lisp.state import current_origin
from sexpgpu.lisp.values import Foreign, Function
from sexpgpu.source import Origin, Span
from sexpgpu.trace.context import TRACES, Trace
from sexpgpu.trace.errors import check_noted_once
from sexpgpu.trace.tensor import Tensor, TensorSource, resolve


class Optimizer(Foreign):
    """An optimizer: the body's function of its hyperparameters, and their values.

    `schedulable` are the hyperparameters whose default is a number: they may be functions of the
    step. `exceptions` are the groups of `optimizer-groups`, first match wins. A hyperparameter may
    be an optimizer (a wrapper's): its own hyperparameters are then called `inner/lr` and so on.
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
        return f"#<optimizer {self.title()}>"

    def title(self) -> str:
        """Its kind, and in a wrapper's what it wraps: `ema of adamw`."""
        return " of ".join([self.kind, *(v.title() for _, v in self.inner())])

    def with_values(self, changes: dict[str, Any], also: tuple[str, ...] = ()) -> Optimizer:
        """The same optimizer with other hyperparameters. `also`: further names that may have been
        meant where one is unknown."""
        values = dict(self.values)
        for name, value in changes.items():
            if name in values:
                values[name] = value
                continue
            holder = next((n for n, v in self.inner() if v.knows(name)), None)
            if holder is None:
                known = [*self.known(), *also]
                raise here(
                    codes.E_OPT_004,
                    f"the optimizer {self.kind} has no hyperparameter {name}",
                    did_you_mean(name, known) or f"it has {', '.join(self.known())}",
                )
            values[holder] = values[holder].with_values({name: value})
        return self._with(values)

    def _with(self, values: dict[str, Any]) -> Optimizer:
        made = Optimizer(self.kind, values, self.schedulable, self.body, self.origin)
        made.check()
        return made

    def inner(self) -> list[tuple[str, Optimizer]]:
        """The hyperparameters that are optimizers: what a wrapper wraps."""
        return [(n, v) for n, v in self.values.items() if isinstance(v, Optimizer)]

    def known(self) -> list[str]:
        """The names of all hyperparameters, those of wrapped optimizers too."""
        inner = [name for _, v in self.inner() for name in v.known()]
        return list(dict.fromkeys([*self.values, *inner]))

    def knows(self, name: str) -> bool:
        return name in self.known()

    def flat(self) -> dict[str, Any]:
        """Every hyperparameter by its full name: `lr`, of a wrapped optimizer `inner/lr`."""
        found: dict[str, Any] = {}
        for name, value in self.values.items():
            if isinstance(value, Optimizer):
                found |= {f"{name}/{n}": v for n, v in value.flat().items()}
            else:
                found[name] = value
        return found

    def schedules(self) -> dict[str, Function]:
        """The hyperparameters that are functions of the step, by their full names."""
        found: dict[str, Function] = {}
        for name, value in self.values.items():
            if isinstance(value, Optimizer):
                found |= {f"{name}/{n}": f for n, f in value.schedules().items()}
            elif isinstance(value, Function) and name in self.schedulable:
                found[name] = value
        return found

    def lifted(self) -> Optimizer:
        """The optimizer with the groups of what it wraps as its own: a wrapper around
        `optimizer-groups` wraps the base and each exception."""
        for name, value in self.inner():
            if value.exceptions:
                base = self._with({**self.values, name: value.with_values({})})
                base.exceptions = tuple(
                    form.around(lambda o, n=name: self._with({**self.values, n: o}))
                    for form in value.exceptions
                )
                return base
        return self

    def check(self) -> None:
        """Schedulable hyperparameters are numbers or functions."""
        for name in self.schedulable:
            value = self.values[name]
            kinds = int | float | Function | Tensor  # a tensor: made in the body of a wrapper
            if not isinstance(value, kinds) and not hasattr(value, "numerator"):
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
    """An exception of optimizer-groups. `optimizer` is None for a frozen group.

    every      updates take place at the steps that it divides
    clip_norm  the most that the norm of the group's gradients may be, or None
    """

    __slots__ = ("clip_norm", "every", "frozen", "name", "optimizer", "origin", "selector")

    def __init__(
        self,
        name: str,
        selector: Any,
        optimizer: Optimizer | None,
        frozen: bool,
        origin: Origin,
        every: int = 1,
        clip_norm: float | None = None,
    ) -> None:
        self.name = name
        self.selector = selector
        self.optimizer = optimizer
        self.frozen = frozen
        self.origin = origin
        self.every = every
        self.clip_norm = clip_norm

    def around(self, wrap: Callable[[Optimizer], Optimizer]) -> GroupForm:
        """The group with its optimizer wrapped."""
        wrapped = None if self.optimizer is None else wrap(self.optimizer)
        return GroupForm(
            self.name, self.selector, wrapped, self.frozen, self.origin, self.every, self.clip_norm
        )


class StateCell(TensorSource):
    """A state of an optimizer for the parameter at hand, or of a curriculum: a place. A value that
    does not fit is refused with `code`."""

    __slots__ = ("code", "dtype", "given", "init", "name", "origin", "shape", "value")
    lisp_type = "state"

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: str,
        init: Function | None,
        value: Tensor,
        origin: Origin,
        code: Code = codes.E_OPT_002,
    ) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.init = init
        self.value = value
        self.given = value
        self.origin = origin
        self.code = code

    def reset(self) -> None:
        """Hold again what the state was before the update."""
        self.value = self.given

    def current_tensor(self, trace: Trace) -> Tensor:
        return self.value

    def read(self) -> Any:
        return self.value

    def write(self, value: Any) -> Any:
        check_noted_once(f"the state {self.name} gets a new value")
        new = tensor_like(TRACES[-1], value, self.value.type)
        if new is None or not new.type.same_value(self.value.type):
            shown = new.type if new is not None else print_value(value)
            raise here(
                self.code,
                f"the state {self.name} holds {self.value.type}; its new value is {shown}",
            )
        self.value = new
        return value


class Body:
    """The evaluation of an optimizer's body for one parameter, while its update is traced.

    prefix   what its states and hyperparameters begin with: `inner/` in a wrapped optimizer
    sums     what `global-sum` adds up over the group, in order: each parameter's part
    average  the function of `evaluation-parameter`, or None
    """

    __slots__ = (
        "asked", "average", "optimizer", "parameter", "parent", "prefix", "states", "sums", "trace",
        "update", "updating",
    )  # fmt: skip

    def __init__(
        self, trace: Trace, parameter: Any, optimizer: Optimizer, parent: Body | None = None
    ) -> None:
        self.trace = trace
        self.parameter = parameter
        self.optimizer = optimizer
        self.parent = parent
        self.prefix = "" if parent is None else f"{parent.prefix}{parent.name_of(optimizer)}/"
        self.states: dict[str, StateCell] = {} if parent is None else parent.states
        self.sums: list[Value] = [] if parent is None else parent.sums
        self.update: Function | None = None
        self.average: Function | None = None
        self.updating = False
        self.asked = False  # for more than the parameter's shape

    def name_of(self, optimizer: Optimizer) -> str:
        """The hyperparameter that holds an optimizer; `inner` for one made in the body."""
        return next((n for n, v in self.optimizer.inner() if v is optimizer), "inner")

    def _is_given(self) -> bool:
        """Whether it is a hyperparameter of the optimizer that wraps it."""
        assert self.parent is not None
        return any(v is self.optimizer for _, v in self.parent.optimizer.inner())

    def ask(self) -> Any:
        """The parameter, for a form that asks for more than its shape."""
        at: Body | None = self
        while at is not None:
            at.asked = True
            at = at.parent
        return self.parameter

    def evaluate(self) -> None:
        """Evaluate the body: its states, and the functions of its clauses."""
        BODIES.append(self)
        try:
            arguments: list[Any] = []
            scheduled = self.optimizer.schedules()
            if scheduled and self.parent is not None and not self._is_given():
                raise here(
                    codes.E_OPT_001,
                    f"the optimizer {self.optimizer.kind} is made in the body of "
                    f"{self.parent.optimizer.kind}: its hyperparameters cannot be schedules",
                    "make it outside, and give it as a hyperparameter",
                )
            for name, value in self.optimizer.values.items():
                if name in scheduled:
                    made = self.trace.input(f"hyper/{self.prefix}{name}", SCALAR_F32)
                    value = Tensor(made, self.trace, self.optimizer.origin)
                arguments.append(value)
            call_function(self.optimizer.body, *arguments)
        finally:
            BODIES.pop()
        if self.update is None:
            raise here(
                codes.E_OPT_001, f"the optimizer {self.optimizer.kind} has no optimizer-update"
            )

    def apply(self, p: Tensor, g: Tensor) -> Tensor:
        """The new parameter: what optimizer-update gives for a parameter and its gradient."""
        assert self.update is not None
        BODIES.append(self)
        self.updating = True
        try:
            result = call_given(self.update, (p, g), "the parameter and its gradient")
            return self._parameter(result, "update", self.update)
        finally:
            self.updating = False
            BODIES.pop()
            if self.parent is not None and self.parent.average is None:
                self.parent.average = self.average  # a wrapper evaluates as what it wraps does

    def averaged(self, p: Tensor) -> Tensor | None:
        """The parameter that evaluation uses, of the states as they stand before the update."""
        if self.average is None:
            return None
        for cell in self.states.values():
            cell.reset()
        result = call_given(self.average, (p,), "the parameter")
        return self._parameter(result, "evaluation-parameter", self.average)

    def _parameter(self, result: Any, what: str, function: Function) -> Tensor:
        type = TensorType(self.parameter.shape, "f32")
        new = resolve(result) if isinstance(result, Tensor | TensorSource) else None
        if new is None or not new.type.same_value(type):
            shown = str(new.type) if new is not None else _shown(result)
            raise at_place(
                codes.E_OPT_002,
                f"the {what} of {self.optimizer.kind} gives {shown}; the parameter "
                f"{self.parameter.path} is {type}",
                function.origin or current_origin().user_span,
            )
        return new


def _shown(result: Any) -> str:
    """What a function of the file gave, in words."""
    values = values_list(result)
    return print_value(values[0]) if len(values) == 1 else f"{len(values)} values"


BODIES: list[Body] = []


def body(what: str, updating: bool = False) -> Body:
    """The body being evaluated; E-OPT-005 when there is none, or no update is being traced."""
    if not BODIES or (updating and not BODIES[-1].updating):
        where = "in an optimizer-update" if updating else "in the body of an optimizer"
        raise here(codes.E_OPT_005, f"{what} has a meaning only {where}")
    return BODIES[-1]


def run_body(optimizer: Optimizer, trace: Trace, parameter: Any) -> tuple[Body, Value]:
    """Evaluate an optimizer's body for a parameter inside the trace of its update.

    Gives the body (its states hold their new values) and the value of the new parameter."""
    at = Body(trace, parameter, optimizer)
    at.evaluate()
    type = TensorType(parameter.shape, "f32")
    p = Tensor(trace.input("p", type), trace, optimizer.origin)
    g = Tensor(trace.input("g", type), trace, optimizer.origin)
    return at, at.apply(p, g).value
