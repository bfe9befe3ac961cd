"""Whether the loop can supply what the graphs of a document take: draws, ctx values, statistics,
fields of a batch, totals of weights, hyperparameters. What a document holds itself (parameters,
buffers, states) is checked with its references (`references.py`)."""

from __future__ import annotations

from collections.abc import Mapping

from sexpgpu.diagnostics.codes.tensor import E_IR_004
from sexpgpu.ir.document import STREAM_START, Document, Stage
from sexpgpu.ir.serial import refuse
from sexpgpu.ir.types import TensorType

KEY, OFFSET = TensorType((2,), "u32"), TensorType((), "u32")
CONTEXT = frozenset(
    {"epoch", "progress", "samples", "seed", "stage", "stage-step", "step", "steps", "updates"}
)
STATISTICS = ("mean", "std", "min", "max")


def check_supplied(document: Document) -> None:
    """E-IR-004 for an input that nothing supplies, or not so."""
    train = document.loader(document.run.train).stages
    for stage in train:
        extent = stage.batch // document.run.microbatches_in(stage)
        terms = document.terms[f"train/{stage.name}"]
        given = _batch(stage, extent) | {f"total/{term}": TensorType((), "f32") for term in terms}
        for name in (f"train/{stage.name}", f"weights/{stage.name}"):
            _check(document, name, given)
    for evaluation in document.evaluations:
        stage = document.loader(evaluation.loader).stages[0]
        _check(document, evaluation.graph, _batch(stage, stage.batch))
        if evaluation.rest is not None:
            _check(document, evaluation.rest, _batch(stage, evaluation.rest_batch))
    if "predict" in document.graphs:
        _check(document, "predict", _batch(train[0], None))
    hypers: dict[str, Mapping[str, TensorType]] = {}
    for group in document.groups:
        if group.hyper is not None:
            _check(document, group.hyper, {}, of_update=True)
            values = document.graphs[group.hyper].outputs.items()
            hypers[group.name] = {f"hyper/{name}": value.type for name, value in values}
    for update in document.updates.values():
        for name in (update.graph, *update.sums):
            _check(document, name, hypers.get(update.group, {}), of_update=True)
    _check_initial(document)
    _check_shapes(document)


def _check_initial(document: Document) -> None:
    """Initial values are made of a key alone."""
    states = [state for update in document.updates.values() for state in update.states]
    for init in {part.init for part in (*document.parameters, *document.buffers, *states)}:
        for key in document.graphs[init].inputs:
            if key not in ("rng/key", "rng/offset"):
                refuse(E_IR_004, f"the graph {init}: nothing gives the input {key!r}")
        _check(document, init, {})


def _check_shapes(document: Document) -> None:
    """Gradients keep the shapes of their parameters through clipping and into updates, and states
    theirs."""
    clip = document.graphs["clip"]
    shapes = {f"grad/{p.path}": TensorType(tuple(p.shape), "f32") for p in document.parameters}
    for key, value in (*clip.inputs.items(), *clip.outputs.items()):
        if key.startswith("grad/") and not value.type.same_value(shapes.get(key, OFFSET)):
            refuse(E_IR_004, f"the graph clip: {key!r} is {value.type}")
    for path, update in document.updates.items():
        own = {f"state/{s.name}": TensorType(tuple(s.shape), s.dtype) for s in update.states}
        own["p"] = own["g"] = shapes[f"grad/{path}"]
        graph = document.graphs[update.graph]
        for key, value in (*graph.inputs.items(), *graph.outputs.items()):
            if key in own and not value.type.same_value(own[key]):
                refuse(E_IR_004, f"the graph {update.graph}: {key!r} is {value.type}")


def _batch(stage: Stage, extent: int | None) -> dict[str, TensorType]:
    """The fields of a batch of so many records; None: of as many as the graph says."""
    types = {f.name: TensorType(tuple(f.shape), f.dtype) for f in stage.fields}
    if stage.streams:
        types[STREAM_START] = TensorType((), "bool")
    rows = -1 if extent is None else extent
    return {f"batch/{n}": TensorType((rows, *t.shape), t.dtype) for n, t in types.items()}


def _check(
    document: Document,
    name: str,
    given: Mapping[str, TensorType],
    of_update: bool = False,
) -> None:
    graph = document.graphs.get(name)
    for key, value in graph.inputs.items() if graph is not None else ():
        kind, _, rest = key.partition("/")
        type = value.type
        if kind in ("batch", "total", "hyper"):
            wanted = given.get(key)
            fits = wanted is not None and _same(type, wanted)
        elif kind == "ctx":
            counter = rest.startswith("counter/") and rest[8:] in document.counters
            known = rest in CONTEXT or counter or (rest == "microbatch" and not of_update)
            fits = known and type.shape == ()
        elif kind == "rng":
            wanted = {"key": KEY, "offset": OFFSET}.get(rest)
            fits = wanted is not None and type.same_value(wanted)
        else:
            fits = kind != "statistic" or _is_statistic(document, rest, type)
        if not fits:
            refuse(E_IR_004, f"the graph {name}: nothing gives the input {key!r}, {type}")


def _same(type: TensorType, wanted: TensorType) -> bool:
    """Whether shape and dtype agree; an extent of -1 is any."""
    return (
        type.dtype == wanted.dtype
        and type.rank == wanted.rank
        and all(n in (m, -1) for m, n in zip(type.shape, wanted.shape, strict=True))
    )


def _is_statistic(document: Document, rest: str, type: TensorType) -> bool:
    """LOADER/FIELD/WHAT, of the field's shape."""
    loader, _, place = rest.partition("/")
    field, _, what = place.rpartition("/")
    found = next((each for each in document.loaders if each.name == loader), None)
    shapes = {} if found is None else {f.name: tuple(f.shape) for f in found.stages[0].fields}
    return what in STATISTICS and shapes.get(field) == type.shape
