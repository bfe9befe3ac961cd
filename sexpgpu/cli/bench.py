"""`sexpgpu bench`: steps a second, time to the first step, and memory; beside another."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import click

from sexpgpu.cli import output
from sexpgpu.cli.options import DEVICES, PATH, device_flag, json_flag, limit_flag, selection_flags


@click.command("bench")
@click.argument("file", metavar="FILE", type=PATH)
@selection_flags
@device_flag("Where to train.")
@click.option(
    "--steps", type=click.IntRange(1), default=50, show_default=True, metavar="N",
    help="About how many steps to time.",
)  # fmt: skip
@click.option(
    "--against",
    "others",
    multiple=True,
    metavar="FILE|DEVICE",
    type=PATH,
    help="Measure this, too: another file (with this selection), or FILE elsewhere. Repeatable.",
)
@json_flag
@limit_flag
def command(
    file: str,
    variants: tuple[str, ...],
    knobs: dict[str, str],
    device: str,
    steps: int,
    others: tuple[str, ...],
    as_json: bool,
    limits: dict[str, str],
) -> int:
    """How fast FILE, a run file or an IR document, trains here: the run's own step and its own
    reader of data, without evaluations and checkpoints. The median of five stretches, after one
    that is not counted. What is measured against others has a process of its own each.

    \b
    sexpgpu bench gpt.sx --steps 20
    sexpgpu bench gpt.sx --against interp
    sexpgpu bench gpt.sx --against faster.sx --json
    """
    if not others:
        found = [_measured(file, variants, knobs, device, steps, limits)]
    else:
        if file == "-" or "-" in others:
            raise click.UsageError("standard input can be read only once")
        flags = [word for v in variants for word in ("--variant", v)]
        flags += [word for k, v in knobs.items() for word in ("--set", f"{k}={v}")]
        flags += [word for k, v in limits.items() for word in ("--limit", f"{k}={v}")]
        subjects = [(file, device)]
        subjects += [(file, o) if o in DEVICES else (o, device) for o in others]
        found: list[dict[str, Any]] = []
        for subject, where in subjects:
            words = [subject, *flags, "--device", where, "--steps", str(steps)]
            measured, code = _in_a_process(words)
            if code:
                if as_json:
                    output.json_result(measured, lines=True)
                return code
            found.append(measured)
    if as_json:
        output.json_result({"results": found})
    else:
        output.result(report(found))
    return 0


def _measured(
    file: str,
    variants: tuple[str, ...],
    knobs: dict[str, str],
    device: str,
    steps: int,
    limits: dict[str, str],
) -> dict[str, Any]:
    from sexpgpu.cli.inputs import document_input

    document, warnings = document_input(file, variants, knobs, limits)
    output.show(warnings)
    from sexpgpu.loop.bench import bench

    return {"file": file, **bench(document, device, steps).to_json()}


def _in_a_process(words: list[str]) -> tuple[dict[str, Any], int]:
    """The result of a bench in a process of its own, or its error object; and its exit code."""
    command = [sys.executable, "-m", "sexpgpu", "bench", *words, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    told = json.loads(done.stdout or b"{}")
    return (told if done.returncode else told["results"][0]), done.returncode


def report(found: list[dict[str, Any]]) -> str:
    """The measurements as a table, speeds beside the first one's."""
    from sexpgpu.explain.text import scaled, table

    rows: list[list[str]] = []
    for one in found:
        planned, peak = one["memory"]["planned"], one["memory"]["peak"]
        rows.append(
            [
                one["file"],
                one["device"],
                f"{one['steps_per_second']:.4g}",
                f"{one['slowest']:.4g} to {one['fastest']:.4g}",
                f"{one['steps_per_second'] / found[0]['steps_per_second']:.2f}×",
                f"{one['samples_per_second']:.4g}",
                f"{one['first_step_s']:.2f} s",
                f"{one['data_wait_s']:.2f} s",
                "" if planned is None else scaled(planned["total"], "B"),
                "" if peak is None else scaled(peak, "B"),
            ]
        )
    head = (
        "file", "device", "steps/s", "of stretches", "", "samples/s", "first step", "data wait",
        "planned", "peak",
    )  # fmt: skip
    return table(head, rows, right=tuple(range(2, len(head))))
