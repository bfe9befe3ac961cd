"""The shape of the project: layers that are enforced, files that stay small, a lock that holds."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LINKS = ("loop", "lowering", "stdlib")
CODE = ("sexpgpu", "lowering", "loop", "stdlib", "tests", "benchmarks", "examples")


def product_packages() -> set[str]:
    return {
        path.name
        for path in (ROOT / "sexpgpu").iterdir()
        if path.is_dir() and path.name not in (*LINKS, "docs", "__pycache__")
    }


def test_the_links_are_relative_and_lead_to_the_top_folders() -> None:
    for name in LINKS:
        link = ROOT / "sexpgpu" / name
        assert link.is_symlink()
        assert str(link.readlink()) == f"../{name}"
        assert (ROOT / name).is_dir()


@pytest.mark.parametrize("name", ["loop", "lowering"])
def test_a_bare_import_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(ImportError, match=f"sexpgpu.{name}"):
        import_module(name)


def test_every_package_is_checked_strictly() -> None:
    strict = PROJECT["tool"]["pyright"]["strict"]
    assert set(strict) == {"sexpgpu/*.py", *(f"sexpgpu/{name}" for name in product_packages())}


def test_every_folder_of_code_is_a_package() -> None:
    for name in ("sexpgpu", "lowering", "loop"):
        for path in (ROOT / name).rglob("*.py"):
            assert (path.parent / "__init__.py").is_file() or path.parent.name == "docs", path


def test_no_file_is_too_long_or_badly_named() -> None:
    for folder in CODE:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix not in (".py", ".sx") or "peers" in path.parts:
                continue
            assert path.stem not in ("utils", "util", "helpers", "common", "misc"), path
            lines = path.read_text(encoding="utf-8").count("\n")
            assert lines <= 800, f"{path} has {lines} lines"
    assert (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").count("\n") <= 45


def test_every_module_of_the_product_says_what_it_is() -> None:
    for name in ("sexpgpu", "lowering", "loop"):
        for path in (ROOT / name).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            assert text.startswith('"""'), f"{path} has no docstring"


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [command, "--no-cache"], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "file, line, contract",
    [
        ("sexpgpu/source.py", "import sexpgpu.diagnostics.model", "Imports go one way"),
        ("loop/keys.py", "def f():\n    import sexpgpu.cli.main", "Imports go one way"),
        ("lowering/backend.py", "import sexpgpu.loop.keys", "Imports go one way"),
        ("sexpgpu/lisp/values.py", "import sexpgpu.ir.types", "The Lisp knows no tensors"),
        ("sexpgpu/passes/dce.py", "import sexpgpu.lisp.values", "Passes know no Lisp"),
        ("lowering/backend.py", "import jax", "jax only in lowering/xla and loop"),
        ("sexpgpu/ops/schema.py", "import numpy", "numpy only in lowering, loop and the API"),
        ("loop/events.py", "import orbax.checkpoint", "orbax only in the checkpoint code"),
        ("sexpgpu/compiler.py", "import click", "click only in the command line"),
        ("sexpgpu/ir/types.py", "import inspect", "The front end starts fast"),
    ],
)
def test_the_layers_are_kept_and_a_breach_is_found(
    tmp_path: Path, file: str, line: str, contract: str
) -> None:
    for name in ("sexpgpu", "lowering", "loop", "stdlib"):
        shutil.copytree(
            ROOT / name, tmp_path / name, symlinks=True, ignore=shutil.ignore_patterns("*.pyc")
        )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    if file == "sexpgpu/source.py":
        clean = lint_imports(tmp_path)
        assert clean.returncode == 0, clean.stdout
    with (tmp_path / file).open("a", encoding="utf-8") as stream:
        stream.write(f"\n{line}\n")
    found = lint_imports(tmp_path)
    assert found.returncode == 1
    assert re.search(rf"{re.escape(contract)}.* BROKEN", found.stdout)


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_lock_pins_everything_that_the_project_asks_for() -> None:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").split()
    pins = dict(line.split("==") for line in lines)
    locked = {plain(name): version(pin) for name, pin in pins.items()}
    assert list(pins) == sorted(pins, key=str.lower)
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [*PROJECT["project"]["dependencies"], *extras["test"], *extras["dev"]]
    for line in [*wanted, *PROJECT["build-system"]["requires"]]:
        name, _, bound = line.partition(">=")
        name = name.partition("[")[0]
        if name != "sexpgpu":
            assert locked[plain(name)] >= version(bound), line
