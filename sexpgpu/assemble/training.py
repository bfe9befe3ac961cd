"""The training graph: prepare, model, objective, and the gradients of every parameter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sexpgpu.assemble.calling import call_all, call_with_model, mean_and_weight
from sexpgpu.assemble.context import TRAIN
from sexpgpu.assemble.doubts import loss_doubts, pairing_doubts, reduction_doubts
from sexpgpu.assemble.graphs import GraphStore
from sexpgpu.assemble.mixing import mixing_warnings
from sexpgpu.assemble.reporting import report_metrics
from sexpgpu.assemble.watching import Watched
from sexpgpu.diagnostics.codes import tensor as tensor_codes
from sexpgpu.diagnostics.model import Diagnostic, SxError, located
from sexpgpu.forms.models import Model, Parameter
from sexpgpu.ir.document import LOSS_SCALE, STREAM_START, Metric, Stage
from sexpgpu.ir.graph import Graph, Node, Value
from sexpgpu.ir.types import SCALAR_F32, TensorType
from sexpgpu.lisp.values import Function
from sexpgpu.ops.control import runs_of
from sexpgpu.passes.autodiff import gradients
from sexpgpu.passes.pipeline import closed
from sexpgpu.trace.context import Trace, tracing
from sexpgpu.trace.runfile import Batch

OBJECTIVE = "objective"


class Training:
    """The graphs of one stage. `weights` is None when every term's weight is known now."""

    __slots__ = ("counters", "graph", "metrics", "terms", "unreached", "warnings", "weights")

    def __init__(
        self, graph: Graph, weights: Graph | None, terms: list[str], metrics: list[Metric],
        counters: list[str], unreached: list[str], warnings: list[Diagnostic],
    ) -> None:  # fmt: skip
        self.graph = graph
        self.weights = weights
        self.terms = terms
        self.metrics = metrics
        self.counters = counters
        self.unreached = unreached
        self.warnings = warnings


def trace_training(
    stage: Stage,
    microbatches: int,
    prepare: Function,
    objective: Function,
    model: Model,
    trained: list[Parameter],
    precision: str,
    remat: str,
    store: GraphStore,
    watched: Watched,
) -> Training:
    """Trace one microbatch of a stage, differentiate it, and apply the precision policy.

    `trained` are the parameters whose gradients are outputs, in order."""
    trace = Trace(
        f"train/{stage.name}",
        "train",
        batch=stage.batch // microbatches,
        training=True,
        stage=stage.name,
        context=TRAIN,
    )
    trace.remat, trace.select = remat, watched.select
    with tracing(trace):
        arguments = call_all(prepare, batch_of(trace, stage), what="the batch")
        values = call_with_model(objective, model, prepare, arguments)
        terms: dict[str, tuple[Value, Value]] = {
            OBJECTIVE: mean_and_weight(trace, objective, values)
        }
        for term in trace.terms.values():
            terms[term.name] = (term.mean, term.weight)
        outputs = _term_outputs(trace, terms)
        _check_weights(trace, terms)
        static = all(_is_constant(trace, weight) for _, weight in terms.values())
        forward_nodes = list(trace.builder.nodes)
        warnings = mixing_warnings(trace) if microbatches > 1 else []
        warnings += loss_doubts(forward_nodes) + pairing_doubts(forward_nodes)
        warnings += reduction_doubts(trace)
        seeds = [
            (mean, _cotangent(trace, name, weight, microbatches if static else None))
            for name, (mean, weight) in terms.items()
        ]
        if precision == "f16":
            scale = trace.input(LOSS_SCALE, SCALAR_F32)
            seeds = [(mean, trace.emit("mul", scale, seed)) for mean, seed in seeds]
        unreached = _add_gradients(trace, seeds, trained, outputs)
    metrics = report_metrics(trace, store, outputs)
    for path in trace.written:
        outputs[f"buffer/{path}"] = trace.buffers[path].value
    for name, value in trace.counters.items():
        outputs[f"counter/{name}"] = value
    weights = None
    if not static:
        weights = closed(
            Graph(
                f"weights/{stage.name}",
                trace.builder.inputs,
                forward_nodes,
                {f"loss/{name}/weight": weight for name, (_, weight) in terms.items()},
            )
        )
    graph = store.passed(trace.finish(outputs), precision)
    watched.add(trace, graph.name, precision)
    return Training(
        graph,
        weights,
        list(terms),
        metrics,
        list(trace.counters),
        unreached,
        warnings,
    )


