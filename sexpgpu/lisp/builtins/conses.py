"""Conses and lists: building, taking apart, copying, joining."""

from __future__ import annotations

from itertools import repeat
from typing import Any

from sexpgpu.lisp.builtins.designators import (
    changeable_cons,
    index_argument,
    list_items,
    new_list,
    truth,
    walked,
)
from sexpgpu.lisp.builtins.equality import eql
from sexpgpu.lisp.errors import type_error
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.state import CONS, STATE
from sexpgpu.lisp.values import NIL, Cons, T, lisp_list, new_cons


def car_of(value: Any) -> Any:
    """The car of a list."""
    if isinstance(value, Cons):
        return value.car
    if value is NIL:
        return NIL
    raise type_error(value, "list")


def cdr_of(value: Any) -> Any:
    """The cdr of a list."""
    if isinstance(value, Cons):
        return value.cdr
    if value is NIL:
        return NIL
    raise type_error(value, "list")


builtin("car", "(list)")(car_of)
builtin("cdr", "(list)")(cdr_of)


@builtin("rest", "(list)")
def rest(list: Any) -> Any:
    """The list without its first element."""
    return cdr_of(list)


def _define_compositions() -> None:
    """caar … cddddr: each letter is a car or a cdr, applied from the right."""

    def declare(path: str) -> None:
        steps = [car_of if letter == "a" else cdr_of for letter in reversed(path)]

        def access(value: Any) -> Any:
            for step in steps:
                value = step(value)
            return value

        words = " of the ".join("car" if letter == "a" else "cdr" for letter in path)
        access.__doc__ = f"The {words} of LIST."
        builtin(f"c{path}r", "(list)", chapter="conses")(access)

    paths = ["a", "d"]
    for _ in range(3):
        paths = [letter + path for letter in "ad" for path in paths]
        for path in paths:
            declare(path)


ORDINALS = (
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
)


def _define_ordinals() -> None:
    def declare(index: int, name: str) -> None:
        def access(value: Any) -> Any:
            for _ in range(index):
                value = cdr_of(value)
            return car_of(value)

        access.__doc__ = f"The {name} element of LIST, or nil."
        builtin(name, "(list)", chapter="conses")(access)

    for index, name in enumerate(ORDINALS):
        declare(index, name)


_define_compositions()
_define_ordinals()


@builtin("cons", "(car cdr)")
def cons(car: Any, cdr: Any) -> Any:
    """A new pair."""
    return new_cons(car, cdr)


@builtin("consp", "(value)")
def consp(value: Any) -> Any:
    """Whether VALUE is a cons."""
    return truth(isinstance(value, Cons))


@builtin("atom", "(value)")
def atom(value: Any) -> Any:
    """Whether VALUE is anything but a cons."""
    return NIL if isinstance(value, Cons) else T


@builtin("listp", "(value)")
def listp(value: Any) -> Any:
    """Whether VALUE is a cons or nil."""
    return truth(isinstance(value, Cons) or value is NIL)


@builtin("endp", "(list)")
def endp(list: Any) -> Any:
    """Whether LIST is at its end; anything but a list is a type-error."""
    if isinstance(list, Cons):
        return NIL
    if list is NIL:
        return T
    raise type_error(list, "list")


@builtin("rplaca", "(cons value)")
def rplaca(cons: Any, value: Any) -> Any:
    """Replace the car of CONS; gives CONS."""
    changeable_cons(cons).car = value
    return cons


@builtin("rplacd", "(cons value)")
def rplacd(cons: Any, value: Any) -> Any:
    """Replace the cdr of CONS; gives CONS."""
    changeable_cons(cons).cdr = value
    return cons


@builtin("list", "(&rest values)")
def list_(*values: Any) -> Any:
    """A new list of the arguments."""
    if len(values) > 32:
        STATE.charge_memory(len(values) * CONS)
    return lisp_list(values)


