"""The loop: next batch, step, metrics, evaluations, curriculum, checkpoint, stop. In that order,
always.

Drives any Backend. What opens and closes its parts is `session.py`; when things happen is
`schedule.py`. Reports are read a step late, so that the host never stalls the device; before an
evaluation or a checkpoint all are read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from sexpgpu.diagnostics.codes.system import E_CKPT_007
from sexpgpu.ir.types import TensorType
from sexpgpu.loop.averages import Averages
from sexpgpu.loop.best import Best
from sexpgpu.loop.checkpoint import Saved
from sexpgpu.loop.context import StepContext
from sexpgpu.loop.data.loader import TrainingBatches
from sexpgpu.loop.evaluate import Pass
from sexpgpu.loop.executables import Executables
from sexpgpu.loop.failure import failure
from sexpgpu.loop.feeds import Feed, Feeder, Feeds
from sexpgpu.loop.initial import flattened
from sexpgpu.loop.moving import Curriculum
from sexpgpu.loop.parts import Parts
from sexpgpu.loop.reports import Reports
from sexpgpu.loop.stages import Course, Leg, Program, context_read
from sexpgpu.loop.step import StepState

COMPLETE = ("finished", "stopped early")
"""How `Trainer.run` says that nothing is left to do."""


class Trainer:
    """One run from where it begins to where it ends. `facts` go into every checkpoint; `began`:
    when this process began to open it, by `time.monotonic`."""

    def __init__(
        self,
        parts: Parts,
        state: StepState,
        constants: Mapping[str, np.ndarray],
        facts: Mapping[str, Any],
        began: float,
    ) -> None:
        self.parts = parts
        self.course = Course(parts.document.loader(parts.document.run.train).stages)
        self.step = int(state["step"])
        self.state = parts.backend.put(state)
        self.constants = parts.backend.put(dict(constants))
        self.host_constants = dict(constants)
        self._facts = dict(facts)
        self._context_types = context_read(parts.document, parts.programs)
        self.averages = Averages(parts.document, parts.backend)
        self.executables = Executables(parts.backend, parts.requests, parts.status, parts.recorder)
        self.reports = Reports(
            parts.document, parts.backend, parts.recorder, parts.events, parts.requests
        )
        self._saved_at: int | None = None
        self._fresh = True  # nothing has been done at this step yet
        self._pace: tuple[int, float] | None = None  # the first steps done here, and when
        self.due: list[str] = []  # passes that are still to run at this step
        policy, stop = parts.document.run.checkpoint.best, parts.document.run.stop
        self._best = None if policy is None else Best(":best", *policy)
        self._stop = None if stop is None else Best(":stop", *stop.best)
        self._left = False  # a read goes on in a thread of its own
        self.wall_before = 0.0
        self._began = began

    @property
    def best(self) -> dict[str, Any] | None:
        """The best of the series that `:best` follows: {series, value, step}."""
        return None if self._best is None else self._best.found

    @property
    def abandoned(self) -> bool:
        """Whether a read or a compilation goes on in a thread of its own."""
        passes = any(one.abandoned for one in self.parts.passes)
        return self._left or self.executables.abandoned or passes

    @property
    def program(self) -> Program:
        """What runs the steps of the stage that the run is in."""
        return self.parts.programs[self.course.leg.stage]

    @property
    def batches(self) -> TrainingBatches:
        """The batches of the stage that the run is in."""
        return self.parts.batches[self.course.leg.stage]

    def feeder(self, step: int, leg: Leg | None = None) -> Feeder:
        """Makes the feeds of a leg, by default the one that the run is on, from a step on."""
        parts = self.parts
        context = self._context(self._context_types, leg)
        batches = parts.batches[context.leg.stage]
        return Feeder(parts.document, batches, context, parts.schedule, parts.backend, step)

    def _context(self, types: Mapping[str, TensorType], leg: Leg | None = None) -> StepContext:
        parts, leg = self.parts, leg or self.course.leg
        batches = parts.batches[leg.stage]
        return StepContext(batches, parts.schedule.steps, parts.document.run.seed, types, leg)

    # -- the loop ---------------------------------------------------------------------------

    def run(self) -> str:
        """Train to the last step. Gives `finished`, `stopped early` (by `:stop`), or what asked it
        to stop (a signal's name, `time limit`). Raises NonFiniteError, and the coded errors of
        data and checkpoints."""
        parts = self.parts
        parts.recorder.begin(self.counters())
        if len(parts.programs) > 1:
            parts.status.update(stage=self.course.stage)
            self._prepare()
        if self._fresh:
            self.due = [p.name for p in parts.schedule.due_passes(0)]
        unsaved = self._saved_at is None and (not self._fresh or self.step == parts.schedule.steps)
        self._settle(self.due, save=unsaved)
        with Feeds(lambda: self.feeder(self.step)) as feeds:
            while self._goes_on():
                feed = feeds.take(partial(self._meanwhile, feeds))
                if feed is None or not self._dispatch(feed):
                    break
                self.reports.read(feeds.waited, leave=1)
                self._show()
                leg = self.course.leg
                self._attend(feeds.waited)
                if self.course.leg is not leg:
                    feeds.turn(parts.requests.stopping)
            self.reports.read(feeds.waited)
        self._left = feeds.abandoned
        if self._patience_is_over() and not self.due and self.step < parts.schedule.steps:
            self._settle(self._last_passes(), save=self._saved_at != self.step)
        over = self.step == parts.schedule.steps or self._patience_is_over()
        reason = None if over and not self.due else parts.requests.stop
        self._note_signals()
        if reason is not None and self._saved_at != self.step:
            self._save()
        self._wait_saved()
        return reason or COMPLETE[self._patience_is_over()]

    def _meanwhile(self, feeds: Feeds) -> bool:
        """What can be done while data are waited for; whether to wait no longer."""
        requests = self.parts.requests
        if requests.take_checkpoint():
            self.reports.read(feeds.waited)
            self._note_signals()
            self._save()
        self.announce_saved()
        return requests.stopping()

    def _goes_on(self) -> bool:
        if self.step >= self.parts.schedule.steps or self.parts.requests.stopping():
            return False
        return not self._patience_is_over()

    def _patience_is_over(self) -> bool:
        """Whether `:stop` ends the run here."""
        stop = self.parts.document.run.stop
        return self._stop is not None and stop is not None and self._stop.since >= stop.patience

    def _last_passes(self) -> list[str]:
        """The passes due at the end of a run that `:stop` ends, which have not run just now."""
        now = {p.name for p in self.parts.schedule.due_passes(self.step)}
        last = [p for p in self.parts.passes if p.evaluation.at_end]
        return [p.name for p in last if p.name not in now]

    def _dispatch(self, feed: Feed) -> bool:
        """Start the steps of a feed; false when asked to stop while they are being compiled."""
        program, trees = self.program, (self.state, feed.tree, self.constants)
        compiled = self.executables.steps(program, feed, self.state, self.constants)
        if compiled is None:
            return False
        watched = None
        if program.watching is not None and self.parts.schedule.watches(feed.step):
            watch = self.executables.watch(program, feed, self.state, self.constants)
            if watch is None:
                return False
            watched = watch(*trees)
        self.parts.requests.begin_dispatch()
        self.state, report = compiled(*trees)
        if self.parts.profiling is not None:
            self.parts.profiling.dispatched(report)
        self.reports.add(program, feed.step, feed.k, report, watched)
        self.step += feed.k
        return True

    def _prepare(self) -> None:
        """Compile the steps of every stage, so that what fails there fails before the first step;
        until asked to stop."""
        for stage, program in enumerate(self.parts.programs):
            feeder = self.feeder(0, Leg(stage, 0, 0, 0))
            for k in sorted({1, self.parts.schedule.together}):
                feed = feeder.of(0, k)
                if self.executables.steps(program, feed, self.state, self.constants) is None:
                    return

    def _attend(self, waited: float) -> None:
        """What is due after the steps done: evaluations, a checkpoint, saves that have ended."""
        parts = self.parts
        due = [p.name for p in parts.schedule.due_passes(self.step)]
        save = parts.schedule.saves(self.step) or parts.requests.take_checkpoint()
        if due or save:
            self.reports.read(waited)
            self._settle(due, save, waited)
        self.announce_saved()
        self._note_signals()
        if parts.lock_lost():
            raise failure(E_CKPT_007, "another process has taken over this run's directory")

    def _settle(self, due: Sequence[str], save: bool, waited: float = 0.0) -> None:
        """Evaluate, ask the curriculum, then save. What a stop keeps from being evaluated stays
        due, and the curriculum waits for it."""
        self.due = list(due)
        while self.due and not self.parts.requests.stopping():
            if not self._evaluate(next(p for p in self.parts.passes if p.name == self.due[0])):
                break
            self.due.pop(0)
        if due and not self.due and self.parts.curriculum is not None:
            self._move(self.parts.curriculum, waited)
        if save or (self.best is not None and self.best["step"] == self.step and due):
            self._save()

    # -- what is seen of it ------------------------------------------------------------------

    def _note_signals(self) -> None:
        for name in self.parts.requests.take_received():
            self.parts.events.append("signal", self.step, signal=name)
        for found in self.parts.target_warnings():
            self.parts.events.warn(found, self.step)

    def _show(self) -> None:
        steps = self.parts.schedule.steps
        now = time.monotonic()
        first, began = self._pace = self._pace or (self.step, now)
        done = self.step - first
        eta = (now - began) / done * (steps - self.step) if done else None
        self.parts.status.note(
            state="running", step=self.step, progress=self.step / steps, eta_s=eta,
            metrics=self.reports.last,
        )  # fmt: skip
        self.parts.tick(self.step, steps, self.reports.last)

    # -- evaluations ------------------------------------------------------------------------

    def _evaluate(self, one: Pass) -> bool:
        """Run a pass and write its event; false when asked to stop before its end."""
        parts = self.parts
        began = time.perf_counter()
        compiled_before = one.compile_seconds
        parts.status.update(state="evaluating", step=self.step)
        context = self._context(one.context_keys())
        seen = self.averages.seen(self.state, one.evaluation.weights)
        metrics = one.run(seen, context.values(self.step), self.constants, parts.requests)
        seconds = time.perf_counter() - began
        compiling = min(one.compile_seconds - compiled_before, seconds)
        parts.recorder.clock.add("compile", compiling)
        parts.recorder.clock.add("eval", seconds - compiling)
        if metrics is None:
            return False
        self.reports.last |= metrics
        parts.events.append(
            "eval", self.step, **{"pass": one.name}, metrics=metrics, records=one.batches.count,
            seconds=seconds,
        )  # fmt: skip
        for followed in (self._best, self._stop):
            if followed is not None and followed.follows(one.name):
                followed.take(one.name, metrics, self.step)
        parts.status.update(state="running", metrics=self.reports.last, best=self.best)
        return True

    # -- stages -----------------------------------------------------------------------------

    def _move(self, curriculum: Curriculum, waited: float) -> None:
        """Ask the curriculum, after a round of evaluations, in which stage to go on. A train event
        is of one stage: what was not told of the one before is told first."""
        parts, step, before = self.parts, self.step, self.course.stage
        keys = curriculum.context_keys()
        context = self._context(keys).values(step)
        for key in keys:
            if key == "updates":
                context[key] = np.asarray(parts.backend.get(self.state["updates"]))
            elif key.startswith("counter/"):
                counter = self.state["counter"][key.removeprefix("counter/")]
                context[key] = np.asarray(parts.backend.get(counter))
        known = {n: value for n, value in self.reports.last.items() if n.startswith("eval/")}
        known |= parts.recorder.lesson()
        decision = curriculum.run(step, context, known, self.host_constants)
        if decision.warning is not None:
            parts.events.warn(decision.warning, step)
        if decision.stage != self.course.leg.stage:
            if parts.recorder.pending:
                self.reports.tell(self.program, step, self.counters(), waited)
            self.course.turn(decision.stage, step)
            parts.recorder.follow(self.program.step)
        self.reports.last |= decision.metrics
        parts.events.append(
            "stage", step, stage=self.course.stage, before=before, metrics=decision.metrics
        )
        parts.status.update(stage=self.course.stage, metrics=self.reports.last)

    # -- checkpoints ------------------------------------------------------------------------

    def _save(self) -> None:
        """Begin a checkpoint of the state now; it is announced when it is whole."""
        parts = self.parts
        began = time.perf_counter()
        parts.status.update(state="checkpointing", step=self.step)
        self._wait_saved()
        taken, others = parts.backend.snapshot(self.state), self.other_tensors()
        parts.checkpointer.save(
            self.step, lambda: flattened(taken()) | others, self.meta(self.step)
        )
        self._saved_at = self.step
        spent = time.perf_counter() - began
        parts.recorder.clock.add("checkpoint", spent)
        parts.requests.note_save(spent)
        parts.status.update(state="running")

    def _wait_saved(self) -> None:
        self.parts.checkpointer.wait()
        self.announce_saved()

    def announce_saved(self) -> None:
        """Announce the saves that have ended; raises what stopped one."""
        for saved in self.parts.checkpointer.poll():
            self._announce(saved)

    def _announce(self, saved: Saved) -> None:
        """The `checkpoint` event and the status, once a save is sealed."""
        parts = self.parts
        parts.requests.note_save(saved.seconds)
        fields = {
            "path": os.path.join("checkpoints", os.path.basename(saved.path)),
            "bytes": saved.bytes,
            "seconds": saved.seconds,
            "best": saved.best,
            "bad": saved.bad,
        }
        parts.events.append("checkpoint", saved.step, **fields)
        parts.status.update(checkpoint={"step": saved.step, **fields})

    def other_tensors(self) -> dict[str, np.ndarray]:
        """Those of a checkpoint that are not of the state: statistics, and the curriculum's."""
        kept = self.parts.curriculum
        return self.host_constants | ({} if kept is None else kept.tensors())

    def meta(self, step: int) -> dict[str, Any]:
        """What a checkpoint holds besides tensors. All events before it are on the disk."""
        return {
            **self._facts,
            "loader": {self.parts.document.run.train: self.course.save(step)},
            "curriculum": None if self.parts.curriculum is None else self.parts.curriculum.save(),
            "ctx": self.known(step),
            "recorder": self.parts.recorder.save(),
            "events": self.parts.events.mark(),
            "due": self.due,
            "best": self.best,
            "stop": None if self._stop is None else self._stop.save(),
            "last": self.reports.last,
            "wall": self.wall(),
        }

    def restore(
        self, meta: Mapping[str, Any], lessons: Mapping[str, np.ndarray], own: bool
    ) -> None:
        """Take up what `meta` gave when the checkpoint was taken; `lessons`: the tensors of the
        curriculum; `own`: the checkpoint is one of this run directory. One of another is saved
        here before the first step, so that a kill does not lose where the run began."""
        parts = self.parts
        self.course.restore(meta["loader"][parts.document.run.train], self.step)
        if parts.curriculum is not None and meta["curriculum"] is not None:
            parts.curriculum.restore(meta["curriculum"], lessons)
        parts.recorder.follow(self.program.step)
        parts.recorder.restore(meta["recorder"])
        self.due = list(meta["due"])
        if self._best is not None:
            self._best.restore({"found": meta["best"], "since": 0})
        if self._stop is not None and meta["stop"] is not None:
            self._stop.restore(meta["stop"])
        self.reports.last = dict(meta["last"])
        self.wall_before = meta["wall"]
        self._saved_at = self.step if own else None
        self._fresh = False

    def wall(self) -> float:
        """Seconds that the run has taken so far, in all its processes."""
        return self.wall_before + time.monotonic() - self._began

    def known(self, step: int) -> dict[str, Any]:
        """The ctx values after that many steps, but for those that the device counts."""
        return self._context({}).known(step)

    def counters(self) -> dict[str, int]:
        """The totals of the counters."""
        return {n: int(v) for n, v in self.parts.backend.get(self.state["counter"]).items()}
