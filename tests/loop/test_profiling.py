"""`--profile DIR`: a profile of steps that the profiler's own reader takes."""

from pathlib import Path

import pytest
from jax.profiler import ProfileData

import sexpgpu as sx

LINE = Path(__file__).parents[2] / "examples" / "line.sx"


def test_a_profile_has_the_steps_after_the_first(tmp_path: Path) -> None:
    run = sx.compile(LINE).run(
        steps=14, device="cpu", runs=str(tmp_path / "runs"), profile=str(tmp_path / "new" / "dir")
    )
    plain = sx.compile(LINE).run(steps=14, device="cpu", runs=str(tmp_path / "plain"))
    for name, value in plain.parameters.items():
        assert (run.parameters[name] == value).all()
    (path,) = (tmp_path / "new").rglob("*.xplane.pb")
    planes = ProfileData.from_file(str(path)).planes
    names = [event.name for plane in planes for line in plane.lines for event in line.events]
    assert sum("Execute" in name for name in names) >= 10


def test_a_short_run_ends_its_profile(tmp_path: Path) -> None:
    run = sx.compile(LINE).run(
        steps=3, device="cpu", runs=str(tmp_path), profile=str(tmp_path / "p")
    )
    assert run.state == "finished"
    assert list((tmp_path / "p").rglob("*.xplane.pb"))


def test_interp_records_none(tmp_path: Path) -> None:
    with pytest.raises(sx.RunError) as failed:
        sx.compile(LINE).run(steps=3, device="interp", runs=str(tmp_path), profile=str(tmp_path))
    assert failed.value.diagnostics[0].code.id == "E-DEV-001"
    assert "records no profiles" in failed.value.diagnostics[0].headline


def test_a_run_that_fails_leaves_its_profile_and_no_profiler_behind(tmp_path: Path) -> None:
    text = LINE.read_text().replace(":lr 0.1", ":lr 1e30")
    assert text != LINE.read_text()
    for name in ("a", "b"):  # one process has one profiler
        folder = str(tmp_path / name)
        with pytest.raises(sx.RunError):
            sx.compile_text(text).run(steps=9, device="cpu", runs=folder + "-runs", profile=folder)
        assert list((tmp_path / name).rglob("*.xplane.pb"))
