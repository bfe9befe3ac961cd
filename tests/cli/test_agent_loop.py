"""The page "Working as an agent", walked by a program that reads `--json` and exit codes only:
check, mend, explain, run, status, diff."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINE = (ROOT / "examples" / "line.sx").read_text()


class Agent:
    """Calls verbs and keeps nothing but their documents."""

    def __init__(self, sx: Any) -> None:
        self._sx = sx

    def document(self, *words: str, code: int = 0) -> Any:
        result = self._sx(*words, "--json")
        assert result.code == code, result
        return json.loads(result.out)

    def lines(self, *words: str) -> list[Any]:
        result = self._sx(*words, "--json")
        assert result.code == 0, result
        return [json.loads(line) for line in result.out.splitlines()]


def test_the_loop(sx, tmp_path: Path) -> None:
    agent = Agent(sx)
    file = tmp_path / "line.sx"
    knob = "(defknob rate 0.1)\n\n(defloader"
    text = LINE.replace("(defloader", knob, 1).replace(":lr 0.1", ":lr 'rate")
    file.write_text(text.replace("(funcall model x)", "(call model x)"))

    # 1. Mistakes, mended by their own edits: those that are safe, until there are none.
    for _ in range(4):
        wrong = "'rate" in file.read_text() or "(call" in file.read_text()
        found = agent.document("check", str(file), code=int(wrong))
        if not found["errors"]:
            break
        lines = file.read_text().split("\n")
        for diagnostic in found["diagnostics"]:
            for edit in diagnostic["edits"]:
                assert edit["safe"]
                assert edit["line"] == edit["end_line"]
                at = edit["line"] - 1
                before, after = lines[at][: edit["column"] - 1], lines[at][edit["end_column"] - 1 :]
                lines[at] = f"{before}{edit['text']}{after}"
        file.write_text("\n".join(lines))
    assert file.read_text() == LINE.replace("(defloader", knob, 1).replace(":lr 0.1", ":lr rate")

    # 2. What was understood.
    understood = agent.document("explain", str(file))
    assert understood["parameter_count"] == 2
    assert understood["groups"][0]["hyperparameters"]["lr"] == pytest.approx(0.1)

    # 3. The run: events as lines, its directory among them.
    words = ("--device", "interp", "--runs", str(tmp_path / "runs"), "--slug", "first")
    events = agent.lines("run", str(file), *words, "--quiet")
    assert [events[0]["kind"], events[-1]["kind"]] == ["open", "close"]
    run = str(tmp_path / "runs" / "first")

    # 4. Where it stands.
    (state,) = agent.document("status", run)["runs"]
    assert (state["state"], state["step"]) == ("finished", 200)
    assert state["metrics"]["train/loss"] < 1e-6

    # 5. Is this the file that was run? Then a change, through a knob, and what it changes.
    assert agent.document("diff", str(file), run)["same"] is True
    changed = agent.document("diff", str(file), "--", "--set", "rate=0.2")
    assert changed["knobs"] == [{"what": "rate", "a": 0.1, "b": 0.2}]
    assert [c["what"] for c in changed["optimizer"]] == ["default.constants.lr"]
    assert not changed["graphs"]


@pytest.mark.parametrize("words", [["check"], ["explain"], ["ir"], ["variants"], ["diff", "x.sx"]])
def test_every_verb_reads_a_pipe(sx, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "x.sx").write_text(LINE)
    named = [str(tmp_path / w) if w.endswith(".sx") else w for w in words]
    assert sx(*named, "-", stdin=LINE).code == 0


def test_macroexpand_and_run_read_a_pipe(sx, tmp_path: Path) -> None:
    assert sx("macroexpand", "-", stdin="(defmacro m (x) x)\n(m 1)\n").out.endswith("m\n1\n")
    words = ("--device", "interp", "--steps", "1", "--runs", str(tmp_path), "--quiet")
    assert sx("run", "-", *words, stdin=LINE).code == 0
    assert sx("new", "-", str(tmp_path / "copy.sx"), stdin=LINE).code == 0
    assert (tmp_path / "copy.sx").read_text().endswith(LINE)
