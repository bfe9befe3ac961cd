"""`diff` for people: what `difference` found, a line a change."""

from __future__ import annotations

from typing import Any

TITLES = {
    "knobs": "Knobs", "run": "Run", "loaders": "Loaders", "parameters": "Parameters",
    "optimizer": "Optimizer", "evaluations": "Evaluations",
}  # fmt: skip


def difference_text(data: dict[str, Any], a: str, b: str) -> str:
    """The report; one sentence when the two mean the same."""
    parts: list[str] = []
    for key, title in TITLES.items():
        if data[key]:
            parts.append("\n".join([title, *(f"  {_line(change)}" for change in data[key])]))
    parts += _graphs(data["graphs"])
    if data["same"]:
        parts.append(f"{a} and {b} mean the same")
    return "\n\n".join(parts)


def _line(change: dict[str, Any]) -> str:
    what, a, b = change["what"], change["a"], change["b"]
    if a is None and isinstance(b, dict):
        return f"+ {what}  {_value(b)}"
    if b is None and isinstance(a, dict):
        return f"- {what}  {_value(a)}"
    return f"{what}: {_value(a)} -> {_value(b)}"


def _value(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
        return f"({' '.join(_value(v) for v in items)})"
    if isinstance(value, dict):
        table: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
        if set(table) == {"shape", "dtype"}:
            return f"{table['dtype']} {_value(table['shape'])}"
        text = ", ".join(f"{k} {_value(v)}" for k, v in table.items() if v not in (None, [], {}))
        return text if len(text) <= 100 else f"{text[:99]}…"
    return str(value)


def _graphs(graphs: list[dict[str, Any]]) -> list[str]:
    """The first graph in full; of the others only the model paths that no graph before named."""
    parts: list[str] = []
    told: set[str] = set()
    also: list[str] = []
    for graph in graphs:
        if graph["only"]:
            parts.append(f"Graph {graph['graph']}: only in {graph['only']}")
            continue
        entries = [entry for entry in graph["paths"] if entry["path"] not in told]
        told.update(entry["path"] for entry in entries)
        if entries or not graph["paths"]:
            lines = [_path(entry) for entry in entries] or ["the same nodes, joined otherwise"]
            parts.append("\n  ".join([f"Graph {graph['graph']}", *lines]))
        else:
            also.append(graph["graph"])
    if also:
        parts.append(f"In the same places: {', '.join(also)}")
    return parts


def _path(entry: dict[str, Any]) -> str:
    """A model path's nodes: gone (-), new (+), or of other shapes, dtypes or attributes (~)."""
    removed, added = entry["removed"], entry["added"]
    words: list[str] = []
    for op in sorted({*removed, *added}):
        gone, new = removed.get(op, 0), added.get(op, 0)
        both = min(gone, new)
        signed = ((gone - both, "-"), (new - both, "+"), (both, "~"))
        words += [f"{sign}{count} {op}" for count, sign in signed if count]
    places = ", ".join(dict.fromkeys([*entry["a"][:2], *entry["b"][:2]]))
    return f"{entry['path'] or '(outside the model)'}: {' '.join(words)}  {places}".rstrip()
