"""`sexpgpu diff`: what is a difference, what is none, and between what."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINE = (ROOT / "examples" / "line.sx").read_text()
DIGITS = str(ROOT / "examples" / "digits.sx")


@pytest.fixture
def pair(tmp_path: Path):
    """Two files: the line, and the line with replacements."""

    def make(*changes: tuple[str, str]) -> tuple[str, str]:
        text = LINE
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        a, b = tmp_path / "a.sx", tmp_path / "b.sx"
        a.write_text(LINE)
        b.write_text(text)
        return str(a), str(b)

    return make


PARTS = ("knobs", "run", "loaders", "parameters", "optimizer", "evaluations", "graphs")


OBJECTIVE = "(defun objective (model x y)\n  (nn:mse (funcall model x) y))"
RENAMED = ";; other words\n(defun objective (net in target) (nn:mse (funcall net in) target))"
MODEL = "(defmodel line ()\n  (submodel fit (nn:linear 1 1))"
WIDTH = "(defmodel model-of-line (&key (width 1))\n  (submodel fit (nn:linear 1 width))"
SAME = {
    "the same": [],
    "names and comments": [(OBJECTIVE, RENAMED)],
    "a let": [("(forward (x) (fit x))", "(forward (x)\n (let ((h (fit x)))\n h))")],
    "the model's name": [(MODEL, WIDTH), (":model (line)", ":model (model-of-line)")],
}


@pytest.mark.parametrize("changes", SAME.values(), ids=SAME)
def test_no_difference(sx, pair, changes) -> None:
    a, b = pair(*changes)
    result = sx("diff", a, b, "--json", "--exit-code")
    assert result.code == 0
    assert result.json["same"] is True
    assert not any(result.json[part] for part in PARTS)
    assert sx("diff", a, b).out == f"{a} and {b} mean the same\n"


@pytest.mark.parametrize(
    "changes, part, shown",
    [
        ([(":steps 200", ":steps 300")], "run", "steps: 200 -> 300"),
        ([(":lr 0.1", ":lr 0.2")], "optimizer", "default.constants.lr: 0.1 -> 0.2"),
        ([("optim:sgd", "optim:adam")], "optimizer", "default.optimizer: sgd -> adam"),
        ([(":lr 0.1", ":lr (optim:warmup-cosine :peak 0.1 :warmup 5 :steps 200)")],
         "optimizer", "schedules: () -> (lr)"),
        ([("(y (1.0)", "(y (1.5)")], "loaders", "columns.y.values: (1 3 5) -> (1.5 3 5)"),
        ([("(fit x)))", "(tanh (fit x))))")], "graphs", "+1 tanh"),
        ([("(fit x)))", "(* (fit x) (exp 0.0))))")], None, ""),
        ([("(submodel fit (nn:linear 1 1))", "(submodel fit (nn:linear 1 1 :bias nil))")],
         "parameters", "- fit/b  f32 (1)"),
        ([("(submodel fit (nn:linear 1 1))", "(submodel fit (nn:linear 1 1 :init 0.5))")],
         "parameters", "fit/w.init: one distribution -> another"),
        ([("nn:mse", "nn:mae")], "graphs", "(outside the model)"),
    ],
)  # fmt: skip
def test_a_difference(sx, pair, changes, part, shown) -> None:
    a, b = pair(*changes)
    result = sx("diff", a, b, "--json", "--exit-code")
    found = {name for name in PARTS if result.json[name]}
    if part is None:
        assert found <= {"graphs"}  # simplification decides whether multiplying by 1 is a node
        return
    assert part in found
    assert result.json["same"] is False
    assert result.code == 1
    assert shown in sx("diff", a, b).out


def test_nodes_joined_otherwise(sx, pair) -> None:
    a, b = pair(("(nn:mse (funcall model x) y)", "(nn:mse y (funcall model x))"))
    graphs = sx("diff", a, b, "--json").json["graphs"]
    assert graphs[0]["graph"] == "train/main"


def test_two_selections_of_a_file(sx) -> None:
    data = sx("diff", DIGITS, "--json", "--", "--variant", "wide").json
    assert {"what": "width", "a": 128, "b": 256} in data["knobs"]
    assert {"what": "steps", "a": 400, "b": 800} in data["run"]
    assert {"what": "head/w.shape", "a": [128, 10], "b": [256, 10]} in data["parameters"]
    paths = {entry["path"] for entry in data["graphs"][0]["paths"]}
    assert {"body/0", "head"} <= paths
    swapped = sx("diff", DIGITS, "--variant", "wide", "--json", "--", DIGITS).json
    assert {"what": "width", "a": 256, "b": 128} in swapped["knobs"]


def test_knobs_that_change_nothing_else(sx, tmp_path: Path) -> None:
    file = tmp_path / "a.sx"
    file.write_text("(defknob lr 0.1)\n" + LINE.replace(":lr 0.1", ":lr (+ 0.1 (* 0 lr))"))
    data = sx("diff", str(file), "--json", "--", "--set", "lr=0.2").json
    assert data["knobs"] == [{"what": "lr", "a": 0.1, "b": 0.2}]
    assert data["same"] is True


def test_a_file_and_its_run(sx, tmp_path: Path) -> None:
    file = tmp_path / "a.sx"
    file.write_text(LINE)
    words = ("--device", "interp", "--steps", "2", "--runs", str(tmp_path), "--slug", "r")
    assert sx("run", str(file), *words, "--quiet").code == 0
    run = str(tmp_path / "r")
    assert sx("diff", str(file), run, "--json").json["same"] is True
    (checkpoint,) = (tmp_path / "r" / "checkpoints").iterdir()
    assert sx("diff", run, str(checkpoint), "--json").json["same"] is True
    file.write_text(LINE.replace(":lr 0.1", ":lr 0.3"))
    data = sx("diff", str(file), run, "--json").json
    assert data["optimizer"] == [{"what": "default.constants.lr", "a": 0.3, "b": 0.1}]


def test_usage(sx) -> None:
    assert sx("diff", DIGITS).code == 2
    assert sx("diff", DIGITS, DIGITS, "--", "--variant", "wide").code == 2
    assert sx("diff", DIGITS, "--", "--variant", "nope").code == 1
