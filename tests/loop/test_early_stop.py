"""`:stop`: the run ends when its series has not improved for so many evaluations."""

from pathlib import Path
from typing import Any

import pytest
from loop_documents import make, run

import sexpgpu as sx
from sexpgpu.ir.document import Stop
from sexpgpu.loop.evaluate import Pass
from sexpgpu.loop.events import read_events
from sexpgpu.loop.run import RunResult
from sexpgpu.loop.status import read_status

STOP = {"eval_every": 2, "every": 6, "log_every": 4, "steps": 200}


def losses(result: RunResult) -> list[tuple[int, float]]:
    return [
        (e["step"], e["metrics"]["eval/valid/loss"])
        for e in read_events(f"{result.directory}/events.jsonl")
        if e["kind"] == "eval"
    ]


def ends_at(values: list[tuple[int, float]], direction: str, patience: int) -> int:
    """The step that an own reading of the rule gives."""
    sign = 1 if direction == "min" else -1
    best, since = float("inf"), 0
    for step, value in values:
        if sign * value < best:
            best, since = sign * value, 0
        else:
            since += 1
        if since == patience:
            return step
    return values[-1][0]


@pytest.mark.slow
@pytest.mark.parametrize("direction, patience", [("min", 3), ("max", 2)])
def test_it_ends_where_the_rule_says(tmp_path: Path, direction: str, patience: int) -> None:
    whole = run(make(**STOP), tmp_path, slug="whole")
    wanted = ends_at(losses(whole), direction, patience)
    assert 0 < wanted < 200
    stop = Stop(best=(direction, "eval/valid/loss"), patience=patience)
    short = run(make(**STOP, stop=stop), tmp_path, slug="short")
    assert (short.state, short.exit_status, short.step) == ("finished", 0, wanted)
    status: Any = read_status(str(short.directory))
    assert (status["state"], status["reason"]) == ("finished", "stopped early")
    assert status["checkpoint"]["step"] == wanted
    assert losses(short) == [pair for pair in losses(whole) if pair[0] <= wanted]
    again = run(make(**STOP, stop=stop), tmp_path, slug="short", resume="latest")
    assert (again.state, again.step) == ("finished", wanted)


def test_resumed_it_ends_at_the_same_step(tmp_path: Path) -> None:
    stop = Stop(best=("min", "eval/valid/loss"), patience=3)
    whole = run(make(**STOP, stop=stop), tmp_path, slug="whole")
    at = whole.step // 6 * 6 - 6
    assert at > 0
    again = run(make(**STOP, stop=stop), tmp_path, slug="whole", resume=str(at))
    assert again.step == whole.step
    assert {n: a.tobytes() for n, a in again.parameters.items()} == {
        n: a.tobytes() for n, a in whole.parameters.items()
    }


def test_last_passes_run_at_an_early_end(tmp_path: Path) -> None:
    text = """
    (require "sexpgpu/nn" :as nn)
    (require "sexpgpu/optim" :as optim)
    (defloader train :source (inline (x (0.0) (1.0)) (y (1.0) (3.0))) :batch 2)
    (defun prepare (batch) (values (field batch :x) (field batch :y)))
    (defmodel line () (submodel fit (nn:linear 1 1)) (forward (x) (fit x)))
    (defun objective (model x y) (nn:mse (funcall model x) y))
    (defeval often :loader train :every 1)
    (defeval last :loader train)
    (defrun line :model (line) :optimizer (optim:sgd :lr 0.1) :steps 50
      :stop (:max :eval/often/loss :patience 2))
    """
    found = sx.compile_text(text).run(runs=str(tmp_path), slug="it", device="interp")
    last = found.metrics["eval/last/loss"]
    assert list(last.steps) == [3]  # the first value is the best of :max; then two are no better
    assert found.events[-1]["reason"] == "stopped early"


@pytest.mark.parametrize("direction, worst", [("min", float("inf")), ("max", -float("inf"))])
def test_a_best_that_is_infinite_comes_back_from_a_checkpoint(
    tmp_path: Path, direction: str, worst: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first value overflows, as a perplexity may; the next is better, after a resume too."""
    original = Pass.run

    def overflowing(self: Pass, *given: Any) -> dict[str, Any] | None:
        found = original(self, *given)
        step = int(given[0]["updates"])
        return found and {**found, "eval/valid/loss": worst if step == 2 else 7.0}

    monkeypatch.setattr(Pass, "run", overflowing)
    document = make(steps=4, eval_every=2, every=2, best=(direction, "eval/valid/loss"))
    wanted = {"series": "eval/valid/loss", "value": 7.0, "step": 4}
    assert run(document, tmp_path).summary["best"] == wanted
    again = run(document, tmp_path, resume="2")
    assert again.exit_status == 0, again.diagnostics
    assert again.summary["best"] == wanted


BAD = {
    ":stop (:min :eval/none/loss :patience 2)": "which no evaluation reports",
    ":stop (:min :eval/v/loss)": ":stop takes",
    ":stop (:least :eval/v/loss :patience 2)": ":stop takes",
    ":stop (:min :eval/v/loss :patience 0)": ":stop takes",
    ":stop (:min :eval/v/loss :patience 2)": "runs only once",
    ":stop (:min :eval/v/each :patience 2)": "whose values have the shape (3)",
    ":checkpoint (:best (:max :eval/v/each))": "whose values have the shape (3)",
    ":init-from 7": ":init-from takes",
    ":init-from (safetensors 7)": "a path was expected",
    ':init-from (safetensors "x" :map (list "a"))': "an entry of :map",
    ':init-from (safetensors "x" :missing 3)': "takes a list of globs",
    ":diagnostics (:every 2)": ":diagnostics takes",
    ":diagnostics (:select 3)": "takes a list of globs",
}


@pytest.mark.parametrize("key", BAD)
def test_mistakes_are_coded(key: str) -> None:
    text = f"""
    (require "sexpgpu/nn" :as nn)
    (require "sexpgpu/optim" :as optim)
    (defloader train :source (inline (x (0.0) (1.0)) (y (1.0) (3.0))) :batch 2)
    (defun prepare (batch) (values (field batch :x) (field batch :y)))
    (defmodel line () (submodel fit (nn:linear 1 1)) (forward (x) (fit x)))
    (defun objective (model x y) (nn:mse (funcall model x) y))
    (defun evaluate (model x y)
      (metric :each (full (list 3) 1.0))
      (nn:mse (funcall model x) y))
    (defeval v :loader train)
    (defrun line :model (line) :optimizer (optim:sgd :lr 0.1) :steps 50 {key})
    """
    with pytest.raises(sx.CompileError) as caught:
        sx.compile_text(text)
    (found,) = caught.value.diagnostics
    assert found.code.id == "E-RUN-006"
    assert BAD[key] in found.headline
    assert found.span is not None
