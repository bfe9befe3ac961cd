"""How objects of the API show themselves in a notebook: tables, the model, curves that grow.

Knows no kernel: IPython's display is looked for only when a run begins in one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from sexpgpu.explain.page import flow_svg, line_svg, overview, parameters, table
from sexpgpu.ir.document import Document

REFRESH = 0.5
"""Seconds between two drawings of a live plot, at least."""


def experiment_html(document: Document, data: dict[str, Any]) -> str:
    """An experiment: what it is, its parameters, and the model as blocks."""
    from html import escape

    train = next(g for name, g in document.graphs.items() if name.startswith("train/"))
    return (
        f"<b>{escape(document.run.name)}</b>{overview(data)}"
        f"<details><summary>Parameters</summary>{parameters(data)}</details>"
        f"<details><summary>The model</summary>{flow_svg(train)}</details>"
    )


def run_html(title: str, state: str, metrics: Mapping[str, Any]) -> str:
    """A run: its state, its curves, and the last value of every series (`steps`, `values`)."""
    from html import escape

    rows = [
        [name, f"{int(series.steps[-1]):,}", f"{series.values[-1]:.6g}"]
        for name, series in metrics.items()
        if len(series.steps)
    ]
    curves = "".join(
        f"<div>{escape(name)}</div>"
        + line_svg(series.steps.tolist(), {name: series.values.tolist()})
        for name, series in metrics.items()
        if is_curve(name) and len(series.steps) > 1
    )
    return (
        f"<b>{escape(title)}</b>: {escape(state)}{curves}"
        f"<details><summary>Last values</summary>{table(('series', 'step', 'value'), rows, (1, 2))}"
        "</details>"
    )


def is_curve(name: str) -> bool:
    """Whether a series is worth drawing at first sight: losses and what evaluations report."""
    return name == "train/loss" or name.startswith("eval/")


class LivePlot:
    """The curves of a run while it trains, drawn into one output of a notebook."""

    def __init__(self, display: Callable[..., Any]) -> None:
        self._points: dict[str, tuple[list[float], list[float]]] = {}
        self._handle: Any = None
        self._display = display
        self._drawn = 0.0

    def __call__(self, event: dict[str, Any]) -> None:
        """Take an event's metrics in, and draw when it is time."""
        for name, value in event.get("metrics", {}).items():
            if is_curve(name) and isinstance(value, int | float):
                steps, values = self._points.setdefault(name, ([], []))
                steps.append(event["step"])
                values.append(float(value))
        if event["kind"] == "close" or time.monotonic() - self._drawn > REFRESH:
            self._drawn = time.monotonic()
            self.draw()

    def draw(self) -> None:
        """Show the curves: a new output at first, then the same one anew."""
        page = _Html(
            "".join(
                f"<div>{name}: {values[-1]:.5g} at step {steps[-1]}</div>"
                f"{line_svg(steps, {name: values})}"
                for name, (steps, values) in self._points.items()
            )
        )
        if self._handle is None:
            self._handle = self._display(page, display_id=True)
        else:
            self._handle.update(page)


class _Html:
    """What IPython shows as HTML."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _repr_html_(self) -> str:
        return self._text


def live_plot() -> LivePlot | None:
    """A live plot where this process is a notebook's kernel, else None."""
    import sys

    interactive: Any = sys.modules.get("IPython")
    shell = None if interactive is None else interactive.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from importlib import import_module

    return LivePlot(import_module("IPython.display").display)
