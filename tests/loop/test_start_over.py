"""`--fresh`: the run that is there goes when everything the new one needs is open, not before."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loop_documents import make, run, stage

from sexpgpu.ir.document import Document, InitFrom
from sexpgpu.loop.data import loader
from sexpgpu.loop.events import read_events


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }  # fmt: skip


def no_file(document: Document, folder: Path) -> Document:
    source = {"kind": "npz", "path": "no-such-file.npz"}
    document.loaders[0].stages = [stage(source, 8, base=str(folder))]
    return document


def no_file_of_a_pass(document: Document, folder: Path) -> Document:
    source = {"kind": "npz", "path": "no-such-file.npz"}
    document.loaders[1].stages = [stage(source, 4, base=str(folder), shuffle=False)]
    return document


def no_weights(document: Document, folder: Path) -> Document:
    given = InitFrom(path="none.npz", base=str(folder), map=[], missing=[], extra=[])
    return document.changed(run=document.run.changed(init_from=given))


def other_weights(document: Document, folder: Path) -> Document:
    np.savez(folder / "some.npz", **{"fit/w": np.zeros((9, 9), np.float32)})
    given = InitFrom(path="some.npz", base=str(folder), map=[], missing=[], extra=[])
    return document.changed(run=document.run.changed(init_from=given))


def no_rest(document: Document, folder: Path) -> Document:
    document.evaluations[0].rest = None
    return document


@pytest.mark.parametrize(
    "broken, code",
    [
        (no_file, "E-STORE-001"),
        (no_file_of_a_pass, "E-STORE-001"),
        (no_weights, "E-CKPT-001"),
        (other_weights, "E-CKPT-012"),
        (no_rest, "E-EVAL-032"),
        (None, "E-DEV-001"),
    ],
)
def test_what_cannot_begin_leaves_the_old_run(
    tmp_path: Path, broken: Callable[[Document, Path], Document] | None, code: str
) -> None:
    assert run(make(steps=10), tmp_path).exit_status == 0
    before = files(tmp_path / "run")
    document = make(steps=10) if broken is None else broken(make(steps=10), tmp_path)
    options = {"device": "tpu"} if broken is None else {}
    refused = run(document, tmp_path, fresh=True, **options)
    assert refused.diagnostics[0].code.id == code
    assert refused.exit_status in (3, 5)
    assert files(tmp_path / "run") == before
    again = run(document, tmp_path, resume="10", allow_change=True, steps=12, **options)
    if code not in ("E-CKPT-001", "E-CKPT-012"):  # a resume needs no initial weights
        assert again.diagnostics[0].code.id == code
        assert files(tmp_path / "run") == before  # it has written nothing, either
        assert run(make(steps=10), tmp_path, resume="latest").state == "finished"


def test_a_stop_while_the_data_are_opened_leaves_the_old_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from threading import Event

    from sexpgpu.loop.signals import Requests

    assert run(make(steps=10), tmp_path).exit_status == 0
    before, release = files(tmp_path / "run"), Event()
    monkeypatch.setattr(
        loader.TrainingBatches, "__init__", lambda *_, **__: [release.wait(120)].clear()
    )
    init = Requests.__init__

    def stopped(self: Requests, *given: Any) -> None:
        init(self, *given)
        self.receive(15)

    monkeypatch.setattr(Requests, "__init__", stopped)
    result = run(make(steps=10), tmp_path, fresh=True, quiet=False)
    release.set()
    assert (result.exit_status, result.state) == (75, "stopped")
    assert "is as it was" in capsys.readouterr().err
    assert files(tmp_path / "run") == before


def test_the_new_run_is_as_if_alone(tmp_path: Path) -> None:
    """Nothing of the old one is left: other checkpoints, other events, its cut ones."""
    run(make(steps=20), tmp_path)
    run(make(steps=20), tmp_path, resume="10")
    assert (tmp_path / "run" / "events.cut.jsonl").exists()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    assert run(make(steps=5, every=5), tmp_path, fresh=True).exit_status == 0
    run(make(steps=5, every=5), tmp_path, slug="alone")
    left = files(tmp_path / "run").keys() - {"notes.txt"}
    assert {p for p in left if "/state/" not in p} == {
        p for p in files(tmp_path / "alone") if "/state/" not in p
    }
    kinds = [
        [e["kind"] for e in read_events(str(tmp_path / slug / "events.jsonl"))]
        for slug in ("run", "alone")
    ]
    assert kinds[0] == kinds[1]
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"


def test_checkpoints_without_their_events_are_something_to_lose(tmp_path: Path) -> None:
    run(make(steps=10), tmp_path)
    os.unlink(tmp_path / "run" / "events.jsonl")
    os.unlink(tmp_path / "run" / "status.json")
    refused = run(no_file(make(steps=10), tmp_path), tmp_path, fresh=True)
    assert refused.diagnostics[0].code.id == "E-STORE-001"
    assert (tmp_path / "run" / "checkpoints" / "10" / "meta.json").exists()
    assert run(make(steps=10), tmp_path, fresh=True).state == "finished"


def test_a_first_start_that_fails_tells_so_in_its_directory(tmp_path: Path) -> None:
    refused = run(no_file(make(steps=10), tmp_path), tmp_path, fresh=True)
    assert refused.diagnostics[0].code.id == "E-STORE-001"
    (closed,) = read_events(str(tmp_path / "run" / "events.jsonl"))
    assert closed["diagnostic"]["code"] == "E-STORE-001"
