"""The sources of data: where a loader's records come from, and what their headers tell."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from sexpgpu.diagnostics.codes import data as codes
from sexpgpu.diagnostics.suggest import did_you_mean
from sexpgpu.forms.experiment import current
from sexpgpu.forms.headers import HeaderError, expand, file_size, npz_columns
from sexpgpu.forms.parse import LIST, call, here, is_keyword, is_list, is_name, shape_form, shape_of
from sexpgpu.ir.types import DTYPES, FLOATS, GREATEST, INTEGERS, integer_range
from sexpgpu.lisp.hostforms import Context, host_macro, quoted
from sexpgpu.lisp.printer import prin1_text as print_value
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.spans import car_span, span_of
from sexpgpu.lisp.values import (
    NIL,
    TENSOR,
    Cons,
    Foreign,
    String,
    Symbol,
    Vector,
    lisp_list,
    python_list,
)
from sexpgpu.source import Span

Column = tuple[str, tuple[int, ...]]
REMOTE = "://"


class DataSource(Foreign):
    """A source: its JSON description, and what its headers tell.

    columns  {field: (dtype, shape)} or None when it cannot be known before the run
    count    number of records, or None
    """

    __slots__ = ("columns", "count", "description")
    lisp_type = "source"

    def __init__(
        self, description: dict[str, Any], columns: dict[str, Column] | None, count: int | None
    ) -> None:
        self.description = description
        self.columns = columns
        self.count = count

    def lisp_print(self) -> str:
        return f"#<source {self.description['kind']}>"


def _paths(path: Any, source: str) -> list[str]:
    if isinstance(path, String) and path.text:
        return [path.text]
    if (
        is_list(path)
        and path is not NIL
        and all(isinstance(p, String) and p.text for p in python_list(path))
    ):
        return [p.text for p in python_list(path)]
    raise here(
        codes.E_DATA_005,
        f"{source}: a path, or a list of paths, was expected, not {print_value(path)}",
    )


def _files(paths: list[str]) -> list[str] | None:
    """The local files of some paths; None when one is remote."""
    if any(REMOTE in p for p in paths):
        return None
    found: list[str] = []
    for path in paths:
        try:
            found.extend(expand(path, current().base))
        except HeaderError as error:
            raise here(codes.E_DATA_001, str(error), f"paths start from {current().base}") from None
    return found


@builtin("npz", "(path)", layer=TENSOR, chapter="sources")
def npz(path: Any) -> DataSource:
    """A source of the arrays of npz files: each array is a field, its first axis counts records.

    PATH is a path, a list of paths, or a glob; several files are concatenated in sorted order."""
    paths = _paths(path, "npz")
    description = {"kind": "npz", "path": paths}
    files = _files(paths)
    if files is None:
        return DataSource(description, None, None)
    columns: dict[str, Column] | None = None
    count = 0
    for file in files:
        try:
            found, n = npz_columns(file)
        except HeaderError as error:
            raise here(codes.E_DATA_001, str(error)) from None
        if columns is not None and found != columns:
            raise here(codes.E_DATA_003, f"{file} has other arrays than {files[0]}")
        columns, count = found, count + n
    return DataSource(description, columns, count)


@builtin("text", "(path &key window stride)", layer=TENSOR, chapter="sources")
def text(path: Any, window: Any = NIL, stride: Any = NIL) -> DataSource:
    """A source of windows of a file's bytes: field `tokens`, :u8, WINDOW long.

    A window starts every STRIDE bytes (default: WINDOW, so that windows do not overlap)."""
    paths = _paths(path, "text")
    if not isinstance(window, int) or window < 1:
        raise here(codes.E_DATA_005, "text: :window takes a positive number of bytes")
    step = window if stride is NIL else stride
    if not isinstance(step, int) or step < 1:
        raise here(codes.E_DATA_005, "text: :stride takes a positive number of bytes")
    description = {"kind": "text", "path": paths, "window": int(window), "stride": int(step)}
    columns: dict[str, Column] = {"tokens": ("u8", (int(window),))}
    files = _files(paths)
    if files is None:
        return DataSource(description, columns, None)
    count = 0
    for file in files:
        try:
            size = file_size(file)
        except HeaderError as error:
            raise here(codes.E_DATA_001, str(error)) from None
        if size < window:
            raise here(
                codes.E_DATA_004,
                f"{file} has {size} bytes, fewer than one window of {window}",
            )
        count += (size - window) // step + 1
    return DataSource(description, columns, count)


@host_macro("inline", "((name record…)…)", layer=TENSOR)
def inline(form: Any, context: Context) -> Any:
    """A source of records written in the file: (inline (x (0.0) (1.0)) (y 1 2)).

    A record is a number or a (nested) list of numbers; integers make an :i32 field, otherwise
    :f32."""
    columns: dict[str, tuple[list[Any], Span | None]] = {}
    at = form.cdr
    while isinstance(at, Cons):
        column, place = at.car, car_span(at)
        if not isinstance(column, Cons) or not is_name(column.car) or not is_list(column.cdr):
            raise context.error(
                codes.E_DATA_005, "inline: (name record…) was expected", at=place or span_of(form)
            )
        if column.car.name in columns:
            raise context.error(
                codes.E_DATA_005, f"inline: {column.car.name} is given twice", at=place
            )
        columns[column.car.name] = (python_list(column.cdr), place)
        at = at.cdr
    if not columns:
        raise context.error(codes.E_DATA_005, "inline: at least one (name record…) was expected")
    counts = {name: len(records) for name, (records, _) in columns.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{k} has {n}" for k, n in counts.items())
        raise context.error(codes.E_DATA_005, f"inline: the fields have different counts: {listed}")
    described: dict[str, Any] = {}
    known: dict[str, Column] = {}
    for name, (records, place) in columns.items():
        if not records:
            raise context.error(codes.E_DATA_005, f"inline: {name} has no records", at=place)
        shape = _literal_shape(records[0])
        values: list[Any] = []
        for record in records:
            if shape is None or _literal_shape(record) != shape or not _flatten(record, values):
                raise context.error(
                    codes.E_DATA_005,
                    f"inline: the records of {name} are not all numbers, or lists of numbers, of "
                    "one shape",
                    at=place,
                )
        dtype = "i32" if all(isinstance(v, int) for v in values) else "f32"
        assert shape is not None
        least, most = (
            integer_range("i32") if dtype == "i32" else (-GREATEST["f32"], GREATEST["f32"])
        )
        for value in values:
            if not least <= value <= most:
                raise context.error(
                    codes.E_DATA_005,
                    f"inline: {print_value(value)} of {name} does not fit {dtype}",
                    at=place,
                )
        numbers = [float(v) if dtype == "f32" else v for v in values]
        described[name] = {"dtype": dtype, "shape": list(shape), "values": numbers}
        known[name] = (dtype, shape)
    count = next(iter(counts.values()))
    source = DataSource({"kind": "inline", "columns": described, "count": count}, known, count)
    return quoted(source)


def _literal_shape(record: Any) -> tuple[int, ...] | None:
    if isinstance(record, Vector):
        record = lisp_list(record.items)
    if isinstance(record, Cons) and is_list(record):
        items = python_list(record)
        inner = _literal_shape(items[0])
        return None if inner is None else (len(items), *inner)
    return () if isinstance(record, int | float | Fraction) else None


def _flatten(record: Any, into: list[Any]) -> bool:
    """Append a record's numbers in row-major order; False when it is ragged or holds others."""
    if isinstance(record, Vector):
        record = lisp_list(record.items)
    if isinstance(record, Cons):
        items = python_list(record)
        if len({_literal_shape(i) for i in items}) > 1:
            return False
        return all(_flatten(item, into) for item in items)
    if not isinstance(record, int | float | Fraction):
        return False
    into.append(float(record) if isinstance(record, Fraction) else record)
    return True


