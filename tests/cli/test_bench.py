"""`sexpgpu bench`: what it measures adds up, here and against others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINE = str(ROOT / "examples" / "line.sx")


def sound(one: dict, device: str, steps: int) -> None:
    assert (one["device"], one["steps"]) == (device, steps)
    assert 0 < one["slowest"] <= one["steps_per_second"] <= one["fastest"]
    assert one["samples_per_second"] == pytest.approx(3 * one["steps_per_second"])
    assert one["first_step_s"] >= sum(one["first_step_parts_s"].values())
    assert one["memory"]["peak"] > 1_000_000


def test_one(sx) -> None:
    (one,) = sx("bench", LINE, "--device", "cpu", "--steps", "10", "--json").json["results"]
    sound(one, "cpu", 10)
    planned = one["memory"]["planned"]
    assert planned["total"] == (
        planned["argument"] + planned["output"] - planned["alias"] + planned["temp"]
    )
    table = sx("bench", LINE, "--device", "interp", "--steps", "5").out.splitlines()
    assert table[0].split()[:3] == ["file", "device", "steps/s"]
    assert "interp" in table[1]


def test_steps_that_run_together(sx, tmp_path: Path) -> None:
    text = Path(LINE).read_text().replace(":steps 200", ":steps 200 :steps-per-dispatch 4")
    (tmp_path / "k.sx").write_text(text)
    words = ("bench", str(tmp_path / "k.sx"), "--device", "cpu", "--steps", "20", "--json")
    (one,) = sx(*words).json["results"]
    sound(one, "cpu", 20)


def test_against_others(process, tmp_path: Path) -> None:
    other = tmp_path / "other.sx"
    other.write_text(Path(LINE).read_text())
    words = ("bench", LINE, "--device", "interp", "--steps", "5", "--json")
    done = process(*words, "--against", str(other))
    found = json.loads(done.stdout)["results"]
    assert [one["file"] for one in found] == [LINE, str(other)]
    for one in found:
        sound(one, "interp", 5)


def test_what_fails_there_fails_here(process, tmp_path: Path) -> None:
    bad = tmp_path / "bad.sx"
    bad.write_text("(car 5)\n")
    words = ("bench", LINE, "--device", "interp", "--steps", "5", "--against", str(bad))
    done = process(*words, "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["code"].startswith("E-")
    assert "E-" in done.stderr
