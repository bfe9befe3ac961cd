"""Whatever the text, and whatever a builtin is given: a value or a coded error with a place, soon.
SEXPGPU_FUZZ_SEED=S and SEXPGPU_FUZZ_SECONDS=N choose other texts and a longer search."""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Iterator

import pytest
from lisp_fuzz import VALUES, Caller, Fuzz, outcome

from sexpgpu.lisp.registry import BUILTINS
from sexpgpu.lisp.session import Session

SEED = int(os.environ.get("SEXPGPU_FUZZ_SEED", "1"))
SECONDS = float(os.environ.get("SEXPGPU_FUZZ_SECONDS", "60"))


def test_texts() -> None:
    fuzz = Fuzz(SEED)
    for _ in range(1000):
        text = fuzz.text()
        assert outcome(text) is None, text


@pytest.mark.slow
def test_texts_for_long() -> None:
    fuzz = Fuzz(SEED + 1)
    end = time.monotonic() + SECONDS
    wrong: dict[str, str] = {}
    while time.monotonic() < end:
        text = fuzz.text()
        problem = outcome(text)
        if problem is not None:
            wrong.setdefault(problem, text)
    assert not wrong


def functions() -> list[str]:
    """Every builtin function of the Lisp."""
    session = Session()
    session.evaluate("1", session.new_module("main"))  # everything is declared now
    session.close()
    return sorted(name for name, record in BUILTINS.items() if record.function is not None)


@pytest.fixture(scope="module")
def caller() -> Iterator[Caller]:
    caller = Caller()
    yield caller
    caller.session.close()


def shapes(name: str, few: bool) -> list[tuple[str, ...]]:
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
    found: list[tuple[str, ...]] = [(), *ones[: 2 if few else None]]
    if most >= 2:
        found += pairs[: 2 if few else 60]
    if most >= 3:
        found += [tuple(r.choices(words, k=3)) for _ in range(2 if few else 40)]
    if most > 3:
        found += [tuple(r.choices(words, k=r.randint(4, 5))) for _ in range(1 if few else 10)]
    return found


def called(name: str, few: bool, caller: Caller) -> dict[tuple[str, ...], str]:
    """What went wrong, by arguments."""
    calls = {words: caller.outcome(f"#'{name}", words) for words in shapes(name, few)}
    return {words: problem for words, problem in calls.items() if problem is not None}


def test_hostile_arguments(caller: Caller) -> None:
    wrong = {name: found for name in functions() if (found := called(name, True, caller))}
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_more_hostile_arguments(part: int, caller: Caller) -> None:
    wrong = {n: found for n in functions()[part::8] if (found := called(n, False, caller))}
    assert not wrong
