"""The whole document as canonical JSON and back, exactly; its hash.

Reading refuses whatever is not a sound document: every record's form, every reference between
the parts, every graph's types. Given the ops' inference, so that this package needs no ops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sexpgpu.diagnostics.codes.tensor import E_IR_001, E_IR_003, E_IR_004
from sexpgpu.ir import document as ir
from sexpgpu.ir.document import FORMAT, LOSS_SCALE, VERSION, Document, Record, is_diagnostic
from sexpgpu.ir.graph import Graph, Infer, kind_of
from sexpgpu.ir.schema import CHOICES, RECORDS
from sexpgpu.ir.serial import (
    OriginTable,
    canonical,
    expect,
    fields,
    graph_from_json,
    graph_to_json,
    origins_from_json,
    parse_json,
    refuse,
)
from sexpgpu.ir.sources import check_source
from sexpgpu.ir.types import DTYPES, SCALAR_F32
from sexpgpu.ir.verify import verify
from sexpgpu.source import Source

LISTS: dict[str, type[Record]] = {
    "loaders": ir.Loader, "parameters": ir.Parameter, "buffers": ir.Buffer, "groups": ir.Group,
    "evaluations": ir.Evaluation,
}  # fmt: skip


# -- writing ----------------------------------------------------------------------------------


def document_to_json(document: Document) -> dict[str, Any]:
    """A document as plain data."""
    origins = OriginTable(document.sources)
    graphs = {n: graph_to_json(document.graphs[n], origins) for n in sorted(document.graphs)}
    return {
        **_plain_parts(document),
        "manifest": document.manifest,
        "graphs": graphs,
        "origins": origins.rows,
        "sources": [
            {"name": s.name, "text": s.text, "standard": s.standard} for s in origins.sources
        ],
    }


def _plain_parts(document: Document) -> dict[str, Any]:
    """Everything but graphs, manifest, origins and sources."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "run": document.run.to_json(),
        **{name: [r.to_json() for r in getattr(document, name)] for name in LISTS},
        "updates": {path: u.to_json() for path, u in document.updates.items()},
        "metrics": {g: [m.to_json() for m in ms] for g, ms in document.metrics.items()},
        "terms": {g: list(names) for g, names in document.terms.items()},
        "counters": list(document.counters),
    }


def document_text(document: Document) -> str:
    """The canonical JSON text, with a newline at its end."""
    return canonical(document_to_json(document)) + "\n"


def document_hash(document: Document) -> str:
    """SHA-256 in hex of what the document computes: spans, sources, the manifest, the folder of
    the file and diagnostics are left out, so that comments, formatting and what is watched do not
    change it."""
    from hashlib import sha256

    data = _plain_parts(document)
    for loader in data["loaders"]:
        for stage in loader["stages"]:
            del stage["base"]
    if data["run"]["init_from"] is not None:
        del data["run"]["init_from"]["base"]
    del data["run"]["diagnostics"]
    for part in ("metrics", "terms"):
        data[part] = {g: rows for g, rows in data[part].items() if not is_diagnostic(g)}
    data["graphs"] = {
        n: graph_to_json(g) for n, g in document.graphs.items() if not is_diagnostic(n)
    }
    return sha256(canonical(data).encode()).hexdigest()


# -- reading ----------------------------------------------------------------------------------


def read_document(text: str | bytes, infer: Infer) -> Document:
    """The document of a canonical JSON text; SxError (E-IR-…) for anything else."""
    return document_from_json(parse_json(text), infer)


