"""Completion in a real shell protocol, help with examples, SARIF and GitHub formats."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path

import jsonschema
import pytest

from sexpgpu.cli.main import VERBS
from sexpgpu.compiler import check_text
from sexpgpu.diagnostics import render
from sexpgpu.diagnostics.codes import all_codes
from sexpgpu.diagnostics.mistakes.reading import LAYERS
from sexpgpu.diagnostics.model import Diagnostic
from sexpgpu.docs import generate

ROOT = Path(__file__).resolve().parents[2]
DIGITS = str(ROOT / "examples" / "digits.sx")
BAD = '(require "sexpgpu/nn" :as nn)\n(nn:dense 1 2)\n(car 5)\n'


@pytest.mark.parametrize(
    "line, wanted",
    [
        ("sexpgpu ma", ["macroexpand"]),
        (f"sexpgpu check {DIGITS} --variant ", ["wide"]),
        (f"sexpgpu run {DIGITS} --set s", ["steps="]),
        (f"sexpgpu explain {DIGITS} --set w", ["width="]),
        ("sexpgpu explain --by", ["--by-line"]),
        ("sexpgpu new --template v", ["vit"]),
        ("sexpgpu docs quick", ["quickstart"]),
        ("sexpgpu check exa", ["file,exa"]),  # the shell looks for files
        ("sexpgpu checkpoint show runs/d", ["file,runs/d"]),
        ("sexpgpu diff a.sx -- b", ["file,b"]),
        ("sexpgpu predict runs/r --input n", ["file,n"]),
        ("sexpgpu run a.sx --init-from w", ["file,w"]),
    ],
)
def test_completion(process, line: str, wanted: list[str]) -> None:
    """As bash asks: the words, and which of them the cursor is on."""
    words = line.split(" ")
    environment = {
        "_SEXPGPU_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    found = process(env=environment)
    assert [row.removeprefix("plain,") for row in found.stdout.splitlines()] == wanted


@pytest.mark.parametrize("verb", VERBS)
def test_help_says_what_a_verb_does(sx, verb: str) -> None:
    text = sx(verb, "--help").out
    assert text.startswith("Usage: sexpgpu")
    command = import_module(f"sexpgpu.cli.{verb}").command
    assert len(command.help or "") > 20


@pytest.mark.parametrize("verb", ["diff", "explain", "fmt", "ir", "macroexpand", "new", "predict"])
def test_help_has_examples_that_parse(sx, verb: str) -> None:
    """Each line of an example begins with the product's name or pipes into it."""
    text = sx(verb, "--help").out
    assert re.search(rf"^ +(echo .*\| )?sexpgpu {verb} ", text, re.MULTILINE)


def test_sarif(sx, tmp_path: Path) -> None:
    """What SARIF 2.1.0 demands: versions, rules by index, regions from 1, fixes as replacements."""
    file = tmp_path / "bad.sx"
    file.write_text(BAD)
    log = json.loads(sx("check", str(file), "--format", "sarif").out)
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "sexpgpu"
    rules = [rule["id"] for rule in driver["rules"]]
    assert len(set(rules)) == len(rules)
    assert len(run["results"]) == 2
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        assert result["message"]["text"]
        for location in result["locations"]:
            region = location["physicalLocation"]["region"]
            assert min(region.values()) >= 1
            assert (region["startLine"], region["startColumn"]) <= (
                region["endLine"],
                region["endColumn"],
            )
    (change,) = run["results"][0]["fixes"][0]["artifactChanges"]
    (replacement,) = change["replacements"]
    assert replacement["insertedContent"]["text"] == "nn:linear"
    region = replacement["deletedRegion"]
    assert (region["startLine"], region["startColumn"], region["endColumn"]) == (2, 2, 10)


def test_sarif_of_every_code_keeps_to_the_standard() -> None:
    """Each code, and some failing examples, as a log: held against what SARIF asks of members."""
    schema = json.loads((Path(__file__).parent / "sarif.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    codes = list(all_codes().values())
    found = [Diagnostic(code, "so it is") for code in codes]
    for code in [code for code in codes if code.bad][::12]:
        found += check_text(code.bad, "a file.sx")
    log = render.sarif(found, "0.1")
    validator.validate(log)
    assert len(log["runs"][0]["results"]) == len(found) > len(codes)


def test_sarif_without_findings_is_a_log_with_no_results(sx) -> None:
    log = json.loads(sx("check", str(ROOT / "examples" / "line.sx"), "--format", "sarif").out)
    assert log["runs"][0]["results"] == []


def test_github(sx, tmp_path: Path) -> None:
    """A workflow command a line: `::error file=…,line=…,col=…::message`, specials escaped."""
    file = tmp_path / "bad, file.sx"
    file.write_text(BAD)
    lines = sx("check", str(file), "--format", "github").out.splitlines()
    assert len(lines) == 2
    for line in lines:
        match = re.fullmatch(r"::(error|warning) ([^:]+)::(.+)", line)
        assert match, line
        properties = dict(pair.split("=", 1) for pair in match[2].split(","))
        assert properties["file"].endswith("bad%2C file.sx")
        assert int(properties["line"]) >= 2


def test_names_of_other_libraries_lead_to_names_that_exist() -> None:
    files = (generate.STDLIB / "sexpgpu").rglob("*.sx")
    texts = [file.read_text(encoding="utf-8") for file in files]
    name = re.compile(r"^\(def\w+ ([^\s()]+)", re.MULTILINE)
    known = {found for text in texts for found in name.findall(text)}
    assert not {ours for ours in LAYERS.values() if ours not in known}
    assert not {other for other in LAYERS if other in known}


def test_llms_lists_every_page(sx) -> None:
    text = sx("docs", "--llms").out
    assert text.startswith("# sexpgpu\n\n> ")
    listed = re.findall(r"^- \[[^]]+\]\(([\w-]+)\.md\): .+", text, re.MULTILINE)
    assert set(listed) == {p.stem for p in generate.PAGES.glob("*.md")} - {"index"}
