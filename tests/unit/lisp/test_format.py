"""`format` beyond the tables: columns, streams, limits, and a check of floats against Python."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sexpgpu.diagnostics.model import SxError
from sexpgpu.lisp.format import format_text
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.state import Limits
from sexpgpu.lisp.values import String


def text(form: str, limits: Limits | None = None) -> str:
    session = Session(limits)
    try:
        (value,) = session.evaluate(form, session.new_module("main"))
        assert isinstance(value, String)
        return value.text
    finally:
        session.close()


def test_fresh_line_and_tabs_know_the_stream_s_column() -> None:
    form = """(with-output-to-string (s)
                (princ "abc" s) (format s "~6tx~&") (format s "~&y") (format s "~2tz"))"""
    assert text(form) == "abc   x\ny z"


def test_case_conversion_keeps_the_column_for_tabs() -> None:
    assert text('(format nil "ab~(C~5tD~)")') == "abc  d"


def test_an_escape_inside_case_conversion_ends_the_iteration_too() -> None:
    assert text("""(format nil "~{~(~a~^, ~)~}." '(A B))""") == "a, b."


@given(st.floats(min_value=1e-6, max_value=1e12), st.integers(0, 8))
def test_fixed_digits_are_the_exact_value_rounded_half_up(value: float, places: int) -> None:
    # Digits beyond the shortest that read back are zeros: there is nothing to round there.
    assume(-Decimal(repr(value)).as_tuple().exponent > places)  # type: ignore[operator]
    wanted = Decimal(value).quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)
    expected = f"{wanted:f}" + ("." if places == 0 else "")
    assert format_text(f"~,{places}f", [value]) == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_free_format_reads_back(value: float) -> None:
    assert float(format_text("~f", [value])) == value
    assert float(format_text("~e", [value])) == value


@given(st.integers(-(10**40), 10**40))
def test_commas_stand_between_groups_of_three(value: int) -> None:
    assert format_text("~:d", [value]) == f"{value:,}"


@pytest.mark.parametrize(
    "form",
    [
        '(format nil "~1000000000d" 1)',
        '(format nil "~v@a" 1000000000 1)',
        '(format nil "~1000000000%")',
        '(format nil "~{~}" "" (list 1))',
        '(format nil "~{x~}" (list 1))',
        '(format nil "~,1000000000f" 1.5)',
        '(format nil "~1000000000<a~>")',
    ],
)
def test_limits_stop_what_is_too_large_or_endless(form: str) -> None:
    limits = Limits(fuel=200_000, memory=1_000_000, seconds=50)
    with pytest.raises(SxError) as found:
        text(f"(ignore-errors {form})", limits)
    assert found.value.diagnostics[0].code.id.startswith("E-LIMIT")


@pytest.mark.parametrize("control", ["~_", "~i", "~/f/", "~<~:>", "~", "~{", "~}", "~;", "~::d"])
def test_bad_control_strings_are_errors(control: str) -> None:
    form = f'(handler-case (format nil "{control}" 1) (error () "refused"))'
    assert text(form) == "refused"
