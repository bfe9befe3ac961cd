"""The nearest name: distances against a textbook recursion, and what people really mistype."""

from __future__ import annotations

import functools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexpgpu.diagnostics.suggest import did_you_mean, distance, nearest, nearest_several

OPTIMIZER = ["lr", "momentum", "nesterov", "decay", "b1", "b2", "eps", "decay-all"]


def reference(a: str, b: str) -> int:
    """The definition, by recursion on prefixes."""

    @functools.cache
    def of(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        best = min(of(i - 1, j) + 1, of(i, j - 1) + 1, of(i - 1, j - 1) + (a[i - 1] != b[j - 1]))
        if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
            best = min(best, of(i - 2, j - 2) + 1)
        return best

    return of(len(a), len(b))


WORDS = st.text("abc", max_size=8)


@given(WORDS, WORDS)
def test_distance_is_the_textbooks(a: str, b: str) -> None:
    assert distance(a, b, 20) == reference(a, b)


@given(WORDS, WORDS, st.integers(0, 4))
def test_distance_stops_at_its_limit(a: str, b: str, limit: int) -> None:
    assert distance(a, b, limit) == min(reference(a, b), limit + 1)


@pytest.mark.parametrize("name", [n for n in OPTIMIZER if len(n) > 2])
def test_every_keyword_with_one_letter_changed_finds_itself(name: str) -> None:
    for at in range(len(name)):
        assert nearest(name[:at] + "q" + name[at + 1 :], OPTIMIZER) == name
        assert nearest(name[:at] + name[at + 1 :], OPTIMIZER) == name
        assert nearest(name[:at] + "q" + name[at:], OPTIMIZER) == name


@pytest.mark.parametrize(
    "name, expected",
    [
        ("lz", "lr"),
        ("LR", "lr"),
        ("momnetum", "momentum"),
        ("Decay", "decay"),
        ("decay_all", "decay-all"),
        ("weight-decay", "decay"),
        ("nesterof", "nesterov"),
        ("temperature", None),
        ("q", None),
    ],
)
def test_what_people_mistype(name: str, expected: str | None) -> None:
    assert nearest(name, OPTIMIZER) == expected


def test_the_best_comes_first_and_the_name_itself_never() -> None:
    assert nearest_several("sotred", ["store", "stored", "sorted", "sotred"])[:2] == [
        "stored",
        "sorted",
    ]
    assert nearest("lr", ["lr"]) is None
    assert did_you_mean("layernorm", ["layer-norm", "linear"]) == "did you mean layer-norm?"


def test_two_thousand_names_take_no_time() -> None:
    names = [f"layer-{i}-{'abcdefgh'[i % 8]}" for i in range(2000)]
    start = time.process_time()
    assert nearest("laeyr-1234-c", names) == "layer-1234-c"
    assert time.process_time() - start < 0.5
