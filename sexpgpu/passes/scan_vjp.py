"""The reverse of a scan: a scan the other way. Knows no Lisp.

The body is differentiated as a graph. What its backward part needs of its forward part is had, for
each value, in the cheapest way that costs no arithmetic:

    an element of a sequence, a captured tensor    taken from where the scan took it
    constants, and what only moves elements        made again in the reverse body
    what depends on captured tensors alone         made once, before the reverse scan
    an element that the scan gives as a result     taken from that
    everything else                                saved: one more stacked result of the scan

Cotangents of carries are carries of the reverse scan, those of captured tensors are carries that
they are added up in, those of elements are its stacked results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sexpgpu.ir.graph import Builder, Graph, Node, Value
from sexpgpu.ir.numerics import ISLAND_F32
from sexpgpu.ir.types import FLOATS
from sexpgpu.ops import infer
from sexpgpu.ops.building import full_of, zeros_like
from sexpgpu.ops.control import ScanParts, stacked_type
from sexpgpu.ops.schema import Cotangents

if TYPE_CHECKING:
    from sexpgpu.passes.autodiff import Reverse

_CONSTANTS = frozenset({"full", "iota", "literal"})
_MOVES = frozenset({"boundary", "broadcast", "reshape", "reverse", "stop-gradient", "transpose"})


def scan_vjp(reverse: Reverse, node: Node, cotangents: Cotangents) -> Cotangents:
    """The cotangents of a scan's operands. The scan gets the results that the reverse one needs."""
    return _ScanReverse(reverse, node, cotangents).run()


class _Differentiated:
    """A body with its derivative appended.

    nodes      forward ones, then backward ones; `forward` counts the first
    carries    places of the carries that have a cotangent -> its input
    elements   places of the stacked results that have one -> its input
    found      the body's inputs -> their cotangents
    """

    __slots__ = ("builder", "carries", "elements", "forward", "found", "masked")

    def __init__(self, builder: Builder, forward: int, masked: set[Value]) -> None:
        self.builder = builder
        self.forward = forward
        self.masked = masked
        self.carries: dict[int, Value] = {}
        self.elements: dict[int, Value] = {}
        self.found: dict[Value, Value] = {}


