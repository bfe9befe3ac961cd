"""floor, ceiling, round and truncate of tensors: one value, the quotient, in the tensor's dtype."""

from __future__ import annotations

from typing import Any

from sexpgpu.diagnostics.codes.tensor import E_DTYPE_001
from sexpgpu.ir.types import INTEGERS, ITEMSIZE
from sexpgpu.trace.context import TRACES
from sexpgpu.trace.declare import named, operation
from sexpgpu.trace.errors import failure
from sexpgpu.trace.promote import numbers, pair
from sexpgpu.trace.tensor import Tensor, wrap

OPS = {"floor": "floor", "ceiling": "ceil", "round": "round", "truncate": "trunc"}


@operation(*OPS)
def rounded(name: str, x: Any, divisor: Any = 1) -> Tensor:
    """x over the divisor, rounded: down, up, to the nearest (halves to even), towards 0."""
    trace = TRACES[-1]
    if type(divisor) is int and divisor == 1:
        value = numbers(name, x)
        if value.type.dtype in INTEGERS:
            return wrap(value)
        return wrap(trace.emit(OPS[name], value))
    a, b = pair(name, x, divisor)
    dtype = a.type.dtype
    if dtype not in INTEGERS:
        return wrap(trace.emit(OPS[name], trace.emit("div", a, b)))
    if ITEMSIZE[dtype] > 4:
        raise failure(
            E_DTYPE_001,
            f"{name}: the quotient of 64-bit integers is not among the operations",
            named((x, divisor)),
            fix="cast to :i32 where the numbers allow it",
        )
    # The quotient of two 32-bit integers in f64 is precise enough to be rounded exactly.
    wide = trace.emit("div", trace.emit("cast", a, dtype="f64"), trace.emit("cast", b, dtype="f64"))
    return wrap(trace.emit("cast", trace.emit(OPS[name], wide), dtype=dtype))
