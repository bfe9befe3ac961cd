"""The product side by side with programs written by hand: time, memory, losses.

    python benchmarks/run.py                        every default job, three rounds
    python benchmarks/run.py "nano f32" --rounds 5
    python benchmarks/run.py "nano f32" --losses    only hold the losses of 50 steps together
    python benchmarks/run.py --show benchmarks/results/results.jsonl

Programs take turns, round by round, and each waits until the machine is quiet; runs that others
disturbed do not count while there are three that they did not. Interpreters of the peers:
PEERS_JAX (default: this one) and PEERS_TORCH (no torch rows without it).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from data import write_batches, write_weights
from jobs import JOBS, Job, Peer
from measure import QUIET, Line, Measured, run, wait_until_quiet

HERE = Path(__file__).parent
RESULTS = HERE / "results"
EVERY = 8
"""Steps between two training events of the product: times are means over so many."""

Row = dict[str, Any]


def first_time(lines: Sequence[Line], kind: str) -> float | None:
    """Seconds to the first line of a kind."""
    found = (at for at, data in lines if kind in (data.get("kind"), data.get("event")))
    return next(found, None)


class Inputs(NamedTuple):
    """What a peer draws, for the product to begin with."""

    batches: Path
    weights: Path


def write_inputs(job: Job, steps: int, folder: Path) -> Inputs:
    name = job.name.replace(" ", "-").replace(",", "")
    inputs = Inputs(folder / f"{name}.npz", folder / f"{name}-weights.npz")
    write_batches(job.data, steps, inputs.batches)
    layers = job.knobs.get("layers")
    write_weights(job.data, None if layers is None else int(layers), inputs.weights)
    return inputs


def product_command(job: Job, steps: int, every: int, runs: str, inputs: Inputs) -> list[str]:
    knobs = {"horizon": job.steps} if job.file == "gpt.sx" else {}
    knobs |= {**job.knobs, "steps": steps, "log-every": every}
    knobs["data"] = json.dumps(str(inputs.batches))
    settings = [word for name, value in knobs.items() for word in ("--set", f"{name}={value}")]
    file = str(HERE / "sx" / job.file)
    return [
        sys.executable, "-m", "sexpgpu", "run", file, "--json", "--quiet", "--fresh",
        "--runs", runs, "--device", job.device, "--init-from", str(inputs.weights), *settings,
    ]  # fmt: skip


def product_environment(scratch: str) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
    return {"SEXPGPU_CACHE": os.path.join(scratch, "cache"), "PYTHONPATH": path}


def measure_product(job: Job, inputs: Inputs) -> Row:
    """One round of the product: a cold first step, a warm one, then the timed run."""
    total = 1 + job.warmup + job.steps
    with tempfile.TemporaryDirectory() as scratch:
        environment = product_environment(scratch)
        runs = os.path.join(scratch, "runs")
        one = product_command(job, 1, 1, runs, inputs)
        cold = checked(run(one, environment, scratch))
        warm = checked(run(one, environment, scratch))
        timed = product_command(job, total, EVERY, runs, inputs)
        full = checked(run(timed, environment, scratch))
    trained = [line for line in full.lines if line.data.get("kind") == "train"]
    begun = [line for line in trained if line.data["step"] >= 1 + job.warmup]
    times = [1e3 * (b.at - a.at) / (b.data["step"] - a.data["step"]) for a, b in pairwise(begun)]
    first = next(line for line in cold.lines if line.data.get("kind") == "train")
    return {
        "step_ms": statistics.median(times),
        "first_s": first.at,
        "warm_s": first_time(warm.lines, "train"),
        "peak_mib": full.peak_mib,
        "first_loss": first.data["metrics"]["train/loss"],
        "tail_loss": trained[-1].data["metrics"]["train/loss"],
        "foreign": full.foreign,
    }


def peer_command(peer: Peer) -> list[str]:
    interpreters = {"JAX": os.environ.get("PEERS_JAX", sys.executable)}
    if "PEERS_TORCH" in os.environ:
        interpreters["TORCH"] = os.environ["PEERS_TORCH"]
    return [interpreters[peer.command[0]], *peer.command[1:]]


def measure_peer(job: Job, peer: Peer) -> Row:
    """One round of a peer, measured as the product is."""
    command = peer_command(peer)
    folder = str(HERE / "peers")
    with tempfile.TemporaryDirectory() as scratch:
        environment = {**peer.environment, "PEERS_CACHE": os.path.join(scratch, "cache")}
        one = [*command, "--steps", "1", "--warmup", "0"]
        cold = checked(run(one, environment, folder))
        warm = checked(run(one, environment, folder)) if peer.caches else cold
        timed = [*command, "--steps", str(job.steps), "--warmup", str(job.warmup)]
        full = checked(run(timed, peer.environment, folder))
    last = full.lines[-1].data
    return {
        "step_ms": last["median_step_ms"],
        "first_s": first_time(cold.lines, "first-step"),
        "warm_s": first_time(warm.lines, "first-step") if peer.caches else None,
        "peak_mib": full.peak_mib,
        "first_loss": last["first_loss"],
        "tail_loss": last["tail_loss"],
        "foreign": full.foreign,
    }


def measure_check() -> Iterator[tuple[str, Row]]:
    """What a cold `check` takes, beside what importing jax alone takes."""
    root = {"PYTHONPATH": str(HERE.parent)}
    file = str(HERE.parent / "examples" / "gpt-char.sx")
    for name, words in (
        ("sexpgpu check", ["-m", "sexpgpu", "check", file]),
        ("import jax", ["-c", "import jax"]),
        ("python", ["-c", "pass"]),
    ):
        done = checked(run([sys.executable, *words], root, str(HERE)))
        yield name, {"first_s": done.wall, "peak_mib": done.peak_mib, "foreign": done.foreign}


def checked(measured: Measured) -> Measured:
    """The same, or an error that shows what the program said."""
    if measured.code != 0:
        raise RuntimeError(f"exit {measured.code}: {measured.errors[-2000:]}")
    return measured


def measure(jobs: Sequence[Job], check: bool, rounds: int, wait: float, out: Path) -> None:
    """Append one JSON line a program and round to `out`."""
    with tempfile.TemporaryDirectory() as folder, out.open("a", encoding="utf-8") as stream:

        def keep(job: str, program: str, round: int, row: Row) -> None:
            stream.write(json.dumps({"job": job, "program": program, "round": round, **row}) + "\n")
            stream.flush()

        inputs = {
            job.name: write_inputs(job, 1 + job.warmup + job.steps, Path(folder)) for job in jobs
        }
        for round in range(rounds):
            if check:
                wait_until_quiet(wait)
                for program, row in measure_check():
                    keep("start-up", program, round, row)
            for job in jobs:
                for peer in job.peers:
                    if peer.command[0] == "TORCH" and "PEERS_TORCH" not in os.environ:
                        continue
                    wait_until_quiet(wait)
                    keep(job.name, peer.name, round, measure_peer(job, peer))
                wait_until_quiet(wait)
                keep(job.name, "sexpgpu", round, measure_product(job, inputs[job.name]))


def compare_losses(job: Job, steps: int) -> str:
    """The losses of the first steps, held against those of the job's first peer."""
    job = job._replace(steps=steps - 1, warmup=0)
    with tempfile.TemporaryDirectory() as scratch:
        inputs = write_inputs(job, steps, Path(scratch))
        command = product_command(job, steps, 1, os.path.join(scratch, "runs"), inputs)
        ours = checked(run(command, product_environment(scratch), scratch))
        more = ["--steps", str(job.steps), "--warmup", "0", "--losses"]
        theirs = checked(
            run([*peer_command(job.peers[0]), *more], job.peers[0].environment, str(HERE / "peers"))
        )
    found = [x.data["metrics"]["train/loss"] for x in ours.lines if x.data.get("kind") == "train"]
    wanted = theirs.lines[-1].data["losses"]
    apart = [abs(a - b) / abs(b) for a, b in zip(found, wanted, strict=True)]
    worst = max(range(steps), key=apart.__getitem__)
    return (
        f"{job.name}, {steps} steps: {found[0]:.6f} -> {found[-1]:.6f}; {job.peers[0].name}: "
        f"{wanted[0]:.6f} -> {wanted[-1]:.6f}; at most {apart[worst]:.1e} apart (step {worst + 1})"
    )


