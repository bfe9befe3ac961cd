"""Which checkpoint a person means: its own path, its run, or a run and one of its checkpoints."""

from __future__ import annotations

import os

from sexpgpu.diagnostics.codes import system as codes
from sexpgpu.diagnostics.suggest import did_you_mean
from sexpgpu.loop import checkpoint, directory
from sexpgpu.loop.failure import failure

LATEST, BEST = "latest", "best"


def find(reference: str) -> str:
    """The checkpoint that a person means: its own path, a run (its newest whole one), or a run and
    which of its checkpoints after an `@`: `runs/x@200`, `runs/x@best`, `runs/x@bad-7`.

    Raises E-CKPT-001, -008.
    """
    path = reference.rstrip("/")
    if is_checkpoint(path):
        return path
    if directory.has_run(path):
        return _of_run(path, LATEST)
    run, sign, which = path.rpartition("@")
    if sign and directory.has_run(run):
        return _of_run(run, which)
    if os.path.exists(path):
        raise failure(codes.E_CKPT_008, f"{path} is neither a run directory nor a checkpoint")
    raise failure(codes.E_CKPT_001, f"there is no {path}")


def is_checkpoint(path: str) -> bool:
    """Whether a path is a checkpoint's folder, whole or not."""
    return os.path.exists(os.path.join(path, checkpoint.META))


def best_step(run: str) -> int | None:
    """The step of the best checkpoint, as the newest sealed one that can be read tells."""
    for found in reversed(checkpoint.list_checkpoints(run)):
        meta = checkpoint.read_meta(found.path) if found.sealed and not found.bad else {}
        if "best" in meta:
            return None if meta["best"] is None else meta["best"]["step"]
    return None


def _of_run(run: str, which: str) -> str:
    whole = {os.path.basename(f.path): f for f in checkpoint.list_checkpoints(run) if f.sealed}
    if which == LATEST:
        path, _ = checkpoint.newest_whole(run)
        if path is None:
            raise failure(codes.E_CKPT_001, f"{run} has no whole checkpoint")
        return path
    name = str(best_step(run)) if which == BEST else which
    if name not in whole:
        near = did_you_mean(which, [*whole, LATEST, BEST])
        raise failure(
            codes.E_CKPT_001,
            f"{run} has no best checkpoint" if which == BEST else f"{run} has no checkpoint {name}",
            f"it has {', '.join(whole) if whole else 'none'}",
            fix=near,
        )
    return whole[name].path
