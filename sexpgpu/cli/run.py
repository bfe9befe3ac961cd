"""`sexpgpu run`: compile a file and train. Loads the loop only when there is something to run."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import click

from sexpgpu.cli import output
from sexpgpu.cli.options import PATH, device_flag, limit_flag, pairs, selection_flags
from sexpgpu.loop.failure import STOPPED

UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}


def seconds_of(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> float | None:
    """A length of time in seconds: `3h55m`, `90s`, `1.5h`, `3:55:00` or `10:30` (hours, minutes,
    seconds, as schedulers write them), or a plain number of seconds."""
    if value is None:
        return None
    text = value.strip().lower()
    if re.fullmatch(r"\d+(:[0-5]?\d){1,2}", text):
        seconds = 0.0
        for part in text.split(":"):
            seconds = seconds * 60 + int(part)
        return seconds
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parts: list[tuple[str, str]] = re.findall(r"(\d+(?:\.\d+)?)([dhms])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise click.BadParameter(
            f"{value!r} is no length of time; write 3h55m, 90s or 3:55:00", context, parameter
        )
    return sum(float(number) * UNITS[unit] for number, unit in parts)


def _stop(*_: object) -> None:
    sys.exit(STOPPED)


@contextmanager
def _stopped_before_it_runs() -> Generator[None]:
    """SIGTERM while the file is compiled and the loop is loaded: the exit status of a run that was
    stopped, which has nothing to save yet. The run then listens for itself."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@click.command("run")