def document_from_json(data: Any, infer: Infer) -> Document:
    """The document of plain data, verified."""
    if kind_of(data) is not dict or data.get("format") != FORMAT:
        refuse(E_IR_001, f"this is not a document of the format {FORMAT!r}")
    if data.get("version") != VERSION or kind_of(data["version"]) is not int:
        refuse(
            E_IR_001,
            f"the document has version {data.get('version')!r}; this program reads {VERSION}",
        )
    names = (
        "counters", "format", "graphs", "manifest", "metrics", "origins", "run", "sources", "terms",
        "updates", "version", *LISTS,
    )  # fmt: skip
    fields(data, "document", names)
    sources = _sources(data["sources"])
    origins = origins_from_json(data["origins"], sources)
    graphs: dict[str, Graph] = {}
    for name, row in expect(data["graphs"], dict, "graphs").items():
        graphs[name] = graph_from_json(row, origins, f"graphs/{name}")
        if graphs[name].name != name:
            refuse(E_IR_003, f"graphs/{name} calls itself {graphs[name].name!r}")
    document = Document(
        manifest=expect(data["manifest"], dict, "manifest"),
        sources=sources,
        run=record(ir.Run, data["run"], "run"),
        graphs=graphs,
        updates={
            path: record(ir.Update, row, f"updates/{path}")
            for path, row in expect(data["updates"], dict, "updates").items()
        },
        metrics={
            graph: records(ir.Metric, rows, f"metrics/{graph}")
            for graph, rows in expect(data["metrics"], dict, "metrics").items()
        },
        terms={
            graph: value([STR], rows, f"terms/{graph}")
            for graph, rows in expect(data["terms"], dict, "terms").items()
        },
        counters=value([STR], data["counters"], "counters"),
        **{name: records(kind, data[name], name) for name, kind in LISTS.items()},
    )
    for graph in graphs.values():
        verify(graph, infer)
    check_references(document)
    return document


STR = "string"


def _sources(data: Any) -> list[Source]:
    found: list[Source] = []
    for index, row in enumerate(expect(data, list, "sources")):
        where = f"sources/{index}"
        fields(row, where, ("name", "standard", "text"))
        found.append(
            Source(
                expect(row["name"], str, f"{where}/name"),
                expect(row["text"], str, f"{where}/text"),
                None,
                expect(row["standard"], bool, f"{where}/standard"),
            )
        )
    return found


def records(kind: type[Record], data: Any, where: str) -> list[Any]:
    """A list of records of one kind."""
    rows = expect(data, list, where)
    return [record(kind, row, f"{where}/{i}") for i, row in enumerate(rows)]


def record(kind: type[Record], data: Any, where: str) -> Any:
    """A record whose every field is of the kind that the schema says."""
    form = RECORDS[kind]
    fields(data, where, tuple(form))
    return kind(**{name: value(k, data[name], f"{where}/{name}") for name, k in form.items()})


def value(kind: Any, data: Any, where: str) -> Any:
    """A value of a kind of `ir/schema.py`; E-IR-003 otherwise."""
    if isinstance(kind, list):
        item: Any = kind[0]  # pyright: ignore[reportUnknownVariableType]
        return [value(item, row, f"{where}/{i}") for i, row in enumerate(expect(data, list, where))]
    if isinstance(kind, tuple):
        return None if data is None else value(kind[1], data, where)
    if isinstance(kind, type):
        return record(kind, data, where)
    return _WORDS[kind](data, where)


def _integer(data: Any, where: str, least: int = 0) -> int:
    if kind_of(data) is not int or data < least or data >= 1 << 64:
        refuse(E_IR_003, f"{where} is not an integer from {least}")
    return data


def _number(data: Any, where: str) -> float:
    if kind_of(data) not in (int, float) or not data > 0:
        refuse(E_IR_003, f"{where} is not a positive number")
    return float(data)


def _shape(data: Any, where: str) -> tuple[int, ...]:
    return tuple([_integer(n, where) for n in expect(data, list, where)])


def _pair(data: Any, where: str) -> tuple[Any, Any]:
    items = expect(data, list, where)
    if len(items) != 2 or any(kind_of(i) not in (int, float) for i in items):
        refuse(E_IR_003, f"{where} is not a pair of numbers")
    return items[0], items[1]


def _strings(data: Any, where: str) -> tuple[str, str]:
    items = expect(data, list, where)
    if (
        len(items) != 2
        or any(kind_of(i) is not str for i in items)
        or items[0] not in ("min", "max")
    ):
        refuse(E_IR_003, f'{where} is not "min" or "max" and a series')
    return items[0], items[1]


