"""Arithmetic: + - * / and kin on integers, ratios and floats, with Foreign values let in.

The two-argument functions are what compiled calls use: exact int and float first, then the rest of
the numeric tower, then Foreign values, then the type-error. Floats that overflow are errors, as in
SBCL. A Python bool never gets here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from sexpgpu.lisp.errors import arithmetic_error, division_by_zero, type_error
from sexpgpu.lisp.registry import BUILTINS, builtin
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import Foreign, Function

_BIG = 1 << 2048  # integers beyond this are charged by their size


def is_number(value: Any) -> bool:
    """Whether the value is an integer, a ratio or a float."""
    return isinstance(value, int | float | Fraction)


def foreign_or_error(name: str, arguments: tuple[Any, ...], expected: str = "number") -> Any:
    """The result of the operation where a Foreign takes it, else the type-error."""
    for argument in arguments:
        if isinstance(argument, Foreign):
            result = argument.lisp_operate(name, arguments)
            if result is not NotImplemented:
                return result
    for argument in arguments:
        if not is_number(argument):
            raise type_error(argument, expected, operator=name)
    raise type_error(arguments[0], expected, operator=name)


def to_float(value: Any, operator: str = "float") -> float:
    """A real number as a float; too large a one is an error of the operator that takes it."""
    try:
        return float(value)
    except OverflowError:
        if operator == "float":
            raise overflow("float", (value,)) from None
        raise arithmetic_error(
            f"an argument of {operator} is too large for a float",
            operator,
            (value,),
            "floating-point-overflow",
        ) from None


def overflow(name: str, arguments: tuple[Any, ...]) -> Exception:
    """The error for a float result beyond the largest float."""
    return arithmetic_error(
        f"the result of {name} is too large for a float",
        name,
        arguments,
        "floating-point-overflow",
    )


def finite(result: float, name: str, arguments: tuple[Any, ...]) -> float:
    """The float, unless the operation made an infinity or a NaN of finite arguments."""
    if result - result == 0.0:
        return result
    for argument in arguments:
        if type(argument) is float and argument - argument != 0.0:
            return result  # it came in that way, from a host layer
    if result != result:
        raise arithmetic_error(
            f"{name} has no result for these arguments",
            name,
            arguments,
            "floating-point-invalid-operation",
        )
    raise overflow(name, arguments)


def whole(value: Fraction) -> Any:
    """A fraction as a Lisp number: an integer when its denominator is 1."""
    return value.numerator if value.denominator == 1 else value


def charged(value: int) -> int:
    """A large integer that an operation made; charged by its size."""
    words = value.bit_length() >> 6
    STATE.charge(words + (words * words >> 14))
    STATE.charge_memory(words * 8)
    return value


def charge_product(a_bits: int, b_bits: int) -> None:
    """Charge the product of integers of those sizes before it is computed (Karatsuba's cost)."""
    small, large = sorted((a_bits // 30 + 1, b_bits // 30 + 1))
    STATE.charge_memory((a_bits + b_bits) >> 3)
    STATE.charge(int(large * small**0.585) >> 4)


def charge_quotient(a: int, b: int) -> None:
    """Charge a division, or a greatest common divisor, of integers before it is computed: their
    sizes multiplied, since Python divides as one does by hand."""
    if -_BIG < a < _BIG or -_BIG < b < _BIG:
        return
    STATE.charge((a.bit_length() // 30) * (b.bit_length() // 30) >> 6)


def charge_ratio(value: Any) -> None:
    """Charge an operation with a ratio of long integers: it looks for common divisors."""
    if isinstance(value, Fraction):
        charge_quotient(value.numerator, value.denominator)


def _slow(name: str, operate: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    if not (is_number(a) and is_number(b)):
        return foreign_or_error(name, (a, b))
    if isinstance(a, float) or isinstance(b, float):
        try:
            return finite(operate(a, b), name, (a, b))
        except OverflowError:
            raise overflow(name, (a, b)) from None
    charge_ratio(a)
    charge_ratio(b)
    result = operate(a, b)
    if isinstance(result, Fraction):
        if result.denominator != 1:
            return result
        result = result.numerator
    return charged(result) if not -_BIG < result < _BIG else result


def _plus(a: Any, b: Any) -> Any:
    return a + b


def _minus(a: Any, b: Any) -> Any:
    return a - b


def _times(a: Any, b: Any) -> Any:
    return a * b


def add2(a: Any, b: Any) -> Any:
    """(+ a b)"""
    if type(a) is int and type(b) is int:
        return a + b
    if type(a) is float and type(b) is float:
        result = a + b
        if result - result == 0.0:
            return result
    return _slow("+", _plus, a, b)


def sub2(a: Any, b: Any) -> Any:
    """(- a b)"""
    if type(a) is int and type(b) is int:
        return a - b
    if type(a) is float and type(b) is float:
        result = a - b
        if result - result == 0.0:
            return result
    return _slow("-", _minus, a, b)


def mul2(a: Any, b: Any) -> Any:
    """(* a b)"""
    if type(a) is int and type(b) is int:
        if not (-_BIG < a < _BIG and -_BIG < b < _BIG):
            charge_product(a.bit_length(), b.bit_length())
        return a * b
    if type(a) is float and type(b) is float:
        result = a * b
        if result - result == 0.0:
            return result
    return _slow("*", _times, a, b)


def div2(a: Any, b: Any) -> Any:
    """(/ a b): exact on rationals."""
    if type(a) is float and type(b) is float and b != 0.0:
        result = a / b
        if result - result == 0.0:
            return result
    if not (is_number(a) and is_number(b)):
        return foreign_or_error("/", (a, b))
    if b == 0:
        raise division_by_zero("/", (a, b))
    if isinstance(a, float) or isinstance(b, float):
        return _slow("/", _ratio, a, b)
    if isinstance(a, int) and isinstance(b, int):
        charge_quotient(a, b)
        quotient, remainder = divmod(a, b)
        return quotient if remainder == 0 else Fraction(a, b)
    charge_ratio(a)
    charge_ratio(b)
    return whole(Fraction(a) / b)


def _ratio(a: Any, b: Any) -> Any:
    try:
        return a / b
    except ZeroDivisionError:  # a tiny ratio, as a float
        raise division_by_zero("/", (a, b)) from None


def negate(value: Any) -> Any:
    """(- value)"""
    if is_number(value):
        return -value
    return foreign_or_error("-", (value,))


@builtin("+", "(&rest numbers)", overload=True)
def add(*numbers: Any) -> Any:
    """The sum of NUMBERS."""
    if len(numbers) == 2:
        return add2(numbers[0], numbers[1])
    if not numbers:
        return 0
    total = numbers[0]
    if len(numbers) == 1:
        return total if is_number(total) else foreign_or_error("+", numbers)
    for number in numbers[1:]:
        total = add2(total, number)
    return total


@builtin("-", "(number &rest more)", overload=True)
def subtract(number: Any, *more: Any) -> Any:
    """NUMBER less MORE; of one argument, its negative."""
    if not more:
        return negate(number)
    for other in more:
        number = sub2(number, other)
    return number


@builtin("*", "(&rest numbers)", overload=True)
def multiply(*numbers: Any) -> Any:
    """The product of NUMBERS."""
    if len(numbers) == 2:
        return mul2(numbers[0], numbers[1])
    if not numbers:
        return 1
    total = numbers[0]
    if len(numbers) == 1:
        return total if is_number(total) else foreign_or_error("*", numbers)
    for number in numbers[1:]:
        total = mul2(total, number)
    return total


@builtin("/", "(number &rest more)", overload=True)
def divide(number: Any, *more: Any) -> Any:
    """NUMBER divided by MORE, exactly on rationals; of one argument, its reciprocal."""
    if not more:
        if is_number(number):
            return div2(1, number)
        return foreign_or_error("/", (number,))
    for other in more:
        number = div2(number, other)
    return number


# What calls with two arguments may call directly, by the builtin's function.
FAST_BINARY: dict[Function, Callable[[Any, Any], Any]] = {}
for _name, _python in (("+", add2), ("-", sub2), ("*", mul2)):
    _function = BUILTINS[_name].function
    assert _function is not None
    FAST_BINARY[_function] = _python


@builtin("1+", "(number)", overload=True)
def one_plus(number: Any) -> Any:
    """NUMBER plus 1."""
    if type(number) is int:
        return number + 1
    return add2(number, 1) if is_number(number) else foreign_or_error("1+", (number,))


@builtin("1-", "(number)", overload=True)
def one_minus(number: Any) -> Any:
    """NUMBER less 1."""
    if type(number) is int:
        return number - 1
    return sub2(number, 1) if is_number(number) else foreign_or_error("1-", (number,))


def _extreme(name: str, numbers: tuple[Any, ...], better: Callable[[Any, Any], bool]) -> Any:
    best = numbers[0]
    if not is_number(best) and len(numbers) == 1:
        return foreign_or_error(name, numbers, "real")
    for number in numbers[1:]:
        if is_number(best) and is_number(number):
            if better(number, best):
                best = number
        else:
            best = foreign_or_error(name, (best, number), "real")
    return best


@builtin("max", "(number &rest more)", overload=True)
def maximum(*numbers: Any) -> Any:
    """The greatest of the numbers."""
    return _extreme("max", numbers, lambda a, b: a > b)


@builtin("min", "(number &rest more)", overload=True)
def minimum(*numbers: Any) -> Any:
    """The least of the numbers."""
    return _extreme("min", numbers, lambda a, b: a < b)


@builtin("abs", "(number)", overload=True)
def absolute(number: Any) -> Any:
    """The magnitude of NUMBER."""
    return abs(number) if is_number(number) else foreign_or_error("abs", (number,))


@builtin("signum", "(number)", overload=True)
def signum(number: Any) -> Any:
    """-1, 0 or 1 by the sign of NUMBER, as a number of its kind."""
    if not is_number(number):
        return foreign_or_error("signum", (number,))
    if isinstance(number, float):
        return math.copysign(1.0, number) if number else number
    return (number > 0) - (number < 0)


def _integers(numbers: tuple[Any, ...]) -> None:
    for number in numbers:
        if not isinstance(number, int):
            raise type_error(number, "integer")


@builtin("gcd", "(&rest integers)")
def gcd(*integers: Any) -> Any:
    """The greatest common divisor of the integers."""
    _integers(integers)
    result = 0
    for integer in integers:
        charge_quotient(result, integer)
        result = math.gcd(result, integer)
    return result


@builtin("lcm", "(&rest integers)")
def lcm(*integers: Any) -> Any:
    """The least common multiple of the integers."""
    _integers(integers)
    result = 1
    for integer in integers:
        charge_quotient(result, integer)
        charge_product(result.bit_length(), integer.bit_length())
        result = math.lcm(result, integer)
    return result
