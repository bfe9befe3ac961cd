"""A disk that fills up: the run ends with its reason told, and nothing earlier is lost."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sexpgpu.loop.checkpoint import load, newest_whole


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", str(place)], check=False
    )
    if not mounted or mounted.returncode:
        pytest.skip("mounting a small tmpfs needs root")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_save_that_fails_ends_the_run(child: Callable[..., Any], small_disk: Path) -> None:
    document = {"steps": 100, "every": 2, "log_every": 2, "eval_every": None}
    one = child(document, runs=small_disk)
    assert one.wait() == 3
    assert "E-CKPT-006" in one.output
    status = one.status()
    assert status["state"] == "failed"
    assert status["diagnostic"]["code"] == "E-CKPT-006"
    assert "no space left" in status["diagnostic"]["message"]
    assert one.events()[-1]["kind"] == "close"
    assert one.events()[-1]["diagnostic"]["code"] == "E-CKPT-006"
    path, warnings = newest_whole(str(one.directory))
    assert path is not None
    assert not warnings
    tensors, _ = load(path)
    assert tensors["step"] == int(Path(path).name)
    # space again: it goes on from there
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    again = child(document, {"resume": "latest"}, runs=small_disk)
    assert again.wait() == 0, again.output
    train = [e["step"] for e in again.events() if e["kind"] == "train"]
    assert train == list(range(2, 101, 2))
