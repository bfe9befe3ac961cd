"""What a person sees: plain lines, a bar only on a terminal."""

import io
from types import SimpleNamespace

from sexpgpu.loop import progress as progress_module
from sexpgpu.loop.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


TRAIN = {
    "kind": "train", "step": 10,
    "metrics": {"train/loss": 0.25, "train/grad-norm": 1.5, "train/steps-per-second": 20.0,
                "train/data-wait": 0.1, "train/nonfinite": 0},
}  # fmt: skip


def test_plain_lines() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    progress.tick(1, 10, {})
    progress.event(TRAIN)
    progress.event({"kind": "eval", "step": 10, "pass": "valid", "records": 21,
                    "metrics": {"eval/valid/loss": 0.5}})  # fmt: skip
    progress.event({"kind": "close", "step": 10, "reason": "finished"})
    assert stream.getvalue().splitlines() == [
        "step 10  loss 0.25  grad-norm 1.5  steps-per-second 20  20% waiting for data",
        "step 10  valid: loss 0.5  (21 records)",
        "finished at step 10",
    ]


def test_a_bar_on_a_terminal(monkeypatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    progress = Progress(stream)
    progress.tick(5, 10, {"train/loss": 0.5})
    assert "5/10" in stream.getvalue()
    assert "loss 0.5" in stream.getvalue()
    progress.event(TRAIN)
    assert stream.getvalue().endswith("steps-per-second 20  20% waiting for data\n")
    progress.event({**TRAIN, "step": 20, "metrics": {**TRAIN["metrics"], "train/data-wait": 1e-3}})
    assert stream.getvalue().endswith("steps-per-second 20\n")


def test_the_speed_is_that_of_steps(monkeypatch) -> None:
    """What was loaded and compiled before the first step is in no rate, and in no time left."""
    now = [0.0]
    monkeypatch.setattr(progress_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    progress = Progress(stream)
    now[0] = 100.0
    progress.tick(41, 50, {})
    assert "steps/s" not in stream.getvalue()
    now[0] = 102.0
    progress.tick(42, 50, {})
    assert stream.getvalue().endswith("42/50  0.5 steps/s  0:16 left")


def test_quiet() -> None:
    stream = io.StringIO()
    progress = Progress(stream, quiet=True)
    progress.tick(1, 2, {})
    progress.event(TRAIN)
    assert stream.getvalue() == ""


def test_a_closed_stream_stops_nothing() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    stream.close()
    progress.event(TRAIN)
    progress.event(TRAIN)
