"""Tokens that are numbers: integers, ratios, floats. Knows nothing else of the syntax."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

_DIGITS = "0123456789"
_MARKERS = "esfdl"
MAX_DIGITS = 1_000_000  # of a token: what is longer takes seconds to convert
_AT_ONCE = 1024  # digits that Python converts as fast as anything; it refuses many more


class BadNumber(Exception):
    """A token with the form of a number that has no value."""


def parse_number(token: str, base: int = 10) -> Any:
    """The number that a token denotes, or None when the token is a symbol. BadNumber: neither."""
    body = token
    first = body[0]
    if first in "+-":
        body = body[1:]
        if not body:
            return None
        first = body[0]
    if base != 10:
        found = parse_radix(token, base)
        if found is not None:
            return found
    if first not in _DIGITS:
        if first != "." or len(body) < 2 or body[1] not in _DIGITS:
            return None
    if body.isascii() and body.isdigit():
        return _signed(token, 10)
    if "/" in body:
        return parse_radix(token, 10)
    return _float(token, body)


def parse_radix(token: str, base: int) -> Any:
    """The rational that a token denotes in a base (`#x1f`, `#3r12/2`), or None."""
    upper, slash, lower = token.partition("/")
    high = upper[1:] if upper[:1] in ("+", "-") else upper
    if not _has_digits(high, base) or (slash and not _has_digits(lower, base)):
        return None
    numerator = _signed(upper, base)
    if not slash:
        return numerator
    denominator = _signed(lower, base)
    if denominator == 0:
        raise BadNumber(f"{_shown(token)} has a zero denominator")
    value = Fraction(numerator, denominator)
    return value.numerator if value.denominator == 1 else value


def integer_of(digits: str, base: int) -> int:
    """The integer that digits of a base denote, by halves where there are many: Python's own
    conversion is quadratic, and refuses thousands."""
    if len(digits) <= _AT_ONCE or base & (base - 1) == 0:
        return int(digits, base)
    width = _AT_ONCE
    power = base**width
    powers = [power]
    while width * 2 < len(digits):
        power, width = power * power, width * 2
        powers.append(power)

    def convert(start: int, end: int, level: int) -> int:
        while level >= 0 and end - start <= _AT_ONCE << level:
            level -= 1
        if level < 0:
            return int(digits[start:end], base)
        low = _AT_ONCE << level
        high = convert(start, end - low, level)
        return high * powers[level] + convert(end - low, end, level - 1)

    return convert(0, len(digits), len(powers) - 1)


def _has_digits(text: str, base: int) -> bool:
    """Whether a text is all digits of a base, and there are some."""
    if not text.isascii() or not text.isalnum():
        return False
    if base == 10:
        return text.isdigit()
    last = max(text.lower())
    return int(last, 36) < base


def _signed(text: str, base: int) -> int:
    """The integer that a sign, if any, and digits denote."""
    if len(text) <= _AT_ONCE:
        return int(text, base)
    if len(text) > MAX_DIGITS:
        raise BadNumber(f"a number of {len(text):,} digits: {MAX_DIGITS:,} are the most")
    value = integer_of(text.lstrip("+-"), base)
    return -value if text[0] == "-" else value


def _float(token: str, body: str) -> Any:
    mantissa = body
    exponent = ""
    lowered = body.lower()
    for marker in _MARKERS:
        at = lowered.find(marker)
        if at >= 0:
            mantissa, exponent = lowered[:at], lowered[at + 1 :]
            digits = exponent[1:] if exponent[:1] in ("+", "-") else exponent
            if not (digits.isascii() and digits.isdigit()):
                return None
            break
    whole, dot, fraction = mantissa.partition(".")
    for part in (whole, fraction):
        if part and not (part.isascii() and part.isdigit()):
            return None
    sign = "-" if token[0] == "-" else ""
    if not exponent:
        if not fraction:
            return _signed(sign + whole, 10) if dot and whole else None
        value = float(f"{sign}{whole or '0'}.{fraction}")
    else:
        if not whole and not fraction:
            return None
        value = float(f"{sign}{whole or '0'}.{fraction or '0'}e{exponent}")
    if value in (float("inf"), float("-inf")):
        raise BadNumber(f"{_shown(token)} is too large for a float")
    if value == 0.0 and mantissa.strip("0."):
        raise BadNumber(f"{_shown(token)} is too small for a float")
    return value


def _shown(token: str) -> str:
    return token if len(token) <= 40 else f"{token[:39]}…"