def batch_of(trace: Trace, stage: Stage) -> Batch:
    """What `prepare` gets: the loader's fields with the batch's axis in front."""
    fields = {f.name: TensorType(tuple(f.shape), f.dtype) for f in stage.fields}
    if stage.streams:
        fields[STREAM_START] = TensorType((), "bool")
    return Batch(trace, fields)


def _term_outputs(trace: Trace, terms: dict[str, tuple[Value, Value]]) -> dict[str, Value]:
    outputs: dict[str, Value] = {}
    for name, (mean, weight) in terms.items():
        outputs[f"loss/{name}/sum"] = trace.emit("mul", weight, mean)
        outputs[f"loss/{name}/weight"] = weight
    return outputs


def _producers(trace: Trace) -> dict[int, Node]:
    return {id(v): node for node in trace.builder.nodes for v in node.results}


def _is_constant(trace: Trace, value: Value) -> bool:
    node = _producers(trace).get(id(value))
    return node is not None and node.op == "full"


def _cotangent(trace: Trace, name: str, weight: Value, microbatches: int | None) -> Value:
    """d loss / d mean: the microbatch's share of the step's total weight, 0 when that is 0.

    With constant weights (`microbatches` given) each microbatch has an equal share."""
    if microbatches is not None:
        node = _producers(trace)[id(weight)]
        share = 1.0 / microbatches if node.attrs["value"] > 0 else 0.0
        return trace.full(share, (), "f32")
    total = trace.input(f"total/{name}", SCALAR_F32)
    zero = trace.full(0.0, (), "f32")
    one = trace.full(1.0, (), "f32")
    some = trace.emit("gt", total, zero)
    return trace.emit(
        "select", some, trace.emit("div", weight, trace.emit("select", some, total, one)), zero
    )


def _spread(nodes: Sequence[Node], depends: dict[Value, str]) -> None:
    """Add to the values that depend on a parameter, and on which, what depends on those."""
    for node in nodes:
        if node.op == "stop-gradient":
            continue
        for body, _ in runs_of(node):
            inside = {
                input: depends[operand]
                for input, operand in zip(body.inputs.values(), node.operands, strict=True)
                if operand in depends
            }
            carries = node.attrs.get("carries", 0)
            loop = list(zip(body.inputs.values(), body.outputs.values(), strict=False))[:carries]
            while True:
                _spread(body.nodes, inside)
                fed = {old: inside[new] for old, new in loop if new in inside and old not in inside}
                if not fed:
                    break
                inside |= fed
            for result, value in zip(node.results, body.outputs.values(), strict=True):
                if value in inside:
                    depends[result] = inside[value]
        if runs_of(node):
            continue
        for operand in node.operands:
            if operand in depends:
                depends.update(dict.fromkeys(node.results, depends[operand]))
                break


def _check_weights(trace: Trace, terms: dict[str, tuple[Value, Value]]) -> None:
    """A weight that depends on a parameter would have to be differentiated: E-GRAD."""
    depends = {v: name for name, v in trace.builder.inputs.items() if name.startswith("param/")}
    _spread(trace.builder.nodes, depends)
    producers = _producers(trace)
    for name, (_, weight) in terms.items():
        if weight in depends:
            labels, notes = located(producers[id(weight)].origin)
            raise SxError(
                Diagnostic(
                    tensor_codes.E_GRAD_002,
                    f"the weight of the loss term {name} depends on the parameter "
                    f"{depends[weight].removeprefix('param/')}",
                    labels,
                    notes,
                )
            )


def _add_gradients(
    trace: Trace,
    seeds: list[tuple[Value, Value]],
    trained: list[Parameter],
    outputs: dict[str, Value],
) -> list[str]:
    """Add `grad/PATH` outputs; the paths of parameters that the loss does not depend on."""
    inputs = trace.builder.inputs
    reached = [p for p in trained if f"param/{p.path}" in inputs]
    found = gradients(trace.builder, seeds, [inputs[f"param/{p.path}"] for p in reached])
    by_path: dict[Any, Value] = {
        p.path: g for p, g in zip(reached, found, strict=True) if g is not None
    }
    unreached: list[str] = []
    for p in trained:
        g = by_path.get(p.path)
        if g is None:
            unreached.append(p.path or "")
            g = trace.full(0.0, p.shape, "f32")
        elif g.dtype != "f32":
            g = trace.emit("cast", g, dtype="f32")
        outputs[f"grad/{p.path}"] = g
    return unreached
