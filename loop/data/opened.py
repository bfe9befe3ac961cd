"""The data of a run, opened: readers for each stage of its training loader and for each pass."""

from __future__ import annotations

from typing import Any

from sexpgpu.ir.document import Document, Evaluation
from sexpgpu.loop.data.loader import EvaluationBatches, TrainingBatches


def evaluation_batches(document: Document, evaluation: Evaluation) -> EvaluationBatches:
    """The batches of a pass. Raises E-DATA-…, E-STORE-…, E-EVAL-031."""
    stage = document.loader(evaluation.loader).stages[0]
    name, limit = evaluation.name, evaluation.batches
    return EvaluationBatches(stage, evaluation.loader, document.run.seed, name, limit)


class Opened:
    """What `open` has opened so far: `training`, a reader for each stage, and `passes` by name."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.training: list[TrainingBatches] = []
        self.passes: dict[str, EvaluationBatches] = {}

    def open(self) -> None:
        """Open everything, in the order it is first read."""
        document, run = self._document, self._document.run
        for stage in document.loader(run.train).stages:
            self.training.append(TrainingBatches(stage, run.train, run.seed))
        known = {evaluation.name: evaluation for evaluation in document.evaluations}
        for name in run.evaluations:
            self.passes[name] = evaluation_batches(document, known[name])

    def steps_of(self, epochs: int) -> int:
        """How many batches of the first stage lie in that many epochs."""
        return self.training[0].steps_of(epochs)

    def files(self) -> dict[str, dict[str, list[dict[str, Any]]]]:
        """Which files are read, as `identity.Data`; of loaders that read any."""
        document, found = self._document, dict[str, dict[str, list[dict[str, Any]]]]()
        read: list[tuple[str, int, TrainingBatches | EvaluationBatches]] = [
            (document.run.train, i, batches) for i, batches in enumerate(self.training)
        ]
        loaders = {evaluation.name: evaluation.loader for evaluation in document.evaluations}
        read += [(loaders[name], 0, batches) for name, batches in self.passes.items()]
        for loader, index, batches in read:
            if batches.records.files:
                stage = document.loader(loader).stages[index].name
                told = [file.to_json() for file in batches.records.files]
                found.setdefault(loader, {})[stage] = told
        return found

    def close(self) -> None:
        for batches in (*self.training, *self.passes.values()):
            batches.close()
