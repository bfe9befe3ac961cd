"""From the reports of steps to `train` events: means since the last event, rates, times.

A report is read a step late; a train event is written when the last step of its interval is read.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sexpgpu.loop.finish import finishers
from sexpgpu.loop.metrics import Accumulator
from sexpgpu.loop.report import Told
from sexpgpu.loop.step import Step

OF_THE_MACHINE = frozenset(
    {
        "train/steps-per-second", "train/samples-per-second", "train/data-wait", "memory/peak",
        "train/flops-per-second", "train/mfu", "time/compile", "time/eval", "time/checkpoint",
    }
)  # fmt: skip


def is_of_the_machine(series: str) -> bool:
    """Whether a series tells of the machine and the hour; all others are the same in every run."""
    return series in OF_THE_MACHINE or (
        series.startswith("counter/") and series.endswith("-per-second")
    )


def _nothing_spent() -> dict[str, float]:
    return {"compile": 0.0, "eval": 0.0, "checkpoint": 0.0}


class Clock:
    """Where the wall time of an interval went, in seconds: `compile eval checkpoint`, the rest
    is training."""

    def __init__(self) -> None:
        self.spent = _nothing_spent()
        self._began = time.perf_counter()

    def add(self, what: str, seconds: float) -> None:
        self.spent[what] += seconds

    def lap(self) -> tuple[float, dict[str, float]]:
        """The training time since the last lap, and the other times; starts the next one."""
        now = time.perf_counter()
        spent = self.spent
        training = max(now - self._began - sum(spent.values()), 1e-9)
        self.spent, self._began = _nothing_spent(), now
        return training, spent


class Recorder:
    """The training series of a run. `sums` and the counts below travel in checkpoints; so does
    `between`, the same since the curriculum last ran, where there is one."""

    def __init__(
        self, step: Step, log_every: int, steps: int, ignore: bool, curriculum: bool = False
    ) -> None:
        self._log_every = log_every
        self._steps = steps
        self._ignore = ignore  # :finite :ignore: non-finite steps are steps like others
        self._has_curriculum = curriculum
        self.follow(step)
        self.clock = Clock()
        self.nonfinite = 0  # in the whole run
        self.peak_flops: float | None = None  # of the device, a second
        self._read_since = 0  # steps of this process since the last event
        self._waited = 0.0
        self._counters: dict[str, int] = {}

    def follow(self, step: Step) -> None:
        """From now on the reports are of this step. What came before has been told."""
        self._step = step
        self._measured, self._updated = _sources(step)
        finish = finishers(step.document, step.train.name, "train/")
        self.sums = Accumulator(finish)
        self.between = Accumulator(finish)
        self._flops = step.flops

    def add(self, values: Mapping[str, Told]) -> bool:
        """Take in one step's report; gives whether it was finite."""
        finite = bool(values["finite"])
        self._read_since += 1
        self.nonfinite += not finite
        self.sums.add("train/nonfinite", float(not finite), reduce="sum")
        if "overflow" in values:
            self.sums.add("train/loss-scale", values["loss-scale"], reduce="last")
            self.sums.add("train/skipped", values["overflow"], reduce="sum")
        overflowed = bool(values.get("overflow", False))
        if overflowed or finite or self._ignore:
            self._take(self._measured, values)
        if not overflowed and (finite or self._ignore):
            self._take(self._updated, values)
        return finite

    def ends_interval(self, done: int) -> bool:
        """Whether a train event is written when that many steps are done."""
        return done % self._log_every == 0 or done == self._steps

    @property
    def pending(self) -> bool:
        """Whether anything has been read since the last train event."""
        return not self.sums.is_empty

    def lesson(self) -> dict[str, Any]:
        """The series since the curriculum last ran, for its next decision."""
        found = self.between.results()
        self.between.clear()
        return found

    def results(
        self, counters: Mapping[str, int], waited: float, memory_peak: int | None
    ) -> dict[str, Any]:
        """The series of the interval that ends now; begins the next."""
        seconds, spent = self.clock.lap()
        reduced = self.sums.results()
        names = ("train/loss", "train/grad-norm")
        # no norm: f16 gradients overflowed in every step; no loss either: no step was finite
        first = {n: reduced.pop(n) for n in names if n in reduced}
        series: dict[str, Any] = {**(first or dict.fromkeys(names, math.nan)), **reduced}
        rate = self._read_since / seconds
        for counted in ("train/nonfinite", "train/skipped"):
            if counted in series:
                series[counted] = int(series[counted])
        series["train/steps-per-second"] = rate
        series["train/samples-per-second"] = rate * self._step.batch
        series["train/data-wait"] = waited - self._waited
        for name, total in counters.items():
            series[f"counter/{name}"] = total
            if name in self._counters:
                change = total - self._counters[name]
                series[f"counter/{name}-per-second"] = change / seconds
        if memory_peak is not None:
            series["memory/peak"] = memory_peak
        series["train/flops-per-second"] = self._flops * rate
        if self.peak_flops:
            series["train/mfu"] = self._flops * rate / self.peak_flops
        series |= {f"time/{what}": spent[what] for what in ("compile", "eval", "checkpoint")}
        self.sums.clear()
        self._read_since, self._waited, self._counters = 0, waited, dict(counters)
        return series

    def begin(self, counters: Mapping[str, int]) -> None:
        """The interval's clock starts, and the counters' totals are these."""
        self.clock = Clock()
        self._counters = dict(counters)

    def save(self) -> dict[str, Any]:
        return {
            "sums": self.sums.save(),
            "between": self.between.save(),
            "nonfinite": self.nonfinite,
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        self.sums.restore(saved["sums"])
        self.between.restore(saved["between"])
        self.nonfinite = saved["nonfinite"]

    def _take(self, sources: Sequence[_Source], values: Mapping[str, Told]) -> None:
        for series, value, weight, reduce in sources:
            told = values[value], 1.0 if weight is None else float(values[weight]), reduce
            self.sums.add(series, *told)
            if self._has_curriculum:
                self.between.add(series, *told)


class _Source(NamedTuple):
    """Where a report holds what a series is made of; `weight` None: each step weighs the same."""

    series: str
    value: str
    weight: str | None = None
    reduce: str = "mean"


def _sources(step: Step) -> tuple[list[_Source], list[_Source]]:
    """What the forward pass of a step tells, which is true of a step that is skipped for its
    gradients, too; and what its gradients and updates tell."""
    reported = step.layout.types

    def metric(name: str, series: str, reduce: str) -> _Source:
        value, weight = (f"metric/{name}/{part}" for part in ("value", "weight"))
        return _Source(series, value, weight if weight in reported else None, reduce)

    measured = [_Source("train/loss", "loss")]
    terms = [term for term in step.terms if term != "objective"]
    if terms and "objective" in step.terms:
        terms.append("objective")
    for term in terms:
        measured.append(_Source(f"train/{term}", f"loss/{term}/sum", f"loss/{term}/weight"))
    for name in reported:
        if name.startswith("metric/") and name.endswith("/value"):
            told = name.removeprefix("metric/").removesuffix("/value")
            if told not in step.update_reductions:
                reduce = step.reductions.get(told, "mean")
                measured.append(metric(told, f"train/{told}", reduce))
    updated = [_Source("train/grad-norm", "grad-norm")]
    updated += [_Source(name, name) for name in reported if name.startswith("optim/")]
    updated += [metric(name, name, reduce) for name, reduce in step.update_reductions.items()]
    return measured, updated
