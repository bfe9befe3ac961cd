"""Checkpoints: written by Orbax in a thread of their own, sealed, kept and dropped by policy.

`checkpoints/STEP/` holds `state/` (Orbax: every tensor under its name), `meta.json` (all that is
no tensor) and `MANIFEST.json` (`seal.py`). It is written as `STEP.partial` and renamed when
sealed. `bad-STEP` is what the finite guard leaves: never resumed from unless named.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from sexpgpu.diagnostics.codes import system as codes
from sexpgpu.diagnostics.model import Diagnostic
from sexpgpu.ir.document import Checkpointing
from sexpgpu.loop.events import plain
from sexpgpu.loop.failure import failure, warning
from sexpgpu.loop.seal import damage, read_seal, seal, sync_directory, write_durably
from sexpgpu.lowering.interp.dtypes import IR, NUMPY

FOLDER = "checkpoints"
META = "meta.json"
FORMAT = 2

_PARTIAL = ".partial"
DROPPED = ".dropped"
_CUT = ".cut"
BAD = "bad-"


class Saved(NamedTuple):
    """A finished save; `best`: it was the best so far when it was taken."""

    step: int
    path: str
    bytes: int
    seconds: float
    bad: bool
    best: bool


class Found(NamedTuple):
    """A checkpoint directory as it lies there; `sealed` says only that a manifest exists."""

    step: int
    path: str
    bad: bool
    sealed: bool


def is_own(name: str) -> bool:
    """Whether a name in the folder of checkpoints is one that is given here: those of others, such
    as the copies that people make, are left alone."""
    for suffix in (DROPPED, _PARTIAL, _CUT):
        name = name.removesuffix(suffix)
    number = name.removeprefix(BAD)
    return number.isascii() and number.isdigit()


def remove(path: str) -> None:
    """Remove a checkpoint, or the link to one; what cannot be removed now stays."""
    if os.path.islink(path):
        with contextlib.suppress(OSError):
            os.unlink(path)
    else:
        shutil.rmtree(path, ignore_errors=True)


def list_checkpoints(run_directory: str) -> list[Found]:
    """Every checkpoint of a run, torn ones included, by step."""
    folder = os.path.join(run_directory, FOLDER)
    found: list[Found] = []
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            number = name.removesuffix(_PARTIAL).removeprefix(BAD)
            if number.isascii() and number.isdigit():
                sealed = not name.endswith(_PARTIAL) and read_seal(path) is not None
                found.append(Found(int(number), path, name.startswith(BAD), sealed))
    return sorted(found)


def newest_whole(run_directory: str) -> tuple[str | None, list[Diagnostic]]:
    """The newest checkpoint whose every byte is as sealed (bad-marked ones aside), and a warning
    for each newer one that is torn or damaged."""
    warnings: list[Diagnostic] = []
    for found in reversed(list_checkpoints(run_directory)):
        if found.bad:
            continue
        problem = "the save did not finish" if not found.sealed else damage(found.path)
        if problem is None:
            return found.path, warnings
        warnings.append(
            warning(
                codes.W_CKPT_001,
                f"checkpoint {os.path.basename(found.path)} skipped: {problem}",
                f"it lies in {found.path}",
            )
        )
    return None, warnings


def load(path: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The tensors and the meta data of a checkpoint, verified first.

    Raises E-CKPT-001 (none there), -002 (damaged), -009 (of another format).
    """
    if not os.path.isdir(path):
        raise failure(codes.E_CKPT_001, f"there is no checkpoint {path}")
    problem = damage(path)
    if problem is not None:
        raise failure(codes.E_CKPT_002, f"checkpoint {path} is damaged: {problem}")
    with open(os.path.join(path, META), encoding="utf-8") as file:
        meta: dict[str, Any] = json.load(file)
    if meta["format"] != FORMAT:
        raise failure(
            codes.E_CKPT_009, f"checkpoint {path} has format {meta['format']}; {FORMAT} is known"
        )
    ocp = _orbax()
    tensors = {
        name: np.empty(entry["shape"], NUMPY[entry["dtype"]])
        for name, entry in meta["tensors"].items()
    }
    filled = [name for name, array in tensors.items() if array.size]
    if filled:
        restore_args = {name: ocp.RestoreArgs(restore_type=np.ndarray) for name in filled}
        try:
            # zstd takes as long as all the rest of a save, and weights shrink by 7 % only
            handler = ocp.PyTreeCheckpointHandler(use_compression=False)
            with ocp.Checkpointer(handler) as checkpointer:
                tensors |= checkpointer.restore(
                    os.path.abspath(os.path.join(path, "state")),
                    args=ocp.args.PyTreeRestore(restore_args=restore_args),
                )
        except (ValueError, KeyError, OSError) as error:
            raise failure(codes.E_CKPT_002, f"checkpoint {path} cannot be read: {error}") from error
    return tensors, meta


