"""A graph in the DOT language of Graphviz, its nodes grouped by model path."""

from __future__ import annotations

from sexpgpu.ir.graph import Graph, Node, Value

FONT = 'fontname="Helvetica", fontsize=10'


def dot(graph: Graph) -> str:
    """The text. Constants and the nodes that only spread them are left out: they say little."""
    lines = [
        f"digraph {_quoted(graph.name)} {{",
        f'  rankdir=TB; node [shape=box, {FONT}]; edge [fontsize=8, fontname="Helvetica"];',
    ]
    names: dict[int, str] = {}
    types: dict[str, str] = {}
    for number, (name, value) in enumerate(graph.inputs.items()):
        names[id(value)] = f"in{number}"
        types[f"in{number}"] = str(value.type)
        label = _quoted(f"{name}\n{value.type}")
        lines.append(f"  in{number} [shape=oval, label={label}];")
    by_path: dict[str, list[tuple[str, Node]]] = {}
    hidden: set[int] = set()
    for number, node in enumerate(graph.nodes):
        if node.op == "full" or (
            node.op == "broadcast" and all(id(v) in hidden for v in node.operands)
        ):
            hidden.update(id(v) for v in node.results)
            continue
        by_path.setdefault(node.origin.path, []).append((f"n{number}", node))
        for value in node.results:
            names[id(value)] = f"n{number}"
    for number, (path, nodes) in enumerate(by_path.items()):
        indent = "  "
        if path:
            lines += [f"  subgraph cluster_{number} {{", f"    label={_quoted(path)}; color=grey;"]
            indent = "    "
        for name, node in nodes:
            label = _quoted(f"{node.op}\n{' '.join(str(v.type) for v in node.results)}")
            lines.append(f"{indent}{name} [label={label}];")
        if path:
            lines.append("  }")
    for nodes in by_path.values():
        for name, node in nodes:
            lines += [f"  {source} -> {name};" for source in _sources(node.operands, names)]
    for number, (output, value) in enumerate(graph.outputs.items()):
        lines.append(f"  out{number} [shape=oval, style=bold, label={_quoted(output)}];")
        lines += [f"  {source} -> out{number};" for source in _sources((value,), names)]
    return "\n".join([*lines, "}", ""])


def _sources(values: tuple[Value, ...], names: dict[int, str]) -> list[str]:
    return [names[id(value)] for value in values if id(value) in names]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
