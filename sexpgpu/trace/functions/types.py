"""Shapes and dtypes as ordinary values, casts, precision islands, and cutting the gradient."""

from __future__ import annotations

from typing import Any

from sexpgpu.diagnostics.codes.tensor import E_NUM_001
from sexpgpu.diagnostics.suggest import did_you_mean
from sexpgpu.ir.graph import Value
from sexpgpu.ir.numerics import NUMERICS
from sexpgpu.lisp.hostforms import THUNK, call_host, form, form_arguments, host_macro
from sexpgpu.lisp.hostforms import symbol as cl
from sexpgpu.lisp.values import KEYWORD, NIL, TENSOR, Cons, Symbol, T, keyword, lisp_list
from sexpgpu.reader.printer import brief
from sexpgpu.source import NOWHERE
from sexpgpu.trace.arguments import axis_of, dtype_of, marked_shape, tensor
from sexpgpu.trace.context import TRACES, Trace
from sexpgpu.trace.declare import tensor_function
from sexpgpu.trace.errors import failure, outside
from sexpgpu.trace.marked import MarkedInt
from sexpgpu.trace.primitives import cast as cast_value
from sexpgpu.trace.tensor import Tensor, TensorSource, is_tensor, wrap


def _told(name: str, x: Any) -> Tensor:
    """The tensor that is asked about: its type is known wherever it was made."""
    if isinstance(x, TensorSource) and not TRACES:
        type = x.known_type()
        if type is not None:
            return Tensor(Value(type), Trace(name), NOWHERE)
    return x if isinstance(x, Tensor) else tensor(name, "x", x)


@tensor_function("shape", "(x)", outside=True)
def shape(x: Any) -> Any:
    """The list of a tensor's extents; the batch's is a marked integer."""
    t = _told("shape", x)
    return lisp_list(marked_shape(t.trace, t))


@tensor_function("dim", "(x axis)", outside=True)
def dim(x: Any, axis: Any) -> int:
    """The extent of one axis (from the end when negative), an ordinary integer."""
    t = _told("dim", x)
    return marked_shape(t.trace, t)[axis_of("dim", axis, t.type.rank, [("x", t)])]


@tensor_function("rank", "(x)", outside=True)
def rank(x: Any) -> int:
    """The number of axes."""
    return _told("rank", x).type.rank


@tensor_function("size", "(x)", outside=True)
def size(x: Any) -> int:
    """The number of elements; marked where it counts examples."""
    t = _told("size", x)
    count = t.type.size
    return MarkedInt(count) if t.type.batch is not None and t.trace.batch is not None else count


@tensor_function("dtype", "(x)", outside=True)
def dtype(x: Any) -> Any:
    """The dtype, as a keyword: :f32 :bf16 :f16 :f64 :i8 … :u64 :bool."""
    return keyword(_told("dtype", x).type.dtype)


@tensor_function("tensorp", "(x)", outside=True)
def tensorp(x: Any) -> Any:
    """Whether x is a tensor: t or nil."""
    return T if is_tensor(x) else NIL


@tensor_function("cast", "(x dtype)")
def cast(x: Any, dtype: Any) -> Tensor:
    """x in another dtype. Floats to integers: towards 0, out of range to the nearest that fits, NaN
    to 0. Integers to narrower ones wrap around. To bool: whether x is not 0. Between floats: to
    nearest, ties to even."""
    t = tensor("cast", "x", x)
    return wrap(cast_value(TRACES[-1], t.value, dtype_of("cast", dtype)))


@tensor_function("bitcast", "(x dtype)")
def bitcast(x: Any, dtype: Any) -> Tensor:
    """The same bits as another dtype of the same size."""
    t = tensor("bitcast", "x", x)
    wanted = dtype_of("bitcast", dtype)
    return wrap(TRACES[-1].emit("bitcast", t.value, dtype=wanted))


@tensor_function("stop-gradient", "(x)")
def stop_gradient(x: Any) -> Tensor:
    """x, as a constant to the gradient."""
    return wrap(TRACES[-1].emit("stop-gradient", tensor("stop-gradient", "x", x).value))


# ---------------------------------------------------------------------------- islands


@host_macro("f32", "(&body forms)", layer=TENSOR)
def f32(at: Any, context: Any) -> Any:
    """(f32 form…): what is traced meanwhile, calls and backward pass included, is computed in f32
    whatever the run's precision is. Gives what the last form gives."""
    return _island("f32", (("compute", "f32"),), [], form_arguments(at))


@host_macro("with-numerics", "(options &body forms)", layer=TENSOR)
def with_numerics(at: Any, context: Any) -> Any:
    """(with-numerics (:compute :f32 :accumulate :f32 :matmul :tf32) form…): governs what is traced
    meanwhile, calls and backward pass included. :compute :f32 :bf16 :f16; :accumulate :f32 :bf16
    :f16 :f64; :matmul :highest :tf32. An inner one wins key by key."""
    arguments = form_arguments(at)
    if not arguments or not (arguments[0] is NIL or isinstance(arguments[0], Cons)):
        raise context.error(
            E_NUM_001,
            "with-numerics: a list of options comes first",
            fix="write (with-numerics (:compute :f32) form…)",
        )
    options = list(arguments[0]) if arguments[0] is not NIL else []
    return _island("with-numerics", (), options, arguments[1:])


def _island(
    name: str, fixed: tuple[tuple[str, str], ...], options: list[Any], body: list[Any]
) -> Any:
    """The form that runs a body with options: fixed ones, or the values of forms."""
    thunk = lisp_list([THUNK, form(cl("progn"), *body)])

    def run(*values: Any) -> Any:
        return run_island(name, fixed or read_options(*values[:-1]), values[-1])

    return call_host(run, *options, thunk)


def run_island(name: str, options: tuple[tuple[str, str], ...], thunk: Any) -> Any:
    """Run the thunk with these numerics; gives its values."""
    if not TRACES:
        raise outside(name)
    with TRACES[-1].numerics(**dict(options)):
        return thunk()


def read_options(*options: Any) -> tuple[tuple[str, str], ...]:
    """Check a property list of numerics: ((key, value)…)."""
    if len(options) % 2:
        raise failure(E_NUM_001, f"with-numerics: {brief(options[-1])} has no value")
    found: list[tuple[str, str]] = []
    for key, value in zip(options[::2], options[1::2], strict=True):
        name = key.name if _is_keyword(key) else ""
        if name not in NUMERICS:
            raise failure(
                E_NUM_001,
                f"with-numerics has no option {brief(key)}",
                fix=did_you_mean(brief(key), [f":{k}" for k in NUMERICS])
                or "the options are :accumulate :compute :matmul",
            )
        choices = NUMERICS[name]
        if not _is_keyword(value) or value.name not in choices:
            listed = " ".join(f":{c}" for c in choices)
            raise failure(
                E_NUM_001,
                f"with-numerics: :{name} is {brief(value)}, wanted one of {listed}",
                fix=did_you_mean(brief(value), listed.split()),
            )
        found.append((name, value.name))
    return tuple(found)


def _is_keyword(value: Any) -> bool:
    return isinstance(value, Symbol) and value.module is KEYWORD
