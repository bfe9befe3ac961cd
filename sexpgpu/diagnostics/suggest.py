"""The nearest name to a misspelt one. Knows only strings; pure, fast for thousands of names."""

from __future__ import annotations

from collections.abc import Iterable


def distance(a: str, b: str, limit: int) -> int:
    """The optimal string alignment distance (insertions, deletions, substitutions and swaps of
    neighbours, each 1; Damerau 1964), or `limit + 1` as soon as it must exceed `limit`."""
    if a == b:
        return 0
    # A shared start and end cannot matter, and misspellings share most of both.
    while a and b and a[0] == b[0]:
        shared = 1
        while shared < len(a) and shared < len(b) and a[shared] == b[shared]:
            shared += 1
        a, b = a[shared:], b[shared:]
    while a and b and a[-1] == b[-1]:
        a, b = a[:-1], b[:-1]
    if abs(len(a) - len(b)) > limit:
        return limit + 1
    if not a or not b:
        return len(a) or len(b)
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        older, before, row = before, row, [i] * (len(b) + 1)
        for j, y in enumerate(b, 1):
            cost = before[j - 1] + (x != y)
            if before[j] + 1 < cost:
                cost = before[j] + 1
            if row[j - 1] + 1 < cost:
                cost = row[j - 1] + 1
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y and older[j - 2] + 1 < cost:
                cost = older[j - 2] + 1
            row[j] = cost
        if min(row) > limit:
            return limit + 1
    return row[-1]


def _plain(name: str) -> str:
    """What is compared: case and the choice of separator are no mistake worth counting."""
    return name.lower().replace("_", "-")


def _allowed(length: int) -> int:
    """How many mistakes a name of this length may have and still be recognised."""
    return 1 if length < 4 else 2 if length < 8 else 3


def nearest_several(name: str, candidates: Iterable[str], count: int = 3) -> list[str]:
    """Up to `count` candidates that `name` may have meant, the best first.

    First those within a few edits (one for names under four characters, two under eight, else
    three); where there are none, those that share a whole word of three letters or more with it
    (`decay` for `weight-decay`). The exact name itself is never proposed.
    """
    wanted = _plain(name)
    limit = _allowed(len(wanted))
    found: list[tuple[int, bool, int, int, str]] = []
    pool = list(dict.fromkeys(candidates))
    for order, candidate in enumerate(pool):
        if candidate == name:
            continue
        plain = _plain(candidate)
        if abs(len(plain) - len(wanted)) > limit:
            continue
        edits = distance(wanted, plain, limit)
        # Two names that share no letter at all are not near, however short they are.
        if edits <= limit and (edits < max(len(wanted), len(plain)) or len(wanted) == 1):
            first_differs = plain[:1] != wanted[:1]
            found.append((edits, first_differs, abs(len(plain) - len(wanted)), order, candidate))
    if not found:
        words = {word for word in wanted.replace("/", "-").split("-") if len(word) > 2}
        for order, candidate in enumerate(pool):
            parts = {part for part in _plain(candidate).replace("/", "-").split("-") if part}
            shared = len(words & parts)
            joined = wanted.replace("-", "") == _plain(candidate).replace("-", "")
            if candidate != name and (shared or joined):
                found.append((-shared, not joined, len(parts), order, candidate))
    return [entry[-1] for entry in sorted(found)[:count]]


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `name` most likely meant, or None when none is near."""
    several = nearest_several(name, candidates, 1)
    return several[0] if several else None


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """A sentence for a fix, `did you mean X?`, or None when no candidate is near."""
    found = nearest(name, candidates)
    return None if found is None else f"did you mean {found}?"
