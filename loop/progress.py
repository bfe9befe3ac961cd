"""What a person sees while a run goes on: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

from sexpgpu.diagnostics.model import Diagnostic

_REDRAW = 0.1  # seconds
_WIDTH = 24
_BLOCKS = " ▏▎▍▌▋▊▉█"


class Progress:
    """Shows steps, events and warnings on a stream (stderr). `quiet` shows nothing but failures,
    which the command line prints."""

    def __init__(self, stream: TextIO | None = None, quiet: bool = False) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._quiet = quiet
        self._terminal = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._drawn_at = 0.0
        self._bar = False
        self._first: tuple[int, float] | None = None  # the first step seen done, and when
        self._told = 0  # the step of the last train event
        self._waiting = 0.0  # the part of its interval that was spent waiting for data

    def tick(self, step: int, steps: int, series: Mapping[str, Any]) -> None:
        """A step was dispatched."""
        now = time.monotonic()
        if self._first is None:
            self._first = step, now
        if self._quiet or not self._terminal or now - self._drawn_at < _REDRAW:
            return
        self._drawn_at = now
        first, began = self._first  # what was compiled before says nothing of the speed
        rate = (step - first) / max(now - began, 1e-9)
        pace = f"  {rate:.3g} steps/s  {duration((steps - step) / rate)} left" if rate else ""
        loss = series.get("train/loss")
        told = f"  loss {loss:.4g}" if isinstance(loss, float) else ""
        told += self._waits()
        self._write(f"\r\x1b[K{_bar(step / steps)} {step}/{steps}{pace}{told}")
        self._bar = True

    def event(self, record: Mapping[str, Any]) -> None:
        """An event was written."""
        waits = ""
        if record["kind"] == "resume":
            self._told = record["step"]
        elif record["kind"] == "train":
            steps, self._told = record["step"] - self._told, record["step"]
            told = record["metrics"]
            self._waiting = told["train/data-wait"] * told["train/steps-per-second"] / max(steps, 1)
            waits = self._waits()
        if not self._quiet:
            line = line_of(record)
            if line:
                self.say(line + waits)

    def _waits(self) -> str:
        return f"  {self._waiting:.0%} waiting for data" if self._waiting >= 0.01 else ""

    def warning(self, diagnostic: Diagnostic) -> None:
        """A warning, with its notes, as a compile diagnostic is shown."""
        if not self._quiet:
            self.say(f"warning[{diagnostic.code.id}]: {diagnostic.headline}")
            for note in diagnostic.notes:
                self.say(f"  note: {note.text}")

    def say(self, text: str) -> None:
        """A line of its own; the bar is drawn again below it."""
        self._write(("\r\x1b[K" if self._bar else "") + text + "\n")
        self._bar = False
        self._drawn_at = 0.0

    def close(self) -> None:
        if self._bar:
            self._write("\n")
            self._bar = False

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._quiet = True  # nobody looks any more: no reason to stop training


def line_of(record: Mapping[str, Any]) -> str | None:
    """An event as one line for people; None for those that they are shown otherwise."""
    kind, step = record["kind"], record["step"]
    if kind == "open":
        return f"{record['run']}: {record['directory']}"
    if kind == "train":
        shown = {
            name: value
            for name, value in record["metrics"].items()
            if name.startswith("train/") and isinstance(value, float | str)
        }
        parts = [f"{name.removeprefix('train/')} {_number(shown[name])}" for name in _order(shown)]
        return f"step {step}  " + "  ".join(parts)
    if kind == "eval":
        prefix = f"eval/{record['pass']}/"
        values = [
            f"{name.removeprefix(prefix)} {_number(value)}"
            for name, value in record["metrics"].items()
            if isinstance(value, float | str)
        ]
        return f"step {step}  {record['pass']}: {'  '.join(values)}  ({record['records']} records)"
    if kind == "stage":
        if record["stage"] == record["before"]:
            return None
        return f"step {step}  stage {record['stage']} after {record['before']}"
    if kind == "checkpoint":
        return f"step {step}  saved {record['path']}{'  (best)' if record['best'] else ''}"
    if kind == "resume":
        return f"resumed at step {step}"
    if kind == "signal":
        return f"step {step}  {record['signal']} received"
    if kind == "diagnostic":
        told = [f"{n} {_number(v)}" for n, v in record["values"].items() if isinstance(v, float)]
        more = f"  and {len(told) - 6} more" if len(told) > 6 else ""
        return f"step {step}  " + "  ".join(told[:6]) + more
    if kind == "annotation":
        return f"step {step}  {record['text']}"
    if kind == "warning":
        diagnostic = record["diagnostic"]
        return f"warning[{diagnostic['code']}]: {diagnostic['message']}"
    if kind == "close":
        ended = record["reason"] in ("finished", "stopped early", "failed")
        return f"{'' if ended else 'stopped by '}{record['reason']} at step {step}"
    return None


def _order(names: Mapping[str, Any]) -> list[str]:
    """The loss first, the rate last, other rates and times left out."""
    first, last = "train/loss", "train/steps-per-second"
    rest = [n for n in names if n != first and "per-second" not in n and n != "train/data-wait"]
    return [n for n in (first, *rest, last) if n in names]


def _number(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def duration(seconds: float) -> str:
    """`1:02:03` or `2:03`."""
    minutes, s = divmod(int(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02}:{s:02}" if hours else f"{m}:{s:02}"


def _bar(share: float) -> str:
    eighths = int(min(max(share, 0.0), 1.0) * _WIDTH * 8)
    full, part = divmod(eighths, 8)
    return "▕" + (_BLOCKS[8] * full + (_BLOCKS[part] if part else "")).ljust(_WIDTH) + "▏"
