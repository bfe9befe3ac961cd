"""The finite guard: the message names the node, and its one command shows the same again."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILE = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train
  :source (inline (x (1.0) (2.0) (3.0) (-4.0) (5.0) (6.0)) (y (1.0) (2.0) (3.0) (4.0) (5.0) (6.0)))
  :batch 1)
(defun prepare (batch) (values (field batch :x) (field batch :y)))
(defmodel net () (submodel fit (nn:linear 1 1)) (defparam s () :init 1.0)
  (forward (x) FORWARD))
(defun objective (model x y) (nn:mse (funcall model x) y))
(defrun net :model (net) :optimizer (optim:sgd :lr 0.001) :steps 20 :checkpoint (:every 2)
  :finite FINITE)
"""

# x is -4 at step 3
FORWARD = "(+ (fit x)\n    (log x))"
BACKWARD = "(+ (fit x)\n    (sqrt (* s (+ x 4.0))))"  # finite at x = -4; its slope is not


def sexpgpu(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SEXPGPU_CACHE": str(folder / "cache")}
    return subprocess.run(
        [sys.executable, "-m", "sexpgpu", *words], cwd=folder, env=environment, check=False,
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip


@pytest.mark.parametrize("device", ["interp", pytest.param("cpu", marks=pytest.mark.slow)])
def test_the_command_of_the_message_works(tmp_path: Path, device: str) -> None:
    (tmp_path / "a b.sx").write_text(FILE.replace("FORWARD", FORWARD).replace("FINITE", ":abort"))
    done = sexpgpu(tmp_path, "run", "a b.sx", "--device", device, "--slug", "it", "--quiet")
    assert done.returncode == 4, done.stderr
    assert "E-RUN-031" in done.stderr
    assert "step 3" in done.stderr
    assert "log gives nan" in done.stderr
    assert "a b.sx:10" in done.stderr  # the line of the log
    (line,) = [x for x in done.stderr.splitlines() if "to see it again: " in x]
    words = shlex.split(line.partition("to see it again: ")[2])
    assert words[0] == "sexpgpu"
    for _ in range(2):  # as often as one likes
        again = sexpgpu(tmp_path, *words[1:], "--json")
        assert again.returncode == 4, again.stderr
    told = json.loads(again.stdout.splitlines()[-1])
    assert told["kind"] == "close"
    assert told["diagnostic"]["code"] == "E-RUN-031"
    assert "step 3: " in told["diagnostic"]["message"]
    assert "log gives nan" in told["diagnostic"]["message"]
    # the run itself is untouched, and its good checkpoint still counts
    kept = sexpgpu(tmp_path, "checkpoint", "list", "runs/it", "--json")
    rows = json.loads(kept.stdout)["checkpoints"]
    assert [(r["step"], r["bad"], r["sealed"]) for r in rows] == [(2, False, True), (3, True, True)]
    assert sexpgpu(tmp_path, "checkpoint", "show", "runs/it@bad-3").returncode == 0


def test_a_node_of_the_backward_pass_is_named(tmp_path: Path) -> None:
    text = FILE.replace("FORWARD", BACKWARD)
    (tmp_path / "a.sx").write_text(text.replace("FINITE", ":abort"))
    done = sexpgpu(tmp_path, "run", "a.sx", "--device", "interp", "--slug", "it", "--quiet")
    assert done.returncode == 4, done.stderr
    assert "the gradient norm is" in done.stderr
    assert "a.sx:10" in done.stderr
    assert "gives" in done.stderr


def test_skipped_steps_leave_everything_alone(tmp_path: Path) -> None:
    (tmp_path / "a.sx").write_text(FILE.replace("FORWARD", FORWARD).replace("FINITE", ":skip"))
    done = sexpgpu(tmp_path, "run", "a.sx", "--device", "interp", "--slug", "it", "--json")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    warned = [e["step"] for e in events if e["kind"] == "warning"]
    assert warned == [4, 10, 16]
    assert events[-1]["summary"]["totals"]["nonfinite"] == 3