class _ScanReverse:
    __slots__ = ("b", "cotangents", "node", "parts", "reverse")

    def __init__(self, reverse: Reverse, node: Node, cotangents: Cotangents) -> None:
        self.reverse = reverse
        self.b = reverse.b
        self.node = node
        self.parts = ScanParts(node.attrs)
        self.cotangents = cotangents

    def run(self) -> Cotangents:
        made = self.differentiated()
        if not made.found:
            return (None,) * len(self.node.operands)
        needs = _Needs(self, made)
        self.extend_scan(made, needs)
        return self.emit(made, needs)

    # -- the body's derivative ------------------------------------------------------------------

    def wanted(self) -> list[Value]:
        """The body's inputs that carry gradient: those of active operands, and the carries that
        become active on the way."""
        parts = self.parts
        wanted = [
            input
            for input, operand in zip(parts.inputs, self.node.operands, strict=True)
            if operand in self.reverse.active and input.dtype in FLOATS
        ]
        while True:
            active = self.reverse.within(self.body_builder(), wanted).active
            more = [
                parts.inputs[at]
                for at in range(parts.carries)
                if parts.outputs[at] in active and parts.inputs[at] not in wanted
            ]
            if not more:
                return wanted
            wanted += more

    def body_builder(self) -> Builder:
        b = Builder(infer, self.b.origin)
        b.numerics = self.b.numerics
        b.inputs.update(self.parts.body.inputs)
        b.nodes.extend(self.parts.body.nodes)
        return b

    def differentiated(self) -> _Differentiated:
        """The body's derivative for the carries that get a cotangent, from the end of the scan or
        from the iteration after: tried until no further one does."""
        parts, results = self.parts, self.node.results
        wanted = self.wanted()
        carries = {
            at
            for at in range(parts.carries)
            if self.cotangents[at] is not None and parts.inputs[at] in wanted
        }
        masked = {
            out
            for out, result in zip(parts.outputs, results, strict=True)
            if result in self.reverse.masked
        }
        while True:
            made = self.attempt(wanted, carries, masked)
            more = {at for at in range(parts.carries) if parts.inputs[at] in made.found} - carries
            hidden = {
                parts.outputs[at]
                for at in range(parts.carries)
                if parts.inputs[at] in made.masked and at in carries | more
            } - masked
            if not more and not hidden:
                return made
            carries |= more
            masked |= hidden

    def attempt(
        self, wanted: list[Value], carries: set[int], masked: set[Value]
    ) -> _Differentiated:
        parts, b = self.parts, self.body_builder()
        inner = self.reverse.within(b, wanted)
        inner.masked.update(masked)
        made = _Differentiated(b, len(b.nodes), inner.masked)
        seeds: list[tuple[Value, Value]] = []
        for at, out in enumerate(parts.outputs):
            if at < parts.carries:
                if at not in carries:
                    continue
                seed = made.carries[at] = Value(out.type)
            else:
                if self.cotangents[at] is None or out.dtype not in FLOATS:
                    continue
                seed = made.elements[at] = Value(out.type)
            seeds.append((out, seed))
        for value, cotangent in zip(wanted, inner.run(seeds), strict=True):
            if cotangent is not None:
                made.found[value] = cotangent
        return made

    # -- the scan, with what the reverse one needs ----------------------------------------------

    def extend_scan(self, made: _Differentiated, needs: _Needs) -> None:
        """Put in place of the scan one that has the saved values as further results."""
        parts, node = self.parts, self.node
        nodes = made.builder.nodes[: made.forward]
        outputs = dict(parts.body.outputs)
        results = list(node.results)
        for value in needs.saved:
            outputs[_free(outputs, "y", len(results) - parts.carries)] = value
            result = Value(stacked_type(value.type, node.attrs["length"]))
            needs.sequences[value] = result
            results.append(result)
        body = Graph(parts.body.name, parts.body.inputs, nodes, outputs)
        attrs = {**node.attrs, "body": body}
        extended = Node(node.op, node.operands, attrs, tuple(results), node.origin, node.numerics)
        self.reverse.replace(node, extended)

    # -- the reverse scan -----------------------------------------------------------------------

    def emit(self, made: _Differentiated, needs: _Needs) -> Cotangents:
        parts, node, inner, b = self.parts, self.node, made.builder, self.b
        inner.origin, inner.numerics = b.origin, b.numerics
        inputs: dict[str, Value] = {}
        outputs: dict[str, Value] = {}
        operands: list[Value] = []
        for place, (at, seed) in enumerate(made.carries.items()):
            inputs[f"carry/{place}"] = seed
            given = self.cotangents[at]
            operands.append(given if given is not None else zeros_like(b, node.results[at]))
            back = made.found.get(parts.inputs[at])
            outputs[f"carry/{place}"] = back if back is not None else zeros_like(inner, seed)
        inner.numerics = ISLAND_F32  # of 16-bit terms, too, the sum is one in f32
        summed = [v for v in parts.inputs[parts.first_captured :] if v in made.found]
        for place, value in enumerate(summed, len(made.carries)):
            shape, dtype, batch = value.type
            total = inputs[f"carry/{place}"] = Value(value.type)
            operands.append(full_of(b, 0.0, shape, dtype, batch))
            outputs[f"carry/{place}"] = inner.emit("add", total, made.found[value])
        carried = len(operands)
        sequences = {seed: self.cotangents[at] for at, seed in made.elements.items()}
        for place, (value, stacked) in enumerate({**sequences, **needs.sequences}.items()):
            assert stacked is not None
            inputs[f"x/{place}"] = value
            operands.append(stacked)
        scanned = len(operands) - carried
        for place, (value, outer) in enumerate(needs.captured.items()):
            inputs[f"outer/{place}"] = value
            operands.append(outer)
        elements = [
            v for v in parts.inputs[parts.carries : parts.first_captured] if v in made.found
        ]
        for place, value in enumerate(elements):
            outputs[f"y/{place}"] = made.found[value]
        nodes = [*needs.again, *inner.nodes[made.forward :]]
        attrs = {
            "body": Graph(f"{parts.body.name}'", inputs, nodes, outputs),
            "carries": carried,
            "sequences": scanned,
            "length": node.attrs["length"],
            "reverse": not node.attrs["reverse"],
        }
        results = b.node("scan", tuple(operands), attrs).results
        found: dict[Value, Value] = {}
        for at, result in zip(made.carries, results, strict=False):
            found[parts.inputs[at]] = result
        found.update(zip([*summed, *elements], results[len(made.carries) :], strict=True))
        for input, operand in zip(parts.inputs, node.operands, strict=True):
            if input in made.masked:
                self.reverse.masked.add(operand)
        return tuple([found.get(input) for input in parts.inputs])


