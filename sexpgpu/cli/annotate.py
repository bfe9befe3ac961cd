"""`sexpgpu annotate`: an annotation event in a run, running or not."""

from __future__ import annotations

import click

from sexpgpu.cli import output
from sexpgpu.cli.faults import DONE
from sexpgpu.cli.options import PATH, json_flag


@click.command("annotate")
@click.argument("run", metavar="RUN", type=PATH)
@click.argument("text", metavar="TEXT")
@click.option(
    "--step", type=click.IntRange(0), metavar="N", help="The step it is about (default: the last)."
)
@json_flag
def command(run: str, text: str, step: int | None, as_json: bool) -> int:
    """Add TEXT to the events of RUN. It stays when a resume cuts the events after a checkpoint."""
    from sexpgpu.loop.events import annotate

    record = annotate(run, text, step)
    if as_json:
        output.json_result(record)
    else:
        output.result(f"step {record['step']}  {text}")
    return DONE
