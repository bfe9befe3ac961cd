"""`events.jsonl`: one JSON object a line, each (step, series) exactly once.

The log is appended to under a file lock, because `annotate` may add a line while the run
goes on: whoever writes takes the next `seq`. A line is written whole or taken back. Where somebody
removes the file of a run that goes on, or cuts it short, the run goes on too, and tells so in it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sexpgpu.diagnostics.codes import system as codes
from sexpgpu.diagnostics.model import Diagnostic
from sexpgpu.loop.failure import as_json, failure, warning

FILE = "events.jsonl"
CUT_FILE = "events.cut.jsonl"

_LONGEST_LINE = 1 << 24  # bytes looked through for the start of a line
_DURABLE = frozenset({"open", "checkpoint", "resume", "warning", "annotation", "close"})


def now() -> str:
    """UTC, ISO 8601, to the microsecond: `2026-01-31T12:00:00.000000Z`."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def plain(value: Any) -> Any:
    """`value` as JSON has it: NumPy scalars as numbers, non-finite ones as their names."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, bool | str) or value is None:
        return value
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def as_line(record: Mapping[str, Any]) -> str:
    """The record as one line of JSON, newline included."""
    return json.dumps(plain(record), ensure_ascii=False, allow_nan=False) + "\n"


def _record(line: bytes) -> dict[str, Any] | None:
    """The record of a line; None for a line that is none (the file was damaged or edited)."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("kind"), str):
        return None
    return found if all(isinstance(found.get(key), int) for key in ("seq", "step")) else None


def read_events(path: str) -> Iterator[dict[str, Any]]:
    """The records of an events file; a half line at its end is ignored, and so is a line that is
    no record."""
    with open(path, "rb") as file:
        for line in file:
            record = _record(line) if line.endswith(b"\n") else None
            if record is not None:
                yield record


class Follower:
    """Reads an events file that goes on growing: each `read` gives the records since the last."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._offset = 0
        self._last = b""  # the line that ends at the offset
        self._given: dict[int, str] = {}  # seq -> time of what stands before the offset

    def read(self) -> list[dict[str, Any]]:
        """The whole new lines. After a resume has cut the file, those that were not given before:
        annotations that it kept are not given again."""
        with open(self._path, "rb") as file:
            file.seek(self._offset - len(self._last))
            before: dict[int, str] = {}
            if file.read(len(self._last)) != self._last:
                before, self._given = self._given, {}
                self._offset, self._last = file.seek(0), b""
            data = file.read()
        lines = data[: data.rfind(b"\n") + 1].splitlines(keepends=True)
        self._offset += sum(map(len, lines))
        self._last = lines[-1] if lines else self._last
        records = [found for line in lines if (found := _record(line)) is not None]
        self._given |= {record["seq"]: str(record.get("time")) for record in records}
        times = set(before.values())
        return [
            record
            for record in records
            if before.get(record["seq"]) != str(record.get("time"))
            and not (record["kind"] == "annotation" and str(record.get("time")) in times)
        ]


def annotate(directory: str, text: str, step: int | None = None) -> dict[str, Any]:
    """Add an annotation to a run, running or not. `step`: that of its last event by default."""
    path = os.path.join(directory, FILE)
    if not os.path.exists(path):
        raise failure(codes.E_CKPT_008, f"{directory} is no run directory: it has no {FILE}")
    at = max((event["step"] for event in read_events(path)), default=0) if step is None else step
    log = EventLog(directory)
    try:
        return log.append("annotation", at, text=text)
    finally:
        log.close()


def check_mark(directory: str, mark: Mapping[str, int]) -> None:
    """E-CKPT-010 unless a run's log is the one that a checkpoint's mark was taken from: as long
    as it says, with the record before it at its end."""
    problem = _other_than(directory, mark)
    if problem:
        raise failure(codes.E_CKPT_010, f"{FILE} does not match the checkpoint: {problem}")


def log_problem(directory: str, mark: Mapping[str, int] | None, ended: bool) -> str | None:
    """What is wrong with a run's log, in words, or None. `mark`: that of a checkpoint; `ended`:
    the run's status says that it has ended."""
    problem = None if mark is None else _other_than(directory, mark)
    if problem:
        return problem
    seq, closed = 0, False
    try:
        with open(os.path.join(directory, FILE), "rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break  # half a line: its writer was killed
                record = _record(line)
                if record is None:
                    return f"line {number} is no event"
                if record["seq"] != seq:
                    return f"line {number} has seq {record['seq']} in place of {seq}"
                seq += 1
                if record["kind"] in ("open", "resume", "close"):
                    closed = record["kind"] == "close"
    except FileNotFoundError:
        return "it is missing"
    return "the close event is missing, though the run has ended" if ended and not closed else None


def _other_than(directory: str, mark: Mapping[str, int]) -> str | None:
    """Why a log is not the one that a mark was taken from, or None."""
    seq, offset = mark["seq"], mark["offset"]
    problem = None
    try:
        with open(os.path.join(directory, FILE), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, min(offset, size) - _LONGEST_LINE))
            before = file.read(min(offset, size) - file.tell())
    except FileNotFoundError:
        size, before = 0, b""
    if size < offset:
        problem = f"it has {size} bytes and had {offset} when the checkpoint was taken"
    elif offset:
        last = before[before.rfind(b"\n", 0, -1) + 1 :]
        try:
            found = json.loads(last)["seq"] if last.endswith(b"\n") else None
        except (ValueError, KeyError, TypeError):
            found = None
        if found != seq - 1:
            problem = f"no record of seq {seq - 1} ends at byte {offset}"
    return problem


