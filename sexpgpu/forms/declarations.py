"""defknob, defvariant, defsweep: read before the file is evaluated, from its top-level forms."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from sexpgpu.diagnostics.codes import run as codes
from sexpgpu.diagnostics.codes.lisp import E_ARG_004
from sexpgpu.diagnostics.model import Diagnostic, Label, Note, SxError
from sexpgpu.diagnostics.suggest import did_you_mean
from sexpgpu.forms.knobs import (
    Declarations,
    Knob,
    Sweep,
    Variant,
    check_value,
    is_literal,
    knob_error,
    unknown_knob,
)
from sexpgpu.forms.parse import is_keyword, is_list, is_name
from sexpgpu.lisp.hostforms import Context, host_macro, quoted
from sexpgpu.lisp.printer import prin1_text as print_value
from sexpgpu.lisp.spans import car_span, span_of
from sexpgpu.lisp.values import CL, NIL, TENSOR, Cons, String, Symbol, lisp_list, python_list
from sexpgpu.source import Source, Span

KINDS = "a number, string, keyword, t, nil or a list of those"


def scan(forms: Iterable[Any]) -> tuple[Declarations, list[Diagnostic]]:
    """The declarations among a file's top-level forms, and what is wrong with them."""
    found = Declarations()
    problems: list[Diagnostic] = []
    for form in forms:
        if not isinstance(form, Cons) or not isinstance(form.car, Symbol):
            continue
        reader = _READERS.get(form.car.name)
        if reader is not None and form.car.module is TENSOR:
            try:
                if not is_list(form):
                    raise knob_error(
                        E_ARG_004,
                        f"{form.car.name}: the form ends in a dot and an atom",
                        span_of(form),
                    )
                reader(form, found)
            except SxError as error:
                problems.extend(error.diagnostics)
                if isinstance(form.cdr, Cons) and isinstance(form.cdr.car, Symbol):
                    found.broken.add(form.cdr.car.name)
    for variant in found.variants.values():
        try:
            _check_variant(variant, found)
        except SxError as error:
            problems.extend(error.diagnostics)
    return found, problems


def _name(form: Any, what: str) -> tuple[Symbol, Span | None]:
    if not isinstance(form.cdr, Cons) or not is_name(form.cdr.car):
        raise knob_error(
            codes.E_KNOB_001,
            f"{what}: a name was expected",
            span_of(form),
            f"write ({what} name …)",
        )
    return form.cdr.car, car_span(form.cdr) or span_of(form)


def _read_knob(form: Any, found: Declarations) -> None:
    if isinstance(form.cdr, Cons) and isinstance(form.cdr.car, Symbol):
        symbol = form.cdr.car
        if symbol.constant or symbol.special:
            raise knob_error(
                codes.E_KNOB_004,
                f"{symbol.name} is a constant or special variable of the language: no knob's name",
                car_span(form.cdr),
            )
    symbol, place = _name(form, "defknob")
    if symbol.name in found.knobs:
        first = found.knobs[symbol.name].span
        raise knob_error(
            codes.E_KNOB_004,
            f"the knob {symbol.name} is declared twice",
            place,
            notes=[Note("the first is here", first)] if first else (),
        )
    rest = form.cdr.cdr
    if not isinstance(rest, Cons):
        raise knob_error(
            codes.E_KNOB_001, f"the knob {symbol.name} has no default value", span_of(form)
        )
    if not is_literal(rest.car):
        raise knob_error(
            codes.E_KNOB_001,
            f"the default of the knob {symbol.name} is not a literal value",
            car_span(rest) or span_of(form),
            f"write {KINDS}: knobs are read before anything is evaluated",
        )
    knob = Knob(symbol.name, rest.car, place)
    at = rest.cdr
    keys = ("doc", "min", "max", "choices")
    while isinstance(at, Cons):
        key, where = at.car, car_span(at) or span_of(form)
        if not is_keyword(key) or key.name not in keys:
            raise knob_error(
                codes.E_RUN_002,
                f"defknob has no key {print_value(key)}",
                where,
                did_you_mean(print_value(key), [f":{k}" for k in keys]),
            )
        if not isinstance(at.cdr, Cons) or not is_literal(at.cdr.car):
            raise knob_error(codes.E_KNOB_001, f"defknob: :{key.name} takes a literal value", where)
        value = at.cdr.car
        if key.name == "doc":
            if not isinstance(value, String):
                raise knob_error(codes.E_KNOB_001, "defknob: :doc takes a string", where)
            knob.doc = value.text
        elif key.name == "choices":
            if not is_list(value) or value is NIL:
                raise knob_error(
                    codes.E_KNOB_001, "defknob: :choices takes a list of values", where
                )
            knob.choices = python_list(value)
        else:
            if isinstance(value, Symbol | String | Cons):
                raise knob_error(codes.E_KNOB_001, f"defknob: :{key.name} takes a number", where)
            if not isinstance(knob.default, int | float | Fraction):
                raise knob_error(
                    codes.E_KNOB_001,
                    f"defknob: :{key.name} is for numbers; the default of {symbol.name} is "
                    f"{print_value(knob.default)}",
                    where,
                )
            setattr(knob, "minimum" if key.name == "min" else "maximum", value)
        at = at.cdr.cdr
    check_value(knob, knob.default, place)
    found.knobs[symbol.name] = knob


