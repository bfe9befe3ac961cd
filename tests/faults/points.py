"""Runs that end at a chosen point: `python points.py RUNS PLAN`.

Every call by which a run changes what is on the disk, and the beginning and end of steps,
evaluations, compilations and saves, is a numbered point. A run is told the number of the point at
which to die: by SIGKILL, at once, in the middle of a write where the point is one, or as a power
cut ends it: what was not yet synced is lost.

PLAN is JSON: {"document" or "text", "device", "chains": [[seed, kills, how]…]}: a document's
arguments, or a run file. A chain is a run directory whose run is killed so often, each time at a
random point, and then resumed to its end. All are children of one process that has loaded
everything, forked: a start takes milliseconds. Prints one JSON object a kill: {"chain", "point",
"how"}, `point` being its kind.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "loop"))

import numpy as np  # noqa: F401  loaded before forking
import orbax.checkpoint  # noqa: F401
from loop_documents import make, run

import sexpgpu as sx
from sexpgpu.loop import checkpoint, reports, train
from sexpgpu.loop.evaluate import Pass
from sexpgpu.lowering.interp.backend import InterpBackend

HOWS = ("before", "after", "middle", "power")


class Points:
    """Counts points by their kind; dies at the `at[1]`-th of kind `at[0]`."""

    def __init__(
        self, directory: Path, at: tuple[str, int] | None, how: str, told: Callable[[str], None]
    ):
        self.directory = str(directory)
        self.at = at
        self.how = how
        self.told = told
        self.counts: Counter[str] = Counter()
        self.lock = threading.RLock()
        self.synced: dict[str, int] = {}  # path -> its size when it was last synced

    def passed(self, kind: str, phase: str) -> bool:
        """One more point; true when it is the one to die at in this phase."""
        with self.lock:
            if phase == "before":
                self.counts[kind] += 1
            at = (kind, self.counts[kind]) == self.at
            return at and (self.how == phase or (self.how == "power" and phase == "after"))

    def die(self, kind: str) -> None:
        with self.lock:  # no other thread gets further
            self.told(kind)
            if self.how == "power":
                self.lose()
            os.kill(os.getpid(), signal.SIGKILL)

    def lose(self) -> None:
        """What a power cut takes: all that was written and not synced."""
        for folder, _, names in os.walk(self.directory):
            for name in names:
                path = os.path.join(folder, name)
                kept = self.synced.get(path, 0)
                with suppress(FileNotFoundError):  # a library's own thread goes on meanwhile
                    if os.path.getsize(path) > kept:
                        os.truncate(path, kept)

    def wrap(self, owner: Any, name: str, kind: str) -> None:
        """Make a function of `owner` a point."""
        original = getattr(owner, name)

        def point(*arguments: Any, **keywords: Any) -> Any:
            if self.passed(kind, "before") or self.passed(kind, "middle"):
                self.die(kind)
            result = original(*arguments, **keywords)
            if self.passed(kind, "after"):
                self.die(kind)
            return result

        setattr(owner, name, point)

    def wrap_system(self) -> None:
        """The calls that change the disk, less those on files outside the run."""
        pwrite, fsync, replace, rename = os.pwrite, os.fsync, os.replace, os.rename

        def path_of(fd: int) -> str:
            return os.readlink(f"/proc/self/fd/{fd}")

        def own(path: str) -> bool:
            return path.startswith(self.directory)

        def point_pwrite(fd: int, data: bytes, offset: int) -> int:
            path = path_of(fd)
            if not own(path) or path.endswith("lock.json"):
                return pwrite(fd, data, offset)
            if self.passed("write", "before"):
                self.die("write")
            if self.passed("write", "middle"):
                pwrite(fd, data[: len(data) // 2], offset)
                self.die("half a write")
            written = pwrite(fd, data, offset)
            if self.passed("write", "after"):
                self.die("write")
            return written

        def point_fsync(fd: int) -> None:
            path = path_of(fd)
            if own(path) and (self.passed("sync", "before") or self.passed("sync", "middle")):
                self.die("sync")
            fsync(fd)
            if own(path) and os.path.isfile(path):
                self.synced[path] = os.path.getsize(path)
            if own(path) and self.passed("sync", "after"):
                self.die("sync")

        def moved(kind: str, original: Callable[..., None]) -> Callable[..., None]:
            def point(source: str, target: str) -> None:
                mine = own(os.path.abspath(source)) and "status.json" not in source
                if mine and (self.passed(kind, "before") or self.passed(kind, "middle")):
                    self.die(kind)
                original(source, target)
                for path in list(self.synced):
                    if path == source or path.startswith(f"{source}/"):
                        self.synced[target + path[len(source) :]] = self.synced.pop(path)
                if mine and self.passed(kind, "after"):
                    self.die(kind)

            return point

        os.pwrite, os.fsync = point_pwrite, point_fsync  # type: ignore[assignment]
        os.replace, os.rename = moved("replace", replace), moved("rename", rename)  # type: ignore[assignment]

    def wrap_all(self, device: str) -> None:
        self.wrap_system()
        self.wrap(train.Trainer, "_dispatch", "step")
        self.wrap(reports.Reports, "_read", "report")
        self.wrap(Pass, "run", "evaluation")
        self.wrap(checkpoint, "seal", "seal")
        self.wrap(checkpoint.Checkpointer, "_write", "save")
        self.wrap(checkpoint.Checkpointer, "_drop", "drop")
        self.wrap(checkpoint, "set_aside", "set aside")
        if device == "interp":
            self.wrap(InterpBackend, "compile", "compilation")
        else:
            from sexpgpu.lowering.xla.backend import XlaBackend

            self.wrap(XlaBackend, "compile", "compilation")


def one(
    runs: Path, slug: str, plan: dict[str, Any], at: tuple[str, int] | None, how: str
) -> tuple[int, Any]:
    """A run in a child; its wait status, and what it told: how many points of each kind there
    were, or the kind of the one it died at."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        points = Points(
            runs / slug, at, how, lambda kind: os.write(writer, json.dumps(kind).encode())
        )
        points.wrap_all(plan["device"])
        result = run(plan["made"], runs, slug=slug, device=plan["device"], resume="latest")
        os.write(writer, json.dumps(points.counts).encode())
        for found in result.diagnostics:
            if found.severity == "error":
                os.write(1, f"{found.code.id} {found.headline}\n".encode())
        os._exit(result.exit_status)
    os.close(writer)
    data = b""
    while part := os.read(reader, 1 << 16):
        data += part
    os.close(reader)
    _, status = os.waitpid(child, 0)
    return status, json.loads(data) if data else None


def chain(
    runs: Path, plan: dict[str, Any], seed: int, kills: int, how: str, whole: dict[str, int]
) -> None:
    rng = random.Random(seed)
    slug = f"chain-{seed}-{how}"
    for _ in range(kills):
        kind = rng.choice(sorted(whole))
        at = (kind, rng.randint(1, max(1, whole[kind] // kills)))
        status, told = one(runs, slug, plan, at, how)
        if os.WIFSIGNALED(status):
            assert os.WTERMSIG(status) == signal.SIGKILL, status
            print(json.dumps({"chain": slug, "point": told, "how": how}), flush=True)
        else:
            assert status == 0, (slug, at, status)  # it had no such point any more
            break
    status, _ = one(runs, slug, plan, None, how)
    assert status == 0, (slug, status)


def main(runs: Path, plan: dict[str, Any]) -> None:
    text = plan.get("text")
    made = make(**plan["document"]) if text is None else sx.compile_text(text).document
    plan = {**plan, "made": made}
    status, counts = one(runs, "whole", plan, None, "after")
    assert status == 0, status
    for seed, kills, how in plan["chains"]:
        chain(runs, plan, seed, kills, how, counts)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