def _choice(choices: Iterable[str]) -> Any:
    allowed = tuple(choices)

    def check(data: Any, where: str) -> str:
        if kind_of(data) is not str or data not in allowed:
            refuse(E_IR_003, f"{where} is none of {' '.join(allowed)}")
        return data

    return check


def _dispatch(data: Any, where: str) -> int | str:
    return data if kind_of(data) is str and data == "auto" else _integer(data, where, 1)


def _object(data: Any, where: str) -> Any:
    return expect(data, dict, where)


def _string(data: Any, where: str) -> str:
    return expect(data, str, where)


def _count(data: Any, where: str) -> int:
    return _integer(data, where, 1)


def _boolean(data: Any, where: str) -> bool:
    return expect(data, bool, where)


_WORDS: dict[str, Any] = {
    "string": _string,
    "integer": _integer,
    "count": _count,
    "boolean": _boolean,
    "number": _number,
    "data": _object,
    "shape": _shape,
    "pair": _pair,
    "pair of strings": _strings,
    "dtype": _choice(DTYPES),
    "dispatch": _dispatch,
    **{name: _choice(choices) for name, choices in CHOICES.items()},
}


# -- references -------------------------------------------------------------------------------


def check_references(document: Document) -> None:
    """Everything that a part names is there, and the graphs have the inputs and outputs that
    their place in the document asks for; E-IR-004 otherwise."""
    graphs = document.graphs

    def graph(name: str | None, where: str) -> Graph:
        if name is None or name not in graphs:
            refuse(E_IR_004, f"{where} names a graph {name!r} that is not there")
        return graphs[name]

    def output(name: str, key: str, where: str) -> Any:
        outputs = graph(name, where).outputs
        if key not in outputs:
            refuse(E_IR_004, f"{where}: the graph {name} has no output {key!r}")
        return outputs[key]

    loaders = {loader.name for loader in document.loaders}
    for loader in document.loaders:
        for index, stage in enumerate(loader.stages):
            check_source(stage.source, f"the loader {loader.name}: stages/{index}/source")
        if not loader.stages or any(not stage.fields for stage in loader.stages):
            refuse(E_IR_004, f"the loader {loader.name} has no stage, or a stage without fields")
    if len(loaders) < len(document.loaders):
        refuse(E_IR_004, "two loaders have one name")
    if document.run.train not in loaders:
        refuse(E_IR_004, f"run/train names a loader {document.run.train!r} that is not there")
    for stage in document.loader(document.run.train).stages:
        if stage.batch % (stage.microbatches or document.run.microbatches):
            refuse(E_IR_004, f"run/microbatches does not divide the batch of {stage.name}")
    if (document.run.steps is None) == (document.run.epochs is None):
        refuse(E_IR_004, "run: exactly one of steps and epochs is given")
    groups = {g.name for g in document.groups}
    for part in (*document.parameters, *document.buffers):
        made = output(part.init, "value", f"the initial value of {part.path}")
        if made.type.shape != part.shape or made.type.dtype != part.dtype:
            refuse(E_IR_004, f"the initial value of {part.path} is {made.type}")
    paths = {p.path: p for p in document.parameters}
    if len(paths) < len(document.parameters):
        refuse(E_IR_004, "two parameters have one path")
    clip = graph("clip", "the document")
    output("clip", "grad-norm", "clip")
    stages = document.loader(document.run.train).stages
    for stage in stages:
        train = graph(f"train/{stage.name}", f"the stage {stage.name}")
        if train.name not in document.terms or not document.terms[train.name]:
            refuse(E_IR_004, f"terms has nothing for {train.name}")
        for term in document.terms[train.name]:
            output(train.name, f"loss/{term}/sum", "terms")
            output(train.name, f"loss/{term}/weight", "terms")
        if any(name.startswith("total/") for name in train.inputs):
            graph(f"weights/{stage.name}", f"the stage {stage.name}")
        for path in document.updates:
            slope = output(train.name, f"grad/{path}", f"updates/{path}")
            if path in paths and slope.type.shape != paths[path].shape:
                refuse(E_IR_004, f"updates/{path}: the gradient is {slope.type}")
    for path, update in document.updates.items():
        if path not in paths or update.group not in groups:
            refuse(E_IR_004, f"updates/{path}: no such parameter, or no such group")
        _check_update(path, update, graph)
        new = output(update.graph, "p", f"updates/{path}")
        if new.type.shape != paths[path].shape:
            refuse(E_IR_004, f"updates/{path}: the new parameter is {new.type}")
        for state in update.states:
            output(state.init, "value", f"the state {state.name} of {path}")
            output(update.graph, f"state/{state.name}", f"updates/{path}")
        if f"grad/{path}" not in clip.inputs:
            refuse(E_IR_004, f"clip has no input grad/{path}")
        output("clip", f"grad/{path}", "clip")
    for group in document.groups:
        if group.hyper is not None:
            graph(group.hyper, f"the group {group.name}")
            for name in group.schedules:
                output(group.hyper, name, f"the group {group.name}")
    _check_inputs(document)
    names = {e.name for e in document.evaluations}
    for evaluation in document.evaluations:
        if evaluation.loader not in loaders:
            refuse(E_IR_004, f"the pass {evaluation.name} names a loader that is not there")
        for name in (evaluation.graph, evaluation.rest):
            if name is not None:
                graph(name, f"the pass {evaluation.name}")
    for name in document.run.evaluations:
        if name not in names:
            refuse(E_IR_004, f"run/evaluations names a pass {name!r} that is not there")
    if len(names) < len(document.evaluations):
        refuse(E_IR_004, "two passes have one name")
    for name, listed in document.metrics.items():
        for metric in listed:
            output(name, f"metric/{metric.name}/value", "metrics")
            output(name, f"metric/{metric.name}/weight", "metrics")
            if metric.finish is not None:
                output(metric.finish, "value", f"the metric {metric.name}")


