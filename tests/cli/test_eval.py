"""`sexpgpu eval`: forms, the protocol of one object a line, a file's scope, the dialogue."""

from __future__ import annotations

import builtins
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINE = str(ROOT / "examples" / "line.sx")


@pytest.mark.parametrize(
    "words, out",
    [
        (["-e", "(+ 1 2)"], "3\n"),
        (["-e", '(values 1 "a" (list 1/2))'], '1\n"a"\n(1/2)\n'),
        (["-e", "(defun f (x) (* x x))", "-e", "(f 5)"], "25\n"),
        (["-e", '(progn (format t "hi~%") 7)'], "hi\n7\n"),
        (["-e", "(values)"], ""),
        ([LINE, "-e", "(length (params (line)))"], "2\n"),
    ],
)
def test_values_are_printed_a_line_each(sx, words: list[str], out: str) -> None:
    result = sx("eval", *words)
    assert result == (0, out, "")


def test_standard_input_is_evaluated_whole(sx) -> None:
    assert sx("eval", stdin="(defun f () 3)\n(f)\n").out == "3\n"


def test_an_error_shows_its_place(sx) -> None:
    result = sx("eval", "-e", "(car 5)")
    assert result.code == 1
    assert result.out == ""
    assert result.err.startswith("error[E-TYPE-")
    assert " 1│ (car 5)\n" in result.err


def test_json(sx) -> None:
    assert sx("eval", "--json", "-e", '(progn (princ "x") (values 1 2))').json == {
        "values": ["1", "2"],
        "output": "x",
    }
    failed = sx("eval", "--json", "-e", "(car 5)")
    assert failed.code == 1
    assert failed.err == ""
    error = failed.json["error"]
    assert error["code"].startswith("E-TYPE-")
    assert (error["line"], error["column"]) == (1, 1)
    assert error["condition"][:2] == ["type-error", "error"]


def test_a_form_a_line_each_in_a_fresh_environment(sx) -> None:
    forms = ["(+ 1 2)", "(setq *print-base* 2)", "(defun f () 1)", "", "(f)", "(list 3", "(values)"]
    result = sx("eval", "--json", "-", stdin="\n".join(forms))
    assert result.code == 0
    found = [line.get("values") or line["error"]["code"] for line in result.lines[:5]]
    assert found[0] == ["3"]
    assert found[2] == ["f"]
    assert found[3].startswith("E-NAME-")
    assert found[4].startswith("E-READ-")
    assert result.lines[5] == {"values": [], "output": ""}


def test_a_line_that_is_not_utf_8_is_refused_and_the_next_is_answered(sx) -> None:
    forms = ["\ufeff(+ 1 2)", '(length "a\udcff")', "(list \udcc3)", '(length "aé")']
    result = sx("eval", "--json", "-", stdin="\n".join(forms))
    found = [line.get("values") or line["error"]["code"] for line in result.lines]
    assert found == [["3"], "E-READ-011", "E-READ-011", ["2"]]
    assert result.lines[1]["error"]["message"].endswith("byte 10 cannot be decoded")


def test_what_each_line_prints_is_its_own(sx) -> None:
    forms = ['(progn (princ "a") 1)', "(+ 1 1)", '(progn (format t "b~%") (car 5))', '(princ "c")']
    outputs = [
        line.get("output") for line in sx("eval", "--json", "-", stdin="\n".join(forms)).lines
    ]
    assert [outputs[0], outputs[1], outputs[3]] == ["a", "", "c"]


def test_an_endless_form_ends(sx) -> None:
    answer = sx("eval", "--json", "-e", "(loop)", "--limit", "fuel=100000").json
    assert answer["error"]["code"].startswith("E-LIMIT-")


def test_a_file_with_errors_and_a_file_without_a_form(sx, tmp_path: Path) -> None:
    bad = tmp_path / "bad.sx"
    bad.write_text("(car 5)\n", encoding="utf-8")
    assert sx("eval", str(bad), "-e", "1").code == 1
    assert json.loads(sx("eval", str(bad), "-e", "1", "--json").out)["error"]["line"] == 1
    assert sx("eval", LINE).code == 2


def told(monkeypatch: pytest.MonkeyPatch, capsys, *lines: str) -> tuple[list[str], str]:
    """What the dialogue prints for these lines, and what it writes to stderr."""
    from sexpgpu.cli.dialogue import dialogue
    from sexpgpu.cli.eval import Evaluator
    from sexpgpu.lisp.session import Session

    left = iter(lines)

    def ask(prompt: str) -> str:
        try:
            return next(left)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr(builtins, "input", ask)
    session = Session()
    dialogue(Evaluator(session))
    session.close()
    out, err = capsys.readouterr()
    return out.splitlines(), err


def test_the_dialogue(monkeypatch, capsys) -> None:
    definition = ["(defun f (x)", "", "  (* x 2))", ""]
    uses = ["(f 4)", "(car 5)", "(f 5)", ":doc f", ":doc fi", ":help"]
    out, err = told(monkeypatch, capsys, *definition, *uses)
    assert out[:3] == ["f", "8", "10"]
    assert "(f x)  function" in out
    assert any("nothing is called fi" in line for line in out)
    assert any("Ctrl-D" in line for line in out)
    assert err.count("error[") == 1
    assert "E-TYPE-" in err


def test_the_dialogue_remembers_forms_and_values(monkeypatch, capsys) -> None:
    lines = ["(floor 7 2)", "(+ * 10)", "(list * ** *** / // + ++)", "-", "(car 5)", "(car *)"]
    out, err = told(monkeypatch, capsys, *lines)
    assert out[:4] == ["3", "1", "13", "(13 3 nil (13) (3 1) (+ * 10) (floor 7 2))"]
    assert out[4:6] == ["-", ""]
    assert err.count("error[") == 2


def test_each_form_of_a_line_is_answered(monkeypatch, capsys) -> None:
    out, err = told(monkeypatch, capsys, '1 (princ "a") (values) (car 5) 6', "*")
    assert out == ["1", "a", '"a"', "nil", ""]
    assert err.count("error[") == 1


def test_what_a_dialogue_remembers_is_not_there_in_files(sx) -> None:
    found = sx("eval", "-e", "(reduce * (list 1 2))")
    assert found.code == 1
    assert "error[E-NAME-001]" in found.err
    assert "#'*" in found.err


def test_a_require_inside_a_form_is_told_where_it_should_stand(sx, tmp_path: Path) -> None:
    file = tmp_path / "inside.sx"
    file.write_text('(let () (require "sexpgpu/nn" :as n)\n  (n:gelu 1))\n')
    told = sx("eval", str(file), "-e", "1").err
    assert "fix: mend the require that was to name it: at the top level" in told
