"""One run while it is open: from where it starts, through all its parts, to its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from sexpgpu.diagnostics.codes import run as run_codes
from sexpgpu.diagnostics.model import SxError
from sexpgpu.ir.document import Document
from sexpgpu.loop import checkpoint, directory, resume, status
from sexpgpu.loop.beginning import Beginning, begin, passes_due, tell_last_interval
from sexpgpu.loop.data.opened import Opened
from sexpgpu.loop.ending import give, remaining, summary
from sexpgpu.loop.evaluate import Pass
from sexpgpu.loop.events import check_mark
from sexpgpu.loop.executables import ahead
from sexpgpu.loop.failure import STOPPED, failure
from sexpgpu.loop.guard import non_finite
from sexpgpu.loop.ledger import Ledger, machine_of
from sexpgpu.loop.lock import RunLock
from sexpgpu.loop.moving import Curriculum
from sexpgpu.loop.parts import Parts
from sexpgpu.loop.planned import planned_step
from sexpgpu.loop.profiling import Profiling
from sexpgpu.loop.progress import Progress
from sexpgpu.loop.recorder import Recorder
from sexpgpu.loop.reports import NonFiniteError
from sexpgpu.loop.run import RunOptions, RunResult
from sexpgpu.loop.schedule import AUTO_LEAST, Schedule, steps_together
from sexpgpu.loop.signals import Requests, interruptible, listening
from sexpgpu.loop.stages import Program, most_flops, programs
from sexpgpu.loop.statistics import compute as statistics
from sexpgpu.loop.targets.fan import Fan
from sexpgpu.loop.train import COMPLETE, Trainer
from sexpgpu.lowering.backend import Backend, Compiled, open_backend
from sexpgpu.lowering.peaks import peak_flops

T = TypeVar("T")


class Session:
    """Opens what a run needs in `train`, and closes whatever was opened in `close`."""

    def __init__(
        self,
        document: Document,
        options: RunOptions,
        result: RunResult,
        ir_text: str,
        ir_hash: str,
    ) -> None:
        self.document = document
        self.options = options
        self.result = result
        self._ir_text = ir_text
        self._ir_hash = ir_hash
        self._began = time.monotonic()
        self._requests = Requests(options.time_limit)
        self._progress = Progress(options.stream, options.quiet)
        self._reason = "failed"
        self._lock: RunLock | None = None
        self._ledger: Ledger | None = None
        self._data = Opened(document)
        self._passes: list[Pass] = []
        self._fan: Fan | None = None
        self._machine: Mapping[str, Any] = {}
        self._saver: checkpoint.Checkpointer | None = None
        self._trainer: Trainer | None = None
        self._coming: Future[Compiled] | None = None  # the step, compiled while all else is opened

    def listening(self) -> AbstractContextManager[None]:
        """Signals act on the run while this context is open, to the end of `close`."""
        if self.options.handle_signals:
            return listening(self._requests, self._last_words)
        return nullcontext()

    def train(self) -> None:
        """The whole run, but for closing. Raises SxError; the result has the rest."""
        start = self._find_start()
        self.result.directory = start.directory
        if self._is_finished(start):
            return
        lock = self._claim(start)
        if start.among not in (None, checkpoint.list_checkpoints(start.directory)):
            start = self._find_start()  # who wrote the run has saved since, and ended
            if self._is_finished(start):
                return
        if lock.warning is not None:
            start.warnings.append(lock.warning)
        self.result.diagnostics.extend(start.warnings)
        replaces = self.options.fresh and directory.holds_any(start.directory)
        if start.path is None and not replaces:
            self._open_ledger(start, lock)
        backend = open_backend(self.options.device, deterministic=self.options.deterministic)
        made = programs(self.document)
        self._compile_ahead(backend, made, start)
        # data may be far away, and hang; so may the disk that holds the checkpoint
        begun = self._unless_stopped(lambda: self._open_and_begin(start))
        if begun is None:
            return
        steps, beginning = begun
        self._tell_steps(beginning, steps)
        described = backend.describe()
        peak = self.options.peak_flops or peak_flops(described["kind"], self.document.run.precision)
        self._machine = machine_of(backend, peak)
        if beginning.meta is None:
            taken = self._unless_stopped(lambda: statistics(self.document))
            if taken is None:
                return
            beginning.constants.update(taken)
        self._passes = self._make_passes(backend)
        # A resume, or a start over, that is refused has written nothing so far: the run that is
        # there is as it was.
        if replaces:
            directory.clear(start.directory)
            directory.make(start.directory)
        ledger = self._ledger or self._open_ledger(start, lock)
        self._tell_steps(beginning, steps)
        trainer = self._build(backend, made, start, lock, ledger, beginning, steps)
        self._write_down(start, ledger, beginning, steps)
        tell_last_interval(trainer)
        try:
            self._end(trainer.run())
        except NonFiniteError as found:
            raise non_finite(trainer, found, start.directory) from None
        finally:
            if trainer.parts.profiling is not None:
                trainer.parts.profiling.end()

    def _unless_stopped(self, action: Callable[[], T]) -> T | None:
        """`action()`; None when the run is asked to stop meanwhile: it has ended then."""
        found = interruptible(action, self._requests)
        if found is None:
            self.result.abandoned = True
            self._end(self._requests.stop or "stopped")
            if self._ledger is None:
                told = f"stopped by {self._reason}: {self.result.directory} is as it was"
                self._progress.say(told)
        return found

    def _end(self, reason: str) -> None:
        finished = reason in COMPLETE
        self._reason = reason
        self.result.state = "finished" if finished else "stopped"
        self.result.exit_status = 0 if finished else STOPPED

    # -- opening ----------------------------------------------------------------------------

    def _find_start(self) -> resume.Start:
        options, selection = self.options, self.document.manifest.get("selection", {})
        run = self.document.run
        other_steps = options.steps if options.steps != run.steps else None
        slug = options.slug or directory.slug_of(run.name, selection, self._ir_hash, other_steps)
        start = resume.find_start(
            options.runs,
            slug,
            run.name,
            selection.get("variants", []),
            options.resume,
            options.slug is not None,
        )
        if options.fresh and options.resume is not None and not start.foreign:
            raise failure(
                run_codes.E_RUN_033,
                "--fresh and --resume contradict each other",
                fix="--fresh begins again, at step 0 or at another run's checkpoint",
            )
        if not options.fresh and (options.resume is None or start.foreign):
            directory.refuse_existing(start.directory)
        return start

    def _is_finished(self, start: resume.Start) -> bool:
        """Whether a run that is to be resumed has done all its steps already."""
        before = status.read_status(start.directory) if start.path and not start.foreign else None
        if before is None or before.get("state") != "finished" or start.path is None:
            return False
        if self.options.resume != "latest" or before.get("ir") != self._ir_hash:
            return False
        wanted = self.options.steps or self.document.run.steps
        if wanted is not None and wanted != before.get("steps"):
            return False  # it was cut short, or is to be longer now
        tensors, meta = checkpoint.load(start.path)
        if meta["step"] != before.get("step"):  # the last is damaged: go on from an earlier one
            return False
        check_mark(start.directory, meta["events"])
        self._progress.say(f"{start.directory} is finished, at step {before['step']}")
        give(self.result, self.document, tensors, meta["ctx"])
        self.result.state, self.result.step = "finished", before["step"]
        self.result.summary = before.get("summary", {})
        return True

    def _compile_ahead(self, backend: Backend, made: list[Program], start: resume.Start) -> None:
        """Begin to compile the step while all else is opened, where one step is what the first
        dispatch runs: at step 0 always, later where no dispatch has more."""
        document = self.document
        steps = self.options.steps or document.run.steps or AUTO_LEAST
        together = steps_together(document, backend.name, most_flops(made), steps)
        if backend.name != "interp" and (start.path is None or together == 1):
            made[0].coming = self._coming = ahead(backend, *planned_step(document, made))

    def _claim(self, start: resume.Start) -> RunLock:
        """The run directory, made and locked."""
        directory.make(start.directory)
        lock = self._lock = RunLock(start.directory)
        directory.sweep(start.directory)
        return lock

    def _open_ledger(self, start: resume.Start, lock: RunLock) -> Ledger:
        fan = self._fan = Fan(self.options.log, start.directory)
        self._ledger = Ledger(
            start.directory, lock, self.document, self._ir_hash, self._heard, fan.begin
        )
        return self._ledger

    def _tell_steps(self, beginning: Beginning, steps: int) -> None:
        if self._ledger is not None:
            step = int(beginning.state["step"])
            self._ledger.status.update(
                steps=steps, step=step, progress=step / steps if steps else 1.0
            )

    def _open_and_begin(self, start: resume.Start) -> tuple[int, Beginning]:
        """Open everything that is read; gives the steps of the run and what they begin with."""
        run = self.document.run
        self._data.open()
        steps = self.options.steps or run.steps or self._data.steps_of(run.epochs or 0)
        experiment, allowed = self._experiment(steps), self.options.allow_change
        found = begin(self.document, start, experiment, self._curriculum(), allowed)
        if found.changed is not None:
            start.warnings.append(found.changed)
            self.result.diagnostics.append(found.changed)
        return steps, found

    def _curriculum(self) -> Curriculum | None:
        document = self.document
        if document.curriculum is None:
            return None
        return Curriculum(document, len(document.loader(document.run.train).stages))

    def _make_passes(self, backend: Backend) -> list[Pass]:
        known = {e.name: e for e in self.document.evaluations}
        opened = self._data.passes.items()
        return [Pass(self.document, known[name], read, backend) for name, read in opened]

    def _experiment(self, steps: int) -> dict[str, Any]:
        found = resume.described(self.document, self._ir_hash, self._data.files())
        found["run"]["steps"] = steps
        return found

    def _build(
        self,
        backend: Backend,
        made: list[Program],
        start: resume.Start,
        lock: RunLock,
        ledger: Ledger,
        beginning: Beginning,
        steps: int,
    ) -> Trainer:
        document = self.document
        step, moves = made[0].step, self._curriculum()
        together = steps_together(document, backend.name, most_flops(made), steps)
        self._saver = checkpoint.Checkpointer(start.directory, document.run.checkpoint)
        facts = {
            "manifest": document.manifest,
            "experiment": self._experiment(steps),
            "sources": [{"name": s.name, "text": s.text} for s in document.sources],
            "averages": sorted(p for p, u in document.updates.items() if u.average is not None),
        }
        parts = Parts(
            document=document,
            backend=backend,
            programs=made,
            batches=self._data.training,
            curriculum=moves,
            passes=self._passes,
            schedule=Schedule(document, self._passes, steps, together),
            recorder=Recorder(
                step,
                document.run.log_every,
                steps,
                document.run.finite == "ignore",
                curriculum=moves is not None,
            ),
            events=ledger.events,
            status=ledger.status,
            requests=self._requests,
            checkpointer=self._saver,
            lock_lost=lambda: lock.lost,
            tick=self._progress.tick,
            target_warnings=self._fan.take_warnings if self._fan is not None else list,
        )
        if self.options.profile is not None:
            parts = parts._replace(profiling=Profiling(backend, self.options.profile))
        parts.recorder.peak_flops = self._machine["peak_flops"]
        trainer = Trainer(parts, beginning.state, beginning.constants, facts, self._began)
        self._trainer = trainer
        if beginning.meta is not None:
            meta = beginning.meta | {"due": passes_due(beginning.meta, self._passes, steps)}
            trainer.restore(meta, beginning.lessons, own=not start.foreign)
        return trainer

    def _write_down(
        self,
        start: resume.Start,
        ledger: Ledger,
        beginning: Beginning,
        steps: int,
    ) -> None:
        """The files that tell what is run, and the `open` or `resume` event."""
        directory.write_experiment(
            start.directory, self._ir_text, self.document.manifest, self.document.sources
        )
        if beginning.meta is None or start.foreign:
            parameters = sum(int(a.size) for a in beginning.state["param"].values())
            warnings = [] if start.foreign else start.warnings
            ledger.opened(self._machine, steps, parameters, beginning.taken_from, warnings)
        if beginning.meta is not None:
            step = int(beginning.state["step"])
            ledger.resumed(start, self._machine, beginning.meta, step, steps)

    def _heard(self, record: dict[str, Any]) -> None:
        self._progress.event(record)
        if self._fan is not None:
            self._fan.take(record)
        if self.options.on_event is not None:
            self.options.on_event(record)

    # -- ending -----------------------------------------------------------------------------

    def _last_words(self) -> None:
        """On a second stop signal: what can be said without waiting for anything."""
        if self._ledger is not None:
            self._ledger.status.last_words(state="stopped", reason="a second signal")

    def close(self, error: BaseException | None) -> None:
        """End what was opened; status and events say how the run ended."""
        result, trainer = self.result, self._trainer
        if error is None and result.state == "failed" and result.diagnostics:
            error = SxError(*result.diagnostics)
        if error is not None:
            self._reason = "failed"
        result.abandoned |= self._coming is not None and not self._coming.done()
        try:
            if self._saver is not None and error is not None:
                self._saver.abandon()
            if trainer is not None:
                result.step = trainer.step
                result.abandoned |= trainer.abandoned
                tensors = remaining(trainer)
                if tensors:
                    give(result, self.document, tensors, trainer.known(trainer.step))
            if self._ledger is not None:
                for name in self._requests.take_received():
                    self._ledger.events.append("signal", result.step, signal=name)
                result.summary = summary(trainer, result.step, time.monotonic() - self._began)
                self._ledger.ended(result, self._reason, error)
            if self._fan is not None:
                for found in self._fan.close():
                    self._progress.warning(found)
                    result.diagnostics.append(found)
        finally:
            for part in (self._data, self._ledger, self._progress):
                if part is not None:
                    part.close()
            if self._lock is not None:
                directory.release_reserve(str(result.directory))
                self._lock.release()