@host_macro("synthetic", "(n (name dtype shape distribution)…)", layer=TENSOR)
def synthetic(form: Any, context: Context) -> Any:
    """A source of N seeded random records.

    A distribution is (normal [mean std]), (uniform [low high]) or (integers low high), HIGH
    excluded."""
    if not isinstance(form.cdr, Cons):
        raise context.error(codes.E_DATA_005, "synthetic: a number of records was expected")
    columns: list[Any] = []
    for column in python_list(form.cdr.cdr) if is_list(form.cdr.cdr) else []:
        parts = python_list(column) if is_list(column) else []
        if len(parts) != 4 or not is_name(parts[0]) or not is_list(parts[3]) or parts[3] is NIL:
            raise context.error(
                codes.E_DATA_005,
                "synthetic: (name dtype shape (distribution number…)) was expected",
                at=column,
            )
        kind, *numbers = python_list(parts[3])
        columns.append(
            lisp_list(
                [LIST, quoted(parts[0]), parts[1], shape_form(parts[2]), quoted(kind), *numbers]
            )
        )
    return call(_synthetic, form.cdr.car, *columns)


_MOST_RECORDS = 1 << 32  # a record's number is a 32-bit word of what it is drawn from
_DISTRIBUTIONS = {"normal": (0.0, 1.0), "uniform": (0.0, 1.0), "integers": None}