def medians(rows: Sequence[Row]) -> Row:
    """Medians over the undisturbed runs; over the three least disturbed where those are fewer."""
    ranked = sorted(rows, key=lambda row: row["foreign"] or 0.0)
    quiet = [row for row in ranked if (row["foreign"] or 0.0) < QUIET]
    used = quiet if len(quiet) >= 3 else ranked[:3]
    keys = [key for key, value in used[0].items() if isinstance(value, int | float)]
    return {
        "runs": f"{len(quiet)}/{len(rows)}",
        **{key: statistics.median(row[key] for row in used) for key in keys if key != "round"},
    }


def table(rows: Sequence[Row]) -> str:
    """What was measured, and each program's ratio to the job's first program, as Markdown."""
    head = (
        "job", "program", "step ms", "ratio", "first step s", "ratio", "warm s",
        "peak MiB", "ratio", "first loss", "last losses", "quiet runs",
    )  # fmt: skip
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for job in dict.fromkeys(row["job"] for row in rows):
        programs = dict.fromkeys(row["program"] for row in rows if row["job"] == job)
        found = {
            name: medians([r for r in rows if r["job"] == job and r["program"] == name])
            for name in programs
        }
        base = next(iter(found.values()))
        for name, row in found.items():
            cells = [job, name]
            for key, digits in (("step_ms", 2), ("first_s", 2), ("warm_s", 2), ("peak_mib", 0)):
                cells.append(f"{row[key]:.{digits}f}" if key in row else "")
                if key != "warm_s":
                    both = key in row and key in base
                    cells.append(f"{row[key] / base[key]:.2f}" if both else "")
            cells += [
                f"{row[key]:.4f}" if key in row else "" for key in ("first_loss", "tail_loss")
            ]
            lines.append(f"| {' | '.join([*cells, row['runs']])} |")
    return "\n".join(lines)


