"""Writes sort of what is known to be a list, by an order that Python knows, where another builtin
takes the result (lisp.hot.lists); and nth of such a result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.builtins.designators import unwalked_items
from sexpgpu.lisp.builtins.sorting import ORDERS, natural_order
from sexpgpu.lisp.callnodes import CallFixed
from sexpgpu.lisp.hot.inplace import by_builtin, function_of, inplace
from sexpgpu.lisp.hot.lists import MAKERS, elements, is_made, pay_conses, walk
from sexpgpu.lisp.hot.parts import Dest
from sexpgpu.lisp.hot.unit import Unit
from sexpgpu.lisp.hot.writer import value
from sexpgpu.lisp.inline import ConsNode, ListNode
from sexpgpu.lisp.nodes import Constant, Node
from sexpgpu.lisp.scope import Var
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import NIL, Cons, lisp_list
from sexpgpu.lisp.variable_nodes import LocalRef

_PREDICATES = [function_of(name) for name in ORDERS]


def is_list(node: Node, seen: tuple[Var, ...] = ()) -> bool:
    """Whether a node is known to give a cons or nil: a variable does when all that it is bound and
    set to does."""
    if isinstance(node, Constant):
        return node.value is NIL or isinstance(node.value, Cons)
    if isinstance(node, LocalRef):
        var = node.var
        if var in seen:
            return True
        given = var.inits and [*var.inits, *var.sets]
        return bool(given) and all(is_list(item, (*seen, var)) for item in given)
    return isinstance(node, ConsNode | ListNode)


def _sorts(unit: Unit, node: CallFixed) -> bool:
    if len(node.arguments) != 2:
        return False
    sequence, predicate = node.arguments
    known = isinstance(predicate, Constant) and predicate.value in _PREDICATES
    return known and (is_made(unit, sequence) or is_list(sequence))


def _sorted(unit: Unit, node: CallFixed) -> str:
    sequence, predicate = node.arguments
    assert isinstance(predicate, Constant)
    made = is_made(unit, sequence)
    given = elements(unit, sequence) if made else value(unit, sequence)
    unit.site(node.site)
    return unit.held(f"{unit.constant(_sorter(node, predicate.value, made))}({given})")


def _sorter(node: CallFixed, predicate: Any, made: bool) -> Callable[[Any], list[Any] | None]:
    """Sorts a list, or (`made`) the Python list of its elements: the elements in order."""
    by_sort = by_builtin(node.function, node.site)

    def sort(given: Any) -> list[Any] | None:
        items: list[Any] | None = given if made else unwalked_items(given)
        ordered = None if items is None else natural_order(items, items, predicate)
        if ordered is None:
            return unwalked_items(by_sort(lisp_list(given) if made else given, predicate))
        walk(ordered)
        pay_conses(ordered)
        return ordered

    return sort


for _name in ("sort", "stable-sort"):
    MAKERS[function_of(_name)] = _sorts, _sorted


# ---------------------------------------------------------------- nth


@inplace("nth")
def _nth(unit: Unit, node: CallFixed, dest: Dest) -> bool:
    if not is_made(unit, node.arguments[1]):
        return False
    index = unit.held(value(unit, node.arguments[0]))
    items = elements(unit, node.arguments[1])
    unit.site(node.site)
    unit.give(f"{unit.constant(_element(node))}({index}, {items})", dest)
    return True


def _element(node: CallFixed) -> Callable[[Any, list[Any]], Any]:
    by_nth = by_builtin(node.function, node.site)

    def element(index: Any, items: list[Any]) -> Any:
        if type(index) is not int or index < 0:
            return by_nth(index, lisp_list(items))
        count = len(items)
        # The builtin takes the conses over a multiple of 1024 first, then these.
        for _ in range((index & 1023) + 1, min(index, count) + 1, 1024):
            STATE.charge(1024)
        return items[index] if index < count else NIL

    return element
