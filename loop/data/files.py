"""From the path of a source to local files: relative paths, several paths, globs, URLs."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence

from sexpgpu.diagnostics.codes import system as codes
from sexpgpu.loop.data import remote
from sexpgpu.loop.failure import failure


class LocalFile:
    """A file at hand: `name` is what people are shown, `path` where it is read.

    Its size, inode and date are those of the moment it was opened; `check_unchanged` looks again,
    since a record read from another file of the same name would be another record.
    """

    __slots__ = ("_known", "_stamp", "name", "path", "size")

    def __init__(self, name: str, path: str) -> None:
        self.name = name
        self.path = path
        self._stamp = self._look()
        self.size = self._stamp[0]
        self._known: tuple[Callable[[], str], str] | None = None

    def known_by(self, look: Callable[[], str], digest: str) -> None:
        """`look` gives `digest` as long as the file holds what it holds now."""
        self._known = (look, digest)

    def _look(self) -> tuple[int, int, int]:
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            raise failure(
                codes.E_STORE_001, f"no file {self.name}", f"looked for {self.path}"
            ) from None
        except OSError as error:
            raise unreadable(self.name, error) from None
        return found.st_size, found.st_ino, found.st_mtime_ns

    def call_in(self) -> None:
        """Read the file once, so that the system has it in its memory."""
        part = bytearray(1 << 20)
        try:
            with open(self.path, "rb", buffering=0) as file:
                while file.readinto(part):
                    pass
        except OSError as error:
            raise unreadable(self.name, error) from None

    def check_unchanged(self) -> None:
        """Raise E-STORE-007 when the file is no longer the one that was opened. One that was only
        touched is: people date files anew that their disk would be rid of."""
        now = self._look()
        if now == self._stamp:
            return
        told = f"it had {self.size} bytes, and has {now[0]} now"
        if now[0] == self.size:
            told = "another file has taken its place"
        if now[:2] == self._stamp[:2] and self._known is not None:
            look, digest = self._known
            if look() == digest:
                self._stamp = now
                return
            told = f"it has other bytes than when it was opened, as many ({self.size})"
        raise failure(codes.E_STORE_007, f"{self.name} changed while the run reads it", told)


def unreadable(name: str, error: OSError) -> Exception:
    """The coded error for what the system said about a file."""
    code = codes.E_STORE_002 if isinstance(error, PermissionError) else codes.E_STORE_006
    return failure(code, f"cannot read {name}: {error.strerror or error}")


def local_files(paths: str | Sequence[str], base: str) -> list[LocalFile]:
    """The files that `paths` name, in order: each path or glob relative to `base`, its matches
    sorted; URLs are fetched to the data cache first.

    Raises E-STORE-001 where a path or glob matches nothing.
    """
    found: list[LocalFile] = []
    for path in [paths] if isinstance(paths, str) else paths:
        if remote.is_url(path):
            found.extend(LocalFile(url, local) for url, local in remote.fetch(path))
        elif remote.is_url(base):
            url = base.rstrip("/") + "/" + path
            found.extend(LocalFile(name, local) for name, local in remote.fetch(url))
        else:
            found.extend(_on_disk(path, base))
    return found


def _on_disk(path: str, base: str) -> list[LocalFile]:
    full = os.path.join(base, path)
    if os.path.exists(full) or not glob.has_magic(path):
        return [LocalFile(path, full)]
    matches = sorted(glob.glob(full, recursive=True))
    if not matches:
        raise failure(codes.E_STORE_001, f"no file matches {path}", f"looked in {base or '.'}")
    return [
        LocalFile(os.path.relpath(match, base) if not os.path.isabs(path) else match, match)
        for match in matches
        if not os.path.isdir(match)
    ]
