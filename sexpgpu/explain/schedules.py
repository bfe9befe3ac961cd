"""Values of schedules before a run: what the graphs `hyper/GROUP` give at steps of the run."""

from __future__ import annotations

from typing import Any

from sexpgpu.ir.document import Document

POINTS = 61
_KNOWN = {"ctx/step", "ctx/steps", "ctx/progress"}  # inputs whose values follow from the step
LEVELS = "▁▂▃▄▅▆▇█"


def schedules(document: Document, points: int = POINTS) -> list[dict[str, Any]]:
    """Each scheduled hyperparameter: group, name, and its values at steps spread over the run, the
    first and the last among them. `values` is None where it depends on more than the step (an
    evaluation's metric, say) or the number of steps is not known."""
    steps = document.run.steps
    found: list[dict[str, Any]] = []
    for group in document.groups:
        if group.hyper is None:
            continue
        graph = document.graphs[group.hyper]
        known = steps is not None and set(graph.inputs) <= _KNOWN
        at = _spread(steps, points) if known and steps is not None else None
        values = _values(document, group.hyper, at) if at is not None else None
        for name in group.schedules:
            found.append(
                {
                    "group": group.name,
                    "name": name,
                    "steps": at,
                    "values": None if values is None else values[name],
                }
            )
    return found


def _spread(steps: int, points: int) -> list[int]:
    if steps <= points:
        return list(range(steps))
    return [round(i * (steps - 1) / (points - 1)) for i in range(points)]


def _values(document: Document, graph: str, steps: list[int]) -> dict[str, list[float]]:
    from sexpgpu.lowering.interp.schedule import at_steps

    return at_steps(document.graphs[graph], steps, document.run.steps)


def plot(values: list[float]) -> str:
    """Values as one line of blocks, the least the lowest and the greatest the highest."""
    low, high = min(values), max(values)
    if high == low:
        return LEVELS[3] * len(values)
    scale = (len(LEVELS) - 1) / (high - low)
    return "".join(LEVELS[round((value - low) * scale)] for value in values)
