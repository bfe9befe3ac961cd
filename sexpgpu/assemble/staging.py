"""The training loader's stages: whether they can be trained on, and the graphs of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.assemble.graphs import GraphStore
from sexpgpu.assemble.training import Training, trace_training
from sexpgpu.assemble.watching import Watched
from sexpgpu.diagnostics.codes import data as data_codes
from sexpgpu.diagnostics.codes import parameters as parameter_codes
from sexpgpu.diagnostics.codes import run as run_codes
from sexpgpu.diagnostics.model import Diagnostic, Label, located
from sexpgpu.forms.experiment import Experiment
from sexpgpu.forms.loaders import LoaderForm
from sexpgpu.forms.models import Tree
from sexpgpu.forms.runs import RunForm
from sexpgpu.ir.document import Metric, Stage
from sexpgpu.lisp.values import Function


def stage_faults(run: RunForm, loader: LoaderForm) -> list[Diagnostic]:
    """What keeps a run from training on a loader."""
    found: list[Diagnostic] = []
    stages = loader.loader.stages

    def fault(code: Any, headline: str, span: Any, fix: str | None = None) -> None:
        labels = [Label(span)] if span is not None else []
        found.append(Diagnostic(code, headline, labels, (), fix))

    if len(stages) > 1 and run.run.epochs is not None:
        fault(
            run_codes.E_RUN_011,
            f"the loader {run.run.train} has {len(stages)} stages: :epochs has no meaning for it",
            run.places.get("epochs") or run.span,
            "give :steps",
        )
    for stage in stages:
        of = f" of the stage {stage.name}" if len(stages) > 1 else ""
        microbatches = run.run.microbatches_in(stage)
        if stage.batch % microbatches:
            own = loader.span if stage.microbatches else run.places.get("microbatches")
            fault(
                run_codes.E_RUN_007,
                f"{microbatches} microbatches do not divide the batch of {stage.batch}{of}",
                own or run.span,
            )
        if stage.records is not None and stage.records < stage.batch:
            source = f"the stage {stage.name} of the loader" if of else "the loader"
            fault(
                data_codes.E_DATA_004,
                f"{source} {run.run.train} has {stage.records} records, fewer than its batch of "
                f"{stage.batch}",
                loader.span,
            )
    return found


def row_faults(tree: Tree, experiment: Experiment) -> list[Diagnostic]:
    """What keeps buffers with a row for each example from following theirs: E-PARAM-009."""
    run = experiment.run
    buffers = [b for b in tree.buffers.values() if b.per_example]
    if not buffers or run is None:
        return []
    labels, notes = located(buffers[0].origin)
    names = [run.run.train]
    passes = experiment.evaluations
    names += [
        passes[name].loader
        for name in (passes if run.evaluations is None else run.evaluations)
        if name in passes
    ]
    found: list[Diagnostic] = []
    for name in dict.fromkeys(names):
        form = experiment.loaders.get(name)
        stages = [] if form is None else form.loader.stages
        if not all(stage.streams for stage in stages):
            said = f"the loader {name} gives other examples in each batch"
            fix = f"(defloader {name} … :streams t)"
        elif len({stage.batch for stage in stages}) > 1:
            said = f"the stages of the loader {name} have batches of several sizes"
            fix = "give all stages one :batch"
        else:
            continue
        headline = f"the buffer {buffers[0].path} has a row for each example, and {said}"
        found.append(Diagnostic(parameter_codes.E_PARAM_009, headline, labels, notes, fix))
    return found


class Trained:
    """What the training graphs of all stages have together, by graph where it is of one."""

    __slots__ = ("counters", "metrics", "terms", "unreached", "warnings")

    def __init__(self) -> None:
        self.metrics: dict[str, list[Metric]] = {}
        self.terms: dict[str, list[str]] = {}
        self.counters: list[str] = []
        self.unreached: list[str] = []
        self.warnings: list[Diagnostic] = []

    def take(self, training: Training, store: GraphStore) -> None:
        store.add(training.graph)
        if training.weights is not None:
            store.add(training.weights)
        first = not self.metrics
        self.metrics[training.graph.name] = training.metrics
        self.terms[training.graph.name] = training.terms
        self.counters += [c for c in training.counters if c not in self.counters]
        # a parameter is of no use only where no stage uses it
        also = set(training.unreached)
        self.unreached = training.unreached if first else [p for p in self.unreached if p in also]
        self.warnings += training.warnings


def trace_stages(
    attempt: Callable[[Callable[[], Training]], Training | None],
    stages: list[Stage],
    run: RunForm,
    prepare: Function,
    objective: Function,
    trained: list[Any],
    store: GraphStore,
    watched: Watched,
) -> Trained | None:
    """The training graphs of every stage, in the store; None after the first that fails: what is
    wrong there would be told again of the next."""
    found = Trained()
    for stage in stages:
        microbatches = run.run.microbatches_in(stage)
        training = attempt(
            lambda stage=stage, n=microbatches: trace_training(
                stage,
                n,
                prepare,
                objective,
                run.model,
                trained,
                run.run.precision,
                run.run.remat,
                store,
                watched,
            )
        )
        if training is None:
            return None
        found.take(training, store)
    return found
