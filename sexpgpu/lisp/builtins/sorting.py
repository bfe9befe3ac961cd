"""Sorting and merging: an own merge sort, because Lisp predicates must not run inside Python's."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.builtins.designators import (
    binary,
    key_function,
    new_list,
    sequence_items,
    store_items,
    true,
)
from sexpgpu.lisp.builtins.sequence_types import sequence_builder
from sexpgpu.lisp.calls import as_function
from sexpgpu.lisp.registry import BUILTINS, builtin
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import NIL, Cons, String

Keyed = tuple[Any, Any]  # (key, element)

# The predicates of CL that Python knows: whether they compare texts, and whether small comes first.
ORDERS = {
    "<": (False, True),
    ">": (False, False),
    "string<": (True, True),
    "string>": (True, False),
}


def _merged(left: list[Keyed], right: list[Keyed], less: Any) -> list[Keyed]:
    """Two sorted runs as one; of equal elements those of the left come first."""
    result: list[Keyed] = []
    i = j = 0
    while i < len(left) and j < len(right):
        if true(less(right[j][0], left[i][0])):
            result.append(right[j])
            j += 1
        else:
            result.append(left[i])
            i += 1
    result += left[i:]
    result += right[j:]
    return result


def _natural_keys(keys: list[Any], predicate: Any) -> tuple[list[Any], bool] | None:
    """Keys that Python puts in the order of the predicate, and whether small comes first: numbers
    where the predicate is CL's own `<` or `>`, strings where it is `string<` or `string>`. No Lisp
    runs then. None otherwise."""
    function = as_function(predicate)
    order = ORDERS.get(function.name)
    if order is None or function is not BUILTINS[function.name].function:
        return None
    texts, ascending = order
    kinds = set(map(type, keys))
    if texts:
        if kinds != {String} or any(key.fill is not None for key in keys):
            return None
        keys = [key.text for key in keys]
        STATE.charge(sum(map(len, keys)) // 16)
    elif kinds != {int} and (kinds - {int, float} or any(key != key for key in keys)):
        return None  # a NaN has no place
    STATE.charge(len(keys) * len(keys).bit_length())
    return keys, ascending


def natural_order(items: list[Any], keys: list[Any], predicate: Any) -> list[Any] | None:
    """The items in the order of their keys, stably, where Python knows it; None where not."""
    natural = _natural_keys(keys, predicate)
    if natural is None:
        return None
    keys, ascending = natural
    if keys is items:
        return sorted(items, reverse=not ascending)
    places = sorted(range(len(items)), key=keys.__getitem__, reverse=not ascending)
    return [items[place] for place in places]


def merge_sort(items: list[Any], predicate: Any, key: Any) -> list[Any]:
    """The items in order, stably; each key is computed once."""
    less = binary(predicate)
    get = key_function(key)
    keys = items if get is None else [get(item) for item in items]
    ordered = natural_order(items, keys, predicate)
    if ordered is not None:
        return ordered
    runs: list[list[Keyed]] = [[pair] for pair in zip(keys, items, strict=True)]
    while len(runs) > 1:
        STATE.charge(len(items))
        paired = [
            _merged(runs[at], runs[at + 1], less) if at + 1 < len(runs) else runs[at]
            for at in range(0, len(runs), 2)
        ]
        runs = paired
    return [item for _, item in runs[0]] if runs else []


def _sort(sequence: Any, predicate: Any, key: Any = None) -> Any:
    """SEQUENCE in the order of PREDICATE, stably; vectors in place. Use the result."""
    items = merge_sort(sequence_items(sequence), predicate, key)
    if isinstance(sequence, Cons) or sequence is NIL:
        return new_list(items)
    return store_items(sequence, items)


builtin("sort", "(sequence predicate &key key)")(_sort)
builtin("stable-sort", "(sequence predicate &key key)")(_sort)


@builtin("merge", "(result-type sequence-1 sequence-2 predicate &key key)")
def merge(result_type: Any, first: Any, second: Any, predicate: Any, key: Any = None) -> Any:
    """Two sorted sequences merged into one of RESULT-TYPE, stably."""
    build = sequence_builder(result_type)
    get = key_function(key)
    left, right = (
        [(item if get is None else get(item), item) for item in sequence_items(sequence)]
        for sequence in (first, second)
    )
    return build([item for _, item in _merged(left, right, binary(predicate))])
