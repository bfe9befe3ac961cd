"""Targets of a run's numbers: complete, never in the way; read by their own readers."""

import csv
import os
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from loop_documents import make, run

from sexpgpu.loop.events import read_events
from sexpgpu.loop.recorder import is_of_the_machine
from sexpgpu.loop.run import RunResult
from sexpgpu.loop.targets import csv_target, fan
from sexpgpu.loop.targets.target import scalars


def wanted(directory: Path) -> dict[tuple[int, str], float]:
    return {
        (event["step"], name): value
        for event in read_events(str(directory / "events.jsonl"))
        for name, value in scalars(event)
    }


def rows(path: Path) -> dict[tuple[int, str], float]:
    with path.open(newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    found = {(int(r["step"]), r["series"]): float(r["value"]) for r in table}
    assert len(found) == len(table)
    return found


def test_csv_has_every_number_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fan, "_PATIENCE", 60.0)
    result = run(make(steps=20), tmp_path, log=["csv", f"csv:{tmp_path / 'other.csv'}"])
    assert result.exit_status == 0
    assert rows(tmp_path / "run" / "metrics.csv") == wanted(tmp_path / "run")
    assert rows(tmp_path / "other.csv") == wanted(tmp_path / "run")
    assert "train/loss" in {name for _, name in wanted(tmp_path / "run")}


KILLED: list[fan.Fan] = []


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """The threads of runs that were stopped hard end with their test: a killed process has none."""
    yield
    for feed in (feed for one in KILLED for feed in one._feeds):
        feed._failed = True
        feed.end()  # it may be waiting for a record
        assert feed._thread is not None
        feed._thread.join(60)
    KILLED.clear()


def stopped_hard(tmp_path: Path, at: int, **options: Any) -> None:
    """A run that ends after a step without a word to anybody."""
    from sexpgpu.loop.train import Trainer

    original = Trainer._attend

    def attend(self: Trainer, waited: float) -> None:
        original(self, waited)
        if self.step == at:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_attend", attend)
        # killed: nobody waits for targets
        patch.setattr(fan.Fan, "close", lambda self: KILLED.append(self) or [])
        with pytest.raises(KeyboardInterrupt):
            run(make(steps=30), tmp_path, **options)


@pytest.mark.parametrize("flushed", [True, False])
def test_csv_after_a_kill(tmp_path: Path, flushed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fan, "_FLUSH", 0.01 if flushed else 60.0)
    stopped_hard(tmp_path, 18, log=["csv"])
    monkeypatch.setattr(fan, "_PATIENCE", 60.0)
    time.sleep(0.1)  # until it has written something, most often
    assert run(make(steps=30), tmp_path, resume="latest", log=["csv"]).exit_status == 0
    assert rows(tmp_path / "run" / "metrics.csv") == wanted(tmp_path / "run")


def test_a_target_may_come_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fan, "_PATIENCE", 60.0)
    run(make(steps=20), tmp_path)
    run(make(steps=30), tmp_path, resume="10", allow_change=True, log=["csv"])
    assert rows(tmp_path / "run" / "metrics.csv") == wanted(tmp_path / "run")


class Broken:
    """Behaves badly at a record."""

    def __init__(self, how: str) -> None:
        self.how = how
        self.taken = 0

    def take(self, record: Mapping[str, Any]) -> None:
        self.taken += 1
        if self.how == "raises" and self.taken > 3:
            raise ConnectionError("the server is away")
        if self.how == "exits" and self.taken > 3:
            raise RuntimeError("")
        if self.how == "hangs":
            time.sleep(60)
        if self.how == "slow":
            time.sleep(1.5)

    def flush(self) -> None: ...

    def close(self) -> None: ...


def warnings(result: RunResult) -> list[str]:
    events = read_events(f"{result.directory}/events.jsonl")
    told = [e["diagnostic"]["code"] for e in events if e["kind"] == "warning"]
    return told + [d.code.id for d in result.diagnostics]


