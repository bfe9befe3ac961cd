"""What the characters mean: blanks, tokens, strings, comments, character names.

Works on a text and offsets; knows nothing of forms, modules or diagnostics.
"""

from __future__ import annotations

import re

BLANKS = " \t\n\r\f\v\u00a0\ufeff"

# One alternative matches at each place between tokens: blanks and `;` comments are skipped.
SKIP = re.compile(r"(?:[ \t\n\r\f\v\u00a0\ufeff]+|;[^\n]*)*")
# The next thing after blanks and comments; the groups are numbered G_….
NEXT = re.compile(
    r"(?:[ \t\n\r\f\v\u00a0\ufeff]+|;[^\n]*)*+"
    r"(?:([^ \t\n\r\f\v\u00a0\ufeff()'\"`,;|\\#][^ \t\n\r\f\v\u00a0\ufeff()'\"`,;|\\]*+(?![|\\]))"
    r"|(\()|(\))|(\")|(')|([^ \t\n\r\f\v\u00a0\ufeff]))"
)
G_TOKEN, G_OPEN, G_CLOSE, G_STRING, G_QUOTE, G_OTHER = range(1, 7)
TOKEN = re.compile(r"[^ \t\n\r\f\v\u00a0\ufeff()'\"`,;|\\]+")
TERMINATORS = frozenset(BLANKS + "()'\"`,;")
STRING = re.compile(r'[^"\\]*')
COMMENT_MARK = re.compile(r"\|#|#\|")

CHARACTER_NAMES = {
    "space": 32,
    "newline": 10,
    "linefeed": 10,
    "tab": 9,
    "page": 12,
    "return": 13,
    "backspace": 8,
    "rubout": 127,
    "delete": 127,
    "nul": 0,
    "null": 0,
    "escape": 27,
    "esc": 27,
    "no-break_space": 160,
}


def string_end(text: str, start: int) -> tuple[str, int]:
    """The contents of the string whose opening quote is at `start`, and the offset after its
    closing quote; -1 when it is not closed."""
    at = text.find('"', start + 1)
    if at < 0:
        return "", -1
    contents = text[start + 1 : at]
    if "\\" not in contents:
        return contents, at + 1
    parts: list[str] = []
    at = start + 1
    size = len(text)
    while at < size:
        found = STRING.match(text, at)
        assert found is not None
        parts.append(found.group())
        at = found.end()
        if at >= size:
            break
        if text[at] == '"':
            return "".join(parts), at + 1
        if at + 1 >= size:
            break
        parts.append(text[at + 1])
        at += 2
    return "", -1


def comment_end(text: str, start: int) -> int:
    """The offset after the nested `#|…|#` comment that begins at `start`, or -1."""
    depth = 0
    for mark in COMMENT_MARK.finditer(text, start):
        depth += 1 if mark.group() == "#|" else -1
        if depth == 0:
            return mark.end()
    return -1


def escaped_token(text: str, start: int) -> tuple[str, int, list[int]]:
    """A token with `|` or `\\` in it: its name (folded where not escaped), the offset after it
    (-1: a bar is not closed), and the places in the name of colons that were not escaped."""
    name: list[str] = []
    colons: list[int] = []
    at, size = start, len(text)
    while at < size:
        letter = text[at]
        if letter == "\\":
            if at + 1 >= size:
                return "", -1, colons
            name.append(text[at + 1])
            at += 2
        elif letter == "|":
            at += 1
            while True:
                if at >= size:
                    return "", -1, colons
                letter = text[at]
                if letter == "|":
                    at += 1
                    break
                if letter == "\\" and at + 1 < size:
                    at += 1
                    letter = text[at]
                name.append(letter)
                at += 1
        elif letter in TERMINATORS:
            break
        else:
            if letter == ":":
                colons.append(len(name))
            name.append(letter.lower() if len(letter.lower()) == 1 else letter)
            at += 1
    return "".join(name), at, colons


def character_code(name: str) -> int | None:
    """The code point that a character's name (or the one character itself) denotes."""
    if len(name) == 1:
        return ord(name)
    lowered = name.lower()
    found = CHARACTER_NAMES.get(lowered)
    if found is not None:
        return found
    digits = lowered[2:] if lowered.startswith("u+") else lowered[1:] if lowered[0] == "u" else ""
    if digits and all(c in "0123456789abcdef" for c in digits):
        code = int(digits, 16)
        return code if code < 0xD800 or 0xE000 <= code < 0x110000 else None
    return None


def lists_end(text: str, at: int, depth: int) -> int:
    """The offset after what remains of `depth` open lists, for going on after a mistake in them: no
    further than a line that begins with a parenthesis in column 1."""
    size = len(text)
    while at < size and depth:
        letter = text[at]
        if letter == '"':
            _, end = string_end(text, at)
            if end < 0:
                break
            at = end
            continue
        if letter == ";":
            at = text.find("\n", at)
            if at < 0:
                at = size
            continue
        if letter == "\\":
            at += 2
            continue
        if letter == "(":
            if at and text[at - 1] == "\n":
                break
            depth += 1
        elif letter == ")":
            depth -= 1
        at += 1
    return min(at, size)
