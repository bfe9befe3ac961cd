"""Integers in `format`: fields with commas, English words, Roman numerals."""

from __future__ import annotations

from sexpgpu.lisp.number_text import digits_of
from sexpgpu.lisp.state import STATE

_SMALL = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = (
    "zero",
    "ten",
    "twenty",
    "thirty",
    "forty",
    "fifty",
    "sixty",
    "seventy",
    "eighty",
    "ninety",
)
_POWERS = [
    "",
    "thousand",
    "million",
    "billion",
    "trillion",
    "quadrillion",
    "quintillion",
    "sextillion",
    "septillion",
    "octillion",
    "nonillion",
    "decillion",
    "undecillion",
    "duodecillion",
    "tredecillion",
    "quattuordecillion",
    "quindecillion",
    "sexdecillion",
    "septendecillion",
    "octodecillion",
    "novemdecillion",
    "vigintillion",
]
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
_ROMAN = (
    (1000, "M"),
    (900, "CM"),
    (500, "D"),
    (400, "CD"),
    (100, "C"),
    (90, "XC"),
    (50, "L"),
    (40, "XL"),
    (10, "X"),
    (9, "IX"),
    (5, "V"),
    (4, "IV"),
    (1, "I"),
)
LARGEST_IN_WORDS = 10**66


def padded_left(text: str, width: int, pad: str) -> str:
    """The text at the right of a field."""
    if width > len(text):
        STATE.charge_memory(width)
        return pad * (width - len(text)) + text
    return text


def grouped(digits: str, comma: str, interval: int) -> str:
    """Digits with a comma between groups, counted from the right."""
    first = len(digits) % interval
    groups = [digits[:first]] if first else []
    groups += [digits[at : at + interval] for at in range(first, len(digits), interval)]
    return comma.join(groups)


def integer_field(
    value: int,
    base: int,
    width: int,
    pad: str,
    comma: str,
    interval: int,
    commas: bool,
    sign: bool,
) -> str:
    """An integer in a base and a field."""
    digits = digits_of(abs(value), base)
    if commas:
        digits = grouped(digits, comma, max(interval, 1))
    mark = "-" if value < 0 else "+" if sign else ""
    return padded_left(mark + digits, width, pad)


def _below_thousand(value: int) -> str:
    hundreds, rest = divmod(value, 100)
    words = [f"{_SMALL[hundreds]} hundred"] if hundreds else []
    if rest >= 20:
        tens, ones = divmod(rest, 10)
        words.append(_TENS[tens] + (f"-{_SMALL[ones]}" if ones else ""))
    elif rest:
        words.append(_SMALL[rest])
    return " ".join(words)


def cardinal(value: int) -> str:
    """A number in English: one hundred twenty-three."""
    if value == 0:
        return "zero"
    words: list[str] = []
    rest, power = abs(value), 0
    while rest:
        rest, group = divmod(rest, 1000)
        if group:
            words.append(f"{_below_thousand(group)} {_POWERS[power]}".strip())
        power += 1
    text = " ".join(reversed(words))
    return f"negative {text}" if value < 0 else text


def ordinal(value: int) -> str:
    """A number's ordinal in English: twenty-third."""
    if value == 0:
        return "zeroth"
    text = cardinal(value)
    cut = max(text.rfind(" "), text.rfind("-")) + 1
    head, last = text[:cut], text[cut:]
    if last in _ORDINALS:
        return head + _ORDINALS[last]
    if last.endswith("y"):
        return head + last[:-1] + "ieth"
    if last.endswith("t"):
        return head + last + "h"
    return head + last + "th"


def roman(value: int, old: bool) -> str:
    """A Roman numeral; `old` writes IIII for 4."""
    letters: list[str] = []
    for weight, numeral in _ROMAN:
        if old and len(numeral) == 2:
            continue
        count, value = divmod(value, weight)
        letters.append(numeral * count)
    return "".join(letters)
