"""The Python API: experiments, runs and traced functions as objects (docs/api.md).

Importing this module imports neither numpy nor jax; a run does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sexpgpu.compiler import Compiled, compile_source, lisp_value, read_source
from sexpgpu.diagnostics import render
from sexpgpu.diagnostics.codes.run import E_RUN_033
from sexpgpu.diagnostics.model import Diagnostic, SxError
from sexpgpu.ir.document import Diagnostics, Document
from sexpgpu.lisp.printer import prin1_text
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.values import CL, PRELUDE, TENSOR, Module
from sexpgpu.source import Source
from sexpgpu.traced import TracedFunction, make_function

if TYPE_CHECKING:
    import numpy as np

    from sexpgpu.loop.comparing import Crosscheck


class CompileError(Exception):
    """A file does not compile. `diagnostics` are all that was found; the text shows them."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = list(diagnostics)
        super().__init__("\n\n" + render.texts(self.diagnostics))


class RunError(Exception):
    """A run failed. `run` is what there is of it; `diagnostics` say why."""

    def __init__(self, run: Run, diagnostics: Sequence[Diagnostic]) -> None:
        self.run = run
        self.diagnostics = list(diagnostics)
        super().__init__("\n\n" + render.texts(self.diagnostics))


class ParameterInfo(NamedTuple):
    """One parameter of an experiment; `size` is its number of elements."""

    path: str
    shape: tuple[int, ...]
    dtype: str
    group: str | None
    size: int


