"""The data of `explain`: stable keys, plain JSON (docs/explain.md lists them)."""

from __future__ import annotations

from typing import Any

from sexpgpu.explain.attentions import attentions
from sexpgpu.explain.casts import casts
from sexpgpu.explain.costs import cost_by_line, cost_by_path, whole_cost
from sexpgpu.explain.memory import memory
from sexpgpu.explain.schedules import schedules
from sexpgpu.ir.document import Document, Parameter
from sexpgpu.ir.graph import Graph, Node, nodes_within


def summary(document: Document) -> dict[str, Any]:
    """Parameters, groups, loaders, graphs and costs of a document."""
    train = _training_graph(document)
    return {
        "run": document.run.to_json(),
        "selection": document.manifest.get("selection", {}),
        "parameters": parameters(document),
        "parameter_count": sum(_count(p.shape) for p in document.parameters),
        "groups": groups(document),
        "schedules": schedules(document),
        "loaders": loaders(document),
        "curriculum": curriculum(document),
        "memory": memory(document),
        "draws": draws(document),
        "casts": casts(train),
        "graphs": {
            name: whole_cost(graph).to_json() for name, graph in sorted(document.graphs.items())
        },
        "costs": costs(document),
        "attention": attentions(train),
    }


def parameters(document: Document) -> list[dict[str, Any]]:
    """Every parameter with its group, and how it begins."""
    return [
        {
            "path": p.path,
            "aliases": p.aliases,
            "shape": list(p.shape),
            "dtype": p.dtype,
            "init": describe_init(document.graphs[p.init]),
            "trainable": p.trainable,
            "group": p.group,
            "decay": decay(document, p),
            "tags": p.tags,
            "count": _count(p.shape),
        }
        for p in document.parameters
    ]


OPTIM = ("stdlib/sexpgpu/optim.sx", "stdlib/sexpgpu/optim/")


def decay(document: Document, parameter: Parameter) -> float | None:
    """The weight decay of a parameter under an optimizer of sexpgpu/optim: its group's `decay`,
    or 0 for rank 0 and 1 without `:decay-all t` (the rule that the module states). None where it
    is scheduled, the parameter is frozen, or the optimizer is another, whose `decay` may mean
    anything."""
    update = document.updates.get(parameter.path)
    if update is None or not _is_from_optim(document.graphs[update.graph]):
        return None
    group = next(g for g in document.groups if g.name == update.group)
    names = [*group.constants, *group.schedules]
    inner = max(names, key=lambda name: name.count("/"), default="").rpartition("/")[0]
    own = f"{inner}/" if inner else ""  # of a wrapper, what it wraps decays: ema's `decay` is none
    everywhere = group.constants.get(f"{own}decay-all", "nil") != "nil"
    if len(parameter.shape) < 2 and not everywhere:
        return 0.0
    scheduled = f"{own}decay" in group.schedules
    return None if scheduled else float(group.constants.get(f"{own}decay", 0.0))


def _is_from_optim(graph: Graph) -> bool:
    """Whether every node was traced from the text of sexpgpu/optim. False for a document that
    was read without its places."""
    places = [node.origin.span for node in graph.nodes]
    return bool(places) and all(
        span is not None and span.source.standard and span.source.name.startswith(OPTIM)
        for span in places
    )


def describe_init(graph: Graph) -> str:
    """One word or number for an initial value: a fill's number, else what is drawn."""
    ops = {node.op for node in graph.nodes}
    if len(graph.nodes) == 1 and graph.nodes[0].op == "full":
        return f"{graph.nodes[0].attrs['value']:g}"
    if "random-bits" in ops:
        return "normal" if "erf-inv" in ops else "uniform"
    return "computed"


def groups(document: Document) -> list[dict[str, Any]]:
    """Every optimizer group: its optimizer, hyperparameters, and how much it holds."""
    return [
        {
            "name": g.name,
            "optimizer": g.optimizer,
            "hyperparameters": g.constants,
            "schedules": g.schedules,
            "frozen": g.frozen,
            "every": g.every,
            "parameters": [p.path for p in document.parameters if p.group == g.name],
            "count": sum(_count(p.shape) for p in document.parameters if p.group == g.name),
        }
        for g in document.groups
    ]


def loaders(document: Document) -> list[dict[str, Any]]:
    """Every loader, or each stage of it: where its records come from, how many, and what a batch
    holds. `stage` is None where there is but one."""
    return [
        {
            "name": loader.name,
            "stage": stage.name if len(loader.stages) > 1 else None,
            "source": stage.source["kind"],
            "path": stage.source.get("path"),
            "records": stage.records,
            "batch": stage.batch,
            "shuffle": stage.shuffle,
            "fields": [
                {"name": f.name, "dtype": f.dtype, "shape": [stage.batch, *f.shape]}
                for f in stage.fields
            ],
        }
        for loader in document.loaders
        for stage in loader.stages
    ]


def curriculum(document: Document) -> dict[str, Any] | None:
    """What decides on the stage: the stages in order, what it reads by ctx, what it keeps."""
    record = document.curriculum
    if record is None:
        return None
    reads = document.graphs[record.graph].inputs
    return {
        "stages": [stage.name for stage in document.loader(document.run.train).stages],
        "reads": [name.removeprefix("ctx/") for name in reads if name.startswith("ctx/")],
        "states": [state.to_json() for state in record.states],
    }


def draws(document: Document) -> list[dict[str, Any]]:
    """The random draws of the training graph, those in bodies included: the name that its key is
    made from, model path, and line."""
    found: dict[str, dict[str, Any]] = {}
    for node in nodes_within(_training_graph(document)):
        if node.op == "random-key":  # a derivative may draw the same numbers again
            name = node.attrs["name"]
            row = {"name": name, "path": node.origin.path, "place": _place(node)}
            found.setdefault(name, row)
    return list(found.values())


def _place(node: Node) -> str | None:
    span = node.origin.user_span
    return None if span is None else f"{span.source.name}:{span.line}"


def costs(document: Document) -> dict[str, Any]:
    """One microbatch of the training graph, by model path and by source line."""
    graph, stage = _training_graph(document), document.loader(document.run.train).stages[0]
    return {
        "graph": graph.name,
        "microbatches": document.run.microbatches_in(stage),
        "by_path": {path: cost.to_json() for path, cost in cost_by_path(graph).items()},
        "by_line": [
            {"file": file, "line": line, **cost.to_json()}
            for (file, line), cost in sorted(cost_by_line(graph).items())
        ],
    }


def _training_graph(document: Document) -> Graph:
    """That of the first stage."""
    return next(g for name, g in document.graphs.items() if name.startswith("train/"))


def _count(shape: tuple[int, ...]) -> int:
    n = 1
    for extent in shape:
        n *= extent
    return n
