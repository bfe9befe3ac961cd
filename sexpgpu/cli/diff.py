"""`sexpgpu diff`: what differs in meaning between two files, selections, documents or runs."""

from __future__ import annotations

from typing import Any

import click

from sexpgpu.cli import output
from sexpgpu.cli.inputs import document_input
from sexpgpu.cli.options import PATH, json_flag, limit_flag, selection_flags

SECOND = "sexpgpu.diff.second"
SHARED = ("--json", "--exit-code", "--help", "-h")
"""Flags of the whole command, wherever they stand."""


class Sides(click.Command):
    """What stands behind `--` is a file and a selection of its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            shared = [word for word in args[at + 1 :] if word in SHARED]
            behind = [word for word in args[at + 1 :] if word not in SHARED]
            ctx.meta[SECOND] = _second.make_context("--", behind, parent=ctx).params
            args = [*args[:at], *shared]
        return super().parse_args(ctx, args)


@click.command("B")
@click.argument("file", metavar="[B]", type=PATH, required=False)
@selection_flags
def _second(file: str | None, variants: tuple[str, ...], knobs: dict[str, str]) -> None:
    """The second side."""


@click.command("diff", cls=Sides)
@click.argument("files", metavar="A [B]", type=PATH, nargs=-1, required=True)
@selection_flags
@json_flag
@click.option("--exit-code", is_flag=True, help="Exit 1 when they differ.")
@limit_flag
@click.pass_context
def command(
    context: click.Context,
    files: tuple[str, ...],
    variants: tuple[str, ...],
    knobs: dict[str, str],
    as_json: bool,
    exit_code: bool,
    limits: dict[str, str],
) -> int:
    """What differs in meaning between A and B: knobs, run, loaders, parameters, optimizer,
    evaluations, graphs by model path. Layout and names of variables do not count. Each is a run
    file, an IR document, a run directory or a checkpoint.

    \b
    sexpgpu diff old.sx new.sx
    sexpgpu diff digits.sx runs/digits-1f0c22aa
    sexpgpu diff digits.sx -- --variant wide         one file, two selections
    sexpgpu diff digits.sx --set lr=1e-3 -- other.sx --set width=64

    Flags before `--` choose A's selection, those behind it B's; without `--` they hold for both.
    """
    second: dict[str, Any] | None = context.meta.get(SECOND)
    wanted = 1 if second is not None else 2
    if len(files) != wanted:
        told = "one file before `--`" if second is not None else "two, A and B"
        raise click.UsageError(f"{len(files)} files are named; diff takes {told}")
    if second is None:
        b, b_variants, b_knobs = files[1], variants, knobs
    else:
        b, b_variants, b_knobs = second["file"] or files[0], second["variants"], second["knobs"]
    from sexpgpu.explain.difference import difference
    from sexpgpu.explain.difference_text import difference_text

    one, _ = _document(files[0], variants, knobs, limits, second is None)
    other, _ = _document(b, b_variants, b_knobs, limits, second is None)
    data = difference(one, other)
    if as_json:
        output.json_result({"a": files[0], "b": b, **data})
    else:
        output.result(difference_text(data, files[0], b))
    return 1 if exit_code and not data["same"] else 0


def _document(
    file: str,
    variants: tuple[str, ...],
    knobs: dict[str, str],
    limits: dict[str, str],
    shared: bool,
) -> Any:
    """The document of one side. A selection given for both does not concern a run, which has made
    its own."""
    from sexpgpu.cli.inputs import document_of_run

    if shared and document_of_run(file) is not None:
        variants, knobs = (), {}
    return document_input(file, variants, knobs, limits)
