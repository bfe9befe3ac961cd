"""Closed graphs that give initial values: of parameters, buffers and optimizer states."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from sexpgpu.assemble.graphs import GraphStore
from sexpgpu.diagnostics.codes import parameters as codes
from sexpgpu.diagnostics.model import Diagnostic, SxError, located
from sexpgpu.forms.callbacks import asked_for, call_given
from sexpgpu.ir.graph import Graph
from sexpgpu.ir.types import FLOATS, TensorType, integer_range
from sexpgpu.lisp.calls import call as call_function
from sexpgpu.lisp.calls import primary
from sexpgpu.lisp.printer import prin1_text as print_value
from sexpgpu.lisp.values import Function, lisp_list
from sexpgpu.passes.pipeline import closed
from sexpgpu.source import Origin
from sexpgpu.trace.context import Trace, tracing
from sexpgpu.trace.tensor import Tensor, TensorSource, resolve


class Initializers:
    """Makes `init/n` graphs in a store; constant fills are made once a type."""

    __slots__ = ("_fills", "store")

    def __init__(self, store: GraphStore) -> None:
        self.store = store
        self._fills: dict[Any, str] = {}

    def graph_name(self, what: str, type: TensorType, init: Function | None, origin: Origin) -> str:
        """The name of the graph of an initial value. `init` is called with the shape; its value
        is a tensor of that type, a number, or a function of the shape; None: zeros."""
        trace = Trace("init", "init")
        with tracing(trace), asked_for(origin):
            result: Any = 0.0
            if init is not None:
                shape = lisp_list(list(type.shape))
                result = call_function(init, shape)
                if isinstance(result, Function):
                    result = primary(call_given(result, (shape,), "the shape"))
            if isinstance(result, int | float | Fraction):
                self._check_number(what, result, type, origin)
                return self._fill(float(result), type)
            made = resolve(result) if isinstance(result, Tensor | TensorSource) else None
            if made is None or made.value.shape != type.shape:
                shown = str(made.type) if made is not None else print_value(result)
                labels, notes = located(origin)
                raise SxError(
                    Diagnostic(
                        codes.E_PARAM_004,
                        f"the initial value of {what} is {shown}; it must have the shape "
                        f"({' '.join(map(str, type.shape))}), or be a number",
                        labels,
                        notes,
                    )
                )
            self._check_closed(what, trace, origin)
            value = made.value
            if value.dtype != type.dtype:
                value = trace.emit("cast", value, dtype=type.dtype)
        return self.store.shared("init", closed(trace.finish({"value": value})))

    def _check_number(self, what: str, number: Any, type: TensorType, origin: Origin) -> None:
        """E-PARAM-004 for a number that the dtype cannot hold."""
        if type.dtype in FLOATS:
            return
        low, high = (0, 1) if type.dtype == "bool" else integer_range(type.dtype)
        if number != int(number) or not low <= number <= high:
            labels, notes = located(origin)
            shown = f"{print_value(number)}, which {type.dtype} cannot be"
            told = f"the initial value of {what} is {shown}"
            raise SxError(Diagnostic(codes.E_PARAM_004, told, labels, notes))

    def _check_closed(self, what: str, trace: Trace, origin: Origin) -> None:
        """E-PARAM-008 for what there is not yet: values of parameters and buffers, statistics."""
        for name in trace.builder.inputs:
            kind, _, path = name.partition("/")
            if kind != "rng":
                labels, notes = located(origin)
                read = {"param": "the parameter", "buffer": "the buffer"}.get(kind, f"the {kind}")
                raise SxError(
                    Diagnostic(
                        codes.E_PARAM_008,
                        f"the initial value of {what} reads {read} {path}",
                        labels,
                        notes,
                        "share the parameter itself (one model in two places), or compute both "
                        "initial values by one function of the shape",
                    )
                )

    def _fill(self, value: float, type: TensorType) -> str:
        key = (repr(value), type.shape, type.dtype)
        name = self._fills.get(key)
        if name is None:
            trace = Trace("init", "init")
            whole = int(value) if type.dtype[0] in "iu" else value
            made = trace.full(whole, type.shape, type.dtype)
            graph: Graph = trace.finish({"value": made})
            name = self._fills[key] = self.store.shared("init", graph)
        return name
