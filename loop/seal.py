"""The seal of a checkpoint: `MANIFEST.json` with the size and SHA-256 of every file, written last.

Orbax notices neither a flipped bit nor a file that never reached the disk. A directory without a
whole manifest is no checkpoint; one whose files differ from it is damaged.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from typing import Any

FILE = "MANIFEST.json"
FORMAT = 1


def seal(directory: str, **facts: Any) -> int:
    """Hash and sync every file, then write the manifest and sync it and its directory.

    `facts` (step, …) are kept in the manifest. Gives the bytes of all files.
    """
    entries: dict[str, Any] = {}
    for name in _files(directory):
        path = os.path.join(directory, name)
        size, digest = _hash(path, sync=True)
        entries[name] = {"size": size, "sha256": digest}
    for folder, _, _ in os.walk(directory):
        sync_directory(folder)
    manifest = {"format": FORMAT, **facts, "files": entries}
    write_durably(os.path.join(directory, FILE), json.dumps(manifest, indent=1, sort_keys=True))
    return sum(entry["size"] for entry in entries.values())


def read_seal(directory: str) -> dict[str, Any] | None:
    """The manifest; None when there is none that can be read."""
    try:
        with open(os.path.join(directory, FILE), encoding="utf-8") as file:
            manifest = json.load(file)
    except (OSError, ValueError):
        return None
    return manifest if _is_seal(manifest) else None


def _is_seal(manifest: Any) -> bool:
    """Whether it has the form that `seal` writes: a flipped bit may leave it JSON."""
    files = manifest.get("files") if isinstance(manifest, dict) else None
    return isinstance(files, dict) and all(
        isinstance(entry, dict)
        and isinstance(entry.get("size"), int)
        and isinstance(entry.get("sha256"), str)
        for entry in files.values()
    )


def damage(directory: str) -> str | None:
    """What is wrong with a checkpoint, in words; None when every byte is as it was sealed."""
    manifest = read_seal(directory)
    if manifest is None:
        return f"it has no whole {FILE}: the save did not finish"
    for name, entry in manifest["files"].items():
        path = os.path.join(directory, name)
        try:
            size, digest = _hash(path)
        except FileNotFoundError:
            return f"{name} is missing"
        except OSError as error:
            return f"{name} cannot be read: {error.strerror}"
        if size != entry["size"]:
            return f"{name} has {size} bytes and had {entry['size']}"
        if digest != entry["sha256"]:
            return f"{name} differs from what was saved (SHA-256)"
    return None


def write_durably(path: str, text: str) -> None:
    """Replace a file whole, and wait until it is on the disk."""
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_directory(os.path.dirname(path))


def sync_directory(path: str) -> None:
    """Wait until a directory's entries are on the disk."""
    fd = os.open(path or ".", os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _files(directory: str) -> list[str]:
    """Every file below a directory but the manifest, relative, sorted."""
    return sorted(
        os.path.relpath(os.path.join(folder, name), directory)
        for folder, _, names in os.walk(directory)
        for name in names
        if not (folder == directory and name == FILE)
    )


def _hash(path: str, sync: bool = False) -> tuple[int, str]:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = file.tell()
        if sync:
            os.fsync(file.fileno())
    return size, digest
