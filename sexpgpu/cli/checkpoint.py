"""`sexpgpu checkpoint`: what a run has saved, whether it is whole, how two differ; export, prune.

Loads neither jax nor a device: numpy, and Orbax where tensors are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from sexpgpu.cli import output
from sexpgpu.cli.faults import DONE, FILE, RUN
from sexpgpu.cli.options import PATH, json_flag

WHICH = (
    "A checkpoint is named by its folder, by its run (the newest whole one), or as RUN@STEP, "
    "RUN@latest, RUN@best."
)


@click.group("checkpoint", epilog=WHICH)
def command() -> None:
    """What a run has saved: list, show, verify, diff, export, prune."""


@command.command("list")
@click.argument("run", metavar="RUN", type=PATH)
@json_flag
def list_(run: str, as_json: bool) -> int:
    """Every checkpoint of RUN: step, size, when, and whether it is the best, bad or torn."""
    from sexpgpu.loop import archive

    rows = archive.listed(archive.run_of(run))
    if as_json:
        output.json_result({"run": run, "checkpoints": rows})
        return DONE
    shown = [
        (
            row["name"],
            output.bytes_text(row["bytes"]) if row["sealed"] else "",
            output.time_text(row["saved"]) if row["sealed"] else "",
            "torn: the save did not finish" if not row["sealed"] else _marks(row),
        )
        for row in rows
    ]
    output.table(("checkpoint", "size", "saved", ""), shown, right=(0, 1))
    return DONE


def _marks(row: dict[str, Any]) -> str:
    return " ".join(mark for mark in ("best", "bad") if row[mark])


@command.command("show", epilog=WHICH)
@click.argument("checkpoint", metavar="CHECKPOINT", type=PATH)
@json_flag
def show(checkpoint: str, as_json: bool) -> int:
    """What CHECKPOINT holds: of which run and step, and every tensor with its statistics."""
    from sexpgpu.loop import archive, named

    found = archive.described(named.find(checkpoint))
    if as_json:
        output.json_result(output.plain_json(found))
        return DONE
    output.result(f"{found['path']}: {found['run']}, step {found['step']}")
    for series, value in found["metrics"].items():
        if series.endswith("/loss") and isinstance(value, float):
            output.result(f"{series} {value:.6g}")
    rows = [
        (
            row["name"],
            f"{row['dtype']} ({' '.join(map(str, row['shape']))})",
            f"{row['rms']:.4g}" if "rms" in row else str(row.get("value", "")),
            f"{row['min']:.4g}" if "min" in row else "",
            f"{row['max']:.4g}" if "max" in row else "",
            f"{row['nonfinite']} not finite" if row.get("nonfinite") else "",
        )
        for row in found["tensors"]
    ]
    output.table(("tensor", "type", "rms", "min", "max", ""), rows, right=(2, 3, 4))
    return DONE


@command.command("verify", epilog=WHICH)
@click.argument("checkpoints", metavar="RUN|CHECKPOINT…", type=PATH, nargs=-1, required=True)
@json_flag
def verify(checkpoints: Sequence[str], as_json: bool) -> int:
    """Compare every byte of checkpoints, of a run all of them, with what was sealed; of a run the
    events too: all there, in order, and those of its checkpoint.

    Exit 3 when one is torn or damaged."""
    from sexpgpu.loop import archive, directory

    found = [row for reference in checkpoints for row in archive.verified(reference)]
    logs = [archive.verified_log(one) for one in checkpoints if directory.has_run(one)]
    if as_json:
        parts = {"checkpoints": found, "logs": logs}
        output.json_result(
            {
                name: [{"path": path, "problem": problem} for path, problem in rows]
                for name, rows in parts.items()
            }
        )
    else:
        rows = [(path, problem or "whole") for path, problem in [*found, *logs]]
        output.table(("checkpoint", ""), rows)
    return RUN if any(problem for _, problem in [*found, *logs]) else DONE


@command.command("diff", epilog=WHICH)
@click.argument("one", metavar="CHECKPOINT", type=PATH)
@click.argument("other", metavar="CHECKPOINT", type=PATH)
@click.option("--exit-code", is_flag=True, help="Exit 1 when they differ.")
@json_flag
def diff(one: str, other: str, exit_code: bool, as_json: bool) -> int:
    """How the second checkpoint differs from the first: experiment, and each tensor."""
    from sexpgpu.loop import archive, named

    found = archive.compared(named.find(one), named.find(other))
    differ = bool(found["experiment"] or found["added"] or found["removed"] or found["changed"])
    if as_json:
        output.json_result(output.plain_json(found))
    else:
        _show_differences(found, differ)
    return FILE if differ and exit_code else DONE


def _show_differences(found: dict[str, Any], differ: bool) -> None:
    before, after = found["steps"]
    output.result(f"step {before} -> {after}: " + ("they differ" if differ else "equal to the bit"))
    for line in found["experiment"]:
        output.result(f"experiment {line}")
    for word in ("added", "removed"):
        for name in found[word]:
            output.result(f"{word} {name}")
    rows: list[tuple[str, ...]] = []
    for row in found["changed"]:
        if "max" in row:
            relative = row["relative"]
            rows.append(
                (row["name"], f"{row['max']:.4g}", "" if relative is None else f"{relative:.4g}")
            )
        else:
            rows.append((row["name"], f"{row['before']} -> {row['after']}", ""))
    if rows:
        output.table(("tensor", "largest change", "relative"), rows, right=(1, 2))
    if found["changed"]:
        output.result(f"{found['equal']} other tensors are equal")


@command.command("export", epilog=WHICH)
@click.argument("checkpoint", metavar="CHECKPOINT", type=PATH)
@click.option(
    "-o",
    "--output",
    "target",
    metavar="FILE",
    type=PATH,
    required=True,
    help="A .safetensors or .npz file.",
)
@click.option(
    "--only", multiple=True, metavar="GLOB", help="Paths to export: 'embed/**'. Repeatable."
)
@click.option(
    "--states", is_flag=True, help="Every tensor of the checkpoint, optimizer states included."
)
@click.option(
    "--weights", type=click.Choice(("averaged", "raw")), default="averaged", show_default=True,
    help="Parameters averaged by the optimizer, where it does, or as they were trained.",
)  # fmt: skip
@json_flag
def export(
    checkpoint: str, target: str, only: Sequence[str], states: bool, weights: str, as_json: bool
) -> int:
    """Write CHECKPOINT's parameters and buffers, by their paths, to a file of weights."""
    from sexpgpu.loop import named
    from sexpgpu.loop.weights import export as write

    path = named.find(checkpoint)
    names = write(path, target, only, states, weights)
    if as_json:
        output.json_result({"checkpoint": path, "file": target, "tensors": names})
    else:
        output.result(target)
    return DONE


@command.command("prune")
@click.argument("run", metavar="RUN", type=PATH)
@click.option(
    "--keep", type=click.IntRange(1), metavar="N", default=1, show_default=True,
    help="How many of the newest whole ones stay.",
)  # fmt: skip
@click.option("--keep-every", type=click.IntRange(1), metavar="N", help="Every N-th step stays.")
@click.option("--dry-run", is_flag=True, help="Say what would be removed.")
@json_flag
def prune(run: str, keep: int, keep_every: int | None, dry_run: bool, as_json: bool) -> int:
    """Remove checkpoints of RUN but the newest whole ones, the best and those marked bad. A run
    that a process is writing is refused."""
    from sexpgpu.loop import archive

    removed = archive.prune(archive.run_of(run), keep, keep_every, dry_run)
    if as_json:
        output.json_result({"run": run, "removed": removed, "dry_run": dry_run})
    else:
        for path in removed:
            output.result(f"{'would remove' if dry_run else 'removed'} {path}")
    return DONE
