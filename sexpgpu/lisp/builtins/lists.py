"""Lists as tables and trees: member, association and property lists, subst and its kin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.builtins.designators import (
    Test,
    changeable_cons,
    item_test,
    key_function,
    list_items,
    new_list,
    predicate,
    two_argument_test,
    walked,
)
from sexpgpu.lisp.builtins.equality import eql
from sexpgpu.lisp.errors import program_error, type_error
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import MV, NIL, Cons, new_cons

# ---------------------------------------------------------------- member


def find_member(list: Any, test: Test) -> Any:
    at = list
    count = 0
    while isinstance(at, Cons):
        if test(at.car):
            return at
        at = at.cdr
        count += 1
        if count & 1023 == 0:
            walked(at, count)
    if at is not NIL:
        raise type_error(at, "list")
    return NIL


@builtin("member", "(item list &key key test test-not)")
def member(item: Any, list: Any, key: Any = None, test: Any = None, test_not: Any = None) -> Any:
    """The tail of LIST that begins with an element equal to ITEM, or nil."""
    return find_member(list, item_test(item, test, test_not, key))


@builtin("member-if", "(predicate list &key key)")
def member_if(predicate_: Any, list: Any, key: Any = None) -> Any:
    """The tail of LIST that begins with an element satisfying PREDICATE, or nil."""
    return find_member(list, predicate(predicate_, key))


@builtin("member-if-not", "(predicate list &key key)")
def member_if_not(predicate_: Any, list: Any, key: Any = None) -> Any:
    """The tail of LIST that begins with an element not satisfying PREDICATE, or nil."""
    return find_member(list, predicate(predicate_, key, negate=True))


# ---------------------------------------------------------------- association lists


def _assoc(alist: Any, test: Test, by_cdr: bool = False) -> Any:
    at = alist
    count = 0
    while isinstance(at, Cons):
        entry = at.car
        if isinstance(entry, Cons):
            if test(entry.cdr if by_cdr else entry.car):
                return entry
        elif entry is not NIL:
            raise type_error(entry, "list")
        at = at.cdr
        count += 1
        if count & 1023 == 0:
            walked(at, count)
    if at is not NIL:
        raise type_error(at, "list")
    return NIL


@builtin("assoc", "(item alist &key key test test-not)")
def assoc(item: Any, alist: Any, key: Any = None, test: Any = None, test_not: Any = None) -> Any:
    """The first pair of ALIST whose car is equal to ITEM, or nil."""
    return _assoc(alist, item_test(item, test, test_not, key))


@builtin("assoc-if", "(predicate alist &key key)")
def assoc_if(predicate_: Any, alist: Any, key: Any = None) -> Any:
    """The first pair of ALIST whose car satisfies PREDICATE, or nil."""
    return _assoc(alist, predicate(predicate_, key))


@builtin("assoc-if-not", "(predicate alist &key key)")
def assoc_if_not(predicate_: Any, alist: Any, key: Any = None) -> Any:
    """The first pair of ALIST whose car does not satisfy PREDICATE, or nil."""
    return _assoc(alist, predicate(predicate_, key, negate=True))


@builtin("rassoc", "(item alist &key key test test-not)")
def rassoc(item: Any, alist: Any, key: Any = None, test: Any = None, test_not: Any = None) -> Any:
    """The first pair of ALIST whose cdr is equal to ITEM, or nil."""
    return _assoc(alist, item_test(item, test, test_not, key), by_cdr=True)


@builtin("rassoc-if", "(predicate alist &key key)")
def rassoc_if(predicate_: Any, alist: Any, key: Any = None) -> Any:
    """The first pair of ALIST whose cdr satisfies PREDICATE, or nil."""
    return _assoc(alist, predicate(predicate_, key), by_cdr=True)


@builtin("rassoc-if-not", "(predicate alist &key key)")
def rassoc_if_not(predicate_: Any, alist: Any, key: Any = None) -> Any:
    """The first pair of ALIST whose cdr does not satisfy PREDICATE, or nil."""
    return _assoc(alist, predicate(predicate_, key, negate=True), by_cdr=True)


@builtin("acons", "(key value alist)")
def acons(key: Any, value: Any, alist: Any) -> Any:
    """ALIST with the pair (KEY . VALUE) before it."""
    return new_cons(new_cons(key, value), alist)


@builtin("pairlis", "(keys values &optional alist)")
def pairlis(keys: Any, values: Any, alist: Any = NIL) -> Any:
    """An association list of KEYS and VALUES before ALIST."""
    left, right = list_items(keys), list_items(values)
    if len(left) != len(right):
        raise program_error("pairlis: the lists of keys and of values differ in length")
    pairs = [new_cons(k, v) for k, v in zip(left, right, strict=True)]
    return new_list(pairs[::-1], alist)


# ---------------------------------------------------------------- property lists


def _plist_cell(plist: Any, indicator: Any) -> Cons | None:
    """The cons that holds the value of an indicator (compared by eq)."""
    at = plist
    steps = 0
    while isinstance(at, Cons):
        rest = at.cdr
        if not isinstance(rest, Cons):
            raise type_error(plist, "plist")
        if at.car is indicator or eql(at.car, indicator):
            return rest
        at = rest.cdr
        steps += 1
        if steps & 1023 == 0:
            walked(at, steps)
    if at is not NIL:
        raise type_error(at, "list")
    return None


@builtin("getf", "(plist indicator &optional default)")
def getf(plist: Any, indicator: Any, default: Any = NIL) -> Any:
    """The value of INDICATOR in a property list, or DEFAULT."""
    cell = _plist_cell(plist, indicator)
    return default if cell is None else cell.car


def put_property(plist: Any, indicator: Any, value: Any) -> Any:
    """The property list with a value changed in place, or put in front."""
    cell = _plist_cell(plist, indicator)
    if cell is None:
        return new_cons(indicator, new_cons(value, plist))
    changeable_cons(cell).car = value
    return plist


def remove_property(plist: Any, indicator: Any) -> tuple[Any, bool]:
    """The property list without the first property of that name, and whether there was one."""
    previous: Cons | None = None
    at = plist
    steps = 0
    while isinstance(at, Cons):
        rest = at.cdr
        if not isinstance(rest, Cons):
            raise type_error(plist, "plist")
        if eql(at.car, indicator):
            if previous is None:
                return rest.cdr, True
            changeable_cons(previous).cdr = rest.cdr
            return plist, True
        previous = rest
        at = rest.cdr
        steps += 1
        if steps & 1023 == 0:
            walked(at, steps)
    return plist, False


@builtin("get-properties", "(plist indicators)")
def get_properties(plist: Any, indicators: Any) -> Any:
    """The first indicator of PLIST among INDICATORS, its value, and the rest of PLIST there."""
    wanted = list_items(indicators)
    at = plist
    steps = 0
    while isinstance(at, Cons):
        if not isinstance(at.cdr, Cons):
            raise type_error(plist, "plist")
        if any(eql(at.car, indicator) for indicator in wanted):
            return MV((at.car, at.cdr.car, at))
        at = at.cdr.cdr
        steps += 1
        if steps & 1023 == 0:
            walked(at, steps)
    if at is not NIL:
        raise type_error(plist, "plist")
    return MV((NIL, NIL, NIL))


# ---------------------------------------------------------------- trees


def _substitute_tree(tree: Any, change: Callable[[Any], Any]) -> Any:
    """The tree with subtrees exchanged where `change` gives another value than None."""
    replaced = change(tree)
    if replaced is not None:
        return replaced
    if not isinstance(tree, Cons):
        return tree
    spine: list[Cons] = []
    cars: list[Any] = []
    at: Any = tree
    end: Any = None
    while isinstance(at, Cons):
        STATE.charge(1)
        spine.append(at)
        cars.append(_substitute_tree(at.car, change))
        at = at.cdr
        end = change(at)
        if end is not None:
            break
    tail = at if end is None else end
    for cell, car in zip(reversed(spine), reversed(cars), strict=True):
        if car is cell.car and tail is cell.cdr:
            tail = cell
        else:
            tail = new_cons(car, tail)
    return tail


def _subst(
    new: Any, old: Any, tree: Any, key: Any = None, test: Any = None, test_not: Any = None
) -> Any:
    """TREE with NEW for every subtree or leaf equal to OLD."""
    matches = item_test(old, test, test_not, key)
    return _substitute_tree(tree, lambda part: new if matches(part) else None)


def _subst_if(new: Any, predicate_: Any, tree: Any, key: Any = None) -> Any:
    """TREE with NEW for every subtree or leaf that satisfies PREDICATE."""
    matches = predicate(predicate_, key)
    return _substitute_tree(tree, lambda part: new if matches(part) else None)


def _subst_if_not(new: Any, predicate_: Any, tree: Any, key: Any = None) -> Any:
    """TREE with NEW for every subtree or leaf that does not satisfy PREDICATE."""
    matches = predicate(predicate_, key, negate=True)
    return _substitute_tree(tree, lambda part: new if matches(part) else None)


def _sublis(alist: Any, tree: Any, key: Any = None, test: Any = None, test_not: Any = None) -> Any:
    """TREE with subtrees and leaves exchanged as the pairs of ALIST say."""
    pairs = [entry for entry in list_items(alist) if entry is not NIL]
    for pair in pairs:
        if not isinstance(pair, Cons):
            raise type_error(pair, "cons")
    compare = two_argument_test(test, test_not)
    get = key_function(key)

    def change(part: Any) -> Any:
        wanted = part if get is None else get(part)
        for pair in pairs:
            if compare(wanted, pair.car):
                return pair.cdr
        return None

    return _substitute_tree(tree, change)


for _prefix in ("", "n"):
    builtin(_prefix + "subst", "(new old tree &key key test test-not)")(_subst)
    builtin(_prefix + "subst-if", "(new predicate tree &key key)")(_subst_if)
    builtin(_prefix + "subst-if-not", "(new predicate tree &key key)")(_subst_if_not)
    builtin(_prefix + "sublis", "(alist tree &key key test test-not)")(_sublis)
