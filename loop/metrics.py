"""Means on the host: each series' partial sums between two reports, in f64.

A mean is Σ weight·mean / Σ weight over everything since the last report, so it never depends on
how records fell into steps or batches. The partial sums travel in checkpoints: a resumed run
reports what the uninterrupted one would have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

REDUCTIONS = ("mean", "sum", "max", "min", "last", "rms")


class Series:
    """The partial reduction of one series: a value (a float, or an array of any shape) and a
    weight, in f64."""

    __slots__ = ("reduce", "value", "weight")

    def __init__(self, reduce: str, value: Any = None, weight: float = 0.0) -> None:
        self.reduce = reduce
        self.value = None if value is None else np.asarray(value, np.float64)
        self.weight = weight

    def add(self, value: Any, weight: float) -> None:
        """Take in a graph's `metric/NAME/value` and `/weight`: for mean and rms the value is
        weight times the mean (of squares); for the others it is the value itself."""
        new = value if type(value) is float else np.asarray(value, np.float64)
        self.weight += float(weight)
        if self.value is None or self.reduce == "last":
            self.value = new
        elif self.reduce == "max":
            self.value = np.maximum(self.value, new)
        elif self.reduce == "min":
            self.value = np.minimum(self.value, new)
        else:
            self.value = self.value + new

    def result(self) -> Any:
        """The reduced value, a float or nested lists; of a mean with no weight, 0."""
        if self.value is None:
            return math.nan
        value = np.asarray(self.value)
        if self.reduce in ("mean", "rms"):
            value = value / self.weight if self.weight else np.zeros_like(value)
        if self.reduce == "rms":
            value = np.sqrt(value)
        return value.tolist()


def _as_it_is(value: Any) -> Any:
    return value


class Accumulator:
    """The series of one kind of report (training, or one evaluation pass)."""

    def __init__(self, finishers: Mapping[str, Callable[[Any], Any]] | None = None) -> None:
        self._series: dict[str, Series] = {}
        self._finishers = finishers or {}

    def add(self, name: str, value: Any, weight: float = 1.0, reduce: str = "mean") -> None:
        series = self._series.get(name)
        if series is None:
            series = self._series[name] = Series(reduce)
        series.add(value, weight)

    def results(self) -> dict[str, Any]:
        """Each series' reduced value, in order of first appearance."""
        return {
            name: self._finishers.get(name, _as_it_is)(series.result())
            for name, series in self._series.items()
        }

    @property
    def is_empty(self) -> bool:
        return not self._series

    def clear(self) -> None:
        self._series.clear()

    def save(self) -> dict[str, Any]:
        """The partial sums as JSON: numbers in hexadecimal, so not a bit is lost, NaN included."""
        return {
            name: {
                "reduce": series.reduce,
                "shape": None if series.value is None else list(np.shape(series.value)),
                "value": []
                if series.value is None
                else [v.hex() for v in np.ravel(series.value).tolist()],
                "weight": series.weight.hex(),
            }
            for name, series in self._series.items()
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """What `save` gave."""
        self._series = {
            name: Series(
                entry["reduce"],
                None
                if entry["shape"] is None
                else np.array([float.fromhex(v) for v in entry["value"]]).reshape(entry["shape"]),
                float.fromhex(entry["weight"]),
            )
            for name, entry in saved.items()
        }
