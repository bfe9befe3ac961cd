"""A profile of some steps (`--profile DIR`): what the device did, for TensorBoard or XProf."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from sexpgpu.diagnostics.codes.system import E_DEV_001
from sexpgpu.loop.failure import failure
from sexpgpu.lowering.backend import Backend

SKIPPED = 1  # dispatches before it: the first one touches memory that nobody touched before
LENGTH = 10  # dispatches in it


class Profiling:
    """Counts dispatches, and has the device record those after the first. A run of one dispatch
    leaves the directory empty. Raises SxError E-DEV-001 where the device records nothing, OSError
    where the directory cannot be made."""

    def __init__(self, backend: Backend, directory: str) -> None:
        if backend.profile is None:
            raise failure(
                E_DEV_001,
                f"the device {backend.name} records no profiles",
                fix="profile the device that is to be faster: --device cpu, or cuda",
            )
        os.makedirs(directory, exist_ok=True)
        self._begin = partial(backend.profile, directory)
        self._block = backend.block
        self._seen = 0
        self._stop: Callable[[], None] | None = None

    def dispatched(self, report: Any) -> None:
        """After each dispatch, of which `report` is a result."""
        self._seen += 1
        if self._seen == SKIPPED:
            self._block(report)
            self._stop = self._begin()
        elif self._seen == SKIPPED + LENGTH:
            self._block(report)
            self.end()

    def end(self) -> None:
        """Write what was recorded, if that was not done; also when the run has failed."""
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()
