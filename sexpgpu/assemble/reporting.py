"""The metrics that a trace noted, as outputs of its graph and as records of the document."""

from __future__ import annotations

from sexpgpu.assemble.calling import bad_result, call_all
from sexpgpu.assemble.graphs import GraphStore
from sexpgpu.ir.document import Metric
from sexpgpu.ir.graph import Value
from sexpgpu.passes.pipeline import closed
from sexpgpu.trace.context import Metric as Noted
from sexpgpu.trace.context import Trace, tracing
from sexpgpu.trace.tensor import Tensor, TensorSource, resolve


def report_metrics(trace: Trace, store: GraphStore, outputs: dict[str, Value]) -> list[Metric]:
    """Add `metric/NAME/value` and `/weight` to the outputs; the records, in order of appearance."""
    records: list[Metric] = []
    for noted in trace.metrics.values():
        outputs[f"metric/{noted.name}/value"] = noted.value
        outputs[f"metric/{noted.name}/weight"] = noted.weight
        finish = None if noted.finish is None else _finish_graph(noted, store)
        records.append(Metric(finish=finish, name=noted.name, reduce=noted.reduce))
    return records


def _finish_graph(noted: Noted, store: GraphStore) -> str:
    """The name of the graph that `:finish` is traced into: `value` to `value`, f32."""
    trace = Trace("finish", "finish")
    with tracing(trace):
        given = Tensor(trace.input("value", noted.value.type), trace, noted.origin)
        results = call_all(noted.finish, given, what="the reduced value")
        made = results[0] if results else None
        if not isinstance(made, Tensor | TensorSource):
            raise bad_result(noted.finish, "a tensor", made)
        value = resolve(made).value
        if value.dtype != "f32":
            value = trace.emit("cast", value, dtype="f32")
    return store.shared("finish", closed(trace.finish({"value": value})))
