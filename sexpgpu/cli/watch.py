"""`sexpgpu watch`: check again on every save of a file or anything it requires."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import click

from sexpgpu.cli import output
from sexpgpu.cli.inputs import compile_input
from sexpgpu.cli.options import PATH, json_flag, limit_flag, selection_flags
from sexpgpu.diagnostics import render
from sexpgpu.diagnostics.model import Diagnostic, SxError

PAUSE = 0.01
"""Seconds between two looks at the files: a look costs microseconds."""

Seen = dict[str, tuple[int, int] | None]


@click.command("watch")
@click.argument("file", metavar="FILE", type=PATH)
@selection_flags
@json_flag
@limit_flag
def command(
    file: str,
    variants: tuple[str, ...],
    knobs: dict[str, str],
    as_json: bool,
    limits: dict[str, str],
) -> int:
    """Check FILE now, and again whenever it, a module it requires or a data file it reads is saved,
    until interrupted. With --json a line for each check: {"file", "seconds", "errors", "warnings",
    "diagnostics"}."""
    if file == "-":
        raise click.UsageError("standard input cannot be watched")

    def check() -> tuple[list[Diagnostic], list[str]]:
        return check_once(file, variants, knobs, limits)

    watch(check, lambda found, seconds: show(file, as_json, found, seconds))
    return 0


def check_once(
    file: str, variants: Sequence[str], knobs: dict[str, str], limits: dict[str, str]
) -> tuple[list[Diagnostic], list[str]]:
    """The diagnostics of a file, and the files that they depend on."""
    try:
        compiled = compile_input(file, variants, knobs, limits)
    except SxError as error:
        return error.diagnostics, [file]
    paths = [source.path for source in compiled.session.sources if not source.standard]
    if compiled.assembly is not None:
        for form in compiled.assembly.experiment.loaders.values():
            for stage in form.loader.stages:
                named: Any = stage.source.get("path") or []
                several: list[str] = [named] if isinstance(named, str) else list(named)
                paths += [os.path.join(stage.base, path) for path in several]
    return compiled.diagnostics, [file, *filter(None, paths)]


def watch(
    check: Callable[[], tuple[list[Diagnostic], list[str]]],
    tell: Callable[[list[Diagnostic], float], None],
    times: int | None = None,
) -> None:
    """Check, tell, wait for a change, and again, `times` times (None: without end)."""
    before: Seen = {}
    while True:
        began = time.perf_counter()
        found, paths = check()
        seconds = time.perf_counter() - began
        # What was saved while the check ran counts as a change: stamps from before it are kept.
        seen = {**stamps(paths), **{path: before[path] for path in paths if path in before}}
        tell(found, seconds)
        gc.collect()  # which the command line turns off: what the check left behind
        if times is not None and (times := times - 1) == 0:
            return
        while (now := stamps(paths)) == seen:
            time.sleep(PAUSE)
        before = now


def stamps(paths: Sequence[str]) -> Seen:
    """When each file was changed and how long it is; None for one that is not there."""
    found: Seen = {}
    for path in paths:
        try:
            status = os.stat(path)
            found[path] = (status.st_mtime_ns, status.st_size)
        except OSError:
            found[path] = None
    return found


def show(file: str, as_json: bool, found: list[Diagnostic], seconds: float) -> None:
    """One check's result: a JSON line, or the diagnostics and a line that sums them up."""
    if as_json:
        output.json_result(
            {
                "file": file,
                "seconds": round(seconds, 4),
                "errors": sum(d.severity == "error" for d in found),
                "warnings": sum(d.severity == "warning" for d in found),
                "diagnostics": [render.to_json(d) for d in found],
            },
            lines=True,
        )
        return
    output.show(found)
    clock = time.strftime("%H:%M:%S")
    output.say(f"{clock}  {file}: {render.summary(found)} ({seconds * 1e3:.0f} ms)")
