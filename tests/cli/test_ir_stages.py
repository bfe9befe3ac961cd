"""`sexpgpu ir` at every stage and in every format; `macroexpand`, `new`, `watch`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sexpgpu.cli.new import TEMPLATES
from sexpgpu.cli.watch import check_once, watch
from sexpgpu.passes.pipeline import STAGES

ROOT = Path(__file__).resolve().parents[2]
LINE = ROOT / "examples" / "line.sx"
DIGITS = ROOT / "examples" / "digits.sx"

# -- ir -----------------------------------------------------------------------------------------


def test_every_stage_can_be_shown(sx) -> None:
    counts: dict[str, int] = {}
    for stage in STAGES:
        shown = sx("ir", str(LINE), "--graph", "train/main", "--after", stage, "--json")
        counts[stage] = len(json.loads(shown.out)["nodes"])
    final = len(json.loads(sx("ir", str(LINE), "--graph", "train/main", "--json").out)["nodes"])
    assert counts["dead-casts"] == final
    assert counts["traced"] > counts["sweep"] >= final
    assert "(graph " in sx("ir", str(LINE), "--after", "simplify").out


def test_a_document_has_passed_every_stage(sx, tmp_path: Path) -> None:
    document = tmp_path / "line.json"
    document.write_text(sx("ir", str(LINE), "--json").out)
    assert sx("ir", str(document), "--after", "traced").code == 2
    assert "(graph " in sx("ir", str(document), "--graph", "clip").out


def test_jaxpr_and_stablehlo(sx) -> None:
    assert "dot_general" in sx("ir", str(LINE), "--format", "jaxpr").out
    for platform in ("cpu", "cuda"):  # no device of the kind is needed
        text = sx("ir", str(LINE), "--format", "stablehlo", "--platform", platform).out
        assert "stablehlo.dot_general" in text
        assert "func.func public @main" in text


def test_dot_is_a_graph(sx) -> None:
    text = sx("ir", str(DIGITS), "--format", "dot").out
    assert text.startswith('digraph "train/main" {')
    assert text.count("{") == text.count("}") > 3
    declared = set(re.findall(r"^ +(\w+) \[", text, re.MULTILINE))
    edges = re.findall(r"^ +(\w+) -> (\w+);", text, re.MULTILINE)
    assert edges
    assert {name for edge in edges for name in edge} <= declared
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tsvg"], input=text, text=True, capture_output=True, check=True)


# -- macroexpand --------------------------------------------------------------------------------

MACROS = """\
(defmacro twice (x &body body)
  `(progn ,x ,@body ,@body))

(defmacro both (x) `(twice 0 ,x))

(defun f (a)
  (both (list a)))
