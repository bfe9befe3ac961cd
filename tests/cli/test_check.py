"""`sexpgpu check`: what it prints, in every format, and what it leaves unloaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sexpgpu.cli.check import apply_edits
from sexpgpu.diagnostics.codes.system import W_DEV_001
from sexpgpu.diagnostics.model import Diagnostic, Edit, Label
from sexpgpu.source import Source, Span

ROOT = Path(__file__).resolve().parents[2]
LINE = (ROOT / "examples" / "line.sx").read_text(encoding="utf-8")
TWO_ERRORS = "(defun first-error () (undefined-one))\n(car 5)\n(cdr 6)\n"


@pytest.fixture
def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """`line.sx` in the working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "line.sx").write_text(LINE, encoding="utf-8")
    return "line.sx"


@pytest.mark.parametrize(
    "example", sorted((ROOT / "examples").glob("*.sx")), ids=lambda path: path.name
)
def test_the_examples_are_clean(sx, example: Path) -> None:
    result = sx("check", str(example))
    assert result.code == 0
    assert result.out == f"{example}: no errors\n"
    assert result.err == ""


def test_errors_go_to_stderr_with_the_place_and_the_count_to_stdout(sx, line) -> None:
    Path(line).write_text(LINE + "\n(car 5)\n", encoding="utf-8")
    result = sx("check", line)
    number = LINE.count("\n") + 2
    assert result.code == 1
    assert result.out == "line.sx: 1 error\n"
    assert result.err.startswith("error[E-")
    assert f"┌─ line.sx:{number}:" in result.err
    assert f"\n{number:2}│ (car 5)\n" in result.err
    assert "\n  see: sexpgpu docs E-" in result.err


def test_several_errors_are_found_in_one_go(sx, line) -> None:
    Path(line).write_text(LINE + TWO_ERRORS, encoding="utf-8")
    found = sx("check", line, "--json").json
    lines = {d["line"] for d in found["diagnostics"] if d["severity"] == "error"}
    first = LINE.count("\n") + 1
    assert {first + 1, first + 2} <= lines


def test_json(sx, line) -> None:
    clean = sx("check", line, "--json")
    assert clean.code == 0
    assert clean.err == ""
    assert clean.json == {"files": ["line.sx"], "errors": 0, "warnings": 0, "diagnostics": []}
    Path("bad.sx").write_text("(car 5)\n", encoding="utf-8")
    result = sx("check", line, "bad.sx", "--json")
    assert result.code == 1
    assert result.err == ""
    assert result.json["files"] == ["line.sx", "bad.sx"]
    assert result.json["errors"] == len(result.json["diagnostics"])
    first = result.json["diagnostics"][0]
    assert {"code", "severity", "message", "file", "line", "column", "notes", "docs"} <= set(first)
    assert (first["file"], first["line"]) == ("bad.sx", 1)


def test_the_other_formats(sx, line) -> None:
    Path("bad.sx").write_text("(car 5)\n", encoding="utf-8")
    concise = sx("check", "bad.sx", "--format", "concise").out.splitlines()
    assert concise[0].startswith("bad.sx:1:")
    github = sx("check", "bad.sx", "--format", "github").out.splitlines()
    assert github[0].startswith("::error file=bad.sx,line=1,")
    sarif = sx("check", "bad.sx", "--format", "sarif").json
    assert sarif["version"] == "2.1.0"
    assert len(sarif["runs"][0]["results"]) == len(concise) == len(github)


def test_standard_input(sx) -> None:
    assert sx("check", "-", stdin=LINE).out == "<stdin>: no errors\n"
    broken = sx("check", "-", "--json", stdin="(car 5)\n")
    assert broken.code == 1
    assert broken.json["diagnostics"][0]["file"] == "<stdin>"


@pytest.mark.parametrize(
    "name, content",
    [("missing.sx", None), ("binary.sx", b"\xff\xfe(\x00"), ("folder.sx", "folder")],
)
def test_a_file_that_cannot_be_read(sx, tmp_path: Path, name, content) -> None:
    path = tmp_path / name
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    result = sx("check", str(path))
    assert result.code == 1
    assert result.err.startswith("error[E-")
    assert name in result.err


