"""What `explain` found as one self-contained page of HTML: tables, schedules drawn as lines, and
the model as blocks with what flows between them. No script, no other file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from sexpgpu.explain.text import scaled
from sexpgpu.ir.document import Document
from sexpgpu.ir.graph import Graph

STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; max-width: 64em; margin: 2em auto; padding: 0 1em;
       color: #222; background: #fff; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }
table { border-collapse: collapse; } th { text-align: left; font-weight: 600; }
th, td { padding: .15em .9em .15em 0; border-bottom: 1px solid #e4e4e4; vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
code, .path { font-family: ui-monospace, monospace; font-size: .92em; }
svg text { font: 11px ui-monospace, monospace; fill: #222; }
"""
NUMBER = "n"
OUTSIDE = "(outside the model)"


def html_page(document: Document, data: dict[str, Any]) -> str:
    """The whole page."""
    name = escape(document.run.name)
    train = next(g for key, g in document.graphs.items() if key.startswith("train/"))
    parts = [f"<h1>{name}</h1>", overview(data), *sections(data)]
    parts += ["<h2>The model</h2>", flow_svg(train)]
    parts += ["<h2>Cost by source line</h2>", _lines(data)]
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{name}</title>'
        f"\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def overview(data: dict[str, Any]) -> str:
    """One paragraph: how long, on what, how large."""
    run = data["run"]
    length = f"{run['steps']:,} steps" if run["steps"] else f"{run['epochs']} epochs"
    return (
        f"<p>{length} on the loader {escape(run['train'])}, precision {run['precision']}, seed "
        f"{run['seed']}; {data['parameter_count']:,} parameters, about "
        f"{scaled(data['memory']['total'], 'B')} of memory.</p>"
    )


def sections(data: dict[str, Any]) -> list[str]:
    """The tables, each under its heading."""
    knobs = data["selection"].get("knobs", {})
    found: list[str] = []
    if knobs:
        rows = [[k, str(v["value"]), v["source"]] for k, v in knobs.items()]
        found += ["<h2>Knobs</h2>", table(("name", "value", "from"), rows)]
    found += ["<h2>Parameters</h2>", parameters(data)]
    rows = [
        [g["name"], g["optimizer"] or "frozen", _hyper(g), f"{g['count']:,}"]
        for g in data["groups"]
    ]
    head = ("group", "optimizer", "hyperparameters", "count")
    found += ["<h2>Optimizer groups</h2>", table(head, rows, (3,))]
    for schedule in data["schedules"]:
        if schedule["values"] is not None:
            title = f"{schedule['group']}/{schedule['name']}"
            found += [f"<h2>Schedule {escape(title)}</h2>"]
            found += [line_svg(schedule["steps"], {title: schedule["values"]})]
    rows = [
        [
            " ".join(filter(None, (loader["name"], loader["stage"]))),
            loader["source"],
            "?" if loader["records"] is None else f"{loader['records']:,}",
            ", ".join(f"{f['name']} {f['dtype']} {tuple(f['shape'])}" for f in loader["fields"]),
        ]
        for loader in data["loaders"]
    ]
    found += ["<h2>Loaders</h2>", table(("loader", "source", "records", "a batch"), rows, (2,))]
    rows = [[key, scaled(size, "B")] for key, size in data["memory"].items() if size]
    found += ["<h2>Memory, estimated</h2>", table(("what", "bytes"), rows, (1,))]
    costs = data["costs"]["by_path"]
    rows = [
        [
            path or "(outside the model)",
            scaled(c["flops"]),
            scaled(c["bytes"], "B"),
            str(c["nodes"]),
        ]
        for path, c in costs.items()
    ]
    head = ("model path", "FLOPs", "moved", "nodes")
    found += ["<h2>Cost of a microbatch by model path</h2>", table(head, rows, (1, 2, 3))]
    return found


def parameters(data: dict[str, Any]) -> str:
    """The table of parameters."""
    rows = [
        [p["path"], f"{tuple(p['shape'])}", p["init"], p["group"] or "frozen", f"{p['count']:,}"]
        for p in data["parameters"]
    ]
    return table(("path", "shape", "init", "group", "count"), rows, (4,))


def _hyper(group: dict[str, Any]) -> str:
    told = [f"{k} {v}" for k, v in group["hyperparameters"].items() if v is not None]
    return ", ".join([*told, *(f"{name} scheduled" for name in group["schedules"])])


