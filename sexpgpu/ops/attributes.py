"""The kinds of attribute an op may have. Attributes are immutable and hashable throughout.

| kind | Python value |
| --- | --- |
| int, axis | int (an axis is at least 0) |
| float | float |
| number | int, float or bool |
| bool, str | bool, str |
| dtype | one of DTYPES |
| ints, sizes | tuple of int (sizes: each at least 0) |
| axes | strictly increasing tuple of int, each at least 0 |
| floats, numbers | tuple of float; of numbers |
| pairs | tuple of (int, int) |
| graph | Graph |

A trailing `?` allows None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from sexpgpu.ir.graph import Graph, kind_of
from sexpgpu.ir.types import DTYPES

Checker: TypeAlias = Callable[[Any], bool]

_DTYPES = frozenset(DTYPES)


def _is_int(value: Any) -> bool:
    return type(value) is int


def _is_axis(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_number(value: Any) -> bool:
    return type(value) is int or type(value) is float or type(value) is bool


def _is_dtype(value: Any) -> bool:
    return type(value) is str and value in _DTYPES


def _is_ints(value: Any) -> bool:
    if kind_of(value) is not tuple:
        return False
    items: tuple[Any, ...] = value
    for item in items:  # noqa: SIM110 (a loop is faster, and this runs for every node)
        if type(item) is not int:
            return False
    return True


def _is_sizes(value: Any) -> bool:
    if kind_of(value) is not tuple:
        return False
    items: tuple[Any, ...] = value
    for item in items:  # noqa: SIM110
        if type(item) is not int or item < 0:
            return False
    return True


def _is_axes(value: Any) -> bool:
    if kind_of(value) is not tuple:
        return False
    last = -1
    items: tuple[Any, ...] = value
    for item in items:
        if type(item) is not int or item <= last:
            return False
        last = item
    return True


def _is_float(value: Any) -> bool:
    return type(value) is float


def _all(value: Any, check: Checker) -> bool:
    if kind_of(value) is not tuple:
        return False
    items: tuple[Any, ...] = value
    return all(map(check, items))


def _is_numbers(value: Any) -> bool:
    return _all(value, _is_number)


def _is_floats(value: Any) -> bool:
    return _all(value, _is_float)


def _is_pairs(value: Any) -> bool:
    return _all(value, lambda item: _is_ints(item) and len(item) == 2)


KINDS: dict[str, tuple[Checker, str]] = {
    "int": (_is_int, "an integer"),
    "axis": (_is_axis, "an axis, counted from 0"),
    "float": (_is_float, "a float"),
    "number": (_is_number, "a number"),
    "bool": (lambda value: type(value) is bool, "true or false"),
    "str": (lambda value: type(value) is str, "a string"),
    "dtype": (_is_dtype, "a dtype"),
    "ints": (_is_ints, "a list of integers"),
    "sizes": (_is_sizes, "a list of sizes"),
    "axes": (_is_axes, "a list of axes in increasing order"),
    "floats": (_is_floats, "a list of floats"),
    "numbers": (_is_numbers, "a list of numbers"),
    "pairs": (_is_pairs, "a list of pairs of integers"),
    "graph": (lambda value: type(value) is Graph, "a graph"),
}
"""Kind -> its test, and what a message calls it."""


def checker(kind: str) -> Checker:
    """The test of a kind; a trailing `?` allows None."""
    if kind.endswith("?"):
        inner = KINDS[kind[:-1]][0]
        return lambda value: value is None or inner(value)
    return KINDS[kind][0]


def described(kind: str) -> str:
    """What a message calls a kind."""
    if kind.endswith("?"):
        return f"{KINDS[kind[:-1]][1]}, or none"
    return KINDS[kind][1]