@pytest.mark.parametrize("how", ["raises", "exits", "hangs", "slow", "full"])
def test_a_bad_target_is_not_in_the_way(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = run(make(steps=40, log_every=1), tmp_path, slug="plain")
    made = Broken("hangs" if how == "full" else how)
    monkeypatch.setattr(csv_target, "open_target", lambda *_: made)
    monkeypatch.setattr(fan, "_PATIENCE", 0.2)
    if how == "full":
        monkeypatch.setattr(fan, "_DEPTH", 5)
    began = time.monotonic()
    result = run(make(steps=40, log_every=1), tmp_path, slug="bad", log=["csv"])
    assert result.exit_status == 0
    assert time.monotonic() - began < 50  # 40 records of a slow target alone would take 60 s
    assert "W-STORE-002" in warnings(result)
    assert warnings(result).count("W-STORE-002") == 1
    same = {k: v.tobytes() for k, v in result.parameters.items()}
    assert same == {k: v.tobytes() for k, v in plain.parameters.items()}


def test_one_that_cannot_be_opened(tmp_path: Path) -> None:
    result = run(make(steps=20), tmp_path, log=[f"csv:{tmp_path}/no/such/folder/a.csv"])
    assert result.exit_status == 0
    assert "W-STORE-002" in warnings(result)


def test_mistakes_in_names_are_told_before_the_run(tmp_path: Path) -> None:
    result = run(make(steps=20), tmp_path, log=["tensorbord"])
    assert result.diagnostics[0].code.id == "E-RUN-033"
    assert "tensorboard" in str(result.diagnostics[0].fix)
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(find_spec("wandb") is not None, reason="wandb is installed")
def test_a_package_that_is_not_there(tmp_path: Path) -> None:
    result = run(make(steps=20), tmp_path, log=["wandb"])
    assert (result.exit_status, result.diagnostics[0].code.id) == (5, "E-DEV-005")


def ours(directory: Path) -> dict[tuple[int, str], float]:
    return {k: v for k, v in wanted(directory).items() if not is_of_the_machine(k[1])}


@pytest.mark.filterwarnings("ignore")
def test_tensorboard_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.setattr(fan, "_FLUSH", 0.01)
    monkeypatch.setattr(fan, "_PATIENCE", 120.0)
    stopped_hard(tmp_path, 18, log=["tensorboard"])
    time.sleep(0.2)
    result = run(make(steps=30), tmp_path, resume="latest", log=["tensorboard"])
    assert (result.exit_status, warnings(result)) == (0, [])
    reader = EventAccumulator(str(tmp_path / "run" / "tensorboard"), {"scalars": 0})
    reader.Reload()
    found = {
        (point.step, tag): point.value
        for tag in reader.Tags()["scalars"]
        for point in reader.Scalars(tag)
        if not is_of_the_machine(tag)
    }
    assert found == pytest.approx(ours(tmp_path / "run"), rel=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_mlflow_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow")
    from mlflow.tracking import MlflowClient

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # for the clients that look
    monkeypatch.setattr(fan, "_PATIENCE", 120.0)
    result = run(make(steps=20), tmp_path, log=["mlflow"])
    assert (result.exit_status, warnings(result)) == (0, [])
    client = MlflowClient(f"file://{tmp_path}/run/mlruns")
    (experiment,) = [e for e in client.search_experiments() if e.name == "tiny.sx"]
    (one,) = client.search_runs([experiment.experiment_id])
    found = {
        (point.step, name): point.value
        for name in one.data.metrics
        for point in client.get_metric_history(one.info.run_id, name)
    }
    assert found == wanted(tmp_path / "run")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mlflow_goes_on_with_a_run_and_begins_a_fresh_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow")
    from mlflow.tracking import MlflowClient

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # for the clients that look
    monkeypatch.setattr(fan, "_PATIENCE", 120.0)
    log = [f"mlflow:{tmp_path}/elsewhere"]
    client = MlflowClient(f"file://{tmp_path}/elsewhere")
    for options, runs in (({}, 1), ({"resume": "10"}, 1), ({"fresh": True}, 2)):
        assert warnings(run(make(steps=20), tmp_path, log=log, **options)) == []
        (experiment,) = [e for e in client.search_experiments() if e.name == "tiny.sx"]
        assert len(client.search_runs([experiment.experiment_id])) == runs


def leveldb_records(data: bytes) -> Iterator[bytes]:
    """The records of a log in LevelDB's format, which .wandb files have after seven bytes: in
    blocks of 32 KiB, of which those take up the first's part; each a CRC, a length and a type (1
    whole, 2 first, 3 middle, 4 last)."""
    at, parts = 0, b""
    while at + 7 <= len(data):
        left = 32768 - (at + 7) % 32768
        if left < 7:
            at += left
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        parts += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield parts
            parts = b""


@pytest.mark.filterwarnings("ignore")
def test_wandb_takes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    from wandb.proto import wandb_internal_pb2

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setattr(fan, "_PATIENCE", 120.0)
    result = run(make(steps=20), tmp_path, log=["wandb:test"])
    assert (result.exit_status, warnings(result)) == (0, [])
    (path,) = (tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb")
    found: dict[tuple[int, str], float] = {}
    for data in leveldb_records(path.read_bytes()[7:]):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") != "history":
            continue
        row = {"/".join(i.nested_key) or i.key: i.value_json for i in record.history.item}
        step = int(float(row["step"]))
        found |= {(step, n): float(v) for n, v in row.items() if n[0] != "_" and n != "step"}
    assert found == pytest.approx(wanted(tmp_path / "run"))
    assert os.environ["WANDB_MODE"] == "offline"
