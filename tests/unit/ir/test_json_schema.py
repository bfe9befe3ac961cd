"""The published schema: documents obey it, and what does not is not read either."""

from __future__ import annotations

import copy
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

import sexpgpu as sx
from sexpgpu.diagnostics.model import SxError
from sexpgpu.ir.document_json import document_text, read_document
from sexpgpu.ir.json_schema import FILE, schema_text
from sexpgpu.ops import infer

EXAMPLES = Path(__file__).parents[3] / "examples"
SCHEMA = json.loads((files("sexpgpu") / "ir" / FILE).read_text("utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)


def document(name: str, **knobs: Any) -> Any:
    return json.loads(document_text(sx.compile(str(EXAMPLES / f"{name}.sx"), **knobs).document))


def test_the_file_is_what_the_records_say() -> None:
    assert json.loads(schema_text()) == SCHEMA, "run `make docs`"
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", ["line", "maml", "digits-gan", "gru-char"])
def test_documents_obey_it(name: str) -> None:
    errors = list(VALIDATOR.iter_errors(document(name)))
    assert not errors, errors[0]


LINE = document("line")
JUNK: list[Any] = [
    None, True, -1, 0, 3, 1.5, "x", "", [], {}, [1], [[1, 2, 3]], {"a": 1}, {"float": "nan"},
]  # fmt: skip


def places(data: Any, path: tuple[Any, ...] = ()) -> Any:
    yield path
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in items:
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))
        else:
            yield (*path, key)


PLACES = [path for path in places(LINE) if path and path[0] not in ("manifest", "sources")]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(PLACES), st.sampled_from(["drop", "set", "add"]), st.sampled_from(JUNK))
def test_what_it_refuses_is_not_read(place: Any, how: str, junk: Any) -> None:
    data = copy.deepcopy(LINE)
    at = data
    for key in place[:-1]:
        at = at[key]
    if how == "drop":
        del at[place[-1]]
    elif how == "set":
        at[place[-1]] = junk
    elif isinstance(at, dict):
        at["another"] = junk
    else:
        at.append(junk)
    if VALIDATOR.is_valid(data):
        return
    with pytest.raises(SxError) as refused:
        read_document(json.dumps(data), infer)
    assert refused.value.diagnostics[0].code.id.startswith("E-IR-")
