"""Sequences: find, position, count, search, mismatch, with all their keywords."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.builtins.designators import (
    Test,
    bounds,
    item_test,
    key_function,
    predicate,
    sequence_items,
    text_of_string,
    two_argument_test,
)
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import NIL, String

_ITEM = "(item sequence &key from-end start end key test test-not)"
_IF = "(predicate sequence &key from-end start end key)"


def _locate(
    sequence: Any, test: Test, from_end: Any, start: Any, end: Any
) -> tuple[list[Any], int | None]:
    """The elements, and the index of the first (from the end: last) that satisfies the test."""
    items = sequence_items(sequence)
    low, high = bounds(len(items), start, end)
    order = range(low, high) if from_end is NIL else range(high - 1, low - 1, -1)
    for index in order:
        if test(items[index]):
            return items, index
    return items, None


def _find(sequence: Any, test: Test, from_end: Any, start: Any, end: Any) -> Any:
    items, index = _locate(sequence, test, from_end, start, end)
    return NIL if index is None else items[index]


def _position(sequence: Any, test: Test, from_end: Any, start: Any, end: Any) -> Any:
    index = _locate(sequence, test, from_end, start, end)[1]
    return NIL if index is None else index


def _count(sequence: Any, test: Test, from_end: Any, start: Any, end: Any) -> Any:
    items = sequence_items(sequence)
    low, high = bounds(len(items), start, end)
    part = items[low:high] if from_end is NIL else items[low:high][::-1]
    count = 0
    for item in part:
        if test(item):
            count += 1
    return count


def _declare(name: str, operate: Any, what: str) -> None:
    """NAME, NAME-if and NAME-if-not."""

    def by_item(
        item: Any,
        sequence: Any,
        from_end: Any = NIL,
        start: Any = None,
        end: Any = None,
        key: Any = None,
        test: Any = None,
        test_not: Any = None,
    ) -> Any:
        return operate(sequence, item_test(item, test, test_not, key), from_end, start, end)

    def by_predicate(
        predicate_: Any,
        sequence: Any,
        from_end: Any = NIL,
        start: Any = None,
        end: Any = None,
        key: Any = None,
    ) -> Any:
        return operate(sequence, predicate(predicate_, key), from_end, start, end)

    def by_predicate_not(
        predicate_: Any,
        sequence: Any,
        from_end: Any = NIL,
        start: Any = None,
        end: Any = None,
        key: Any = None,
    ) -> Any:
        return operate(sequence, predicate(predicate_, key, negate=True), from_end, start, end)

    by_item.__doc__ = f"{what} equal to ITEM."
    by_predicate.__doc__ = f"{what} satisfying PREDICATE."
    by_predicate_not.__doc__ = f"{what} not satisfying PREDICATE."
    builtin(name, _ITEM)(by_item)
    builtin(name + "-if", _IF)(by_predicate)
    builtin(name + "-if-not", _IF)(by_predicate_not)


_declare("find", _find, "The first element (or nil)")
_declare("position", _position, "The index of the first element (or nil)")
_declare("count", _count, "The number of elements")


LONGEST_PATTERN = (
    64  # letters of a pattern that Python may look for: in a time that the text's length tells
)


@builtin("search", "(pattern sequence &key from-end test test-not key start1 start2 end1 end2)")
def search(
    pattern: Any,
    sequence: Any,
    from_end: Any = NIL,
    test: Any = None,
    test_not: Any = None,
    key: Any = None,
    start1: Any = None,
    start2: Any = None,
    end1: Any = None,
    end2: Any = None,
) -> Any:
    """The index in SEQUENCE where the elements of PATTERN first follow one another, or nil."""
    if type(pattern) is String and type(sequence) is String and test is test_not is key is None:
        part, text = text_of_string(pattern), text_of_string(sequence)
        if len(part) <= LONGEST_PATTERN:
            begin, end = bounds(len(part), start1, end1)
            within = bounds(len(text), start2, end2)
            STATE.charge(len(text) >> 3)
            place = (text.find if from_end is NIL else text.rfind)(part[begin:end], *within)
            return NIL if place < 0 else place
    wanted, items = _keyed_parts(pattern, start1, end1, key), sequence_items(sequence)
    low, high = bounds(len(items), start2, end2)
    get = key_function(key)
    keyed = items if get is None else [get(item) for item in items[:high]]
    compare = two_argument_test(test, test_not)
    size = len(wanted)
    order = range(low, high - size + 1)
    STATE.charge(len(order) >> 3)
    for at in order if from_end is NIL else reversed(order):
        for offset in range(size):
            if not compare(wanted[offset], keyed[at + offset]):
                if offset > 32:
                    STATE.charge(offset >> 3)
                break
        else:
            return at
    return NIL


def _keyed_parts(sequence: Any, start: Any, end: Any, key: Any) -> list[Any]:
    items = sequence_items(sequence)
    low, high = bounds(len(items), start, end)
    get = key_function(key)
    part = items[low:high]
    return part if get is None else [get(item) for item in part]


@builtin(
    "mismatch",
    "(sequence-1 sequence-2 &key from-end test test-not key start1 start2 end1 end2)",
)
def mismatch(
    first: Any,
    second: Any,
    from_end: Any = NIL,
    test: Any = None,
    test_not: Any = None,
    key: Any = None,
    start1: Any = None,
    start2: Any = None,
    end1: Any = None,
    end2: Any = None,
) -> Any:
    """The index in the first sequence where the two differ, or nil when they do not."""
    left, right = _keyed_parts(first, start1, end1, key), _keyed_parts(second, start2, end2, key)
    base = 0 if start1 is None else start1
    compare = two_argument_test(test, test_not)
    common = min(len(left), len(right))
    if from_end is NIL:
        for index in range(common):
            if not compare(left[index], right[index]):
                return base + index
        return NIL if len(left) == len(right) else base + common
    for index in range(1, common + 1):
        if not compare(left[-index], right[-index]):
            return base + len(left) - index + 1
    return NIL if len(left) == len(right) else base + len(left) - common
