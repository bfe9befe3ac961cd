"""Subscripts of `at`, `set-at` and `add-at`, read against a shape.

An integer takes one element of an axis and removes it; `:all` keeps an axis; `(slice a b [step])`
takes a range, nil for an open end, negative bounds from the end, clipped as in NumPy; `:new` puts
an axis of extent 1; `:rest` stands for as many `:all` as are missing; an integer tensor takes the
elements it names. Several integer tensors are broadcast together, as in NumPy.
"""

from __future__ import annotations

from typing import Any

from sexpgpu.diagnostics.codes.tensor import E_DTYPE_001, E_OP_001, E_SHAPE_005, E_SHAPE_006
from sexpgpu.diagnostics.suggest import did_you_mean
from sexpgpu.ir.types import INTEGERS
from sexpgpu.lisp.values import KEYWORD, NIL, Foreign, Symbol
from sexpgpu.reader.printer import brief
from sexpgpu.trace.arguments import bad, integer
from sexpgpu.trace.declare import tensor_function
from sexpgpu.trace.errors import failure
from sexpgpu.trace.tensor import Tensor, is_tensor, resolve

WORDS = ("all", "new", "rest")


class Slice(Foreign):
    """A range of an axis: what `(slice start stop [step])` gives. None: open."""

    __slots__ = ("start", "step", "stop")

    lisp_type = "slice"

    def __init__(self, start: int | None, stop: int | None, step: int) -> None:
        self.start = start
        self.stop = stop
        self.step = step

    def lisp_print(self) -> str:
        ends = [NIL if end is None else end for end in (self.start, self.stop)]
        return f"(slice {ends[0]} {ends[1]} {self.step})"

    def over(self, extent: int) -> range:
        """The indices it takes of an axis of that extent."""
        return range(*slice(self.start, self.stop, self.step).indices(extent))


@tensor_function("slice", "(start stop &optional step)", outside=True)
def slice_function(start: Any, stop: Any, step: Any = 1) -> Slice:
    """A range for `at`, `set-at` and `add-at`: from start up to but without stop, every step-th.
    nil is an open end; negative bounds count from the end; a negative step goes backwards."""
    ends = [None if e is NIL else integer("slice", "a bound", e) for e in (start, stop)]
    by = 1 if step is NIL else integer("slice", "the step", step)
    if by == 0:
        raise bad("slice", "the step", step, "an integer other than 0")
    return Slice(ends[0], ends[1], by)


class Subscript:
    """One subscript that was read.

    kind    "index" (one element, the axis goes), "range", "new", "tensor"
    axis    the axis of x it stands at (of "new": before which it stands)
    range   the indices taken, of "index" and "range"
    tensor  of "tensor"
    """

    __slots__ = ("axis", "kind", "range", "tensor")

    def __init__(
        self, kind: str, axis: int, range: range | None = None, tensor: Tensor | None = None
    ) -> None:
        self.kind = kind
        self.axis = axis
        self.range = range
        self.tensor = tensor


def read(name: str, x: Tensor, specs: tuple[Any, ...]) -> list[Subscript]:
    """The subscripts of x, one for each axis and each `:new`, in order."""
    shape = x.type.shape
    used = sum(1 for spec in specs if not (_is_word(spec, "new") or _is_word(spec, "rest")))
    rests = sum(1 for spec in specs if _is_word(spec, "rest"))
    if rests > 1:
        raise failure(E_OP_001, f"{name}: :rest stands at most once", [("x", x)])
    if used > len(shape):
        raise failure(
            E_SHAPE_005,
            f"{name}: {used} subscripts for a tensor of rank {len(shape)}",
            [("x", x)],
        )
    found: list[Subscript] = []
    axis = 0

    def keep(count: int) -> None:
        nonlocal axis
        for _ in range(count):
            found.append(Subscript("range", axis, range(shape[axis])))
            axis += 1

    for spec in specs:
        if _is_word(spec, "rest"):
            keep(len(shape) - used)
        elif _is_word(spec, "new"):
            found.append(Subscript("new", axis))
        else:
            found.append(_read_one(name, x, spec, axis))
            axis += 1
    keep(len(shape) - axis)
    return found


def _is_word(spec: Any, word: str) -> bool:
    return isinstance(spec, Symbol) and spec.module is KEYWORD and spec.name == word


def _read_one(name: str, x: Tensor, spec: Any, axis: int) -> Subscript:
    extent = x.type.shape[axis]
    if isinstance(spec, int):
        if not -extent <= spec < extent:
            raise failure(
                E_SHAPE_006,
                f"{name}: index {spec} of axis {axis}, whose extent is {extent}",
                [("x", x)],
                fix=f"the indices are 0 to {extent - 1} (or -{extent} to -1)" if extent else None,
            )
        at = int(spec) % extent
        return Subscript("index", axis, range(at, at + 1))
    if isinstance(spec, Slice):
        return Subscript("range", axis, spec.over(extent))
    if _is_word(spec, "all"):
        return Subscript("range", axis, range(extent))
    if is_tensor(spec):
        ids = resolve(spec)
        if ids.type.dtype not in INTEGERS:
            fix = "cast the ids to :i32"
            if ids.type.dtype == "bool":
                fix = "the number of true elements is not known here: choose with (where mask a b)"
            raise failure(
                E_DTYPE_001,
                f"{name}: a subscript is an integer tensor, not {ids.type.dtype}",
                [("x", x), ("the subscript", ids)],
                fix=fix,
            )
        return Subscript("tensor", axis, None, ids)
    hint = None
    if isinstance(spec, Symbol):
        hint = did_you_mean(f":{spec.name}", [f":{w}" for w in WORDS])
    raise failure(
        E_OP_001,
        f"{name}: the subscript {brief(spec)} is none of an integer, :all, (slice a b), :new, "
        ":rest and an integer tensor",
        [("x", x)],
        fix=hint,
    )
