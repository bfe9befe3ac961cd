"""`--log wandb[:PROJECT]`: a Weights & Biases run of the run directory's name. WANDB_MODE and W&B's
other variables are its own business; `offline` writes below the run directory.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from sexpgpu.loop.targets.target import begun, scalars


def open_target(rest: str, directory: str, resumed_after: int) -> WandbTarget:
    return WandbTarget(rest or "sexpgpu", directory)


class WandbTarget:
    """One W&B run, gone on with when the run is resumed: its id is made of the directory and of
    when the run began there."""

    def __init__(self, project: str, directory: str) -> None:
        self._wandb: Any = import_module("wandb")
        self._project = project
        self._directory = directory
        self._run: Any = None

    def take(self, record: Mapping[str, Any]) -> None:
        if self._run is None:
            self._run = self._opened(begun(self._directory, record))
        if record["kind"] == "open":
            self._run.config.update(
                {"run": record["configuration"], "manifest": record["manifest"]},
                allow_val_change=True,
            )
        values = dict(scalars(record))
        if values:
            self._run.log({**values, "step": record["step"]})

    def flush(self) -> None:
        """W&B's own process has what was logged."""

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()

    def _opened(self, began: str) -> Any:
        whole = os.path.abspath(self._directory)
        run = self._wandb.init(
            project=self._project,
            name=os.path.basename(whole),
            id=hashlib.sha256(f"{whole} {began}".encode()).hexdigest()[:16],
            dir=self._directory,
            resume="allow",
            settings=self._wandb.Settings(console="off", silent=True),
        )
        # W&B refuses steps that go back, as those after a resume do: the step is a series here
        run.define_metric("step")
        run.define_metric("*", step_metric="step")
        return run
