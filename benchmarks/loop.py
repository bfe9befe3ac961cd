"""What the loop costs besides the compiled step: its own overhead, saves, resuming, diagnostics.

    python benchmarks/loop.py                     every job, a table in Markdown
    python benchmarks/loop.py overhead --rounds 9

overhead      a run that logs every 10 steps and saves every 200, beside its own executable called
              in a bare loop on batches at hand; both in this process, taking turns
diagnostics   a step at which diagnostics are taken, beside one at which none are
save          how long a save holds up a run of 124M parameters (Adam: 1.5 GB of state)
resume        a killed gpt-char goes on: from the start of the process to its first step
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from measure import run as measured
from measure import wait_until_quiet

import sexpgpu as sx
from sexpgpu.ir.document import Document
from sexpgpu.ir.document_json import document_hash, document_text
from sexpgpu.loop.context import StepContext
from sexpgpu.loop.data.loader import TrainingBatches
from sexpgpu.loop.feeds import Feeder, reporting
from sexpgpu.loop.initial import initial_state
from sexpgpu.loop.run import RunOptions, execute
from sexpgpu.loop.schedule import Schedule
from sexpgpu.loop.step import Step, context_types
from sexpgpu.lowering.backend import open_backend
from sexpgpu.lowering.memory import training_environment

ROOT = Path(__file__).parents[1]

MLP = """
(require "sexpgpu/nn" :as nn)
(require "sexpgpu/optim" :as optim)
(defloader train :source (npz "data.npz") :batch 128 :shuffle t)
(defun prepare (batch) (values (field batch :x) (field batch :y)))
(defmodel net ()
  (submodel body (stack (nn:linear 784 {width}) #'relu (nn:linear {width} {width}) #'relu
                        (nn:linear {width} 10)))
  (forward (x) (body x)))
(defun objective (model x y) (nn:cross-entropy (funcall model x) y))
(defrun net :model (net) :optimizer (optim:adam :lr 1e-3) :steps {steps} :steps-per-dispatch 1
  :log-every {log} :checkpoint (:every {save} :keep 1) {more})
"""

LARGE = """
(require "sexpgpu/optim" :as optim)
(defloader train :source (inline (x (0.0))) :batch 1)
(defun prepare (batch) (field batch :x))
(defmodel net () (defparam w (124 1000 1000) :init 0.5) (forward (x) (sum (mean (* w w) :axis 2))))
(defun objective (model x) (funcall model x))
(defrun net :model (net) :optimizer (optim:adam :lr 1e-3) :steps 9 :log-every 1
  :checkpoint (:every 4 :keep 1))
