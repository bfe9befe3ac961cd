"""The inputs of steps: batches, keys and ctx values, made ahead and staged for the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from sexpgpu.ir.document import Document
from sexpgpu.loop.context import StepContext
from sexpgpu.loop.data.loader import TrainingBatches
from sexpgpu.loop.data.prefetch import AtOnce, Prefetcher, items
from sexpgpu.loop.keys import domain, fold
from sexpgpu.loop.schedule import Schedule
from sexpgpu.loop.step import Step, StepState
from sexpgpu.lowering.backend import Array, Backend


class Feed(NamedTuple):
    """The inputs of one dispatch of `k` steps from `step`, where the device takes them from."""

    step: int
    k: int
    tree: Any


class Feeder:
    """Makes the feeds of a leg in order, from a step on: called by the reading thread."""

    def __init__(
        self,
        document: Document,
        batches: TrainingBatches,
        context: StepContext,
        schedule: Schedule,
        backend: Backend,
        step: int,
    ) -> None:
        self.at_hand = batches.records.at_hand
        self._key = domain(document.run.seed, "trai")
        self._groups = [group for group in document.groups if group.every > 1]
        self._batches = batches
        self._context = context
        self._schedule = schedule
        self._backend = backend
        self._step = step

    def __call__(self, _: int) -> Feed:
        step = self._step
        if step >= self._schedule.steps:
            return Feed(step, 0, None)  # read ahead past the end: never taken
        k = self._schedule.dispatch(step)
        self._step += k
        return self.of(step, k)

    def of(self, step: int, k: int) -> Feed:
        """The feed of `k` steps from `step`."""
        tree = self.one(step) if k == 1 else _stacked([self.one(s) for s in range(step, step + k)])
        return Feed(step, k, self._backend.stage(tree))

    def one(self, step: int) -> dict[str, Any]:
        """The feed of a single step (see `step.Step`), on the host. A group of `:every n` is
        updated at the steps that n divides."""
        return {
            "batch": self._batches.read(self._context.leg.batch(step)),
            "key": np.array(fold(self._key, step), np.uint32),
            "ctx": self._context.values(step),
            "active": {g.name: np.asarray(step % g.every == 0) for g in self._groups},
        }


class Feeds:
    """The feeds of a run, read ahead by a thread unless they are at hand. `make` gives the feeder
    that goes on from where the run stands. Use as a context manager."""

    def __init__(self, make: Callable[[], Feeder]) -> None:
        self._make = make
        self._before = 0.0
        self.abandoned = False  # a read that hangs was left to itself
        self._ahead = self._from_here()

    @property
    def waited(self) -> float:
        """How long `take` has waited in all, in seconds."""
        return self._before + self._ahead.waited

    def take(self, interrupted: Callable[[], bool]) -> Feed | None:
        """The next feed; None when interrupted before it is ready."""
        return self._ahead.take(interrupted)

    def turn(self, interrupted: Callable[[], bool]) -> None:
        """Drop what was made ahead: the steps from now on are of another leg. Waits for the read
        at hand, as a stage that the run comes back to must not be read by two threads."""
        self._before = self.waited
        self._ahead.close(interrupted)
        self.abandoned |= self._ahead.abandoned
        self._ahead = self._from_here()

    def _from_here(self) -> Prefetcher[Feed] | AtOnce[Feed]:
        feeder = self._make()
        return items(feeder, 0, at_hand=feeder.at_hand)

    def __enter__(self) -> Feeds:
        return self

    def __exit__(self, *_: object) -> None:
        self._ahead.close()
        self.abandoned |= self._ahead.abandoned


def reporting(step: Step, k: int = 1) -> Callable[..., tuple[StepState, dict[str, Array]]]:
    """k steps in one dispatch, with the counters' totals (too large for the f32 vector) beside the
    report; for k > 1 every array of the feed, and of the report, has a leading axis."""

    def one(engine: Any, state: Any, feed: Any, constants: Any) -> Any:
        new, packed = step(engine, state, feed, constants)
        return new, {"packed": packed, "counter": dict(new["counter"])}

    def many(engine: Any, state: Any, feeds: Any, constants: Any) -> Any:
        return engine.scan_steps(
            lambda inner, feed: one(engine, inner, feed, constants), state, feeds, k
        )

    return one if k == 1 else many


def _stacked(trees: Sequence[Any]) -> Any:
    """Trees of one structure as one tree with a leading axis."""
    if isinstance(trees[0], dict):
        return {key: _stacked([tree[key] for tree in trees]) for key in trees[0]}
    return np.stack(trees)
