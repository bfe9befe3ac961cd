"""mapcar and its kin: functions called on the elements or the tails of lists."""

from __future__ import annotations

from itertools import repeat
from typing import Any

from sexpgpu.lisp.builtins.designators import n_ary
from sexpgpu.lisp.calls import as_function, check_count
from sexpgpu.lisp.errors import type_error
from sexpgpu.lisp.registry import builtin
from sexpgpu.lisp.state import CONS, STATE
from sexpgpu.lisp.values import MV, NIL, Cons, Function, lisp_list


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
