"""What a target is, and how one is named: `csv:FILE`, `tensorboard[:DIR]`, `wandb`, `mlflow`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Protocol

from sexpgpu.diagnostics.codes.run import E_RUN_033
from sexpgpu.diagnostics.codes.system import E_DEV_005
from sexpgpu.diagnostics.suggest import did_you_mean
from sexpgpu.loop import events
from sexpgpu.loop.failure import failure

KINDS = {"csv": None, "tensorboard": "tensorboard", "wandb": "wandb", "mlflow": "mlflow"}
"""Kind -> the package that it needs, which is also the name of the extra."""

PLACES = {"csv": "metrics.csv", "tensorboard": "tensorboard", "wandb": "wandb", "mlflow": "mlruns"}
"""Kind -> what it writes in the run directory, unless it is told to write elsewhere."""


class Target(Protocol):
    """Takes event records in their order, from one thread. Any method may raise: the target is
    then left alone for the rest of the run."""

    def take(self, record: Mapping[str, Any]) -> None:
        """One event record, as `events.jsonl` has it."""
        ...

    def flush(self) -> None:
        """Everything taken is where it belongs when this returns."""
        ...

    def close(self) -> None: ...


def parsed(spec: str) -> tuple[str, str]:
    """The kind of a target and what follows the colon; E-RUN-033 for a kind that is not known,
    E-DEV-005 for one whose package is not installed."""
    from importlib.util import find_spec

    kind, _, rest = spec.partition(":")
    if kind not in KINDS:
        raise failure(
            E_RUN_033,
            f"--log: no target is called {kind!r}",
            fix=did_you_mean(kind, KINDS) or f"there are {', '.join(KINDS)}",
        )
    package = KINDS[kind]
    if package is not None and find_spec(package) is None:
        raise failure(
            E_DEV_005,
            f"--log {kind} needs the Python package {package}",
            fix=f"pip install 'sexpgpu[{package}]'",
        )
    return kind, rest


def open_target(spec: str, directory: str, resumed_after: int) -> Target:
    """The target that a spec names, for the run in `directory`. `resumed_after`: the `seq` of the
    last record that it has, from before; -1 when it has none."""
    kind, rest = parsed(spec)
    made: Target = import_module(f"sexpgpu.loop.targets.{kind}_target").open_target(
        rest, directory, resumed_after
    )
    return made


def scalars(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of a train, eval or diagnostic record by series; "nan" and "inf" as floats."""
    for part in ("metrics", "values"):
        for name, value in record.get(part, {}).items():
            if isinstance(value, int | float | str):
                yield name, float(value)


def begun(directory: str, record: Mapping[str, Any]) -> str:
    """When the run of a record began: what tells it from one that stood in its directory before.
    `record`: the first that a target takes, an `open` event or one of a resumed run."""
    if record["kind"] == "open":
        return str(record["time"])
    first = next(events.read_events(os.path.join(directory, events.FILE)))
    return str(first["time"])
