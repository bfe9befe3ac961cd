"""Any traced function on arrays: trace it for the types at hand, run it, differentiate it.

The backends are imported when a function is first called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sexpgpu.assemble.calling import call_all, tensors_of
from sexpgpu.diagnostics.codes import tensor as tensor_codes
from sexpgpu.diagnostics.model import Diagnostic, SxError
from sexpgpu.ir.graph import Graph, Value
from sexpgpu.ir.types import DTYPES, FLOATS, TensorType
from sexpgpu.lisp.calls import as_function
from sexpgpu.lisp.errors import LispError
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.values import Function, Module
from sexpgpu.passes.autodiff import gradients
from sexpgpu.passes.pipeline import optimized
from sexpgpu.source import NOWHERE
from sexpgpu.trace.context import Trace, tracing
from sexpgpu.trace.tensor import Tensor

if TYPE_CHECKING:
    import numpy as np

    from sexpgpu.lowering.backend import Engine

_NAMES = {
    "float32": "f32", "bfloat16": "bf16", "float16": "f16", "float64": "f64", "int8": "i8",
    "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64", "bool": "bool",
}  # fmt: skip


class TracedFunction:
    """A Lisp function of tensors, called on arrays.

    Arguments are arrays (or Python numbers and nested lists, which become float32, int32 or bool
    arrays); results are NumPy arrays: one, or a tuple. Random draws take their key from `seed=`
    and `step=`. A graph is traced once for each combination of argument types.

    Errors: CompileError for what is wrong in the function or between its arguments.
    """

    def __init__(
        self, function: Function, session: Session, device: str, precision: str = "f32"
    ) -> None:
        self._function = function
        self._session = session
        self._device = device
        self._precision = precision
        self._graphs: dict[Any, Graph] = {}
        self._compiled: dict[Any, Callable[..., Any]] = {}
        self._last: Graph | None = None

    def __call__(self, *arrays: Any, seed: int = 0, step: int = 0) -> Any:
        """The function's results for these arrays."""
        given = [_array(a) for a in arrays]
        graph = self._graph("value", [_type(a) for a in given])
        return _several(self._run(graph, _inputs(given), seed, step))

    def vjp(self, *arguments: Any, seed: int = 0, step: int = 0) -> tuple[np.ndarray, ...]:
        """The cotangents of the arguments: `f.vjp(x, w, cotangents)`, where `cotangents` is an
        array of the result's shape, or a list of one for each result. An argument that carries no
        gradient gets zeros."""
        *arrays, cotangents = arguments
        given = [_array(a) for a in arrays]
        one = not isinstance(cotangents, list | tuple)
        several: list[Any] = [cotangents] if one else [*cotangents]
        seeds = [_array(c) for c in several]
        graph = self._graph("vjp", [_type(a) for a in given], [_type(c) for c in seeds])
        inputs = _inputs(given) | {f"cotangent/{i}": c for i, c in enumerate(seeds)}
        return tuple(self._run(graph, inputs, seed, step))

    def grad(self, *arrays: Any, seed: int = 0, step: int = 0) -> Any:
        """The gradient of a scalar function with respect to each float argument: one array, or a
        tuple in the order of the arguments."""
        given = [_array(a) for a in arrays]
        graph = self._graph("grad", [_type(a) for a in given])
        return _several(self._run(graph, _inputs(given), seed, step))

    @property
    def ir(self) -> str:
        """The text form of the graph that was traced last."""
        from sexpgpu.ir.text import print_graph

        if self._last is None:
            raise ValueError("the function has not been traced: call it first")
        return print_graph(self._last)

    # -- tracing -----------------------------------------------------------------------------

    def _graph(
        self, what: str, types: list[TensorType], cotangents: Sequence[TensorType] = ()
    ) -> Graph:
        key = (what, tuple(types), tuple(cotangents))
        graph = self._graphs.get(key)
        if graph is None:
            try:
                graph = self._session.run(lambda: self._trace(what, types, cotangents))
            except SxError as error:
                raise _as_compile_error(error) from None
            self._graphs[key] = graph
        self._last = graph
        return graph

    def _trace(self, what: str, types: list[TensorType], cotangents: Sequence[TensorType]) -> Graph:
        trace = Trace("function", "function")
        try:
            with tracing(trace):
                values = [trace.input(f"argument/{i}", t) for i, t in enumerate(types)]
                results = self._results(trace, values)
                if what != "value":
                    results = self._gradients(trace, what, values, results, cotangents)
        except LispError as error:
            raise SxError(self._session.report(error)) from None
        outputs = {f"result/{i}": r for i, r in enumerate(results)}
        return optimized(trace.finish(outputs), self._precision)

    def _results(self, trace: Trace, values: list[Value]) -> list[Value]:
        tensors = [Tensor(v, trace, NOWHERE) for v in values]
        given = call_all(self._function, *tensors, what="the arrays")
        return tensors_of(trace, self._function, given)

    def _gradients(
        self,
        trace: Trace,
        what: str,
        values: list[Value],
        results: list[Value],
        cotangents: Sequence[TensorType],
    ) -> list[Value]:
        if what == "grad":
            if not results or results[0].shape != () or results[0].dtype not in FLOATS:
                raise SxError(
                    Diagnostic(
                        tensor_codes.E_GRAD_001,
                        f"{self._function.name} must return a scalar float to be differentiated",
                    )
                )
            seeds = [(results[0], trace.full(1.0, (), results[0].dtype))]
        else:
            for result, cotangent in zip(results, cotangents, strict=False):
                if not result.type.same_value(cotangent):
                    raise SxError(
                        Diagnostic(
                            tensor_codes.E_GRAD_001,
                            f"a cotangent is {cotangent}; the result is {result.type}",
                        )
                    )
            seeds = [
                (result, trace.input(f"cotangent/{i}", cotangent))
                for i, (result, cotangent) in enumerate(zip(results, cotangents, strict=False))
            ]
        floats = [v for v in values if v.dtype in FLOATS]
        found = dict(zip(floats, gradients(trace.builder, seeds, floats), strict=True))
        made: list[Value] = []
        for value in floats if what == "grad" else values:
            gradient = found.get(value)
            if gradient is None:
                zero: Any = False if value.dtype == "bool" else 0.0 if value.dtype in FLOATS else 0
                gradient = trace.full(zero, value.shape, value.dtype)
            made.append(gradient)
        return made

    # -- running -----------------------------------------------------------------------------

    def _run(self, graph: Graph, inputs: Mapping[str, Any], seed: int, step: int) -> list[Any]:
        import numpy as np

        from sexpgpu.loop.keys import domain, fold
        from sexpgpu.lowering.backend import open_backend

        given = dict(inputs)
        if "rng/key" in graph.inputs:
            given["rng/key"] = np.asarray(fold(domain(seed, "trai"), step), np.uint32)
        if "rng/offset" in graph.inputs:
            given["rng/offset"] = np.uint32(0)
        try:
            backend = open_backend(self._device)
        except SxError as error:
            raise _as_compile_error(error) from None
        run = self._compiled.get(id(graph))
        if run is None:

            def call(engine: Engine, tree: dict[str, Any]) -> Any:
                return engine.call(graph, tree)

            run = backend.compile(
                call,
                [{n: v.type for n, v in graph.inputs.items()}],
                donate=(),
            )
            self._compiled[id(graph)] = run
        found = backend.get(run(backend.put({n: given[n] for n in graph.inputs})))
        return [found[f"result/{i}"] for i in range(len(graph.outputs))]


