"""The same model on other tensors: `with-params`, and `frozen`, whose gradient is cut.

A rebound model has the paths, the draws and the buffers of the one that it was made from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sexpgpu.diagnostics.codes import parameters as codes
from sexpgpu.forms.models import Buffer, Model, Parameter, model_of, trainable_parameters, walk
from sexpgpu.forms.parse import here
from sexpgpu.ir.types import FLOATS
from sexpgpu.lisp.printer import prin1_text as print_value
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.values import TENSOR
from sexpgpu.trace.arguments import items_of
from sexpgpu.trace.context import TRACES, Trace
from sexpgpu.trace.errors import foreign_tensor, outside
from sexpgpu.trace.tensor import Tensor, TensorSource, resolve, wrap

Maker = Callable[[Trace], Tensor]
Bindings = Mapping[Any, Maker]


class Bound(Parameter):
    """A parameter of a rebound model: it stands for the tensor in its place."""

    __slots__ = ("make", "parameter")

    def __init__(self, parameter: Parameter, make: Maker) -> None:
        super().__init__(
            parameter.name,
            parameter.shape,
            parameter.dtype,
            parameter.init,
            parameter.trainable,
            parameter.tags,
            parameter.origin,
        )
        self.path = parameter.path
        self.parameter = parameter
        self.make = make

    @property
    def original(self) -> Parameter:
        return self.parameter

    def current_tensor(self, trace: Trace) -> Tensor:
        assert self.make is not None
        return self.make(trace)


class ReboundModel(Model):
    """A model whose parameters stand for other tensors while it is called."""

    __slots__ = ("base", "bindings")

    def __init__(self, base: Model, bindings: Bindings) -> None:
        super().__init__(base.kind, base.origin)
        self.base = base
        self.bindings = bindings
        self.path = base.path
        self.forward = base.forward
        for name, part in base.parts.items():
            if isinstance(part, Parameter) and part in bindings:
                part = Bound(part, bindings[part])
            elif isinstance(part, Model):
                part = ReboundModel(part, bindings)
            self.parts[name] = part

    @property
    def original(self) -> Model:
        return self.base

    def call(self, *arguments: Any) -> Any:
        if not TRACES:
            raise outside(f"the model {self.kind}")
        trace = TRACES[-1]
        before = trace.bindings
        trace.bindings = {**before, **self.bindings}
        try:
            return self.base.call(*arguments)
        finally:
            trace.bindings = before


def _base(model: Model) -> tuple[Model, Bindings]:
    """The model itself and what is bound so far."""
    return (model.base, model.bindings) if isinstance(model, ReboundModel) else (model, {})


@builtin("with-params", "(model tensors)", layer=TENSOR, chapter="models")
def with_params(model: Any, tensors: Any) -> Model:
    """MODEL on other tensors: a list in the order of (params model). Each has its parameter's
    shape, or more axes in front of it. For updated parameters inside a graph: meta-learning."""
    base, bound = _base(model_of(model, "with-params"))
    wanted = trainable_parameters(base)
    given = items_of("with-params", "the tensors", tensors)
    if len(given) != len(wanted):
        raise here(
            codes.E_PARAM_007,
            f"with-params: {len(given)} tensors for the {len(wanted)} parameters of {base.kind}",
        )
    if not TRACES:
        raise outside("with-params")
    made = {p: _given(p, t) for p, t in zip(wanted, given, strict=True)}
    return ReboundModel(base, {**bound, **made})


def _given(parameter: Parameter, value: Any) -> Maker:
    if not isinstance(value, Tensor | TensorSource):
        raise here(
            codes.E_PARAM_007,
            f"with-params: {print_value(value)} in place of the parameter {parameter.path}",
        )
    tensor = resolve(value)
    rank = len(parameter.shape)
    own = tensor.type.shape[len(tensor.type.shape) - rank :]
    if own != parameter.shape or tensor.type.dtype not in FLOATS:
        raise here(
            codes.E_PARAM_007,
            f"with-params: {tensor.type} in place of the parameter {parameter.path}, "
            f"{parameter.dtype} ({' '.join(map(str, parameter.shape))})",
        )

    def make(trace: Trace) -> Tensor:
        found = tensor if tensor.trace is trace else trace.adopt(tensor)
        if found is None:
            raise foreign_tensor(tensor)
        return found

    return make


@builtin("frozen", "(model)", layer=TENSOR, chapter="models")
def frozen(model: Any) -> Model:
    """MODEL with the same parameters, through which no gradient passes: a teacher, a target."""
    base, bound = _base(model_of(model, "frozen"))
    made = {
        part: _stopped(part, bound.get(part))
        for _, part in walk(base)
        if isinstance(part, Parameter) and not isinstance(part, Buffer)
    }
    return ReboundModel(base, made)


def _stopped(parameter: Parameter, bound: Maker | None) -> Maker:
    def make(trace: Trace) -> Tensor:
        value = (bound or trace_unbound)(trace).value
        return wrap(trace.emit("stop-gradient", value))

    def trace_unbound(trace: Trace) -> Tensor:
        return trace.unbound(parameter)

    return make
