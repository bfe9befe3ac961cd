"""What differs between two documents in meaning: the data of `diff` (docs/explain.md).

Layout, comments, order of definitions and names of local variables are in no document, so they
differ in nothing. Graphs are compared node by node within each model path; what only moved to
another place of the file is no difference.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sexpgpu.ir.document import CURRICULUM, Document
from sexpgpu.ir.graph import Graph, Node

Changes = list[dict[str, Any]]
"""Each {"what": name, "a": value or None, "b": value or None}; None where it is not there."""


def difference(a: Document, b: Document) -> dict[str, Any]:
    """The differences by part: knobs, run, loaders, parameters, optimizer, evaluations, graphs.
    `same` is true when there is none that training could feel (knobs that led to the same
    document do not count)."""
    found: dict[str, Any] = {
        "knobs": _knobs(a, b),
        "run": _records("", a.run.to_json(), b.run.to_json(), skip=("evaluations",)),
        "loaders": _loaders(a, b) + _lessons(a, b),
        "parameters": _parameters(a, b),
        "optimizer": _optimizer(a, b),
        "evaluations": _evaluations(a, b),
        "graphs": _graphs(a, b),
    }
    found["same"] = not any(value for key, value in found.items() if key != "knobs")
    return found


def _change(what: str, a: Any, b: Any) -> dict[str, Any]:
    return {"what": what, "a": a, "b": b}


def _knobs(a: Document, b: Document) -> Changes:
    ours = _knob_values(a)
    theirs = _knob_values(b)
    return _records("", ours, theirs)


def _knob_values(document: Document) -> dict[str, Any]:
    selection = document.manifest.get("selection", {})
    values = {name: knob["value"] for name, knob in selection.get("knobs", {}).items()}
    if selection.get("variants"):
        values["(variants)"] = " ".join(selection["variants"])
    return values


def _records(
    prefix: str, a: Mapping[str, Any], b: Mapping[str, Any], skip: Sequence[str] = ()
) -> Changes:
    """The leaves that differ of two nested records, by their dotted place."""
    found: Changes = []
    for name in [*a, *(n for n in b if n not in a)]:
        ours, theirs = a.get(name), b.get(name)
        if name in skip or ours == theirs:
            continue
        place = f"{prefix}.{name}" if prefix else name
        if isinstance(ours, dict) and isinstance(theirs, dict):
            one: dict[str, Any] = ours  # pyright: ignore[reportUnknownVariableType]
            other: dict[str, Any] = theirs  # pyright: ignore[reportUnknownVariableType]
            found += _records(place, one, other)
        else:
            found.append(_change(place, ours, theirs))
    return found


def _loaders(a: Document, b: Document) -> Changes:
    """Differences of loaders. Relative paths from two folders that lead to one file are none."""
    changes = _named(a.loaders, b.loaders, "name")
    ours, theirs = _data_paths(a), _data_paths(b)
    return [
        change
        for change in changes
        if not change["what"].endswith(".source.path")
        or ours.get(change["what"]) != theirs.get(change["what"])
    ]


def _lessons(a: Document, b: Document) -> Changes:
    """What the curricula keep, and begin with. Their graphs are compared with the others."""

    def states(document: Document) -> dict[str, Any]:
        record = document.curriculum
        return {
            state.name: {
                "shape": list(state.shape),
                "dtype": state.dtype,
                "init": str(signature(document.graphs[state.init])),
            }
            for state in (record.states if record is not None else ())
        }

    return [
        _change(change["what"], "one value", "another")
        if change["what"].endswith(".init")
        else change
        for change in _records(f"{CURRICULUM}.states", states(a), states(b))
    ]


def _data_paths(document: Document) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for loader in document.loaders:
        for stage in loader.stages:
            paths: Any = stage.source.get("path") or []
            found[f"{loader.name}.stages.{stage.name}.source.path"] = [
                os.path.realpath(os.path.join(stage.base, path))
                for path in ([paths] if isinstance(paths, str) else paths)
            ]
    return found


def _named(a: Sequence[Any], b: Sequence[Any], key: str, skip: Sequence[str] = ()) -> Changes:
    """Differences of records that have names; one that is new or gone is given whole."""
    ours = {getattr(r, key): _plain(r.to_json()) for r in a}
    theirs = {getattr(r, key): _plain(r.to_json()) for r in b}
    found: Changes = []
    for name in [*ours, *(n for n in theirs if n not in ours)]:
        if name not in ours or name not in theirs:
            found.append(_change(name, ours.get(name), theirs.get(name)))
        else:
            found += _records(name, ours[name], theirs[name], skip)
    return found


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    """Lists of named things as tables, so that they are compared by name; places on this machine
    are no meaning."""
    plain: dict[str, Any] = {}
    for name, value in record.items():
        if name == "base":
            continue
        if isinstance(value, list) and value and isinstance(value[0], dict) and "name" in value[0]:
            rows: list[dict[str, Any]] = value  # pyright: ignore[reportUnknownVariableType]
            plain[name] = {row["name"]: _plain(row) for row in rows}
        else:
            plain[name] = value
    return plain


def _parameters(a: Document, b: Document) -> Changes:
    def records(document: Document) -> dict[str, Any]:
        found = {
            p.path: {
                "shape": list(p.shape),
                "dtype": p.dtype,
                "init": signature(document.graphs[p.init]),
                "trainable": p.trainable,
                "tags": p.tags,
                "group": p.group,
            }
            for p in document.parameters
        }
        found |= {
            f"{p.path} (buffer)": {
                "shape": list(p.shape),
                "dtype": p.dtype,
                "init": signature(document.graphs[p.init]),
            }
            for p in document.buffers
        }
        return found

    ours, theirs = records(a), records(b)
    found: Changes = []
    for path in [*ours, *(p for p in theirs if p not in ours)]:
        if path not in ours or path not in theirs:
            one = ours.get(path) or theirs[path]
            shape = {"shape": one["shape"], "dtype": one["dtype"]}
            here = path in ours
            found.append(_change(path, shape if here else None, None if here else shape))
            continue
        reshaped = ours[path]["shape"] != theirs[path]["shape"]
        for change in _records(path, ours[path], theirs[path]):
            if change["what"].endswith(".init"):
                if reshaped:
                    continue  # of another shape, so by another graph: no news
                change = _change(change["what"], "one distribution", "another")
            found.append(change)
    return found


def _optimizer(a: Document, b: Document) -> Changes:
    found = _named(a.groups, b.groups, "name", skip=("hyper",))
    shapes = {p.path: p.shape for p in b.parameters}
    alike = {p.path for p in a.parameters if shapes.get(p.path) == p.shape and p.path in b.updates}
    for name in sorted({g.name for g in a.groups} & {g.name for g in b.groups}):
        ours, theirs = a.group(name), b.group(name)
        for schedule in ours.schedules:
            if schedule in theirs.schedules and _output(a, ours.hyper, schedule) != _output(
                b, theirs.hyper, schedule
            ):
                found.append(_change(f"{name}.{schedule}", "one schedule", "another"))
        paths = [p for p, u in a.updates.items() if u.group == name and p in alike]
        changed = [p for p in paths if _update(a, p) != _update(b, p)]
        # other constants stand in the graphs, and were told above
        if changed and (ours.optimizer, ours.constants) == (theirs.optimizer, theirs.constants):
            found.append(_change(f"{name}.update", f"{len(changed)} parameters", "otherwise"))
    if signature(a.graphs["clip"]) != signature(b.graphs["clip"]):
        if a.run.clip_norm == b.run.clip_norm and len(alike) == len(a.updates) == len(b.updates):
            found.append(_change("clip", "one graph", "another"))
    return found


def _output(document: Document, graph: str | None, name: str) -> Any:
    """What an output of a graph computes, with the values that it begins from."""
    return None if graph is None else _hashes(document.graphs[graph])[name]


def _update(document: Document, path: str) -> Any:
    update = document.updates[path]
    inits = [(s.name, s.dtype, signature(document.graphs[s.init])) for s in update.states]
    return signature(document.graphs[update.graph]), inits


def _evaluations(a: Document, b: Document) -> Changes:
    skip = ("graph", "rest", "rest_batch")
    found = _named(a.evaluations, b.evaluations, "name", skip)
    ours, theirs = a.run.evaluations, b.run.evaluations
    if ours != theirs and sorted(ours) == sorted(theirs):
        found.append(_change("order", ours, theirs))
    return found


_COMPARED = ("train", "eval", "predict", CURRICULUM)


def _graphs(a: Document, b: Document) -> list[dict[str, Any]]:
    """Graphs that compute something else, each with the model paths where its nodes differ."""
    found: list[dict[str, Any]] = []
    names = [n for n in (*a.graphs, *b.graphs) if n.split("/")[0] in _COMPARED]
    for name in dict.fromkeys(names):
        if name not in a.graphs or name not in b.graphs:
            if not name.endswith("/rest"):
                gone = name not in b.graphs
                found.append({"graph": name, "only": "a" if gone else "b", "paths": []})
            continue
        one, other = a.graphs[name], b.graphs[name]
        if _hashes(one) == _hashes(other):
            continue
        found.append({"graph": name, "only": None, "paths": _paths(one, other)})
    return found


def _paths(a: Graph, b: Graph) -> list[dict[str, Any]]:
    ours, theirs = _by_path(a), _by_path(b)
    found: list[dict[str, Any]] = []
    for path in [*ours, *(p for p in theirs if p not in ours)]:
        mine = Counter(_local(node) for node in ours.get(path, ()))
        yours = Counter(_local(node) for node in theirs.get(path, ()))
        removed, added = mine - yours, yours - mine
        if removed or added:
            found.append(
                {
                    "path": path,
                    "removed": _ops(removed),
                    "added": _ops(added),
                    "a": _places(ours.get(path, ()), removed),
                    "b": _places(theirs.get(path, ()), added),
                }
            )
    return found


def _by_path(graph: Graph) -> dict[str, list[Node]]:
    found: dict[str, list[Node]] = {}
    for node in graph.nodes:
        found.setdefault(node.origin.path, []).append(node)
    return found


def _local(node: Node) -> Any:
    """What a node is, apart from where its operands come from."""
    return (
        node.op,
        tuple(str(v.type) for v in node.operands),
        tuple(str(v.type) for v in node.results),
        _attributes(node),
        node.numerics,
    )


def _attributes(node: Node) -> Any:
    return tuple(
        sorted(
            (k, signature(v) if isinstance(v, Graph) else (type(v).__name__, repr(v)))
            for k, v in node.attrs.items()
        )
    )


def _ops(nodes: Counter[Any]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for local, count in nodes.items():
        found[local[0]] += count
    return dict(sorted(found.items()))


def _places(nodes: Sequence[Node], wanted: Counter[Any]) -> list[str]:
    """The lines of the user's files that the nodes come from, at most 8."""
    lines: dict[str, None] = {}
    for node in nodes:
        span = node.origin.user_span
        if span is not None and _local(node) in wanted:
            lines[f"{span.source.name}:{span.line}"] = None
    return list(lines)[:8]


def signature(graph: Graph) -> Any:
    """What a graph computes: equal for graphs that differ in names, places and order only."""
    return tuple(sorted(_hashes(graph).items()))


def _hashes(graph: Graph) -> dict[str, str]:
    """Each output as a hash of all that leads to it."""
    from hashlib import sha256

    known: dict[int, str] = {
        id(value): f"input {name} {value.type}" for name, value in graph.inputs.items()
    }
    for node in graph.nodes:
        text = repr(
            (node.op, [known[id(v)] for v in node.operands], _attributes(node), node.numerics)
        )
        digest = sha256(text.encode()).hexdigest()
        for place, value in enumerate(node.results):
            known[id(value)] = f"{digest}.{place} {value.type}"
    return {name: known[id(value)] for name, value in graph.outputs.items()}
