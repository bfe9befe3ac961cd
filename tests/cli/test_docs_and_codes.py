"""`sexpgpu docs` and `sexpgpu explain CODE`: what comes with the package."""

from __future__ import annotations

import pytest

from sexpgpu.diagnostics.codes import all_codes


def test_pages(sx) -> None:
    listed = sx("docs")
    assert listed.code == 0
    names = [line.split()[0] for line in listed.out.splitlines()]
    assert {"index", "quickstart", "errors", "cli"} <= set(names)
    assert names == sorted(names)
    page = sx("docs", "quickstart")
    assert page.code == 0
    assert page.out.startswith("# ")
    assert sx("docs", "quickstart.md").out == page.out


@pytest.mark.parametrize(
    "word, said, page",
    [
        ("linear", "(linear in out ", "nn"),
        ("linear", "(linear from to steps)", "optim"),
        ("optim:sgd", "(sgd &key ", "optim"),
        ("mapcar", "(mapcar function list ", "builtins"),
        ("clip-norm", ":clip-norm\n", "defrun"),
        ("steps", "--steps N\n", "run"),
        ("train/grad-norm", "train/grad-norm\n", "metrics"),
        ("loop", "loop\n", "lisp"),
    ],
)
def test_a_name(sx, word: str, said: str, page: str) -> None:
    result = sx("docs", word)
    assert result.code == 0
    assert said in result.out
    assert f"sexpgpu docs {page}" in result.out


def test_a_module_s_name_is_that_module_s_only(sx) -> None:
    assert "from to steps" not in sx("docs", "nn:linear").out


def test_a_name_that_there_is_not(sx) -> None:
    result = sx("docs", "nn:lineer")
    assert result.code == 2
    assert "did you mean nn:linear?" in result.err


@pytest.mark.parametrize("words", [("docs", "e-int-001"), ("explain", "E-INT-001")])
def test_a_code(sx, words: tuple[str, str]) -> None:
    result = sx(*words)
    assert result.code == 0
    assert result.out.startswith("E-INT-001: internal fault\n\n")
    assert "\n\nFix: " in result.out


def test_every_code_can_be_explained(sx) -> None:
    for id, code in all_codes().items():
        found = sx("explain", id, "--json").json
        assert found["id"] == id
        assert found["severity"] == code.severity
        assert found["fix"] == code.fix


def test_an_example_is_shown_with_its_mended_form(sx) -> None:
    code = next(code for code in all_codes().values() if code.bad)
    out = sx("explain", code.id).out
    for example in (code.bad, code.good):
        for line in example.strip().splitlines():
            assert line.rstrip() in out


def test_a_code_that_there_is_not(sx) -> None:
    result = sx("explain", "E-INT-01")
    assert result.code == 2
    assert "did you mean E-INT-001?" in result.err
