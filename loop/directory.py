"""The run directory: its name, what is put there at the start, finding runs again.

RUNS/SLUG/ holds status.json, events.jsonl, experiment.ir.json, manifest.json, sources/,
checkpoints/ and, while a process writes it, lock.json.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from sexpgpu.diagnostics.codes import run as run_codes
from sexpgpu.diagnostics.codes import system as codes
from sexpgpu.loop import events, status
from sexpgpu.loop.checkpoint import FOLDER as CHECKPOINTS
from sexpgpu.loop.checkpoint import is_own, list_checkpoints, remove
from sexpgpu.loop.failure import failure, system_failure
from sexpgpu.loop.seal import write_durably
from sexpgpu.loop.targets import fan as targets
from sexpgpu.loop.targets.target import PLACES
from sexpgpu.source import Source

IR_FILE = "experiment.ir.json"
MANIFEST_FILE = "manifest.json"
SOURCES = "sources"

_LONGEST = 200  # bytes of a slug: file systems allow 255, temporary names add to it
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._=+")
_RESERVE = ".reserve"
_RESERVE_BYTES = 1 << 16


def slug_of(name: str, selection: Mapping[str, Any], ir_hash: str, steps: int | None = None) -> str:
    """`digits-wide-lr=0.003-1f0c22aa`: the run's name, variants, the knobs that --set, a sweep or
    the API set, the steps where they are not the file's, and 8 hex digits of the IR's hash,
    escaped for file systems."""
    parts = [name, *selection.get("variants", [])]
    for knob, entry in selection.get("knobs", {}).items():
        if entry["source"] != "default" and not entry["source"].startswith("variant"):
            parts.append(f"{knob}={_shown(entry['value'])}")
    parts.extend(f"{name}={value}" for name, value in selection.get("overrides", {}).items())
    if steps is not None:
        parts.append(f"steps={steps}")
    return shortened("-".join(escaped(part) for part in parts), f"-{ir_hash[:8]}")


def escaped(text: str) -> str:
    """Letters, digits and `._=+-` as they are, anything else as `%` and its UTF-8 in hex."""
    out = "".join(
        c if c in _PLAIN or c == "-" else "".join(f"%{byte:02x}" for byte in c.encode())
        for c in text
    )
    return "%2e" + out[1:] if out.startswith(".") else out


def shortened(text: str, tail: str) -> str:
    """At most 200 bytes: a longer text is cut, with 8 hex digits of the whole in its place."""
    if len(text) + len(tail) <= _LONGEST:
        return text + tail
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return text[: _LONGEST - len(tail) - 9].rstrip("%") + "~" + digest + tail


def checked_slug(slug: str) -> str:
    """A slug that a person gave: one name of a directory, or E-RUN-033."""
    if not slug or slug in (".", "..") or "/" in slug or "\0" in slug or len(slug.encode()) > 255:
        raise failure(
            run_codes.E_RUN_033,
            f"{slug!r} cannot name a run directory",
            fix="a slug is one file name: not empty, at most 255 bytes, without `/`",
        )
    return slug


def has_run(directory: str) -> bool:
    """Whether a run has begun there."""
    return any(os.path.exists(os.path.join(directory, name)) for name in (events.FILE, status.FILE))


def holds_any(directory: str) -> bool:
    """Whether anything of a run is there that its user may miss."""
    return has_run(directory) or bool(list_checkpoints(directory))


def refuse_existing(directory: str) -> None:
    """E-CKPT-003 where a run is there already. One that ended before its first step, without a
    checkpoint, has nothing to lose: it may be started again."""
    before = status.read_status(directory) or {}
    if has_run(directory) and (before.get("step") != 0 or list_checkpoints(directory)):
        raise failure(
            codes.E_CKPT_003,
            f"the run {directory} exists",
            f"it is {before.get('state', 'unknown')} at step {before.get('step', 0)}",
        )


def make(directory: str) -> None:
    """Create the directory, with a reserve of space for the last words on a full disk."""
    try:
        os.makedirs(os.path.join(directory, CHECKPOINTS), exist_ok=True)
        with open(os.path.join(directory, _RESERVE), "wb") as file:
            file.write(b"\0" * _RESERVE_BYTES)
    except OSError as error:
        raise system_failure(error, f"cannot make the run directory {directory}") from None


def sweep(directory: str) -> None:
    """Remove what a killed process left half written beside the files that it was to replace."""
    for name in os.listdir(directory):
        if name.endswith((".tmp", ".last")):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(directory, name))


def release_reserve(directory: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(directory, _RESERVE))


def clear(directory: str) -> None:
    """`--fresh`: remove what a run has written, and nothing else that may lie there."""
    folder = os.path.join(directory, CHECKPOINTS)
    with contextlib.suppress(OSError):
        for name in filter(is_own, os.listdir(folder)):
            remove(os.path.join(folder, name))
        os.rmdir(folder)  # unless there is more in it
    for name in (SOURCES, *PLACES.values()):
        shutil.rmtree(os.path.join(directory, name), ignore_errors=True)
    names = (
        events.FILE, events.CUT_FILE, status.FILE, targets.FILE, IR_FILE, MANIFEST_FILE, _RESERVE,
        PLACES["csv"],
    )  # fmt: skip
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(directory, name))


def write_experiment(
    directory: str, ir_text: str, manifest: Mapping[str, Any], sources: Sequence[Source]
) -> None:
    """The IR document, the manifest, and every source file byte for byte.

    Sources keep their names, made relative and free of `..`; those that would so be called alike
    lie in folders `2`, `3`, … The manifest lists their SHA-256.
    """
    write_durably(os.path.join(directory, IR_FILE), ir_text.rstrip("\n"))
    write_durably(
        os.path.join(directory, MANIFEST_FILE),
        json.dumps(events.plain(manifest), indent=1, sort_keys=True, ensure_ascii=False),
    )
    used: set[str] = set()
    for source in sources:
        name = os.path.join(*[p for p in source.name.split("/") if p not in ("", ".", "..")])
        places = (name if n == 1 else os.path.join(str(n), name) for n in count(1))
        used.add(place := next(p for p in places if p not in used))
        target = os.path.join(directory, SOURCES, place)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8", newline="") as file:
            file.write(source.text)


def newest_of_same_name(runs: str, name: str, variants: Sequence[str], but: str) -> str | None:
    """The run directory of this name and variants that was written last (`but` left out)."""
    best: tuple[float, str] | None = None
    with contextlib.suppress(OSError):  # nothing there, or nothing that may be looked into
        for entry in os.scandir(runs):
            found = status.read_status(entry.path) if entry.is_dir() else None
            if found is None or entry.name == but or found.get("run") != name:
                continue
            selection = found.get("selection")
            chosen = selection.get("variants") if isinstance(selection, dict) else None
            if (chosen or []) != list(variants):
                continue
            at = os.path.getmtime(os.path.join(entry.path, status.FILE))
            if best is None or at > best[0]:
                best = (at, entry.path)
    return best[1] if best else None


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return "_".join(_shown(v) for v in value)
    if value is None or value is True:
        return "t" if value else "nil"
    return str(value)
