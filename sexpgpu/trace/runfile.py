"""What a traced function of a run file reads and notes: field, ctx, metric, loss-term, diagnostic.

Everything is noted on the trace; who makes the graph gives it its inputs and takes its outputs.
"""

from __future__ import annotations

from typing import Any

from sexpgpu.diagnostics.codes.data import E_DATA_002, E_METRIC_001, E_METRIC_002
from sexpgpu.diagnostics.codes.run import E_RUN_021
from sexpgpu.diagnostics.model import Note
from sexpgpu.diagnostics.suggest import did_you_mean
from sexpgpu.ir.graph import Value
from sexpgpu.ir.types import FLOATS, TensorType
from sexpgpu.lisp.calls import call as call_function
from sexpgpu.lisp.hostforms import call_host, form_arguments, host_macro
from sexpgpu.lisp.hostforms import symbol as cl
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.spans import car_span
from sexpgpu.lisp.values import (
    KEYWORD,
    NIL,
    TENSOR,
    Cons,
    Foreign,
    Function,
    Symbol,
    T,
    keyword,
    lisp_list,
)
from sexpgpu.ops.reducers import REDUCERS
from sexpgpu.reader.printer import brief
from sexpgpu.source import Origin
from sexpgpu.trace.arguments import is_number, items_of, name_of
from sexpgpu.trace.context import TRACES, Metric, Term, Trace
from sexpgpu.trace.counters import COUNTER_TYPE
from sexpgpu.trace.declare import tensor_function
from sexpgpu.trace.errors import check_noted_once, failure, outside
from sexpgpu.trace.primitives import broadcast, cast
from sexpgpu.trace.tensor import Tensor, is_tensor, resolve, wrap

REDUCTIONS = ("mean", "sum", "max", "min", "last", "rms")

# Series that every run reports under train/: no metric or loss term may take their names.
RESERVED = frozenset(
    (
        "loss", "objective", "grad-norm", "steps-per-second", "samples-per-second", "data-wait",
        "nonfinite", "flops-per-second", "mfu",
    )
)  # fmt: skip

STEP_KEY = "step"  # a graph that knows the step knows the counters too


# ---------------------------------------------------------------------------- batches


class Batch(Foreign):
    """What `prepare` gets: the fields of a loader's stage, by name. `fields`: the type of one
    record's value; the tensor has the batch's axis in front."""

    __slots__ = ("fields", "trace")

    lisp_type = "batch"

    def __init__(self, trace: Trace, fields: dict[str, TensorType]) -> None:
        self.trace = trace
        self.fields = fields

    def lisp_print(self) -> str:
        return f"#<batch of {self.trace.batch}: {' '.join(self.fields)}>"


@tensor_function("field", "(batch name)")
def field(batch: Any, name: Any) -> Tensor:
    """A field of a batch: a tensor [batch, …the record's axes], in the field's dtype."""
    if not isinstance(batch, Batch):
        raise failure(
            E_DATA_002,
            f"field: {brief(batch)} is no batch",
            fix="prepare gets the batch: (defun prepare (batch) (field batch :x))",
        )
    trace = TRACES[-1]
    wanted = name_of(name)
    if wanted not in batch.fields or batch.trace is not trace.root:
        listed = ", ".join(f":{f}" for f in batch.fields)
        if wanted in batch.fields:
            raise failure(E_DATA_002, f"field: the batch belongs to {batch.trace.name}")
        raise failure(
            E_DATA_002,
            f"the loader has no field {brief(name)}",
            fix=did_you_mean(f":{wanted}", [f":{f}" for f in batch.fields])
            or f"the fields are {listed}",
        )
    shape, dtype, _ = batch.fields[wanted]
    extent = trace.batch
    assert extent is not None
    return wrap(trace.input(f"batch/{wanted}", TensorType((extent, *shape), dtype, 0)))


# ---------------------------------------------------------------------------- ctx


@builtin("ctx", "(key)", layer=TENSOR)
def ctx(key: Any) -> Any:
    """What the loop knows of the step. :training is t or nil, and :stage in a training graph a
    keyword; the others are scalar tensors: :step (from 0) :updates :steps :progress :epoch :stage
    :stage-step :samples :seed :microbatch :counter/NAME; in curriculum :eval/PASS/METRIC
    :train/METRIC :min/SERIES :max/SERIES."""
    if not TRACES:
        raise outside("ctx")
    trace = TRACES[-1]
    trace.locate()
    name = name_of(key)
    if name == "training":
        return T if trace.training else NIL
    if name == "stage" and trace.stage is not None:
        return keyword(trace.stage)
    type = trace.context.get(name or "")
    if type is None and name and name.startswith("counter/") and STEP_KEY in trace.context:
        type = COUNTER_TYPE
    if type is None:
        listed = [f":{k}" for k in ("training", *trace.context)]
        near = did_you_mean(f":{name}", listed)
        if STEP_KEY in trace.context:
            listed.append(":counter/NAME")
        raise failure(
            E_RUN_021,
            f"ctx has no key {brief(key)} in the graph {trace.name}",
            notes=[Note("the keys here are " + " ".join(listed))],
            fix=near,
        )
    assert name is not None
    trace.context_used.add(name)
    return wrap(trace.input(f"ctx/{name}", type))


