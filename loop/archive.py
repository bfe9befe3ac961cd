"""Checkpoints as people handle them: listed, described, verified, compared, pruned.

Reads what `checkpoint.py` wrote; never starts a device.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np

from sexpgpu.diagnostics.codes import system as codes
from sexpgpu.loop import checkpoint, directory, events, status
from sexpgpu.loop.failure import failure
from sexpgpu.loop.lock import RunLock
from sexpgpu.loop.named import best_step, find
from sexpgpu.loop.resume import changes
from sexpgpu.loop.seal import damage, read_seal
from sexpgpu.lowering.interp.dtypes import IR, is_float, type_of, widen


def run_of(reference: str) -> str:
    """The run directory that a reference names, or E-CKPT-008."""
    if not directory.has_run(reference):
        raise failure(codes.E_CKPT_008, f"{reference} is no run directory")
    return reference.rstrip("/")


def listed(run: str) -> list[dict[str, Any]]:
    """Every checkpoint of a run, by step: `name step path bad sealed best bytes saved`; `saved` is
    when its manifest was written, in seconds since 1970."""
    best = best_step(run)
    rows: list[dict[str, Any]] = []
    for found in checkpoint.list_checkpoints(run):
        seal = read_seal(found.path) if found.sealed else None
        manifest = os.path.join(found.path, "MANIFEST.json")
        rows.append(
            {
                "name": os.path.basename(found.path),
                "step": found.step,
                "path": found.path,
                "bad": found.bad,
                "sealed": found.sealed,
                "best": found.sealed and not found.bad and found.step == best,
                "bytes": sum(e["size"] for e in seal["files"].values()) if seal else None,
                "saved": os.path.getmtime(manifest) if seal else None,
            }
        )
    return rows


def described(path: str) -> dict[str, Any]:
    """What a checkpoint holds: `step bad run ir best metrics wall_s loader`, `data` (the files that
    were read), and of each tensor `name dtype shape count` and for floats `mean rms min max
    nonfinite`. Verifies it first."""
    tensors, meta = checkpoint.load(path)
    return {
        "path": path,
        "step": meta["step"],
        "bad": meta["bad"],
        "run": meta["experiment"]["run"]["name"],
        "ir": meta["experiment"]["ir"],
        "selection": meta["experiment"]["selection"],
        "loader": meta["loader"],
        "data": meta["experiment"].get("data", {}),
        "best": meta["best"],
        "metrics": meta["last"],
        "wall_s": meta["wall"],
        "tensors": [_summary(name, array) for name, array in sorted(tensors.items())],
    }


def verified(reference: str) -> list[tuple[str, str | None]]:
    """Each checkpoint of a run (or the one named), with what is wrong with it, or None."""
    if not directory.has_run(reference):
        path = find(reference)
        return [(path, damage(path))]
    return [
        (found.path, damage(found.path) if found.sealed else "the save did not finish")
        for found in checkpoint.list_checkpoints(run_of(reference))
    ]


def verified_log(run: str) -> tuple[str, str | None]:
    """The events file of a run, with what is wrong with it, or None."""
    told = status.read_status(run) or {}
    newest, _ = checkpoint.newest_whole(run)
    mark = None if newest is None else checkpoint.read_meta(newest).get("events")
    ended = told.get("state") in ("finished", "stopped", "failed")
    return os.path.join(run, events.FILE), events.log_problem(run, mark, ended)


def compared(one: str, other: str) -> dict[str, Any]:
    """The differences of two checkpoints: `experiment` (lines), `added` and `removed` (names), and
    `changed`: for each tensor that differs in a bit, its `name` and either both types (`before`,
    `after`) or `max` (largest absolute difference) and `relative` (norm of the difference over
    that of the first)."""
    before, meta_before = checkpoint.load(one)
    after, meta_after = checkpoint.load(other)
    changed: list[dict[str, Any]] = []
    for name in sorted(before.keys() & after.keys()):
        a, b = before[name], after[name]
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            changed.append({"name": name, "before": str(type_of(a)), "after": str(type_of(b))})
        elif a.tobytes() != b.tobytes():
            changed.append({"name": name, **_distance(a, b)})
    return {
        "steps": [meta_before["step"], meta_after["step"]],
        "experiment": changes(meta_before["experiment"], meta_after["experiment"]),
        "added": sorted(after.keys() - before.keys()),
        "removed": sorted(before.keys() - after.keys()),
        "changed": changed,
        "equal": len(before.keys() & after.keys()) - len(changed),
    }


def prune(run: str, keep: int, keep_every: int | None, dry_run: bool) -> list[str]:
    """Remove checkpoints but the `keep` newest whole ones, each `keep_every`-th step, the best and
    those marked bad; torn and set-aside ones go too, what others put there stays. Gives the paths
    removed.

    Raises E-CKPT-007 while a process writes the run, E-CKPT-002 where none is whole."""
    lock = RunLock(run)
    try:
        sealed = [f for f in checkpoint.list_checkpoints(run) if f.sealed and not f.bad]
        # a seal does not say that nothing was damaged since: the newest that are whole are kept
        whole = (f.path for f in reversed(sealed) if damage(f.path) is None)
        kept = set(islice(whole, max(1, keep)))
        if sealed and not kept:
            raise failure(
                codes.E_CKPT_002,
                f"every checkpoint of {run} is damaged",
                fix="put back a copy of one",
            )
        kept |= {f.path for f in sealed if f.step == best_step(run)}
        kept |= {f.path for f in sealed if keep_every and f.step % keep_every == 0}
        folder = os.path.join(run, checkpoint.FOLDER)
        dropped = [
            path
            for name in sorted(os.listdir(folder))
            if checkpoint.is_own(name)
            and (path := os.path.join(folder, name)) not in kept
            and not (name.startswith(checkpoint.BAD) and read_seal(path) is not None)
        ]
        if not dry_run:
            for path in dropped:
                _remove(path)
        return dropped
    finally:
        lock.release()


def _remove(path: str) -> None:
    """Remove a checkpoint; killed in between, what is left is no checkpoint any more."""
    target = path
    if not path.endswith(checkpoint.DROPPED):
        target = path + checkpoint.DROPPED
        os.rename(path, target)
    if os.path.islink(target):
        os.unlink(target)
    else:
        shutil.rmtree(target)


def _summary(name: str, array: np.ndarray) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": name, "dtype": IR[array.dtype], "shape": list(array.shape), "count": array.size,
    }  # fmt: skip
    if is_float(array.dtype) and array.size:
        wide = widen(array).astype(np.float64)
        finite = wide[np.isfinite(wide)]
        row["nonfinite"] = int(wide.size - finite.size)
        if finite.size:
            row |= {
                "mean": float(finite.mean()),
                "rms": float(np.sqrt((finite**2).mean())),
                "min": float(finite.min()),
                "max": float(finite.max()),
            }
    elif array.size == 1:
        row["value"] = array.reshape(()).tolist()
    return row


def _distance(a: np.ndarray, b: np.ndarray) -> Mapping[str, Any]:
    x, y = (widen(array).astype(np.float64) for array in (a, b))
    with np.errstate(invalid="ignore"):
        difference = np.abs(x - y)
    norm = float(np.sqrt((x**2).sum()))
    return {
        "max": float(difference.max()),
        "relative": float(np.sqrt((difference**2).sum())) / norm if norm else None,
    }
