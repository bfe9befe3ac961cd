"""The catalogue: every code is complete, is written nowhere else, and its examples show it."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

from sexpgpu.cli.main import VERBS, commands
from sexpgpu.compiler import check_text
from sexpgpu.diagnostics.codes import FAMILIES, all_codes, lookup
from sexpgpu.lisp.session import Session
from sexpgpu.source import Source

ROOT = Path(__file__).resolve().parents[3]
CODES = list(all_codes().values())
ID = re.compile(r"[EW]-[A-Z]+-\d{3}")
EXAMPLES = [code for code in CODES if code.bad]


def product_files() -> list[Path]:
    folders = [ROOT / "sexpgpu", ROOT / "lowering", ROOT / "loop"]
    return sorted(
        path
        for folder in folders
        for path in folder.rglob("*.py")
        if not path.is_relative_to(ROOT / "sexpgpu" / "diagnostics" / "codes")
    )


def test_every_file_of_codes_is_listed() -> None:
    folder = ROOT / "sexpgpu" / "diagnostics" / "codes"
    assert {path.stem for path in folder.glob("*.py")} - {"__init__"} == set(FAMILIES)


@pytest.mark.parametrize("file", FAMILIES)
def test_a_file_declares_its_own_families(file: str) -> None:
    text = (ROOT / "sexpgpu" / "diagnostics" / "codes" / f"{file}.py").read_text()
    declared = re.findall(r'code\(\s*"([EW]-([A-Z]+)-\d+)"', text)
    assert declared
    assert {family for _, family in declared} <= set(FAMILIES[file])


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.id)
def test_a_code_is_complete(code) -> None:
    assert ID.fullmatch(code.id)
    for name in ("title", "explain", "fix"):
        text = getattr(code, name)
        assert len(text) > 5, f"{code.id} has no {name}"
        assert text.strip() == text, f"{code.id}: {name} has space around it"
        assert "  " not in text, f"{code.id}: {name} is broken up badly"
    assert len(code.title) <= 80
    assert not code.title.endswith(".")
    assert bool(code.bad) == bool(code.good), f"{code.id}: an example needs both its files"
    assert code.bad != code.good or not code.bad


def test_lookup_takes_either_case() -> None:
    assert lookup("e-int-001") is lookup("E-INT-001") is all_codes()["E-INT-001"]
    assert lookup("E-INT-999") is None


def test_codes_name_only_verbs_pages_and_flags_that_exist() -> None:
    flags = {flag for parameter in commands.params for flag in parameter.opts}
    flags |= {"--help", "--traceback"}
    for verb in VERBS:
        command = import_module(f"sexpgpu.cli.{verb}").command
        flags |= {flag for parameter in command.params for flag in parameter.opts}
    pages = {page.stem for page in (ROOT / "sexpgpu" / "docs").glob("*.md")}
    wrong: list[str] = []
    for code in CODES:
        text = f"{code.explain} {code.fix}"
        wrong += [f"{code.id}: {v}" for v in re.findall(r"`sexpgpu ([a-z]+)", text)
                  if v not in VERBS]  # fmt: skip
        wrong += [f"{code.id}: {p}" for p in re.findall(r"`sexpgpu docs ([a-z-]+)", text)
                  if p not in pages]  # fmt: skip
        wrong += [f"{code.id}: {f}" for f in re.findall(r"--[a-z][a-z-]*", text)
                  if f not in flags]  # fmt: skip
        # A verb is written between backquotes, where the above finds it.
        wrong += [f"{code.id}: {v}" for v in re.findall(r"(?<!`)sexpgpu ([a-z]+)", text)
                  if v in VERBS]  # fmt: skip
    assert wrong == []


def test_no_code_is_written_outside_the_catalogue() -> None:
    found: list[str] = []
    for path in product_files():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        prose = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        found += [
            f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in prose
            and ID.search(node.value)
        ]
    assert not found, "name the declared code instead of its id"


OF_THE_LISP = {*FAMILIES["read"], *FAMILIES["lisp"]}


def codes_of(code, text: str) -> set[str]:
    """The codes that an example yields. Those of the Lisp are forms, all others whole run files."""
    if code.id.split("-")[1] in OF_THE_LISP:
        session = Session()
        found = session.load_all(Source("example.sx", text)).diagnostics + session.diagnostics
    else:
        found = check_text(text, "example.sx")
    return {diagnostic.code.id for diagnostic in found}


@pytest.mark.parametrize("code", EXAMPLES, ids=lambda code: code.id)
def test_the_bad_example_shows_its_code(code) -> None:
    assert codes_of(code, code.bad) == {code.id}


@pytest.mark.parametrize("code", EXAMPLES, ids=lambda code: code.id)
def test_the_good_example_is_clean(code) -> None:
    assert codes_of(code, code.good) == set()