class Experiment:
    """A compiled run file: immutable, ready to run."""

    def __init__(self, compiled: Compiled) -> None:
        print(compiled.output, end="")  # what the file printed while it was compiled
        self._compiled = compiled
        self._document = compiled.document
        if self._document is None:
            raise CompileError(compiled.diagnostics)

    @property
    def document(self) -> Document:
        """The checked IR document."""
        assert self._document is not None
        return self._document

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """Warnings; errors raise CompileError instead."""
        return self._compiled.diagnostics

    @property
    def ir(self) -> str:
        """The IR document in its text form."""
        from sexpgpu.ir.document_text import print_document

        return print_document(self.document)

    @property
    def parameters(self) -> list[ParameterInfo]:
        """Every parameter: path, shape, dtype, optimizer group, size."""
        from sexpgpu.explain.summary import parameters

        return [
            ParameterInfo(p["path"], tuple(p["shape"]), p["dtype"], p["group"], p["count"])
            for p in parameters(self.document)
        ]

    def explain(self, by_line: bool = False) -> str:
        """What the compiler made of the file, as text."""
        from sexpgpu.explain.batch import example_batch
        from sexpgpu.explain.summary import summary
        from sexpgpu.explain.text import explain_text

        data = {**summary(self.document), "batch": example_batch(self.document)}
        return explain_text(data, by_line)

    def diff(self, other: Experiment | Run) -> dict[str, Any]:
        """What differs in meaning from another experiment or run, this one being `a`: the data of
        `sexpgpu diff --json` (docs/explain.md). `["same"]` is true when nothing does."""
        from sexpgpu.explain.difference import difference

        return difference(self.document, other.document)

    def function(self, text: str, device: str = "interp") -> TracedFunction:
        """A function of the file's scope (a lambda, or a name) on arrays."""
        module = self._compiled.module
        assert module is not None
        return _compiling(lambda: make_function(text, self._compiled.session, module, device))

    def run(
        self,
        *,
        steps: int | None = None,
        runs: str | os.PathLike[str] = "runs",
        slug: str | None = None,
        device: str = "auto",
        resume: str | int | os.PathLike[str] | None = None,
        init_from: str | os.PathLike[str] | None = None,
        init_map: Mapping[str, str | None] | None = None,
        init_missing: Sequence[str] = (),
        init_extra: Sequence[str] = (),
        fresh: bool = False,
        allow_change: bool = False,
        time_limit: float | None = None,
        quiet: bool = True,
        on_event: Callable[[dict[str, Any]], None] | None = None,
        log: Sequence[str] = (),
        peak_flops: float | None = None,
        profile: str | None = None,
        plot: bool | None = None,
    ) -> Run:
        """Train. `runs` is the folder of run directories, `slug` the name of this run's.

        `resume`: "latest", a step, or the path of a run or checkpoint; `allow_change`: also when
        the experiment differs in anything but parameters' shapes; `init_from`: a run, a checkpoint
        ("RUN@STEP"), a .safetensors or .npz file to take initial weights from, `init_map` what its
        names are called here (None: left out), `init_missing` and `init_extra` globs of what may
        lack there and here (docs/checkpoints.md); `fresh`: replace a run that exists;
        `time_limit`: seconds after which to stop, checkpointed; `on_event` is called with each
        event (docs/events.md); `log`: further targets, such as "csv" or "tensorboard";
        `peak_flops`: of the device, for train/mfu; `profile`: a directory for a profile of ten
        steps after the first; `plot`: draw the curves while it trains (default: in a notebook).
        Raises RunError when the run fails; a run stopped by a signal or a limit is given back with
        `state` "stopped"."""
        from sexpgpu.ir.document_json import document_hash, document_text
        from sexpgpu.loop.failure import failure
        from sexpgpu.loop.run import RunOptions, execute
        from sexpgpu.loop.weights import begun_with
        from sexpgpu.notebook import live_plot

        live = live_plot() if plot or plot is None else None

        def hear(event: dict[str, Any]) -> None:
            if live is not None:
                live(event)
            if callable(on_event):
                on_event(event)

        document = self.document
        try:
            if init_from is not None:
                document = begun_with(document, init_from, init_map or {}, init_missing, init_extra)
            elif init_map or init_missing or init_extra:
                raise failure(E_RUN_033, "init_map, init_missing and init_extra go with init_from")
        except SxError as error:
            nothing = Run(None, "failed", {}, {}, document, device)
            raise RunError(nothing, error.diagnostics) from None
        result = execute(
            document,
            RunOptions(
                device=device,
                steps=steps,
                runs=runs,
                slug=slug,
                resume=None if resume is None else str(resume),
                fresh=fresh,
                allow_change=allow_change,
                time_limit=time_limit,
                quiet=quiet,
                on_event=hear if live is not None or callable(on_event) else on_event,
                log=log,
                peak_flops=peak_flops,
                profile=profile,
                handle_signals=_in_main_thread(),
            ),
            ir_text=document_text(document),
            ir_hash=document_hash(document),
        )
        run = Run(result.directory, result.state, result.parameters, result.model, document, device)
        if result.exit_status not in (0, 75):
            raise RunError(run, result.diagnostics)
        return run

    def _repr_html_(self) -> str:
        from sexpgpu.explain.summary import summary
        from sexpgpu.notebook import experiment_html

        return experiment_html(self.document, summary(self.document))

    def __repr__(self) -> str:
        count = sum(p.size for p in self.parameters)
        return f"<experiment {self.document.run.name}: {count:,} parameters>"


class Series(NamedTuple):
    """A metric over a run: `steps` and `values`, NumPy arrays of one length."""

    steps: np.ndarray
    values: np.ndarray

    def to_pandas(self) -> Any:
        """A pandas Series indexed by step (pandas is not a dependency: it must be installed)."""
        from importlib import import_module

        pandas: Any = import_module("pandas")
        return pandas.Series(self.values, index=pandas.Index(self.steps, name="step"))


