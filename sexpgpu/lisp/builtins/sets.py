"""Lists as sets: union and its kin, subsetp, adjoin.

CL leaves the order of the results open; it is SBCL's here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.builtins.designators import (
    item_test,
    key_function,
    list_items,
    new_list,
    truth,
    two_argument_test,
)
from sexpgpu.lisp.builtins.equality import eql, eql_key, equal, equal_key
from sexpgpu.lisp.builtins.lists import find_member
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import NIL, new_cons


def _keyed(items: list[Any], key: Any) -> list[Any]:
    get = key_function(key)
    return items if get is None else [get(item) for item in items]


def _membership(
    items: list[Any], key: Any, test: Any, test_not: Any, flip: bool = False
) -> Callable[[Any], bool]:
    """Whether a (keyed) value is equal to one of the items. `flip`: the items come first in
    the test's arguments."""
    compare = two_argument_test(test, test_not)
    keys = _keyed(items, key)
    if compare is eql or compare is equal:
        key_of = eql_key if compare is eql else equal_key
        table = {key_of(k) for k in keys}
        return lambda value: key_of(value) in table
    if flip:
        return lambda value: any(compare(k, value) for k in keys)
    return lambda value: any(compare(value, k) for k in keys)


class _Set:
    """The two arguments of a set operation, checked, with their keys."""

    __slots__ = ("first", "first_keys", "in_first", "in_second", "second", "second_keys")

    def __init__(self, a: Any, b: Any, key: Any, test: Any, test_not: Any) -> None:
        self.first = list_items(a)
        self.second = list_items(b)
        STATE.charge(len(self.first) + len(self.second))
        self.first_keys = _keyed(self.first, key)
        self.second_keys = _keyed(self.second, key)
        self.in_second = _membership(self.second_keys, None, test, test_not)
        self.in_first = _membership(self.first_keys, None, test, test_not, flip=True)

    def only_first(self) -> list[Any]:
        pairs = zip(self.first, self.first_keys, strict=True)
        return [item for item, key in pairs if not self.in_second(key)]

    def only_second(self) -> list[Any]:
        pairs = zip(self.second, self.second_keys, strict=True)
        return [item for item, key in pairs if not self.in_first(key)]

    def common(self) -> list[Any]:
        pairs = zip(self.first, self.first_keys, strict=True)
        return [item for item, key in pairs if self.in_second(key)]


def _union(a: Any, b: Any, key: Any = None, test: Any = None, test_not: Any = None) -> Any:
    """The elements of either list."""
    sets = _Set(a, b, key, test, test_not)
    if len(sets.first) < len(sets.second):
        return new_list(sets.only_second()[::-1], a)
    return new_list(sets.only_first()[::-1], b)


def _intersection(a: Any, b: Any, key: Any = None, test: Any = None, test_not: Any = None) -> Any:
    """The elements of the first list that are in the second."""
    return new_list(_Set(a, b, key, test, test_not).common()[::-1])


def _difference(a: Any, b: Any, key: Any = None, test: Any = None, test_not: Any = None) -> Any:
    """The elements of the first list that are not in the second."""
    return new_list(_Set(a, b, key, test, test_not).only_first()[::-1])


def _exclusive(a: Any, b: Any, key: Any = None, test: Any = None, test_not: Any = None) -> Any:
    """The elements that are in exactly one of the lists."""
    sets = _Set(a, b, key, test, test_not)
    return new_list((sets.only_first() + sets.only_second())[::-1])


for _name, _function in (
    ("union", _union),
    ("intersection", _intersection),
    ("set-difference", _difference),
    ("set-exclusive-or", _exclusive),
):
    builtin(_name, "(list-1 list-2 &key key test test-not)")(_function)
    builtin(
        "n" + _name,
        "(list-1 list-2 &key key test test-not)",
    )(_function)


@builtin("subsetp", "(list-1 list-2 &key key test test-not)")
def subsetp(a: Any, b: Any, key: Any = None, test: Any = None, test_not: Any = None) -> Any:
    """Whether every element of the first list is in the second."""
    sets = _Set(a, b, key, test, test_not)
    return truth(all(sets.in_second(k) for k in sets.first_keys))


@builtin("adjoin", "(item list &key key test test-not)")
def adjoin(item: Any, list: Any, key: Any = None, test: Any = None, test_not: Any = None) -> Any:
    """LIST with ITEM before it, unless an equal element is there; KEY applies to ITEM too."""
    get = key_function(key)
    wanted = item if get is None else get(item)
    found = find_member(list, item_test(wanted, test, test_not, key))
    return new_cons(item, list) if found is NIL else list
