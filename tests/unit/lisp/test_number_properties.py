"""The numeric tower against Python's own: `fractions` for what is exact, `math` for floats."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from sexpgpu.lisp.calls import call_values
from sexpgpu.lisp.errors import LispError
from sexpgpu.lisp.registry import BUILTINS
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.values import NIL


@pytest.fixture(scope="module", autouse=True)
def _session() -> Iterator[None]:
    session = Session()
    session.evaluate("1", session.new_module("main"))  # everything is declared now
    yield
    session.close()


def lisp(name: str, *arguments: Any) -> Any:
    """The value, or a tuple of values, of a builtin."""
    found = BUILTINS[name].function
    assert found is not None
    return call_values(found, *arguments)


def true(name: str, *arguments: Any) -> bool:
    return lisp(name, *arguments) is not NIL


def plain(value: Any) -> Any:
    """A ratio that is whole is an integer."""
    return int(value) if isinstance(value, Fraction) and value.denominator == 1 else value


def alike(found: Any, wanted: Any) -> bool:
    """Equal and of one kind; floats to the sign of zero."""
    if type(found) is not type(wanted):
        return False
    if type(found) is float:
        return found == wanted and math.copysign(1.0, found) == math.copysign(1.0, wanted)
    return found == wanted


near = st.integers(-12, 12)
integers = st.one_of(near, st.integers(-(10**6), 10**6), st.integers(-(2**200), 2**200))
ratios = st.fractions(max_denominator=10**6).map(plain)
rationals = st.one_of(integers, ratios, st.builds(Fraction, near, st.integers(1, 6)).map(plain))
floats = st.one_of(
    st.floats(-1e6, 1e6),
    st.floats(allow_nan=False, allow_infinity=False),
    near.map(float),
    st.sampled_from([0.0, -0.0, 0.5, 2.5, 5e-324, 2.0**53, 2.0**53 + 2, 1e308]),
)
reals = st.one_of(rationals, floats)
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def contagious(name: str, a: Any, b: Any) -> Any:
    """What Python says of an operation: exact for rationals, else in floats. The condition's name
    where CL signals one."""
    try:
        if not isinstance(a, float) and not isinstance(b, float):
            return plain(OPERATIONS[name](Fraction(a), Fraction(b)))
        result = OPERATIONS[name](float(a), float(b))
    except ZeroDivisionError:
        return "division-by-zero"
    except OverflowError:
        return "floating-point-overflow"
    return result if math.isfinite(result) else "floating-point-overflow"


@given(reals, reals, st.sampled_from(sorted(OPERATIONS)))
@example(0, -0.0, "+")
@example(0, 1.0, "-")
@example(0, -1.0, "*")
def test_four_operations(a: Any, b: Any, name: str) -> None:
    wanted = contagious(name, a, b)
    if isinstance(wanted, str):
        with pytest.raises(LispError) as raised:
            lisp(name, a, b)
        assert raised.value.condition.type == wanted
        return
    found = lisp(name, a, b)
    assert found == wanted
    assert type(found) is type(wanted)


@given(st.lists(rationals, max_size=6))
def test_any_number_of_arguments(numbers: list[Any]) -> None:
    assert alike(lisp("+", *numbers), plain(sum(map(Fraction, numbers), Fraction(0))))
    product = reduce(operator.mul, map(Fraction, numbers), Fraction(1))
    assert alike(lisp("*", *numbers), plain(product))
    if numbers:
        rest = sum(map(Fraction, numbers[1:]), Fraction(0))
        first = Fraction(numbers[0])
        assert alike(lisp("-", *numbers), plain(first - rest if len(numbers) > 1 else -first))
        assert lisp("max", *numbers) == max(numbers)
        assert lisp("min", *numbers) == min(numbers)
    if len(numbers) > 1 and all(numbers[1:]):
        quotient = reduce(operator.truediv, map(Fraction, numbers))
        assert alike(lisp("/", *numbers), plain(quotient))


COMPARISONS = {
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


@given(st.lists(reals, min_size=1, max_size=4), st.sampled_from(sorted(COMPARISONS)))
@example([2**53, 2.0**53, 2**53 + 1], "=")
@example([Fraction(1, 10), 0.1], "<")
@example([0.0, -0.0, 0], "=")
def test_comparisons_are_of_exact_values(numbers: list[Any], name: str) -> None:
    exact = [Fraction(n) for n in numbers]
    wanted = all(COMPARISONS[name](a, b) for a, b in pairwise(exact))
    assert true(name, *numbers) == wanted
    assert true("/=", *numbers) == (len(set(exact)) == len(exact))


ROUNDERS: dict[str, Callable[[Any], int]] = {
    "floor": math.floor,
    "ceiling": math.ceil,
    "truncate": math.trunc,
    "round": round,
}


@given(rationals, rationals, st.sampled_from(sorted(ROUNDERS)))
@example(-7, 2, "round")
@example(7, -2, "round")
@example(Fraction(5, 2), 1, "round")
@example(5, Fraction(-1, 2), "ceiling")
def test_roundings_of_rationals(number: Any, divisor: Any, name: str) -> None:
    assume(divisor != 0)
    quotient = ROUNDERS[name](Fraction(number) / Fraction(divisor))
    rest = plain(Fraction(number) - quotient * Fraction(divisor))
    found = lisp(name, number, divisor)
    assert alike(found[0], quotient)
    assert alike(found[1], rest)
    as_float = lisp("f" + name, number, divisor)
    assert alike(abs(as_float[0]), float(abs(quotient)))
    assert alike(as_float[1], rest)
    if name == "floor":
        assert alike(lisp("mod", number, divisor), rest)
    if name == "truncate":
        assert alike(lisp("rem", number, divisor), rest)


@given(floats, st.sampled_from(sorted(ROUNDERS)))
def test_roundings_of_floats(number: float, name: str) -> None:
    quotient, rest = lisp(name, number)
    assert alike(quotient, ROUNDERS[name](number))
    assert type(rest) is float
    assert rest == float(Fraction(number) - quotient)


@given(st.integers(-(10**6), 10**6), st.sampled_from([0.25, 0.5, 1.0, 2.0, -0.5, -4.0]))
def test_mod_and_rem_of_floats(number: int, divisor: float) -> None:
    value = number / 8
    assert lisp("mod", value, divisor) == value % divisor
    assert lisp("rem", value, divisor) == math.fmod(value, divisor)


@given(rationals, st.integers(-40, 40))
@example(0, 0)
@example(Fraction(-2, 3), -3)
def test_integer_powers_are_exact(base: Any, power: int) -> None:
    if base == 0 and power < 0:
        with pytest.raises(LispError) as raised:
            lisp("expt", base, power)
        assert raised.value.condition.type == "division-by-zero"
        return
    assert alike(lisp("expt", base, power), plain(Fraction(base) ** power))


@given(st.floats(0.01, 100), st.one_of(st.integers(-20, 20), st.floats(-20, 20)))
def test_float_powers(base: float, power: Any) -> None:
    assert alike(lisp("expt", base, power), math.pow(base, power))


@given(st.lists(integers, max_size=5))
def test_divisors_and_multiples(numbers: list[int]) -> None:
    assert alike(lisp("gcd", *numbers), math.gcd(*numbers))
    assert alike(lisp("lcm", *numbers), math.lcm(*numbers))


@given(st.integers(0, 2**300))
def test_integer_square_root(number: int) -> None:
    root = lisp("isqrt", number)
    assert root * root <= number < (root + 1) * (root + 1)


def bits(value: int) -> list[bool]:
    """Two's complement, from the lowest bit, 260 bits of it."""
    return [bool(value >> n & 1) for n in range(260)]


