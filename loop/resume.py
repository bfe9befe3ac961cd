"""Where a run begins: at step 0, or at a checkpoint; and whether the experiment is still the same.

Knows what a checkpoint's meta data says of its experiment, not how a step is computed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from sexpgpu.diagnostics.codes import system as codes
from sexpgpu.diagnostics.model import Diagnostic
from sexpgpu.ir.document import Document
from sexpgpu.ir.types import TensorType
from sexpgpu.loop import checkpoint, directory, events, named
from sexpgpu.loop.data import identity
from sexpgpu.loop.failure import failure, warning


class Start:
    """What a run begins from.

    directory   the run directory to write
    path        the checkpoint, or None for step 0
    foreign     the checkpoint belongs to another run: its events stay there
    warnings    checkpoints passed over, nothing found
    among       the checkpoints there were when the newest was looked for; else None
    """

    __slots__ = ("among", "directory", "foreign", "path", "warnings")

    def __init__(
        self,
        directory: str,
        path: str | None = None,
        foreign: bool = False,
        warnings: Sequence[Diagnostic] = (),
        among: list[checkpoint.Found] | None = None,
    ) -> None:
        self.directory = directory
        self.path = path
        self.foreign = foreign
        self.warnings = list(warnings)
        self.among = among


def find_start(
    runs: str,
    slug: str,
    name: str,
    variants: Sequence[str],
    resume: str | None,
    chosen_slug: bool = False,
) -> Start:
    """Where to begin, of `--resume` (None, `latest`, a step, or a path).

    `latest`: the run of this slug, else the newest of the same name and variants, else step 0.
    `chosen_slug`: a person gave the slug, so the run is written there wherever it resumes from.
    Raises E-CKPT-001, -008.
    """
    own = os.path.join(runs, slug)
    if resume is None:
        return Start(own)
    if resume == "latest":
        at = own
        if not directory.has_run(own) and not chosen_slug:
            at = directory.newest_of_same_name(runs, name, variants, slug) or own
        among = checkpoint.list_checkpoints(at)
        path, warnings = checkpoint.newest_whole(at)
        if path is None and any(f.sealed and not f.bad for f in among):
            raise failure(
                codes.E_CKPT_002,
                f"every checkpoint of {at} is damaged",
                *(w.headline for w in warnings),
                fix="put back a copy of one, or start over by `--fresh`",
            )
        if path is None:
            warnings.append(warning(codes.W_CKPT_002, f"no checkpoint in {at}: starting at step 0"))
            return Start(own, None, False, warnings, checkpoint.list_checkpoints(own))
        return Start(at, path, False, warnings, among)
    if resume.isascii() and resume.isdigit():
        path = os.path.join(own, checkpoint.FOLDER, resume)
        if not os.path.isdir(path):
            steps = [str(f.step) for f in checkpoint.list_checkpoints(own) if f.sealed]
            raise failure(
                codes.E_CKPT_001,
                f"{own} has no checkpoint of step {resume}",
                f"it has {', '.join(steps) if steps else 'none'}",
            )
        return Start(own, path)
    return _at_path(own, resume, chosen_slug)


def _at_path(own: str, resume: str, chosen_slug: bool) -> Start:
    """A run directory or one of its checkpoints, as `named.find` takes them."""
    path = resume.rstrip("/")
    warnings: list[Diagnostic] = []
    if directory.has_run(path):
        run_directory = os.path.abspath(path)
        found, warnings = checkpoint.newest_whole(path)
        if found is None:
            raise failure(codes.E_CKPT_001, f"{path} has no whole checkpoint")
        path = found
    else:
        path = named.find(path)
        run_directory = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    if os.path.realpath(own) == os.path.realpath(run_directory):
        return Start(own, path, False, warnings)
    if chosen_slug or not directory.has_run(run_directory):
        return Start(own, path, True, warnings)
    return Start(run_directory, path, False, warnings)


def described(document: Document, ir_hash: str, data: identity.Data) -> dict[str, Any]:
    """What a checkpoint says of its experiment: enough to tell what a later one changes."""
    return {
        "ir": ir_hash,
        "run": document.run.to_json(),
        "groups": {group.name: group.to_json() for group in document.groups},
        "loaders": {loader.name: loader.to_json() for loader in document.loaders},
        "evaluations": {e.name: e.to_json() for e in document.evaluations},
        "selection": document.manifest.get("selection", {}),
        "data": data,
    }


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The differences of two descriptions, one a line: `run.steps: 100 -> 200`."""
    found: list[str] = []
    before, now = ({**events.plain(one), "data": None} for one in (old, new))
    _compare("", before, now, found)
    # paths and hashes say nothing that the rest does not
    told = [line for line in found if not line.startswith("ir:") and ".base:" not in line]
    told += identity.changed(old.get("data", {}), new.get("data", {}))
    return told or (["the graphs differ"] if old["ir"] != new["ir"] else [])


def check_experiment(
    meta: Mapping[str, Any], now: Mapping[str, Any], allow_change: bool
) -> Diagnostic | None:
    """A warning that lists what has changed, if anything has; E-CKPT-004 unless allowed."""
    before, step = meta["experiment"], meta["step"]
    same = before["ir"] == now["ir"] and before["run"]["steps"] == now["run"]["steps"]
    others = identity.changed(before.get("data", {}), now["data"])
    if same and not others:
        return None
    differences = changes(before, now)
    if not allow_change:
        what = f"the data are not those that checkpoint {step} was saved with"
        if not same:
            what = f"the experiment is not the one that checkpoint {step} was saved from"
        fix = "put back the data as they were, or accept the change with `--allow-change`"
        raise failure(codes.E_CKPT_004, what, *differences[:20], fix=fix if same else None)
    return warning(codes.W_CKPT_004, f"resumed at step {step} with changes", *differences[:20])


def check_tensors(
    found: Mapping[str, TensorType], wanted: Mapping[str, TensorType], path: str
) -> None:
    """E-CKPT-005 unless a checkpoint has just the tensors that the experiment needs."""
    problems = [f"{name} is not in the checkpoint" for name in wanted if name not in found]
    problems += [f"{name} is no longer used" for name in found if name not in wanted]
    problems += [
        f"{name} was {found[name]} and is {type}"
        for name, type in wanted.items()
        if name in found and not found[name].same_value(type)
    ]
    if problems:
        raise failure(
            codes.E_CKPT_005,
            f"checkpoint {path} does not fit the experiment: {problems[0]}",
            *problems[1:20],
        )


def _compare(where: str, old: Any, new: Any, found: list[str]) -> None:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            inner = f"{where}.{key}" if where else key
            if key not in new:
                found.append(f"{inner}: {_brief(old[key])} -> (none)")
            elif key not in old:
                found.append(f"{inner}: (none) -> {_brief(new[key])}")
            else:
                _compare(inner, old[key], new[key], found)
    elif old != new:
        found.append(f"{where}: {_brief(old)} -> {_brief(new)}")


def _brief(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "…"
