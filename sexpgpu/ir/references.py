"""Whether the parts of a document fit together: everything that one names is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.diagnostics.codes.tensor import E_IR_004
from sexpgpu.ir import document as ir
from sexpgpu.ir.document import LOSS_SCALE, Document
from sexpgpu.ir.graph import Graph
from sexpgpu.ir.serial import refuse
from sexpgpu.ir.sources import check_source
from sexpgpu.ir.supplied import check_supplied
from sexpgpu.ir.types import SCALAR_F32, SCALAR_I32


def check_references(document: Document) -> None:
    """Everything that a part names is there, and the graphs have the inputs and outputs that
    their place in the document asks for; E-IR-004 otherwise."""
    graphs = document.graphs

    def graph(name: str | None, where: str) -> Graph:
        if name is None or name not in graphs:
            refuse(E_IR_004, f"{where} names a graph {name!r} that is not there")
        return graphs[name]

    def output(name: str, key: str, where: str) -> Any:
        outputs = graph(name, where).outputs
        if key not in outputs:
            refuse(E_IR_004, f"{where}: the graph {name} has no output {key!r}")
        return outputs[key]

    loaders = {loader.name for loader in document.loaders}
    for loader in document.loaders:
        for index, stage in enumerate(loader.stages):
            check_source(stage.source, f"the loader {loader.name}: stages/{index}/source")
        if not loader.stages or any(not stage.fields for stage in loader.stages):
            refuse(E_IR_004, f"the loader {loader.name} has no stage, or a stage without fields")
        if len({stage.name for stage in loader.stages}) < len(loader.stages):
            refuse(E_IR_004, f"two stages of the loader {loader.name} have one name")
    if len(loaders) < len(document.loaders):
        refuse(E_IR_004, "two loaders have one name")
    if document.run.train not in loaders:
        refuse(E_IR_004, f"run/train names a loader {document.run.train!r} that is not there")
    for stage in document.loader(document.run.train).stages:
        if stage.batch % document.run.microbatches_in(stage):
            refuse(E_IR_004, f"run/microbatches does not divide the batch of {stage.name}")
    if (document.run.steps is None) == (document.run.epochs is None):
        refuse(E_IR_004, "run: exactly one of steps and epochs is given")
    groups = {g.name for g in document.groups}
    for part in (*document.parameters, *document.buffers):
        made = output(part.init, "value", f"the initial value of {part.path}")
        if made.type.shape != part.shape or made.type.dtype != part.dtype:
            refuse(E_IR_004, f"the initial value of {part.path} is {made.type}")
    paths = {p.path: p for p in document.parameters}
    if len(paths) < len(document.parameters):
        refuse(E_IR_004, "two parameters have one path")
    clip = graph("clip", "the document")
    output("clip", "grad-norm", "clip")
    stages = document.loader(document.run.train).stages
    for stage in stages:
        train = graph(f"train/{stage.name}", f"the stage {stage.name}")
        if train.name not in document.terms or not document.terms[train.name]:
            refuse(E_IR_004, f"terms has nothing for {train.name}")
        for term in document.terms[train.name]:
            output(train.name, f"loss/{term}/sum", "terms")
            output(train.name, f"loss/{term}/weight", "terms")
        if any(name.startswith("total/") for name in train.inputs):
            graph(f"weights/{stage.name}", f"the stage {stage.name}")
        for path in document.updates:
            slope = output(train.name, f"grad/{path}", f"updates/{path}")
            if path in paths and slope.type.shape != paths[path].shape:
                refuse(E_IR_004, f"updates/{path}: the gradient is {slope.type}")
    for path, update in document.updates.items():
        if path not in paths or update.group not in groups:
            refuse(E_IR_004, f"updates/{path}: no such parameter, or no such group")
        _check_update(path, update, graph)
        new = output(update.graph, "p", f"updates/{path}")
        if new.type.shape != paths[path].shape:
            refuse(E_IR_004, f"updates/{path}: the new parameter is {new.type}")
        for state in update.states:
            output(state.init, "value", f"the state {state.name} of {path}")
            output(update.graph, f"state/{state.name}", f"updates/{path}")
        if f"grad/{path}" not in clip.inputs:
            refuse(E_IR_004, f"clip has no input grad/{path}")
        output("clip", f"grad/{path}", "clip")
    for group in document.groups:
        if group.hyper is not None:
            graph(group.hyper, f"the group {group.name}")
            for name in group.schedules:
                output(group.hyper, name, f"the group {group.name}")
    _check_inputs(document)
    if document.curriculum is not None:
        _check_curriculum(document, document.curriculum, output)
    names = {e.name for e in document.evaluations}
    for evaluation in document.evaluations:
        if evaluation.loader not in loaders:
            refuse(E_IR_004, f"the pass {evaluation.name} names a loader that is not there")
        for name in (evaluation.graph, evaluation.rest):
            if name is not None:
                graph(name, f"the pass {evaluation.name}")
    check_supplied(document)
    for name in document.run.evaluations:
        if name not in names:
            refuse(E_IR_004, f"run/evaluations names a pass {name!r} that is not there")
    if len(names) < len(document.evaluations):
        refuse(E_IR_004, "two passes have one name")
    for name, listed in document.metrics.items():
        for metric in listed:
            output(name, f"metric/{metric.name}/value", "metrics")
            output(name, f"metric/{metric.name}/weight", "metrics")
            if metric.finish is not None:
                output(metric.finish, "value", f"the metric {metric.name}")


def _check_update(path: str, update: ir.Update, graph: Callable[[str | None, str], Graph]) -> None:
    """The graphs of an update take nothing that the loop could not give them."""
    where = f"updates/{path}"
    states = [f"state/{state.name}" for state in update.states]
    sums = [f"global/{k}" for k in range(len(update.sums))]
    takes = {update.graph: {"p", "g", "global/grad-norm", *states, *sums}}
    for k, name in enumerate(update.sums):
        takes[name] = {"p", "g", "global/grad-norm", *states, *sums[:k]}
        if "part" not in graph(name, where).outputs:
            refuse(E_IR_004, f"{where}: the graph {name} has no output 'part'")
    for name, given in takes.items():
        for key in graph(name, where).inputs:
            if key not in given and not key.startswith(("hyper/", "ctx/", "rng/", "statistic/")):
                refuse(E_IR_004, f"{where}: nothing gives the input {key!r}")
    if update.average is not None:
        average = graph(update.average, where)
        if "p" not in average.outputs or not set(average.inputs) <= {"p", *states}:
            refuse(E_IR_004, f"{where}: the graph {update.average} is no average of it")


def _check_curriculum(
    document: Document, curriculum: ir.Curriculum, output: Callable[[str, str, str], Any]
) -> None:
    """It gives a stage's index and its states, and takes nothing that the loop could not give."""
    where = "the curriculum"
    if output(curriculum.graph, "stage", where).type != SCALAR_I32:
        refuse(E_IR_004, f"{where}: the stage is not a scalar i32")
    for state in curriculum.states:
        made = output(state.init, "value", f"the state {state.name} of {where}").type
        new = output(curriculum.graph, f"state/{state.name}", where).type
        if any((t.shape, t.dtype) != (state.shape, state.dtype) for t in (made, new)):
            refuse(E_IR_004, f"{where}: the state {state.name} is {new}, at first {made}")
    states = {f"state/{state.name}" for state in curriculum.states}
    for key in document.graphs[curriculum.graph].inputs:
        if key not in states and not key.startswith(("ctx/", "rng/", "statistic/")):
            refuse(E_IR_004, f"{where}: nothing gives the input {key!r}")


def _check_inputs(document: Document) -> None:
    """The graphs that see a batch take nothing that the loop could not give them."""
    held = {f"param/{p.path}": p.shape for p in document.parameters}
    held |= {f"buffer/{b.path}": b.shape for b in document.buffers if b.per is None}
    rows = {f"buffer/{b.path}": b.shape for b in document.buffers if b.per is not None}
    for name, graph in document.graphs.items():
        if name.partition("/")[0] not in ("train", "weights", "eval", "predict"):
            continue
        for key, value in graph.inputs.items():
            if key.startswith(("batch/", "ctx/", "rng/", "total/", "statistic/")):
                continue
            if key == LOSS_SCALE and name.startswith("train/") and value.type == SCALAR_F32:
                continue
            if key in rows and value.type.shape[1:] == rows[key]:
                continue
            if held.get(key) != value.type.shape:
                refuse(E_IR_004, f"the graph {name}: nothing gives the input {key!r}")
