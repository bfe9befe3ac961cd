"""When the finite guard has stopped a run: save the state before the bad step, find the first
non-finite number, and say how to see it again.
"""

from __future__ import annotations

import os
import shlex

import numpy as np

from sexpgpu.diagnostics.codes import run as codes
from sexpgpu.diagnostics.model import Diagnostic, Note, SxError
from sexpgpu.loop import checkpoint, diagnose, directory
from sexpgpu.loop.initial import flattened
from sexpgpu.loop.reports import NonFiniteError
from sexpgpu.loop.train import Trainer


def non_finite(trainer: Trainer, found: NonFiniteError, run_directory: str) -> SxError:
    """E-RUN-031 (`:finite :abort`) or -032 (`:skip`), once the bad-marked checkpoint is whole."""
    parts, run, step = trainer.parts, trainer.parts.document.run, found.step
    before = {
        **parts.backend.get(trainer.state),
        "step": np.asarray(step, np.int32),
        "bad": np.asarray(0, np.int32),
        "halted": np.asarray(False),
    }
    trainer.state, trainer.step = before, step
    parts.checkpointer.wait()
    tensors = flattened(before) | trainer.other_tensors()
    parts.checkpointer.save(step, lambda: tensors, trainer.meta(step), bad=True)
    parts.checkpointer.wait()
    trainer.announce_saved()
    feed = trainer.feeder(step).one(step)
    batches, batch = trainer.batches, trainer.course.leg.batch(step)
    culprit = diagnose.find(trainer.program.step, before, feed, trainer.host_constants)
    loss, norm = float(found.values["loss"]), float(found.values["grad-norm"])
    what = f"the loss is {loss}" if not np.isfinite(loss) else f"the gradient norm is {norm}"
    numbers = batches.record_numbers(batch)
    stage = f", stage {trainer.course.stage}" if len(parts.programs) > 1 else ""
    some = " ".join(map(str, numbers[:8])) + (" …" if len(numbers) > 8 else "")
    bad = os.path.join(run_directory, checkpoint.FOLDER, f"bad-{step}")
    diagnostic = Diagnostic(
        codes.E_RUN_032 if run.finite == "skip" else codes.E_RUN_031,
        f"step {step}: {what}",
        (),
        [
            Note(
                f"batch {batch} of loader {run.train}{stage}, epoch {batches.epoch(batch)}, "
                f"records {some}"
            ),
            Note(f"the state before the step is kept in {bad}"),
            Note(f"to see it again: {_reproduction(run_directory, bad, step)}"),
        ],
    )
    return SxError(diagnose.explained(diagnostic, culprit))


def _reproduction(run_directory: str, bad: str, step: int) -> str:
    """The one command that does the step again, in a run directory of its own."""
    words = [
        "sexpgpu", "run", os.path.join(run_directory, directory.IR_FILE), "--resume", bad,
        "--runs", os.path.dirname(run_directory) or ".",
        "--slug", f"{os.path.basename(run_directory)[:150]}-bad-{step}", "--fresh",
        "--device", "interp",
    ]  # fmt: skip
    return shlex.join(words)
