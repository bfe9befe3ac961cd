"""Steps in one dispatch: aligned, and never across an event."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st
from loop_documents import make

from sexpgpu.loop.schedule import Schedule


@given(st.integers(1, 80), st.integers(1, 9), st.integers(1, 13), st.integers(1, 13))
def test_groups(steps: int, together: int, save_every: int, eval_every: int) -> None:
    one = SimpleNamespace(name="v", due=lambda step, _: step % eval_every == 0)
    schedule = Schedule(make(every=save_every), [one], steps, together)
    step, starts = 0, []
    while step < steps:
        k = schedule.dispatch(step)
        starts.append(step)
        assert k in (1, together)
        for inner in range(step + 1, step + k):
            assert not schedule.saves(inner)
            assert not schedule.due_passes(inner)
        step += k
    assert step == steps
    # from wherever a run is resumed, the groups are the same
    for start in starts:
        assert schedule.dispatch(start) == next(
            (b - a for a, b in zip(starts, [*starts[1:], steps], strict=True) if a == start)
        )


def test_the_last_step_is_saved() -> None:
    schedule = Schedule(make(every=100), [], 1050, 1)
    assert [s for s in range(1051) if schedule.saves(s)] == [*range(100, 1001, 100), 1050]
    assert [s for s in range(8) if Schedule(make(every=None), [], 7, 1).saves(s)] == [7]
