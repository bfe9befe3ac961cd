"""Comparison, logic and bits. A comparison gives bools; a chain holds where each link does."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from sexpgpu.ir.graph import Value
from sexpgpu.ir.types import FLOATS, SIGNED
from sexpgpu.lisp.values import NIL, T
from sexpgpu.trace.arguments import bad, integer, is_number
from sexpgpu.trace.context import TRACES
from sexpgpu.trace.declare import operation, tensor_function
from sexpgpu.trace.primitives import broadcast
from sexpgpu.trace.promote import (
    ANY,
    BITS,
    INTEGER,
    LOGICAL,
    NUMBER,
    broadcast_shape,
    numbers,
    pair,
    unify,
)
from sexpgpu.trace.tensor import Tensor, is_tensor, wrap

COMPARISONS = {"=": "eq", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


@operation(*COMPARISONS)
def compared(name: str, *arguments: Any) -> Tensor:
    """Whether each operand stands so to the next, elementwise: a bool tensor."""
    pairs = list(pairwise(arguments))
    return wrap(_chain(name, COMPARISONS[name], pairs, arguments))


@operation("/=")
def all_different(*arguments: Any) -> Tensor:
    """Whether no two operands are equal, elementwise: a bool tensor."""
    count = len(arguments)
    pairs = [(arguments[i], arguments[j]) for i in range(count) for j in range(i + 1, count)]
    return wrap(_chain("/=", "ne", pairs, arguments))


def _chain(name: str, op: str, pairs: list[tuple[Any, Any]], arguments: tuple[Any, ...]) -> Value:
    trace = TRACES[-1]
    allow = ANY if op in ("eq", "ne") else NUMBER
    if not pairs:
        return trace.full(True, numbers(name, arguments[0]).type.shape, "bool")
    result: Value | None = None
    for a, b in pairs:
        x, y = pair(name, a, b, allow)
        link = trace.emit(op, x, y)
        if result is None:
            result = link
        else:
            both = unify(name, (wrap(result), wrap(link)), LOGICAL)
            result = trace.emit("and", both[0], both[1])
    assert result is not None
    return result


@tensor_function("where", "(test a b)", outside=True)
def where(test: Any, a: Any, b: Any) -> Any:
    """a where the test holds, else b; the three broadcast. test: a bool tensor; a, b: one kind.
    No gradient, and no NaN, comes through the branch not taken."""
    if test is T or test is NIL:
        return a if test is T else b
    if not is_tensor(test):
        raise bad("where", "test", test, "a bool tensor, t or nil")
    trace = TRACES[-1]
    condition = unify("where", (test,), LOGICAL, ("test",))[0]
    if is_tensor(a) or is_tensor(b):
        x, y = pair("where", a, b, ANY)
    else:
        x, y = unify("where", (a, b), ANY, ("a", "b"))
    shape = condition.type.shape
    if x.type.shape != shape:
        operands = [("test", test), ("a", a), ("b", b)]
        shape = broadcast_shape("where", (shape, x.type.shape), operands)
        condition, x, y = (broadcast(trace, v, shape) for v in (condition, x, y))
    return wrap(trace.emit("select", condition, x, y))


# ---------------------------------------------------------------------------- logic


def _logical(name: str, op: str, arguments: tuple[Any, ...]) -> Any:
    if not arguments:
        return T if op == "and" else NIL
    total = arguments[0]
    for item in arguments[1:]:
        if is_tensor(total) or is_tensor(item):
            x, y = pair(name, total, item, LOGICAL)
            total = wrap(TRACES[-1].emit(op, x, y))
        else:
            a, b = total is not NIL, item is not NIL
            total = T if {"and": a and b, "or": a or b, "xor": a != b}[op] else NIL
    if is_tensor(total) and len(arguments) == 1:
        return wrap(unify(name, (total,), LOGICAL)[0])
    return total


@tensor_function("logical-and", "(&rest tests)", outside=True)
def logical_and(*tests: Any) -> Any:
    """Whether all hold, elementwise; bool tensors (or t, nil) that broadcast. Of none: t."""
    return _logical("logical-and", "and", tests)


@tensor_function("logical-or", "(&rest tests)", outside=True)
def logical_or(*tests: Any) -> Any:
    """Whether any holds, elementwise; bool tensors (or t, nil) that broadcast. Of none: nil."""
    return _logical("logical-or", "or", tests)


@tensor_function("logical-xor", "(a b)", outside=True)
def logical_xor(a: Any, b: Any) -> Any:
    """Whether just one holds, elementwise; bool tensors (or t, nil) that broadcast."""
    return _logical("logical-xor", "xor", (a, b))


@tensor_function("logical-not", "(test)", outside=True)
def logical_not(test: Any) -> Any:
    """Whether the test does not hold, elementwise; a bool tensor (or t, nil)."""
    if not is_tensor(test):
        return T if test is NIL else NIL
    return wrap(TRACES[-1].emit("not", unify("logical-not", (test,), LOGICAL, ("test",))[0]))


_TESTS = {"is-nan": math.isnan, "is-inf": math.isinf, "is-finite": math.isfinite}


def _is(name: str, op: str, doc: str, other: bool) -> None:
    """Declare a test of floats. `other`: the answer for exact numbers, all finite."""

    def apply(x: Any) -> Any:
        if isinstance(x, float):
            return T if _TESTS[op](x) else NIL
        if is_number(x):
            return T if other else NIL
        value = numbers(name, x)
        if value.type.dtype not in FLOATS:
            return wrap(TRACES[-1].full(other, value.type.shape, "bool"))
        return wrap(TRACES[-1].emit(op, value))

    apply.__doc__ = doc
    tensor_function(name, "(x)", outside=True)(apply)


_is("nan-p", "is-nan", "Whether x is NaN, elementwise: a bool tensor.", False)
_is("inf-p", "is-inf", "Whether x is an infinity, elementwise: a bool tensor.", False)
_is("finite-p", "is-finite", "Whether x is neither NaN nor infinite: a bool tensor.", True)


# ---------------------------------------------------------------------------- bits


@operation("logand", "logior", "logxor")
def bits(name: str, *arguments: Any) -> Any:
    """Bit by bit, of integers or bools of one kind."""
    op = {"logand": "and", "logior": "or", "logxor": "xor"}[name]
    total = arguments[0]
    for item in arguments[1:]:
        x, y = pair(name, total, item, BITS)
        total = wrap(TRACES[-1].emit(op, x, y))
    return total


@operation("lognot")
def bit_complement(x: Any) -> Tensor:
    """The complement of each bit; of a bool, its negation."""
    return wrap(TRACES[-1].emit("not", unify("lognot", (x,), BITS)[0]))


@operation("ash")
def shift(x: Any, count: Any) -> Tensor:
    """x shifted left by count bits, right (keeping the sign) where count is negative."""
    trace = TRACES[-1]
    if not is_tensor(count):
        value = unify("ash", (x,), INTEGER)[0]
        places = integer("ash", "the count", count)
        op = "shift-left" if places >= 0 else "shift-right"
        width = min(abs(places), 64)
        return wrap(trace.emit(op, value, trace.full(width, value.type.shape, value.type.dtype)))
    a, b = pair("ash", x, count, INTEGER)
    left = trace.emit("shift-left", a, b)
    if b.type.dtype not in SIGNED:
        return wrap(left)
    right = trace.emit("shift-right", a, trace.emit("neg", b))
    zero = trace.full(0, b.type.shape, b.type.dtype)
    return wrap(trace.emit("select", trace.emit("ge", b, zero), left, right))
