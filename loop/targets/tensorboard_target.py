"""`--log tensorboard[:DIR]`: event files, in `tensorboard` in the run directory by default."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from importlib import import_module
from typing import Any

from sexpgpu.loop.targets.target import PLACES, scalars


def open_target(rest: str, directory: str, resumed_after: int) -> TensorboardTarget:
    return TensorboardTarget(rest or os.path.join(directory, PLACES["tensorboard"]))


class TensorboardTarget:
    """An event file. After a resume its first record tells readers to forget later steps."""

    def __init__(self, folder: str) -> None:
        os.makedirs(folder, exist_ok=True)
        base = "tensorboard.compat.proto"
        self._event: Any = import_module(f"{base}.event_pb2")
        self._summary: Any = import_module(f"{base}.summary_pb2")
        writer = import_module("tensorboard.summary.writer.event_file_writer")
        self._writer: Any = writer.EventFileWriter(folder)

    def take(self, record: Mapping[str, Any]) -> None:
        at = datetime.fromisoformat(record["time"]).timestamp()
        if record["kind"] == "resume":
            start = self._event.SessionLog(status=self._event.SessionLog.START)
            # what was written of the steps from here on is of a history that was cut
            event = self._event.Event(wall_time=at, step=record["step"] + 1, session_log=start)
            self._writer.add_event(event)
            return
        values = [
            self._summary.Summary.Value(tag=name, simple_value=value)
            for name, value in scalars(record)
        ]
        if values:
            summary = self._summary.Summary(value=values)
            event = self._event.Event(wall_time=at, step=record["step"], summary=summary)
            self._writer.add_event(event)

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()
