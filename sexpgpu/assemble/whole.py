"""The whole document of an evaluated run file. Goes on after an error in one graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sexpgpu.assemble.doubts import idle_warnings, keep_doubts, remat_doubts
from sexpgpu.assemble.evaluating import trace_prediction
from sexpgpu.assemble.graphs import GraphStore
from sexpgpu.assemble.initial import Initializers
from sexpgpu.assemble.passes import Passes
from sexpgpu.assemble.staging import row_faults, stage_faults, trace_stages
from sexpgpu.assemble.turning import series_of, trace_curriculum
from sexpgpu.assemble.updating import Assignment, Updates, clip_graph, hyper_graph
from sexpgpu.assemble.watching import Watched, of_the_loop
from sexpgpu.diagnostics.codes import run as codes
from sexpgpu.diagnostics.model import Diagnostic, Label, SxError
from sexpgpu.diagnostics.suggest import did_you_mean
from sexpgpu.forms.experiment import Experiment
from sexpgpu.forms.models import Model, Tree
from sexpgpu.forms.runs import RunForm
from sexpgpu.ir import document as ir
from sexpgpu.ir.document import CURRICULUM
from sexpgpu.ir.graph import Graph, OpError
from sexpgpu.ir.types import TensorType
from sexpgpu.lisp.errors import LimitError, LispError
from sexpgpu.lisp.values import Function

Result = TypeVar("Result")


class Assembly:
    """A document under construction, what was found wrong, and the parts that explain shows."""

    __slots__ = (
        "assignment", "diagnostics", "document", "experiment", "function", "offered", "store",
        "tree",
    )  # fmt: skip

    def __init__(self, experiment: Experiment, function: Callable[[str], Function | None]) -> None:
        self.experiment = experiment
        self.function = function  # a contract function of the file by its name
        self.diagnostics: list[Diagnostic] = []
        self.document: ir.Document | None = None
        self.store = GraphStore()
        self.tree: Tree | None = None
        self.assignment: Assignment | None = None
        self.offered: list[str] = []  # names of diagnostics

    @property
    def failed(self) -> bool:
        return any(d.severity == "error" for d in self.diagnostics)

    def attempt(self, work: Callable[[], Result]) -> Result | None:
        """The result of some work, or None when it ended in diagnostics, which are kept."""
        try:
            return work()
        except SxError as error:
            self.diagnostics.extend(error.diagnostics)
        except (LispError, LimitError) as error:
            self.diagnostics.append(self.experiment.session.report(error))
        except OpError as error:  # of a node that no operation of the file made
            run = self.experiment.run
            self.tell(error.code, error.message, run.span if run is not None else None, error.fix)
        return None

    def tell(self, code: Any, headline: str, span: Any = None, fix: str | None = None) -> None:
        self.diagnostics.append(
            Diagnostic(code, headline, [Label(span)] if span is not None else [], (), fix)
        )

    # -- what must be there ------------------------------------------------------------------

    def contract(self) -> tuple[RunForm, list[ir.Stage], Function, Function] | None:
        """The run, its training stages, prepare and objective; None after reporting what lacks."""
        run = self.experiment.run
        prepare, objective = self.function("prepare"), self.function("objective")
        begun, failed = self.experiment.begun, self.experiment.session.has_failed
        if run is None and not any(kind == "run" for kind, _ in begun):
            self.tell(codes.E_RUN_001, "the file has no defrun", fix="add (defrun name :model …)")
        for name, found in (("prepare", prepare), ("objective", objective)):
            if found is None and not failed(name):
                self.tell(
                    codes.E_RUN_001,
                    f"the file defines no function {name}",
                    run.span if run is not None else None,
                )
        if run is None or prepare is None or objective is None:
            return None
        loader = self.experiment.loaders.get(run.run.train)
        if loader is None and (("loader", run.run.train) in begun or failed(run.run.train)):
            return None  # what is wrong with it is reported already
        if loader is None:
            self.tell(
                codes.E_RUN_001,
                f"there is no loader {run.run.train} to train on",
                run.places.get("train") or run.span,
                did_you_mean(run.run.train, self.experiment.loaders)
                or "declare it with defloader, or name another with defrun :train",
            )
            return None
        faults = stage_faults(run, loader)
        self.diagnostics.extend(faults)
        return None if faults else (run, loader.loader.stages, prepare, objective)

    # -- the parts ---------------------------------------------------------------------------

    def assemble(self, sources: list[Any]) -> None:
        """Trace everything; sets `document` when nothing failed: its manifest still empty, and
        what is left to do with its graphs in `store.finish`."""
        parts = self.contract()
        if parts is None:
            return
        run, stages, prepare, objective = parts
        tree = self.tree = Tree(run.model)
        store = self.store
        inits = Initializers(store)
        watched = Watched(run.run.diagnostics, store)
        assignment = self.attempt(lambda: Assignment(run.optimizer, tree))
        if assignment is None:
            return
        self.assignment = assignment
        self.diagnostics.extend(assignment.warnings)
        self.diagnostics.extend(row_faults(tree, self.experiment))
        parameters = self._parameters(tree, inits, assignment)
        buffers = self._buffers(tree, inits)
        trained = [p for path, p in tree.parameters.items() if path in assignment.members]
        training = trace_stages(
            self.attempt, stages, run, prepare, objective, trained, store, watched
        )
        metrics: dict[str, list[ir.Metric]] = {}
        if training is not None:
            metrics |= training.metrics
            self.diagnostics.extend(training.warnings)
            self.diagnostics.extend(remat_doubts(run, tree))
        passes = Passes(self, run, prepare, objective, store, metrics)
        evaluations = passes.all()
        passes.check_followed(evaluations)
        self.diagnostics.extend(keep_doubts(run, evaluations))
        predict = self.function("predict")
        eval_prepare = self.function("eval-prepare") or prepare
        # a mistake in the model would be reported again
        if training is not None and (predict is not None or _takes_one(run.model)):
            graph = self.attempt(
                lambda: trace_prediction(
                    stages[0],
                    stages[0].batch,
                    eval_prepare,
                    predict,
                    run.model,
                    run.run.precision,
                    store,
                )
            )
            if graph is not None:
                store.add(graph)
        if training is not None and not self.failed:
            self.diagnostics.extend(
                idle_warnings(tree, training.unreached, len(trained), store.graphs.values())
            )
        updates = self._updates(tree, assignment, store, inits, watched)
        states = [(path, s.name) for path, u in updates.updates.items() for s in u.states]
        watched.offered += of_the_loop(tree.parameters, assignment.members, states)
        self.offered = watched.offered
        if not self.failed:
            self.diagnostics.extend(watched.warnings(run.places.get("diagnostics") or run.span))
        store.add(self._clip_graph(trained, run.run.clip_norm, assignment))
        curriculum: ir.Curriculum | None = None
        if training is not None:
            curriculum = self._curriculum(
                run, len(stages), evaluations, metrics, training.terms, store, inits
            )
        self._warn_unused(run)
        if self.failed or training is None:
            return
        run.run.evaluations = [e.name for e in evaluations]
        self.document = ir.Document(
            manifest={},
            sources=sources,
            run=run.run,
            loaders=[f.loader for f in self.experiment.loaders.values()],
            parameters=parameters,
            buffers=buffers,
            groups=assignment.groups,
            updates=updates.updates,
            graphs=store.graphs,
            evaluations=evaluations,
            metrics={
                **metrics,
                **{k: v for k, v in updates.metrics.items() if v},
                **watched.metrics,
            },
            terms=training.terms,
            counters=training.counters,
            curriculum=curriculum,
        )

    def _parameters(
        self, tree: Tree, inits: Initializers, assignment: Assignment
    ) -> list[ir.Parameter]:
        made: list[ir.Parameter] = []
        for path, p in tree.parameters.items():
            init = self.attempt(
                lambda p=p, path=path: inits.graph_name(
                    path, TensorType(p.shape, p.kept), p.init, p.origin
                )
            )
            made.append(
                ir.Parameter(
                    path=path,
                    aliases=tree.aliases.get(path, []),
                    shape=p.shape,
                    dtype=p.kept,
                    init=init or "",
                    trainable=p.trainable,
                    tags=list(p.tags),
                    group=assignment.members.get(path),
                )
            )
        return made

    def _buffers(self, tree: Tree, inits: Initializers) -> list[ir.Buffer]:
        made: list[ir.Buffer] = []
        for path, b in tree.buffers.items():
            init = self.attempt(
                lambda b=b, path=path: inits.graph_name(
                    path, TensorType(b.shape, b.dtype), b.init, b.origin
                )
            )
            per = "example" if b.per_example else None
            made.append(
                ir.Buffer(path=path, shape=b.shape, dtype=b.dtype, init=init or "", per=per)
            )
        return made

    def _updates(
        self,
        tree: Tree,
        assignment: Assignment,
        store: GraphStore,
        inits: Initializers,
        watched: Watched,
    ) -> Updates:
        updates = Updates(store, inits, watched)
        for group in assignment.groups:
            optimizer = assignment.optimizers.get(group.name)
            if optimizer is not None and group.hyper is not None:
                graph = self.attempt(lambda o=optimizer, g=group: hyper_graph(g.name, o))
                if graph is not None:
                    store.add(graph)
        broken: set[str] = set()
        for path, group_name in assignment.members.items():
            if group_name in broken:
                continue
            before = len(self.diagnostics)
            self.attempt(
                lambda path=path, name=group_name: updates.add(
                    tree.parameters[path], name, assignment.optimizers[name]
                )
            )
            if len(self.diagnostics) > before:
                broken.add(group_name)
        self.diagnostics.extend(updates.warnings)
        return updates

    def _clip_graph(self, trained: list[Any], limit: float | None, assignment: Assignment) -> Graph:
        clipped = {
            group.name: (
                group.clip_norm,
                [path for path, name in assignment.members.items() if name == group.name],
            )
            for group in assignment.groups
            if group.clip_norm is not None and not group.frozen
        }
        return clip_graph({p.path or "": p.shape for p in trained}, limit, clipped)

    def _curriculum(
        self,
        run: RunForm,
        stages: int,
        evaluations: list[ir.Evaluation],
        metrics: dict[str, list[ir.Metric]],
        terms: dict[str, list[str]],
        store: GraphStore,
        inits: Initializers,
    ) -> ir.Curriculum | None:
        """The curriculum, its graph in the store; None where there is none."""
        function = self.function(CURRICULUM)
        loader = self.experiment.loaders[run.run.train]
        if (function is None) != (stages == 1) and not self.experiment.session.has_failed(
            CURRICULUM
        ):
            told = (
                f"the loader {run.run.train} has {stages} stages, and the file no curriculum"
                if function is None
                else f"the loader {run.run.train} has no stages that curriculum could choose from"
            )
            span = loader.span if function is None else function.origin
            self.tell(codes.W_RUN_004, told, span)
        if function is None or self.failed:
            return None
        if not evaluations:
            self.tell(
                codes.E_RUN_009,
                "curriculum runs after evaluations, and the run has none",
                function.origin or run.span,
                "declare a pass: (defeval valid :loader … :every 100)",
            )
            return None
        series = series_of(store, evaluations, metrics, terms)
        made = self.attempt(lambda: trace_curriculum(function, series, store, inits))
        if made is None:
            return None
        graph, record, found = made
        metrics[store.add(graph)] = found
        return record

    # -- warnings ----------------------------------------------------------------------------

    def _warn_unused(self, run: RunForm) -> None:
        evaluate = self.function("evaluate")
        begun = {kind for kind, _ in self.experiment.begun}
        if evaluate is not None and "pass" not in begun:
            self.tell(
                codes.W_RUN_001,
                "no pass calls evaluate: the file declares none",
                evaluate.origin or run.span,
                "declare one: (defeval valid :loader … :every 100)",
            )
        used = {run.run.train, *(e.loader for e in self.experiment.evaluations.values())}
        for name, form in self.experiment.loaders.items():
            if name not in used:
                self.diagnostics.append(
                    Diagnostic(
                        codes.W_RUN_001,
                        f"nothing reads the loader {name}",
                        [Label(form.span)] if form.span is not None else [],
                    )
                )


def _takes_one(model: Model) -> bool:
    """Whether a model can be called with one value, as the default prediction does."""
    return model.forward is not None and model.forward.minimum <= 1
