"""Everything that a run has open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sexpgpu.diagnostics.model import Diagnostic
from sexpgpu.ir.document import Document
from sexpgpu.loop.checkpoint import Checkpointer
from sexpgpu.loop.data.loader import TrainingBatches
from sexpgpu.loop.evaluate import Pass
from sexpgpu.loop.events import EventLog
from sexpgpu.loop.moving import Curriculum
from sexpgpu.loop.profiling import Profiling
from sexpgpu.loop.recorder import Recorder
from sexpgpu.loop.schedule import Schedule
from sexpgpu.loop.signals import Requests
from sexpgpu.loop.stages import Program
from sexpgpu.loop.status import Status
from sexpgpu.lowering.backend import Backend


class Parts(NamedTuple):
    """What the trainer drives, and what it tells."""

    document: Document
    backend: Backend
    programs: list[Program]  # one for each stage of the training loader
    batches: list[TrainingBatches]  # likewise
    curriculum: Curriculum | None
    passes: list[Pass]
    schedule: Schedule
    recorder: Recorder
    events: EventLog
    status: Status
    requests: Requests
    checkpointer: Checkpointer
    lock_lost: Callable[[], bool]
    tick: Callable[[int, int, Mapping[str, Any]], None]
    target_warnings: Callable[[], list[Diagnostic]]
    profiling: Profiling | None = None
