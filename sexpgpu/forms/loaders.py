"""defloader: a source cut into batches, in one stage or several."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from sexpgpu.diagnostics.codes import data as data_codes
from sexpgpu.diagnostics.codes import run as run_codes
from sexpgpu.diagnostics.suggest import did_you_mean
from sexpgpu.forms.experiment import current
from sexpgpu.forms.parse import (
    LIST,
    at_place,
    call,
    check_name,
    here,
    is_keyword,
    is_list,
    is_name,
    keyword_forms,
    placed,
    shape_form,
    shape_of,
    value_form,
)
from sexpgpu.forms.sources import DataSource, dtype_of
from sexpgpu.ir.document import STREAM_START, Field, Loader, Stage
from sexpgpu.ir.types import FLOATS, INTEGERS, integer_range
from sexpgpu.lisp.hostforms import Context, host_macro, quoted
from sexpgpu.lisp.printer import prin1_text as print_value
from sexpgpu.lisp.spans import car_span, span_of
from sexpgpu.lisp.values import NIL, TENSOR, Cons, Symbol, lisp_list, python_list
from sexpgpu.source import Span

KEYS = ("source", "fields", "batch", "shuffle", "drop-last", "microbatches", "streams")
ONLY = "main"
"""The name of the stage of a loader that has but one."""


class LoaderForm:
    """A declared loader, with the place of its name."""

    __slots__ = ("loader", "span")

    def __init__(self, loader: Loader, span: Span | None) -> None:
        self.loader = loader
        self.span = span


class Settings:
    """The values of a loader's keys, or of a stage's, each with its place."""

    __slots__ = ("given",)

    def __init__(self, given: dict[str, tuple[Any, Span | None]]) -> None:
        self.given = given

    def value(self, key: str) -> tuple[Any, Span | None]:
        return self.given.get(key, (NIL, None))


@host_macro(
    "defloader",
    "(name &key source fields batch shuffle drop-last microbatches streams stages)",
    layer=TENSOR,
    top_level=True,
)
def defloader(form: Any, context: Context) -> Any:
    """Declare a loader: a source cut into batches.

    :source    where records come from: (npz …), (text …), (inline …), (synthetic …)
    :fields    ((name dtype shape &key range)…): checked against the source; may widen or narrow
               integers and convert to a float
    :batch     records a batch
    :shuffle   t: a new order each epoch, a pure function of the seed and the epoch
    :drop-last t (default): a training epoch's last partial batch is dropped; nil: carried over
    :microbatches  in place of defrun's
    :streams   t: row i of a batch goes on where row i of the one before ended; a field
               stream-start, :bool, is true in the first
    :stages    (name (:key value…) name (…)…): stages that a curriculum leads through; what is
               given outside is the default of each"""
    if not isinstance(form.cdr, Cons) or not is_name(form.cdr.car):
        raise context.error(
            run_codes.E_RUN_005,
            "defloader: a name was expected",
            fix="write (defloader name :source …)",
        )
    name, place = form.cdr.car, car_span(form.cdr) or span_of(form)
    what = f"defloader {name.name}"
    check_name(name.name, "defloader", context, place)
    current().begun.add(("loader", name.name))
    keys = keyword_forms(form.cdr.cdr, (*KEYS, "stages"), context, what)
    stages: list[tuple[str, Span | None, dict[str, tuple[Any, Any]]]] = [(ONLY, None, {})]
    if "stages" in keys:
        stages = _stages(what, *keys.pop("stages"), context)
    for stage, at, own in stages:
        for needed in ("source", "batch"):
            if needed not in keys and needed not in own:
                where = f"{what}, stage {stage}" if at is not None else what
                raise context.error(run_codes.E_RUN_005, f"{where}: :{needed} is missing", at=at)
    forms: list[Any] = []
    for stage, at, own in stages:
        forms += [quoted(stage), quoted(at), _settings_form(own, context)]
    return call(_declare, quoted(name.name), quoted(place), _settings_form(keys, context), *forms)


def _stages(
    what: str, form: Any, place: Span | None, context: Context
) -> list[tuple[str, Span | None, dict[str, tuple[Any, Any]]]]:
    """Name, place and keys of each stage of `(name (:key value…)…)`."""
    parts = python_list(form) if is_list(form) else []
    if not parts or len(parts) % 2:
        raise context.error(
            run_codes.E_RUN_005,
            f"{what}: :stages takes names, each with its keys",
            at=place,
            fix="write :stages (short (:batch 8 …) long (:batch 4 …))",
        )
    found: list[tuple[str, Span | None, dict[str, tuple[Any, Any]]]] = []
    at = form
    while at is not NIL:
        name, where = at.car, car_span(at) or place
        own = at.cdr.car
        if not isinstance(name, Symbol) or (name.constant and not is_keyword(name)):
            raise context.error(
                run_codes.E_RUN_005,
                f"{what}: the name of a stage was expected, not {print_value(name)}",
                at=where,
            )
        if not is_list(own):
            raise context.error(
                run_codes.E_RUN_005,
                f"{what}: the keys of the stage {name.name} are a list, not {print_value(own)}",
                at=where,
            )
        check_name(name.name, f"{what}, a stage", context, where)
        if name.name in [stage for stage, _, _ in found]:
            raise context.error(
                run_codes.E_RUN_003, f"{what}: two stages are called {name.name}", at=where
            )
        keys = keyword_forms(own, KEYS, context, f"{what}, stage {name.name}")
        found.append((name.name, where, keys))
        at = at.cdr.cdr
    return found


def _settings_form(keys: dict[str, tuple[Any, Any]], context: Context) -> Any:
    """The form of the `Settings` of some keys."""
    forms: list[Any] = []
    for key, (given, where) in keys.items():
        if key == "fields":
            forms.append(_fields_form(given, where, context))
        else:
            forms.append(value_form(given, where))
    places = {key: where for key, (_, where) in keys.items()}
    return call(_settings, quoted(places), *forms)


def _settings(places: dict[str, Span | None], *values: Any) -> Settings:
    return Settings({k: (v, at) for (k, at), v in zip(places.items(), values, strict=True)})


def _fields_form(form: Any, place: Span | None, context: Context) -> Any:
    if not is_list(form):
        raise context.error(run_codes.E_RUN_005, ":fields takes ((name dtype shape)…)", at=place)
    fields: list[Any] = []
    for field in python_list(form):
        parts = python_list(field) if is_list(field) else []
        if len(parts) < 3 or not is_name(parts[0]):
            raise context.error(
                run_codes.E_RUN_005,
                "a field is (name dtype shape &key range)",
                at=span_of(field) or place,
            )
        keys = keyword_forms(field.cdr.cdr.cdr, ("range",), context, "a field")
        bounds, _ = keys.get("range", (NIL, None))
        made = call(_field, quoted(parts[0].name), parts[1], shape_form(parts[2]), bounds)
        fields.append(lisp_list([LIST, quoted(span_of(field) or place), placed(made, field)]))
    return lisp_list([LIST, *fields])


def _field(name: str, dtype: Any, shape: Any, bounds: Any) -> Field:
    made = dtype_of(dtype, f"the field {name}")
    extents = shape_of(shape, f"the field {name}")
    return Field(name=name, dtype=made, shape=extents, range=_range(name, bounds, made))


def _declare(name: str, place: Span | None, defaults: Settings, *stages: Any) -> Any:
    experiment = current()
    experiment.declare("loader", name, place)
    made: list[Stage] = []
    for stage, at, own in zip(stages[::3], stages[1::3], stages[2::3], strict=True):
        what = f"defloader {name}" if at is None else f"defloader {name}, stage {stage}"
        settings = Settings({**defaults.given, **own.given})
        made.append(_stage(what, stage, at or place, settings, experiment.base))
    experiment.loaders[name] = LoaderForm(Loader(name=name, stages=made), place)
    return NIL


def _stage(what: str, name: str, place: Span | None, settings: Settings, base: str) -> Stage:
    source, source_at = settings.value("source")
    if not isinstance(source, DataSource):
        raise at_place(
            run_codes.E_RUN_006,
            f"{what}: :source takes a source, not {print_value(source)}",
            source_at or place,
            "sources are made by npz, text, inline and synthetic",
        )
    fields, fields_at = settings.value("fields")
    declared = _fields(what, source, fields, fields_at or place)
    drop_last, _ = settings.given.get("drop-last", (True, None))
    batch = _count(what, "batch", settings, place)
    assert batch is not None
    return Stage(
        name=name,
        source=source.description,
        base=base,
        fields=declared,
        batch=batch,
        shuffle=settings.value("shuffle")[0] is not NIL,
        drop_last=drop_last is not NIL,
        microbatches=_count(what, "microbatches", settings, place),
        records=source.count,
        streams=_streams(what, settings, declared),
    )


def _streams(what: str, settings: Settings, fields: list[Field]) -> bool:
    """Whether the loader gives streams; E-DATA-006 where it cannot."""
    value, at = settings.value("streams")
    if value is NIL:
        return False
    problem: str | None = None
    if settings.value("shuffle")[0] is not NIL:
        problem = "streams are in the order of the records, which :shuffle changes"
    elif settings.given.get("drop-last", (True, None))[0] is NIL:
        problem = "streams end together, so the last partial batch cannot be carried over"
    elif any(field.name == STREAM_START for field in fields):
        problem = f"the source has a field {STREAM_START}, which :streams makes"
    if problem is not None:
        raise at_place(data_codes.E_DATA_006, f"{what}: {problem}", at)
    return True


def _count(what: str, key: str, settings: Settings, place: Span | None) -> int | None:
    """A positive integer; None for microbatches that are not given."""
    value, at = settings.value(key)
    if value is NIL and key == "microbatches":
        return None
    if not isinstance(value, int) or value < 1:
        raise at_place(
            run_codes.E_RUN_006,
            f"{what}: :{key} takes a positive integer, not {print_value(value)}",
            at or place,
        )
    return int(value)


def _fields(what: str, source: DataSource, fields: Any, place: Span | None) -> list[Field]:
    columns = source.columns
    if fields is NIL:
        if columns is None:
            raise at_place(
                data_codes.E_DATA_003,
                f"{what}: a remote source needs :fields, since its headers are not read "
                "before the run",
                place,
                "add :fields ((name dtype shape)…)",
            )
        return [Field(name=n, dtype=d, shape=s, range=None) for n, (d, s) in columns.items()]
    result: list[Field] = []
    for item in python_list(fields):
        place, declared = python_list(item)
        field, dtype, shape = declared.name, declared.dtype, declared.shape
        if any(field == other.name for other in result):
            raise at_place(
                data_codes.E_DATA_005, f"{what}: the field {field} is given twice", place
            )
        if columns is not None:
            if field not in columns:
                raise at_place(
                    data_codes.E_DATA_002,
                    f"{what}: the source has no field {field}",
                    place,
                    did_you_mean(field, columns) or f"it has {', '.join(columns)}",
                )
            have_dtype, have_shape = columns[field]
            if have_shape != shape:
                raise at_place(
                    data_codes.E_DATA_003,
                    f"the field {field} is declared with shape {_shown(shape)}; "
                    f"the data has {_shown(have_shape)}",
                    place,
                )
            if not _convertible(have_dtype, dtype):
                raise at_place(
                    data_codes.E_DATA_003,
                    f"the field {field} is declared {dtype}; the data is {have_dtype}, which does "
                    "not convert without loss of meaning",
                    place,
                )
        result.append(declared)
    return result


def _shown(shape: Sequence[int]) -> str:
    return f"({' '.join(map(str, shape))})"


def _convertible(have: str, want: str) -> bool:
    """Integers convert among each other (the range is checked on reading) and to floats; floats
    to floats; booleans to anything."""
    return (
        have == want
        or have == "bool"
        or (have in INTEGERS and want != "bool")
        or (have in FLOATS and want in FLOATS)
    )


def _range(field: str, bounds: Any, dtype: str) -> tuple[float, float] | None:
    if bounds is NIL:
        return None
    items = python_list(bounds) if is_list(bounds) else []
    if len(items) != 2 or not all(isinstance(n, int | float | Fraction) for n in items):
        raise here(run_codes.E_RUN_006, f"the field {field}: :range takes (list low high)")
    low, high = items
    if low > high:
        raise here(run_codes.E_RUN_006, f"the field {field}: the range's low is above its high")
    if dtype in INTEGERS:
        least, most = integer_range(dtype)
        if low < least or high > most:
            raise here(
                run_codes.E_RUN_006,
                f"the field {field}: the range does not fit {dtype} ({least} to {most})",
            )
        return int(low), int(high)
    return float(low), float(high)
