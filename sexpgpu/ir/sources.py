"""The form of a loader's source in a document: what reading the data relies on."""

from __future__ import annotations

import math
from typing import Any

from sexpgpu.diagnostics.codes.tensor import E_IR_003
from sexpgpu.ir.graph import kind_of
from sexpgpu.ir.serial import expect, refuse
from sexpgpu.ir.types import DTYPES, FLOATS, GREATEST, INTEGERS, integer_range

DISTRIBUTIONS = ("normal", "uniform", "integers")


def check_source(source: Any, where: str) -> None:
    """E-IR-003 for records in the document (inline, synthetic) that are not what they say. Files
    are checked when they are opened."""
    kind = expect(source, dict, where).get("kind")
    if kind not in ("inline", "synthetic"):
        path = source.get("path")
        paths: list[Any] = path if isinstance(path, list) else [path]  # pyright: ignore[reportUnknownVariableType]
        if not paths or not all(isinstance(p, str) for p in paths):
            refuse(E_IR_003, f"{where}/path is no path or list of paths")
        return
    count = _natural(source.get("count"), f"{where}/count")
    columns = expect(source.get("columns"), dict, f"{where}/columns")
    for name, column in columns.items():
        at = f"{where}/columns/{name}"
        if expect(column, dict, at).get("dtype") not in DTYPES:
            refuse(E_IR_003, f"{at}/dtype is none of {' '.join(DTYPES)}")
        rows = expect(column.get("shape"), list, f"{at}/shape")
        shape = [_natural(n, f"{at}/shape") for n in rows]
        if kind == "inline":
            values = expect(column.get("values"), list, f"{at}/values")
            if len(values) != count * math.prod(shape) or not all(map(_is_number, values)):
                refuse(E_IR_003, f"{at}/values are not {count} records of shape {shape}")
            if not all(_holds(column["dtype"], value) for value in values):
                refuse(E_IR_003, f"{at}/values do not fit {column['dtype']}")
        else:
            drawn = expect(column.get("distribution"), list, f"{at}/distribution")
            if (
                len(drawn) != 3
                or drawn[0] not in DISTRIBUTIONS
                or not all(map(_is_number, drawn[1:]))
            ):
                refuse(E_IR_003, f"{at}/distribution is no distribution with two numbers")
            if not _can_be_drawn(column["dtype"], *drawn):
                refuse(E_IR_003, f"{at}/distribution gives no {column['dtype']}")


def _is_number(value: Any) -> bool:
    return kind_of(value) in (int, float, bool)


def _holds(dtype: str, value: Any) -> bool:
    """Whether a dtype has a number, or one that is near."""
    if dtype in FLOATS:
        return -GREATEST[dtype] <= value <= GREATEST[dtype]
    if dtype == "bool":
        return value in (0, 1)
    least, most = integer_range(dtype)
    return kind_of(value) is not float and least <= value <= most


def _can_be_drawn(dtype: str, kind: str, low: Any, high: Any) -> bool:
    """Whether a distribution's numbers make sense, and are numbers of the dtype."""
    if kind != "integers":
        return (
            dtype in FLOATS
            and _holds(dtype, low)
            and _holds(dtype, high)
            and (low <= high if kind == "uniform" else high >= 0)
        )
    whole = kind_of(low) is int and kind_of(high) is int and low < high
    return dtype in INTEGERS and whole and _holds(dtype, low) and _holds(dtype, high - 1)


def _natural(value: Any, where: str) -> int:
    if kind_of(value) is not int or not 0 <= value < 1 << 40:
        refuse(E_IR_003, f"{where} is not an integer from 0")
    return value
