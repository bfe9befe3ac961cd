"""When things happen: which steps are evaluated, saved, and run together in one dispatch.

All of it is a function of the step's number and the document, never of when a run was resumed:
so a resumed run does the same things, by the same executables, at the same steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from sexpgpu.ir.document import Document
from sexpgpu.loop.evaluate import Pass

CHEAP_STEP = 2_000_000
"""Floating point operations of a step below which the dispatch costs more than the step."""
AUTO_STEPS = 16
AUTO_LEAST = 2_000  # steps of a run, below which a second compilation does not pay


class Schedule:
    """The events of a run of `steps` steps."""

    def __init__(
        self, document: Document, passes: Sequence[Pass], steps: int, together: int
    ) -> None:
        self.steps = steps
        self._passes = passes
        self._every = document.run.checkpoint.every
        self.together = together
        taken = document.run.diagnostics
        self._watched = None if taken is None else taken.every

    def due_passes(self, step: int) -> list[Pass]:
        """The passes that run after that many steps, in the order they are declared."""
        return [p for p in self._passes if p.due(step, self.steps)]

    def saves(self, step: int) -> bool:
        """Whether a checkpoint is due after that many steps. The last step is always saved."""
        if step == self.steps:
            return True
        return bool(self._every) and step > 0 and step % self._every == 0

    def watches(self, step: int) -> bool:
        """Whether diagnostics are taken of the step after so many."""
        return self._watched is not None and (step + 1) % self._watched == 0

    def dispatch(self, step: int) -> int:
        """How many steps the dispatch that begins at `step` runs: all of an aligned group of
        `together` when nothing happens within it, else 1. The first group runs one by one, so
        that the first numbers come early."""
        k = self.together
        if any(self.watches(s) for s in range(step, step + k)):
            return 1
        if k == 1 or step % k or step == 0 or step + k > self.steps:
            return 1
        inner = range(step + 1, step + k)
        return 1 if any(self.saves(s) or self.due_passes(s) for s in inner) else k


def steps_together(document: Document, device: str, flops: int, steps: int) -> int:
    """`:steps-per-dispatch`: the number given, or for `:auto` a fixed number where steps are so
    cheap that dispatching them one by one would take most of the time."""
    asked = document.run.steps_per_dispatch
    if isinstance(asked, int):
        return asked
    if device == "interp" or steps < AUTO_LEAST or flops >= CHEAP_STEP:
        return 1
    return AUTO_STEPS
