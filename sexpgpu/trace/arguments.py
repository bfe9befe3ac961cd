"""Reading the arguments of tensor functions: shapes, axes, dtypes, integers, lists of tensors.

Every reader takes the function's name, for its message, and raises an SxError at the call.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from sexpgpu.diagnostics.codes.tensor import (
    E_DTYPE_004,
    E_OP_001,
    E_SHAPE_003,
    E_SHAPE_005,
    E_SHAPE_008,
)
from sexpgpu.diagnostics.model import SxError
from sexpgpu.diagnostics.suggest import did_you_mean
from sexpgpu.ir.types import DTYPES, FLOATS
from sexpgpu.lisp.builtins.designators import walked
from sexpgpu.lisp.values import KEYWORD, NIL, Cons, String, Symbol, Vector
from sexpgpu.reader.printer import brief
from sexpgpu.trace.context import Trace
from sexpgpu.trace.errors import Named, failure
from sexpgpu.trace.marked import MarkedInt
from sexpgpu.trace.primitives import Shape, size_of
from sexpgpu.trace.tensor import Tensor, TensorSource, is_tensor, resolve

MAX_ELEMENTS = 1 << 40

# What others call the dtypes.
OTHER_DTYPES = {
    "float32": "f32", "float": "f32", "single": "f32", "fp32": "f32", "single-float": "f32",
    "float64": "f64", "double": "f64", "double-float": "f64", "fp64": "f64",
    "float16": "f16", "half": "f16", "fp16": "f16", "bfloat16": "bf16", "bfloat": "bf16",
    "int8": "i8", "int16": "i16", "int32": "i32", "int": "i32", "integer": "i32", "fixnum": "i32",
    "int64": "i64", "long": "i64", "uint8": "u8", "byte": "u8", "uint16": "u16", "uint32": "u32",
    "uint": "u32", "uint64": "u64", "boolean": "bool", "bool_": "bool",
}  # fmt: skip


def bad(name: str, what: str, value: Any, wanted: str, fix: str | None = None) -> SxError:
    """The SxError of an argument of the wrong kind."""
    return failure(
        E_OP_001, f"{name}: {what} is {brief(value)}, wanted {wanted}", [(what, value)], fix=fix
    )


def is_number(value: Any) -> bool:
    """An ordinary number: integer, ratio or float."""
    return isinstance(value, int | float | Fraction)


def items_of(name: str, what: str, value: Any) -> list[Any]:
    """The elements of a proper list or vector."""
    if isinstance(value, Vector):
        return list(value.items)
    if value is NIL:
        return []
    if isinstance(value, Cons):
        items: list[Any] = []
        at: Any = value
        while isinstance(at, Cons):
            items.append(at.car)
            at = at.cdr
            if len(items) & 1023 == 0:
                walked(at, len(items))
        if at is NIL:
            return items
    fix = f"write (list {value})" if is_number(value) else None
    raise bad(name, what, value, "a list", fix)


def integer(
    name: str, what: str, value: Any, low: int | None = None, high: int | None = None
) -> int:
    """An ordinary integer, within bounds where they are given."""
    if isinstance(value, int) and (low is None or value >= low) and (high is None or value <= high):
        return int(value)
    bounds = "" if low is None else f" from {low}" if high is None else f" from {low} to {high}"
    fix = None
    if is_tensor(value):
        fix = "use an ordinary integer: (dim x i), a knob, a literal; a tensor is known only later"
    raise bad(name, what, value, f"an integer{bounds}", fix)


def number(name: str, what: str, value: Any) -> float:
    """An ordinary number as a float (an int stays one)."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float | Fraction):
        return float(value)
    raise bad(name, what, value, "an ordinary number")


def tensor(name: str, what: str, value: Any) -> Tensor:
    """A tensor of the current trace."""
    if isinstance(value, Tensor | TensorSource):
        return resolve(value)
    fix = None
    if is_number(value):
        fix = f"make it a tensor: (full nil {brief(value)})"
    elif isinstance(value, Cons | Vector):
        fix = "make it a tensor with constant, or join tensors with concat or stack-tensors"
    raise bad(name, what, value, "a tensor", fix)