@builtin("list*", "(value &rest more)")
def list_star(value: Any, *more: Any) -> Any:
    """A new list of the arguments, the last of which is its tail."""
    if not more:
        return value
    return lisp_list((value, *more[:-1]), more[-1])


@builtin("make-list", "(size &key initial-element)")
def make_list(size: Any, initial_element: Any = NIL) -> Any:
    """A list of SIZE equal elements."""
    count = index_argument(size)
    STATE.charge_memory(count * CONS)
    STATE.charge(count)
    result: Any = NIL
    for _ in range(count):
        result = new_cons(initial_element, result)
    return result


def copy_list_of(value: Any) -> Any:
    """A copy of a list's conses; a dotted tail is kept."""
    if not isinstance(value, Cons):
        if value is NIL:
            return NIL
        raise type_error(value, "list")
    head = last = new_cons(value.car, value.cdr)
    at = value.cdr
    count = 0
    while isinstance(at, Cons):
        fresh = new_cons(at.car, at.cdr)
        last.cdr = fresh
        last = fresh
        at = at.cdr
        count += 1
        if count & 1023 == 0:
            walked(at, count)
            STATE.charge_memory(1024 * CONS)
    return head


@builtin("copy-list", "(list)")
def copy_list(list: Any) -> Any:
    """A copy of the conses of LIST; its elements are shared."""
    return copy_list_of(list)


@builtin("copy-alist", "(alist)")
def copy_alist(alist: Any) -> Any:
    """A copy of an association list and of its pairs."""
    return new_list(
        [new_cons(e.car, e.cdr) if isinstance(e, Cons) else e for e in list_items(alist)]
    )


@builtin("copy-tree", "(tree)")
def copy_tree(tree: Any) -> Any:
    """A copy of all conses of TREE."""
    if not isinstance(tree, Cons):
        return tree
    head = last = new_cons(copy_tree(tree.car), NIL)
    at = tree.cdr
    while isinstance(at, Cons):
        STATE.charge(1)
        STATE.charge_memory(CONS)
        fresh = new_cons(copy_tree(at.car), NIL)
        last.cdr = fresh
        last = fresh
        at = at.cdr
    last.cdr = at
    return head


@builtin("list-length", "(list)")
def list_length(list: Any) -> Any:
    """The length of LIST, or nil for a circular one."""
    count, slow, at = 0, list, list
    while isinstance(at, Cons):
        count += 1
        at = at.cdr
        if count & 1 == 0:
            slow = slow.cdr
            if slow is at and isinstance(at, Cons):
                return NIL
        if count & 1023 == 0:
            STATE.charge(1024)
    if at is not NIL:
        raise type_error(at, "list")
    return count


@builtin("nth", "(n list)")
def nth(n: Any, list: Any) -> Any:
    """The element of LIST at N (0 is the first), or nil past its end."""
    return car_of(nthcdr(n, list))


@builtin("nthcdr", "(n list)")
def nthcdr(n: Any, list: Any) -> Any:
    """LIST without its first N elements."""
    count = index_argument(n)
    at = list
    while count:
        steps = min(count, (count & 1023) + 1)
        try:
            for _ in repeat(None, steps):
                at = at.cdr
        except AttributeError:  # no cons has come: cheaper than to ask each
            return cdr_of(at)
        count -= steps
        if count & 1023 == 1023:
            STATE.charge(1024)
    return at


def _conses_of(value: Any) -> tuple[list[Cons], Any]:
    """The conses of a possibly dotted list and its final atom."""
    conses: list[Cons] = []
    at = value
    while isinstance(at, Cons):
        conses.append(at)
        at = at.cdr
        if len(conses) & 1023 == 0:
            walked(at, len(conses))
    if not conses and at is not NIL:
        raise type_error(value, "list")
    return conses, at


@builtin("last", "(list &optional n)")
def last(list: Any, n: Any = 1) -> Any:
    """The last N conses of LIST."""
    count = index_argument(n)
    conses, tail = _conses_of(list)
    if count == 0:
        return tail
    return conses[-count] if count < len(conses) else list


