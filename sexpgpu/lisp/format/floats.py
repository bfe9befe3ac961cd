"""Floats in `format`: ~f ~e ~g ~$, from the shortest decimal digits of the number.

A number is kept as its digits and its point: 0.d1d2… * 10^point. Rounding is that of the exact
value, halves away from zero. The shortest digits decide it, but where a lone 5 is cut off: there
the exact value may lie below the half.
"""

from __future__ import annotations

import math
from fractions import Fraction

from sexpgpu.lisp.format.integers import padded_left
from sexpgpu.lisp.number_text import float_digits
from sexpgpu.lisp.state import STATE


class Decimal:
    """The digits of a non-negative number and the place of its point. `source` is the float that
    they are the shortest digits of."""

    __slots__ = ("digits", "point", "source")

    def __init__(self, digits: str, point: int, source: float | None = None) -> None:
        self.digits = digits
        self.point = point
        self.source = source

    def _half_is_up(self) -> bool:
        """Whether the exact value is not below what its shortest digits say."""
        if self.source is None:
            return True
        return Fraction(self.source) >= Fraction(repr(self.source))

    def rounded(self, places: int) -> Decimal:
        """Rounded to so many digits after the point."""
        keep = self.point + places
        if keep >= len(self.digits):
            return self
        if keep < 0:
            return Decimal("0", 1)
        up = self.digits[keep] >= "5"
        if up and self.digits[keep:] == "5":
            up = self._half_is_up()
        head = self.digits[:keep]
        if not up:
            return Decimal(head, self.point) if head.strip("0") else Decimal("0", 1)
        raised = str(int(head or "0") + 1)
        if not head:
            return Decimal(raised, self.point + 1)
        raised = raised.rjust(len(head), "0")
        return Decimal(raised, self.point + len(raised) - len(head))

    @property
    def is_zero(self) -> bool:
        return not self.digits.strip("0")

    def whole(self) -> str:
        """The digits before the point, without leading zeros ("" for none)."""
        if self.point <= 0 or self.is_zero:
            return ""
        return self.digits[: self.point].ljust(self.point, "0")

    def fraction(self) -> str:
        """The digits after the point, without trailing zeros."""
        if self.is_zero:
            return ""
        if self.point < 0:
            return ("0" * -self.point + self.digits).rstrip("0")
        return self.digits[self.point :].rstrip("0")


def decimal_of(value: float) -> Decimal:
    """The shortest decimal digits of a float's magnitude."""
    magnitude = abs(value)
    if magnitude == 0.0:
        return Decimal("0", 1)
    return Decimal(*float_digits(magnitude), magnitude)


def is_negative(value: float) -> bool:
    """Whether the sign is minus, that of -0.0 included."""
    return math.copysign(1.0, value) < 0


def is_finite(value: float) -> bool:
    """Whether the float has digits at all."""
    return value - value == 0.0


