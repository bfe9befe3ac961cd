"""Every cast between float dtypes of a graph, with its reason and its line."""

from __future__ import annotations

from typing import Any

from sexpgpu.ir.graph import Graph, nodes_within
from sexpgpu.ir.types import FLOATS
from sexpgpu.passes.autodiff import NOTE as GRADIENT
from sexpgpu.passes.precision import NOTE

WRITTEN = "written in the file"


def casts(graph: Graph) -> list[dict[str, Any]]:
    """`from`, `to`, `reason`, `direction`, place and bytes written; equal ones counted."""
    found: dict[Any, dict[str, Any]] = {}
    for node in nodes_within(graph):
        x = node.operands[0] if node.op == "cast" else None
        if x is None or x.dtype not in FLOATS or node.result.dtype not in FLOATS:
            continue
        note, span = node.origin.note, node.origin.user_span
        reason = note.partition(": ")[2] if note.startswith(NOTE) else WRITTEN
        file, line = (None, None) if span is None else (span.source.name, span.line)
        backward = GRADIENT in note or "grad/" in reason
        key = (x.dtype, node.result.dtype, reason, file, line, node.origin.path)
        row = found.setdefault(
            key,
            {
                "from": x.dtype,
                "to": node.result.dtype,
                "reason": reason,
                "direction": "backward" if backward else "forward",
                "path": node.origin.path,
                "file": file,
                "line": line,
                "count": 0,
                "bytes": 0,
            },
        )
        row["count"] += 1
        row["bytes"] += node.result.type.nbytes
    return list(found.values())
