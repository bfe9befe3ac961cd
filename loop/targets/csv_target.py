"""`--log csv[:FILE]`: one row a number: seq, time, step, series, value.

FILE is `metrics.csv` in the run directory unless given. After a resume each number
stands once: rows of a history that was cut are removed.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from typing import Any

from sexpgpu.loop.targets.target import PLACES, scalars

COLUMNS = ("seq", "time", "step", "series", "value")


def open_target(rest: str, directory: str, resumed_after: int) -> CsvTarget:
    return CsvTarget(rest or os.path.join(directory, PLACES["csv"]), resumed_after)


class CsvTarget:
    """An open file of rows."""

    def __init__(self, path: str, resumed_after: int) -> None:
        kept = _rows(path, resumed_after) if resumed_after >= 0 else []
        partial = f"{path}.tmp"
        with open(partial, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([COLUMNS, *kept])
        os.replace(partial, path)
        self._file = open(path, "a", newline="", encoding="utf-8")  # noqa: SIM115
        self._writer = csv.writer(self._file)

    def take(self, record: Mapping[str, Any]) -> None:
        about = (record["seq"], record["time"], record["step"])
        self._writer.writerows((*about, name, repr(value)) for name, value in scalars(record))

    def flush(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def _rows(path: str, last: int) -> list[list[str]]:
    """The whole rows of a file up to the record `last`."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = [row for row in csv.reader(file) if len(row) == len(COLUMNS)]
    except FileNotFoundError:
        return []
    return [row for row in rows[1:] if row[0].isdigit() and int(row[0]) <= last]
