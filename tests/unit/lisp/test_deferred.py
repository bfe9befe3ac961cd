"""Standard modules: every definition can be had, none is evaluated before its name is met."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from sexpgpu.compiler import compile_file
from sexpgpu.diagnostics.model import SxError
from sexpgpu.lisp.deferred import chunks
from sexpgpu.lisp.modules import STANDARD, package_source, standard_files
from sexpgpu.lisp.names import described, visible_names
from sexpgpu.lisp.printer import prin1_text
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.values import CL, PRELUDE, TENSOR, Module, Symbol
from sexpgpu.reader.reader import END, Reader
from sexpgpu.source import Source

EXAMPLES = Path(__file__).parents[3] / "examples"
FILES = [file for module in STANDARD for file in standard_files(module)]


@pytest.fixture
def session() -> Generator[Session]:
    made = Session()
    yield made
    made.close()


def loaded(session: Session, text: str) -> Module:
    return session.load(Source("main.sx", text))


def evaluated(session: Session, text: str) -> set[str]:
    """The names of nn that are defined once a text is loaded."""
    loaded(session, text)
    library = session.modules["stdlib/sexpgpu/nn.sx"]
    return {
        name for name, symbol in library.symbols.items() if symbol.module is library
        and symbol.function is not None
    }  # fmt: skip


@pytest.mark.parametrize("file", FILES)
def test_the_forms_of_a_text_are_found_without_reading_it(session: Session, file: str) -> None:
    """Against the reader: the same forms, each with the name it defines."""
    loaded(session, "")  # brings the language up
    reader = Reader(package_source(file), Module("m", (PRELUDE, TENSOR, CL)))
    found: list[tuple[int, str]] = []
    while True:
        reader.skip()
        at = reader.at
        if (form := reader.read()) is END:
            break
        assert isinstance(form.cdr.car, Symbol)
        found.append((at, form.cdr.car.name))
    assert [(at, name) for _, at, name in chunks(reader)] == found


def test_every_definition_of_every_standard_module_is_evaluated(session: Session) -> None:
    requires = "\n".join(f'(require "{path}" :as m{i})' for i, path in enumerate(STANDARD))
    main = loaded(session, requires)
    for path, module in zip(STANDARD, main.aliases.values(), strict=True):
        names = set(module.deferred)
        count = sum(
            package_source(file).text.count("\n(") for file in standard_files(path)
        )  # fmt: skip
        assert len(names) == count, "no name is defined twice"

        def meet(module: Module = module, names: set[str] = names) -> None:
            for name in sorted(names):
                module.find(name)
            session.deferred.settle()

        session.run(meet)
        assert not module.deferred
        for name in names:
            symbol = module.symbols[name]
            assert symbol.function is not None, name


def test_only_what_a_file_uses_is_evaluated(session: Session) -> None:
    assert evaluated(session, '(require "sexpgpu/nn" :as nn)') == set()
    text = '(require "sexpgpu/nn" :as nn) (defun f () (nn:linear 2 3))'
    found = evaluated(session, text)
    assert {"linear", "lecun-normal"} <= found
    assert len(found) < 10
    assert "multi-head-attention" not in found


@pytest.mark.parametrize("example, most", [("line", 20), ("digits", 45), ("gpt-char", 60)])
def test_checking_an_example_evaluates_a_part_of_the_library(example: str, most: int) -> None:
    compiled = compile_file(str(EXAMPLES / f"{example}.sx"))
    assert not compiled.errors
    assert 0 < compiled.session.deferred.evaluated <= most


def value(session: Session, text: str) -> str:
    main = loaded(session, '(require "sexpgpu/nn" :as nn)')
    return prin1_text(session.evaluate(text, main)[0])


@pytest.mark.parametrize(
    "text",
    [
        "(functionp #'nn:linear)",
        "(fboundp 'nn:linear)",
        '(functionp (symbol-function (find-symbol "linear" "nn")))',
        '(functionp (symbol-function (read-from-string "nn:linear")))',
        "(stringp (documentation 'nn:linear 'function))",
        '(fboundp (intern "linear" \'nn))',
    ],
)
def test_a_definition_is_there_however_its_name_is_met(session: Session, text: str) -> None:
    assert value(session, text) == "t"


def test_names_are_listed_and_suggested_before_they_are_evaluated(session: Session) -> None:
    main = loaded(session, '(require "sexpgpu/nn" :as nn)')
    names = visible_names(main)
    assert "nn:linear" in names
    assert not any(name.startswith("nn:%") for name in names)
    assert session.deferred.evaluated == 0
    with pytest.raises(SxError) as caught:
        session.evaluate("(nn:linaer 2 3)", main)
    assert caught.value.diagnostics[0].fix == "write nn:linear"
    with pytest.raises(SxError) as caught:
        session.evaluate("(linear 2 3)", main)
    assert caught.value.diagnostics[0].fix == "write nn:linear"
    text = session.run(lambda: described(main, "nn:linear"))
    assert text is not None
    assert text.startswith("(nn:linear in out &key")


def test_a_definition_that_a_limit_stopped_is_there_in_the_next_run(session: Session) -> None:
    main = loaded(session, '(require "sexpgpu/nn" :as nn)')
    fuel, session.limits.fuel = session.limits.fuel, 1
    with pytest.raises(SxError):
        session.evaluate("(nn:linear 2 3)", main)
    session.limits.fuel = fuel
    assert prin1_text(session.evaluate("(functionp #'nn:linear)", main)[0]) == "t"


def test_sessions_do_not_share_what_is_deferred() -> None:
    one, two = Session(), Session()
    try:
        text = '(require "sexpgpu/nn" :as nn)'
        first, second = loaded(one, text), loaded(two, text)
        one.evaluate("#'nn:linear", first)
        assert two.deferred.evaluated == 0
        assert "linear" in second.aliases["nn"].deferred
        assert prin1_text(two.evaluate("(functionp #'nn:linear)", second)[0]) == "t"
    finally:
        one.close()
        two.close()
