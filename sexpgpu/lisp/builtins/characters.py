"""Characters: their kinds, case, codes, names and comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.builtins.atomic_types import is_standard_character
from sexpgpu.lisp.builtins.designators import (
    character_argument,
    index_argument,
    string_text,
    truth,
)
from sexpgpu.lisp.builtins.equality import FAST_TESTS, fold_character
from sexpgpu.lisp.errors import type_error
from sexpgpu.lisp.printer import CHARACTER_NAMES, character_name, is_graphic
from sexpgpu.lisp.registry import BUILTINS, builtin
from sexpgpu.lisp.values import CL, NIL, Char, String, T, char

CODE_LIMIT = 0x110000
CL.own("char-code-limit").value = CODE_LIMIT
CL.own("char-code-limit").constant = True
CL.own("char-code-limit").special = True


def upper(letter: str) -> str:
    """The upper-case letter, where it is one letter that has this one as lower case."""
    other = letter.upper()
    return other if len(other) == 1 and other.lower() == letter else letter


def lower(letter: str) -> str:
    """The lower-case letter, where it is one letter that has this one as upper case."""
    other = letter.lower()
    return other if len(other) == 1 and other.upper() == letter else letter


def is_upper(letter: str) -> bool:
    """Whether the letter has another, lower case."""
    return lower(letter) != letter


def is_lower(letter: str) -> bool:
    """Whether the letter has another, upper case."""
    return upper(letter) != letter


def _letter(value: Any) -> str:
    return chr(character_argument(value).code)


@builtin("characterp", "(value)")
def characterp(value: Any) -> Any:
    """Whether VALUE is a character."""
    return truth(type(value) is Char)


@builtin("char-code", "(char)")
def char_code(char: Any) -> Any:
    """The Unicode code point of CHAR."""
    return character_argument(char).code


@builtin("char-int", "(char)")
def char_int(char: Any) -> Any:
    """The Unicode code point of CHAR."""
    return character_argument(char).code


@builtin("code-char", "(code)")
def code_char(code: Any) -> Any:
    """The character of a code point; nil for the surrogates, which are halves of characters."""
    if index_argument(code) >= CODE_LIMIT:
        raise type_error(code, f"(integer 0 ({CODE_LIMIT}))")
    return NIL if 0xD800 <= code < 0xE000 else char(code)


@builtin("char-upcase", "(char)")
def char_upcase(char_: Any) -> Any:
    """CHAR in upper case."""
    return char(upper(_letter(char_)))


@builtin("char-downcase", "(char)")
def char_downcase(char_: Any) -> Any:
    """CHAR in lower case."""
    return char(lower(_letter(char_)))


def _predicate(name: str, doc: str, test: Callable[[str], bool]) -> None:

    def function(char: Any) -> Any:
        return truth(test(_letter(char)))

    function.__doc__ = doc
    builtin(name, "(char)")(function)


_predicate("alpha-char-p", "Whether CHAR is a letter.", str.isalpha)
_predicate("alphanumericp", "Whether CHAR is a letter or a digit.", str.isalnum)
_predicate("upper-case-p", "Whether CHAR is an upper-case letter that has a lower case.", is_upper)
_predicate("lower-case-p", "Whether CHAR is a lower-case letter that has an upper case.", is_lower)
_predicate(
    "both-case-p", "Whether CHAR is a letter with case.", lambda c: is_upper(c) or is_lower(c)
)
_predicate(
    "graphic-char-p",
    "Whether CHAR can be seen (space included).",
    lambda c: is_graphic(ord(c)),
)
_predicate(
    "standard-char-p",
    "Whether CHAR is one of the 96 standard characters.",
    lambda c: is_standard_character(char(c)),
)


def digit_weight(letter: str, radix: int) -> int | None:
    """The weight of a digit in a radix, or None."""
    if letter.isdigit() and letter.isdecimal():
        weight = int(letter)
    elif letter.isascii() and letter.isalpha():
        weight = ord(letter.lower()) - ord("a") + 10
    else:
        return None
    return weight if weight < radix else None


def radix_argument(value: Any) -> int:
    """A radix from 2 to 36."""
    if not isinstance(value, int) or not 2 <= value <= 36:
        raise type_error(value, "(integer 2 36)")
    return value


@builtin("digit-char-p", "(char &optional radix)")
def digit_char_p(char: Any, radix: Any = 10) -> Any:
    """The weight of CHAR as a digit in RADIX, or nil."""
    weight = digit_weight(_letter(char), radix_argument(radix))
    return NIL if weight is None else weight


@builtin("digit-char", "(weight &optional radix)")
def digit_char(weight: Any, radix: Any = 10) -> Any:
    """The digit of WEIGHT in RADIX (a capital letter above 9), or nil."""
    radix_argument(radix)
    if index_argument(weight) >= radix:
        return NIL
    return char("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[weight])


_CODES = {name.lower(): code for code, name in CHARACTER_NAMES.items()} | {
    "linefeed": 10,
    "null": 0,
    "del": 127,
    "delete": 127,
    "altmode": 27,
    "esc": 27,
    "nbsp": 160,
}


@builtin("char-name", "(char)")
def char_name(char: Any) -> Any:
    """The name of CHAR, or nil when it has none."""
    code = character_argument(char).code
    name = character_name(code)
    return NIL if name is None else String(name)


def named_character(name: str) -> Char | None:
    """The character of a name, without regard to case, or None."""
    code = _CODES.get(name.lower())
    if code is not None:
        return char(code)
    if name[:1] in "uU" and len(name) > 1:
        digits = name[1:].removeprefix("+")
        try:
            code = int(digits, 16)
        except ValueError:
            code = CODE_LIMIT
        if code < CODE_LIMIT:
            return char(code)
    import unicodedata

    try:
        return char(unicodedata.lookup(name.replace("_", " ")))
    except (KeyError, UnicodeEncodeError):  # no such name; half of a surrogate pair in it
        return None


@builtin("name-char", "(name)")
def name_char(name: Any) -> Any:
    """The character of that name, or nil."""
    found = named_character(string_text(name))
    return NIL if found is None else found


def _comparison(name: str, doc: str, test: Callable[[Any, Any], bool], fold: bool) -> None:
    def key(value: Any) -> Any:
        code = character_argument(value).code
        return ord(fold_character(code)) if fold else code

    def compare(first: Any, *more: Any) -> Any:
        previous = key(first)
        keys = [key(value) for value in more]
        for current in keys:
            if not test(previous, current):
                return NIL
            previous = current
        return T

    compare.__doc__ = doc
    builtin(name, "(char &rest chars)")(compare)


def _different(name: str, doc: str, fold: bool) -> None:
    def compare(first: Any, *more: Any) -> Any:
        codes = [character_argument(value).code for value in (first, *more)]
        keys = [fold_character(code) for code in codes] if fold else codes
        return truth(len(set(keys)) == len(keys))

    compare.__doc__ = doc
    builtin(name, "(char &rest chars)")(compare)


def _declare_comparisons() -> None:
    tests: list[tuple[str, str, str, Callable[[Any, Any], bool]]] = [
        ("char=", "char-equal", "are the same", lambda a, b: a == b),
        ("char<", "char-lessp", "increase", lambda a, b: a < b),
        ("char>", "char-greaterp", "decrease", lambda a, b: a > b),
        ("char<=", "char-not-greaterp", "never decrease", lambda a, b: a <= b),
        ("char>=", "char-not-lessp", "never increase", lambda a, b: a >= b),
    ]
    for exact, folded, words, test in tests:
        _comparison(exact, f"Whether the characters {words}.", test, fold=False)
        _comparison(folded, f"Whether the characters {words}, case aside.", test, fold=True)
    _different("char/=", "Whether no two characters are the same.", fold=False)
    _different("char-not-equal", "Whether no two characters are the same, case aside.", fold=True)


_declare_comparisons()


def _fast_char_equal(a: Any, b: Any) -> bool:
    return character_argument(a) is character_argument(b)


_function = BUILTINS["char="].function
assert _function is not None
FAST_TESTS[_function] = _fast_char_equal
