"""Where a run stands in the stages of its training loader, and what runs the steps of each.

Between two turns of the curriculum everything about a step follows from its number (`Leg`): so a
resumed run reads the same batches, in the same stages, as one that was never interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from sexpgpu.diagnostics.codes.system import E_CKPT_005
from sexpgpu.ir.document import Document, Stage
from sexpgpu.ir.structure import structure
from sexpgpu.ir.types import TensorType
from sexpgpu.loop.failure import failure
from sexpgpu.loop.step import Step, context_types
from sexpgpu.loop.watching import Watching
from sexpgpu.lowering.backend import Compiled


class Leg(NamedTuple):
    """A stretch of steps in one stage, by its index. Before step `since`, where it begins, the
    stage had given `position` batches, and the run had read `samples` records."""

    stage: int
    since: int
    position: int
    samples: int

    def batch(self, step: int) -> int:
        """Which of the stage's batches is read by the step after so many."""
        return self.position + step - self.since


START = Leg(0, 0, 0, 0)


class Course:
    """The stages of a run: the leg it is on, and how far each of the others has been read."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = stages
        self._read = [0] * len(stages)
        self.leg = START

    @property
    def stage(self) -> str:
        """The name of the stage that the run is in."""
        return self._stages[self.leg.stage].name

    def samples(self, step: int) -> int:
        """How many records the first steps have read."""
        leg = self.leg
        return leg.samples + (step - leg.since) * self._stages[leg.stage].batch

    def turn(self, stage: int, step: int) -> bool:
        """Go on in another stage after that many steps, where it was left; false when the run is
        in that one already."""
        leg = self.leg
        if stage == leg.stage:
            return False
        self._read[leg.stage] = leg.batch(step)
        self.leg = Leg(stage, step, self._read[stage], self.samples(step))
        return True

    def save(self, step: int) -> dict[str, Any]:
        """What a checkpoint keeps: the stage, the step it began at, the records read before that,
        and how many batches each stage has given."""
        read = [*self._read]
        read[self.leg.stage] = self.leg.batch(step)
        return {
            "stage": self.stage,
            "since": self.leg.since,
            "samples": self.leg.samples,
            "batches": {stage.name: n for stage, n in zip(self._stages, read, strict=True)},
        }

    def restore(self, saved: Mapping[str, Any], step: int) -> None:
        """What `save` gave after that many steps. E-CKPT-005 for a stage that is no more."""
        names = [stage.name for stage in self._stages]
        if saved["stage"] not in names:
            raise failure(
                E_CKPT_005,
                f"the checkpoint stands in the stage {saved['stage']}, which the loader has not",
                f"its stages are {' '.join(names)}",
            )
        self._read = [saved["batches"].get(name, 0) for name in names]
        stage = names.index(saved["stage"])
        position = self._read[stage] - (step - saved["since"])
        self.leg = Leg(stage, saved["since"], position, saved["samples"])


class Program:
    """The step of a stage. Stages whose steps are alike share the step and what was `compiled` of
    it: by the steps of a dispatch, 0 for that which takes diagnostics. `coming`: the executable of
    one step, which is being compiled already."""

    __slots__ = ("coming", "compiled", "name", "step", "watching")

    def __init__(
        self,
        name: str,
        step: Step,
        watching: Watching | None,
        compiled: dict[int, Compiled],
    ) -> None:
        self.name = name
        self.step = step
        self.watching = watching
        self.compiled = compiled
        self.coming: Future[Compiled] | None = None


def programs(document: Document) -> list[Program]:
    """One for each stage of the training loader, in order."""
    made: list[Program] = []
    run = document.run
    for stage in document.loader(run.train).stages:
        microbatches = run.microbatches_in(stage)
        step = Step(document, stage.name, microbatches)
        watching: Watching | None = None
        if run.diagnostics is not None:
            watching = Watching(document, stage.name, microbatches)
            watching = None if watching.is_empty else watching
        like = next((p for p in made if _key(p.step, p.watching) == _key(step, watching)), None)
        if like is None:
            made.append(Program(stage.name, step, watching, {}))
        else:
            made.append(Program(stage.name, like.step, like.watching, like.compiled))
    return made


def most_flops(made: Sequence[Program]) -> int:
    """The floating point operations of the dearest step."""
    return max(program.step.flops for program in made)


def context_read(document: Document, made: Sequence[Program]) -> dict[str, TensorType]:
    """The ctx keys that any of the steps reads, with their types: every feed of a run has them."""
    found: dict[str, TensorType] = {}
    for program in made:
        for step in (program.step, program.watching):
            if step is not None:
                found |= context_types(document, step.train)
    return found


def _key(step: Step, watching: Watching | None) -> Any:
    """Equal for steps that compute the same and report it alike."""
    graphs = (step.train, step.weights, None if watching is None else watching.train)
    return (
        tuple(None if graph is None else structure(graph) for graph in graphs),
        (step.microbatches, step.batch, tuple(step.terms), tuple(step.reductions.items())),
    )
