"""The text form: what is printed reads back as the same graph; damaged text is refused."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampled_graphs import SOURCE, attempt, graphs

from sexpgpu.diagnostics.model import SxError
from sexpgpu.ir.graph import Builder, Graph
from sexpgpu.ir.serial import canonical, graph_to_json
from sexpgpu.ir.text import parse_graph, print_graph
from sexpgpu.ir.types import TensorType
from sexpgpu.ir.verify import verify
from sexpgpu.ops import infer, new_builder
from sexpgpu.source import Origin, Span

GOLDEN = Path(__file__).parents[2] / "golden" / "ir"


def sound(graph: Graph) -> Graph:
    verify(graph, infer)
    return graph


def meaning(graph: Graph) -> str:
    return canonical(graph_to_json(graph))


@given(graphs())
def test_print_and_parse_are_inverse(graph: Graph) -> None:
    text = print_graph(graph)
    again = parse_graph(text)
    verify(again, infer)
    assert meaning(again) == meaning(graph)
    assert print_graph(again, origins=False) == print_graph(graph, origins=False)


def test_every_number_reads_back_exactly() -> None:
    numbers = (
        math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1.7976931348623157e308, 0.1, 1e22, 3, -3,
        (1 << 63) + 1, 1.0,
    )  # fmt: skip
    b = Builder(lambda op, types, attrs: (TensorType((), "f32"),))
    node = b.node("anything", (), {"numbers": numbers, "flags": (True, False, None), "s": 'a\n"\\'})
    (again,) = parse_graph(print_graph(b.finish("g", {"x": node.result}))).nodes
    assert list(map(repr, again.attrs["numbers"])) == list(map(repr, numbers))
    assert again.attrs["flags"] == (True, False, None)
    assert again.attrs["s"] == 'a\n"\\'


def test_a_graph_within_a_graph_reads_back() -> None:
    inner = Builder(infer)
    x = inner.input("x", TensorType((2,), "f32"))
    body = inner.finish("body", {"y": inner.emit("neg", x)})
    b = Builder(lambda op, types, attrs: (TensorType((2,), "f32"), TensorType((), "i32")))
    a, c = b.node("scan", (b.input("a", x.type),), {"body": body, "length": 3}).results
    text = print_graph(b.finish("outer", {"a": a, "c": c}))
    again = parse_graph(text)
    assert print_graph(again) == text
    assert type(again.nodes[0].attrs["body"]) is Graph
    assert len(again.nodes[0].results) == 2


def test_golden_text(golden) -> None:
    b = new_builder(Origin(Span(SOURCE, 19, 40), path="body/0"))
    x = b.input("batch/x", TensorType((4, 3), "f32", 0))
    w = b.input("param/two words", TensorType((3, 2), "f32"))
    y = b.emit(
        "dot", x, w, a_contract=(1,), b_contract=(0,), a_batch=(), b_batch=(), accumulate=None,
        mode="highest",
    )  # fmt: skip
    b.numerics = "compute=f32"
    b.origin = b.origin.derived("gradient")
    total = b.emit("mean", b.emit("exp", y), axes=(0, 1))
    scale = b.emit("full", shape=(), value=float("inf"), dtype="f32", batch=None)
    graph = b.finish("train/0", {"loss/objective/sum": b.emit("mul", total, scale), "out/0": y})
    golden(GOLDEN / "text.ir", print_graph(graph))


REFUSED = [
    ("", "there is no graph"),
    ("(graph", "this list is not closed"),
    ('(graph "g" (inputs) (nodes) (outputs)) x', "text after the graph"),
    ('(graph g (inputs) (nodes) (outputs))', "wanted (graph NAME"),
    ('(graph "g" (inputs) (nodes (%0 (f32 ()) (neg %x))) (outputs))', "%x is not defined before"),
    ('(graph "g" (inputs (%x (f32 ())) (%x (f32 ()))) (nodes) (outputs))', "another value %x"),
    ('(graph "g" (inputs (%0 (f32 ()))) (nodes) (outputs))', "an input is named"),
    ('(graph "g" (inputs (%x (f33 ()))) (nodes) (outputs))', "a type is"),
    ('(graph "g" (inputs (%x (f32 (-1)))) (nodes) (outputs))', "a list of sizes"),
    ('(graph "g" (inputs (%x (f32 (2) :batch 1))) (nodes) (outputs))', "an axis of the shape"),
    ('(graph "g" (inputs) (nodes (%0 (f32 ()) (full :value 1x))) (outputs))', "is no attribute"),
    ('(graph "g" (inputs) (nodes (%0 (f32 ()) (full :a 1 :a 1))) (outputs))', "another attribute"),
    ('(graph "g" (inputs) (nodes (%0 (f32 ()) (full :a))) (outputs))', "wanted :ATTRIBUTE VALUE"),
    ('(graph "g (inputs) (nodes) (outputs))', "this string is not closed"),
    ('(graph "\\q" (inputs) (nodes) (outputs))', "no such escape"),
    ("(" * 1000, "nested too deeply"),
]  # fmt: skip


@pytest.mark.parametrize("text, message", REFUSED, ids=range(len(REFUSED)))
def test_what_does_not_read_is_refused_at_its_place(text: str, message: str) -> None:
    with pytest.raises(SxError, match=r".") as caught:
        parse_graph(text)
    (diagnostic,) = caught.value.diagnostics
    assert message in diagnostic.headline
    assert diagnostic.code.id.startswith("E-IR-")
    assert diagnostic.span is not None


@given(graphs(places=False), st.data())
def test_damaged_text_is_refused_or_reads(graph: Graph, data: st.DataObject) -> None:
    text = print_graph(graph)
    at = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(at, min(len(text), at + 9)))
    patch = data.draw(st.sampled_from(["", "(", ")", '"', "%", "0", "-", " ", ":", "nan", ";"]))
    again, codes = attempt(lambda: sound(parse_graph(text[:at] + patch + text[end:])))
    assert all(code.startswith("E-IR-") for code in codes)
    if again is None:
        assert codes
    else:
        assert meaning(parse_graph(print_graph(again))) == meaning(again)
