"""`sexpgpu fmt`: files in place, a filter, --check and --diff."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UGLY = "(defun f (x)\n(g x)  )\n"
NICE = "(defun f (x)\n  (g x))\n"


def test_in_place(sx, tmp_path: Path) -> None:
    file = tmp_path / "a.sx"
    file.write_text(UGLY)
    result = sx("fmt", str(file))
    assert (result.code, result.out) == (0, f"{file}: laid out\n")
    assert file.read_text() == NICE
    assert sx("fmt", str(file)).out == ""


def test_check_and_diff_write_nothing(sx, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    file = tmp_path / "deep" / "a.sx"
    file.write_text(UGLY)
    (tmp_path / "b.sx").write_text(NICE)
    result = sx("fmt", "--check", str(tmp_path))
    assert (result.code, result.out) == (1, f"{file}: not in layout\n")
    shown = sx("fmt", "--diff", str(file))
    assert shown.code == 0
    assert "-(g x)  )\n+  (g x))\n" in shown.out
    assert sx("fmt", "--check", "--json", str(tmp_path)).json["changed"] == [str(file)]
    assert file.read_text() == UGLY


def test_a_filter(sx) -> None:
    assert sx("fmt", "-", stdin=UGLY).out == NICE
    assert sx("fmt", stdin=UGLY).out == NICE


def test_text_that_does_not_read_is_left_alone(sx, tmp_path: Path) -> None:
    file = tmp_path / "a.sx"
    file.write_text("(f (g x)\n")
    result = sx("fmt", str(file))
    assert result.code == 1
    assert "E-READ-001" in result.err
    assert file.read_text() == "(f (g x)\n"


def test_macros_of_a_required_module(sx, tmp_path: Path) -> None:
    (tmp_path / "lib.sx").write_text("(defmacro around (x &body body)\n  `(list ,x ,@body))\n")
    file = tmp_path / "a.sx"
    file.write_text('(require "./lib.sx" :as lib)\n\n(lib:around 1\n2)\n')
    sx("fmt", str(file))
    assert file.read_text().endswith("(lib:around 1\n  2)\n")


def test_the_repository_is_laid_out(sx) -> None:
    folders = [str(ROOT / name) for name in ("examples", "stdlib", "benchmarks")]
    assert sx("fmt", "--check", *folders).out == ""
