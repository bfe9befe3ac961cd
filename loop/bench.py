"""How fast an experiment trains here: the run's own step, fed by the run's own reader, without
evaluations, checkpoints and reports."""

from __future__ import annotations

import statistics as numbers
import time
from typing import Any, NamedTuple

from sexpgpu.ir.document import Document
from sexpgpu.loop.context import StepContext
from sexpgpu.loop.data.loader import TrainingBatches
from sexpgpu.loop.data.prefetch import AtOnce, Prefetcher, items
from sexpgpu.loop.feeds import Feed, Feeder, reporting
from sexpgpu.loop.initial import initial_state
from sexpgpu.loop.schedule import Schedule, steps_together
from sexpgpu.loop.statistics import compute
from sexpgpu.loop.step import Step, context_types
from sexpgpu.lowering.backend import open_backend

GROUPS = 5
"""Stretches that the steps are timed in: the median of their speeds is the result."""


class Bench(NamedTuple):
    """A measurement. Seconds, and bytes.

    steps            timed, after a group of the same length that is not
    rates            steps a second of each group
    samples          a step
    first_step       from opening the device to the first step's numbers, in `parts`: trace, lower,
                     compile
    data_wait        of the timed steps, waiting for data
    planned          what the compiled step needs (see `Compiled.memory`); None on interp
    peak             the most held so far: by the device, on cpu and interp by the process
    """

    device: str
    kind: str
    steps: int
    rates: list[float]
    samples: int
    first_step: float
    parts: dict[str, float]
    data_wait: float
    planned: dict[str, int] | None
    peak: int | None

    @property
    def rate(self) -> float:
        """Steps a second."""
        return numbers.median(self.rates)

    def to_json(self) -> dict[str, Any]:
        return {
            "device": self.device,
            "kind": self.kind,
            "steps": self.steps,
            "steps_per_second": self.rate,
            "slowest": min(self.rates),
            "fastest": max(self.rates),
            "samples_per_second": self.rate * self.samples,
            "first_step_s": self.first_step,
            "first_step_parts_s": self.parts,
            "data_wait_s": self.data_wait,
            "memory": {"planned": self.planned, "peak": self.peak},
        }


def bench(document: Document, device: str = "auto", steps: int = 50) -> Bench:
    """Time about `steps` steps of the first stage, from the initial state, after as many dispatches
    as a group has to warm up. Raises SxError for data and devices that fail."""
    began = time.perf_counter()
    run = document.run
    stage = document.loader(run.train).stages[0]
    step = Step(document, stage.name, run.microbatches_in(stage))
    backend = open_backend(device)
    batches = TrainingBatches(stage, run.train, run.seed)
    try:
        length = run.steps or batches.steps_of(run.epochs or 0)
        k = steps_together(document, backend.name, step.flops, length)
        dispatches = max(1, round(steps / GROUPS / k))
        total = (1 + (GROUPS + 1) * dispatches) * k
        context = StepContext(batches, length, run.seed, context_types(document, step.train))
        schedule = Schedule(document, [], total, k)
        feeder = Feeder(document, batches, context, schedule, backend, 0)
        state, constants = backend.put(initial_state(document)), backend.put(compute(document))
        with items(lambda i: feeder.of(i * k, k), 0, at_hand=feeder.at_hand) as feeds:
            feed = _taken(feeds)
            compiled = backend.compile(
                reporting(step, k), (state, feed.tree, constants), donate=(0,)
            )
            state, report = compiled(state, feed.tree, constants)
            backend.block(report)
            first = time.perf_counter() - began
            rates: list[float] = []
            waited = 0.0
            for group in range(GROUPS + 1):
                if group == 1:
                    waited = feeds.waited
                start = time.perf_counter()
                for _ in range(dispatches):
                    state, report = compiled(state, _taken(feeds).tree, constants)
                backend.block(report)
                rates.append(dispatches * k / (time.perf_counter() - start))
            waited = feeds.waited - waited
    finally:
        batches.close()
    return Bench(
        device=backend.name,
        kind=str(backend.describe()["kind"]),
        steps=GROUPS * dispatches * k,
        rates=rates[1:],
        samples=stage.batch,
        first_step=first,
        parts=dict(compiled.seconds),
        data_wait=waited,
        planned=compiled.memory(),
        peak=backend.memory_peak(),
    )


def _taken(feeds: Prefetcher[Feed] | AtOnce[Feed]) -> Feed:
    feed = feeds.take()
    assert feed is not None  # nothing interrupts it
    return feed
