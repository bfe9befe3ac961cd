"""Every event and status that runs write is as the schemas in the package say."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from loop_documents import make, run
from referencing import Registry, Resource

from sexpgpu.cli.tail import KINDS
from sexpgpu.loop.checkpoint import Checkpointer
from sexpgpu.loop.events import annotate, read_events
from sexpgpu.loop.status import read_status


def schema(name: str) -> dict[str, Any]:
    return json.loads((files("sexpgpu") / "loop" / f"{name}.schema.json").read_text("utf-8"))


REGISTRY = Registry().with_resources(
    (f"{n}.schema.json", Resource.from_contents(schema(n))) for n in ("events", "status")
)


def validator(name: str) -> Draft202012Validator:
    # references between the two files, and within each, are by file name
    text = json.dumps(schema(name)).replace('"#/', f'"{name}.schema.json#/')
    return Draft202012Validator(json.loads(text), registry=REGISTRY)


def check(directory: Path) -> list[str]:
    """Validate a run directory; gives the kinds of its events."""
    events = list(read_events(str(directory / "events.jsonl")))
    of_kind = {row["title"]: row for row in schema("events")["oneOf"]}
    for event in events:
        assert event["kind"] in of_kind
        validator("events").validate(event)
    status = read_status(str(directory))
    validator("status").validate(status)
    return [event["kind"] for event in events]


def test_the_schemas_are_schemas() -> None:
    for name in ("events", "status"):
        Draft202012Validator.check_schema(schema(name))
    titles = [row["title"] for row in schema("events")["oneOf"]]
    assert sorted(titles) == sorted(KINDS)
    assert all(
        row["properties"]["kind"]["const"] == row["title"] for row in schema("events")["oneOf"]
    )


def test_a_whole_run(tmp_path: Path) -> None:
    run(make(steps=20, best=("min", "eval/valid/loss"), at_start=True), tmp_path)
    annotate(str(tmp_path / "run"), "hello")
    kinds = check(tmp_path / "run")
    assert set(kinds) == {"open", "train", "eval", "checkpoint", "annotation", "close"}


def test_a_resumed_run(tmp_path: Path) -> None:
    run(make(steps=20), tmp_path)
    run(make(steps=30), tmp_path, resume="10", allow_change=True)
    assert {"resume", "warning"} <= set(check(tmp_path / "run"))


@pytest.mark.parametrize("finite", ["abort", "skip"])
def test_non_finite_runs(tmp_path: Path, finite: str) -> None:
    run(make(steps=30, bad=7, finite=finite, log_every=1), tmp_path)
    kinds = check(tmp_path / "run")
    assert "warning" in kinds or finite == "abort"
    last = list(read_events(str(tmp_path / "run" / "events.jsonl")))[-1]
    assert last["exit"] == (4 if finite == "abort" else 0)


def test_a_failed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Checkpointer, "_write", write)
    run(make(steps=20), tmp_path)
    check(tmp_path / "run")


def test_a_signalled_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sexpgpu.loop.train import Trainer

    original = Trainer._attend

    def attend(self: Trainer, waited: float) -> None:
        if self.step == 3:
            self.parts.requests.receive(15)
        original(self, waited)

    monkeypatch.setattr(Trainer, "_attend", attend)
    run(make(steps=20), tmp_path)
    assert "signal" in check(tmp_path / "run")


def test_what_is_not_in_the_schema_is_refused() -> None:
    base = {"seq": 0, "time": "2026-01-31T12:00:00.000000Z", "step": 0}
    good = base | {"kind": "train", "metrics": {"train/loss": "nan", "x": [1, [2.0]]}}
    validator("events").validate(good)
    for bad in (
        good | {"more": 1},
        good | {"kind": "trian"},
        good | {"metrics": {"train/loss": None}},
        base | {"kind": "train"},
        good | {"time": "now"},
    ):
        assert list(validator("events").iter_errors(bad)), bad