def from_bits(marks: list[bool]) -> int:
    """The integer whose two's complement this is; the last bit is the sign."""
    whole = sum(1 << n for n, mark in enumerate(marks) if mark)
    return whole - (1 << len(marks)) if marks[-1] else whole


TRUTH: dict[str, Callable[[bool, bool], bool]] = {
    "logand": lambda a, b: a and b,
    "logior": lambda a, b: a or b,
    "logxor": lambda a, b: a != b,
    "logeqv": lambda a, b: a == b,
    "lognand": lambda a, b: not (a and b),
    "lognor": lambda a, b: not (a or b),
    "logandc1": lambda a, b: not a and b,
    "logandc2": lambda a, b: a and not b,
    "logorc1": lambda a, b: not a or b,
    "logorc2": lambda a, b: a or not b,
}


@given(integers, integers, st.sampled_from(sorted(TRUTH)))
def test_logic_is_that_of_every_bit(a: int, b: int, name: str) -> None:
    wanted = from_bits([TRUTH[name](x, y) for x, y in zip(bits(a), bits(b), strict=True)])
    assert alike(lisp(name, a, b), wanted)
    assert lisp("lognot", a) == -1 - a
    assert true("logtest", a, b) == any(x and y for x, y in zip(bits(a), bits(b), strict=True))


@given(integers, st.integers(-80, 80))
def test_shifts_floor(number: int, places: int) -> None:
    assert alike(lisp("ash", number, places), math.floor(number * Fraction(2) ** places))


@given(integers, st.integers(0, 220), st.integers(0, 30))
def test_bits_and_bytes(number: int, at: int, size: int) -> None:
    marks = bits(number)
    assert true("logbitp", at, number) == marks[at]
    sign = number < 0
    assert lisp("logcount", number) == sum(mark != sign for mark in marks)
    length = lisp("integer-length", number)
    assert -(1 << length) <= number < (1 << length)
    assert length == 0 or not -(1 << (length - 1)) <= number < (1 << (length - 1))
    spec = lisp("byte", size, at)
    assert lisp("ldb", spec, number) == from_bits([*marks[at : at + size], False])
    put = lisp("dpb", -1, spec, number)
    assert put == from_bits([*marks[:at], *[True] * size, *marks[at + size :]])


