"""`--log mlflow[:URI]`: an MLflow run of the run directory's name; URI (or MLFLOW_TRACKING_URI) is
a server or a folder, `mlruns` in the run directory unless given. The experiment is named as
the file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from importlib import import_module
from typing import Any

from sexpgpu.loop.targets.target import PLACES, begun, scalars

TAGS = ("sexpgpu.directory", "sexpgpu.begun")  # what tells an MLflow run from all others
_AT_ONCE = 500  # metrics in a request; a server takes no more than 1,000


def open_target(rest: str, directory: str, resumed_after: int) -> MlflowTarget:
    uri = rest or os.environ.get("MLFLOW_TRACKING_URI")
    return MlflowTarget(
        uri or os.path.join(os.path.abspath(directory), PLACES["mlflow"]), directory
    )


class MlflowTarget:
    """One MLflow run, found again by its tags when the run is resumed."""

    def __init__(self, uri: str, directory: str) -> None:
        if "://" not in uri:
            # MLflow asks that one says so who wants a plain folder
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
            uri = f"file://{os.path.abspath(uri)}"
        tracking: Any = import_module("mlflow.tracking")
        self._entities: Any = import_module("mlflow.entities")
        self._client: Any = tracking.MlflowClient(tracking_uri=uri)
        self._directory = os.path.abspath(directory)
        self._run: str | None = None
        self._waiting: list[Any] = []

    def take(self, record: Mapping[str, Any]) -> None:
        if record["kind"] in ("open", "resume") and self._run is None:
            name = record["manifest"].get("entry") or "sexpgpu"
            self._run = self._found(name, begun(self._directory, record))
        if record["kind"] == "open":
            for name, knob in record["manifest"].get("selection", {}).get("knobs", {}).items():
                self._client.log_param(self._run, name, knob["value"])
        at = int(datetime.fromisoformat(record["time"]).timestamp() * 1000)
        for name, value in scalars(record):
            self._waiting.append(self._entities.Metric(name, value, at, record["step"]))
        if len(self._waiting) >= _AT_ONCE:
            self.flush()

    def flush(self) -> None:
        while self._waiting and self._run is not None:
            self._client.log_batch(self._run, metrics=self._waiting[:_AT_ONCE])
            del self._waiting[:_AT_ONCE]

    def close(self) -> None:
        self.flush()
        if self._run is not None:
            self._client.set_terminated(self._run)

    def _found(self, name: str, began: str) -> str:
        tags = dict(zip(TAGS, (self._directory, began), strict=True))
        experiment = self._client.get_experiment_by_name(name)
        number = experiment.experiment_id if experiment else self._client.create_experiment(name)
        wanted = " and ".join(f"tags.`{tag}` = '{value}'" for tag, value in tags.items())
        runs = self._client.search_runs([number], wanted)
        if runs:
            return str(runs[0].info.run_id)
        made = self._client.create_run(
            number, tags=tags, run_name=os.path.basename(self._directory)
        )
        return str(made.info.run_id)