def tensors(name: str, what: str, value: Any) -> list[Tensor]:
    """A list of at least one tensor."""
    if is_tensor(value):
        raise bad(name, what, value, "a list of tensors", f"write ({name} (list a b) …)")
    items = items_of(name, what, value)
    if not items:
        raise bad(name, what, value, "a list of at least one tensor")
    return [tensor(name, f"element {at} of {what}", item) for at, item in enumerate(items)]


def dtype_of(name: str, value: Any) -> str:
    """The dtype that a keyword names."""
    if isinstance(value, Symbol) and value.module is KEYWORD and value.name in DTYPES:
        return value.name
    said = value.name if isinstance(value, Symbol) else text_or_brief(value)
    hint = None
    if said in DTYPES:
        hint = f"write the keyword :{said}"
    elif said in OTHER_DTYPES:
        hint = f"write :{OTHER_DTYPES[said]}"
    elif isinstance(value, Symbol):
        hint = did_you_mean(f":{said}", [f":{d}" for d in DTYPES])
    raise failure(
        E_DTYPE_004,
        f"{name}: there is no dtype {brief(value)}",
        fix=hint or "the dtypes are " + " ".join(f":{d}" for d in DTYPES),
    )


def text_or_brief(value: Any) -> str:
    return value.text if isinstance(value, String) else brief(value)


def float_dtype(name: str, value: Any) -> str:
    """The float dtype that a keyword names; :f32 when none is given."""
    dtype = "f32" if value is None else dtype_of(name, value)
    if dtype not in FLOATS:
        raise bad(name, ":dtype", value, "a float dtype: :f32 :bf16 :f16 :f64")
    return dtype


def choice(name: str, what: str, value: Any, choices: tuple[str, ...]) -> str:
    """One of some keywords."""
    if isinstance(value, Symbol) and value.name in choices:
        return value.name
    listed = " ".join(f":{c}" for c in choices)
    hint = did_you_mean(f":{value.name}", listed.split()) if isinstance(value, Symbol) else None
    raise bad(name, what, value, f"one of {listed}", hint)


def name_of(value: Any) -> str | None:
    """The text of a keyword, symbol or string."""
    if isinstance(value, Symbol) and value is not NIL:
        return value.name
    return value.text if isinstance(value, String) else None


def text(name: str, what: str, value: Any) -> str:
    """The text of a string, or a keyword's name."""
    if isinstance(value, String):
        return value.text
    if isinstance(value, Symbol) and value.module is KEYWORD:
        return value.name
    raise bad(name, what, value, "a keyword or a string")


# ---------------------------------------------------------------------------- shapes and axes


def shape_of(name: str, value: Any, what: str = "the shape") -> list[int]:
    """The extents of a shape list, marked ones still marked."""
    if isinstance(value, int):
        raise failure(
            E_SHAPE_008,
            f"{name}: {what} is {value}, wanted a list of sizes",
            fix=f"write (list {value})",
        )
    if is_tensor(value):
        raise failure(
            E_SHAPE_008,
            f"{name}: {what} is a tensor, wanted a list of sizes",
            [(what, value)],
            fix="write (shape x) for the shape of a tensor",
        )
    sizes = items_of(name, what, value)
    for size in sizes:
        if not isinstance(size, int) or size < 0:
            fix = "use ordinary integers: (dim x i) gives a tensor's extent; one extent may be -1 "
            fix += "in reshape, and is then what is left"
            raise failure(
                E_SHAPE_008,
                f"{name}: {what} {brief(value)} holds {brief(size)}, wanted sizes from 0 up",
                fix=fix if is_tensor(size) or size == -1 else None,
            )
    if size_of(sizes) > MAX_ELEMENTS:
        raise failure(E_SHAPE_008, f"{name}: {what} {brief(value)} has more than 2^40 elements")
    return sizes


def plain(sizes: list[int]) -> Shape:
    """The shape without marks."""
    return tuple([int(n) for n in sizes])


