"""The setf functions of list accessors. Those of other accessors stand beside the accessors.

`getf` is a place of its own kind (it stores into its first subform) and belongs to the evaluator;
`lists.put_property` does the work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.builtins.conses import ORDINALS, car_of, cdr_of, nthcdr
from sexpgpu.lisp.builtins.designators import changeable_cons
from sexpgpu.lisp.registry import builtin


def _declare(name: str, reach: Callable[[Any], Any], is_car: bool) -> None:
    """(setf NAME): change the car or cdr of the cons that `reach` finds."""

    def store(new: Any, list: Any) -> Any:
        cell = changeable_cons(reach(list))
        if is_car:
            cell.car = new
        else:
            cell.cdr = new
        return new

    store.__doc__ = f"Replace what {name} gives."
    builtin(f"(setf {name})", "(new list)")(store)


def _path(steps: str) -> Callable[[Any], Any]:
    """The function that follows cars (a) and cdrs (d), written as in cadr: from the right."""
    follow = [car_of if step == "a" else cdr_of for step in reversed(steps)]

    def reach(value: Any) -> Any:
        for step in follow:
            value = step(value)
        return value

    return reach


def _declare_all() -> None:
    paths = [""]
    for _ in range(4):
        paths = [letter + path for letter in "ad" for path in paths]
        for path in paths:
            _declare(f"c{path}r", _path(path[1:]), path[0] == "a")
    _declare("rest", _path(""), is_car=False)
    for index, name in enumerate(ORDINALS):
        _declare(name, _path("d" * index), is_car=True)


_declare_all()


@builtin("(setf nth)", "(new n list)")
def set_nth(new: Any, n: Any, list: Any) -> Any:
    """Replace the element of LIST at N."""
    changeable_cons(nthcdr(n, list)).car = new
    return new