class Run:
    """A run: its events, metrics and parameters, as they stood when it ended."""

    def __init__(
        self,
        directory: str | None,
        state: str,
        parameters: Mapping[str, np.ndarray],
        model: Mapping[str, np.ndarray],
        document: Document,
        device: str,
    ) -> None:
        self.directory = directory
        self.state = state
        self.parameters = dict(parameters)
        self._model = model
        self._document = document
        self._device = device
        self._predictor: Callable[[Mapping[str, Any]], Any] | None = None
        self.events = _events(directory)
        """Every event of `events.jsonl`, in order."""

    @property
    def metrics(self) -> dict[str, Series]:
        """Every series by its name, such as "train/loss" or "eval/valid/accuracy"."""
        import numpy as np

        points: dict[str, list[tuple[int, float]]] = {}
        for event in self.events:
            for name, value in event.get("metrics", {}).items():
                if isinstance(value, int | float | str):
                    points.setdefault(name, []).append((event["step"], float(value)))
        return {
            name: Series(np.array([s for s, _ in at]), np.array([v for _, v in at]))
            for name, at in points.items()
        }

    def predict(self, **fields: Any) -> Any:
        """The contract function `predict` (default: the model on prepare's first value) on
        records, with averaged parameters where the optimizer averages: each keyword is a field of
        the training loader, an array [records, …]. Gives an array [records, …], or a tuple of
        them. RunError for records that do not fit."""
        from sexpgpu.loop.predict import Predictor

        try:
            if self._predictor is None:
                self._predictor = Predictor(self._document, self._model, self._device)
            return self._predictor(fields)
        except SxError as error:
            raise RunError(self, error.diagnostics) from None

    def annotate(self, text: str, step: int | None = None) -> dict[str, Any]:
        """Add a text to the events of the run, about a step (default: the last); gives the event.
        It stays when a resume cuts the events after a checkpoint. RunError where there is no run
        directory (any more), or it cannot be written."""
        from sexpgpu.loop.events import annotate
        from sexpgpu.loop.failure import system_failure

        try:
            record = annotate(self.directory or "", text, step)
        except SxError as error:
            raise RunError(self, error.diagnostics) from None
        except OSError as error:
            raise RunError(self, system_failure(error).diagnostics) from None
        self.events.append(record)
        return record

    @property
    def document(self) -> Document:
        """The IR document that was run."""
        return self._document

    def _repr_html_(self) -> str:
        from sexpgpu.notebook import run_html

        return run_html(self.directory or self._document.run.name, self.state, self.metrics)

    def __repr__(self) -> str:
        return f"<run {self.directory}: {self.state}>"


def open_run(
    path: str | os.PathLike[str], *, device: str = "auto", weights: str = "averaged"
) -> Run:
    """A run that is there already, by its directory, a checkpoint's, or "RUN@STEP", "RUN@best":
    events and metrics as they stand, parameters of that checkpoint (of a run: its newest whole
    one). `device` is where `predict` computes; `weights`: "averaged" where the optimizer keeps an
    average, or "raw". CompileError where there is no run, no checkpoint, or one that is damaged."""
    return _compiling(lambda: _open_run(os.fspath(path), device, weights))


def _open_run(reference: str, device: str, weights: str) -> Run:
    from sexpgpu.ir.document_json import read_document
    from sexpgpu.loop import directory, named, status
    from sexpgpu.loop.weights import model_for
    from sexpgpu.ops import infer

    checkpoint = named.find(reference)
    folder = os.path.dirname(os.path.dirname(os.path.abspath(checkpoint)))
    document = read_document(read_source(os.path.join(folder, directory.IR_FILE)).text, infer)
    raw = model_for(document, checkpoint, "raw")
    model = raw if weights == "raw" else model_for(document, checkpoint, weights)
    trained = {
        name.removeprefix("param/"): a for name, a in raw.items() if name.startswith("param/")
    }
    state = (status.read_status(folder) or {}).get("state", "unknown")
    return Run(folder, state, trained, model, document, device)


def compile(
    path: str | os.PathLike[str],
    *,
    variants: Sequence[str] = (),
    knobs: Mapping[str, Any] | None = None,
    diagnostics: Sequence[str] = (),
    diagnostics_every: int = 1,
) -> Experiment:
    """Compile a run file. `knobs` are Python values; a text that begins with a colon is a keyword.
    `diagnostics`: globs of those to take, at each `diagnostics_every`-th step.

    Raises CompileError with every diagnostic."""
    name = os.fspath(path)
    settings = [(k, lisp_value(v)) for k, v in (knobs or {}).items()]

    def work() -> Experiment:
        base = os.path.dirname(os.path.abspath(name))
        return Experiment(
            compile_source(
                read_source(name),
                base,
                variants=variants,
                settings=settings,
                diagnostics=_watched(diagnostics, diagnostics_every),
            )
        )

    return _compiling(work)