def main() -> None:
    names = ["start-up", *(job.name for job in JOBS)]
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=f"of: {', '.join(names)}")
    parser.add_argument("--peers", nargs="*", metavar="NAME", help="only peers so called")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--wait", type=float, default=45, help="seconds to wait for quiet")
    parser.add_argument("--out", type=Path, default=RESULTS / "results.jsonl")
    parser.add_argument("--show", type=Path, metavar="FILE", help="only print the table of FILE")
    parser.add_argument("--losses", action="store_true", help="only compare losses of 50 steps")
    given = parser.parse_args()
    unknown = set(given.jobs) - set(names)
    if unknown:
        parser.error(f"no job {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    if given.losses:
        for job in JOBS:
            if job.name in (given.jobs or names):
                print(compare_losses(job, 50), flush=True)
        return
    if given.show is None:
        chosen = given.jobs or [job.name for job in JOBS] + ["start-up"]
        given.out.parent.mkdir(parents=True, exist_ok=True)
        jobs = [job for job in JOBS if job.name in chosen]
        if given.peers is not None:
            keep = [tuple(p for p in job.peers if p.name in given.peers) for job in jobs]
            jobs = [job._replace(peers=peers) for job, peers in zip(jobs, keep, strict=True)]
        measure(jobs, "start-up" in chosen, given.rounds, given.wait, given.out)
    with (given.show or given.out).open(encoding="utf-8") as stream:
        print(table([json.loads(line) for line in stream]))


if __name__ == "__main__":
    main()
