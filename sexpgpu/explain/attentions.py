"""How each attention of the training graph is computed, on each kind of device."""

from __future__ import annotations

from typing import Any

from sexpgpu.explain.costs import nodes_once
from sexpgpu.ir.graph import Graph
from sexpgpu.lowering.attention import choose

DEVICES = ("cpu", "cuda")


def attentions(graph: Graph) -> list[dict[str, Any]]:
    """Shapes, dtype, and the way on each device with its reason; equal ones counted."""
    found: dict[Any, dict[str, Any]] = {}
    for node in nodes_once(graph):
        if node.op != "attention":
            continue
        q, k = [value.type for value in node.operands[:2]]
        key = (q.shape, k.shape, q.dtype, tuple(sorted(node.attrs.items(), key=str)))
        if key in found:
            found[key]["count"] += 1
            continue
        span = node.origin.user_span
        row: dict[str, Any] = {
            "count": 1,
            "queries": list(q.shape),
            "keys": list(k.shape),
            "dtype": q.dtype,
            "path": node.origin.path,
            "file": None if span is None else span.source.name,
            "line": None if span is None else span.line,
        }
        for device in DEVICES:
            choice = choose(device, q, k, node.attrs)
            row[device] = {"way": choice.way, "why": choice.why}
        found[key] = row
    return list(found.values())