# ---------------------------------------------------------------------------- metrics


def _noting(name: str, record: Any, keys: tuple[str, ...], at: Any, context: Any) -> Any:
    """The call that notes a metric or loss term: all the values of the value form go along."""
    arguments = form_arguments(at)
    if len(arguments) < 2:
        raise context.error(
            E_METRIC_002,
            f"{name}: a name and a value are wanted",
            fix=f"write ({name} :name value)",
        )
    rest = at.cdr.cdr.cdr
    while isinstance(rest, Cons):
        key = rest.car
        if not (isinstance(key, Symbol) and key.module is KEYWORD and key.name in keys):
            listed = [f":{k}" for k in keys]
            raise context.error(
                E_METRIC_002,
                f"{name} has no keyword {brief(key)}",
                at=car_span(rest),
                fix=did_you_mean(brief(key), listed) or "its keywords are " + " ".join(listed),
            )
        if not isinstance(rest.cdr, Cons):
            raise context.error(
                E_METRIC_002, f"{name}: :{key.name} has no value", at=car_span(rest)
            )
        rest = rest.cdr.cdr
    values = lisp_list([cl("multiple-value-list"), arguments[1]])
    return call_host(record, arguments[0], values, *arguments[2:])


@host_macro("metric", "(name value &key reduce weight finish)", layer=TENSOR)
def metric(at: Any, context: Any) -> Any:
    """(metric :name value &key reduce weight finish) reports a value under a name; gives nil.
    :reduce is :mean (default) :sum :max :min :last :rms, over batches; a mean is weighted by the
    number of examples, by :weight, or by the second value of the value form. :finish is a function
    of the reduced value. In a model the name is prefixed by the model's path."""
    return _noting("metric", record_metric, ("reduce", "weight", "finish"), at, context)


@host_macro("loss-term", "(name value &key weight)", layer=TENSOR)
def loss_term(at: Any, context: Any) -> Any:
    """(loss-term :name value &key weight) adds a term to the training loss; gives nil. value: a
    scalar float tensor, the mean over its units; weight (or the value form's second value): how
    many there are, the examples unless said. In a model the name is prefixed by its path."""
    return _noting("loss-term", record_term, ("weight",), at, context)


def _begin(what: str, name: Any, values: Any) -> tuple[Trace, str, list[Any], Origin]:
    if not TRACES:
        raise outside(what)
    trace = TRACES[-1]
    origin = trace.locate()
    given = name_of(name)
    if not given or name is T:
        raise failure(E_METRIC_002, f"{what}: the name is {brief(name)}, wanted a keyword")
    path = f"{trace.path}/" if trace.path else ""
    full = f"{trace.prefix}{path}{given}"
    check_noted_once(f"{what} {full}")
    if trace.domain == "train" and full in RESERVED:
        raise failure(
            E_METRIC_001, f"{what}: the name {full} is reserved for what every run reports"
        )
    taken = trace.noted(full)
    if taken is not None:
        span = taken.origin.user_span
        raise failure(
            E_METRIC_001,
            f"{what}: {full} is noted twice in the graph {trace.root.name}",
            notes=[Note("the first is here", span)] if span else [],
        )
    return trace, full, items_of(what, "the values", values), origin


def _keys(pairs: tuple[Any, ...]) -> dict[str, Any]:
    return {key.name: value for key, value in zip(pairs[-2::-2], pairs[::-2], strict=True)}


def _f32(trace: Trace, what: str, part: str, value: Any, scalar: bool) -> Value:
    """A tensor or number as an f32 value."""
    if is_number(value):
        return trace.full(float(value), (), "f32")
    if not is_tensor(value):
        raise failure(
            E_METRIC_002, f"{what}: the {part} is {brief(value)}, wanted a tensor or a number"
        )
    t = resolve(value)
    if scalar and t.type.shape != ():
        raise failure(
            E_METRIC_002,
            f"{what}: the {part} must be a scalar",
            [(f"the {part}", t)],
            fix="reduce it: (mean x) or (sum x)",
        )
    return cast(trace, t.value, "f32")


def _weight(trace: Trace, what: str, values: list[Any], keys: dict[str, Any]) -> Value:
    given = keys.get("weight", NIL)
    if given is NIL and len(values) > 1:
        given = values[1]
    if given is NIL:
        return trace.full(float(trace.batch or 1), (), "f32")
    if is_number(given) and given < 0:
        raise failure(E_METRIC_002, f"{what}: the weight is {brief(given)}, wanted one from 0 up")
    return _f32(trace, what, "weight", given, True)


