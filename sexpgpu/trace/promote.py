"""Promotion and broadcasting: operands of any kinds become values of one shape and one dtype.

The rules (docs/tensors.md): an ordinary number takes the tensor's dtype, but a float or ratio with
an integer tensor makes both f32; two tensors must be of one kind (float, integer, bool) and take
the smallest dtype of that kind that holds both; shapes broadcast aligned at their last axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from sexpgpu.diagnostics.codes.tensor import E_DTYPE_001, E_DTYPE_002, E_DTYPE_003, E_SHAPE_001
from sexpgpu.diagnostics.model import SxError
from sexpgpu.ir.graph import Value
from sexpgpu.ir.types import (
    FLOATS,
    GREATEST,
    INTEGERS,
    ITEMSIZE,
    SIGNED,
    integer_range,
    kind,
)
from sexpgpu.lisp.values import KEYWORD, NIL, Cons, Symbol, T, Vector
from sexpgpu.reader.printer import brief
from sexpgpu.trace.arguments import bad, is_number
from sexpgpu.trace.context import TRACES, Trace
from sexpgpu.trace.declare import named
from sexpgpu.trace.errors import Named, failure
from sexpgpu.trace.primitives import Shape, broadcast, cast
from sexpgpu.trace.tensor import Tensor, TensorSource, resolve

# What a function computes on: NUMBER floats and integers; FLOAT floats (integers become f32);
# INTEGER integers; BITS integers and bools; LOGICAL bools; ANY everything.
NUMBER, FLOAT, INTEGER, BITS, LOGICAL, ANY = "number", "float", "integer", "bits", "logical", "any"

_COMMON: dict[tuple[str, str], str | None] = {}


def common_dtype(a: str, b: str) -> str | None:
    """The dtype that tensors of dtypes a and b take together, or None when there is none."""
    if a == b:
        return a
    found = _COMMON.get((a, b), "")
    if found == "":
        found = _COMMON[a, b] = _common(a, b)
    return found


def _common(a: str, b: str) -> str | None:
    if kind(a) != kind(b):
        return None
    wider = a if ITEMSIZE[a] >= ITEMSIZE[b] else b
    if a in FLOATS:
        return None if ITEMSIZE[a] == ITEMSIZE[b] else wider
    if (a in SIGNED) == (b in SIGNED):
        return wider
    signed, unsigned = (a, b) if a in SIGNED else (b, a)
    if ITEMSIZE[signed] > ITEMSIZE[unsigned]:
        return signed
    return {1: "i16", 2: "i32", 4: "i64"}.get(ITEMSIZE[unsigned])


def constant(trace: Trace, name: str, value: Any, shape: Shape, dtype: str) -> Value:
    """An ordinary number (or t, nil) as a value of that shape and dtype."""
    check_number(name, value, dtype)
    return trace.full(value is T if dtype == "bool" else value, shape, dtype)


def check_number(name: str, value: Any, dtype: str) -> None:
    """E-DTYPE-003 when the dtype cannot hold the number."""
    if dtype in FLOATS:
        if dtype == "f32" and -1e38 < value < 1e38:
            return
        try:
            made = abs(float(value))
        except OverflowError:
            raise _does_not_fit(name, value, dtype) from None
        if made > GREATEST[dtype] and isfinite(made):
            raise _does_not_fit(name, value, dtype)
    elif dtype != "bool":
        low, high = integer_range(dtype)
        if not low <= value <= high:
            raise _does_not_fit(name, value, dtype)


def _does_not_fit(name: str, value: Any, dtype: str) -> SxError:
    low, high = integer_range(dtype) if dtype in INTEGERS else (-GREATEST[dtype], GREATEST[dtype])
    return failure(
        E_DTYPE_003,
        f"{name}: {brief(value)} does not fit in {dtype}, which holds {low} to {high}",
        fix="cast the tensor to a wider dtype",
    )


def broadcast_shape(name: str, shapes: Sequence[Shape], operands: Named) -> Shape:
    """The shape that all broadcast to, aligned at the last axis; else E-SHAPE-001."""
    rank = max(map(len, shapes))
    result = [1] * rank
    owner = [0] * rank
    for index, shape in enumerate(shapes):
        offset = rank - len(shape)
        for at, extent in enumerate(shape):
            place = offset + at
            if extent == result[place] or extent == 1:
                continue
            if result[place] != 1:
                raise _mismatch(name, shapes, operands, owner[place], index, place - rank)
            result[place] = extent
            owner[place] = index
    return tuple(result)


def _mismatch(
    name: str, shapes: Sequence[Shape], operands: Named, a: int, b: int, axis: int
) -> SxError:
    first, second = shapes[a], shapes[b]

    def text(shape: Shape) -> str:
        return "(" + " ".join(map(str, shape)) + ")"

    return failure(
        E_SHAPE_001,
        f"{name}: shapes {text(first)} and {text(second)} do not broadcast: "
        f"axis {axis} is {first[axis]} in one and {second[axis]} in the other",
        operands,
        fix=_aligned(name, first, second),
    )


def _aligned(name: str, first: Shape, second: Shape) -> str | None:
    """A fix for two shapes that do not broadcast, where what was meant can be seen in them."""
    if name == "*" and len(first) > 1 and len(second) > 1 and first[-1] == second[-2]:
        return "* multiplies element by element; the product of matrices is (matmul a b)"
    short, long = (first, second) if len(first) < len(second) else (second, first)
    if short and len(short) < len(long) and short == long[: len(short)]:
        which = "the first" if short is first else "the second"
        return (
            f"shapes are lined up at the last axis: to line {which} up at the first, give it the "
            f"axes that it lacks, (expand-dims x {len(short)})"
        )
    return None


def unify(name: str, items: Sequence[Any], allow: str = NUMBER, what: Any = ()) -> list[Value]:
    """The operands as values of one shape and one dtype that the function computes on."""
    values = same_dtype(name, items, allow, what)
    trace = TRACES[-1]
    shape = values[0].type.shape if isinstance(values[0], Value) else None
    for value in values:
        if isinstance(value, Value) and value.type.shape != shape:
            shapes = [v.type.shape for v in values if isinstance(v, Value)]
            operands = [
                pair
                for pair, v in zip(named(items, what), values, strict=True)
                if isinstance(v, Value)
            ]
            shape = broadcast_shape(name, shapes, operands)
            break
    assert shape is not None
    result: list[Value] = []
    for value in values:
        if isinstance(value, Value):
            result.append(value if value.type.shape == shape else broadcast(trace, value, shape))
        else:
            number, dtype = value
            result.append(constant(trace, name, number, shape, dtype))
    return result


def same_dtype(name: str, items: Sequence[Any], allow: str, what: Any = ()) -> list[Any]:
    """The operands in one dtype, each in its own shape; numbers beside a tensor stay
    (number, dtype) until the shape is known, and are scalars where no operand is a tensor."""
    trace = TRACES[-1]
    dtype: str | None = None
    fraction = False
    found: list[Any] = []
    for at, item in enumerate(items):
        if type(item) is Tensor or isinstance(item, TensorSource):
            if type(item) is not Tensor or item.trace is not trace:
                item = resolve(item)
            value = item.value
            found.append(value)
            own = value.type.dtype
            if dtype is None:
                dtype = own
            elif dtype != own:
                both = common_dtype(dtype, own)
                if both is None:
                    if allow == LOGICAL:
                        _allowed(name, own if dtype == "bool" else dtype, allow, items, what)
                    raise _mixed(name, items, dtype, own, what)
                dtype = both
        elif is_number(item):
            found.append(item)
            fraction = fraction or not isinstance(item, int)
        elif (item is T or item is NIL) and allow in (LOGICAL, ANY):
            found.append(item)
        else:
            wanted = "a tensor or t or nil" if allow == LOGICAL else "a tensor or a number"
            raise bad(name, named(items, what)[at][0], item, wanted, _mend(name, item))
    if dtype is None:
        dtype = _dtype_of_numbers(name, found, fraction)
    elif fraction and dtype in INTEGERS:
        dtype = "f32"
    dtype = _allowed(name, dtype, allow, items, what)
    numbers = all(not isinstance(item, Value) for item in found)
    result: list[Any] = []
    for at, item in enumerate(found):
        if isinstance(item, Value):
            result.append(cast(trace, item, dtype))
        elif is_number(item) == (dtype == "bool"):
            raise _number_with_bool(name, item, items, what)
        elif numbers and at == 0:
            result.append(constant(trace, name, item, (), dtype))
        else:
            result.append((item, dtype))
    return result


_ALONG = {"max": "amax", "min": "amin", "+": "sum", "*": "prod"}  # functions along an axis


def _mend(name: str, item: Any) -> str | None:
    """What to write in place of an operand that is neither a tensor nor a number."""
    if isinstance(item, Symbol) and item.module is KEYWORD:
        other = _ALONG.get(name)
        return f"along an axis write ({other} x :axis n)" if other else None
    if isinstance(item, Cons | Vector):
        return (
            f"for numbers write (constant list); for a list of tensors (apply #'{name} list), or "
            "(stack-tensors list)"
        )
    if item is T:
        return "write 1, or (cast test :f32) for a bool tensor"
    if item is NIL:
        return "leave it out where it is not given: (if (null y) x …)"
    return None


def _dtype_of_numbers(name: str, found: list[Any], fraction: bool) -> str:
    if not any(map(is_number, found)):
        return "bool"
    return "f32" if fraction else "i32"


def _allowed(name: str, dtype: str, allow: str, items: Sequence[Any], what: Any) -> str:
    """The dtype computed in; E-DTYPE-001 when the function does not take it."""
    if allow == ANY:
        return dtype
    if dtype in FLOATS:
        fits = allow in (NUMBER, FLOAT)
    elif dtype in INTEGERS:
        if allow == FLOAT:
            return "f32"
        fits = allow != LOGICAL
    else:
        fits = allow in (BITS, LOGICAL)
    if fits:
        return dtype
    wanted = {
        NUMBER: "numbers",
        FLOAT: "numbers",
        INTEGER: "integers",
        BITS: "integers or bools",
        LOGICAL: "bools",
    }[allow]
    if dtype == "bool":
        fix = "write (cast x :f32) for 1 where it holds, or choose with (where test a b)"
    elif allow == LOGICAL:
        fix = "write (/= x 0) for a bool tensor"
    else:
        fix = "cast to an integer dtype: (cast x :i32)"
    raise failure(E_DTYPE_001, f"{name} takes {wanted}, not {dtype}", named(items, what), fix=fix)


def _mixed(name: str, items: Sequence[Any], a: str, b: str, what: Any) -> SxError:
    if kind(a) == kind(b):
        why = "neither holds the other"
        fix = "cast one of the two"
    else:
        why = f"{_article(kind(a))} and {_article(kind(b))} do not combine"
        wide = a if a in FLOATS else b if b in FLOATS else a if b == "bool" else b
        fix = f"cast one of the two: (cast x :{wide})"
    return failure(E_DTYPE_002, f"{name}: dtypes {a} and {b}: {why}", named(items, what), fix=fix)


def _article(word: str) -> str:
    return {"float": "a float", "int": "an integer", "bool": "a bool"}[word]


def _number_with_bool(name: str, item: Any, items: Sequence[Any], what: Any) -> SxError:
    return failure(
        E_DTYPE_002,
        f"{name}: {brief(item)} beside a tensor of another kind",
        named(items, what),
        fix="write (cast x :f32) for 1 where a bool tensor holds, or choose with where",
    )


def pair(name: str, a: Any, b: Any, allow: str = NUMBER) -> tuple[Value, Value]:
    """Two operands as values of one shape and dtype: `unify` with its commonest cases first."""
    if type(a) is Tensor:
        trace = TRACES[-1]
        x = a.value
        type_a = x.type
        if type(b) is Tensor:
            y = b.value
            type_b = y.type
            if (
                type_a.dtype == type_b.dtype
                and type_a.shape == type_b.shape
                and a.trace is trace
                and b.trace is trace
                and (type_a.dtype == "f32" or allow == ANY)
                and (allow in (NUMBER, FLOAT, ANY))
            ):
                return x, y
        elif (
            type_a.dtype == "f32"
            and (type(b) is float or type(b) is int)
            and a.trace is trace
            and allow in (NUMBER, FLOAT, ANY)
        ):
            return x, constant(trace, name, b, type_a.shape, "f32")
    values = unify(name, (a, b), allow)
    return values[0], values[1]


def floats(name: str, x: Any, what: str = "x") -> Value:
    """One operand as floats: integers become f32; bools are refused."""
    if type(x) is Tensor and x.trace is TRACES[-1] and x.value.type.dtype in FLOATS:
        return x.value
    return unify(name, (x,), FLOAT, (what,))[0]


def numbers(name: str, x: Any, what: str = "x") -> Value:
    """One operand as floats or integers."""
    if type(x) is Tensor and x.trace is TRACES[-1] and x.value.type.dtype != "bool":
        return x.value
    return unify(name, (x,), NUMBER, (what,))[0]
