"""`--resume` by name: the exact run, else the newest of the same name and variants; RUN@STEP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from loop_documents import make, run

from sexpgpu.ir.document import Document
from sexpgpu.loop.run import RunResult


def one(clip: float, variants: tuple[str, ...] = (), name: str = "tiny") -> Document:
    """A run that another `clip` gives another hash, and so another slug."""
    document = make(steps=10, clip=clip, name=name)
    document.manifest["selection"]["variants"] = list(variants)
    return document


def latest(document: Document, runs: Path, **options: Any) -> RunResult:
    return run(document, runs, slug=None, resume="latest", **options)


def test_the_exact_run_comes_first(tmp_path: Path) -> None:
    first = latest(one(1.0), tmp_path, steps=10)
    other = latest(one(0.5), tmp_path, allow_change=True)
    assert other.directory == first.directory  # there was no run of its own yet
    alone = run(one(0.5), tmp_path, slug=None)
    assert alone.directory != first.directory
    again = latest(one(1.0), tmp_path, allow_change=True)
    assert (again.directory, again.state) == (first.directory, "finished")


def test_an_edited_file_is_refused_by_name_of_its_run(tmp_path: Path) -> None:
    first = run(one(1.0), tmp_path, slug=None)
    refused = latest(one(0.5), tmp_path)
    (found,) = refused.diagnostics
    assert found.code.id == "E-CKPT-004"
    assert [n.text for n in found.notes] == ["run.clip_norm: 1.0 -> 0.5"]
    assert refused.directory == first.directory
    assert len(os.listdir(tmp_path)) == 1  # nothing was begun beside it


def test_the_newest_of_several(tmp_path: Path) -> None:
    made = [run(one(clip), tmp_path, slug=None).directory for clip in (1.0, 2.0, 3.0)]
    for age, directory in zip((30, 10, 20), made, strict=True):
        status = os.path.join(str(directory), "status.json")
        then = os.stat(status).st_mtime - age
        os.utime(status, (then, then))
    assert latest(one(0.5), tmp_path).directory == made[1]


def test_other_names_and_variants_are_other_runs(tmp_path: Path) -> None:
    run(one(1.0), tmp_path, slug=None)
    for document in (one(0.5, name="other"), one(0.5, ("wide",))):
        begun = latest(document, tmp_path)
        assert begun.exit_status == 0
        assert [d.code.id for d in begun.diagnostics] == ["W-CKPT-002"]
    wide = latest(one(0.25, ("wide",)), tmp_path)
    assert wide.diagnostics[0].code.id == "E-CKPT-004"


def test_a_checkpoint_by_its_short_name(tmp_path: Path) -> None:
    """As `sexpgpu checkpoint` takes it: RUN@STEP, RUN@best."""
    document = make(steps=20, best=("min", "eval/valid/loss"))
    whole = run(document, tmp_path, slug="whole")
    run_directory = str(whole.directory)
    at = run(document, tmp_path, slug="at", resume=f"{run_directory}@10")
    assert (at.exit_status, at.step) == (0, 20)
    assert at.parameters["fit/w"].tobytes() == whole.parameters["fit/w"].tobytes()
    assert run(document, tmp_path, slug="best", resume=f"{run_directory}@best").exit_status == 0
    missing = run(document, tmp_path, slug="none", resume=f"{run_directory}@11")
    assert missing.diagnostics[0].code.id == "E-CKPT-001"
    assert "it has 10, 20" in missing.diagnostics[0].notes[0].text
    assert not (tmp_path / "none").exists()