def set_aside(run_directory: str, step: int) -> None:
    """Rename the checkpoints after a step that a run goes back to: their events are cut, so they
    are of a history that is no more. They stay as `STEP.cut` until that step is saved again."""
    for found in list_checkpoints(run_directory):
        if found.step > step and not found.bad:
            target = found.path.removesuffix(_PARTIAL) + _CUT
            remove(target)
            os.rename(found.path, target)


def event_fields(path: str) -> dict[str, Any]:
    """What the `checkpoint` event of a checkpoint says, where the event itself was lost."""
    manifest = read_seal(path) or {"files": {}}
    return {
        "path": os.path.join(FOLDER, os.path.basename(path)),
        "bytes": sum(entry["size"] for entry in manifest["files"].values()),
        "seconds": None,
        "best": not manifest.get("bad") and _best_step(read_meta(path)) == manifest.get("step"),
        "bad": bool(manifest.get("bad")),
    }


def read_meta(path: str) -> dict[str, Any]:
    """The meta data of a checkpoint, unverified; empty when it cannot be read."""
    try:
        with open(os.path.join(path, META), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _best_step(meta: Mapping[str, Any]) -> int | None:
    best = meta.get("best")
    return None if best is None else best["step"]


class Checkpointer:
    """Saves in the background, one at a time. A failure is raised at the next call."""

    def __init__(self, run_directory: str, policy: Checkpointing) -> None:
        self._folder = os.path.join(run_directory, FOLDER)
        os.makedirs(self._folder, exist_ok=True)
        self._policy = policy
        self._thread: threading.Thread | None = None
        self._done: list[Saved] = []
        self._error: BaseException | None = None

    def save(
        self,
        step: int,
        tensors: Callable[[], Mapping[str, np.ndarray]],
        meta: Mapping[str, Any],
        bad: bool = False,
    ) -> None:
        """Begin a save of what `tensors` gives: host arrays, which must not change afterwards. It
        is called in the thread that saves. Waits for the last save to end first."""
        self.wait()
        self._thread = threading.Thread(
            target=self._work, args=(step, tensors, dict(meta), bad), name="sexpgpu-save"
        )
        self._thread.start()

    def poll(self) -> list[Saved]:
        """The saves finished since the last call. Raises E-CKPT-006 when one failed."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        done, self._done = self._done, []
        return done

    def wait(self) -> None:
        """Wait for the save in flight, if any; raises what stopped it."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def abandon(self) -> None:
        """Wait for the save in flight, whatever becomes of it: the run has failed already."""
        with contextlib.suppress(Exception):
            self.wait()

    def _work(
        self,
        step: int,
        tensors: Callable[[], Mapping[str, np.ndarray]],
        meta: dict[str, Any],
        bad: bool,
    ) -> None:
        began = time.monotonic()
        name = f"{BAD}{step}" if bad else str(step)
        final = os.path.join(self._folder, name)
        partial = final + _PARTIAL
        try:
            size = self._write(partial, step, tensors(), meta, bad)
            self._put_in_place(partial, final)
        except BaseException as error:  # noqa: BLE001  raised again in the loop's thread
            shutil.rmtree(partial, ignore_errors=True)  # gives back the space for the last words
            self._error = _save_failed(step, error)
            return
        seconds = time.monotonic() - began
        best = _best_step(meta)
        self._done.append(Saved(step, final, size, seconds, bad, best == step and not bad))
        with contextlib.suppress(OSError):  # what cannot be dropped now is dropped next time
            self._drop(step, best)

    def _write(
        self,
        directory: str,
        step: int,
        tensors: Mapping[str, np.ndarray],
        meta: dict[str, Any],
        bad: bool,
    ) -> int:
        shutil.rmtree(directory, ignore_errors=True)
        os.makedirs(directory)
        types = {
            name: {"dtype": IR[array.dtype], "shape": list(array.shape)}
            for name, array in tensors.items()
        }
        text = json.dumps(
            plain({"format": FORMAT, "step": step, "bad": bad, **meta, "tensors": types}),
            allow_nan=False,
            sort_keys=True,
        )
        write_durably(os.path.join(directory, META), text)
        filled = {name: array for name, array in tensors.items() if array.size}
        if filled:  # Orbax refuses empty arrays; their type in meta.json is all of them
            ocp = _orbax()
            # zstd takes as long as all the rest of a save, and weights shrink by 7 % only
            handler = ocp.PyTreeCheckpointHandler(use_compression=False)
            with ocp.Checkpointer(handler) as checkpointer:
                checkpointer.save(
                    os.path.abspath(os.path.join(directory, "state")),
                    args=ocp.args.PyTreeSave(filled),
                )
        return seal(directory, step=step, bad=bad)

    def _put_in_place(self, partial: str, final: str) -> None:
        if os.path.exists(final):  # a damaged one, or one of a run that was resumed before it
            old = final + DROPPED
            remove(old)
            os.rename(final, old)
        os.rename(partial, final)
        sync_directory(self._folder)
        remove(final + _CUT)

    def _drop(self, newest: int, best: int | None) -> None:
        """Drop what the policy does not keep, and what killed saves and drops left. `best` is as of
        the newest save: a better one of a save to come drops this one only when it is whole."""
        for name in os.listdir(self._folder):
            if name.endswith((DROPPED, _PARTIAL)) and is_own(name):
                remove(os.path.join(self._folder, name))
        good = [f for f in list_checkpoints(os.path.dirname(self._folder)) if not f.bad]
        if self._policy.keep is None:
            return
        keep = {f.step for f in good[-max(1, self._policy.keep) :]} | {newest, best}
        for found in good:
            every = self._policy.keep_every
            if found.step in keep or (every and found.step % every == 0):
                continue
            dropped = found.path + DROPPED
            os.rename(found.path, dropped)
            remove(dropped)


def _save_failed(step: int, error: BaseException) -> BaseException:
    """The coded error for what stopped a save; a fault of ours stays what it is."""
    text = str(error)
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    if full or "RESOURCE_EXHAUSTED" in text or "No space left" in text:
        reason = "no space left on the disk"
    elif isinstance(error, OSError):
        reason = f"{error.strerror or error}"
    elif isinstance(error, ValueError | RuntimeError):  # how Orbax reports the store's errors
        reason = text.splitlines()[0][:300] if text else type(error).__name__
    else:
        return error
    made = failure(codes.E_CKPT_006, f"checkpoint {step} could not be written: {reason}")
    made.__cause__ = error
    return made


def _orbax() -> Any:
    """Orbax, loaded when first needed (a second), and quiet: what it reports is raised anyway."""
    logging.getLogger("absl").setLevel(logging.CRITICAL)
    import orbax.checkpoint as ocp

    return ocp
