"""`sort` of integers takes a way of its own: the same answers as the merge that calls Lisp."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexpgpu.lisp.batch import Batch
from sexpgpu.lisp.state import Limits

BATCH = Batch(Limits(fuel=300_000, seconds=100))

numbers = st.lists(
    st.one_of(st.integers(-5, 5), st.integers(-(2**70), 2**70), st.just(0.5)), max_size=12
)


@given(numbers, st.sampled_from(["<", ">", "<=", ">="]), st.sampled_from(["list", "vector"]))
def test_as_with_a_predicate_of_one_s_own(items: list[Any], name: str, kind: str) -> None:
    given = f"({kind} {' '.join(map(str, items))})"
    own = BATCH.evaluate(f"(sort {given} #'{name})")
    called = BATCH.evaluate(f"(sort {given} (lambda (a b) ({name} a b)))")
    assert own == called
    assert "values" in own


@given(numbers, st.sampled_from(["<", ">", "stable <"]))
def test_by_keys_stably(items: list[Any], name: str) -> None:
    sort, name = ("stable-sort", "<") if " " in name else ("sort", name)
    pairs = " ".join(f"(list {item} {at})" for at, item in enumerate(items))
    own = BATCH.evaluate(f"({sort} (list {pairs}) #'{name} :key #'car)")
    called = BATCH.evaluate(f"({sort} (list {pairs}) (lambda (a b) ({name} a b)) :key #'car)")
    assert own == called
    assert "values" in own


@given(st.lists(st.text("abc\u00e9\U0001f600", max_size=3), max_size=9), st.sampled_from("<>"))
def test_strings_stably(items: list[str], sign: str) -> None:
    pairs = " ".join(f'(list "{item}" {at})' for at, item in enumerate(items))
    own = BATCH.evaluate(f"(sort (list {pairs}) #'string{sign} :key #'car)")
    called = BATCH.evaluate(f"(sort (list {pairs}) (lambda (a b) (string{sign} a b)) :key #'car)")
    assert own == called
    assert "values" in own


def test_what_is_no_number_is_still_an_error() -> None:
    answer = BATCH.evaluate("(sort (list 2 'a 1) #'<)")
    assert "type-error" in answer["error"]["condition"]


def test_sorting_costs_fuel() -> None:
    text = "(let ((l (loop for i below 1000 collect i))) (loop (sort l #'>)))"
    assert BATCH.evaluate(text)["error"]["code"] == "E-LIMIT-001"


@pytest.mark.parametrize("text", ["(endp 1)", "(loop for x in 5 collect x)", "(when (endp 'a) 1)"])
def test_the_end_of_what_is_no_list_is_a_type_error(text: str) -> None:
    assert BATCH.evaluate(text)["error"]["code"] == "E-TYPE-001"