def make_function(text: str, session: Session, module: Module, device: str) -> TracedFunction:
    """The traced function that a text (a lambda form, or a function's name) denotes in a module."""
    value = session.evaluate(text, module)[-1]
    try:
        return TracedFunction(as_function(value), session, device)
    except LispError as error:
        raise SxError(session.report(error)) from None


def _as_compile_error(error: SxError) -> Exception:
    """The same diagnostics as users of the Python API see them."""
    from sexpgpu.api import CompileError

    return CompileError(error.diagnostics)


def _array(value: Any) -> Any:
    import numpy as np

    if hasattr(value, "dtype"):
        given = np.asarray(value)
        return given.astype(given.dtype.newbyteorder("="), copy=False)
    try:
        made = np.asarray(value)
    except ValueError:
        told = "the lists of an argument differ in length: they are no array"
        raise _as_compile_error(SxError(Diagnostic(tensor_codes.E_DTYPE_001, told))) from None
    if made.dtype == np.float64:
        return made.astype(np.float32)  # Python's own numbers: the product's default float
    if made.dtype == np.int64:
        narrow = made.astype(np.int32)
        return narrow if np.array_equal(narrow, made) else made
    return made


def _type(array: Any) -> TensorType:
    name = _NAMES.get(array.dtype.name)
    if name is None:
        told = f"an array of {array.dtype} is no tensor; the dtypes are {' '.join(DTYPES)}"
        raise _as_compile_error(SxError(Diagnostic(tensor_codes.E_DTYPE_001, told)))
    return TensorType(tuple(array.shape), name)


def _inputs(arrays: list[Any]) -> dict[str, Any]:
    return {f"argument/{i}": a for i, a in enumerate(arrays)}


def _several(results: list[Any]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)
