"""Batches are a pure function of position; evaluation sees every record once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loop_documents import columns, inline, stage

from sexpgpu.diagnostics.model import SxError
from sexpgpu.loop.data.loader import EvaluationBatches, TrainingBatches


def training(count: int, batch: int, **changes: bool) -> TrainingBatches:
    return TrainingBatches(stage(inline(columns(count)), batch, **changes), "train", 5)


@given(st.integers(1, 60), st.integers(1, 60))
def test_epochs_with_drop_last(count: int, batch: int) -> None:
    if batch > count:
        return
    batches = training(count, batch)
    for epoch in range(2):
        first = epoch * batches.per_epoch
        seen = [
            int(n) for p in range(first, first + batches.per_epoch)
            for n in batches.record_numbers(p)
        ]  # fmt: skip
        assert len(seen) == len(set(seen)) == count // batch * batch
        assert {batches.epoch(p) for p in range(first, first + batches.per_epoch)} == {epoch}
    assert batches.steps_of(3) == 3 * batches.per_epoch


@given(st.integers(1, 40), st.integers(1, 50))
def test_carrying_over_uses_every_record_of_every_epoch(count: int, batch: int) -> None:
    batches = training(count, batch, drop_last=False)
    seen = np.concatenate([batches.record_numbers(p) for p in range(2 * count)])
    for epoch in range(2 * batch):
        part = seen[epoch * count : (epoch + 1) * count]
        assert sorted(part.tolist()) == list(range(count))
    assert batches.epoch(0) == 0
    assert batches.steps_of(batch) == count


def test_a_batch_is_the_same_however_it_is_reached() -> None:
    one, other = training(50, 8), training(50, 8)
    for position in (3, 0, 17, 3):
        a = one.read(position)
    assert all(np.array_equal(a[name], other.read(3)[name]) for name in a)


def test_not_shuffled_is_the_order_of_the_files() -> None:
    batches = training(10, 4, shuffle=False)
    assert batches.record_numbers(1).tolist() == [4, 5, 6, 7]
    assert batches.record_numbers(2).tolist() == [0, 1, 2, 3]


def test_fewer_records_than_a_batch() -> None:
    with pytest.raises(SxError) as caught:
        training(3, 4)
    assert caught.value.diagnostics[0].code.id == "E-DATA-004"
    assert training(3, 4, drop_last=False).record_numbers(0).shape == (4,)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(
    "count, batch, limit", [(21, 4, None), (8, 4, None), (3, 4, None), (21, 4, 3)]
)
def test_evaluation(count: int, batch: int, limit: int | None, shuffle: bool) -> None:
    arrays = columns(count)
    given = stage(inline(arrays), batch, shuffle=shuffle)
    batches = EvaluationBatches(given, "valid", 5, "valid", limit)
    seen = []
    for place, read in batches:
        assert place == len(seen)
        seen.extend(read["x"][:, 0].tolist())
    wanted = min(count, limit * batch) if limit else count
    assert len(seen) == batches.count == wanted
    assert len(set(seen)) == wanted
    if limit is None:
        assert sorted(seen) == sorted(arrays["x"][:, 0].tolist())


def test_no_records() -> None:
    with pytest.raises(SxError) as caught:
        EvaluationBatches(stage(inline(columns(0)), 4), "valid", 5, "valid")
    assert caught.value.diagnostics[0].code.id == "E-EVAL-031"
