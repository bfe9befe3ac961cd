"""Tracing a Lisp function into a graph of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sexpgpu.diagnostics.codes.run import E_RUN_008
from sexpgpu.ir.graph import Graph
from sexpgpu.ir.types import TensorType
from sexpgpu.lisp.calls import call_values, values_list
from sexpgpu.lisp.values import NIL, Function
from sexpgpu.reader.printer import brief
from sexpgpu.source import Origin
from sexpgpu.trace.arguments import is_number
from sexpgpu.trace.context import Trace, tracing
from sexpgpu.trace.errors import failure
from sexpgpu.trace.promote import constant
from sexpgpu.trace.tensor import Tensor, is_tensor, resolve


def call_traced(trace: Trace, function: Function, arguments: Sequence[Any]) -> list[Any]:
    """All the values of the call of a Lisp function while `trace` is traced."""
    with tracing(trace):
        return values_list(call_values(function, *arguments))


def trace_function(
    name: str, function: Function, inputs: Mapping[str, TensorType], *, trace: Trace | None = None
) -> Graph:
    """The graph of a Lisp function called with one tensor for each input, in order. Its outputs
    are `out/0`, `out/1` …, one for each value that is a tensor or a number (f32)."""
    made = Trace(name) if trace is None else trace
    origin = Origin(function.origin)
    arguments = [Tensor(made.input(key, type), made, origin) for key, type in inputs.items()]
    outputs: dict[str, Any] = {}
    with tracing(made):
        for at, value in enumerate(values_list(call_values(function, *arguments))):
            if is_tensor(value):
                outputs[f"out/{at}"] = resolve(value).value
            elif is_number(value):
                outputs[f"out/{at}"] = constant(made, function.name, value, (), "f32")
            elif value is not NIL:
                raise failure(E_RUN_008, f"{function.name} returned {brief(value)}, no tensor")
    return made.finish(outputs)