def _read_variant(form: Any, found: Declarations) -> None:
    symbol, place = _name(form, "defvariant")
    if symbol.name in found.variants:
        raise knob_error(codes.E_KNOB_004, f"the variant {symbol.name} is declared twice", place)
    rest = form.cdr.cdr
    doc = ""
    if isinstance(rest, Cons) and isinstance(rest.car, String):
        doc, rest = rest.car.text, rest.cdr
    variant = Variant(symbol.name, doc, place)
    while isinstance(rest, Cons):
        pair = rest.car
        if (
            not is_list(pair)
            or len(items := python_list(pair)) != 2
            or not is_name(items[0])
            or not is_literal(items[1])
        ):
            raise knob_error(
                codes.E_KNOB_001,
                f"defvariant {symbol.name}: (knob value) was expected, with a literal value",
                car_span(rest) or span_of(form),
            )
        if items[0].name in variant.values:
            raise knob_error(
                codes.E_KNOB_001,
                f"defvariant {symbol.name}: {items[0].name} is given twice",
                span_of(pair),
            )
        variant.values[items[0].name] = (items[1], span_of(pair))
        rest = rest.cdr
    found.variants[symbol.name] = variant


def _read_sweep(form: Any, found: Declarations) -> None:
    symbol, place = _name(form, "defsweep")
    if symbol.name in found.sweeps:
        raise knob_error(codes.E_KNOB_004, f"the sweep {symbol.name} is declared twice", place)
    clauses = python_list(form.cdr.cdr) if is_list(form.cdr.cdr) else []
    for clause in clauses:
        if not isinstance(clause, Cons) or not is_keyword(clause.car):
            raise knob_error(
                codes.E_KNOB_001,
                f"defsweep {symbol.name}: a clause such as (:grid (knob value…)) was expected",
                span_of(clause) or span_of(form),
            )
        _check_clause(symbol.name, clause, found)
    found.sweeps[symbol.name] = Sweep(symbol.name, clauses, place)


SWEEPS = ("grid", "zip", "random", "repeat")


def _check_clause(sweep: str, clause: Any, found: Declarations) -> None:
    """Raise unless a clause of a sweep is one that its points can be made of."""
    word, place = clause.car.name, span_of(clause)
    items = python_list(clause.cdr) if is_list(clause) else []
    if word not in SWEEPS:
        raise knob_error(
            codes.E_KNOB_001,
            f"defsweep {sweep}: there is no clause :{word}",
            place,
            did_you_mean(f":{word}", [f":{w}" for w in SWEEPS])
            or "the clauses are " + " ".join(f":{w}" for w in SWEEPS),
        )
    if word in ("repeat", "random"):
        count, items = (items[0] if items else NIL), items[1:]
        if not isinstance(count, int) or count < 1 or (word == "repeat" and items):
            raise knob_error(
                codes.E_KNOB_001, f"defsweep {sweep}: :{word} takes a positive integer first", place
            )
        if word == "repeat":
            return
    lengths: set[int] = set()
    for entry in items:
        if not is_list(entry) or entry is NIL or not is_name(entry.car) or entry.cdr is NIL:
            raise knob_error(
                codes.E_KNOB_001,
                f"defsweep {sweep}: (knob value…) was expected, not {print_value(entry)}",
                span_of(entry) or place,
            )
        name, values = entry.car.name, python_list(entry.cdr)
        if name not in found.knobs and name not in ("seed", "steps"):
            raise unknown_knob(name, found, span_of(entry))
        lengths.add(len(values))
        for value in values if word != "random" and name in found.knobs else []:
            check_value(found.knobs[name], value, span_of(entry))
    if not items or (word == "zip" and len(lengths) > 1):
        told = "the lists of :zip differ in length" if items else f":{word} names no knob"
        raise knob_error(codes.E_KNOB_001, f"defsweep {sweep}: {told}", place)