@builtin("butlast", "(list &optional n)")
def butlast(list: Any, n: Any = 1) -> Any:
    """A copy of LIST without its last N elements."""
    count = index_argument(n)
    conses, _ = _conses_of(list)
    kept = conses[: len(conses) - count] if count < len(conses) else []
    return new_list([c.car for c in kept])


@builtin("nbutlast", "(list &optional n)")
def nbutlast(list: Any, n: Any = 1) -> Any:
    """LIST cut, in place, before its last N elements."""
    count = index_argument(n)
    conses, _ = _conses_of(list)
    if count >= len(conses):
        return NIL
    if count == 0:
        changeable_cons(conses[-1]).cdr = NIL
    else:
        changeable_cons(conses[len(conses) - count - 1]).cdr = NIL
    return list


@builtin("append", "(&rest lists)")
def append(*lists: Any) -> Any:
    """The lists joined; all are copied but the last, which may be any value."""
    if not lists:
        return NIL
    result = lists[-1]
    for index in range(len(lists) - 2, -1, -1):
        result = new_list(list_items(lists[index]), result)
    return result


@builtin("nconc", "(&rest lists)")
def nconc(*lists: Any) -> Any:
    """The lists joined by changing the tail of each."""
    result: Any = NIL
    tail: Cons | None = None
    for index, value in enumerate(lists):
        if value is NIL:
            continue
        if not isinstance(value, Cons):
            if index < len(lists) - 1:
                raise type_error(value, "list")
            if tail is not None:
                changeable_cons(tail).cdr = value
                return result
            return value
        if tail is None:
            result = value
        else:
            changeable_cons(tail).cdr = value
        if index < len(lists) - 1:
            tail = _conses_of(value)[0][-1]
    if tail is not None and lists and lists[-1] is NIL and tail.cdr is not NIL:
        changeable_cons(tail).cdr = NIL
    return result


@builtin("revappend", "(list tail)")
def revappend(list: Any, tail: Any) -> Any:
    """The elements of LIST in reverse order before TAIL."""
    for item in list_items(list):
        tail = new_cons(item, tail)
    return tail


@builtin("nreconc", "(list tail)")
def nreconc(list: Any, tail: Any) -> Any:
    """The elements of LIST in reverse order before TAIL; LIST may not be used afterwards."""
    return revappend(list, tail)


@builtin("ldiff", "(list tail)")
def ldiff(list: Any, tail: Any) -> Any:
    """A copy of the part of LIST that is before TAIL."""
    if not isinstance(list, Cons) and list is not NIL:
        raise type_error(list, "list")
    items: Any = []
    at = list
    while isinstance(at, Cons):
        if at is tail:
            return new_list(items)
        items.append(at.car)
        at = at.cdr
        if len(items) & 1023 == 0:
            walked(at, len(items))
    return new_list(items, NIL if eql(at, tail) else at)


@builtin("tailp", "(tail list)")
def tailp(tail: Any, list: Any) -> Any:
    """Whether TAIL is a tail of LIST: the same cons or final atom."""
    if not isinstance(list, Cons) and list is not NIL:
        raise type_error(list, "list")
    at = list
    count = 0
    while isinstance(at, Cons):
        if at is tail:
            return T
        at = at.cdr
        count += 1
        if count & 1023 == 0:
            walked(at, count)
    return truth(eql(at, tail))


@builtin("tree-equal", "(a b &key test test-not)")
def tree_equal(a: Any, b: Any, test: Any = None, test_not: Any = None) -> Any:
    """Whether two trees have the same conses and leaves that satisfy TEST."""
    from sexpgpu.lisp.builtins.designators import two_argument_test

    compare = two_argument_test(test, test_not)

    def same(x: Any, y: Any) -> bool:
        while isinstance(x, Cons):
            STATE.charge(1)
            if not isinstance(y, Cons) or not same(x.car, y.car):
                return False
            x, y = x.cdr, y.cdr
        return not isinstance(y, Cons) and compare(x, y)

    return truth(same(a, b))
