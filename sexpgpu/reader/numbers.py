"""Tokens that are numbers: integers, ratios, floats. Knows nothing else of the syntax."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

_DIGITS = "0123456789"
_MARKERS = "esfdl"


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
        found = _rational(token, base)
        if found is not None:
            return found
    if first not in _DIGITS:
        if first != "." or len(body) < 2 or body[1] not in _DIGITS:
            return None
    if body.isascii() and body.isdigit():
        return _decimal(token)
    if "/" in body:
        return _rational(token, 10)
    return _float(token, body)


def _decimal(token: str) -> int:
    if len(token) <= 4000:
        return int(token)
    # Python refuses long texts: convert by halves.
    sign = -1 if token[0] == "-" else 1
    return sign * _long(token.lstrip("+-"))


def _long(digits: str) -> int:
    if len(digits) <= 4000:
        return int(digits or "0")
    half = len(digits) // 2
    return _long(digits[:half]) * 10 ** (len(digits) - half) + _long(digits[half:])


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
            return _decimal(sign + whole) if dot and whole else None
        value = float(f"{sign}{whole or '0'}.{fraction}")
    else:
        if not whole and not fraction:
            return None
        value = float(f"{sign}{whole or '0'}.{fraction or '0'}e{exponent}")
    if value in (float("inf"), float("-inf")):
        shown = token if len(token) <= 40 else f"{token[:39]}…"
        raise BadNumber(f"{shown} is too large for a float")
    return value


def _rational(token: str, base: int) -> Any:
    upper, slash, lower = token.partition("/")
    high = _integer(upper, base, True)
    if high is None:
        return None
    if not slash:
        return high
    low = _integer(lower, base, False)
    if low is None:
        return None
    if low == 0:
        raise BadNumber(f"{token} has a zero denominator")
    value = Fraction(high, low)
    return value.numerator if value.denominator == 1 else value


def _integer(text: str, base: int, signed: bool) -> int | None:
    digits = text[1:] if signed and text[:1] in ("+", "-") else text
    if not digits or not digits.isascii() or not digits.isalnum():
        return None
    if base == 10:
        return _decimal(text) if digits.isdigit() else None
    try:
        return int(text, base)
    except ValueError:
        return None


def parse_radix(token: str, base: int) -> Any:
    """The rational that a token denotes in a base (`#x1f`, `#3r12/2`), or None."""
    return _rational(token, base)
