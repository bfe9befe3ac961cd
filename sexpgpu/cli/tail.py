"""`sexpgpu tail`: the last events of a run, and those to come."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from time import sleep
from typing import Any

import click

from sexpgpu.cli import output
from sexpgpu.cli.faults import DONE
from sexpgpu.cli.options import PATH

KINDS = (
    "open", "train", "eval", "stage", "diagnostic", "checkpoint", "resume", "warning", "signal",
    "annotation", "close",
)  # fmt: skip
PERIOD = 0.2  # seconds between looks at the file


@click.command("tail")
@click.argument("run", metavar="RUN", type=PATH)
@click.option(
    "-n", "count", type=click.IntRange(0), default=10, show_default=True, metavar="N",
    help="How many of the events there are.",
)  # fmt: skip
@click.option("-f", "--follow", is_flag=True, help="Then those to come, until the run ends.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="Only such events.")
@click.option("--json", "as_json", is_flag=True, help="The events themselves, as JSON lines.")
def command(run: str, count: int, follow: bool, kinds: Sequence[str], as_json: bool) -> int:
    """Show the last events of RUN, a run directory."""
    from sexpgpu.diagnostics.codes.system import E_CKPT_008
    from sexpgpu.diagnostics.model import Diagnostic, SxError
    from sexpgpu.loop.events import FILE, Follower

    path = os.path.join(run, FILE)
    if not os.path.exists(path):
        raise SxError(Diagnostic(E_CKPT_008, f"{run} is no run directory: it has no {FILE}"))
    follower = Follower(path)
    last: deque[dict[str, Any]] = deque(maxlen=count)
    ended = False
    for record in follower.read():
        ended = record["kind"] == "close"
        if not kinds or record["kind"] in kinds:
            last.append(record)
    for record in last:
        _show(record, as_json)
    while follow and not ended:
        sleep(PERIOD)
        for record in follower.read():
            ended = record["kind"] == "close"
            if not kinds or record["kind"] in kinds:
                _show(record, as_json)
    return DONE


def _show(record: dict[str, Any], as_json: bool) -> None:
    from sexpgpu.loop.progress import line_of

    if as_json:
        output.json_result(record, lines=True)
        return
    try:
        line = line_of(record)
    except (KeyError, TypeError, AttributeError):  # the file was damaged or edited
        line = f"step {record['step']}  {record['kind']}, damaged"
    if line is not None:
        output.result(line)
        output.flush()
