"""The nearest name to a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable


def distance(a: str, b: str, most: int) -> int:
    """Edit distance (insert, delete, replace, swap of neighbours), or most + 1 when larger."""
    if abs(len(a) - len(b)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        new = [i]
        for j, y in enumerate(b, 1):
            cost = min(row[j] + 1, new[-1] + 1, row[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, before[j - 2] + 1)
            new.append(cost)
        if min(new) > most:
            return most + 1
        before, row = row, new
    return row[-1]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name nearest to a misspelt one, or None when none is near.

    A wrong guess misleads more than none: below three letters nothing is guessed, up to five one
    edit is allowed, then two, and three from ten letters. The first letter must agree, but for
    one edit in a name of six letters or more."""
    size = len(name.lstrip(":"))
    if size < 3:
        return None
    most = 1 if size <= 5 else 2 if size <= 9 else 3
    best: str | None = None
    best_key = (most + 1, 0)
    for other in known:
        alike = other[:1] == name[:1]
        if other == name or (size <= 5 and not alike):
            continue
        allowed = most if alike else 1
        found = distance(name, other, allowed)
        key = (found, abs(len(other) - len(name)))
        if found <= allowed and key < best_key:
            best, best_key = other, key
    return best
