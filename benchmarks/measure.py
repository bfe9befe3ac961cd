"""Running a program and measuring it from outside: wall time, memory, what else the machine did.

Every program is measured in the same way. It prints JSON lines; the clock is read when a line
arrives, and starts when the process is spawned.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

QUIET = 0.15
"""Cores used by others under which a run counts as undisturbed."""


class Line(NamedTuple):
    """A JSON line and when it came, in seconds since the process was spawned."""

    at: float
    data: dict[str, Any]


class Measured(NamedTuple):
    """A finished process. `peak_mib` is its largest resident size; `foreign` how many cores were
    used by others meanwhile (None where the system does not tell)."""

    lines: list[Line]
    wall: float
    peak_mib: float
    foreign: float | None
    code: int
    errors: str


def busy_seconds() -> float | None:
    """CPU seconds that all processes have used since boot."""
    try:
        with open("/proc/stat", encoding="ascii") as stat:
            ticks = [int(n) for n in stat.readline().split()[1:9]]
    except OSError:
        return None
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def wait_until_quiet(limit: float) -> None:
    """Return when others use under 0.1 cores, or after `limit` seconds."""
    deadline = time.monotonic() + limit
    while True:
        before, start = busy_seconds(), time.monotonic()
        if before is None:
            return
        time.sleep(0.7)
        after = busy_seconds() or before
        if (after - before) / (time.monotonic() - start) < 0.1 or time.monotonic() > deadline:
            return


def run(command: Sequence[str], environment: dict[str, str], folder: str) -> Measured:
    """Run a command to its end and read its JSON lines as they come."""
    with tempfile.TemporaryFile() as errors:
        busy = busy_seconds()
        start = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=folder,
            env={**os.environ, **environment},
        )
        lines: list[Line] = []
        assert process.stdout is not None
        for raw in process.stdout:
            at = time.perf_counter() - start
            if raw.startswith(b"{"):
                lines.append(Line(at, json.loads(raw)))
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        after = busy_seconds()
        foreign = None
        if busy is not None and after is not None:
            foreign = max(0.0, (after - busy - usage.ru_utime - usage.ru_stime) / wall)
        errors.seek(0)
        said = errors.read().decode(errors="replace")
    unit = 1024 if sys.platform != "darwin" else 1024 * 1024
    return Measured(lines, wall, usage.ru_maxrss / unit, foreign, process.returncode, said)