def _check_update(path: str, update: ir.Update, graph: Callable[[str | None, str], Graph]) -> None:
    """The graphs of an update take nothing that the loop could not give them."""
    where = f"updates/{path}"
    states = [f"state/{state.name}" for state in update.states]
    sums = [f"global/{k}" for k in range(len(update.sums))]
    takes = {update.graph: {"p", "g", "global/grad-norm", *states, *sums}}
    for k, name in enumerate(update.sums):
        takes[name] = {"p", "g", "global/grad-norm", *states, *sums[:k]}
        if "part" not in graph(name, where).outputs:
            refuse(E_IR_004, f"{where}: the graph {name} has no output 'part'")
    for name, given in takes.items():
        for key in graph(name, where).inputs:
            if key not in given and not key.startswith(("hyper/", "ctx/", "rng/")):
                refuse(E_IR_004, f"{where}: nothing gives the input {key!r}")
    if update.average is not None:
        average = graph(update.average, where)
        if "p" not in average.outputs or not set(average.inputs) <= {"p", *states}:
            refuse(E_IR_004, f"{where}: the graph {update.average} is no average of it")


def _check_inputs(document: Document) -> None:
    """The graphs that see a batch take nothing that the loop could not give them."""
    held = {f"param/{p.path}": p.shape for p in document.parameters}
    held |= {f"buffer/{b.path}": b.shape for b in document.buffers}
    for name, graph in document.graphs.items():
        if name.partition("/")[0] not in ("train", "weights", "eval", "predict"):
            continue
        for key, value in graph.inputs.items():
            if key.startswith(("batch/", "ctx/", "rng/", "total/", "statistic/")):
                continue
            if key == LOSS_SCALE and name.startswith("train/") and value.type == SCALAR_F32:
                continue
            if held.get(key) != value.type.shape:
                refuse(E_IR_004, f"the graph {name}: nothing gives the input {key!r}")
