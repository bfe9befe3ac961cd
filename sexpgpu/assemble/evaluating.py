"""Evaluation passes and prediction: graphs without gradients."""

from __future__ import annotations

from sexpgpu.assemble.calling import (
    bad_result,
    call_all,
    call_with_model,
    is_scalar_float,
    mean_and_weight,
    tensors_of,
)
from sexpgpu.assemble.context import TRAIN
from sexpgpu.assemble.graphs import GraphStore
from sexpgpu.assemble.reporting import report_metrics
from sexpgpu.assemble.training import batch_of
from sexpgpu.forms.models import Model
from sexpgpu.ir.document import Metric, Stage
from sexpgpu.ir.graph import Graph, Value
from sexpgpu.lisp.calls import call_values, values_list
from sexpgpu.lisp.values import NIL, Function
from sexpgpu.trace.context import Trace, tracing
from sexpgpu.trace.tensor import Tensor, TensorSource, resolve


def trace_evaluation(
    name: str,
    stage: Stage,
    batch: int,
    prepare: Function,
    evaluate: Function,
    is_objective: bool,
    model: Model,
    precision: str,
    store: GraphStore,
) -> tuple[Graph, list[Metric]]:
    """Trace a pass on batches of `batch` records; its metrics in order.

    The value of `evaluate`, if a float scalar, is the metric `loss`; of the objective always."""
    trace = Trace(name, "eval", batch=batch, training=False, context=TRAIN)
    outputs: dict[str, Value] = {}
    metrics: list[Metric] = []
    with tracing(trace):
        arguments = call_all(prepare, batch_of(trace, stage), what="the batch")
        values = call_with_model(evaluate, model, prepare, arguments)
        if is_objective or (values and is_scalar_float(values[0]) and "loss" not in trace.metrics):
            mean, weight = mean_and_weight(trace, evaluate, values)
            outputs["metric/loss/value"] = trace.emit("mul", weight, mean)
            outputs["metric/loss/weight"] = weight
            metrics.append(Metric(finish=None, name="loss", reduce="mean"))
        if is_objective:
            for term in trace.terms.values():
                outputs[f"metric/{term.name}/value"] = trace.emit("mul", term.weight, term.mean)
                outputs[f"metric/{term.name}/weight"] = term.weight
                metrics.append(Metric(finish=None, name=term.name, reduce="mean"))
    metrics.extend(report_metrics(trace, store, outputs))
    for path in trace.written:  # rows that follow their examples through the pass
        outputs[f"buffer/{path}"] = trace.buffers[path].value
    if not metrics:
        value = values[0] if values else NIL
        got = resolve(value) if isinstance(value, Tensor | TensorSource) else value
        raise bad_result(evaluate, "a scalar float tensor, or a metric noted on the way,", got)
    return store.passed(trace.finish(outputs), precision), metrics


def trace_prediction(
    stage: Stage,
    batch: int,
    prepare: Function,
    predict: Function | None,
    model: Model,
    precision: str,
    store: GraphStore,
) -> Graph:
    """`predict`: what the contract function of that name gives, or the model on the first value
    of prepare; outputs `out/0`, `out/1`, …"""
    trace = Trace("predict", "predict", batch=batch, training=False, context=TRAIN)
    outputs: dict[str, Value] = {}
    with tracing(trace):
        arguments = call_all(prepare, batch_of(trace, stage), what="the batch")
        if predict is not None:
            values = call_with_model(predict, model, prepare, arguments)
        else:
            function = model.lisp_function()
            assert function is not None
            values = values_list(call_values(function, *arguments[:1]))
        for i, value in enumerate(tensors_of(trace, predict or prepare, values)):
            outputs[f"out/{i}"] = value
    return store.passed(trace.finish(outputs), precision)
