"""`sexpgpu status`: what runs are doing, from their status files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click

from sexpgpu.cli import output
from sexpgpu.cli.faults import DONE
from sexpgpu.cli.options import PATH, json_flag

ENDED = ("finished", "stopped", "failed")
SILENT = 60.0  # seconds without a new status, after which a run's process counts as gone


@click.command("status")
@click.argument("runs", metavar="[RUN…]", type=PATH, nargs=-1)
@json_flag
def command(runs: Sequence[str], as_json: bool) -> int:
    """The state of each RUN: a run directory, or a folder of them (default: SEXPGPU_RUNS or runs).

    A run that says it goes on, and has not written for a minute, is shown as gone: its process was
    killed, or its machine is away."""
    found = [row for run in runs or [os.environ.get("SEXPGPU_RUNS", "runs")] for row in rows(run)]
    if as_json:
        output.json_result({"runs": found})
        return DONE
    shown = [
        (
            row["directory"],
            _state(row),
            f"{row['step']}/{row.get('steps') or '?'}",
            _left(row),
            _metrics(row.get("metrics") or {}),
        )
        for row in found
    ]
    output.table(("run", "state", "step", "left", ""), shown, right=(2, 3))
    for row in found:
        if row["state"] == "failed" and row.get("diagnostic"):
            told = row["diagnostic"]
            output.result(f"{row['directory']}: error[{told['code']}]: {told['message']}")
    return DONE


def rows(run: str) -> list[dict[str, Any]]:
    """The status of a run directory, or of each in a folder, with `directory` and `gone`."""
    from sexpgpu.diagnostics.codes.system import E_CKPT_001, E_CKPT_008
    from sexpgpu.diagnostics.model import Diagnostic, SxError
    from sexpgpu.loop.events import FILE
    from sexpgpu.loop.status import read_status

    own = read_status(run)
    if own is not None:
        return [_row(run, own)]
    if not os.path.isdir(run):
        raise SxError(
            Diagnostic(
                E_CKPT_001,
                f"there is no folder {run}",
                fix="name a run or the folder that runs are in; `sexpgpu run FILE` makes the first",
            )
        )
    if os.path.exists(os.path.join(run, FILE)):
        raise SxError(
            Diagnostic(
                E_CKPT_008,
                f"{run} has no whole status.json",
                fix=f"`sexpgpu tail {run}` shows its events",
            )
        )
    inner = [
        (entry.path, found)
        for entry in sorted(os.scandir(run), key=lambda entry: entry.name)
        if entry.is_dir() and (found := read_status(entry.path)) is not None
    ]
    if not inner:
        raise SxError(Diagnostic(E_CKPT_008, f"{run} is no run directory, and has none in it"))
    return [_row(path, found) for path, found in inner]


def _row(directory: str, status: dict[str, Any]) -> dict[str, Any]:
    return {"directory": directory, "gone": is_gone(status), **status}


def _state(row: dict[str, Any]) -> str:
    """What it is doing, and in which stage where there are several."""
    state = "gone" if row["gone"] else str(row["state"])
    return f"{state} ({row['stage']})" if row.get("stage") else state


def is_gone(status: dict[str, Any]) -> bool:
    """Whether a run that has not ended has fallen silent."""
    if status.get("state") in ENDED:
        return False
    try:
        updated = datetime.fromisoformat(status["updated"])
    except (KeyError, TypeError, ValueError):
        return True
    return (datetime.now(UTC) - updated).total_seconds() > SILENT


def _left(row: dict[str, Any]) -> str:
    from sexpgpu.loop.progress import duration

    eta = row.get("eta_s")
    return duration(eta) if eta and row["state"] not in ENDED and not row["gone"] else ""


def _metrics(metrics: dict[str, Any]) -> str:
    """The losses, for people."""
    told = [
        f"{name} {value:.5g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in metrics.items()
        if name.endswith("/loss")
    ]
    return "  ".join(told)
