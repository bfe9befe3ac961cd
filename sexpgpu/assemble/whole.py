"""The whole document of an evaluated run file. Goes on after an error in one graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sexpgpu.assemble.doubts import idle_warnings
from sexpgpu.assemble.evaluating import trace_evaluation, trace_prediction
from sexpgpu.assemble.graphs import GraphStore
from sexpgpu.assemble.initial import Initializers
from sexpgpu.assemble.staging import row_faults, stage_faults, trace_stages
from sexpgpu.assemble.turning import series_of, trace_curriculum
from sexpgpu.assemble.updating import Assignment, Updates, clip_graph, hyper_graph
from sexpgpu.assemble.watching import Watched, of_the_loop
from sexpgpu.diagnostics.codes import run as codes
from sexpgpu.diagnostics.model import Diagnostic, Label, SxError
from sexpgpu.diagnostics.suggest import did_you_mean
from sexpgpu.forms.evaluations import EvaluationForm
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
            self.error(error.code, error.message, run.span if run is not None else None, error.fix)
        return None

    def error(self, code: Any, headline: str, span: Any = None, fix: str | None = None) -> None:
        self.diagnostics.append(
            Diagnostic(code, headline, [Label(span)] if span is not None else [], (), fix)
        )

    def warn(self, code: Any, headline: str, span: Any = None, fix: str | None = None) -> None:
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
            self.error(codes.E_RUN_001, "the file has no defrun", fix="add (defrun name :model …)")
        for name, found in (("prepare", prepare), ("objective", objective)):
            if found is None and not failed(name):
                self.error(
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
            self.error(
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
        evaluations = self._evaluations(run, prepare, objective, store, metrics)
        self._check_followed(run, evaluations, metrics)
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
            self.diagnostics.extend(idle_warnings(tree, training.unreached, store.graphs.values()))
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

    def _evaluations(
        self,
        run: RunForm,
        prepare: Function,
        objective: Function,
        store: GraphStore,
        metrics: dict[str, list[ir.Metric]],
    ) -> list[ir.Evaluation]:
        names = run.evaluations
        declared = self.experiment.evaluations
        if names is None:
            names = list(declared)
        made: list[ir.Evaluation] = []
        for name in names:
            form = declared.get(name)
            if form is None and ("pass", name) in self.experiment.begun:
                continue
            if form is None:
                self.error(
                    codes.E_EVAL_001,
                    f"defrun :eval names the pass {name}, which is not declared",
                    run.places.get("eval") or run.span,
                    did_you_mean(name, declared) or "declare it with defeval",
                )
                continue
            evaluation = self.attempt(
                lambda form=form: self._evaluation(run, form, prepare, objective, store, metrics)
            )
            if evaluation is not None:
                made.append(evaluation)
        return made

    def _evaluation(
        self,
        run: RunForm,
        form: EvaluationForm,
        prepare: Function,
        objective: Function,
        store: GraphStore,
        metrics: dict[str, list[ir.Metric]],
    ) -> ir.Evaluation:
        loader = self.experiment.loaders.get(form.loader)
        if loader is None and ("loader", form.loader) in self.experiment.begun:
            raise SxError  # reported already
        if loader is None:
            raise SxError(
                Diagnostic(
                    codes.E_EVAL_001,
                    f"the pass {form.name} reads the loader {form.loader}, which is not declared",
                    [Label(place)] if (place := form.loader_span or form.span) else [],
                    (),
                    did_you_mean(form.loader, self.experiment.loaders),
                )
            )
        if len(loader.loader.stages) > 1:
            raise SxError(
                Diagnostic(
                    codes.E_EVAL_002,
                    f"the pass {form.name} reads the loader {form.loader}, which has stages",
                    [Label(place)] if (place := form.loader_span or form.span) else [],
                )
            )
        stage = loader.loader.stages[0]
        how = form.prepare or self.function("eval-prepare") or prepare
        own = form.evaluate or self.function("evaluate")
        evaluate = own or objective

        def graph(name: str, batch: int) -> str:
            made, found = trace_evaluation(
                name, stage, batch, how, evaluate, own is None, run.model, run.run.precision, store
            )
            metrics[name] = found
            return store.add(made)

        def remainder(rows: int, whole: str) -> str:
            """The graph of the last records; its metrics must go together with those of `whole`."""
            name = graph(f"eval/{form.name}/rest", rows)
            for metric in metrics[whole]:
                output = f"metric/{metric.name}/value"
                shapes = [store.graphs[g].outputs[output].type.shape for g in (whole, name)]
                if shapes[0] != shapes[1]:
                    raise SxError(
                        Diagnostic(
                            codes.E_METRIC_002,
                            f"the metric {metric.name} of the pass {form.name} has the shape "
                            f"{_shown(shapes[0])} for {stage.batch} records and "
                            f"{_shown(shapes[1])} for the last {rows}",
                            [Label(form.span)] if form.span is not None else [],
                            fix="reduce it over the examples",
                        )
                    )
            return name

        records = stage.records
        if records is not None and form.batches is not None:
            records = min(records, form.batches * stage.batch)
        rest = 0 if records is None else records % stage.batch
        whole = graph(f"eval/{form.name}", stage.batch)
        return ir.Evaluation(
            name=form.name,
            loader=form.loader,
            every=form.every,
            batches=form.batches,
            at_start=form.at_start,
            at_end=form.at_end,
            graph=whole,
            rest=remainder(rest, whole) if rest else None,
            rest_batch=rest,
            weights=form.weights,
        )

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
            self.warn(codes.W_RUN_004, told, span)
        if function is None or self.failed:
            return None
        if not evaluations:
            self.error(
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

    def _check_followed(
        self, run: RunForm, evaluations: list[ir.Evaluation], metrics: dict[str, list[ir.Metric]]
    ) -> None:
        """The series that :best and :stop follow are ones that a pass reports: else none is ever
        the best; and the pass that :stop follows runs again and again."""
        stop, checkpoint = run.run.stop, run.run.checkpoint
        followed = [("checkpoint", ":best", checkpoint.best)] if checkpoint.best else []
        followed += [("stop", ":stop", stop.best)] if stop is not None else []
        if self.failed:
            return
        known = {f":eval/{e.name}/{m.name}": e for e in evaluations for m in metrics[e.graph]}
        for key, shown, (_, series) in followed:
            where = run.places.get(key) or run.span
            evaluation = known.get(f":{series}")
            if evaluation is None:
                self.error(
                    codes.E_RUN_006,
                    f"defrun {run.run.name}: {shown} follows :{series}, which no evaluation "
                    "reports",
                    where,
                    did_you_mean(f":{series}", known)
                    or (f"the passes report {' '.join(known)}" if known else "declare a pass: "
                        "defeval"),
                )  # fmt: skip
            elif key == "stop" and evaluation.every is None:
                self.error(
                    codes.E_RUN_006,
                    f"defrun {run.run.name}: :stop follows the pass {evaluation.name}, which runs "
                    "only once",
                    where,
                    f"give it a cadence: (defeval {evaluation.name} … :every 100)",
                )

    # -- warnings ----------------------------------------------------------------------------

    def _warn_unused(self, run: RunForm) -> None:
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


def _shown(shape: tuple[int, ...]) -> str:
    return f"({' '.join(map(str, shape))})"


def _takes_one(model: Model) -> bool:
    """Whether a model can be called with one value, as the default prediction does."""
    return model.forward is not None and model.forward.minimum <= 1