def batch_axis(trace: Trace, sizes: list[int]) -> tuple[int | None, bool]:
    """(the axis of a shape that counts examples or None, whether marks are there that cannot be
    attributed): one marked axis whose extent is a multiple of the batch."""
    marked = [at for at, n in enumerate(sizes) if type(n) is MarkedInt]
    if not marked:
        return None, False
    extent = trace.batch
    if len(marked) == 1 and extent and sizes[marked[0]] % extent == 0 and sizes[marked[0]]:
        return marked[0], False
    return None, True


def marked_shape(trace: Trace, x: Tensor) -> list[int]:
    """A tensor's extents as Lisp integers: the batch's is marked."""
    type = x.value.type
    sizes: list[int] = list(type.shape)
    axis = type.batch
    if axis is not None and trace.batch and sizes[axis] and sizes[axis] % trace.batch == 0:
        sizes[axis] = MarkedInt(sizes[axis])
    return sizes


def axis_of(name: str, value: Any, rank: int, operands: Named = (), extra: int = 0) -> int:
    """One axis, counted from 0. `extra`: how many places there are beyond the axes."""
    if not isinstance(value, int):
        raise bad(name, "the axis", value, "an integer")
    limit = rank + extra
    if not -limit <= value < limit:
        raise failure(
            E_SHAPE_003,
            f"{name}: axis {value} of a tensor of rank {rank}",
            operands,
            fix=f"the axes are {_range(limit)}" if limit else "a scalar has no axis",
        )
    return int(value) % limit if limit else 0


def _range(rank: int) -> str:
    return "0 (or -1)" if rank == 1 else f"0 to {rank - 1} (or -{rank} to -1)"


def axes_of(name: str, value: Any, rank: int, operands: Named = ()) -> Shape:
    """Some axes in increasing order: an integer, a list, or nil and not given for all."""
    if value is None or value is NIL:
        return tuple(range(rank))
    values = [value] if isinstance(value, int) else items_of(name, ":axis", value)
    axes = [axis_of(name, v, rank, operands) for v in values]
    if len(set(axes)) < len(axes):
        raise failure(E_SHAPE_003, f"{name}: :axis {brief(value)} names an axis twice", operands)
    return tuple(sorted(axes))


def wrong_rank(name: str, message: str, operands: Named, fix: str | None = None) -> SxError:
    """E-SHAPE-005."""
    return failure(E_SHAPE_005, f"{name}: {message}", operands, fix=fix)


def per_axis(name: str, what: str, value: Any, count: int, low: int = 1) -> Shape:
    """An integer for every spatial axis, or a list of one for each."""
    if isinstance(value, int):
        return (integer(name, what, value, low),) * count
    items = items_of(name, what, value)
    if len(items) != count:
        raise bad(name, what, value, f"an integer or a list of {count}")
    return tuple([integer(name, what, item, low) for item in items])


def trailing_keywords(
    name: str, rest: tuple[Any, ...], allowed: tuple[str, ...]
) -> tuple[list[Any], dict[str, Any]]:
    """Split `rest` of a function with both optional and keyword arguments where the first
    keyword stands: (the positional ones, {key: value})."""
    at = next((i for i, v in enumerate(rest) if _is_keyword(v)), len(rest))
    pairs = rest[at:]
    found: dict[str, Any] = {}
    for key, value in _pairs(name, pairs, allowed):
        found.setdefault(key, value)
    return list(rest[:at]), found


def _is_keyword(value: Any) -> bool:
    return isinstance(value, Symbol) and value.module is KEYWORD


def _pairs(
    name: str, pairs: tuple[Any, ...], allowed: tuple[str, ...]
) -> Iterator[tuple[str, Any]]:
    if len(pairs) % 2:
        raise failure(E_OP_001, f"{name}: {brief(pairs[-1])} has no value")
    listed = [f":{key}" for key in allowed]
    for at in range(0, len(pairs), 2):
        key = pairs[at]
        if not _is_keyword(key) or key.name not in allowed:
            said = brief(key)
            raise failure(
                E_OP_001,
                f"{name} has no keyword {said}",
                fix=did_you_mean(said, listed) or "its keywords are " + " ".join(listed),
            )
        yield key.name, pairs[at + 1]
