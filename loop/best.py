"""The best value of a series of an evaluation pass so far: for `:checkpoint :best` and `:stop`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sexpgpu.diagnostics.codes import data as codes
from sexpgpu.loop.failure import failure


class Best:
    """Follows one series. `found` is {series, value, step} or None; `since` counts the evaluations
    in a row that were no better."""

    def __init__(self, key: str, direction: str, series: str) -> None:
        self._key = key
        self._direction = direction
        self.series = series.lstrip(":")
        self.found: dict[str, Any] | None = None
        self.since = 0

    def follows(self, name: str) -> bool:
        """Whether the series is one of the pass of that name."""
        return self.series.startswith(f"eval/{name}/")

    def take(self, name: str, metrics: Mapping[str, Any], step: int) -> None:
        """The metrics of pass `name` after `step` steps. A value that is no number is no better.
        Raises E-METRIC-031 where the pass does not report the series."""
        if self.series not in metrics:
            raise failure(
                codes.E_METRIC_031,
                f"{self._key} follows {self.series}, which pass {name} does not report",
                f"it reports {', '.join(metrics)}",
            )
        value = metrics[self.series]
        if not math.isnan(value) and (self.found is None or self._is_better(value)):
            self.found = {"series": self.series, "value": value, "step": step}
            self.since = 0
        else:
            self.since += 1

    def save(self) -> dict[str, Any]:
        return {"found": self.found, "since": self.since}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """What `save` gave, unless it was of another series. JSON has no infinity: a text then."""
        found = saved["found"]
        if found is None or found["series"] == self.series:
            self.found = found and {**found, "value": float(found["value"])}
            self.since = saved["since"]

    def _is_better(self, value: float) -> bool:
        assert self.found is not None
        best = self.found["value"]
        return value < best if self._direction == "min" else value > best
