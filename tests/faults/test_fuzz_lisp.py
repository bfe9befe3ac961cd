"""Whatever the text, and whatever a builtin is given: a value or a coded error with a place, soon.
SEXPGPU_FUZZ_SEED=S and SEXPGPU_FUZZ_TEXTS=N choose other texts and more of them;
SEXPGPU_FUZZ_WIDE=1 tries many more arguments of each builtin."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator

import pytest
from lisp_fuzz import PLACES, VALUES, Caller, Fuzz, outcome

import sexpgpu.compiler  # noqa: F401  with the layers of tensors and forms
from sexpgpu.lisp.registry import BUILTINS
from sexpgpu.lisp.session import Session

SEED = int(os.environ.get("SEXPGPU_FUZZ_SEED", "1"))
TEXTS = int(os.environ.get("SEXPGPU_FUZZ_TEXTS", "12000"))
WIDE = "SEXPGPU_FUZZ_WIDE" in os.environ


def test_texts() -> None:
    fuzz = Fuzz(SEED)
    for _ in range(1000):
        text = fuzz.text()
        assert outcome(text) is None, text


@pytest.mark.slow
def test_many_texts() -> None:
    fuzz = Fuzz(SEED + 1)
    wrong: dict[str, str] = {}
    for _ in range(TEXTS):
        text = fuzz.text()
        problem = outcome(text)
        if problem is not None:
            wrong.setdefault(problem, text)
    assert not wrong


def functions() -> list[str]:
    """Every builtin function, those of tensors included."""
    session = Session()
    session.evaluate("1", session.new_module("main"))  # everything is declared now
    session.close()
    return sorted(name for name, record in BUILTINS.items() if record.function is not None)


@pytest.fixture(scope="module")
def caller() -> Iterator[Caller]:
    caller = Caller()
    yield caller
    caller.session.close()


def shapes(name: str) -> list[tuple[str, ...]]:
    """Arguments to try: none, each value in the first place, and a choice of two to five."""
    r = random.Random(f"{SEED} {name}")
    function = BUILTINS[name].function
    assert function is not None
    most = function.maximum if function.maximum is not None else 9
    words = list(VALUES)
    ones = [(word,) for word in words]
    pairs = list(itertools.product(words, words))
    r.shuffle(pairs)
    r.shuffle(ones)
    found: list[tuple[str, ...]] = [(), *ones[: None if WIDE else 2]]
    if most >= 2:
        found += pairs[: 60 if WIDE else 2]
    if most >= 3:
        found += [tuple(r.choices(words, k=3)) for _ in range(40 if WIDE else 2)]
    if most > 3:
        found += [tuple(r.choices(words, k=r.randint(4, 5))) for _ in range(10 if WIDE else 1)]
    return found


def called(name: str, caller: Caller) -> dict[tuple[str, ...], str]:
    """What went wrong, by arguments."""
    calls = {words: caller.outcome(f"#'{name}", words) for words in shapes(name)}
    return {words: problem for words, problem in calls.items() if problem is not None}


@pytest.mark.slow
def test_hostile_arguments(caller: Caller) -> None:
    wrong = {name: found for name in functions() if (found := called(name, caller))}
    assert not wrong


@pytest.mark.parametrize("form", PLACES)
def test_hostile_values_of_other_operators(form: str, caller: Caller) -> None:
    given = {word: form.replace("{}", value) for word, value in VALUES.items()}
    outcomes = {word: caller.evaluated(text) for word, text in given.items()}
    assert {word: problem for word, problem in outcomes.items() if problem is not None} == {}
