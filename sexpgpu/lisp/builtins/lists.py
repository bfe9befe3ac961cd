"""Lists as tables, sets and trees: member, assoc, plists, union and kin, subst, mapcar and kin."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any

from sexpgpu.lisp.builtins.designators import (
    Test,
    changeable_cons,
    item_test,
    key_function,
    list_items,
    n_ary,
    new_list,
    predicate,
    truth,
    two_argument_test,
    walked,
)
from sexpgpu.lisp.builtins.equality import eql, eql_key, equal, equal_key
from sexpgpu.lisp.calls import as_function, check_count
from sexpgpu.lisp.errors import program_error, type_error
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.state import CONS, STATE
from sexpgpu.lisp.values import MV, NIL, Cons, Function, lisp_list, new_cons

# ---------------------------------------------------------------- member


def _member(list: Any, test: Test) -> Any:
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
    return _member(list, item_test(item, test, test_not, key))


@builtin("member-if", "(predicate list &key key)")
def member_if(predicate_: Any, list: Any, key: Any = None) -> Any:
    """The tail of LIST that begins with an element satisfying PREDICATE, or nil."""
    return _member(list, predicate(predicate_, key))


@builtin("member-if-not", "(predicate list &key key)")
def member_if_not(predicate_: Any, list: Any, key: Any = None) -> Any:
    """The tail of LIST that begins with an element not satisfying PREDICATE, or nil."""
    return _member(list, predicate(predicate_, key, negate=True))


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


# ---------------------------------------------------------------- sets
# CL leaves the order of the results open; it is SBCL's here.


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
    found = _member(list, item_test(wanted, test, test_not, key))
    return new_cons(item, list) if found is NIL else list


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


# ---------------------------------------------------------------- mapping


def invoke_each(function: Function, elements: Any) -> tuple[list[Any], Any]:
    """The primary values of calling a function of one argument on each element of a list, and what
    the list ends in."""
    results: list[Any] = []
    at = elements
    while isinstance(at, Cons):
        for _ in repeat(None, 256):
            call = function.call
            value = call(at.car)
            if type(value) is MV:
                value = value[0] if value else NIL
            results.append(value)
            at = at.cdr
            if not isinstance(at, Cons):
                break
        if len(results) & 255 == 0:
            STATE.charge(256)
            STATE.charge_memory(256 * CONS)
    return results, at


def _elements(function: Any, lists: tuple[Any, ...], tails: bool) -> list[Any]:
    """The results of calling the function on successive elements (or tails) of the lists."""
    if len(lists) == 1 and not tails:
        one = as_function(function)
        check_count(one, 1)
        results, end = invoke_each(one, lists[0])
        if end is not NIL:
            raise type_error(end, "list")
        return results
    call = n_ary(function, len(lists))
    rows: list[Any] = []
    current = list(lists)
    while True:
        for at in current:
            if not isinstance(at, Cons):
                if at is not NIL:
                    raise type_error(at, "list")
                return rows
        rows.append(call(*(current if tails else [at.car for at in current])))
        current = [at.cdr for at in current]
        STATE.charge(1)


@builtin("mapcar", "(function list &rest lists)")
def mapcar(function: Any, first: Any, *lists: Any) -> Any:
    """The list of the results of FUNCTION on successive elements; ends with the shortest list."""
    return lisp_list(_elements(function, (first, *lists), tails=False))


@builtin("maplist", "(function list &rest lists)")
def maplist(function: Any, first: Any, *lists: Any) -> Any:
    """The list of the results of FUNCTION on successive tails of the lists."""
    return lisp_list(_elements(function, (first, *lists), tails=True))


@builtin("mapc", "(function list &rest lists)")
def mapc(function: Any, first: Any, *lists: Any) -> Any:
    """Call FUNCTION on successive elements of the lists; gives the first list."""
    _elements(function, (first, *lists), tails=False)
    return first


@builtin("mapl", "(function list &rest lists)")
def mapl(function: Any, first: Any, *lists: Any) -> Any:
    """Call FUNCTION on successive tails of the lists; gives the first list."""
    _elements(function, (first, *lists), tails=True)
    return first


def _joined(results: list[Any]) -> Any:
    """The lists joined; copied rather than changed, because a backquote may have made them of
    parts of the program."""
    from sexpgpu.lisp.builtins.conses import append

    return append(*[result for result in results if result is not NIL])


@builtin("mapcan", "(function list &rest lists)")
def mapcan(function: Any, first: Any, *lists: Any) -> Any:
    """The results of FUNCTION on successive elements, which are lists, joined by nconc."""
    return _joined(_elements(function, (first, *lists), tails=False))


@builtin("mapcon", "(function list &rest lists)")
def mapcon(function: Any, first: Any, *lists: Any) -> Any:
    """The results of FUNCTION on successive tails, which are lists, joined by nconc."""
    return _joined(_elements(function, (first, *lists), tails=True))
