"""`explain` for people: tables of what `summary` found."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from sexpgpu.explain.schedules import plot

UNITS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def scaled(number: float, unit: str = "") -> str:
    """1234567 as 1.23 M."""
    for size, prefix in UNITS:
        if number >= size:
            return f"{number / size:.3g} {prefix}{unit}"
    return f"{number:g} {unit}".rstrip()


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Columns aligned; those in `right` to the right."""
    widths = [max(len(r[i]) for r in (head, *rows)) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        return "  ".join(
            c.rjust(w) if i in right else c.ljust(w)
            for i, (c, w) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()

    return "\n".join([line(head), *(line(r) for r in rows)])


def explain_text(data: dict[str, Any], by_line: bool = False, casts: bool = False) -> str:
    """The whole report."""
    parts = [_head(data), _selection(data), _parameters(data), _groups(data), _schedules(data)]
    parts += [_loaders(data), _batch(data), _curriculum(data), _memory(data), _draws(data)]
    parts.append(_lines(data) if by_line else _paths(data))
    parts.append(_attention(data))
    if casts:
        parts.append(_casts(data))
    parts.append(_graphs(data))
    return "\n\n".join(p for p in parts if p) + "\n"


def _head(data: dict[str, Any]) -> str:
    run = data["run"]
    length = f"{run['steps']} steps" if run["steps"] is not None else f"{run['epochs']} epochs"
    clip = f", gradient norm clipped at {run['clip_norm']:g}" if run["clip_norm"] else ""
    micro = f", {run['microbatches']} microbatches" if run["microbatches"] > 1 else ""
    again = {"none": "", "blocks": ", blocks recomputed", "full": ", submodels recomputed"}
    return (
        f"{run['name']}: {length} on the loader {run['train']}, precision {run['precision']}, "
        f"seed {run['seed']}{micro}{clip}{again[run['remat']]}"
    )


def _selection(data: dict[str, Any]) -> str:
    knobs = data["selection"].get("knobs", {})
    if not knobs:
        return ""
    rows = [[name, str(k["value"]), k["source"]] for name, k in knobs.items()]
    return "Knobs\n" + table(("name", "value", "from"), rows, right=(1,))


def shape_text(shape: Sequence[int]) -> str:
    """A shape as the Lisp writes it: `(128 64)`."""
    return f"({' '.join(map(str, shape))})"


def _parameters(data: dict[str, Any]) -> str:
    rows = [
        [
            p["path"],
            shape_text(p["shape"]),
            p["init"],
            p["group"] or "frozen",
            "" if p["decay"] is None else _number(p["decay"]),
            f"{p['count']:,}",
            " ".join(p["aliases"]),
        ]
        for p in data["parameters"]
    ]
    head = ("path", "shape", "init", "group", "decay", "count", "also")
    return f"Parameters: {data['parameter_count']:,}\n" + table(head, rows, right=(4, 5))


def _groups(data: dict[str, Any]) -> str:
    rows: list[list[str]] = []
    for g in data["groups"]:
        hyper = [f"{k} {_number(v)}" for k, v in g["hyperparameters"].items() if v is not None]
        hyper += [f"{s} scheduled" for s in g["schedules"]]
        rows.append(
            [
                g["name"],
                "frozen" if g["frozen"] else g["optimizer"],
                ", ".join(hyper),
                str(len(g["parameters"])),
                f"{g['count']:,}",
            ]
        )
    head = ("group", "optimizer", "hyperparameters", "tensors", "count")
    return "Optimizer groups\n" + table(head, rows, right=(3, 4))


def _schedules(data: dict[str, Any]) -> str:
    """Each schedule as a line of blocks over the run, with its first, greatest and last value."""
    parts: list[str] = []
    for schedule in data["schedules"]:
        name = f"{schedule['group']}/{schedule['name']}"
        values, steps = schedule["values"], schedule["steps"]
        if values is None:
            parts.append(f"{name}: known only while the run goes")
            continue
        peak = max(range(len(values)), key=values.__getitem__)
        marks = [(steps[0], values[0]), (steps[peak], values[peak]), (steps[-1], values[-1])]
        shown = ", ".join(f"{value:g} at {step}" for step, value in dict.fromkeys(marks))
        parts.append(f"{name}  {plot(values)}\n  {shown}")
    return "\n".join(["Schedules", *parts]) if parts else ""


MEMORY = {
    "parameters": "parameters (f32 masters)", "buffers": "buffers",
    "optimizer": "optimizer states", "gradients": "gradients", "batch": "a batch",
    "live": "live values of a microbatch, before fusion", "total": "together, at most about",
}  # fmt: skip


def _memory(data: dict[str, Any]) -> str:
    rows = [[MEMORY[key], scaled(size, "B")] for key, size in data["memory"].items() if size]
    return "Memory, estimated\n" + table(("what", "bytes"), rows, right=(1,))


def _draws(data: dict[str, Any]) -> str:
    if not data["draws"]:
        return ""
    rows = [
        [d["path"] or "(outside the model)", d["place"] or "", d["name"]] for d in data["draws"]
    ]
    return "Random draws of a step\n" + table(("model path", "line", "name"), rows)


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _loaders(data: dict[str, Any]) -> str:
    rows: list[list[str]] = []
    for loader in data["loaders"]:
        fields = ", ".join(
            f"{f['name']} {f['dtype']} {shape_text(f['shape'])}" for f in loader["fields"]
        )
        records = "?" if loader["records"] is None else f"{loader['records']:,}"
        name = " ".join(filter(None, (loader["name"], loader["stage"])))
        rows.append([name, loader["source"], records, str(loader["batch"]), fields])
    head = ("loader", "source", "records", "batch", "fields")
    return "Loaders\n" + table(head, rows, right=(2, 3))


def _curriculum(data: dict[str, Any]) -> str:
    found = data["curriculum"]
    if found is None:
        return ""
    states = [f"{s['name']} {s['dtype']} {shape_text(s['shape'])}" for s in found["states"]]
    rows = [
        ["stages", " ".join(found["stages"])],
        ["reads", " ".join(f":{key}" for key in found["reads"])],
        ["keeps", ", ".join(states)],
    ]
    return "Curriculum\n" + "\n".join(f"{what:6}  {told}" for what, told in rows if told)


TEXT_SHOWN = 48
"""Characters of a text's first record that are shown."""


def _batch(data: dict[str, Any]) -> str:
    """The batch of step 0, where it was asked for (see `batch.py`)."""
    batch = data.get("batch")
    if batch is None:
        return ""
    title = f"The first batch of {batch['loader']}"
    if batch["problem"] is not None:
        return f"{title}: not read here: {batch['problem']['message']}"
    rows = [
        [
            field["name"],
            f"{field['dtype']} {shape_text(field['shape'])}",
            *("" if field[key] is None else _brief(field[key]) for key in ("min", "max", "mean")),
            _first_record(field),
        ]
        for field in batch["fields"]
    ]
    head = ("field", "type", "least", "greatest", "mean", "its first record")
    numbers = batch["records"]
    several = " ".join(map(str, numbers[:6])) + (" …" if len(numbers) > 6 else "")
    return f"{title}: records {several}\n{table(head, rows, right=(2, 3, 4))}"


def _first_record(field: dict[str, Any]) -> str:
    text, shown = field["text"], field["first"]
    if text is not None:
        return repr(text[:TEXT_SHOWN]) + (" …" if len(text) > TEXT_SHOWN else "")
    more = " …" if prod(field["shape"][1:]) > len(shown) else ""
    odd = f"({field['nonfinite']} not finite) " if field["nonfinite"] else ""
    return odd + " ".join(map(_brief, shown)) + more


def _brief(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _paths(data: dict[str, Any]) -> str:
    costs = data["costs"]
    rows = [
        [
            path or "(objective, prepare)",
            scaled(c["flops"]),
            scaled(c["bytes"], "B"),
            str(c["nodes"]),
        ]
        for path, c in costs["by_path"].items()
    ]
    head = ("model path", "FLOPs", "moved", "nodes")
    title = f"Cost of {costs['graph']}, forward and backward, one microbatch, before fusion"
    return f"{title}\n" + table(head, rows, right=(1, 2, 3))


def _lines(data: dict[str, Any]) -> str:
    rows = [
        [
            f"{c['file']}:{c['line']}" if c["line"] else "(compiler)",
            scaled(c["flops"]),
            scaled(c["bytes"], "B"),
            str(c["nodes"]),
        ]
        for c in data["costs"]["by_line"]
    ]
    return "Cost by source line\n" + table(
        ("line", "FLOPs", "moved", "nodes"), rows, right=(1, 2, 3)
    )


def _casts(data: dict[str, Any]) -> str:
    rows = [
        [
            f"{c['count']} ×",
            f"{c['from']} to {c['to']}",
            scaled(c["bytes"], "B"),
            c["reason"],
            c["path"],
            f"{c['file']}:{c['line']}" if c["line"] else "(compiler)",
        ]
        for c in data["casts"]
    ]
    return "Casts\n" + table(
        ("", "cast", "written", "reason", "model path", "line"), rows, right=(0, 2)
    )


def _attention(data: dict[str, Any]) -> str:
    if not data["attention"]:
        return ""
    rows = [
        [
            f"{row['count']} ×",
            f"{row['dtype']} {shape_text(row['queries'])} to {shape_text(row['keys'])}",
            device,
            row[device]["way"],
            row[device]["why"],
        ]
        for row in data["attention"]
        for device in ("cpu", "cuda")
    ]
    return "Attention\n" + table(("", "queries to keys", "device", "way", "why"), rows)


def _graphs(data: dict[str, Any]) -> str:
    rows = [
        [name, str(g["nodes"]), scaled(g["flops"]), scaled(g["bytes"], "B")]
        for name, g in data["graphs"].items()
    ]
    return "Graphs\n" + table(("graph", "nodes", "FLOPs", "moved"), rows, right=(1, 2, 3))