def compile_text(
    text: str,
    *,
    name: str = "<text>",
    base: str | None = None,
    variants: Sequence[str] = (),
    knobs: Mapping[str, Any] | None = None,
    diagnostics: Sequence[str] = (),
    diagnostics_every: int = 1,
) -> Experiment:
    """Compile a text as a run file; relative data paths start from `base`."""
    settings = [(k, lisp_value(v)) for k, v in (knobs or {}).items()]
    return _compiling(
        lambda: Experiment(
            compile_source(
                Source(name, text),
                base or os.getcwd(),
                variants=variants,
                settings=settings,
                diagnostics=_watched(diagnostics, diagnostics_every),
            )
        )
    )


def check(
    path: str | os.PathLike[str],
    *,
    variants: Sequence[str] = (),
    knobs: Mapping[str, Any] | None = None,
) -> list[Diagnostic]:
    """Every diagnostic of a run file, errors and warnings; an empty list when all is well."""
    name = os.fspath(path)
    settings = [(k, lisp_value(v)) for k, v in (knobs or {}).items()]
    try:
        base = os.path.dirname(os.path.abspath(name))
        return compile_source(
            read_source(name), base, variants=variants, settings=settings
        ).diagnostics
    except SxError as error:
        return error.diagnostics


def function(
    text: str, *, device: str = "interp", scope: Experiment | None = None
) -> TracedFunction:
    """A function of tensors on arrays: `function("(lambda (x w) (tanh (matmul x w)))")`.

    `text` is a lambda form or the name of a function; `scope` gives it a file's definitions.
    `device` is interp, cpu, cuda or auto."""
    if scope is not None:
        return scope.function(text, device)
    session = Session()
    return _compiling(lambda: make_function(text, session, _scratch(), device))


def crosscheck(
    experiment: Experiment,
    device: str = "auto",
    *,
    steps: int = 3,
    by_node: bool = False,
    tolerance: float | None = None,
) -> Crosscheck:
    """The first steps of an experiment by the NumPy evaluator, its evaluations and a prediction,
    each graph also on a device (auto, cpu, cuda) with the same inputs: `.agrees`, `.differences`
    of outputs, `.first`, the first node to blame, `.to_json()`; `by_node` fills `.nodes`. Errors
    are shares of each tensor's largest magnitude. CompileError for data or a device that fails."""
    from sexpgpu.loop.crosscheck import crosscheck

    return _compiling(
        lambda: crosscheck(
            experiment.document, device, steps=steps, by_node=by_node, tolerance=tolerance
        )
    )


def evaluate(text: str) -> Any:
    """The value of a Lisp text (the last form's): numbers, strings, booleans and lists as Python
    values, everything else as the text the printer writes; several values as a tuple."""
    session = Session()

    def work() -> Any:
        values = [_python(v) for v in session.evaluate(text, _scratch())]
        return values[0] if len(values) == 1 else tuple(values)

    return _compiling(lambda: session.run(work))  # printing counts too: a list may be circular


def _scratch() -> Module:
    return Module("<text>", (PRELUDE, TENSOR, CL))


def _compiling(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except SxError as error:
        raise CompileError(error.diagnostics) from None


def _python(value: Any) -> Any:
    from sexpgpu.forms.knobs import is_literal, plain
    from sexpgpu.forms.parse import is_keyword

    if is_literal(value) and not is_keyword(value):
        return plain(value)
    return prin1_text(value)


def _watched(globs: Sequence[str], every: int) -> Diagnostics | None:
    if type(every) is not int or every < 1:
        told = f"diagnostics_every takes a positive number of steps, not {every!r}"
        raise SxError(Diagnostic(E_RUN_033, told))
    return Diagnostics(select=list(globs), every=every) if globs else None


def _events(directory: str | None) -> list[dict[str, Any]]:
    from sexpgpu.loop.events import read_events

    path = os.path.join(directory or "", "events.jsonl")
    return list(read_events(path)) if directory is not None and os.path.exists(path) else []


def _in_main_thread() -> bool:
    import threading

    return threading.current_thread() is threading.main_thread()
