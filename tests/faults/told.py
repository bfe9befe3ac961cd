"""What a run's events tell, for comparing it with another run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sexpgpu.loop.events import read_events
from sexpgpu.loop.recorder import is_of_the_machine


def series(directory: Path) -> dict[tuple[int, str], Any]:
    """(step, series) -> value, of the machine's None; each stands once."""
    found: dict[tuple[int, str], Any] = {}
    for event in read_events(str(directory / "events.jsonl")):
        for name, value in event.get("metrics", {}).items():
            assert (event["step"], name) not in found, (directory, event["step"], name)
            found[event["step"], name] = None if is_of_the_machine(name) else value
    return found
