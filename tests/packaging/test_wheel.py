"""The wheel: what is in it, that it installs nothing else, and that it runs from anywhere."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KEPT = (".py", ".sx", ".md", ".typed", ".schema.json", ".txtpb")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy, so that nothing is left behind in the checkout."""
    import shutil

    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("sexpgpu", "lowering", "loop", "stdlib"):
        shutil.copytree(
            ROOT / name,
            source / name,
            symlinks=True,
            ignore=shutil.ignore_patterns("__pycache__", "*.pyc"),
        )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    done = subprocess.run(
        [
            sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
            "--no-index", "--wheel-dir", str(folder), str(source),
        ],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (made,) = folder.glob("*.whl")
    return made


def test_it_holds_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    wanted = {
        os.path.relpath(os.path.join(folder, name), ROOT)
        for folder, _, names in os.walk(ROOT / "sexpgpu", followlinks=True)
        for name in names
        if name.endswith(KEPT) and "__pycache__" not in folder
    }
    assert held == wanted
    assert {name.partition("/")[0] for name in held} == {"sexpgpu"}
    assert "sexpgpu/stdlib/prelude.sx" in held
    assert "sexpgpu/docs/index.md" in held


def test_the_installed_package_works_from_elsewhere(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    (tmp_path / "loop.py").write_text("raise RuntimeError('shadowed')\n")
    (tmp_path / "line.sx").write_text((ROOT / "examples" / "line.sx").read_text(encoding="utf-8"))
    for words in (["--version"], ["check", "line.sx"], ["docs", "quickstart"]):
        done = subprocess.run(
            [sys.executable, "-m", "sexpgpu", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(place)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