@click.argument("file", metavar="FILE", type=PATH)
@selection_flags
@device_flag("Where to train. auto: cuda where there is one, else cpu.")
@click.option("--steps", type=click.IntRange(1), metavar="N", help="Steps in place of defrun's.")
@click.option(
    "--runs",
    metavar="DIR",
    type=PATH,
    envvar="SEXPGPU_RUNS",
    default="runs",
    show_default=True,
    help="Where run directories go. [SEXPGPU_RUNS]",
)
@click.option("--slug", metavar="NAME", help="The run directory's name in place of the made one.")
@click.option(
    "--resume",
    metavar="latest|STEP|PATH",
    type=PATH,
    help="Go on from a checkpoint. latest: start at 0 when there is none yet.",
)
@click.option(
    "--init-from",
    metavar="PATH",
    type=PATH,
    help="Begin with the weights of a run, a checkpoint (RUN@STEP), a .safetensors or .npz file.",
)
@click.option(
    "--init-map",
    "init_maps",
    multiple=True,
    metavar="FROM=TO",
    callback=pairs,
    help="What a name there is called here; `*` is a part of a name; FROM= leaves it out. "
    "Repeatable.",
)
@click.option(
    "--init-missing",
    multiple=True,
    metavar="GLOB",
    help="Parameters that may be missing there. Repeatable.",
)
@click.option(
    "--init-extra",
    multiple=True,
    metavar="GLOB",
    help="Names there to leave out. Repeatable.",
)
@click.option("--fresh", is_flag=True, help="Remove a run directory that is there, and start over.")
@click.option(
    "--allow-change",
    is_flag=True,
    help="Resume though the experiment differs, where every parameter keeps its shape.",
)
@click.option(
    "--time-limit",
    callback=seconds_of,
    metavar="TIME",
    help="Stop, checkpointed, before this time is over: 3h55m.",
)
@click.option(
    "--fast-nondeterministic",
    is_flag=True,
    help="On CUDA, allow kernels whose results differ from run to run.",
)
@click.option(
    "--diagnostics",
    multiple=True,
    metavar="GLOB",
    help="Take these diagnostics: 'act/**'. Repeatable. `explain FILE --diagnostics` lists them.",
)
@click.option(
    "--diagnostics-every",
    type=click.IntRange(1),
    metavar="N",
    help="At each N-th step (default: each that is reported).",
)
@click.option(
    "--log",
    multiple=True,
    metavar="TARGET",
    envvar="SEXPGPU_LOG",
    help="Numbers also go to csv[:FILE], tensorboard[:DIR], wandb[:PROJECT], mlflow[:URI]. "
    "Repeatable. [SEXPGPU_LOG]",
)
@click.option(
    "--peak-flops",
    type=float,
    metavar="N",
    help="FLOPs a second that the device can do, for train/mfu; known for most GPUs.",
)
@click.option(
    "--profile",
    metavar="DIR",
    type=PATH,
    help="Write a profile of ten steps after the first into DIR, for TensorBoard or XProf.",
)
@click.option("--json", "as_json", is_flag=True, help="Events as JSON lines on stdout.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
@limit_flag
@click.pass_context
def command(
    context: click.Context,
    file: str,
    variants: tuple[str, ...],
    knobs: dict[str, str],
    device: str,
    steps: int | None,
    runs: str,
    slug: str | None,
    resume: str | None,
    init_from: str | None,
    init_maps: dict[str, str],
    init_missing: tuple[str, ...],
    init_extra: tuple[str, ...],
    fresh: bool,
    allow_change: bool,
    time_limit: float | None,
    fast_nondeterministic: bool,
    diagnostics: tuple[str, ...],
    diagnostics_every: int | None,
    log: tuple[str, ...],
    peak_flops: float | None,
    profile: str | None,
    as_json: bool,
    quiet: bool,
    limits: dict[str, str],
) -> int:
    """Compile FILE, a run file or an IR document, and train. Events go to RUNS/SLUG/events.jsonl,
    progress to stderr.

    SIGTERM or control-C finishes the step, saves a checkpoint and exits 75; a second one stops at
    once. Exit 3 when the run failed, 4 when numbers were not finite, 5 when this machine cannot."""
    from sexpgpu.lowering.memory import training_environment

    context.with_resource(_stopped_before_it_runs())
    if context.obj is not None:
        again = training_environment(device)
        if again is not None:
            sys.stdout.flush()
            os.execve(sys.executable, sys.orig_argv, again)
    from sexpgpu.cli.inputs import document_input
    from sexpgpu.ir.document import Diagnostics
    from sexpgpu.ir.document_json import document_hash, document_text

    chosen = None
    if diagnostics:
        chosen = Diagnostics(select=list(diagnostics), every=diagnostics_every or 1)
    elif diagnostics_every is not None:
        raise click.UsageError("--diagnostics-every goes with --diagnostics")
    document, warnings = document_input(file, variants, knobs, limits, diagnostics=chosen)
    if chosen is not None and diagnostics_every is None and document.run.diagnostics is not None:
        document.run.diagnostics.every = document.run.log_every
    output.show(warnings)
    if init_from is not None:
        from sexpgpu.loop.weights import begun_with

        document = begun_with(document, init_from, init_maps, init_missing, init_extra)
    elif init_maps or init_missing or init_extra:
        raise click.UsageError("--init-map, --init-missing and --init-extra go with --init-from")
    from sexpgpu.loop.run import RunOptions, execute

    gc.freeze()  # what the compiler made lives to the end
    gc.set_threshold(100_000, 20, 50)  # jax and its traces live long, too
    gc.enable()
    heard: set[str] = set()

    def hear(event: dict[str, Any]) -> None:
        heard.add(event["kind"])
        try:
            output.json_result(event, lines=True)
        except BrokenPipeError:
            output.let_go()  # nobody reads any more: no reason to stop training

    options = RunOptions(
        device=device,
        steps=steps,
        runs=runs,
        slug=slug,
        resume=resume,
        fresh=fresh,
        allow_change=allow_change,
        time_limit=time_limit,
        quiet=quiet,
        on_event=hear if as_json else None,
        deterministic=not fast_nondeterministic,
        log=log,
        peak_flops=peak_flops,
        profile=profile,
    )
    result = execute(
        document, options, ir_text=document_text(document), ir_hash=document_hash(document)
    )
    errors = [d for d in result.diagnostics if d.severity == "error"]
    if as_json and errors and "close" not in heard:
        output.fault_object(errors)
    elif as_json and not heard:  # it was finished before, or stopped before it went on
        about = {"directory": result.directory, "step": result.step, "summary": result.summary}
        output.json_result({"kind": result.state, **about}, lines=True)
    output.show(errors)
    if not as_json and result.directory is not None and os.path.isdir(result.directory):
        output.result(result.directory)
    if result.abandoned:
        # A compilation that nobody waits for any more would hold the exit back.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(result.exit_status)
    return result.exit_status
