"""What a tensor is told by in a few numbers: the reducers of diagnostics, as nodes of a graph.

`parts` gives what adds up over microbatches and how it does; `whole` the number itself. All f32.
"""

from __future__ import annotations

from sexpgpu.ir.graph import Builder, Value

REDUCERS = ("mean", "rms", "max", "min", "absmax", "l2", "zeros", "nonfinite", "histogram")

HOW = {
    "mean": "mean", "rms": "rms", "max": "max", "min": "min", "absmax": "max", "l2": "sum",
    "zeros": "mean", "nonfinite": "sum", "histogram": "sum",
}  # fmt: skip
"""How `parts` of each add up over microbatches of one size; of `l2` the root is taken after."""

# What is offered of the output of every submodel.
ACTIVATION = ("mean", "rms", "absmax", "zeros", "nonfinite", "histogram")
# What the loop itself takes, where selected: of each parameter, gradient and optimizer state.
PARAM = ("rms", "absmax", "l2", "histogram")
GRAD = ("rms", "absmax", "l2", "zeros", "nonfinite", "histogram")
STATE = ("rms", "absmax")

EXPONENTS = range(-24, 9)
"""The histogram counts magnitudes: below 2^-24 (zeros and NaN too), from each power of two to the
next, and from 2^8 up."""


def parts(b: Builder, x: Value, reducer: str) -> Value:
    """What a reducer takes of x, of any shape: a scalar, or the counts of a histogram."""
    if x.dtype != "f32":
        x = b.emit("cast", x, dtype="f32")
    axes = tuple(range(len(x.shape)))
    if reducer in ("max", "min"):
        return b.emit(f"{reducer}-reduce", x, axes=axes) if axes else x
    if reducer == "absmax":
        size = b.emit("abs", x)
        return b.emit("max-reduce", size, axes=axes) if axes else size
    if reducer == "histogram":
        return _histogram(b, x, axes)
    if reducer in ("rms", "l2"):
        x = b.emit("mul", x, x)
    elif reducer == "zeros":
        x = b.emit("cast", b.emit("eq", x, _like(b, 0.0, x)), dtype="f32")
    elif reducer == "nonfinite":
        x = b.emit("cast", b.emit("not", b.emit("is-finite", x)), dtype="f32")
    total = b.emit("sum", x, axes=axes) if axes else x
    return total if HOW[reducer] == "sum" else _share(b, total, x)


def whole(b: Builder, x: Value, reducer: str) -> Value:
    """The reducer's number of x."""
    found = parts(b, x, reducer)
    return b.emit("sqrt", found) if reducer in ("rms", "l2") else found


def _share(b: Builder, total: Value, x: Value) -> Value:
    """A sum over the elements of x, divided by how many there are."""
    count = 1
    for n in x.shape:
        count *= n
    return b.emit("mul", total, _like(b, 1.0 / max(count, 1), total))


def _like(b: Builder, value: float, x: Value) -> Value:
    return b.emit("full", shape=x.shape, value=value, dtype=x.dtype, batch=None)


def _histogram(b: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    size = b.emit("abs", x)
    count = 1
    for n in x.shape:
        count *= n
    last = b.emit("full", shape=(), value=float(count), dtype="f32", batch=None)
    counts: list[Value] = []
    for exponent in EXPONENTS:
        over = b.emit("cast", b.emit("ge", size, _like(b, 2.0**exponent, size)), dtype="f32")
        now = b.emit("sum", over, axes=axes) if axes else over
        counts.append(b.emit("sub", last, now))
        last = now
    counts.append(last)
    flat = [b.emit("reshape", value, shape=(1,)) for value in counts]
    return b.emit("concat", *flat, axis=0)
