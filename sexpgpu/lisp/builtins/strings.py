"""Strings: comparison, case, trimming, making, parse-integer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.builtins.arithmetic import charge_product
from sexpgpu.lisp.builtins.characters import digit_weight, lower, radix_argument, upper
from sexpgpu.lisp.builtins.designators import (
    bounds,
    character_argument,
    check_index,
    index_argument,
    sequence_items,
    string_text,
    text_of_items,
    truth,
)
from sexpgpu.lisp.builtins.equality import FAST_TESTS, fold_text
from sexpgpu.lisp.builtins.sequences import set_character
from sexpgpu.lisp.errors import literal_change, parse_error, type_error
from sexpgpu.lisp.number_text import DIGITS
from sexpgpu.lisp.registry import BUILTINS, builtin
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import MV, NIL, String, char
from sexpgpu.reader.numbers import integer_of
from sexpgpu.reader.printer import brief


@builtin("stringp", "(value)")
def stringp(value: Any) -> Any:
    """Whether VALUE is a string."""
    return truth(type(value) is String)


@builtin("simple-string-p", "(value)")
def simple_string_p(value: Any) -> Any:
    """Whether VALUE is a string without fill pointer."""
    return truth(type(value) is String and value.fill is None and not value.adjustable)


@builtin("string", "(value)")
def string(value: Any) -> Any:
    """The string that a string, symbol or character designates."""
    return value if type(value) is String else String(string_text(value))


def _char(string: Any, index: Any) -> Any:
    """The character of a string at an index."""
    if type(string) is not String:
        raise type_error(string, "string")
    text = string.text
    if type(index) is int and 0 <= index < len(text):
        return char(text[index])
    return char(text[check_index(string, index, len(text))])


def _set_char(new: Any, string: Any, index: Any) -> Any:
    """Replace the character of a string at an index."""
    if type(string) is not String:
        raise type_error(string, "string")
    set_character(string, check_index(string, index, len(string.text)), new)
    return new


for _name in ("char", "schar"):
    builtin(_name, "(string index)")(_char)
    builtin(f"(setf {_name})", "(new string index)")(_set_char)


@builtin("make-string", "(size &key initial-element element-type)")
def make_string(size: Any, initial_element: Any = None, element_type: Any = None) -> Any:
    """A string of SIZE equal characters."""
    count = index_argument(size)
    STATE.charge_memory(count)
    STATE.charge(count // 8)
    letter = " " if initial_element is None else chr(character_argument(initial_element).code)
    return String(letter * count)


# ---------------------------------------------------------------- comparison


class _Pair:
    """Two strings' parts, compared letter by letter."""

    __slots__ = ("at", "left", "offset", "right")

    def __init__(self, first: Any, second: Any, ends: tuple[Any, ...], fold: bool) -> None:
        left, right = string_text(first), string_text(second)
        start1, end1, start2, end2 = ends
        low1, high1 = bounds(len(left), start1, end1)
        low2, high2 = bounds(len(right), start2, end2)
        left, right = left[low1:high1], right[low2:high2]
        self.left, self.right = (fold_text(left), fold_text(right)) if fold else (left, right)
        self.offset = low1
        STATE.charge(len(left) // 16)
        self.at = 0

    def order(self) -> int:
        """-1, 0 or 1; leaves the index of the first difference in `at`."""
        left, right = self.left, self.right
        if left == right:
            self.at = len(left)
            return 0
        for index, (a, b) in enumerate(zip(left, right, strict=False)):
            if a != b:
                self.at = index
                return -1 if a < b else 1
        self.at = min(len(left), len(right))
        return -1 if len(left) < len(right) else 1


_KEYS = "(string-1 string-2 &key start1 end1 start2 end2)"


def _declare_equality(name: str, doc: str, fold: bool) -> None:
    def compare(
        first: Any,
        second: Any,
        start1: Any = None,
        end1: Any = None,
        start2: Any = None,
        end2: Any = None,
    ) -> Any:
        pair = _Pair(first, second, (start1, end1, start2, end2), fold)
        return truth(pair.left == pair.right)

    compare.__doc__ = doc
    builtin(name, _KEYS)(compare)


def _declare_order(name: str, doc: str, accepts: Callable[[int], bool], fold: bool) -> None:
    def compare(
        first: Any,
        second: Any,
        start1: Any = None,
        end1: Any = None,
        start2: Any = None,
        end2: Any = None,
    ) -> Any:
        pair = _Pair(first, second, (start1, end1, start2, end2), fold)
        return pair.offset + pair.at if accepts(pair.order()) else NIL

    compare.__doc__ = doc
    builtin(name, _KEYS)(compare)


def _declare_comparisons() -> None:
    _declare_equality("string=", "Whether the strings are the same.", fold=False)
    _declare_equality("string-equal", "Whether the strings are the same, case aside.", fold=True)
    orders: list[tuple[str, str, str, Callable[[int], bool]]] = [
        ("string/=", "string-not-equal", "differs from", lambda order: order != 0),
        ("string<", "string-lessp", "is before", lambda order: order < 0),
        ("string>", "string-greaterp", "is after", lambda order: order > 0),
        ("string<=", "string-not-greaterp", "is not after", lambda order: order <= 0),
        ("string>=", "string-not-lessp", "is not before", lambda order: order >= 0),
    ]
    for exact, folded, words, accepts in orders:
        doc = f"The index of the first difference when the first string {words} the second, or nil"
        _declare_order(exact, doc + ".", accepts, fold=False)
        _declare_order(folded, doc + "; case aside.", accepts, fold=True)


_declare_comparisons()


def _fast_string_equal(a: Any, b: Any) -> bool:
    return string_text(a) == string_text(b)


_function = BUILTINS["string="].function
assert _function is not None
FAST_TESTS[_function] = _fast_string_equal


# ---------------------------------------------------------------- case


def upcase(text: str) -> str:
    """The text in upper case, letter by letter."""
    return text.upper() if text.isascii() else "".join([upper(letter) for letter in text])


def downcase(text: str) -> str:
    """The text in lower case, letter by letter."""
    return text.lower() if text.isascii() else "".join([lower(letter) for letter in text])


def capitalize(text: str) -> str:
    """The text with each word (of letters and digits) begun by a capital."""
    letters: list[str] = []
    inside = False
    for letter in text:
        letters.append(lower(letter) if inside else upper(letter))
        inside = letter.isalnum()
    return "".join(letters)


def _declare_case(name: str, change: Callable[[str], str], words: str) -> None:
    def fresh(string: Any, start: Any = None, end: Any = None) -> Any:
        text = string_text(string)
        low, high = bounds(len(text), start, end)
        STATE.charge(len(text) // 16)
        return String(text[:low] + change(text[low:high]) + text[high:])

    def in_place(string: Any, start: Any = None, end: Any = None) -> Any:
        if type(string) is not String:
            raise type_error(string, "string")
        text = string_text(string)
        low, high = bounds(len(text), start, end)
        changed = text[:low] + change(text[low:high]) + text[high:]
        if string.literal and changed != text:
            raise literal_change(string)
        string.text = changed + string.text[len(text) :]
        return string

    fresh.__doc__ = f"A copy of STRING {words}."
    in_place.__doc__ = f"STRING {words}, changed in place."
    builtin("string-" + name, "(string &key start end)")(fresh)
    builtin("nstring-" + name, "(string &key start end)")(in_place)


_declare_case("upcase", upcase, "in upper case")
_declare_case("downcase", downcase, "in lower case")
_declare_case("capitalize", capitalize, "with a capital at the start of each word")


# ---------------------------------------------------------------- trimming


def _declare_trim(name: str, left: bool, right: bool) -> None:
    def trim(characters: Any, string: Any) -> Any:
        bag = text_of_items(sequence_items(characters))
        text = string_text(string)
        low, high = 0, len(text)
        if left:
            while low < high and text[low] in bag:
                low += 1
        if right:
            while high > low and text[high - 1] in bag:
                high -= 1
        return String(text[low:high])

    where = "both ends" if left and right else "the left end" if left else "the right end"
    trim.__doc__ = f"STRING without the CHARACTERS at {where}."
    builtin(name, "(characters string)")(trim)


_declare_trim("string-trim", left=True, right=True)
_declare_trim("string-left-trim", left=True, right=False)
_declare_trim("string-right-trim", left=False, right=True)


# ---------------------------------------------------------------- parse-integer

_BLANKS = " \t\n\r\f\v\b"


def _integer_of(digits: str, radix: int) -> int:
    """The integer of digits, which may be those of any script; charged by its size."""
    if len(digits) > 1000:
        bits = len(digits) * radix.bit_length()
        charge_product(bits >> 1, bits >> 1)
    if digits.isascii():
        return integer_of(digits, radix)
    return integer_of("".join(DIGITS[digit_weight(letter, radix) or 0] for letter in digits), radix)


@builtin("parse-integer", "(string &key start end radix junk-allowed)")
def parse_integer(
    string: Any, start: Any = None, end: Any = None, radix: Any = 10, junk_allowed: Any = NIL
) -> Any:
    """The integer written in STRING, and the index where its text ends."""
    if type(string) is not String:
        raise type_error(string, "string")
    text = string_text(string)
    low, high = bounds(len(text), start, end)
    radix_argument(radix)
    at = low
    while at < high and text[at] in _BLANKS:
        at += 1
    negative = at < high and text[at] == "-"
    if at < high and text[at] in "+-":
        at += 1
    first = at
    while at < high and digit_weight(text[at], radix) is not None:
        at += 1
    STATE.charge((high - first) >> 3)
    value = _integer_of(text[first:at], radix) if at > first else 0
    if junk_allowed is not NIL:
        if at == first:
            return MV((NIL, at))
        return MV((-value if negative else value, at))
    rest = at
    while rest < high and text[rest] in _BLANKS:
        rest += 1
    if at == first or rest < high:
        shown = brief(String(text[low:high]))
        raise parse_error(f"parse-integer: {shown} is not an integer in base {radix}")
    return MV((-value if negative else value, rest))