@given(floats)
def test_rational_is_exact_and_rationalize_the_simplest_that_rounds_back(number: float) -> None:
    exact = lisp("rational", number)
    assert alike(exact, plain(Fraction(number)))
    simple = Fraction(lisp("rationalize", number))
    assert float(simple) == number
    # A best approximation: nothing with a smaller denominator rounds to the same float.
    if 1 < simple.denominator < 10**6:
        for smaller in {1, 2, 3, simple.denominator // 2, simple.denominator - 1}:
            if 0 < smaller < simple.denominator:
                assert float(Fraction(round(Fraction(number) * smaller), smaller)) != number


@given(rationals)
def test_float_of_a_rational_is_the_nearest(number: Any) -> None:
    try:
        wanted = float(Fraction(number))
    except OverflowError:
        return
    assert alike(lisp("float", number), wanted)
    assert alike(lisp("numerator", number), Fraction(number).numerator)
    assert alike(lisp("denominator", number), Fraction(number).denominator)


@given(floats.filter(bool))
def test_floats_fall_apart_and_come_together(number: float) -> None:
    mantissa, exponent, sign = lisp("integer-decode-float", number)
    assert Fraction(mantissa) * Fraction(2) ** exponent * sign == Fraction(number)
    half, power, unit = lisp("decode-float", number)
    assert 0.5 <= half < 1
    assert alike(lisp("scale-float", half, power) * unit, number)


@given(reals)
def test_signs_and_neighbours(number: Any) -> None:
    exact = Fraction(number)
    assert true("zerop", number) == (exact == 0)
    assert true("plusp", number) == (exact > 0)
    assert true("minusp", number) == (exact < 0)
    assert alike(lisp("abs", number), abs(number))
    assert lisp("signum", number) == (exact > 0) - (exact < 0)
    assert type(lisp("signum", number)) is (float if isinstance(number, float) else int)
    assert lisp("1+", number) == (number + 1 if isinstance(number, float) else exact + 1)
    assert lisp("1-", number) == (number - 1 if isinstance(number, float) else exact - 1)
    if isinstance(number, int):
        assert true("evenp", number) == (number % 2 == 0) != true("oddp", number)


FUNCTIONS: dict[str, tuple[Callable[[float], float], float, float]] = {
    "exp": (math.exp, -700, 700),
    "sin": (math.sin, -1e6, 1e6),
    "cos": (math.cos, -1e6, 1e6),
    "tan": (math.tan, -1e6, 1e6),
    "asin": (math.asin, -1, 1),
    "acos": (math.acos, -1, 1),
    "atan": (math.atan, -1e6, 1e6),
    "sinh": (math.sinh, -700, 700),
    "cosh": (math.cosh, -700, 700),
    "tanh": (math.tanh, -700, 700),
    "asinh": (math.asinh, -1e6, 1e6),
    "acosh": (math.acosh, 1, 1e6),
    "atanh": (math.atanh, -0.999, 0.999),
    "sqrt": (math.sqrt, 0, 1e300),
    "log": (math.log, 1e-300, 1e300),
}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@given(data=st.data())
def test_functions_of_analysis(name: str, data: Any) -> None:
    compute, low, high = FUNCTIONS[name]
    number = data.draw(st.one_of(st.floats(low, high), st.integers(math.ceil(low), int(high))))
    found = lisp(name, number)
    assert type(found) is float
    assert math.isclose(found, compute(float(number)), rel_tol=1e-15, abs_tol=1e-300)


@given(st.integers(1, 2**3000), st.integers(2, 40))
def test_logarithms_of_large_integers(number: int, base: int) -> None:
    assert math.isclose(lisp("log", number), math.log(number), rel_tol=1e-14)
    found = lisp("log", number, base)
    assert math.isclose(found, math.log(number) / math.log(base), rel_tol=1e-14)


@given(st.integers(0, 400))
def test_logarithms_of_powers_of_two_and_ten_are_whole(power: int) -> None:
    assert lisp("log", 2**power, 2) == power
    assert lisp("log", 10**power, 10) == power


@given(st.integers(1, 10**400), st.integers(1, 10**400))
def test_logarithms_of_ratios_are_within_a_few_roundings(above: int, below: int) -> None:
    wanted = math.log(above) - math.log(below)
    assert math.isclose(lisp("log", plain(Fraction(above, below))), wanted, abs_tol=1e-12)


@pytest.mark.parametrize("step", [3, 10**6, 10**15, 10**30])
def test_logarithms_near_one_keep_their_digits(step: int) -> None:
    found = lisp("log", Fraction(step + 1, step))
    assert math.isclose(found, math.log1p(1 / step), rel_tol=1e-14)
