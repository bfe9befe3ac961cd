"""Graphs as JSON: exact both ways, canonical, and refused with a code when damaged."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampled_graphs import LIBRARY, SOURCE, attempt, graphs

from sexpgpu.diagnostics.model import SxError
from sexpgpu.ir.graph import Builder, Graph
from sexpgpu.ir.serial import (
    OriginTable,
    canonical,
    graph_from_json,
    graph_to_json,
    origins_from_json,
    parse_json,
)
from sexpgpu.ir.types import TensorType
from sexpgpu.ir.verify import verify
from sexpgpu.ops import infer, new_builder
from sexpgpu.source import Origin, Span


def sound(graph: Graph) -> Graph:
    verify(graph, infer)
    return graph


def written(graph: Graph) -> tuple[str, str]:
    table = OriginTable([SOURCE, LIBRARY])
    data = graph_to_json(graph, table)
    return canonical(data), canonical(table.rows)


@given(graphs())
def test_json_and_back(graph: Graph) -> None:
    text, rows = written(graph)
    origins = origins_from_json(parse_json(rows), [SOURCE, LIBRARY])
    again = graph_from_json(parse_json(text), origins)
    verify(again, infer)
    assert written(again) == (text, rows)
    for a, b in zip(graph.nodes, again.nodes, strict=True):
        assert a.op == b.op
        assert a.numerics == b.numerics
        assert shown(a.origin) == shown(b.origin)
        assert repr(sorted(a.attrs.items())) == repr(sorted(b.attrs.items()))
        assert [v.type for v in a.results] == [v.type for v in b.results]
    assert list(graph.outputs) == list(again.outputs)


def shown(origin: Origin) -> str:
    return repr([origin.span, origin.calls, origin.expansions, origin.path, origin.note])


def test_origins_are_left_out_of_a_hash() -> None:
    def graph(origin: Origin) -> Graph:
        b = new_builder(origin)
        return b.finish("g", {"y": b.emit("neg", b.input("x", TensorType((2,), "f32")))})

    one, two = graph(Origin(Span(SOURCE, 0, 3))), graph(Origin(Span(SOURCE, 4, 6), path="a"))
    assert canonical(graph_to_json(one)) == canonical(graph_to_json(two))
    assert written(one) != written(two)


def test_equal_origins_are_stored_once() -> None:
    table = OriginTable()
    assert table.add(Origin(None, note="a")) == table.add(Origin(None, note="a")) == 0
    assert table.add(Origin(None, note="b")) == 1
    assert table.rows == [{"note": "a"}, {"note": "b"}]


def test_numbers_are_exact() -> None:
    numbers = (math.nan, math.inf, -math.inf, -0.0, 5e-324, 0.1, 1, 1.0, (1 << 64) - 1, -(1 << 90))
    b = Builder(lambda op, types, attrs: (TensorType((), "f32"),))
    graph = b.finish("g", {"x": b.emit("anything", numbers=numbers, flag=True, none=None, one=1)})
    text = canonical(graph_to_json(graph))
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    (node,) = graph_from_json(parse_json(text)).nodes
    assert list(map(repr, node.attrs["numbers"])) == list(map(repr, numbers))
    assert node.attrs["flag"] is True
    assert node.attrs["one"] is not True
    assert node.attrs["none"] is None


def test_several_results_and_graphs_within() -> None:
    inner = Builder(infer)
    x = inner.input("x", TensorType((2,), "f32"))
    body = inner.finish("body", {"y": inner.emit("neg", x)})
    b = Builder(lambda op, types, attrs: (TensorType((2,), "f32", 0), TensorType((), "i32")))
    a, c = b.node("scan", (b.input("a", x.type),), {"body": body}).results
    data = graph_to_json(b.finish("outer", {"a": a, "c": c}))
    assert data["nodes"][0]["results"][0] == {"shape": [2], "dtype": "f32", "batch_axis": 0}
    again = graph_from_json(parse_json(canonical(data)))
    assert canonical(graph_to_json(again)) == canonical(data)


@pytest.mark.parametrize(
    "text, code",
    [
        ("{", "E-IR-001"),
        ("[1, NaN]", "E-IR-001"),
        ("9" * 5000, "E-IR-001"),
        (b"\xff", "E-IR-001"),
        ("[" * 100_000, "E-IR-006"),
        ('{"a": 1, "a": 2}', "E-IR-008"),
        ('["\\ud800"]', "E-IR-001"),
    ],
    ids=["cut", "nan", "digits", "bytes", "deep", "twice", "surrogate"],
)
def test_what_is_no_json_is_refused(text: str | bytes, code: str) -> None:
    with pytest.raises(SxError, match=r".") as caught:
        parse_json(text)
    assert caught.value.diagnostics[0].code.id == code


# -- damage -------------------------------------------------------------------------------------

JUNK: list[Any] = [
    None, True, False, 0, 1, -1, 1 << 70, 1.5, 1e308, "", "f32", "x", [], {}, [1], [[[]]],
    {"float": "nan"}, {"graph": {}}, {"float": 1},
]  # fmt: skip


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every part of some JSON data."""
    found = [path]
    if type(data) is dict:
        for key, item in data.items():
            found += places(item, (*path, key))
    elif type(data) is list:
        for index, item in enumerate(data):
            found += places(item, (*path, index))
    return found


