"""`execute`: a document becomes a run. Opens every part, trains, and closes with the truth about
how it ended, in the status, in the events and in the result.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from sexpgpu.diagnostics.codes import run as codes
from sexpgpu.diagnostics.model import Diagnostic, SxError
from sexpgpu.ir.document import Document
from sexpgpu.loop.failure import device_failure, exit_status, failure, system_failure


class RunOptions:
    """What a person may say of a run beside its file.

    device       auto, cpu, cuda or interp
    steps        steps in place of defrun's :steps or :epochs
    runs, slug   where: RUNS/SLUG/; the slug is made of the selection when None
    resume       None, "latest", a step, or a path;  fresh: remove a run that is there first (with
                 the path of another run's checkpoint, the run begins from that)
    allow_change resume under a document that differs from the checkpoint's
    time_limit   seconds after which to stop, checkpointed
    quiet        no progress on stderr;  stream: elsewhere than stderr
    on_event     called with each event record
    handle_signals  SIGTERM, SIGINT, SIGHUP and SIGUSR1 act on the run (main thread only)
    deterministic   only kernels that give the same bits in every run (cuda)
    log             targets besides the events: csv[:FILE], tensorboard[:DIR], wandb, mlflow
    profile      a directory for a profile of ten steps after the first
    peak_flops      FLOPs a second that the device can do, for train/mfu, where that is not known
    """

    __slots__ = (
        "allow_change",
        "deterministic",
        "device",
        "fresh",
        "handle_signals",
        "log",
        "on_event",
        "peak_flops",
        "profile",
        "quiet",
        "resume",
        "runs",
        "slug",
        "steps",
        "stream",
        "time_limit",
    )  # fmt: skip

    def __init__(
        self,
        *,
        device: str = "auto",
        steps: int | None = None,
        runs: str | os.PathLike[str] = "runs",
        slug: str | None = None,
        resume: str | None = None,
        fresh: bool = False,
        allow_change: bool = False,
        time_limit: float | None = None,
        quiet: bool = False,
        stream: TextIO | None = None,
        on_event: Callable[[dict[str, Any]], None] | None = None,
        handle_signals: bool = True,
        deterministic: bool = True,
        log: Sequence[str] = (),
        peak_flops: float | None = None,
        profile: str | None = None,
    ) -> None:
        self.device = device
        self.steps = steps
        self.runs = os.fspath(runs) if isinstance(runs, os.PathLike) else runs
        self.slug = slug
        self.resume = resume
        self.fresh = fresh
        self.allow_change = allow_change
        self.time_limit = time_limit
        self.quiet = quiet
        self.stream = stream
        self.on_event = on_event
        self.handle_signals = handle_signals
        self.deterministic = deterministic
        self.log = tuple(log) if isinstance(log, list) else log
        self.peak_flops = peak_flops
        self.profile = profile


class RunResult:
    """How a run ended.

    exit_status   as docs/cli.md lists: 0 done, 3 failed, 4 non-finite, 5 machine, 75 stopped
    state         finished, stopped or failed
    directory     the run directory; None when it was not opened
    step          steps done
    summary       final and best metrics, totals, wall time (status.json has the same)
    parameters    {path: NumPy array}, as they stand
    model         what predictions use: `param/PATH` (averaged, where the optimizer averages) and
                  `buffer/PATH`
    diagnostics   what stopped it, and warnings
    abandoned     a compilation goes on in a thread: leave by `os._exit` once all is written
    """

    __slots__ = (
        "abandoned", "diagnostics", "directory", "exit_status", "model", "parameters", "state",
        "step", "summary",
    )  # fmt: skip

    def __init__(self) -> None:
        self.exit_status = 0
        self.state = "failed"
        self.directory: str | None = None
        self.step = 0
        self.summary: Mapping[str, Any] = {}
        self.parameters: dict[str, Any] = {}
        self.model: dict[str, Any] = {}
        self.diagnostics: list[Diagnostic] = []
        self.abandoned = False


def execute(document: Document, options: RunOptions, *, ir_text: str, ir_hash: str) -> RunResult:
    """Train `document` as `options` say. `ir_text` is its canonical JSON, `ir_hash` its hash in
    hex (both of `sexpgpu.ir.serial`).

    What stops a run is in the result, never raised, but for faults of the product itself: those
    are recorded in status and events first.
    """
    from sexpgpu.loop.session import Session

    result = RunResult()
    try:
        _check(options)
    except SxError as error:
        return _failed(result, error)
    session = Session(document, options, result, ir_text, ir_hash)
    with session.listening():
        try:
            session.train()
        except SxError as error:
            _failed(result, error)
        except OSError as error:
            _failed(result, system_failure(error))
        except (RuntimeError, MemoryError) as error:
            found = device_failure(error)
            if found is None:
                raise
            _failed(result, found)
        finally:
            session.close(sys.exc_info()[1])
    return result


def _failed(result: RunResult, error: SxError) -> RunResult:
    result.state = "failed"
    result.exit_status = exit_status(error)
    result.diagnostics[:0] = error.diagnostics
    return result


_NONE = type(None)
_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    "steps": ((int, _NONE), "a number of steps"),
    "runs": ((str,), "a folder"),
    "slug": ((str, _NONE), "a text"),
    "device": ((str,), "a text"),
    "resume": ((str, _NONE), "latest, a step, or a path"),
    "fresh": ((bool,), "True or False"),
    "allow_change": ((bool,), "True or False"),
    "quiet": ((bool,), "True or False"),
    "time_limit": ((int, float, _NONE), "seconds"),
    "peak_flops": ((int, float, _NONE), "FLOPs a second"),
    "log": ((tuple, list), "a list of texts"),
}  # fmt: skip


def _check(options: RunOptions) -> None:
    """E-RUN-033 for options that make no sense, or are of a type that none has."""
    for name, (types, wanted) in _TYPES.items():
        value = getattr(options, name)
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise failure(codes.E_RUN_033, f"{name} takes {wanted}, not {value!r}")
    if not all(isinstance(spec, str) for spec in options.log):
        raise failure(codes.E_RUN_033, f"log takes a list of texts, not {list(options.log)!r}")
    if options.on_event is not None and not callable(options.on_event):
        raise failure(codes.E_RUN_033, f"on_event takes a function, not {options.on_event!r}")
    if options.steps is not None and options.steps < 1:
        raise failure(
            codes.E_RUN_033,
            f"{options.steps} steps cannot be run",
            fix="give a positive number of steps",
        )
    if options.resume == "":  # of a variable that a script has not set
        raise failure(
            codes.E_RUN_033,
            "the run is to be resumed from an empty name",
            fix="name latest, a step, or a path",
        )
    if options.time_limit is not None and options.time_limit <= 0:
        raise failure(codes.E_RUN_033, f"a time limit of {options.time_limit:g} s is no time")
    if "://" in options.runs or not options.runs:
        raise failure(
            codes.E_RUN_033,
            f"runs cannot be kept at {options.runs!r}: run directories are local folders"
            if options.runs
            else "the folder of runs has an empty name",
            fix="give a local folder, such as runs",
        )
    if options.peak_flops is not None and not 0 < options.peak_flops < float("inf"):
        raise failure(codes.E_RUN_033, f"a peak of {options.peak_flops:g} FLOPs a second is none")
    for spec in options.log:
        from sexpgpu.loop.targets.target import parsed

        parsed(spec)
    if options.slug is not None:
        from sexpgpu.loop.directory import checked_slug

        checked_slug(options.slug)