class EventLog:
    """The events of one run, open for appending. `listener` is called with each new record."""

    def __init__(
        self, directory: str, listener: Callable[[dict[str, Any]], None] | None = None
    ) -> None:
        self._directory = directory
        self._listener = listener
        self._path = os.path.join(directory, FILE)
        self._fd = self._open()
        self._size = 0  # how far the file is known; another process may have added to it
        self._seq = 0
        self._lost = False  # what was known of it is there no more, which is still to be told

    def append(self, kind: str, step: int, **fields: Any) -> dict[str, Any]:
        """Write a record and give it; durable kinds are on the disk when this returns.

        Raises E-STORE-004 on a full disk, E-STORE-006 on another error; the file then ends with
        the last whole line.
        """
        with self._locked():
            record = {"kind": kind, "seq": self._seq, "time": now(), "step": step, **plain(fields)}
            self._write(record)
        if kind in _DURABLE:
            self.sync()
        if self._listener is not None:
            self._listener(record)
        if self._lost:
            self._lost = False
            what = f"{self._path} was removed or cut short while the run writes it"
            self.warn(warning(codes.W_CKPT_005, what), step)
        return record

    def warn(self, found: Diagnostic, step: int) -> None:
        """Append a warning."""
        self.append("warning", step, diagnostic=as_json(found))

    def mark(self) -> dict[str, int]:
        """Where the log stands, for a checkpoint: the next `seq` and the `offset` in bytes.
        All before it is on the disk when this returns."""
        with self._locked():
            mark = {"seq": self._seq, "offset": self._size}
        self.sync()
        return mark

    def cut(self, mark: Mapping[str, int]) -> list[dict[str, Any]]:
        """Go back to a checkpoint's mark: what follows moves to `events.cut.jsonl`. Gives what was
        cut; `keep_annotations` writes again what people said.

        Raises E-CKPT-010 when the log is not the one the checkpoint was taken beside.
        """
        seq, offset = mark["seq"], mark["offset"]
        with self._locked(catch_up=False):
            size = os.fstat(self._fd).st_size
            check_mark(self._directory, mark)
            tail = self._read(offset, size)
            if tail:
                cut_path = os.path.join(self._directory, CUT_FILE)
                with open(cut_path, "ab") as file:
                    file.write(tail if tail.endswith(b"\n") else tail + b"\n")
                    file.flush()
                    os.fsync(file.fileno())
            os.ftruncate(self._fd, offset)
            self._size, self._seq = offset, seq
            whole = tail[: tail.rfind(b"\n") + 1]
        self.sync()
        return [record for line in whole.splitlines() if (record := _record(line)) is not None]

    def keep_annotations(self, cut: Sequence[Mapping[str, Any]]) -> None:
        """Write the annotations among the records that were cut again, as they were."""
        with self._locked():
            for record in cut:
                if record["kind"] == "annotation":
                    self._write({**record, "seq": self._seq})
        self.sync()

    def sync(self) -> None:
        """Wait until everything written is on the disk."""
        try:
            os.fsync(self._fd)
        except OSError as error:
            raise self._failed(error) from None

    def close(self) -> None:
        os.close(self._fd)

    def _open(self) -> int:
        return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def _rejoin(self) -> None:
        """Go on in the file that is there now, if it is no longer the one that was opened."""
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.stat(self._path), os.fstat(self._fd)):
                return
        try:
            there = self._open()
        except OSError as error:
            raise self._failed(error) from None
        os.close(self._fd)
        self._fd, self._size, self._lost = there, 0, True

    @contextlib.contextmanager
    def _locked(self, catch_up: bool = True) -> Iterator[None]:
        if catch_up and self._seq:
            self._rejoin()
        with contextlib.suppress(OSError):  # a file system without locks: one writer, then
            fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            if catch_up:
                self._catch_up()
            yield
        finally:
            with contextlib.suppress(OSError):
                fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _catch_up(self) -> None:
        """Learn of lines that others wrote; drop a half line that a killed writer left."""
        size = os.fstat(self._fd).st_size
        if size == self._size:
            return
        if size < self._size:
            self._size, self._lost = self._read(0, size).rfind(b"\n") + 1, True
        tail = self._read(self._size, size)
        whole = tail[: tail.rfind(b"\n") + 1]
        for line in whole.splitlines():
            record = _record(line)
            if record is not None:
                self._seq = record["seq"] + 1
        self._size += len(whole)
        if len(whole) < len(tail):
            os.ftruncate(self._fd, self._size)

    def _write(self, record: Mapping[str, Any]) -> None:
        data = as_line(record).encode()
        written = 0
        try:
            while written < len(data):
                written += os.pwrite(self._fd, data[written:], self._size + written)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._size)
            raise self._failed(error) from None
        self._size += len(data)
        self._seq = record["seq"] + 1

    def _read(self, start: int, stop: int) -> bytes:
        parts: list[bytes] = []
        while start < stop:
            part = os.pread(self._fd, stop - start, start)
            if not part:
                break
            parts.append(part)
            start += len(part)
        return b"".join(parts)

    def _failed(self, error: OSError) -> Exception:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        return failure(
            codes.E_STORE_004 if full else codes.E_STORE_006,
            f"cannot write {os.path.join(self._directory, FILE)}: {error.strerror}",
        )
