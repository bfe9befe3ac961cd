"""The text of numbers, in the base that *print-base* says. Long integers are charged."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from sexpgpu.lisp.errors import type_error
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import CL, NIL, Symbol


def printer_variable(name: str, value: Any) -> Symbol:
    """Declare a variable of the printer."""
    symbol = CL.own(name)
    symbol.special = True
    symbol.value = value
    return symbol


PRINT_BASE = printer_variable("*print-base*", 10)
PRINT_RADIX = printer_variable("*print-radix*", NIL)

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def print_base() -> int:
    """The value of *print-base*."""
    base = PRINT_BASE.value
    if type(base) is int and 2 <= base <= 36:
        return base
    message = "*print-base* is not an integer from 2 to 36"
    raise type_error(base, "(integer 2 36)", message)


def digits_of(value: int, base: int = 10) -> str:
    """The digits of a non-negative integer in a base; charged by its size."""
    bits = value.bit_length()
    if bits > 2000:
        words = bits // 64
        STATE.charge_memory(bits // 3)
        if base == 10:
            STATE.charge(words * 4)
            return _long_decimal(value)
        if base not in (2, 8, 16):
            STATE.charge(words * words // 64)
            return _long_digits(value, base)
        STATE.charge(words)
    elif base == 10:
        return str(value)
    if base == 2:
        return format(value, "b")
    if base == 8:
        return format(value, "o")
    if base == 16:
        return format(value, "X")
    if value == 0:
        return "0"
    letters: list[str] = []
    while value:
        value, digit = divmod(value, base)
        letters.append(DIGITS[digit])
    return "".join(reversed(letters))


def _long_decimal(value: int) -> str:
    """Decimal digits by way of `decimal`, whose products of long numbers are fast (Python's own
    conversion is quadratic, and refuses long integers): by halves, each a sum hi * 2^n + lo."""
    import decimal

    with decimal.localcontext() as context:
        context.prec = decimal.MAX_PREC
        context.Emax, context.Emin = decimal.MAX_EMAX, decimal.MIN_EMIN
        width = 1024
        powers = [decimal.Decimal(1 << width)]
        while width * 2 < value.bit_length():
            powers.append(powers[-1] * powers[-1])
            width *= 2

        def convert(number: int, level: int) -> decimal.Decimal:
            if level < 0:
                return decimal.Decimal(number)
            half = 1024 << level
            high = number >> half
            low = convert(number & ((1 << half) - 1), level - 1)
            return convert(high, level - 1) * powers[level] + low if high else low

        return str(convert(value, len(powers) - 1))


def _long_digits(value: int, base: int) -> str:
    """Digits by halving: less work than digit by digit."""
    powers: list[tuple[int, int]] = []  # (base ** digits, digits), doubling
    power, width = base**64, 64
    while power <= value:
        powers.append((power, width))
        power, width = power * power, width * 2

    def convert(number: int, level: int, pad: int) -> str:
        if level < 0:
            return digits_of(number, base).rjust(pad, "0")
        divisor, below = powers[level]
        high, low = divmod(number, divisor)
        tail = convert(low, level - 1, below)
        if not high and not pad:
            return tail.lstrip("0")
        return convert(high, level - 1, max(pad - below, 0)) + tail

    return convert(value, len(powers) - 1, 0).lstrip("0")


def integer_text(value: int) -> str:
    """An integer in *print-base*, with *print-radix*'s mark."""
    base = print_base()
    if base == 10:
        if -(1 << 60) < value < 1 << 60:
            text = int.__repr__(value)
        else:
            text = ("-" if value < 0 else "") + digits_of(abs(value))
        return text if PRINT_RADIX.value is NIL else text + "."
    sign = "-" if value < 0 else ""
    return _radix_mark(base) + sign + digits_of(abs(value), base)


def _radix_mark(base: int) -> str:
    if PRINT_RADIX.value is NIL:
        return ""
    return {2: "#b", 8: "#o", 16: "#x"}.get(base, f"#{base}r")


def ratio_text(value: Fraction) -> str:
    """A ratio in *print-base*."""
    base = print_base()
    sign = "-" if value < 0 else ""
    mark = _radix_mark(base)
    digits = digits_of(abs(value.numerator), base) + "/" + digits_of(value.denominator, base)
    return mark + sign + digits


def float_digits(value: float) -> tuple[str, int]:
    """The shortest digits d1d2… and the exponent e of a finite positive float: 0.d1d2… * 10^e."""
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = int(exponent or 0) + len(whole)
    if whole == "0":
        point -= len(fraction) - len(fraction.lstrip("0")) + 1
    return digits.rstrip("0") or "0", point


def float_text(value: float) -> str:
    """A float as CL prints it: fixed notation from 1e-3 below 1e7, else d.ddde±n."""
    if value != value or value in (float("inf"), float("-inf")):
        return f"#<float {value!r}>"
    magnitude = abs(value)
    sign = "-" if str(value)[0] == "-" else ""
    if magnitude == 0.0:
        return sign + "0.0"
    digits, point = float_digits(magnitude)
    if 1e-3 <= magnitude < 1e7:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        if len(digits) <= point:
            return f"{sign}{digits}{'0' * (point - len(digits))}.0"
        return f"{sign}{digits[:point]}.{digits[point:]}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}e{point - 1}"
