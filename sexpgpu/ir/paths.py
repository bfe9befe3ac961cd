"""Paths of parameters, models and series (`body/3/attn/w`), and the globs that select them."""

from __future__ import annotations

from collections.abc import Iterable


def glob_matches(pattern: str, path: str) -> bool:
    """Whether a path glob matches: `*` within one segment, `**` any number of segments."""
    return _segments(pattern.split("/"), path.split("/"))


def _segments(pattern: list[str], path: list[str]) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(_segments(pattern[1:], path[i:]) for i in range(len(path) + 1))
    return bool(path) and _one(pattern[0], path[0]) and _segments(pattern[1:], path[1:])


def _one(pattern: str, text: str) -> bool:
    if "*" not in pattern:
        return pattern == text
    head, *middle, tail = pattern.split("*")
    if not text.startswith(head) or not text.endswith(tail) or len(text) < len(head) + len(tail):
        return False
    at, end = len(head), len(text) - len(tail)
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def is_selected(name: str, select: Iterable[str]) -> bool:
    """Whether a glob matches the name of a diagnostic, or what it is a reduction of. Histograms
    have to be asked for: their last segment is written out."""
    whole, _, last = name.rpartition("/")
    if last == "histogram":
        return any(glob_matches(g, name) for g in select if g.endswith("histogram"))
    return any(glob_matches(g, name) or (whole and glob_matches(g, whole)) for g in select)
