"""Where `loop` accumulates: lists that grow at their end, and the greatest or least so far."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.builtins.arithmetic import is_number, maximum, minimum
from sexpgpu.lisp.builtins.conses import copy_list_of
from sexpgpu.lisp.builtins.designators import list_items, walked
from sexpgpu.lisp.errors import type_error
from sexpgpu.lisp.values import NIL, Cons, Foreign, Function, SrcCons, new_cons


class Collector:
    """A list that grows at its end; `first` is a cons before it."""

    __slots__ = ("first", "last")

    def __init__(self) -> None:
        self.first = self.last = new_cons(NIL, NIL)


def _collect(collector: Collector, value: Any) -> Any:
    fresh = new_cons(value, NIL)
    collector.last.cdr = fresh
    collector.last = fresh
    return collector.first.cdr


def _append(collector: Collector, value: Any) -> Any:
    """Append a list; what came last may be an atom, as for `append`."""
    if isinstance(collector.last.cdr, Cons):
        # The last part is shared with its owner: copy it, now that more follows.
        part = collector.last.cdr
        collector.last.cdr = NIL
        for item in list_items(part):
            _collect(collector, item)
    elif collector.last.cdr is not NIL and value is not NIL:
        raise type_error(collector.last.cdr, "list")
    if value is not NIL:
        collector.last.cdr = value
    return collector.first.cdr


def _collect_after(collector: Collector, value: Any) -> Any:
    last = collector.last
    if last.cdr is not NIL:
        _append(collector, NIL)
        last = collector.last
    last.cdr = collector.last = new_cons(value, NIL)
    return collector.first.cdr


def _join(collector: Collector, value: Any) -> Any:
    """nconc: the list itself becomes part of the result."""
    if collector.last.cdr is not NIL:
        _to_end(collector, collector.last.cdr)
    if value is NIL:
        return collector.first.cdr
    collector.last.cdr = value
    _to_end(collector, value)
    return collector.first.cdr


def _to_end(collector: Collector, value: Any) -> None:
    """Go to the last cons of what was joined."""
    count = 0
    at = value
    while isinstance(at, Cons):
        if type(at) is SrcCons:  # a part of the program: joined as a copy
            collector.last.cdr = at = copy_list_of(at)
        collector.last = at
        at = at.cdr
        count += 1
        if count & 1023 == 0:
            walked(at, count)


def _collected(collector: Collector) -> Any:
    return collector.first.cdr


def _best(name: str, choose: Any) -> Function:
    def better(best: Any, value: Any) -> Any:
        if best is NIL:
            if not is_number(value) and not isinstance(value, Foreign):
                raise type_error(value, "real")
            return value
        return choose(best, value)

    return Function(name, better, 2, 2)


MAKE = Function("%collector", Collector, 0, 0)
COLLECT = Function("%collect", _collect_after, 2, 2)
APPEND = Function("%append", _append, 2, 2)
NCONC = Function("%nconc", _join, 2, 2)
COLLECTED = Function("%collected", _collected, 1, 1)
BEST = {"maximize": _best("%maximize", maximum), "minimize": _best("%minimize", minimum)}
