"""Where a training graph mixes its examples: warnings for runs with several microbatches."""

from __future__ import annotations

from collections.abc import Sequence

from sexpgpu.diagnostics.codes import run as codes
from sexpgpu.diagnostics.model import Code, Diagnostic, located
from sexpgpu.ir.graph import BODY, Graph, Node, Value
from sexpgpu.source import Origin
from sexpgpu.trace.context import Trace


def mixing_warnings(trace: Trace) -> list[Diagnostic]:
    """W-RUN-002 for each place where something that was reduced over the batch meets a tensor of
    examples again; W-RUN-003 for each draw that cannot be attributed."""
    found = [
        _warning(
            codes.W_RUN_003, f"the draw {draw.name} cannot be attributed to examples", draw.origin
        )
        for draw in trace.draws
        if draw.mixed
    ]
    places: set[object] = set()
    for node in mixing_nodes(trace.builder.nodes):
        place = node.origin.user_span
        if place not in places:
            places.add(place)
            found.append(
                _warning(
                    codes.W_RUN_002, f"{node.op} mixes the examples of a microbatch", node.origin
                )
            )
    return found


def mixing_nodes(nodes: Sequence[Node]) -> list[Node]:
    """Nodes with an operand that carries the batch's axis and another that was made of all
    examples (their mean, say)."""
    reduced: set[Value] = set()
    found: list[Node] = []
    for node in nodes:
        body: Graph | None = node.attrs.get(BODY)
        if body is not None:
            found += mixing_nodes(body.nodes)
        carries = any(v.type.batch is not None for v in node.operands)
        tainted = any(v in reduced for v in node.operands)
        if carries and tainted:
            found.append(node)
        elif carries:
            reduced.update(v for v in node.results if v.type.batch is None)
        elif tainted:
            reduced.update(node.results)
    return found


def _warning(code: Code, headline: str, origin: Origin) -> Diagnostic:
    labels, notes = located(origin)
    return Diagnostic(code, headline, labels, notes)
