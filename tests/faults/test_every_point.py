"""Killed at any point, cut from the power at any point, resumed: nothing differs from the run that
was never interrupted, and no event stands twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from told import series

import sexpgpu as sx
from sexpgpu.loop.checkpoint import load, newest_whole
from sexpgpu.loop.events import read_events
from sexpgpu.loop.weights import model_for

ROOT = Path(__file__).parents[2]
DOCUMENT = {
    "steps": 24, "every": 3, "log_every": 2, "eval_every": 5, "keep": 2, "microbatches": 2,
    "best": ["min", "eval/valid/loss"],
}  # fmt: skip


def state(directory: Path) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Parameters, buffers, moments, counters, statistics; and what is no tensor but the clock."""
    path, warnings = newest_whole(str(directory))
    assert path is not None
    assert not warnings
    tensors, meta = load(path)
    kept = {key: meta[key] for key in ("loader", "recorder", "best", "stop", "due", "experiment")}
    return {name: array.tobytes() for name, array in tensors.items()}, kept


def check(
    tmp_path: Path, device: str, chains: list[tuple[int, int, str]], text: str | None = None
) -> Counter[str]:
    plan = {"document": DOCUMENT, "text": text, "device": device, "chains": chains}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "points.py"), str(tmp_path), json.dumps(plan)],
        cwd=ROOT, check=False, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "SEXPGPU_CACHE": str(tmp_path / "cache")},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    whole_series, whole_state = series(tmp_path / "whole"), state(tmp_path / "whole")
    assert len(whole_series) > 50
    for seed, _, how in chains:
        directory = tmp_path / f"chain-{seed}-{how}"
        assert state(directory) == whole_state
        assert series(directory) == whole_series
        events = list(read_events(str(directory / "events.jsonl")))
        assert [e["seq"] for e in events] == list(range(len(events)))
        saved = [e["step"] for e in events if e["kind"] == "checkpoint"]
        assert len(saved) == len(set(saved))
        assert [e["kind"] for e in events].count("open") == 1
        assert events[-1]["reason"] == "finished"
        rubbish = {".partial", ".dropped", ".tmp"}
        assert not [p for p in directory.rglob("*") if p.suffix in rubbish]
    return Counter(json.loads(line)["point"] for line in done.stdout.splitlines())


@pytest.mark.slow
def test_killed_a_dozen_times(tmp_path: Path) -> None:
    kinds = check(tmp_path, "interp", [(s, 3, h) for s, h in enumerate(
        ("before", "after", "middle", "power"))])  # fmt: skip
    assert sum(kinds.values()) >= 8


AVERAGED = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train :source (synthetic 40 (x :f32 (3) (:normal 0 1)) (y :f32 (1) (:normal 0 1)))
  :batch 8 :shuffle t)
(defun prepare (batch) (values (field batch :x) (field batch :y)))
(defmodel net () (submodel one (nn:linear 3 4)) (submodel two (nn:linear 4 1))
  (forward (x) (two (dropout (tanh (one x)) 0.2))))
(defun objective (model x y) (nn:mse (funcall model x) y))
(defeval averaged :loader train :every 5)
(defeval raw :loader train :every 5 :weights :raw)
(defrun net :model (net) :optimizer OPTIMIZER :steps 24 :log-every 2
  :checkpoint (:every 3 :keep 2 :best (:min :eval/averaged/loss)))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "optimizer",
    [
        "(optim:ema (optim:adamw :lr 0.05) :decay 0.9)",
        "(optim:schedule-free-adamw :lr 0.05)",
        """(optimizer-groups (optim:schedule-free-sgd :lr 0.1)
             (group slow (rank 1) :every 2
               :optimizer (optim:ema (optim:sgd :lr 0.1) :decay 0.5)))""",
    ],
)
def test_averaged_weights_through_kills(tmp_path: Path, optimizer: str) -> None:
    """What evaluations see is an average over steps on both sides of each kill."""
    text = AVERAGED.replace("OPTIMIZER", optimizer)
    kinds = check(tmp_path, "interp", [(1, 3, "before"), (2, 3, "power")], text)
    assert sum(kinds.values()) >= 4
    told = series(tmp_path / "whole")
    assert told[20, "eval/averaged/loss"] != told[20, "eval/raw/loss"]
    document = sx.compile_text(text).document
    weights = [
        {path: array.tobytes() for path, array in model_for(document, str(tmp_path / name)).items()}
        for name in ("whole", "chain-1-before", "chain-2-power")
    ]
    assert weights[1:] == weights[:1] * 2
    raw = model_for(document, str(tmp_path / "whole"), "raw")
    assert weights[0] != {path: array.tobytes() for path, array in raw.items()}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["before", "after", "middle", "power"])
def test_killed_at_random_points(tmp_path: Path, how: str) -> None:
    kinds = check(tmp_path, "interp", [(seed, 4, how) for seed in range(10, 15)])
    assert sum(kinds.values()) >= 12
    assert len(kinds) >= 4, kinds


@pytest.mark.slow
def test_killed_on_the_compiled_device(tmp_path: Path) -> None:
    kinds = check(tmp_path, "cpu", [(30, 4, "before"), (31, 4, "power"), (32, 4, "middle")])
    assert sum(kinds.values()) >= 8