"""


class Row(NamedTuple):
    """One figure, the bar that it is held against ("" where there is none), and how it spreads."""

    what: str
    found: str
    bar: str
    spread: str = ""


def data(folder: Path, records: int = 12_800) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((records, 784), np.float32)
    np.savez(folder / "data.npz", x=x, y=rng.integers(0, 10, records, np.int32))


def document(folder: Path, text: str) -> Document:
    return sx.compile_text(text, base=str(folder)).document


def trained(made: Document, folder: Path) -> list[tuple[float, dict[str, Any]]]:
    """The events of a run in this process, and when each came."""
    heard: list[tuple[float, dict[str, Any]]] = []
    result = execute(
        made,
        RunOptions(
            runs=str(folder / "runs"), device="cpu", fresh=True, quiet=True,
            on_event=lambda event: heard.append((time.perf_counter(), event)),
        ),
        ir_text=document_text(made),
        ir_hash=document_hash(made),
    )  # fmt: skip
    assert result.exit_status == 0, (result.exit_status, result.diagnostics)
    return heard


def bare(made: Document, steps: int) -> Callable[[], float]:
    """The executable of a run's step: a function that calls it `steps` times and gives the seconds
    of one. Reports are read a step late, as the loop reads them."""
    backend = open_backend("cpu")
    stage = made.loader("train").stages[0]
    step = Step(made, stage.name, 1)
    batches = TrainingBatches(stage, "train", made.run.seed)
    context = StepContext(batches, steps, made.run.seed, context_types(made, step.train))
    feeder = Feeder(made, batches, context, Schedule(made, [], steps, 1), backend, 0)
    feeds = [feeder.one(i) for i in range(64)]
    state = backend.put(initial_state(made))
    compiled = backend.compile(reporting(step), (state, feeds[0], {}))

    def timed() -> float:
        nonlocal state
        unread: deque[Any] = deque()
        begin = time.perf_counter()
        for i in range(steps):
            state, report = compiled(state, feeds[i % 64], {})
            unread.append(report)
            if len(unread) > 1:
                backend.get(unread.popleft())
        backend.get(unread.pop())
        return (time.perf_counter() - begin) / steps

    return timed


def between(heard: Sequence[tuple[float, dict[str, Any]]], first: int, last: int) -> float:
    """Seconds a step between the train events of two steps."""
    at = {event["step"]: when for when, event in heard if event["kind"] == "train"}
    return (at[last] - at[first]) / (last - first)


def overhead(rounds: int, wait: float) -> Iterator[Row]:
    for width in (512, 1200):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            data(folder)
            words = {"width": width, "steps": 500, "log": 10, "save": 200, "more": ""}
            made = document(folder, MLP.format(**words))
            timed = bare(made, 300)
            timed()
            pairs: list[tuple[float, float]] = []
            for _ in range(rounds):
                wait_until_quiet(wait)
                before = timed()
                ours = between(trained(made, folder), 50, 490)
                pairs.append(((before + timed()) / 2, ours))
        shares = [100 * (ours / theirs - 1) for theirs, ours in pairs]
        step = 1e3 * statistics.median(theirs for theirs, _ in pairs)
        yield Row(
            f"loop over the bare step of {step:.1f} ms",
            f"{statistics.median(shares):+.1f} %",
            "3 %" if width > 1000 else "",
            f"{min(shares):+.1f} to {max(shares):+.1f} %",
        )


def diagnostics(rounds: int, wait: float) -> Iterator[Row]:
    chosen = {
        "none": "",
        "act/**": ':diagnostics (:select "act/**")',
        "grad/** and update/**": ':diagnostics (:select (list "grad/**" "update/**"))',
        "all, histograms too": ':diagnostics (:select (list "**" "**/histogram"))',
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data(folder)
        found: dict[str, list[float]] = {what: [] for what in chosen}
        words = {"width": 1200, "steps": 130, "log": 10, "save": 1000}
        for _ in range(rounds):
            wait_until_quiet(wait)
            for what, more in chosen.items():
                made = document(folder, MLP.format(**words, more=more))
                found[what].append(between(trained(made, folder), 30, 130))
        base = statistics.median(found["none"])
        for what, seconds in found.items():
            ratios = [s / base for s in seconds]
            yield Row(
                f"a step with diagnostics {what}" if what != "none" else "a step without",
                f"{1e3 * statistics.median(seconds):.1f} ms, {statistics.median(ratios):.2f}",
                "",
                f"{min(ratios):.2f} to {max(ratios):.2f}",
            )


def save(rounds: int, wait: float) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = document(folder, LARGE)
        pauses: list[float] = []
        whole: list[float] = []
        for _ in range(max(1, rounds // 3)):
            wait_until_quiet(wait)
            for _, event in trained(made, folder):
                if event["kind"] == "train" and event["metrics"]["time/checkpoint"]:
                    pauses.append(1e3 * event["metrics"]["time/checkpoint"])
                elif event["kind"] == "checkpoint":
                    whole.append(event["seconds"])
        source = np.ones(372_000_000, np.float32)
        target = np.empty_like(source)
        np.copyto(target, source)
        begin = time.perf_counter()
        np.copyto(target, source)
        copying = 1e3 * (time.perf_counter() - begin)
    spread = f"{min(pauses):.0f} to {max(pauses):.0f} ms"
    yield Row("pause of a save, 124M", f"{statistics.median(pauses):.0f} ms", "50 ms", spread)
    yield Row("one copy of its state in memory", f"{copying:.0f} ms", "")
    yield Row("the whole save, meanwhile", f"{statistics.median(whole):.1f} s", "")


def resume(rounds: int, wait: float) -> Iterator[Row]:
    text = (ROOT / "examples/gpt-char.sx").read_text()
    text = text.replace(":checkpoint (:every 500", ":log-every 1 :checkpoint (:every 2")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "gpt.sx").write_text(text)
        (folder / "data").symlink_to(ROOT / "examples/data")
        environment = {
            "SEXPGPU_CACHE": str(folder / "cache"),
            "PYTHONPATH": str(ROOT),
        }
        base = [
            sys.executable, "-m", "sexpgpu", "run", "gpt.sx", "--json", "--quiet",
            "--device", "cpu", "--set", "layers=6", "--set", "batch=4", "--steps", "4",
        ]  # fmt: skip
        first = measured([*base, "--fresh"], environment, name)
        assert first.code == 0, first.errors
        walls: list[float] = []
        compiling: list[float] = []
        for _ in range(rounds):
            wait_until_quiet(wait)
            again = measured([*base, "--resume", "2"], environment, name)
            assert again.code == 0, again.errors
            line = next(x for x in again.lines if x.data["kind"] == "train")
            walls.append(line.at)
            compiling.append(line.data["metrics"]["time/compile"])
        rest = [w - c for w, c in zip(walls, compiling, strict=True)]
        cold = next(x for x in first.lines if x.data["kind"] == "train")
        spread = f"{min(rest):.2f} to {max(rest):.2f} s"
        yield Row(
            "resume to the first step, less compiling", f"{statistics.median(rest):.2f} s",
            "2 s", spread,
        )  # fmt: skip
        spread = f"{min(compiling):.2f} to {max(compiling):.2f} s"
        yield Row(
            "compiling, from the cache", f"{statistics.median(compiling):.2f} s", "1.5 s", spread
        )
        yield Row("compiling, nothing cached", f"{cold.data['metrics']['time/compile']:.2f} s", "")


JOBS: dict[str, Callable[[int, float], Iterator[Row]]] = {
    "overhead": overhead, "diagnostics": diagnostics, "save": save, "resume": resume,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=f"of: {', '.join(JOBS)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--wait", type=float, default=30, help="seconds to wait for quiet")
    given = parser.parse_args()
    unknown = set(given.jobs) - JOBS.keys()
    if unknown:
        parser.error(f"no job {', '.join(sorted(unknown))}; there are {', '.join(JOBS)}")
    again = training_environment("cpu")  # as the command line trains
    if again is not None:
        os.execve(sys.executable, sys.orig_argv, again)
    print("| what | found | bar | spread |", "| --- | --- | --- | --- |", sep="\n", flush=True)
    for name in given.jobs or JOBS:
        for row in JOBS[name](given.rounds, given.wait):
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