def _free(names: dict[str, Value], prefix: str, number: int) -> str:
    """A name that is not taken."""
    while f"{prefix}/{number}" in names:
        number += 1
    return f"{prefix}/{number}"


class _Needs:
    """What the backward part of a body uses of its forward part, and where it has that from.

    sequences   value of the body -> the stacked tensor outside that holds it for each iteration
    captured    value of the body -> the tensor outside that is it in every iteration
    saved       values that the scan has to give as further results, for `sequences`
    again       nodes of the forward part to be run again in the backward part, in order
    """

    __slots__ = (
        "again",
        "captured",
        "makers",
        "outside",
        "saved",
        "scan",
        "sequences",
        "steady",
        "taken",
    )

    def __init__(self, scan: _ScanReverse, made: _Differentiated) -> None:
        self.scan = scan
        self.sequences: dict[Value, Value] = {}
        self.captured: dict[Value, Value] = {}
        self.saved: list[Value] = []
        self.again: list[Node] = []
        self.taken: set[Value] = set()
        forward = made.builder.nodes[: made.forward]
        self.makers = {value: node for node in forward for value in node.results}
        self.steady = _steady(scan.parts, forward)
        self.outside = _Outside(scan, self.makers)
        inputs = set(scan.parts.inputs)
        backward = made.builder.nodes[made.forward :]
        for value in _operands(backward, made.found.values()):
            if value in self.makers or value in inputs:
                self.take(value)

    def take(self, value: Value) -> None:
        """Have a value of the forward part in the backward part."""
        if value in self.taken:
            return
        self.taken.add(value)
        parts, node = self.scan.parts, self.scan.node
        maker = self.makers.get(value)
        if maker is None:
            place = parts.inputs.index(value)
            if place < parts.carries:
                self.save(value)
            elif place < parts.first_captured:
                self.sequences[value] = node.operands[place]
            else:
                self.captured[value] = node.operands[place]
        elif maker.op in _CONSTANTS:
            self.again.append(maker)
        elif value in self.steady:
            self.captured[value] = self.outside.value(value)
        elif maker.op in _MOVES and _is_small(maker):
            self.take(maker.operands[0])
            self.again.append(maker)
        else:
            self.save(value)

    def save(self, value: Value) -> None:
        parts = self.scan.parts
        for at in range(parts.carries, len(parts.outputs)):
            if parts.outputs[at] is value:
                self.sequences[value] = self.scan.node.results[at]
                return
        self.saved.append(value)


class _Outside:
    """Makes nodes of a body, which depend on nothing that changes, in the graph around it."""

    __slots__ = ("b", "known", "makers")

    def __init__(self, scan: _ScanReverse, makers: dict[Value, Node]) -> None:
        self.b = scan.b
        self.makers = makers
        self.known = dict(zip(scan.parts.inputs, scan.node.operands, strict=True))

    def value(self, value: Value) -> Value:
        pending = [value]
        while pending:
            at = pending[-1]
            if at in self.known:
                pending.pop()
                continue
            maker = self.makers[at]
            missing = [v for v in maker.operands if v not in self.known]
            if missing:
                pending += missing
                continue
            operands = tuple([self.known[v] for v in maker.operands])
            kept = self.b.numerics
            self.b.numerics = maker.numerics
            made = self.b.node(maker.op, operands, maker.attrs)
            self.b.numerics = kept
            self.known.update(zip(maker.results, made.results, strict=True))
        return self.known[value]


def _operands(nodes: Sequence[Node], results: Iterable[Value]) -> list[Value]:
    """Every value that nodes use or that is a result, in order."""
    found: dict[Value, None] = {}
    for node in nodes:
        found.update(dict.fromkeys(node.operands))
    found.update(dict.fromkeys(results))
    return list(found)


def _steady(parts: ScanParts, nodes: Sequence[Node]) -> set[Value]:
    """The values of a body that are the same in every iteration."""
    steady = set(parts.inputs[parts.first_captured :])
    for node in nodes:
        if all(value in steady for value in node.operands):
            steady.update(node.results)
    return steady


def _is_small(node: Node) -> bool:
    """Whether what a node moves takes no more memory than what it gives."""
    return node.operands[0].type.nbytes <= node.results[0].type.nbytes
