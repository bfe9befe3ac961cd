"""Batches as a pure function of their position: nothing here has a state to save.

Position p of a training loader is its p-th batch since the run began; its epoch, its records and
their order follow from (seed, loader, p) alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sexpgpu.diagnostics.codes import data as codes
from sexpgpu.ir.document import STREAM_START, Stage
from sexpgpu.loop.data.order import Order
from sexpgpu.loop.data.records import Records
from sexpgpu.loop.failure import failure
from sexpgpu.loop.keys import domain


class Streams:
    """Records cut into as many runs as a batch has rows, each one longer where the count does not
    divide: the n-th batch holds the n-th record of every run, the last one those of the longer.
    """

    def __init__(self, count: int, batch: int) -> None:
        self._whole, longer = divmod(count, batch)
        rows = np.arange(batch)
        self._first = rows * self._whole + np.minimum(rows, longer)
        self._longer = longer

    def records(self, place: int) -> np.ndarray:
        """Which records the batch at a place of the epoch holds, int64."""
        first = self._first if place < self._whole else self._first[: self._longer]
        return first + place

    def started(self, place: int) -> np.ndarray:
        """The field `stream-start` of that batch."""
        return np.full(len(self.records(place)), place == 0)


class TrainingBatches:
    """The endless batches of a stage. With `drop_last` each epoch drops its last partial batch,
    else that is filled up from the next epoch."""

    def __init__(self, stage: Stage, loader: str, seed: int) -> None:
        self.records = Records(stage, loader, seed)
        self.batch = stage.batch
        self._drop_last = stage.drop_last
        count = self.records.count
        if count == 0 or (stage.drop_last and count < stage.batch):
            raise failure(
                codes.E_DATA_004,
                f"loader {loader} has {count} records, fewer than one batch of {stage.batch}",
            )
        self._order = Order(count, domain(seed, "data", loader) if stage.shuffle else None)
        self.per_epoch = count // stage.batch  # whole batches of an epoch, with drop_last
        self._streams = Streams(count, stage.batch) if stage.streams else None

    def read(self, position: int) -> dict[str, np.ndarray]:
        """The batch at a position: field -> (batch, *shape)."""
        found = self.records.read(self.record_numbers(position))
        if self._streams is not None:
            found[STREAM_START] = self._streams.started(position % self.per_epoch)
        return found

    def record_numbers(self, position: int) -> np.ndarray:
        """Which records the batch at a position holds, int64 (batch)."""
        if self._drop_last:
            epoch, place = divmod(position, self.per_epoch)
            if self._streams is not None:
                return self._streams.records(place)
            return self._order.records(epoch, place * self.batch, (place + 1) * self.batch)
        return self._order.running(position * self.batch, (position + 1) * self.batch)

    def epoch(self, position: int) -> int:
        """The epoch that the batch at a position begins in (the first is 0)."""
        if self._drop_last:
            return position // self.per_epoch
        return position * self.batch // self.records.count

    def steps_of(self, epochs: int) -> int:
        """How many batches lie in the first `epochs` epochs."""
        if self._drop_last:
            return epochs * self.per_epoch
        return epochs * self.records.count // self.batch

    def close(self) -> None:
        self.records.close()


class EvaluationBatches:
    """Every record once: whole batches, then the remainder as one smaller batch.

    A shuffled loader is read in the order of its first epoch, so that the first `limit` batches
    are a sample of it, the same one each time.
    """

    def __init__(
        self, stage: Stage, loader: str, seed: int, name: str, limit: int | None = None
    ) -> None:
        self.records = Records(stage, loader, seed)
        self.batch = stage.batch
        count = self.records.count
        if count == 0:
            raise failure(codes.E_EVAL_031, f"pass {name}: its loader {loader} has no records")
        if limit is not None:
            count = min(count, limit * stage.batch)
        self.count = count
        self.whole, self.rest = divmod(count, stage.batch)
        self._streams = Streams(self.records.count, stage.batch) if stage.streams else None
        self._order = Order(
            self.records.count, domain(seed, "data", loader) if stage.shuffle else None
        )

    def __len__(self) -> int:
        """How many batches, the remainder included."""
        return self.whole + (self.rest > 0)

    def read(self, index: int) -> dict[str, np.ndarray]:
        """The batch of that index: field -> (batch or remainder, *shape)."""
        if self._streams is not None:
            found = self.records.read(self._streams.records(index))
            return {**found, STREAM_START: self._streams.started(index)}
        start = index * self.batch
        return self.records.read(self._order.records(0, start, min(start + self.batch, self.count)))

    def __iter__(self) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """(place of the first record in the pass, batch) for each batch."""
        for index in range(len(self)):
            yield index * self.batch, self.read(index)

    def close(self) -> None:
        self.records.close()
