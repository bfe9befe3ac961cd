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
