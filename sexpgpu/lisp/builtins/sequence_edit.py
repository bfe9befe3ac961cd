"""Sequences: remove, delete, substitute, nsubstitute and their kin, remove-duplicates.

The destructive forms give a fresh list for lists (CL lets them), and change vectors in place where
the length stays the same.
"""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.builtins.designators import (
    Test,
    bounds,
    changeable_cons,
    item_test,
    key_function,
    predicate,
    sequence_items,
    sequence_like,
    store_items,
    true,
    two_argument_test,
)
from sexpgpu.lisp.builtins.equality import eql, eql_key, equal, equal_key
from sexpgpu.lisp.calls import as_function, check_count, primary
from sexpgpu.lisp.errors import type_error
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import NIL, Cons, Function, T

_KEYS = "&key from-end start end count key"


def _chosen(
    items: list[Any], test: Test, from_end: Any, start: Any, end: Any, count: Any
) -> set[int]:
    """The indices of the elements that satisfy the test, at most `count` of them."""
    low, high = bounds(len(items), start, end)
    if count is None:
        limit = len(items)
    elif isinstance(count, int):
        limit = count
    else:
        raise type_error(count, "(or null integer)")
    chosen: set[int] = set()
    order = range(low, high) if from_end is NIL else range(high - 1, low - 1, -1)
    if limit <= 0:
        return chosen
    for index in order:
        if test(items[index]):
            chosen.add(index)
            if len(chosen) >= limit:
                break
    return chosen


def _remove(sequence: Any, test: Test, from_end: Any, start: Any, end: Any, count: Any) -> Any:
    items = sequence_items(sequence)
    gone = _chosen(items, test, from_end, start, end, count)
    if not gone:
        return sequence
    return sequence_like(sequence, [x for i, x in enumerate(items) if i not in gone])


def invoke_each(function: Function, items: list[Any], gone: Any) -> list[Any]:
    """The items for which a predicate does not answer `gone`, T or NIL."""
    kept: list[Any] = []
    for item in items:
        call = function.call
        answer = call(item)
        if answer is not NIL and answer is not T:
            answer = T if true(primary(answer)) else NIL
        if answer is not gone:
            kept.append(item)
    return kept


def _without(sequence: Any, designator: Any, gone: Any) -> Any:
    """The sequence without the elements whose answer is `gone`, T or NIL."""
    function = as_function(designator)
    check_count(function, 1)
    items = sequence_items(sequence)
    kept = invoke_each(function, items, gone)
    return sequence if len(kept) == len(items) else sequence_like(sequence, kept)


def _declare_removers(name: str) -> None:
    def by_item(
        item: Any,
        sequence: Any,
        from_end: Any = NIL,
        start: Any = None,
        end: Any = None,
        count: Any = None,
        key: Any = None,
        test: Any = None,
        test_not: Any = None,
    ) -> Any:
        matches = item_test(item, test, test_not, key)
        return _remove(sequence, matches, from_end, start, end, count)

    def by_predicate(
        predicate_: Any,
        sequence: Any,
        from_end: Any = NIL,
        start: Any = None,
        end: Any = None,
        count: Any = None,
        key: Any = None,
    ) -> Any:
        if start is end is count is key is None and from_end is NIL:
            return _without(sequence, predicate_, T)
        return _remove(sequence, predicate(predicate_, key), from_end, start, end, count)

    def by_predicate_not(
        predicate_: Any,
        sequence: Any,
        from_end: Any = NIL,
        start: Any = None,
        end: Any = None,
        count: Any = None,
        key: Any = None,
    ) -> Any:
        if start is end is count is key is None and from_end is NIL:
            return _without(sequence, predicate_, NIL)
        matches = predicate(predicate_, key, negate=True)
        return _remove(sequence, matches, from_end, start, end, count)

    by_item.__doc__ = "SEQUENCE without the elements equal to ITEM."
    by_predicate.__doc__ = "SEQUENCE without the elements satisfying PREDICATE."
    by_predicate_not.__doc__ = "SEQUENCE without the elements not satisfying PREDICATE."
    builtin(name, f"(item sequence {_KEYS} test test-not)")(by_item)
    builtin(name + "-if", f"(predicate sequence {_KEYS})")(by_predicate)
    builtin(name + "-if-not", f"(predicate sequence {_KEYS})")(by_predicate_not)