def test_the_selection(sx, line) -> None:
    Path("k.sx").write_text("(defknob lr 0.1 :max 1.0)\n" + LINE, encoding="utf-8")
    wrong = sx("check", "k.sx", "--set", "lrr=1", "--json").json["diagnostics"]
    assert wrong[0]["code"].startswith("E-KNOB-")
    assert "lr" in wrong[0]["fix"]
    assert sx("check", "k.sx", "--set", "lr=2.0").code == 1
    assert sx("check", "k.sx", "--variant", "none").code == 1
    assert sx("check", line, "--set", "steps=7").code == 0


def test_a_limit_can_be_set(sx, line) -> None:
    Path("long.sx").write_text(LINE + "\n(dotimes (i 100000))\n", encoding="utf-8")
    assert sx("check", "long.sx").code == 0
    low = sx("check", "long.sx", "--limit", "fuel=20000", "--json").json["diagnostics"]
    assert low[0]["code"].startswith("E-LIMIT-")


def test_safe_edits_are_written_and_others_are_not(tmp_path: Path) -> None:
    path = tmp_path / "a.sx"
    path.write_text("(one two three)", encoding="utf-8")
    path.chmod(0o640)
    source = Source("a.sx", "(one two three)", str(path))

    def edit(start: int, end: int, text: str, safe: bool = True) -> Diagnostic:
        span = Span(source, start, end)
        return Diagnostic(W_DEV_001, "x", [Label(span)], edits=[Edit(span, text, safe)])

    assert not apply_edits([edit(1, 4, "ONE", safe=False)])
    assert path.read_text(encoding="utf-8") == "(one two three)"
    found = [edit(1, 4, "1"), edit(9, 14, "3"), edit(5, 12, "overlaps")]
    assert apply_edits(found)
    assert path.read_text(encoding="utf-8") == "(1 two 3)"
    assert path.stat().st_mode & 0o777 == 0o640
    assert [p.name for p in tmp_path.iterdir()] == ["a.sx"]


def test_a_cold_check_loads_nothing_heavy(process) -> None:
    code = (
        "import sys; from sexpgpu.cli.main import main\n"
        "try: main(['check', sys.argv[1]])\n"
        "except SystemExit as stop: assert stop.code == 0, stop.code\n"
        "heavy = {'numpy', 'jax', 'jaxlib', 'ml_dtypes', 'orbax', 'fsspec', 'dataclasses'}\n"
        "heavy.add('hashlib')\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(loaded & heavy), file=sys.stderr)\n"
    )
    import subprocess

    done = subprocess.run(
        [sys.executable, "-c", code, str(ROOT / "examples" / "gpt-char.sx")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"


def test_an_ir_document_is_checked_as_one(tmp_path: Path) -> None:
    """`check` of a document reads it as a document: sound ones pass, damage has one diagnostic."""
    command = [sys.executable, "-m", "sexpgpu"]
    line = str(Path(__file__).parents[2] / "examples" / "line.sx")
    made = subprocess.run([*command, "ir", line, "--json"], capture_output=True, check=True)
    (tmp_path / "line.ir.json").write_bytes(made.stdout)
    (tmp_path / "bad.ir.json").write_bytes(made.stdout.replace(b'"steps":200', b'"steps":-1'))
    for name, status in (("line", 0), ("bad", 1)):
        done = subprocess.run(
            [*command, "check", str(tmp_path / f"{name}.ir.json")], capture_output=True, check=False
        )
        assert done.returncode == status
        assert done.stderr.count(b"error[") == status


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_fault(closed: str, tmp_path: Path) -> None:
    line = Path(__file__).parents[2] / "examples" / "line.sx"
    for words, status in ((f"check {line}", 0), ("check -" if "<" in closed else "check x.sx", 1)):
        done = subprocess.run(
            f"{sys.executable} -m sexpgpu {words} {closed}", shell=True, cwd=tmp_path,
            capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == status, done.stderr
        assert b"Traceback" not in done.stderr + done.stdout