def _lines(data: dict[str, Any]) -> str:
    rows = [
        [f"{c['file']}:{c['line']}", scaled(c["flops"]), scaled(c["bytes"], "B"), str(c["nodes"])]
        for c in data["costs"]["by_line"]
        if c["line"]
    ]
    return table(("line", "FLOPs", "moved", "nodes"), rows, (1, 2, 3))


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """A table of texts; the columns in `right` are numbers."""

    def line(cells: Sequence[str], tag: str) -> str:
        made = "".join(
            f"<{tag}{f' class={NUMBER}' if i in right else ''}>{escape(cell)}</{tag}>"
            for i, cell in enumerate(cells)
        )
        return f"<tr>{made}</tr>"

    body = "\n".join(line(row, "td") for row in rows)
    return f"<table>\n{line(head, 'th')}\n{body}\n</table>"


COLOURS = ("#1f6fb4", "#d9662b", "#3a8f45", "#8a56a8")


def line_svg(
    steps: Sequence[float], series: dict[str, Sequence[float]], width: int = 640, height: int = 180
) -> str:
    """Series over steps as lines, with the least and the greatest value written at the axis."""
    values = [v for row in series.values() for v in row if v == v and abs(v) != float("inf")]
    if not values or not steps:
        return "<p>no points yet</p>"
    low, high = min(values), max(values)
    span, first, last = (high - low) or 1.0, steps[0], steps[-1]
    reach = (last - first) or 1

    def point(step: float, value: float) -> str:
        x = 70 + (step - first) / reach * (width - 90)
        y = 15 + (high - value) / span * (height - 45)
        return f"{x:.1f},{y:.1f}"

    parts = [
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">',
        f'<text x="64" y="20" text-anchor="end">{high:.4g}</text>',
        f'<text x="64" y="{height - 27}" text-anchor="end">{low:.4g}</text>',
        f'<text x="70" y="{height - 8}">{first}</text>',
        f'<text x="{width - 20}" y="{height - 8}" text-anchor="end">{last}</text>',
    ]
    for number, (name, row) in enumerate(series.items()):
        pairs = zip(steps, row, strict=True)
        points = " ".join(point(s, v) for s, v in pairs if v == v and abs(v) != float("inf"))
        colour = COLOURS[number % len(COLOURS)]
        parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{points}">'
            f"<title>{escape(name)}</title></polyline>"
        )
    return "\n".join([*parts, "</svg>"])


def flow_svg(graph: Graph) -> str:
    """The model paths of a training graph as blocks, in the order of the forward pass, with lines
    for the values that one gives to another."""
    order: list[str] = []
    counts: dict[str, int] = {}
    made: dict[int, str] = {}
    edges: dict[tuple[str, str], str] = {}
    for node in graph.nodes:
        path = node.origin.path
        if node.origin.note:
            continue  # the way back
        counts[path] = counts.get(path, 0) + 1
        if path not in order:
            order.append(path)
        for value in node.operands:
            source = made.get(id(value))
            if source is not None and source != path and (path, source) not in edges:
                edges.setdefault((source, path), str(value.type))
        if node.op != "full":  # equal constants are shared: that is no flow
            made.update({id(value): path for value in node.results})
    places = {path: 12 + 34 * i for i, path in enumerate(order)}
    height = 34 * len(order) + 20
    parts = [f'<svg width="640" height="{height}" viewBox="0 0 640 {height}" role="img">']
    for (source, target), type in edges.items():
        a, b = places[source] + 12, places[target] + 12
        if abs(b - a) <= 34:
            way = f"M 120 {a + 10} L 120 {b - 12}" if b > a else f"M 120 {a - 12} L 120 {b + 12}"
        else:
            bow = 262 + min(160, abs(b - a) // 4)
            way = f"M 250 {a} C {bow} {a} {bow} {b} 250 {b}"
        parts.append(
            f'<path d="{way}" fill="none" stroke="#9aa7b4"><title>{escape(source)} → '
            f"{escape(target)}: {escape(type)}</title></path>"
        )
    for path, y in places.items():
        label = path or "(prepare, objective)"
        parts.append(
            f'<rect x="10" y="{y}" width="240" height="22" rx="3" fill="#eef3f8" '
            f'stroke="#6b8cae"><title>{counts[path]} nodes</title></rect>'
            f'<text x="18" y="{y + 15}">{escape(label)}</text>'
        )
    return "\n".join([*parts, "</svg>"])
