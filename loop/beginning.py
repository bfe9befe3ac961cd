"""The state that a run begins with: that of step 0, or of a checkpoint, checked against the
document; and what a run that is cut short to the very step of its checkpoint has still to do there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sexpgpu.diagnostics.codes.run import E_RUN_033
from sexpgpu.diagnostics.model import Diagnostic
from sexpgpu.ir.document import CURRICULUM, Document
from sexpgpu.loop import checkpoint, resume
from sexpgpu.loop.evaluate import Pass
from sexpgpu.loop.events import check_mark
from sexpgpu.loop.failure import failure
from sexpgpu.loop.initial import flattened, initial_state, unflattened
from sexpgpu.loop.moving import Curriculum
from sexpgpu.loop.planned import state_types
from sexpgpu.loop.statistics import wanted as wanted_statistics
from sexpgpu.loop.step import StepState
from sexpgpu.loop.train import Trainer
from sexpgpu.loop.weights import initialized
from sexpgpu.lowering.interp.dtypes import types_of


class Beginning(NamedTuple):
    """state       parameters, buffers, optimizer states, counters (see `step.py`)
    constants   statistics; at step 0 they are still to be taken
    meta        what the checkpoint holds besides tensors, None at step 0
    lessons     the tensors of the curriculum, none at step 0
    taken_from  what :init-from gave and whence, at step 0
    changed     the warning that the experiment is not the checkpoint's, if it is not
    """

    state: StepState
    constants: dict[str, np.ndarray]
    meta: dict[str, Any] | None = None
    lessons: Mapping[str, np.ndarray] = {}
    taken_from: Mapping[str, Any] | None = None
    changed: Diagnostic | None = None


def begin(
    document: Document,
    start: resume.Start,
    experiment: Mapping[str, Any],
    curriculum: Curriculum | None,
    allow_change: bool,
) -> Beginning:
    """The state of step 0, or of the checkpoint to go on from. `experiment`: what is to be run,
    as `resume.described`. Raises E-CKPT-…, and E-RUN-033 for fewer steps than are done."""
    if start.path is None:
        state, taken_from = initialized(document, initial_state(document))
        return Beginning(state, {}, taken_from=taken_from)
    tensors, meta = checkpoint.load(start.path)
    if not start.foreign:
        check_mark(start.directory, meta["events"])
    changed = resume.check_experiment(meta, experiment, allow_change)
    steps = experiment["run"]["steps"]
    if meta["step"] > steps:
        raise failure(
            E_RUN_033,
            f"{steps} steps are asked for, and checkpoint {start.path} has {meta['step']} done",
            fix="resume from an earlier checkpoint, or ask for more steps",
        )
    state = state_types(document)
    kept = {} if curriculum is None else curriculum.tensors()
    wanted = flattened(state) | wanted_statistics(document) | types_of(kept)
    resume.check_tensors(types_of(tensors), wanted, start.path)
    constants = {n: a for n, a in tensors.items() if n.startswith("statistic/")}
    lessons = {n: a for n, a in tensors.items() if n.startswith(f"{CURRICULUM}/")}
    if start.foreign:  # its best, and the time it took, are another run's
        meta |= {"best": None, "stop": None, "wall": 0.0}
    return Beginning(unflattened(tensors, state), constants, meta, lessons, changed=changed)


def passes_due(meta: Mapping[str, Any], passes: Sequence[Pass], steps: int) -> list[str]:
    """The passes that are to run before the first step: those that a stop kept from running, and
    those that run at the end, where a run of other steps, whose end this was not, is to end."""
    step, before = meta["step"], meta["experiment"]["run"]["steps"]
    return [
        one.name
        for one in passes
        if one.name in meta["due"]
        or (step == steps != before and one.due(step, steps) and not one.due(step, before))
    ]


def tell_last_interval(trainer: Trainer) -> None:
    """The `train` event of what was measured since the last one, where the run ends at the step it
    begins at: a run of so many steps has it."""
    recorder, counters = trainer.parts.recorder, trainer.counters()
    if trainer.step < trainer.parts.schedule.steps or not recorder.pending:
        return
    recorder.begin(counters)
    trainer.reports.tell(trainer.program, trainer.step, counters, 0.0)
