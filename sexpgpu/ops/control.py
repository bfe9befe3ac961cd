"""Ops that run a graph of their own, their body, as a part of the graph they stand in.

A body takes everything it uses as inputs, in the order of the operands; its inputs and outputs go
by place, their names are for people. Their derivatives are made of the bodies' (`passes/`), not
here. Knows no backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sexpgpu.diagnostics.codes.tensor import (
    E_OP_001,
    E_OP_005,
    E_SHAPE_001,
    E_SHAPE_005,
    E_SHAPE_008,
)
from sexpgpu.ir.graph import Attrs, Graph, Node, Value
from sexpgpu.ir.types import ANY, FLOATS, TensorType
from sexpgpu.ops.cost import moved, movement
from sexpgpu.ops.rules import check_shape, merged_batch
from sexpgpu.ops.samples import f32
from sexpgpu.ops.schema import OfBody, OpDef, OpError, Reject, Sample, Types, define
from sexpgpu.ops.totals import graph_cost
from sexpgpu.source import NOWHERE


def runs_of(node: Node) -> list[tuple[Graph, int]]:
    """The graphs that a node runs, and how often each."""
    if node.op == "scan":
        return [(node.attrs["body"], node.attrs["length"])]
    return [(node.attrs["body"], 1)] if node.op == "recompute" else []


# -- scan ---------------------------------------------------------------------------------------


class ScanParts:
    """How the operands, results and body of a scan are divided.

    operands   carries, sequences [length, …], captured
    body       inputs: a carry, an element of each sequence, captured; outputs: carries, elements
    results    carries after the last iteration, stacked elements [length, …]
    """

    __slots__ = ("body", "carries", "inputs", "outputs", "sequences")

    def __init__(self, attrs: Attrs) -> None:
        self.body: Graph = attrs["body"]
        self.carries: int = attrs["carries"]
        self.sequences: int = attrs["sequences"]
        self.inputs = list(self.body.inputs.values())
        self.outputs = list(self.body.outputs.values())

    @property
    def first_captured(self) -> int:
        return self.carries + self.sequences


def element_type(sequence: TensorType) -> TensorType:
    """The type of a sequence's elements. When the examples lie along the axis that is scanned, an
    element has no axis of them."""
    batch = sequence.batch
    return TensorType(
        sequence.shape[1:], sequence.dtype, None if batch is None or batch == 0 else batch - 1
    )


def stacked_type(element: TensorType, length: int) -> TensorType:
    """The type of `length` elements along a new first axis."""
    batch = None if element.batch is None else element.batch + 1
    return TensorType((length, *element.shape), element.dtype, batch)


def _infer_scan(types: Types, attrs: Attrs) -> Types:
    parts = ScanParts(attrs)
    carries, sequences, length = parts.carries, parts.sequences, attrs["length"]
    if min(carries, sequences, length) < 0 or len(types) < carries + sequences:
        raise OpError(
            E_OP_001,
            f"scan: {carries} carries and {sequences} sequences of length {length}, "
            f"{len(types)} operands given",
        )
    wanted = list(types)
    for place in range(carries, carries + sequences):
        if types[place].rank == 0:
            raise OpError(
                E_SHAPE_005, f"scan: a scalar has no axis to scan, {types[place]}", operand=place
            )
        if types[place].shape[0] != length:
            raise OpError(
                E_SHAPE_001,
                f"scan: a sequence of length {types[place].shape[0]} in a scan of length {length}",
                operand=place,
            )
        wanted[place] = element_type(types[place])
    check_body("scan", parts.body, wanted)
    outputs = parts.outputs
    if len(outputs) < carries:
        raise OpError(E_OP_005, f"scan: the body gives {len(outputs)} of {carries} carries")
    results: list[TensorType] = []
    for place, output in enumerate(outputs):
        if place >= carries:
            stacked = stacked_type(output.type, length)
            check_shape("scan", stacked.shape)
            results.append(stacked)
            continue
        given = types[place]
        if not output.type.same_value(given):
            raise OpError(
                E_OP_005,
                f"scan: carry {place} is {given} before an iteration and {output.type} after it",
                operand=place,
            )
        results.append(given._replace(batch=merged_batch(given.batch, output.type.batch)))
    return tuple(results)


def check_body(name: str, body: Graph, types: list[TensorType]) -> None:
    """Refuse a body whose inputs are not of these types."""
    inputs = list(body.inputs.values())
    if len(inputs) != len(types):
        raise OpError(
            E_OP_005, f"{name}: the body has {len(inputs)} inputs, {len(types)} are given"
        )
    for place, (input, type) in enumerate(zip(inputs, types, strict=True)):
        if not input.type.same_value(type):
            raise OpError(
                E_OP_005,
                f"{name}: input {place} of the body is {input.type}, {type} is given",
                operand=place,
            )


def _cost_scan(types: Types, results: Types, attrs: Attrs) -> tuple[int, int]:
    flops, nbytes = graph_cost(attrs["body"])
    return attrs["length"] * flops, max(attrs["length"] * nbytes, moved(types, results))


def _sample_body(extent: int = 2) -> Graph:
    """carry, x, w -> carry * w + x; the old carry."""
    types = [TensorType((extent,), "f32")] * 3
    carry, x, w = inputs = [Value(type) for type in types]
    product, added = Value(types[0]), Value(types[0])
    nodes = [
        Node("mul", (carry, w), {}, (product,), NOWHERE),
        Node("add", (product, x), {}, (added,), NOWHERE),
    ]
    names = ("carry/0", "x/0", "outer/0")
    return Graph(
        "scan", dict(zip(names, inputs, strict=True)), nodes, {"carry/0": added, "y/0": carry}
    )


_BODY = _sample_body()
_SCAN = {"body": _BODY, "carries": 1, "sequences": 1, "length": 3, "reverse": False}

SCAN = define(
    OpDef(
        name="scan",
        doc="Runs the body `length` times: it takes the carries, an element of each sequence "
        "[length, ...] and the captured operands, and gives new carries and elements of the "
        "results [length, ...]. `reverse`: from the last element to the first.",
        operands=(ANY,),
        attrs={
            "body": "graph",
            "carries": "int",
            "sequences": "int",
            "length": "int",
            "reverse": "bool",
        },
        infer=_infer_scan,
        vjp=OfBody(),
        precision="body",
        cost=_cost_scan,
        samples=(
            Sample(f32(2), f32(3, 2), f32(2), attrs=_SCAN),
            Sample(f32(2), f32(3, 2), f32(2), attrs={**_SCAN, "reverse": True}),
            Sample(f32(2), f32(0, 2), f32(2), attrs={**_SCAN, "length": 0}),
            Sample(f32(2), f32(1, 2), f32(2), attrs={**_SCAN, "length": 1}),
        ),
        rejects=(
            Reject(E_OP_005, f32(3), f32(3, 3), f32(3), **_SCAN),
            Reject(E_OP_005, f32(2), f32(3, 2), **_SCAN),
            Reject(E_SHAPE_001, f32(2), f32(4, 2), f32(2), **_SCAN),
            Reject(E_SHAPE_005, f32(2), f32(), f32(2), **_SCAN),
            Reject(E_SHAPE_008, f32(2), f32(1 << 40, 2), f32(2), **{**_SCAN, "length": 1 << 40}),
            Reject(E_OP_001, f32(2), f32(3, 2), f32(2), **{**_SCAN, "length": -1}),
            Reject(E_OP_001, f32(2), **{**_SCAN, "carries": 3}),
            Reject(E_OP_001, f32(2), f32(3, 2), f32(2), **{**_SCAN, "body": "scan"}),
            Reject(
                E_OP_005,
                f32(2),
                f32(3, 2),
                f32(2),
                **{
                    **_SCAN,
                    "body": Graph("scan", _BODY.inputs, (), {}),
                },
            ),
        ),
        variadic=True,
    )
)


# -- recompute ----------------------------------------------------------------------------------


def _infer_recompute(types: Types, attrs: Attrs) -> Types:
    body: Graph = attrs["body"]
    if not 0 <= attrs["arguments"] <= len(types):
        raise OpError(E_OP_001, f"recompute: {attrs['arguments']} of {len(types)} operands")
    check_body("recompute", body, list(types))
    return tuple([value.type for value in body.outputs.values()])


def _cost_recompute(types: Types, results: Types, attrs: Attrs) -> tuple[int, int]:
    flops, nbytes = graph_cost(attrs["body"])
    return flops, max(nbytes, moved(types, results))


def _sample_recomputed() -> Graph:
    """x, w -> x * w."""
    type = TensorType((2,), "f32")
    x, w, y = Value(type), Value(type), Value(type)
    nodes = [Node("mul", (x, w), {}, (y,), NOWHERE)]
    return Graph("recompute", {"argument/0": x, "outer/0": w}, nodes, {"value/0": y})


_RECOMPUTE = {"body": _sample_recomputed(), "arguments": 1, "again": False}

RECOMPUTE = define(
    OpDef(
        name="recompute",
        doc="Runs the body once. Its reverse is one too, which runs the forward part `again` in "
        "place of keeping what that gave; compilers may not share the two runs. The first "
        "`arguments` operands hold them apart.",
        operands=(ANY,),
        attrs={"body": "graph", "arguments": "int", "again": "bool"},
        infer=_infer_recompute,
        vjp=OfBody(),
        precision="body",
        cost=_cost_recompute,
        samples=(
            Sample(f32(2), f32(2), attrs=_RECOMPUTE),
            Sample(f32(2), f32(2), attrs={**_RECOMPUTE, "again": True}),
        ),
        rejects=(
            Reject(E_OP_005, f32(3), f32(3), **_RECOMPUTE),
            Reject(E_OP_005, f32(2), **_RECOMPUTE),
            Reject(E_OP_001, f32(2), f32(2), **{**_RECOMPUTE, "arguments": 3}),
        ),
        variadic=True,
    )
)


# -- custom-vjp ---------------------------------------------------------------------------------


class CustomParts:
    """How the operands of a custom-vjp are divided.

    operands   results of the forward function, its arguments, residuals (what the body of the
               derivative takes before the cotangents of the results), other tensors that the
               forward function used
    body       inputs: residuals, cotangents of the float results; outputs: cotangents of the
               arguments whose places are `given`
    """

    __slots__ = ("arguments", "body", "given", "others", "residuals", "results")

    def __init__(self, operands: Sequence[Any], attrs: Attrs) -> None:
        first = attrs["results"]
        second = first + attrs["arguments"]
        third = second + attrs["residuals"]
        self.results = operands[:first]
        self.arguments = operands[first:second]
        self.residuals = operands[second:third]
        self.others = operands[third:]
        self.body: Graph = attrs["body"]
        self.given: tuple[int, ...] = attrs["given"]


def _infer_custom(types: Types, attrs: Attrs) -> Types:
    counts = (attrs["results"], attrs["arguments"], attrs["residuals"])
    if min(counts) < 0 or sum(counts) > len(types):
        raise OpError(E_OP_001, f"custom-vjp: {counts} of {len(types)} operands")
    parts = CustomParts(types, attrs)
    cotangents = [type for type in parts.results if type.dtype in FLOATS]
    check_body("custom-vjp", parts.body, [*parts.residuals, *cotangents])
    outputs = list(parts.body.outputs.values())
    given = parts.given
    if len(outputs) != len(given) or any(at >= len(parts.arguments) for at in given):
        raise OpError(E_OP_005, f"custom-vjp: {len(outputs)} cotangents of arguments {given}")
    for at, output in zip(given, outputs, strict=True):
        if not output.type.same_value(parts.arguments[at]):
            raise OpError(
                E_OP_005,
                f"custom-vjp: argument {at} is {parts.arguments[at]}, its cotangent {output.type}",
            )
    return tuple(parts.results)


def _sample_backward() -> Graph:
    """residual, cotangent -> their product."""
    type = TensorType((2,), "f32")
    x, dy, dx = Value(type), Value(type), Value(type)
    nodes = [Node("mul", (x, dy), {}, (dx,), NOWHERE)]
    return Graph("custom-vjp", {"residual/0": x, "cotangent/0": dy}, nodes, {"argument/0": dx})


_CUSTOM = {
    "body": _sample_backward(), "results": 1, "arguments": 1, "residuals": 1, "given": (0,),
    "taken": False,
}  # fmt: skip

CUSTOM_VJP = define(
    OpDef(
        name="custom-vjp",
        doc="Its first `results` operands, as they are. The derivative is the body's: from the "
        "residuals and the results' cotangents it gives those of the arguments `given`; once it is "
        "`taken`, that of the identity.",
        operands=(ANY,),
        attrs={
            "body": "graph",
            "results": "int",
            "arguments": "int",
            "residuals": "int",
            "given": "axes",
            "taken": "bool",
        },
        infer=_infer_custom,
        vjp=OfBody(),
        precision="body",
        cost=movement,
        samples=(
            # its derivative is what it is told to be: not that of the identity
            Sample(f32(2), f32(2), f32(2), grad=False, attrs=_CUSTOM),
            Sample(f32(2), f32(2), f32(2), attrs={**_CUSTOM, "taken": True}),
        ),
        rejects=(
            Reject(E_OP_005, f32(2), f32(3), f32(2), **_CUSTOM),
            Reject(E_OP_005, f32(2), f32(2), f32(3), **_CUSTOM),
            Reject(E_OP_005, f32(2), f32(2), f32(2), **{**_CUSTOM, "given": (1,)}),
            Reject(E_OP_001, f32(2), f32(2), **_CUSTOM),
        ),
        variadic=True,
    )
)