def damaged(data: Any, path: tuple[Any, ...], how: str, junk: Any) -> Any:
    if not path:
        return junk
    data = copy.deepcopy(data)
    at = data
    for key in path[:-1]:
        at = at[key]
    key = path[-1]
    if how == "drop":
        del at[key]
    elif how == "retype":
        at[key] = junk
    elif how == "double":
        if type(at) is list:
            at.insert(key, at[key])
        else:
            at[f"{key}2"] = at[key]
    elif type(at[key]) is int:
        at[key] += 1
    elif type(at[key]) is str:
        at[key] += "s"
    elif type(at[key]) is list:
        at[key].reverse()
    return data


@given(graphs(), st.data())
def test_damage_is_refused_or_harmless(graph: Graph, data: st.DataObject) -> None:
    """Never another exception; and what is accepted is a sound graph that writes as it reads."""
    text, rows = written(graph)
    origins = origins_from_json(parse_json(rows), [SOURCE, LIBRARY])
    plain = parse_json(text)
    for _ in range(6):
        path = data.draw(st.sampled_from(places(plain)))
        how = data.draw(st.sampled_from(["drop", "retype", "double", "nudge"]))
        broken = damaged(plain, path, how, data.draw(st.sampled_from(JUNK)))
        again, codes = attempt(lambda broken=broken: sound(graph_from_json(broken, origins)))
        assert all(code.startswith("E-IR-") for code in codes)
        if again is None:
            assert codes
        else:
            text = canonical(graph_to_json(again))
            assert canonical(graph_to_json(graph_from_json(parse_json(text)))) == text


@given(graphs(), st.data())
def test_damaged_origins_are_refused_or_harmless(graph: Graph, data: st.DataObject) -> None:
    _, rows = written(graph)
    plain = parse_json(rows)
    path = data.draw(st.sampled_from(places(plain)))
    how = data.draw(st.sampled_from(["drop", "retype", "double", "nudge"]))
    broken = damaged(plain, path, how, data.draw(st.sampled_from(JUNK)))
    origins, codes = attempt(lambda: origins_from_json(broken, [SOURCE, LIBRARY]))
    assert all(code.startswith("E-IR-") for code in codes)
    assert bool(codes) == (origins is None)
    for origin in origins or ():
        assert origin.user_span is None or origin.user_span.line >= 1


@pytest.mark.parametrize("at", range(0, 300, 7))
def test_a_cut_document_is_refused(at: int) -> None:
    b = new_builder()
    x = b.input("x", TensorType((2, 3), "f32", 0))
    graph = b.finish("g", {"y": b.emit("sum", b.emit("exp", x), axes=(1,))})
    text = canonical(graph_to_json(graph, OriginTable()))
    assert len(text) > 300
    with pytest.raises(SxError, match=r"."):
        parse_json(text[:at])
