"""The evaluation passes of a document, and the series that checkpoints and `:stop` follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sexpgpu.assemble.evaluating import trace_evaluation
from sexpgpu.assemble.graphs import GraphStore
from sexpgpu.diagnostics.codes import data as data_codes
from sexpgpu.diagnostics.codes import run as run_codes
from sexpgpu.diagnostics.model import Diagnostic, Label, SxError
from sexpgpu.diagnostics.suggest import did_you_mean
from sexpgpu.forms.evaluations import EvaluationForm
from sexpgpu.forms.runs import RunForm
from sexpgpu.ir import document as ir
from sexpgpu.lisp.values import Function

if TYPE_CHECKING:
    from sexpgpu.assemble.whole import Assembly


class Passes:
    """Traces the passes of a run into the store, and notes what each reports in `metrics`."""

    __slots__ = ("assembly", "metrics", "objective", "prepare", "run", "store")

    def __init__(
        self, assembly: Assembly, run: RunForm, prepare: Function, objective: Function,
        store: GraphStore, metrics: dict[str, list[ir.Metric]],
    ) -> None:  # fmt: skip
        self.assembly = assembly
        self.run = run
        self.prepare = prepare
        self.objective = objective
        self.store = store
        self.metrics = metrics

    def all(self) -> list[ir.Evaluation]:
        """Every pass that runs; those with mistakes are reported and left out."""
        run, experiment = self.run, self.assembly.experiment
        names = run.evaluations
        declared = experiment.evaluations
        if names is None:
            names = list(declared)
        made: list[ir.Evaluation] = []
        for name in names:
            form = declared.get(name)
            if form is None and ("pass", name) in experiment.begun:
                continue
            if form is None:
                self.assembly.tell(
                    data_codes.E_EVAL_001,
                    f"defrun :eval names the pass {name}, which is not declared",
                    run.places.get("eval") or run.span,
                    did_you_mean(name, declared) or "declare it with defeval",
                )
                continue
            evaluation = self.assembly.attempt(lambda form=form: self._evaluation(form))
            if evaluation is not None:
                made.append(evaluation)
        return made

    def _evaluation(self, form: EvaluationForm) -> ir.Evaluation:
        run, assembly, store, metrics = self.run, self.assembly, self.store, self.metrics
        loader = assembly.experiment.loaders.get(form.loader)
        if loader is None and ("loader", form.loader) in assembly.experiment.begun:
            raise SxError  # reported already
        if loader is None:
            raise SxError(
                Diagnostic(
                    data_codes.E_EVAL_001,
                    f"the pass {form.name} reads the loader {form.loader}, which is not declared",
                    [Label(place)] if (place := form.loader_span or form.span) else [],
                    (),
                    did_you_mean(form.loader, assembly.experiment.loaders),
                )
            )
        if len(loader.loader.stages) > 1:
            raise SxError(
                Diagnostic(
                    data_codes.E_EVAL_002,
                    f"the pass {form.name} reads the loader {form.loader}, which has stages",
                    [Label(place)] if (place := form.loader_span or form.span) else [],
                )
            )
        stage = loader.loader.stages[0]
        how = form.prepare or assembly.function("eval-prepare") or self.prepare
        own = form.evaluate or assembly.function("evaluate")
        evaluate = own or self.objective

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
                            data_codes.E_METRIC_002,
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

    def check_followed(self, evaluations: list[ir.Evaluation]) -> None:
        """The series that :best and :stop follow are ones that a pass reports: else none is ever
        the best; and the pass that :stop follows runs again and again."""
        run, metrics = self.run, self.metrics
        stop, checkpoint = run.run.stop, run.run.checkpoint
        followed = [("checkpoint", ":best", checkpoint.best)] if checkpoint.best else []
        followed += [("stop", ":stop", stop.best)] if stop is not None else []
        if self.assembly.failed:
            return
        known = {f":eval/{e.name}/{m.name}": (e, m) for e in evaluations for m in metrics[e.graph]}
        for key, shown, (_, series) in followed:
            where = run.places.get(key) or run.span
            found = known.get(f":{series}")
            if found is None:
                self.assembly.tell(
                    run_codes.E_RUN_006,
                    f"defrun {run.run.name}: {shown} follows :{series}, which no evaluation "
                    "reports",
                    where,
                    did_you_mean(f":{series}", known)
                    or (f"the passes report {' '.join(known)}" if known else "declare a pass: "
                        "defeval"),
                )  # fmt: skip
                continue
            evaluation, metric = found
            shape = self._shape(evaluation, metric)
            if shape:
                self.assembly.tell(
                    run_codes.E_RUN_006,
                    f"defrun {run.run.name}: {shown} follows :{series}, whose values have the "
                    f"shape {_shown(shape)}",
                    where,
                    "follow a series of single numbers: report what you look for as a metric",
                )
            elif key == "stop" and evaluation.every is None:
                self.assembly.tell(
                    run_codes.E_RUN_006,
                    f"defrun {run.run.name}: :stop follows the pass {evaluation.name}, which runs "
                    "only once",
                    where,
                    f"give it a cadence: (defeval {evaluation.name} … :every 100)",
                )

    def _shape(self, evaluation: ir.Evaluation, metric: ir.Metric) -> tuple[int, ...]:
        """The shape of what a metric of a pass reports."""
        graphs = self.store.graphs
        if metric.finish is not None:
            return graphs[metric.finish].outputs["value"].type.shape
        return graphs[evaluation.graph].outputs[f"metric/{metric.name}/value"].type.shape


def _shown(shape: tuple[int, ...]) -> str:
    return f"({' '.join(map(str, shape))})"