_declare_removers("remove")
_declare_removers("delete")


def _substitute(
    new: Any,
    sequence: Any,
    test: Test,
    from_end: Any,
    start: Any,
    end: Any,
    count: Any,
    in_place: bool,
) -> Any:
    items = sequence_items(sequence)
    chosen = _chosen(items, test, from_end, start, end, count)
    changed = [new if i in chosen else x for i, x in enumerate(items)]
    if not in_place:
        return sequence_like(sequence, changed)
    if isinstance(sequence, Cons):
        at: Any = sequence
        for index in range(len(items)):
            if index in chosen:
                changeable_cons(at).car = new
            at = at.cdr
        return sequence
    return sequence if sequence is NIL else store_items(sequence, changed)


def _declare_substituters(name: str, in_place: bool) -> None:
    def by_item(
        new: Any,
        old: Any,
        sequence: Any,
        from_end: Any = NIL,
        start: Any = None,
        end: Any = None,
        count: Any = None,
        key: Any = None,
        test: Any = None,
        test_not: Any = None,
    ) -> Any:
        matches = item_test(old, test, test_not, key)
        return _substitute(new, sequence, matches, from_end, start, end, count, in_place)

    def by_predicate(
        new: Any,
        predicate_: Any,
        sequence: Any,
        from_end: Any = NIL,
        start: Any = None,
        end: Any = None,
        count: Any = None,
        key: Any = None,
    ) -> Any:
        matches = predicate(predicate_, key)
        return _substitute(new, sequence, matches, from_end, start, end, count, in_place)

    def by_predicate_not(
        new: Any,
        predicate_: Any,
        sequence: Any,
        from_end: Any = NIL,
        start: Any = None,
        end: Any = None,
        count: Any = None,
        key: Any = None,
    ) -> Any:
        matches = predicate(predicate_, key, negate=True)
        return _substitute(new, sequence, matches, from_end, start, end, count, in_place)

    by_item.__doc__ = "SEQUENCE with NEW for the elements equal to OLD."
    by_predicate.__doc__ = "SEQUENCE with NEW for the elements satisfying PREDICATE."
    by_predicate_not.__doc__ = "SEQUENCE with NEW for the elements not satisfying PREDICATE."
    builtin(name, f"(new old sequence {_KEYS} test test-not)")(by_item)
    builtin(name + "-if", f"(new predicate sequence {_KEYS})")(by_predicate)
    builtin(name + "-if-not", f"(new predicate sequence {_KEYS})")(by_predicate_not)


_declare_substituters("substitute", in_place=False)
_declare_substituters("nsubstitute", in_place=True)


def _remove_duplicates(
    sequence: Any,
    from_end: Any = NIL,
    test: Any = None,
    test_not: Any = None,
    start: Any = None,
    end: Any = None,
    key: Any = None,
) -> Any:
    """SEQUENCE without elements equal to a later one (from the end: to an earlier one)."""
    items = sequence_items(sequence)
    low, high = bounds(len(items), start, end)
    get = key_function(key)
    part = items[low:high]
    keys = part if get is None else [get(item) for item in part]
    compare = two_argument_test(test, test_not)
    count = len(part)
    kept: list[Any] = []
    if compare is eql or compare is equal:
        key_of = eql_key if compare is eql else equal_key
        seen: set[Any] = set()
        order = range(count) if from_end is not NIL else range(count - 1, -1, -1)
        for index in order:
            mark = key_of(keys[index])
            if mark not in seen:
                seen.add(mark)
                kept.append(part[index])
        if from_end is NIL:
            kept.reverse()
    else:
        for index in range(count):
            STATE.charge(count // 16 + 1)
            if from_end is NIL:
                rivals = ((index, other) for other in range(index + 1, count))
            else:
                rivals = ((other, index) for other in range(index))
            for earlier, later in rivals:
                if compare(keys[earlier], keys[later]):
                    break
            else:
                kept.append(part[index])
    if len(kept) == count:
        return sequence
    return sequence_like(sequence, [*items[:low], *kept, *items[high:]])


_DUPLICATES = "(sequence &key from-end test test-not start end key)"
builtin("remove-duplicates", _DUPLICATES)(_remove_duplicates)
builtin("delete-duplicates", _DUPLICATES)(_remove_duplicates)
