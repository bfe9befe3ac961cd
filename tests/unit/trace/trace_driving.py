"""Calling tensor functions as the Lisp does, from Python, and running the graphs they make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import sexpgpu.trace.functions
import sexpgpu.trace.runfile  # noqa: F401
from sexpgpu.assemble.calling import call_all, tensors_of
from sexpgpu.diagnostics.model import Diagnostic, SxError
from sexpgpu.ir.graph import Graph
from sexpgpu.ir.types import TensorType
from sexpgpu.lisp.builtins import load
from sexpgpu.lisp.registry import BUILTINS
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.state import STATE, Site
from sexpgpu.lisp.values import NIL, Cons, Function, String, T, keyword, lisp_list
from sexpgpu.lowering.interp.evaluate import Plan, evaluate
from sexpgpu.source import Origin, Source, Span
from sexpgpu.trace.context import Trace, tracing
from sexpgpu.trace.tensor import OPERATIONS, Tensor, is_tensor, resolve

load()

NAMES = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int8": "i8",
    "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64", "bool": "bool",
}  # fmt: skip

bf16 = ml_dtypes.bfloat16


def lisp(value: Any) -> Any:
    """A Python value as the Lisp has it: lists, strings, `":key"`, None (nil), True (t)."""
    if value is None or value is False:
        return NIL
    if value is True:
        return T
    if isinstance(value, list | tuple):
        return lisp_list([lisp(v) for v in value])
    if isinstance(value, str):
        return keyword(value[1:]) if value.startswith(":") else String(value)
    return value


def call(name: str, /, *arguments: Any, **keys: Any) -> Any:
    """(name arguments… :key value…), as a compiled call makes it."""
    given = [lisp(a) for a in arguments]
    for key, value in keys.items():
        given += [keyword(key.replace("_", "-")), lisp(value)]
    if name in OPERATIONS and any(map(is_tensor, given)):
        found = next(a for a in given if is_tensor(a)).lisp_operate(name, tuple(given))
        assert found is not NotImplemented
        return found
    function = BUILTINS[name].function
    assert function is not None
    return function.call(*given)


class World:
    """One trace with arrays as its inputs."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.given: dict[str, np.ndarray] = {}

    def tensor(self, array: Any, batch: int | None = None) -> Tensor:
        made = np.asarray(array)
        type = TensorType(made.shape, NAMES[made.dtype.name], batch)
        name = f"x{len(self.given)}"
        self.given[name] = made
        return Tensor(self.trace.input(name, type), self.trace, self.trace.locate())

    def __call__(self, name: str, /, *arguments: Any, **keys: Any) -> Any:
        """Call a function; arrays become inputs."""
        made = [self.tensor(a) if isinstance(a, np.ndarray | np.generic) else a for a in arguments]
        return call(name, *made, **keys)

    def run(self, value: Any, **inputs: Any) -> Any:
        """The numbers of a tensor."""
        if isinstance(value, Cons):
            return [self.run(v, **inputs) for v in value]
        graph = self.trace.finish({"y": resolve(value).value})
        return run(graph, {**self.given, **inputs})["y"]

    def numbers(self, name: str, /, *arguments: Any, **keys: Any) -> Any:
        """Call and run."""
        return self.run(self(name, *arguments, **keys))


def run(graph: Graph, inputs: dict[str, Any]) -> dict[str, np.ndarray]:
    given = {k: v for k, v in inputs.items() if k in graph.inputs}
    if "rng/key" in graph.inputs:
        given.setdefault("rng/key", np.array([0, 7], np.uint32))
    if "rng/offset" in graph.inputs:
        given.setdefault("rng/offset", np.uint32(0))
    return evaluate(Plan(graph), given)


@contextmanager
def world(name: str = "graph", **how: Any) -> Iterator[World]:
    trace = Trace(name, **how)
    with tracing(trace):
        yield World(trace)


@contextmanager
def at(text: str, line: str = "(f x)") -> Iterator[Span]:
    """As if the call were at `line` in a source of that name."""
    before = STATE.site
    source = Source(text, line)
    span = Span(source, 0, len(line))
    STATE.site = Site((source, 0, len(line)))
    try:
        yield span
    finally:
        STATE.site = before


def refused(code: str, action: Callable[[], Any]) -> Diagnostic:
    """The diagnostic of an action that must be refused with that code."""
    with pytest.raises(SxError) as caught:
        action()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code.id == code, diagnostic
    return diagnostic


def said(diagnostic: Diagnostic) -> str:
    """Everything a diagnostic says."""
    parts = [diagnostic.headline, diagnostic.fix or diagnostic.code.fix]
    parts += [label.text for label in diagnostic.labels]
    parts += [note.text for note in diagnostic.notes]
    return "\n".join(parts)


def graph_of(
    session: Session, function: Function, types: dict[str, TensorType], trace: Trace
) -> Graph:
    """The graph of a Lisp function of one tensor for each input; outputs `out/0`, `out/1` …"""

    def work() -> Graph:
        origin = Origin(function.origin)
        with tracing(trace):
            given = [Tensor(trace.input(n, type), trace, origin) for n, type in types.items()]
            values = call_all(function, *given, what="the tensors")
            made = tensors_of(trace, function, values)
        return trace.finish({f"out/{at}": value for at, value in enumerate(made)})

    return session.run(work)
