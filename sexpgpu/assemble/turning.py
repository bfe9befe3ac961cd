"""The curriculum's part of a document: one graph, run after each round of evaluations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sexpgpu.assemble.calling import bad_result, call_all
from sexpgpu.assemble.context import STEP
from sexpgpu.assemble.graphs import GraphStore
from sexpgpu.assemble.initial import Initializers
from sexpgpu.assemble.reporting import report_metrics
from sexpgpu.diagnostics.codes import data as data_codes
from sexpgpu.diagnostics.codes import run as run_codes
from sexpgpu.diagnostics.model import Diagnostic, Label, SxError, located
from sexpgpu.forms.curriculum import LESSONS, Lesson
from sexpgpu.ir.document import CURRICULUM, Curriculum, Evaluation, Metric, State
from sexpgpu.ir.graph import Graph, Value
from sexpgpu.ir.types import INTEGERS, SCALAR_F32, TensorType
from sexpgpu.lisp.values import NIL, Function
from sexpgpu.passes.pipeline import closed
from sexpgpu.trace.context import Trace, tracing
from sexpgpu.trace.tensor import Tensor, TensorSource, resolve

STAGE = "stage"
_GIVEN = ("ctx/", "state/", "rng/", "statistic/")  # what the loop can give its graph


def series_of(
    store: GraphStore,
    evaluations: Iterable[Evaluation],
    metrics: dict[str, list[Metric]],
    terms: dict[str, list[str]],
) -> list[str]:
    """The scalar series that a curriculum may read: of every pass, and of training."""

    def scalars(graph: str) -> list[str]:
        found: list[str] = []
        for metric in metrics.get(graph, []):
            value = store.graphs[graph].outputs[f"metric/{metric.name}/value"]
            if metric.finish is not None:
                value = store.graphs[metric.finish].outputs["value"]
            if value.type.shape == ():
                found.append(metric.name)
        return found

    series = [f"eval/{e.name}/{name}" for e in evaluations for name in scalars(e.graph)]
    series += ["train/loss", "train/grad-norm"]
    for graph, names in terms.items():
        own = names if len(names) > 1 else []  # the objective alone is the loss
        series += [f"train/{name}" for name in (*own, *scalars(graph))]
    return list(dict.fromkeys(series))


def trace_curriculum(
    function: Function, series: Sequence[str], store: GraphStore, inits: Initializers
) -> tuple[Graph, Curriculum, list[Metric]]:
    """Trace the function curriculum; its graph, which is not stored yet, its record, and what it
    reports. `series`: what it may read by ctx."""
    context = dict(STEP)
    for prefix in ("", "min/", "max/"):
        context |= {f"{prefix}{name}": SCALAR_F32 for name in series}
    trace = Trace(CURRICULUM, CURRICULUM, context=context)
    lesson = Lesson(trace)
    outputs: dict[str, Value] = {}
    with tracing(trace):
        LESSONS.append(lesson)
        try:
            values = call_all(function, what="curriculum gets none")
            outputs[STAGE] = _index(trace, function, values[0] if values else NIL)
        finally:
            LESSONS.pop()
    if STAGE in trace.metrics:
        labels, notes = located(trace.metrics[STAGE].origin)
        told = "curriculum reports the stage as curriculum/stage itself"
        raise SxError(Diagnostic(data_codes.E_METRIC_001, told, labels, notes, "use another name"))
    metrics = report_metrics(trace, store, outputs)
    for name, cell in lesson.states.items():
        outputs[f"state/{name}"] = cell.value.value
    graph = closed(trace.finish(outputs))
    _check_inputs(graph, function)
    states = [
        State(
            name=name,
            shape=cell.shape,
            dtype=cell.dtype,
            init=inits.graph_name(
                f"the state {name}", TensorType(cell.shape, cell.dtype), cell.init, cell.origin
            ),
        )
        for name, cell in lesson.states.items()
    ]
    return graph, Curriculum(graph=graph.name, states=states), metrics


def _index(trace: Trace, function: Function, value: Any) -> Value:
    """What the function returned as a stage's index, i32."""
    wanted = "the index of a stage, as (stage :name) gives it,"
    if isinstance(value, int):
        if not -(1 << 31) <= value < 1 << 31:
            raise bad_result(function, wanted, value)
        return trace.full(value, (), "i32")
    if not isinstance(value, Tensor | TensorSource):
        raise bad_result(function, wanted, value)
    made = resolve(value)
    if made.value.shape != () or made.value.dtype not in INTEGERS:
        raise bad_result(function, wanted, made)
    return made.value if made.value.dtype == "i32" else trace.emit("cast", made.value, dtype="i32")


def _check_inputs(graph: Graph, function: Function) -> None:
    other = [name for name in graph.inputs if not name.startswith(_GIVEN)]
    if other:
        kind, _, path = other[0].partition("/")
        name = "parameter" if kind == "param" else kind
        span = function.origin
        labels = [Label(span, "this function")] if span is not None else []
        raise SxError(
            Diagnostic(
                run_codes.E_RUN_009,
                f"the curriculum reads the {name} {path}, which it cannot see",
                labels,
                fix="report what it needs as a metric, and read that: (ctx :eval/PASS/NAME)",
            )
        )