def record_metric(name: Any, values: Any, *pairs: Any) -> Any:
    """Note a metric on the trace (see `metric`)."""
    trace, full, listed, origin = _begin("metric", name, values)
    keys = _keys(pairs)
    how = name_of(keys.get("reduce", keyword("mean")))
    if how not in REDUCTIONS:
        choices = [f":{r}" for r in REDUCTIONS]
        raise failure(
            E_METRIC_002,
            f"metric: :reduce is {brief(keys['reduce'])}, wanted one of {' '.join(choices)}",
            fix=did_you_mean(f":{how}", choices),
        )
    finish = keys.get("finish", NIL)
    if finish is NIL:
        finish = None
    elif not isinstance(finish, Function):
        raise failure(E_METRIC_002, f"metric: :finish is {brief(finish)}, wanted a function")
    given = listed[0] if listed else NIL
    if is_tensor(given) and resolve(given).type.batch is not None:
        raise failure(
            E_METRIC_002,
            f"metric: {full} has a value for each example, and no two batches the same ones",
            [("the value", resolve(given))],
            fix="reduce it over the examples: (mean x), or (mean x :axis 0)",
        )
    value = _f32(trace, "metric", "value", given, False)
    weight = _weight(trace, "metric", listed, keys)
    if how == "rms":
        value = trace.emit("mul", value, value)
    if how in ("mean", "rms"):
        value = trace.emit("mul", broadcast(trace, weight, value.type.shape), value)
    trace.metrics[full] = Metric(full, how, value, weight, finish, origin)
    return NIL


def record_term(name: Any, values: Any, *pairs: Any) -> Any:
    """Note a loss term on the trace (see `loss-term`)."""
    trace, full, listed, origin = _begin("loss-term", name, values)
    if trace.domain not in ("train", "eval", "predict", "function"):  # predict: of no effect
        raise failure(E_METRIC_002, f"loss-term: the graph {trace.name} has no loss to add to")
    value = listed[0] if listed else NIL
    if is_tensor(value) and resolve(value).type.dtype not in FLOATS:
        raise failure(
            E_METRIC_002, "loss-term: the value must be a float", [("the value", resolve(value))]
        )
    mean = _f32(trace, "loss-term", "value", value, True)
    weight = _weight(trace, "loss-term", listed, _keys(pairs))
    trace.terms[full] = Term(full, mean, weight, origin)
    return NIL


# ---------------------------------------------------------------------------- diagnostics


@host_macro("diagnostic", "(name value &key reduce)", layer=TENSOR)
def diagnostic(at: Any, context: Any) -> Any:
    """(diagnostic :name tensor &key reduce) is a number to look at, taken only in runs that select
    it (`--diagnostics`, `defrun :diagnostics`); else it costs nothing. Gives nil. :reduce is one of
    :mean :rms :max :min :absmax :l2 :zeros :nonfinite :histogram, or a list of them; a scalar is
    told as it is, other tensors by :mean :rms :absmax unless said. Named as metrics are."""
    arguments = form_arguments(at)
    if len(arguments) not in (2, 4):
        raise context.error(
            E_METRIC_002,
            "diagnostic: a name and a tensor are wanted",
            fix="write (diagnostic :name tensor), or (diagnostic :name tensor :reduce :rms)",
        )
    if len(arguments) == 4 and not (
        isinstance(arguments[2], Symbol) and arguments[2].module is KEYWORD
        and arguments[2].name == "reduce"
    ):  # fmt: skip
        raise context.error(
            E_METRIC_002,
            f"diagnostic has no keyword {brief(arguments[2])}",
            fix="its keyword is :reduce",
        )
    value = lisp_list([cl("lambda"), NIL, arguments[1]])
    return call_host(record_diagnostic, arguments[0], value, *arguments[3:])


def record_diagnostic(name: Any, make: Function, reduce: Any = NIL) -> Any:
    """Note a diagnostic on the trace (see `diagnostic`)."""
    if not TRACES:
        raise outside("diagnostic")
    trace = TRACES[-1]
    given = name_of(name)
    if not given or name is T:
        raise failure(E_METRIC_002, f"diagnostic: the name is {brief(name)}, wanted a keyword")
    wanted = items_of("diagnostic", ":reduce", reduce) if _is_list(reduce) else [reduce]
    reducers = tuple([name_of(item) or "" for item in wanted])
    for reducer, item in zip(reducers, wanted, strict=True):
        if reducer not in REDUCERS:
            choices = [f":{r}" for r in REDUCERS]
            raise failure(
                E_METRIC_002,
                f"diagnostic: :reduce is {brief(item)}, wanted one of {' '.join(choices)}",
                fix=did_you_mean(f":{reducer}", choices),
            )
    path = f"{trace.path}/" if trace.path else ""
    with trace.aside(given):
        made = call_function(make)
        trace.locate()
        value = _f32(trace, "diagnostic", "value", made, False)
        if not reducers:
            reducers = ("",) if value.type.shape == () else ("mean", "rms", "absmax")
        trace.watch(f"{path}{given}", value, reducers)
    return NIL


def _is_list(value: Any) -> bool:
    return value is NIL or isinstance(value, Cons)
