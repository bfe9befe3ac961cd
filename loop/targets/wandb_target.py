"""`--log wandb[:PROJECT]`: a Weights & Biases run of the run directory's name. WANDB_MODE and W&B's
other variables are its own business; `offline` writes below the run directory.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from sexpgpu.loop.targets.target import scalars


def open_target(rest: str, directory: str, resumed_after: int) -> WandbTarget:
    return WandbTarget(rest or "sexpgpu", directory)


class WandbTarget:
    """One W&B run, gone on with when the run is resumed: its id is made of the directory."""

    def __init__(self, project: str, directory: str) -> None:
        wandb: Any = import_module("wandb")
        whole = os.path.abspath(directory)
        self._run: Any = wandb.init(
            project=project,
            name=os.path.basename(whole),
            id=hashlib.sha256(whole.encode()).hexdigest()[:16],
            dir=directory,
            resume="allow",
            settings=wandb.Settings(console="off", silent=True),
        )
        # W&B refuses steps that go back, as those after a resume do: the step is a series here
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")

    def take(self, record: Mapping[str, Any]) -> None:
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
        self._run.finish()
