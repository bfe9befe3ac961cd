"""Properties of builtins against Python's own arithmetic, sorting and searching."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sexpgpu.lisp.calls import call, call_values
from sexpgpu.lisp.number_text import digits_of
from sexpgpu.lisp.printer import prin1_text
from sexpgpu.lisp.registry import BUILTINS
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.values import (
    NIL,
    Function,
    String,
    Vector,
    char,
    lisp_list,
    new_cons,
    python_list,
)


@pytest.fixture(scope="module", autouse=True)
def _session() -> Any:
    session = Session()
    session.evaluate("1", session.new_module("main"))  # everything is declared now
    yield
    session.close()


def lisp(name: str, *arguments: Any) -> Any:
    found = BUILTINS[name].function
    assert found is not None
    return call_values(found, *arguments)


def function(name: str) -> Function:
    found = BUILTINS[name].function
    assert found is not None
    return found


rationals = st.one_of(
    st.integers(-(10**20), 10**20),
    st.fractions(-1000, 1000, max_denominator=50).filter(lambda f: f.denominator != 1),
)
ROUNDERS = {"floor": math.floor, "ceiling": math.ceil, "truncate": math.trunc, "round": round}


@given(rationals, rationals, st.sampled_from(sorted(ROUNDERS)))
def test_rounding_of_rationals_is_exact(number: Any, divisor: Any, name: str) -> None:
    assume(divisor != 0)
    quotient, remainder = lisp(name, number, divisor)
    assert quotient == ROUNDERS[name](Fraction(number) / divisor)
    assert quotient * divisor + remainder == number


@given(rationals, rationals)
def test_arithmetic_on_rationals_is_exact_and_collapses_to_integers(a: Any, b: Any) -> None:
    for name, wanted in (("+", a + b), ("-", a - b), ("*", a * b)):
        result = lisp(name, a, b)
        assert result == wanted
        assert isinstance(result, Fraction) == (Fraction(wanted).denominator != 1)
    if b:
        assert lisp("/", a, b) == Fraction(a) / b


@given(rationals, st.floats(-1e6, 1e6))
def test_comparison_is_exact_between_kinds(a: Any, b: float) -> None:
    order = (Fraction(a) > Fraction(b)) - (Fraction(a) < Fraction(b))
    assert (lisp("<", a, b) is not NIL) == (order < 0)
    assert (lisp("=", a, b) is not NIL) == (order == 0)
    assert (lisp(">=", a, b) is not NIL) == (order >= 0)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers())))
def test_sort_is_stable(pairs: list[tuple[int, int]]) -> None:
    items = lisp_list([new_cons(a, b) for a, b in pairs])
    sort = function("sort")
    from sexpgpu.lisp.values import keyword

    result = call(sort, items, function("<"), keyword("key"), function("car"))
    got = [(c.car, c.cdr) for c in python_list(result)]
    assert got == sorted(pairs, key=lambda pair: pair[0])


@given(st.text("abc", max_size=8), st.text("abc", max_size=3))
def test_search_finds_what_python_finds(text: str, part: str) -> None:
    found = lisp("search", String(part), String(text))
    assert (-1 if found is NIL else found) == text.find(part)


@given(st.text("ab", max_size=8), st.text("ab", max_size=3), st.data())
def test_search_in_strings_is_that_in_vectors(text: str, part: str, data: Any) -> None:
    from sexpgpu.lisp.values import T, keyword

    low = data.draw(st.integers(0, len(text)))
    first = data.draw(st.integers(0, len(part)))
    options = [
        *(keyword("start1"), first, keyword("end1"), data.draw(st.integers(first, len(part)))),
        *(keyword("start2"), low, keyword("end2"), data.draw(st.integers(low, len(text)))),
        *(keyword("from-end"), data.draw(st.sampled_from([NIL, T]))),
    ]
    vectors = [Vector([char(letter) for letter in string]) for string in (part, text)]
    wanted = lisp("search", *vectors, *options)
    assert lisp("search", String(part), String(text), *options) == wanted


@given(st.text("abAB ", max_size=6), st.text("abAB ", max_size=6))
def test_string_order(a: str, b: str) -> None:
    assert (lisp("string<", String(a), String(b)) is not NIL) == (a < b)
    equal = lisp("string-equal", String(a), String(b)) is not NIL
    assert equal == (a.lower() == b.lower())


@given(st.integers(-(10**60), 10**60), st.integers(2, 36))
def test_integers_read_back_in_every_base(value: int, base: int) -> None:
    from sexpgpu.lisp.values import keyword

    text = ("-" if value < 0 else "") + digits_of(abs(value), base)
    assert int(text, base) == value
    assert call(function("parse-integer"), String(text), keyword("radix"), base) == value


@pytest.mark.parametrize("power", [1000, 5000, 20000])
def test_long_integers_print_without_python_s_limit(power: int) -> None:
    value = 7**power
    text = digits_of(value)
    assert 10 ** (len(text) - 1) <= value < 10 ** len(text)
    total = 0
    for at in range(0, len(text), 4000):  # Python refuses to read more at once
        part = text[at : at + 4000]
        total = total * 10 ** len(part) + int(part)
    assert total == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_print_shortest_and_read_back(value: float) -> None:
    text = prin1_text(value)
    assert float(text) == value
    assert text.partition("e")[0].count(".") == 1
    fixed = value == 0 or 1e-3 <= abs(value) < 1e7
    assert ("e" in text) != fixed


@given(st.floats(1e-300, 1e300))
def test_rationalize_is_the_float_and_no_longer_than_the_exact_ratio(value: float) -> None:
    simple = lisp("rationalize", value)
    assert float(simple) == value
    assert Fraction(simple).denominator <= Fraction(value).denominator


leaves = st.one_of(
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=4).map(String),
    st.characters(codec="utf-8").map(char),
    st.just(NIL),
)


@given(
    st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4).map(lisp_list), st.lists(inner, max_size=3).map(Vector)
        ),
        max_leaves=12,
    )
)
def test_what_is_printed_reads_back_equal(value: Any) -> None:
    text = prin1_text(value)
    again = call(function("read-from-string"), String(text))
    assert prin1_text(again) == text
    assert call(function("equalp"), value, again) is not NIL


@given(st.lists(st.one_of(st.integers(-3, 3), st.floats(-2, 2), st.booleans().map(int))))
def test_eql_tables_tell_numbers_apart_by_kind(keys: list[Any]) -> None:
    table = lisp("make-hash-table")
    model: dict[tuple[type, Any, float], int] = {}
    for index, key in enumerate(keys):
        lisp("(setf gethash)", index, key, table)
        model[type(key), key, math.copysign(1.0, key)] = index
    assert lisp("hash-table-count", table) == len(model)
    for key in keys:
        found = lisp("gethash", key, table)[0]
        assert found == model[type(key), key, math.copysign(1.0, key)]


@given(st.integers(1, 10**30), st.integers(0, 2**64))
def test_random_numbers_follow_the_seed(limit: int, seed: int) -> None:
    from sexpgpu.lisp.state import STATE

    draws = []
    for _ in range(2):
        STATE.random, STATE.seed = None, seed
        draws.append([lisp("random", limit) for _ in range(4)])
    assert draws[0] == draws[1]
    assert all(0 <= value < limit for value in draws[0])
