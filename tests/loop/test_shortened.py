"""A run that is cut short to the very step of a checkpoint ends as a run of so many steps does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from loop_documents import make, run

from sexpgpu.loop.events import read_events
from sexpgpu.loop.recorder import is_of_the_machine
from sexpgpu.loop.run import RunResult


def told(result: RunResult) -> dict[tuple[int, str], Any]:
    """(step, series) -> value of all but what the machine measures; each stands once."""
    found: dict[tuple[int, str], Any] = {}
    for event in read_events(f"{result.directory}/events.jsonl"):
        for name, value in event.get("metrics", {}).items():
            key = (event["step"], name)
            assert key not in found, key
            if not is_of_the_machine(name):
                found[key] = value
    return found


@pytest.mark.parametrize(
    "step, eval_every, log_every",
    [
        (12, None, 5),  # the pass at the end, and the train event of steps 11 and 12
        (12, 8, 4),  # the pass only
        (12, 6, 5),  # the train event only: the pass runs at step 12 in any case
    ],
)
def test_it_ends_as_a_run_of_so_many_steps(
    tmp_path: Path, step: int, eval_every: int | None, log_every: int
) -> None:
    document = make(steps=24, every=12, eval_every=eval_every, log_every=log_every)
    run(document, tmp_path)
    short = run(document, tmp_path, resume=str(step), steps=step, allow_change=True)
    assert (short.state, short.exit_status, short.step) == ("finished", 0, step)
    whole = run(document, tmp_path, slug="whole", steps=step)
    assert (step, "eval/valid/loss") in told(whole)
    assert told(short) == told(whole)
    assert (
        short.summary["metrics"]["eval/valid/loss"] == whole.summary["metrics"]["eval/valid/loss"]
    )
    again = run(document, tmp_path, resume="latest", steps=step)
    assert (again.state, again.step) == ("finished", step)
    assert told(again) == told(whole)


def test_a_pass_that_was_still_due_runs_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in the evaluation at step 12, and then cut short to it."""
    from sexpgpu.loop.evaluate import Pass

    document = make(steps=24, every=12, eval_every=12)
    original = Pass.run

    def evaluate(self: Pass, state: Any, context: Any, constants: Any, requests: Any) -> Any:
        requests.receive(15)
        return original(self, state, context, constants, requests)

    monkeypatch.setattr(Pass, "run", evaluate)
    assert run(document, tmp_path).exit_status == 75
    monkeypatch.undo()
    short = run(document, tmp_path, resume="latest", steps=12, allow_change=True)
    whole = run(document, tmp_path, slug="whole", steps=12)
    assert told(short) == told(whole)