def _synthetic(count: Any, *columns: Any) -> DataSource:
    if not isinstance(count, int) or not 1 <= count <= _MOST_RECORDS:
        raise here(
            codes.E_DATA_005,
            f"synthetic: a positive number of records, at most 2^32, not {print_value(count)}",
        )
    described: dict[str, Any] = {}
    known: dict[str, Column] = {}
    for column in columns:
        name, dtype, shape, kind, *numbers = python_list(column)
        made = dtype_of(dtype, f"synthetic: {name.name}")
        extents = shape_of(shape, f"synthetic: {name.name}")
        word = kind.name if isinstance(kind, Symbol) else ""
        if word not in _DISTRIBUTIONS:
            raise here(
                codes.E_DATA_005,
                f"synthetic: no distribution is called {print_value(kind)}",
                "the distributions are normal, uniform and integers",
            )
        default = _DISTRIBUTIONS[word]
        given = numbers or (list(default) if default else [])
        if len(given) != 2 or not all(isinstance(n, int | float | Fraction) for n in given):
            raise here(codes.E_DATA_005, f"synthetic: {word} takes two numbers")
        if made not in (INTEGERS if word == "integers" else FLOATS):
            raise here(
                codes.E_DATA_005,
                f"synthetic: {name.name} is {made}, which {word} does not give",
                "use integers for integer fields, normal or uniform for floats",
            )
        if word == "integers" and not (
            all(isinstance(n, int) for n in given) and given[0] < given[1]
        ):
            raise here(codes.E_DATA_005, "synthetic: integers takes a low and a greater high")
        _check_distribution(name.name, word, given, made)
        if name.name in known:
            raise here(codes.E_DATA_005, f"synthetic: {name.name} is given twice")
        bounds = [int(n) if word == "integers" else float(n) for n in given]
        described[name.name] = {
            "dtype": made,
            "shape": list(extents),
            "distribution": [word, *bounds],
        }
        known[name.name] = (made, extents)
    if not known:
        raise here(codes.E_DATA_005, "synthetic: at least one field was expected")
    return DataSource(
        {"kind": "synthetic", "columns": described, "count": int(count)}, known, int(count)
    )


def _check_distribution(name: str, word: str, given: Sequence[Any], dtype: str) -> None:
    """Refuse what no sample of the dtype can follow."""
    low, high = given
    if word == "normal" and high < 0:
        raise here(codes.E_DATA_005, f"synthetic: {name}: a deviation is from 0 up")
    if word == "uniform" and low > high:
        raise here(codes.E_DATA_005, f"synthetic: {name}: uniform's low is above its high")
    if word == "integers":
        least, most = integer_range(dtype)
        if low < least or high - 1 > most:
            raise here(
                codes.E_DATA_005,
                f"synthetic: {name}: the integers do not fit {dtype} ({least} to {most})",
            )
    elif max(abs(low), abs(high)) > GREATEST[dtype]:
        raise here(codes.E_DATA_005, f"synthetic: {name}: the numbers do not fit {dtype}")


def dtype_of(value: Any, what: str) -> str:
    if is_keyword(value) and value.name in DTYPES:
        return value.name
    raise here(
        codes.E_DATA_005,
        f"{what}: a dtype was expected, not {print_value(value)}",
        did_you_mean(print_value(value), [f":{d}" for d in DTYPES]),
    )