_READERS = {"defknob": _read_knob, "defvariant": _read_variant, "defsweep": _read_sweep}


def unused_knobs(declared: Declarations, forms: Iterable[Any], source: Source) -> list[Diagnostic]:
    """W-RUN-001 for each knob whose name occurs nowhere but in declarations: to set it changes
    nothing. It is the text that is looked through: forms behind #+ count, and forms that use a
    module's names cannot be read before the module is."""
    text = source.text
    for form in forms:
        head = form.car if isinstance(form, Cons) else None
        span = span_of(form)
        if isinstance(head, Symbol) and head.module is TENSOR and head.name in _READERS and span:
            text = text[: span.start] + " " * (span.end - span.start) + text[span.end :]
    used = set(_tokens(text))
    return [
        Diagnostic(
            codes.W_RUN_001,
            f"nothing uses the knob {knob.name}: to set it changes nothing",
            [Label(knob.span)] if knob.span is not None else [],
        )
        for knob in declared.knobs.values()
        if knob.name not in used and _tokens(knob.name) == [knob.name]
    ]


def _tokens(text: str) -> list[str]:
    """The symbols, numbers and keywords of a text, in lower case; no strings, no comments."""
    pattern = r'"(?:[^"\\]|\\.)*"|;[^\n]*|#\|.*?\|#|#\\.[^\s()]*|([^\s()\'`,";]+)'
    found = (match.group(1) for match in re.finditer(pattern, text, re.DOTALL))
    return [token.removeprefix("#.").strip("@|").lower() for token in found if token]


def _check_variant(variant: Variant, found: Declarations) -> None:
    for name, (value, span) in variant.values.items():
        if name not in found.knobs:
            raise unknown_knob(name, found, span or variant.span)
        check_value(found.knobs[name], value, span or variant.span)


@host_macro("defknob", "(name default &key doc min max choices)", layer=TENSOR, top_level=True)
def defknob(form: Any, context: Context) -> Any:
    """Declare a knob: a named literal value that `--set` and variants may change.

    It is read before the file is evaluated, and is a constant everywhere in it."""
    from sexpgpu.forms.experiment import current

    name = form.cdr.car if isinstance(form.cdr, Cons) else NIL
    selection = current().selection
    if not is_name(name) or name.name in selection.declarations.broken:
        return _broken(form, name)
    knob = selection.knobs.get(name.name)
    if knob is None or knob.span is None or knob.span.source is not _source_of(context):
        raise context.error(
            codes.E_KNOB_001,
            f"the knob {name.name} was not seen before evaluation",
            fix="write it at the top level of the run file, not under #+ or #- nor in a macro",
        )
    return lisp_list([CL.own("define-symbol-macro"), name, quoted(knob.value)])


def _broken(form: Any, name: Any) -> Any:
    """For a declaration that is reported already: the default stands for the knob all the same,
    so that its uses are not reported too."""
    if not is_name(name) or name.special or not isinstance(form.cdr.cdr, Cons):
        return NIL
    return lisp_list([CL.own("define-symbol-macro"), name, form.cdr.cdr.car])


def _source_of(context: Context) -> Any:
    return context.span.source if context.span else None


@host_macro("defvariant", "(name [doc] (knob value)…)", layer=TENSOR, top_level=True)
def defvariant(form: Any, context: Context) -> Any:
    """Name a set of knob values, selected with `--variant NAME`."""
    return _named(form)


@host_macro("defsweep", "(name clause…)", layer=TENSOR, top_level=True)
def defsweep(form: Any, context: Context) -> Any:
    """Declare a sweep over knobs; `sexpgpu variants` prints its clauses."""
    return _named(form)


def _named(form: Any) -> Any:
    """The value of a declaration: its name; nil where there is none, which is reported already."""
    return quoted(form.cdr.car) if isinstance(form.cdr, Cons) else NIL
