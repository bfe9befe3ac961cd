"""Verification: what is unsound is refused, with the code of its kind and the node's place."""

from __future__ import annotations

import pytest
from hypothesis import given
from sampled_graphs import SOURCE, graphs

from sexpgpu.diagnostics.model import SxError
from sexpgpu.ir.graph import Graph, Node, Value
from sexpgpu.ir.types import TensorType
from sexpgpu.ir.verify import Limits, verify
from sexpgpu.ops import infer
from sexpgpu.source import Origin, Span

HERE = Origin(Span(SOURCE, 19, 30))
T = TensorType((2, 3), "f32", 0)


def refused(graph: Graph, limits: Limits | None = None) -> tuple[str, str]:
    with pytest.raises(SxError, match=r".") as caught:
        verify(graph, infer, limits or Limits())
    (diagnostic,) = caught.value.diagnostics
    if ", node " in diagnostic.headline:
        assert diagnostic.span == HERE.span
    return diagnostic.code.id, diagnostic.headline


def one(
    op: str = "neg", type: TensorType = T, attrs: dict | None = None, numerics: str | None = None
) -> Graph:
    x, y = Value(T), Value(type)
    return Graph("g", {"x": x}, [Node(op, (x,), attrs or {}, (y,), HERE, numerics)], {"y": y})


@given(graphs())
def test_what_is_built_is_sound(graph: Graph) -> None:
    verify(graph, infer)


def test_types_are_inferred_again() -> None:
    verify(one(), infer)
    for wrong in (T._replace(dtype="f64"), T._replace(shape=(3, 2)), T._replace(batch=None)):
        code, headline = refused(one(type=wrong))
        assert code == "E-IR-005"
        assert headline.startswith("graph g, node 0 (neg): gives f32 (2 3)")


def test_ops_and_attributes_are_checked() -> None:
    assert refused(one("frobnicate"))[0] == "E-IR-007"
    assert refused(one(attrs={"axis": 1}))[0] == "E-IR-007"
    assert refused(one("sum", attrs={"axes": (5,)})) == (
        "E-IR-007",
        "graph g, node 0 (sum): sum: axis 5 of a tensor of rank 2, f32 (2 3)",
    )
    assert refused(one(numerics="compute=f8"))[0] == "E-IR-003"


def test_results_are_counted() -> None:
    x, y, z = Value(T), Value(T), Value(T)
    graph = Graph("g", {"x": x}, [Node("neg", (x,), {}, (y, z), HERE)], {"y": y})
    assert refused(graph)[0] == "E-IR-005"


def test_references_go_backwards() -> None:
    x, y, z = Value(T), Value(T), Value(T)
    nodes = [Node("neg", (z,), {}, (y,), HERE), Node("neg", (x,), {}, (z,), HERE)]
    assert refused(Graph("g", {"x": x}, nodes, {"y": y}))[0] == "E-IR-004"
    assert refused(Graph("g", {"x": x}, [], {"y": y}))[0] == "E-IR-004"


def test_a_value_is_defined_once() -> None:
    x, y = Value(T), Value(T)
    node = Node("neg", (x,), {}, (y,), HERE)
    assert refused(Graph("g", {"x": x}, [node, node], {"y": y}))[0] == "E-IR-008"
    assert refused(Graph("g", {"x": x, "z": x}, [], {"y": x}))[0] == "E-IR-008"


@pytest.mark.parametrize(
    "type", [TensorType((2,), "f8"), TensorType((-1,), "f32"), TensorType((2,), "f32", 1)]
)
def test_input_types_are_checked(type: TensorType) -> None:
    x = Value(type)
    assert refused(Graph("g", {"x": x}, [], {"y": x}))[0] == "E-IR-003"


def test_limits() -> None:
    assert refused(one(), Limits(nodes=0))[0] == "E-IR-006"
    assert refused(one(), Limits(nbytes=8))[0] == "E-IR-006"
    deep: tuple = ()
    for _ in range(9):
        deep = (deep,)
    assert refused(one(attrs={"axes": deep}), Limits(nesting=4))[0] == "E-IR-006"
    graph = one()
    for _ in range(6):
        graph = one(attrs={"body": graph})
    assert refused(graph, Limits(nesting=3))[0] == "E-IR-006"
