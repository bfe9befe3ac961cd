"""The JSON Schema of the document, made of the form that reading checks (`ir/schema.py`).

`document.schema.json` beside this file is what it gives, kept by `make docs`. A document that it
refuses is refused when it is read; references, types of nodes and what belongs together are
checked there alone. JSON Schema takes 1.0 for an integer, reading does not.
"""

from __future__ import annotations

from typing import Any

from sexpgpu.ir import document as ir
from sexpgpu.ir.document import FORMAT, VERSION
from sexpgpu.ir.schema import CHOICES, RECORDS, optional
from sexpgpu.ir.types import DTYPES

FILE = "document.schema.json"

Schema = dict[str, Any]

_STRING: Schema = {"type": "string"}
_NATURAL: Schema = {"type": "integer", "minimum": 0}
_NUMBER: Schema = {"type": "number"}

_WORDS: dict[str, Schema] = {
    "string": _STRING,
    "integer": _NATURAL,
    "count": {"type": "integer", "minimum": 1},
    "boolean": {"type": "boolean"},
    "number": {"type": "number", "exclusiveMinimum": 0},
    "data": {"type": "object"},
    "shape": {"type": "array", "items": _NATURAL},
    "pair": {"type": "array", "items": _NUMBER, "minItems": 2, "maxItems": 2},
    "pair of strings": {
        "type": "array", "prefixItems": [{"enum": ["min", "max"]}, _STRING], "items": False,
        "minItems": 2,
    },
    "dtype": {"enum": list(DTYPES)},
    "dispatch": {"anyOf": [{"const": "auto"}, {"type": "integer", "minimum": 1}]},
    **{name: {"enum": list(choices)} for name, choices in CHOICES.items()},
}  # fmt: skip

_DESCRIPTIONS = {
    "graph": "Values are numbered by position: inputs first, then the results of each node.",
    "node": "A node with one result has its type in itself, others have `results`.",
    "attribute": "A JSON number is a float exactly when it has a point or an exponent.",
    "origin": "Spans are [source, start, end], expansions [macro, span].",
}


def document_schema() -> Schema:
    """The schema (draft 2020-12) of a whole document."""
    properties: Schema = {
        "format": {"const": FORMAT},
        "version": {"const": VERSION},
        "manifest": {"type": "object"},
        "sources": _list(
            _object({"name": _STRING, "text": _STRING, "standard": {"type": "boolean"}})
        ),
        "origins": _list(_ref("origin")),
        "run": _ref("Run"),
        "loaders": _list(_ref("Loader")),
        "parameters": _list(_ref("Parameter")),
        "buffers": _list(_ref("Buffer")),
        "groups": _list(_ref("Group")),
        "updates": _map(_ref("Update")),
        "graphs": _map(_ref("graph")),
        "evaluations": _list(_ref("Evaluation")),
        "metrics": _map(_list(_ref("Metric"))),
        "terms": _map(_list(_STRING)),
        "counters": _list(_STRING),
        "curriculum": _kind(optional(ir.Curriculum)),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"A {FORMAT} document, version {VERSION}",
        **_object(properties),
        "$defs": {**_graphs(), **{kind.__name__: _record(kind) for kind in RECORDS}},
    }


def schema_text() -> str:
    """The text of the file."""
    from json import dumps

    return dumps(document_schema(), indent=1, ensure_ascii=False) + "\n"


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _object(properties: Schema, optional: Schema | None = None) -> Schema:
    """An object with these fields, perhaps the optional ones, and no other."""
    return {
        "type": "object",
        "properties": {**properties, **(optional or {})},
        "required": list(properties),
        "additionalProperties": False,
    }


def _record(kind: type[ir.Record]) -> Schema:
    return _object({name: _kind(form) for name, form in RECORDS[kind].items()})


def _kind(kind: Any) -> Schema:
    if isinstance(kind, list):
        return _list(_kind(kind[0]))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(kind, tuple):
        return {"anyOf": [{"type": "null"}, _kind(kind[1])]}  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(kind, type):
        return _ref(kind.__name__)
    return _WORDS[kind]


def _graphs() -> Schema:
    """Graphs, nodes, types, attributes and origins (`ir/serial.py`)."""
    span: Schema = {"type": "array", "items": _NATURAL, "minItems": 3, "maxItems": 3}
    type = {"shape": _WORDS["shape"], "dtype": _WORDS["dtype"]}
    batch = {"batch_axis": _NATURAL}
    node = _object(
        {"op": _STRING, "inputs": _list(_NATURAL), "attrs": _map(_ref("attribute"))},
        {
            **type,
            **batch,
            "results": _list(_object(type, batch)),
            "numerics": _STRING,
            "origin": _NATURAL,
        },
    )
    node["oneOf"] = [{"required": list(type)}, {"required": ["results"]}]
    made: Schema = {
        "graph": _object(
            {
                "name": _STRING,
                "inputs": _list(_object({"name": _STRING, **type}, batch)),
                "nodes": _list(_ref("node")),
                "outputs": _list(_object({"name": _STRING, "value": _NATURAL})),
            }
        ),
        "node": node,
        "attribute": {
            "anyOf": [
                {"type": ["number", "boolean", "null", "string"]},
                _list(_ref("attribute")),
                _object({"float": {"enum": ["nan", "inf", "-inf"]}}),
                _object({"graph": _ref("graph")}),
            ]
        },
        "origin": _object(
            {},
            {
                "span": span,
                "calls": _list(span),
                "expansions": _list(
                    {"type": "array", "prefixItems": [_STRING, span], "items": False, "minItems": 2}
                ),
                "path": _STRING,
                "note": _STRING,
            },
        ),
    }
    return {name: {"description": _DESCRIPTIONS[name], **form} for name, form in made.items()}


# -- the table of the documentation ---------------------------------------------------------------


def said(kind: Any) -> str:
    """A kind of field in words: `list of string`, `count or null`."""
    if isinstance(kind, list):
        return f"list of {said(kind[0])}"  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(kind, tuple):
        return f"{said(kind[1])} or null"  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(kind, type):
        return kind.__name__
    if kind in CHOICES:
        return " or ".join(f'"{choice}"' for choice in CHOICES[kind])
    words: dict[str, str] = {
        "dispatch": 'count or "auto"',
        "pair of strings": '"min" or "max" and a series',
        "data": "object",
    }
    return words.get(kind, str(kind))
