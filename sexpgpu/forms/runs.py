"""defrun: what is trained, how long, in which precision, saved how often."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from sexpgpu.diagnostics.codes import run as codes
from sexpgpu.diagnostics.suggest import did_you_mean
from sexpgpu.forms.experiment import current
from sexpgpu.forms.knobs import MOST_STEPS
from sexpgpu.forms.models import Model
from sexpgpu.forms.optimizers import Optimizer
from sexpgpu.forms.parse import (
    at_place,
    call,
    is_keyword,
    is_list,
    is_name,
    keyword_forms,
    property_dict,
    value_form,
)
from sexpgpu.forms.weights import Weights, checkpoint, globs
from sexpgpu.ir.document import Checkpointing, Diagnostics, InitFrom, Run, Stop
from sexpgpu.lisp.hostforms import Context, host_macro, quoted
from sexpgpu.lisp.printer import prin1_text as print_value
from sexpgpu.lisp.spans import car_span, span_of
from sexpgpu.lisp.values import NIL, TENSOR, Cons, String, Symbol, lisp_list, python_list
from sexpgpu.source import Span

KEYS = (
    "model", "optimizer", "train", "steps", "epochs", "microbatches", "precision", "seed",
    "clip-norm", "eval", "checkpoint", "log-every", "finite", "steps-per-dispatch",
    "init-from", "stop", "diagnostics", "remat",
)  # fmt: skip
NAMES = ("train", "eval")


class RunForm:
    """The declared run: its configuration, model and optimizer, and the places of its parts.

    `evaluations` is None when defrun gives no :eval (all passes run)."""

    __slots__ = ("evaluations", "model", "optimizer", "places", "run", "span")

    def __init__(
        self, run: Run, model: Model, optimizer: Optimizer, evaluations: list[str] | None,
        places: dict[str, Span | None], span: Span | None,
    ) -> None:  # fmt: skip
        self.run = run
        self.model = model
        self.optimizer = optimizer
        self.evaluations = evaluations
        self.places = places
        self.span = span


@host_macro("defrun", "(name &key " + " ".join(KEYS) + ")", layer=TENSOR, top_level=True)
def defrun(form: Any, context: Context) -> Any:
    """Declare the run: one a file.

    :model, :optimizer   what is trained, and by which optimizer
    :train               the training loader's name (default `train`)
    :steps or :epochs    how long
    :microbatches n      gradients accumulated over n parts of the batch (default 1)
    :precision           :f32 (default), :bf16 or :f16
    :seed                of everything random (default 0)
    :clip-norm x         clip the gradient's global norm
    :eval (pass…)        the passes that run (default: all)
    :checkpoint (:every n :keep n :keep-every n :best (:min :eval/PASS/NAME))
    :log-every n         steps between train events (default 10)
    :finite              :abort (default), :skip or :ignore a non-finite loss or gradient
    :steps-per-dispatch  n, or :auto (default)
    :init-from           weights to begin with: (checkpoint path), (safetensors path) or a path
    :stop                (:min :eval/PASS/NAME :patience n), or :max: end when n evaluations in a
                         row are no better
    :diagnostics         (:select (list glob…) :every n): what is watched inside the run
    :remat               what the backward pass computes again rather than keep: :none (default),
                         :blocks (each part of a `repeat`) or :full (each submodel)"""
    if not isinstance(form.cdr, Cons) or not is_name(form.cdr.car):
        raise context.error(
            codes.E_RUN_005,
            "defrun: a name was expected",
            fix="write (defrun name :model … :optimizer … :steps …)",
        )
    name, place = form.cdr.car, car_span(form.cdr) or span_of(form)
    current().begun.add(("run", name.name))
    keys = keyword_forms(form.cdr.cdr, KEYS, context, f"defrun {name.name}")
    places = {key: where for key, (_, where) in keys.items()}
    forms: list[Any] = []
    given: list[str] = []
    for key, (value, where) in keys.items():
        given.append(key)
        forms.append(quoted(value) if key in NAMES else value_form(value, where))
    return call(_declare, quoted(name.name), quoted(place), quoted(given), quoted(places), *forms)


class _Reader:
    """The values of a defrun, taken with their checks."""

    def __init__(self, name: str, place: Span | None, values: dict[str, Any], places: Any) -> None:
        self.name = name
        self.place = place
        self.values = values
        self.places = places

    def bad(self, key: str, wanted: str, fix: str | None = None) -> Exception:
        return at_place(
            codes.E_RUN_006,
            f"defrun {self.name}: :{key} takes {wanted}, not {print_value(self.values[key])}",
            self.places.get(key) or self.place,
            fix,
        )

    def take(self, key: str, default: Any, test: Callable[[Any], bool], wanted: str) -> Any:
        value = self.values.get(key, NIL)
        if value is NIL:
            return default
        if not test(value):
            raise self.bad(key, wanted)
        return value

    def positive(self, key: str, default: int | None) -> Any:
        value = self.take(
            key, default, lambda v: isinstance(v, int) and v > 0, "a positive integer"
        )
        return None if value is None else int(value)

    def choice(self, key: str, default: str, choices: tuple[str, ...]) -> str:
        value = self.values.get(key, NIL)
        if value is NIL:
            return default
        if not is_keyword(value) or value.name not in choices:
            listed = " or ".join(f":{c}" for c in choices)
            raise self.bad(
                key, listed, did_you_mean(print_value(value), [f":{c}" for c in choices])
            )
        return value.name


def _declare(name: str, place: Any, given: list[str], places: dict[str, Any], *values: Any) -> Any:
    experiment = current()
    if experiment.run is not None:
        experiment.declare("run", name, place)
        raise at_place(
            codes.E_RUN_003,
            f"a file has one defrun; {experiment.run.run.name} is declared already",
            place,
            "remove one, or make two files",
        )
    experiment.declare("run", name, place)
    if not name:
        raise at_place(codes.E_RUN_005, "defrun: the name is empty", place)
    read = _Reader(name, place, dict(zip(given, values, strict=True)), places)
    for key in ("model", "optimizer"):
        if key not in read.values:
            raise at_place(codes.E_RUN_001, f"defrun {name}: :{key} is missing", place)
    model = read.take("model", None, lambda v: isinstance(v, Model), "a model")
    optimizer = read.take("optimizer", None, lambda v: isinstance(v, Optimizer), "an optimizer")
    for key, value in (("model", model), ("optimizer", optimizer)):
        if value is None:
            raise read.bad(key, f"{'an' if key == 'optimizer' else 'a'} {key}")
    overrides = experiment.selection.overrides
    steps, epochs = read.positive("steps", None), read.positive("epochs", None)
    if steps is not None and steps > MOST_STEPS:
        raise read.bad("steps", f"at most {MOST_STEPS:,}")
    if "steps" in overrides:
        steps, epochs = overrides["steps"], None
    if (steps is None) == (epochs is None):
        raise at_place(
            codes.E_RUN_001,
            f"defrun {name}: "
            + ("one of :steps and :epochs is needed" if steps is None
               else ":steps and :epochs exclude each other"),
            place,
        )  # fmt: skip
    seed = read.take(
        "seed", 0, lambda v: isinstance(v, int) and 0 <= v < 1 << 64, "an integer from 0"
    )
    clip = read.take(
        "clip-norm",
        None,
        lambda v: isinstance(v, int | float | Fraction) and v > 0,
        "a positive number",
    )
    dispatch = read.values.get("steps-per-dispatch", NIL)
    if dispatch is NIL or (is_keyword(dispatch) and dispatch.name == "auto"):
        per_dispatch: int | str = "auto"
    else:
        per_dispatch = read.positive("steps-per-dispatch", None)
    train = read.take("train", None, lambda v: isinstance(v, Symbol), "the name of a loader")
    run = Run(
        name=name,
        train="train" if train is None else train.name,
        steps=steps,
        epochs=epochs,
        microbatches=read.positive("microbatches", 1),
        precision=read.choice("precision", "f32", ("f32", "bf16", "f16")),
        seed=overrides.get("seed", int(seed)),
        clip_norm=None if clip is None else float(clip),
        evaluations=[],
        checkpoint=_checkpointing(read),
        log_every=read.positive("log-every", 10),
        finite=read.choice("finite", "abort", ("abort", "skip", "ignore")),
        steps_per_dispatch=per_dispatch,
        remat=read.choice("remat", "none", ("none", "blocks", "full")),
        init_from=_init_from(read),
        stop=_stop(read),
        diagnostics=experiment.diagnostics or _diagnostics(read),
    )
    experiment.run = RunForm(run, model, optimizer, _evaluations(read), places, place)
    return NIL


def _evaluations(read: _Reader) -> list[str] | None:
    if "eval" not in read.values:
        return None
    value = read.values["eval"]
    items = python_list(value) if is_list(value) else [value]
    if not all(isinstance(i, Symbol) for i in items):
        raise read.bad("eval", "a list of names of passes")
    return [i.name for i in items]


def _checkpointing(read: _Reader) -> Checkpointing:
    value = read.values.get("checkpoint", NIL)
    options = property_dict(value)
    keys = ("every", "keep", "keep-every", "best")
    if options is None:
        raise read.bad("checkpoint", "a property list such as (:every 100 :keep 3)")
    for key in options:
        if key not in keys:
            raise at_place(
                codes.E_RUN_002,
                f"defrun {read.name}: :checkpoint has no key :{key}",
                read.places.get("checkpoint") or read.place,
                did_you_mean(f":{key}", [f":{k}" for k in keys]),
            )
    numbers: dict[str, int | None] = {}
    for key in keys[:3]:
        number = options.get(key, NIL)
        if number is not NIL and (not isinstance(number, int) or number < 1):
            raise at_place(
                codes.E_RUN_006,
                f"defrun {read.name}: :checkpoint :{key} takes a positive integer, not "
                f"{print_value(number)}",
                read.places.get("checkpoint") or read.place,
            )
        numbers[key] = None if number is NIL else int(number)
    best = options.get("best", NIL)
    chosen: tuple[str, str] | None = None
    if best is not NIL:
        items = python_list(best) if is_list(best) else []
        chosen = _series(items)
        if chosen is None or len(items) != 2:
            raise at_place(
                codes.E_RUN_006,
                f"defrun {read.name}: :best takes (:min :eval/PASS/NAME) or (:max …), not "
                f"{print_value(best)}",
                read.places.get("checkpoint") or read.place,
            )
    return Checkpointing(
        every=numbers["every"],
        keep=numbers["keep"],
        keep_every=numbers["keep-every"],
        best=chosen,
    )


def _series(items: list[Any]) -> tuple[str, str] | None:
    """The (:min :series) or (:max :series) that a list begins with."""
    if (
        len(items) < 2
        or not all(is_keyword(i) for i in items[:2])
        or items[0].name not in ("min", "max")
    ):
        return None
    return items[0].name, items[1].name


def _init_from(read: _Reader) -> InitFrom | None:
    value = read.values.get("init-from", NIL)
    if value is NIL:
        return None
    if isinstance(value, String) and value.text:
        return checkpoint(value).described
    if not isinstance(value, Weights):
        raise read.bad("init-from", "(checkpoint path), (safetensors path) or a path")
    return value.described


def _stop(read: _Reader) -> Stop | None:
    value = read.values.get("stop", NIL)
    if value is NIL:
        return None
    items = python_list(value) if is_list(value) else []
    best = _series(items)
    rest = property_dict(lisp_list(items[2:])) if best is not None else None
    patience = rest.get("patience") if rest is not None and set(rest) == {"patience"} else None
    if best is None or not isinstance(patience, int) or isinstance(patience, bool) or patience < 1:
        raise read.bad("stop", "(:min :eval/PASS/NAME :patience n) or (:max …)")
    return Stop(best=best, patience=patience)


def _diagnostics(read: _Reader) -> Diagnostics | None:
    value = read.values.get("diagnostics", NIL)
    if value is NIL:
        return None
    options = property_dict(value)
    every = options.get("every", 1) if options is not None else 0
    if (
        options is None
        or not {"select"} <= set(options) <= {"select", "every"}
        or not isinstance(every, int)
        or every < 1
    ):
        raise read.bad("diagnostics", "(:select (list glob…) :every n)")
    return Diagnostics(
        every=every, select=globs(f"defrun {read.name}", "select", options["select"])
    )
