"""Ops that run a graph of their own, their body, as a part of the graph they stand in.

A body takes everything it uses as inputs, in the order of the operands; its inputs and outputs go
by place, their names are for people. Their derivatives are made of the bodies' (`passes/`), not
here. Knows no backend.
"""

from __future__ import annotations

from sexpgpu.diagnostics.codes.tensor import (
    E_OP_001,
    E_OP_005,
    E_SHAPE_001,
    E_SHAPE_005,
)
from sexpgpu.ir.graph import Attrs, Graph, Node, Value
from sexpgpu.ir.types import ANY, TensorType
from sexpgpu.ops.cost import moved
from sexpgpu.ops.rules import merged_batch
from sexpgpu.ops.samples import f32
from sexpgpu.ops.schema import OPS, OfBody, OpDef, OpError, Reject, Sample, Types, define
from sexpgpu.source import NOWHERE


def runs_of(node: Node) -> list[tuple[Graph, int]]:
    """The graphs that a node runs, and how often each."""
    body = node.attrs.get("body")
    return [] if body is None else [(body, node.attrs.get("length", 1))]


def body_cost(body: Graph) -> tuple[int, int]:
    """FLOPs and bytes of one run of a graph."""
    flops = nbytes = 0
    for node in body.nodes:
        types = tuple([v.type for v in node.operands])
        results = tuple([v.type for v in node.results])
        more, most = OPS[node.op].cost(types, results, node.attrs)
        flops += more
        nbytes += most
    return flops, nbytes


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
            results.append(stacked_type(output.type, length))
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
    flops, nbytes = body_cost(attrs["body"])
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
