"""Which bytes a run reads: told when its data are opened, kept in its checkpoints, and compared
when it is resumed, as other data under the same names would be another run.

Names and dates do not count: a copy of a file is the same data. Costs nothing that grows with the
data: what is small is digested whole; of a large npz file the checksums that the archive has of
every array; of a large text its size, and blocks spread evenly over it, both ends among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

from sexpgpu.loop.data.files import LocalFile, unreadable

WHOLE = 1 << 25
"""Bytes of all files of a source up to which every byte is digested."""

BLOCKS, BLOCK = 64, 1 << 14
"""How many blocks of a larger source are digested, and their bytes."""

SHOWN = 64
"""Files of a source up to which each has an entry of its own."""

Data = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]
"""{loader: {stage: [{"name", "bytes", "digest"}]}}, as checkpoints keep it."""


class Identity(NamedTuple):
    """A file: the name people know it by, its size in bytes, the digest of what is in it."""

    name: str
    bytes: int
    digest: str

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "bytes": self.bytes, "digest": self.digest}


def identities(
    files: Sequence[LocalFile], checksums: Callable[[LocalFile], bytes] | None = None
) -> list[Identity]:
    """One of each file, or one of all where they are many. `checksums`: gives what stands for all
    that is in a file, where the file tells that. From then on each file knows itself again.
    E-STORE-… for a file that cannot be read."""
    total = sum(file.size for file in files)
    found: list[Identity] = []
    start = 0
    for file in files:
        look = partial(_digest, file, start, total, checksums)
        found.append(Identity(file.name, file.size, look()))
        file.known_by(look, found[-1].digest)
        start += file.size
    if len(found) <= SHOWN:
        return found
    every = blake2b(
        "".join(f"{one.bytes} {one.digest}\n" for one in found).encode(), digest_size=16
    )
    return [Identity(f"{len(found)} files", total, every.hexdigest())]


def _digest(
    file: LocalFile, start: int, total: int, checksums: Callable[[LocalFile], bytes] | None
) -> str:
    """That of a file which begins at byte `start` of the `total` of its source."""
    digest = blake2b(digest_size=16)
    if total <= WHOLE:
        _add(digest, file, [(0, file.size)])
    elif checksums is not None:
        digest.update(checksums(file))
    else:
        _add(digest, file, _blocks(start, file.size, total))
    return digest.hexdigest()


def _blocks(start: int, size: int, total: int) -> Iterable[tuple[int, int]]:
    """The (offset, bytes) of those blocks of a source that begin in the file which begins there."""
    for index in range(BLOCKS):
        at = index * (total - BLOCK) // (BLOCKS - 1) - start
        if 0 <= at < size:
            yield at, min(BLOCK, size - at)


def _add(digest: Any, file: LocalFile, parts: Iterable[tuple[int, int]]) -> None:
    try:
        with open(file.path, "rb", buffering=0) as opened:
            for at, count in parts:
                opened.seek(at)
                while count and (read := opened.read(min(count, 1 << 20))):
                    digest.update(read)
                    count -= len(read)
    except OSError as error:
        raise unreadable(file.name, error) from None


def changed(before: Data, now: Data) -> list[str]:
    """How the data differ, a line each: `data of train: a.npz: 120 bytes -> 140 bytes`. A loader or
    stage that only one of them has is no difference: the text tells that."""
    lines: list[str] = []
    for loader in sorted(before.keys() & now.keys()):
        for stage in sorted(before[loader].keys() & now[loader].keys()):
            found = _differences(before[loader][stage], now[loader][stage])
            lines += [f"data of {loader}: {line}" for line in found]
    return list(dict.fromkeys(lines))  # stages often read the same files


def _differences(
    before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]
) -> Iterable[str]:
    if len(before) != len(now):
        yield f"{_files(before)} -> {_files(now)}"
        return
    pairs = list(zip(before, now, strict=True))
    # one of another size has other blocks of the others digested, too
    resized = any(old["bytes"] != new["bytes"] for old, new in pairs)
    for old, new in pairs:
        names = [old["name"], *([new["name"]] if new["name"] != old["name"] else [])]
        if old["bytes"] != new["bytes"]:
            yield f"{' -> '.join(names)}: {old['bytes']} bytes -> {new['bytes']} bytes"
        elif old["digest"] != new["digest"] and not resized:
            yield f"{' -> '.join(names)}: other bytes, as many as before"


def _files(entries: Sequence[Mapping[str, Any]]) -> str:
    only = entries[0]["name"] if len(entries) == 1 else f"{len(entries)} files"
    return f"{only} of {sum(entry['bytes'] for entry in entries)} bytes"
