"""The whole document as canonical JSON and back, exactly; its hash.

Reading refuses whatever is not a sound document: every record's form, every reference between
the parts, every graph's types. Given the ops' inference, so that this package needs no ops.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sexpgpu.diagnostics.codes.tensor import E_IR_002, E_IR_003
from sexpgpu.ir import document as ir
from sexpgpu.ir.document import FORMAT, VERSION, Document, Record, is_diagnostic
from sexpgpu.ir.graph import Graph, Infer, kind_of
from sexpgpu.ir.references import check_references
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
from sexpgpu.ir.types import DTYPES
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
        "curriculum": None if document.curriculum is None else document.curriculum.to_json(),
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
        refuse(E_IR_002, f"this is not a document of the format {FORMAT!r}")
    if data.get("version") != VERSION or kind_of(data["version"]) is not int:
        refuse(
            E_IR_002,
            f"the document has version {data.get('version')!r}; this program reads {VERSION}",
        )
    names = (
        "counters", "curriculum", "format", "graphs", "manifest", "metrics", "origins", "run",
        "sources", "terms", "updates", "version", *LISTS,
    )  # fmt: skip
    fields(data, "document", names)
    _check_finite(data)
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
        curriculum=value(("optional", ir.Curriculum), data["curriculum"], "curriculum"),
        **{name: records(kind, data[name], name) for name, kind in LISTS.items()},
    )
    for graph in graphs.values():
        verify(graph, infer)
    check_references(document)
    return document


def _check_finite(data: dict[str, Any]) -> None:
    """E-IR-003 for a number beyond all floats where none may be: it could not be written again."""
    try:
        canonical({name: data[name] for name in data if name not in ("graphs", "sources")})
    except ValueError:
        refuse(E_IR_003, "the document has a number that is not finite outside of its graphs")


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