"""


@pytest.fixture
def library(tmp_path: Path) -> str:
    file = tmp_path / "lib.sx"
    file.write_text(MACROS)
    return str(file)


def test_every_use_with_its_place(sx, library: str) -> None:
    uses = sx("macroexpand", library, "--json").json["uses"]
    assert [(u["macro"], u["line"], u["column"]) for u in uses] == [("both", 7, 3)]
    assert uses[0]["expansion"] == "(twice 0 (list a))"
    assert f"; {library}:7:3  both\n(twice 0 (list a))\n" in sx("macroexpand", library).out


def test_steps_of_a_form(sx, library: str) -> None:
    found = sx("macroexpand", library, "-e", "(both (f 1))", "--json").json
    assert found["steps"] == ["(twice 0 (f 1))", "(progn 0 (f 1) (f 1))"]
    assert found["expansion"] == found["steps"][-1]
    everywhere = sx("macroexpand", library, "-e", "(list (both (both 2)))", "--all").out
    assert "twice" not in everywhere
    assert "both" not in everywhere
    assert sx("macroexpand", library, "-e", "(f 1)").out == "(f 1)\n"
    assert sx("macroexpand", library, "-e", "1 2").code == 2
    open_form = sx("macroexpand", library, "-e", "(both (f 1)", "--json")
    assert (open_form.code, open_form.json["error"]["code"]) == (1, "E-READ-001")


# -- new ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_checks_and_trains(sx, tmp_path: Path, name: str) -> None:
    file = tmp_path / "mine.sx"
    assert sx("new", "--template", name, str(file)).code == 0
    assert file.read_text().startswith(f";; Begun from the template {name} (SHA-256 ")
    assert sx("check", str(file), "--json").json["diagnostics"] == []
    assert sx("fmt", "--check", str(file)).code == 0


def test_a_template_trains(sx, tmp_path: Path) -> None:
    file = tmp_path / "mine.sx"
    sx("new", "--template", "rnn", str(file), "--set", "width=8", "--set", "batch=4")
    words = ("--device", "interp", "--steps", "2", "--runs", str(tmp_path / "runs"), "--quiet")
    assert sx("run", str(file), *words).code == 0


def test_the_selection_becomes_the_defaults(sx, tmp_path: Path) -> None:
    file = tmp_path / "wide.sx"
    made = sx("new", str(DIGITS), str(file), "--variant", "wide", "--set", "act=:relu")
    assert made.code == 0
    knobs = {k["name"]: k["default"] for k in sx("variants", str(file), "--json").json["knobs"]}
    assert (knobs["width"], knobs["steps"], knobs["act"], knobs["lr"]) == (256, 800, ":relu", 3e-3)
    selected = ("--variant", "wide", "--set", "act=:relu")
    assert sx("diff", str(DIGITS), *selected, "--json", "--", str(file)).json["same"] is True
    assert sx("new", str(DIGITS), str(file)).code == 2, "nothing is replaced"


def test_from_a_run(sx, tmp_path: Path) -> None:
    words = ("--device", "interp", "--steps", "1", "--runs", str(tmp_path), "--slug", "r")
    sx("run", str(DIGITS), "--set", "width=16", *words, "--quiet")
    text = sx("new", str(tmp_path / "r"), "-").out
    assert "(defknob width 16 " in text
    file = tmp_path / "again.sx"
    sx("new", str(tmp_path / "r"), str(file), "--set", "lr=0.01")
    assert "(defknob lr 0.01 " in file.read_text()
    assert sx("check", str(file)).code == 0


def test_a_value_that_no_knob_takes(sx, tmp_path: Path) -> None:
    assert sx("new", str(LINE), str(tmp_path / "a.sx"), "--set", "steps=5").code == 1
    assert not (tmp_path / "a.sx").exists()


# -- watch --------------------------------------------------------------------------------------


def test_watching_sees_the_file_and_what_it_requires(tmp_path: Path) -> None:
    module, file = tmp_path / "lib.sx", tmp_path / "a.sx"
    module.write_text("(defun rate () 0.1)\n")
    file.write_text(
        '(require "./lib.sx" :as lib)\n' + LINE.read_text().replace(":lr 0.1", ":lr (lib:rate)")
    )
    told: list[list[str]] = []

    def tell(found, seconds: float) -> None:
        told.append([d.code.id for d in found])
        assert seconds > 0
        # The next save: a mistake in the module, then its mending, then one in the file.
        if len(told) == 1:
            module.write_text("(defun rate () (car 5))\n")
        elif len(told) == 2:
            module.write_text("(defun rate () 0.2)\n")
        elif len(told) == 3:
            file.unlink()

    watch(lambda: check_once(str(file), (), {}, {}), tell, times=4)
    assert told[0] == told[2] == []
    assert told[1][0].startswith("E-TYPE-")
    assert told[3][0].startswith("E-STORE-")


def test_a_line_for_each_check(process, tmp_path: Path) -> None:
    import sys

    file = tmp_path / "a.sx"
    file.write_text(LINE.read_text())
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "sexpgpu", "watch", str(file), "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as running:
        assert running.stdout is not None
        first = json.loads(running.stdout.readline())
        file.write_text("(oops)\n")
        second = json.loads(running.stdout.readline())
        running.terminate()
    assert (first["errors"], first["diagnostics"]) == (0, [])
    assert second["errors"] > 0
    assert set(second) == {"file", "seconds", "errors", "warnings", "diagnostics"}
