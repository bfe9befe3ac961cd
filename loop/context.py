"""What the host knows of a step, and of an evaluation, as inputs of graphs.

Every `ctx/KEY` but `updates`, `counter/…` and `microbatch` is a function of the step's number and
of the leg that the run is on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sexpgpu.ir.types import TensorType
from sexpgpu.loop.data.loader import TrainingBatches
from sexpgpu.loop.stages import START, Leg
from sexpgpu.lowering.interp.dtypes import NUMPY


class StepContext:
    """The ctx values at a step (the number of steps done before it; the first is 0) of a leg, whose
    stage reads `batches`; `samples` counts records, whole batches."""

    def __init__(
        self,
        batches: TrainingBatches,
        steps: int,
        seed: int,
        types: Mapping[str, TensorType],
        leg: Leg = START,
    ) -> None:
        self.leg = leg
        self._batches = batches
        self._steps = steps
        self._seed = seed
        self._types = types

    def known(self, step: int) -> dict[str, Any]:
        """All of them, as numbers."""
        leg = self.leg
        return {
            "step": step,
            "steps": self._steps,
            "progress": step / self._steps if self._steps else 0.0,
            "epoch": self._batches.epoch(leg.batch(step)),
            "stage": leg.stage,
            "stage-step": step - leg.since,
            "samples": leg.samples + (step - leg.since) * self._batches.batch,
            "seed": self._seed,
        }

    def values(self, step: int) -> dict[str, np.ndarray]:
        """Those that the graphs read, in the dtypes they read them in."""
        known = self.known(step)
        return {
            key: np.asarray(known[key]).astype(NUMPY[type.dtype])
            for key, type in self._types.items()
            if key in known
        }
