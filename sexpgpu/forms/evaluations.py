"""defeval: a named evaluation pass over a loader."""

from __future__ import annotations

from typing import Any

from sexpgpu.diagnostics.codes import run as codes
from sexpgpu.forms.experiment import current
from sexpgpu.forms.parse import (
    at_place,
    call,
    check_name,
    is_keyword,
    is_name,
    keyword_forms,
    value_form,
)
from sexpgpu.lisp.hostforms import Context, host_macro, quoted
from sexpgpu.lisp.printer import prin1_text as print_value
from sexpgpu.lisp.spans import car_span, span_of
from sexpgpu.lisp.values import NIL, TENSOR, Cons, Foreign, Function, Symbol, T, keyword
from sexpgpu.source import Span

KEYS = ("loader", "every", "batches", "at-start", "at-end", "prepare", "evaluate", "weights")


class EvaluationForm:
    """A declared pass. `prepare` and `evaluate` are functions, or None for the file's own."""

    __slots__ = (
        "at_end", "at_start", "batches", "evaluate", "every", "loader", "loader_span", "name",
        "prepare", "span", "weights",
    )  # fmt: skip

    def __init__(self, name: str, loader: str, span: Span | None, loader_span: Span | None) -> None:
        self.name = name
        self.loader = loader
        self.span = span
        self.loader_span = loader_span
        self.every: int | None = None
        self.batches: int | None = None
        self.at_start = False
        self.at_end = True
        self.prepare: Function | None = None
        self.evaluate: Function | None = None
        self.weights = "averaged"


@host_macro(
    "defeval",
    "(name &key loader every batches at-start at-end prepare evaluate weights)",
    layer=TENSOR,
    top_level=True,
)
def defeval(form: Any, context: Context) -> Any:
    """Declare an evaluation pass: every record of a loader once, reported as eval/NAME/….

    :loader    the loader's name (not evaluated)
    :every     steps between passes; nil (default): only at the end
    :batches   at most so many batches; nil: all
    :at-start, :at-end   run before the first step; after the last (default t)
    :prepare, :evaluate  functions to use instead of the file's eval-prepare and evaluate
    :weights   :averaged (default): the parameters that the optimizer averages (optim:ema,
               schedule-free), where it does; :raw: those that it trains"""
    if not isinstance(form.cdr, Cons) or not is_name(form.cdr.car):
        raise context.error(
            codes.E_RUN_005, "defeval: a name was expected", fix="write (defeval name :loader …)"
        )
    name, place = form.cdr.car, car_span(form.cdr) or span_of(form)
    check_name(name.name, "defeval", context, place)
    current().begun.add(("pass", name.name))
    keys = keyword_forms(form.cdr.cdr, KEYS, context, f"defeval {name.name}")
    if "loader" not in keys or not isinstance(keys["loader"][0], Symbol):
        raise context.error(
            codes.E_RUN_005, f"defeval {name.name}: :loader takes the name of a loader"
        )
    loader, loader_at = keys["loader"]
    forms: list[Any] = []
    for key, default in (("every", NIL), ("batches", NIL), ("at-start", NIL), ("at-end", T),
                         ("prepare", NIL), ("evaluate", NIL),
                         ("weights", keyword("averaged"))):  # fmt: skip
        given, where = keys.get(key, (default, None))
        forms.extend((value_form(given, where), quoted(where)))
    return call(
        _declare, quoted(name.name), quoted(place), quoted(loader.name), quoted(loader_at), *forms
    )


def _declare(
    name: str, place: Span | None, loader: str, loader_at: Span | None,
    every: Any, every_at: Any, batches: Any, batches_at: Any, at_start: Any, _start_at: Any,
    at_end: Any, _end_at: Any, prepare: Any, prepare_at: Any, evaluate: Any, evaluate_at: Any,
    weights: Any, weights_at: Any,
) -> Any:  # fmt: skip
    experiment = current()
    experiment.declare("pass", name, place)
    made = EvaluationForm(name, loader, place, loader_at)
    for attribute, value, where in (("every", every, every_at), ("batches", batches, batches_at)):
        if value is not NIL:
            if not isinstance(value, int) or value < 1:
                raise at_place(
                    codes.E_RUN_006,
                    f"defeval {name}: :{attribute} takes a positive integer, not "
                    f"{print_value(value)}",
                    where or place,
                )
            setattr(made, attribute, int(value))
    if not is_keyword(weights) or weights.name not in ("averaged", "raw"):
        raise at_place(
            codes.E_RUN_006,
            f"defeval {name}: :weights is :averaged or :raw, not {print_value(weights)}",
            weights_at or place,
        )
    made.weights = weights.name
    made.at_start, made.at_end = at_start is not NIL, at_end is not NIL
    for attribute, value, where in (
        ("prepare", prepare, prepare_at),
        ("evaluate", evaluate, evaluate_at),
    ):
        if value is not NIL:
            function = value.lisp_function() if isinstance(value, Foreign) else value
            if not isinstance(function, Function):
                raise at_place(
                    codes.E_RUN_006,
                    f"defeval {name}: :{attribute} takes a function, not {print_value(value)}",
                    where or place,
                )
            setattr(made, attribute, function)
    experiment.evaluations[name] = made
    return NIL
