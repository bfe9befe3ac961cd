"""The curriculum of a run: after a round of evaluations, in which stage training goes on.

Its graph is run by the NumPy evaluator on the host, on every device: the same numbers lead to the
same stages.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from typing import Any, NamedTuple

import numpy as np

from sexpgpu.diagnostics.codes.run import W_RUN_032
from sexpgpu.diagnostics.model import Diagnostic
from sexpgpu.ir.document import CURRICULUM, Document
from sexpgpu.ir.types import TensorType
from sexpgpu.loop.failure import warning
from sexpgpu.loop.finish import finishers
from sexpgpu.loop.keys import domain, fold
from sexpgpu.loop.metrics import Accumulator
from sexpgpu.lowering.interp.backend import InterpEngine
from sexpgpu.lowering.interp.dtypes import NUMPY

_DRAWS = "curr"  # the domain of its random keys
_EXTREMES = ("min", "max")


class Decision(NamedTuple):
    """What a curriculum says: the stage by its index, its metrics by series, and a warning where
    it asked for a stage that there is not, the first time."""

    stage: int
    metrics: dict[str, Any]
    warning: Diagnostic | None


class Curriculum:
    """The curriculum of a document, and what it has kept so far.

    states   its tensors, by name: in checkpoints as `curriculum/NAME`
    """

    def __init__(self, document: Document, stages: int) -> None:
        record = document.curriculum
        assert record is not None
        self._seed = document.run.seed
        self._stages = stages
        self._graph = document.graphs[record.graph]
        self._metrics = document.metrics.get(record.graph, [])
        self._finishers = finishers(document, record.graph, f"{CURRICULUM}/")
        self._engine = InterpEngine()
        self._extremes: dict[str, tuple[float, float]] = {}  # series -> the least, the greatest
        self._warned = False
        self.states = {
            state.name: self._engine.call(
                document.graphs[state.init],
                {
                    "rng/key": np.array(domain(self._seed, _DRAWS, state.name), np.uint32),
                    "rng/offset": np.uint32(0),
                },
            )["value"]
            for state in record.states
        }

    def context_keys(self) -> dict[str, TensorType]:
        """The ctx keys that it reads, with their types."""
        return {
            name.removeprefix("ctx/"): value.type
            for name, value in self._graph.inputs.items()
            if name.startswith("ctx/")
        }

    def run(
        self,
        step: int,
        context: Mapping[str, np.ndarray],
        series: Mapping[str, Any],
        constants: Mapping[str, np.ndarray],
    ) -> Decision:
        """Decide after that many steps. `context`: the ctx values that every graph has; `series`:
        the last of each evaluation's, and of training's since it last ran."""
        self._note_extremes(series)
        inputs: dict[str, Any] = {f"ctx/{key}": value for key, value in context.items()}
        inputs |= {f"state/{name}": value for name, value in self.states.items()}
        inputs |= constants
        inputs["rng/key"] = np.array(fold(domain(self._seed, _DRAWS), step), np.uint32)
        inputs["rng/offset"] = np.uint32(0)
        for key, type in self.context_keys().items():
            if key not in context:
                inputs[f"ctx/{key}"] = np.asarray(self._value(key, series), NUMPY[type.dtype])
        out = self._engine.call(self._graph, {name: inputs[name] for name in self._graph.inputs})
        self.states = {name: out[f"state/{name}"] for name in self.states}
        wanted = int(out["stage"])
        stage = min(max(wanted, 0), self._stages - 1)
        found: Diagnostic | None = None
        if stage != wanted and not self._warned:
            self._warned = True
            found = warning(
                W_RUN_032,
                f"the curriculum asked for stage {wanted} after {step} steps; the loader has the "
                f"stages 0 to {self._stages - 1}",
            )
        return Decision(stage, {f"{CURRICULUM}/stage": stage, **self._told(out)}, found)

    def _note_extremes(self, series: Mapping[str, Any]) -> None:
        for key in self.context_keys():
            which, _, name = key.partition("/")
            if which not in _EXTREMES or name not in series:
                continue
            value = float(series[name])
            if not isnan(value):
                low, high = self._extremes.get(name, (value, value))
                self._extremes[name] = (min(low, value), max(high, value))

    def _value(self, key: str, series: Mapping[str, Any]) -> float:
        """A series, or its least or greatest value so far; NaN before the first."""
        which, _, name = key.partition("/")
        if which not in _EXTREMES:
            return float(series.get(key, "nan"))
        return self._extremes.get(name, (np.nan, np.nan))[_EXTREMES.index(which)]

    def _told(self, out: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Its own metrics."""
        total = Accumulator(self._finishers)
        for metric in self._metrics:
            value, weight = (out[f"metric/{metric.name}/{part}"] for part in ("value", "weight"))
            total.add(f"{CURRICULUM}/{metric.name}", value, float(weight), metric.reduce)
        return total.results()

    def tensors(self) -> dict[str, np.ndarray]:
        """The states as a checkpoint names them."""
        return {f"{CURRICULUM}/{name}": np.array(value) for name, value in self.states.items()}

    def save(self) -> dict[str, Any]:
        """What a checkpoint keeps besides: numbers in hexadecimal, so not a bit is lost."""
        return {
            "extremes": {n: [low.hex(), high.hex()] for n, (low, high) in self._extremes.items()},
            "warned": self._warned,
        }

    def restore(self, saved: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> None:
        """What `save` and `tensors` gave."""
        self.states = {name: tensors[f"{CURRICULUM}/{name}"] for name in self.states}
        self._extremes = {
            name: (float.fromhex(low), float.fromhex(high))
            for name, (low, high) in saved["extremes"].items()
        }
        self._warned = saved["warned"]