def fixed(
    value: float,
    width: int | None,
    places: int | None,
    scale: int,
    overflow: str | None,
    pad: str,
    plus: bool,
) -> str:
    """~w,d,k,overflow,padF"""
    sign = "-" if is_negative(value) else "+" if plus else ""
    number = decimal_of(value)
    if not number.is_zero:
        number = Decimal(number.digits, number.point + scale, number.source)
    STATE.charge_memory(abs(number.point) + (places or 0))
    STATE.charge(abs(number.point) // 16 + (places or 0) // 16)
    if places is None and width is not None:
        room = width - len(sign) - 1 - max(number.point, 0)
        shown = number.rounded(max(room, 0))
        if shown.point > number.point > 0:
            shown = number.rounded(max(room - 1, 0))
        number = shown
    elif places is not None:
        number = number.rounded(places)
    whole, fraction = number.whole(), number.fraction()
    if places is not None:
        fraction = fraction.ljust(places, "0")
    body = f"{whole}.{fraction}"
    lead = not whole
    trail = not fraction and places is None
    if width is None:
        return sign + ("0" if lead else "") + body + ("0" if trail else "")
    left = width - len(sign) - len(body)
    if lead and (left > 0 or not fraction):
        body, left = "0" + body, left - 1
    if trail and left > 0:
        body, left = body + "0", left - 1
    if left < 0 and overflow is not None:
        STATE.charge_memory(width)
        return overflow * width
    return padded_left(sign + body, width, pad)


def exponential(
    value: float,
    width: int | None,
    places: int | None,
    exponent_width: int | None,
    scale: int,
    overflow: str | None,
    pad: str,
    marker: str,
    plus: bool,
) -> str:
    """~w,d,e,k,overflow,pad,markerE"""
    STATE.charge_memory((width or 0) + (places or 0) + (exponent_width or 0) + abs(scale))
    sign = "-" if is_negative(value) else "+" if plus else ""
    number = decimal_of(value)
    digits = number.digits.strip("0") if not number.is_zero else ""
    power = number.point - scale if digits else 0

    def tail_of(power: int) -> str:
        text = str(abs(power))
        if exponent_width is not None:
            text = text.rjust(exponent_width, "0")
        return marker + ("-" if power < 0 else "+") + text

    tail = tail_of(power)
    if places is None and width is not None:
        room = width - len(sign) - len(tail) - 1
        places = room - max(scale, 0)
        places = max(1 if scale > 0 else 0, min(places, max(len(digits) - scale, 0)))
    if places is not None:
        significant = places + 1 if scale > 0 else places + scale
        if scale > 0 and places + 1 < scale:
            significant = scale
        shown = None
        if digits:
            shown = Decimal(digits, 0, number.source).rounded(max(significant, 0))
        if shown is not None:
            if shown.point > 0:
                power += 1
                tail = tail_of(power)
            digits = shown.digits if not shown.is_zero else ""
        digits = digits[: max(significant, 0)].ljust(max(significant, 0), "0")
    if scale > 0:
        padded = digits.ljust(scale, "0")
        whole, fraction = padded[:scale], padded[scale:]
    else:
        whole, fraction = "", "0" * -scale + digits
    if not value and places is None:
        whole, fraction = ("0" if scale > 0 else ""), ""
    trail = not fraction and places is None
    body = f"{whole}.{fraction}"
    if exponent_width is not None and len(str(abs(power))) > exponent_width and overflow:
        if width is not None:
            return overflow * width
    if width is None:
        return sign + ("0" if not whole else "") + body + ("0" if trail else "") + tail
    left = width - len(sign) - len(body) - len(tail)
    if trail and left > 0:
        body, left = body + "0", left - 1
    if not whole and (left > 0 or body == "."):
        body, left = "0" + body, left - 1
    if left < 0 and overflow is not None:
        STATE.charge_memory(width)
        return overflow * width
    return padded_left(sign + body + tail, width, pad)


def general(
    value: float,
    width: int | None,
    places: int | None,
    exponent_width: int | None,
    scale: int,
    overflow: str | None,
    pad: str,
    marker: str,
    plus: bool,
) -> str:
    """~w,d,e,k,overflow,pad,markerG: fixed when the number fits, else exponential."""
    number = decimal_of(value)
    power = 0 if number.is_zero else number.point
    if places is None:
        needed = 0 if number.is_zero else max(len(number.digits), len(number.digits) - power, power)
        places = max(needed, min(power, 7))
    after = places - power
    if not 0 <= after <= places:
        return exponential(value, width, places, exponent_width, scale, overflow, pad, marker, plus)
    blanks = 4 if exponent_width is None else exponent_width + 2
    room = None if width is None else max(width - blanks, 0)
    STATE.charge_memory(blanks)
    return fixed(value, room, after, 0, overflow, pad, plus) + " " * blanks


def money(
    value: float | Fraction, places: int, least: int, width: int, pad: str, plus: bool, early: bool
) -> str:
    """~d,n,w,pad$"""
    STATE.charge_memory(least + places)
    number = decimal_of(float(value)).rounded(places)
    sign = "-" if is_negative(float(value)) else "+" if plus else ""
    body = f"{number.whole().rjust(least, '0')}.{number.fraction().ljust(places, '0')}"
    if early:
        return sign + padded_left(body, width - len(sign), pad)
    return padded_left(sign + body, width, pad)
