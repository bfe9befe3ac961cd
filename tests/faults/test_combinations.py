"""Options of a run that meet each other, drawn at random, and a run that is killed and stopped on
its way: the end is that of the run which was not."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from loop_documents import make, run
from told import series

from sexpgpu.ir.document import Stop
from sexpgpu.loop.checkpoint import list_checkpoints, load
from sexpgpu.loop.events import read_events
from sexpgpu.loop.train import Trainer


def drawn(rng: random.Random) -> dict[str, Any]:
    """The arguments of a document."""
    given: dict[str, Any] = {
        name: rng.choice(values)
        for name, values in {
            "steps": (24, 31, 40), "every": (None, 3, 7, 10), "eval_every": (None, 4, 5, 9),
            "log_every": (1, 3, 5, 100), "together": (1, 4, 8, "auto"), "keep": (None, 1, 2),
            "keep_every": (None, 6, 14), "microbatches": (1, 2, 4), "group_every": (1, 3),
            "drop_last": (True, False), "at_start": (True, False), "clip": (None, 1.0),
        }.items()
    }  # fmt: skip
    if rng.random() < 0.3:
        given |= {"finite": "skip", "bad": 20}
    if given["eval_every"] and rng.random() < 0.5:
        given["best"] = ("min", "eval/valid/loss")
    if given["eval_every"] and rng.random() < 0.4:
        given["stop"] = Stop(best=(rng.choice(("min", "max")), "eval/valid/loss"), patience=2)
    return given


def end(directory: Path) -> tuple[int, dict[str, bytes], dict[str, Any]]:
    """The last checkpoint: step, tensors, and what is no tensor."""
    found = list_checkpoints(str(directory))[-1]
    tensors, meta = load(found.path)
    kept = ("loader", "recorder", "best", "stop", "due")
    return (
        found.step,
        {name: array.tobytes() for name, array in tensors.items()},
        {key: meta[key] for key in kept},
    )


def interrupted(document: Any, runs: Path, at: int, how: str) -> None:
    """Go on with the run until a step, if it comes so far: killed there, or stopped."""
    original = Trainer._attend

    def attend(self: Trainer, waited: float) -> None:
        original(self, waited)
        if self.step >= at:
            if how == "killed":
                raise KeyboardInterrupt
            self.parts.requests.receive(15)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_attend", attend)
        try:
            run(document, runs, resume="latest")
        except KeyboardInterrupt:
            assert how == "killed"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_options_that_meet(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    given = drawn(rng)
    document = make(**given)
    assert run(document, tmp_path, slug="whole").exit_status == 0
    cuts = sorted(rng.sample(range(1, given["steps"] + 1), 3))
    for at in cuts:
        interrupted(document, tmp_path, at, rng.choice(("killed", "stopped")))
    assert run(document, tmp_path, resume="latest").exit_status == 0
    assert end(tmp_path / "run") == end(tmp_path / "whole")
    assert series(tmp_path / "run") == series(tmp_path / "whole")
    events = list(read_events(str(tmp_path / "run" / "events.jsonl")))
    assert [e["seq"] for e in events] == list(range(len(events)))
