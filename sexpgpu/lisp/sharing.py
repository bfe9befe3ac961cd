"""What occurs more than once in an object, for printing with *print-circle*."""

from __future__ import annotations

from typing import Any

from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import Cons, String, Structure, Symbol, Vector


class Labels:
    """The `#1=` labels of one object printed: given in the order of the first printing."""

    __slots__ = ("numbers", "shared")

    def __init__(self, value: Any) -> None:
        self.shared = shared(value)
        self.numbers: dict[int, int] = {}

    def has(self, value: Any) -> bool:
        """Whether the value occurs more than once."""
        return id(value) in self.shared

    def mark(self, value: Any) -> tuple[str, bool]:
        """What to write before the value, and whether that stands for all of it."""
        number = self.numbers.get(id(value))
        if number is not None:
            return f"#{number}#", True
        self.numbers[id(value)] = number = len(self.numbers) + 1
        return f"#{number}=", False


def shared(value: Any) -> set[int]:
    """The ids of the conses, vectors, strings, structures and uninterned symbols that occur more
    than once in a value. Each object is charged, once."""
    seen: set[int] = set()
    twice: set[int] = set()
    work = [value]
    while work:
        at = work.pop()
        kind: Any = type(at)  # pyright: ignore[reportUnknownVariableType]
        if not (isinstance(at, Cons | Vector | String | Structure)) and not (
            kind is Symbol and at.module is None
        ):
            continue
        if id(at) in seen:
            twice.add(id(at))
            continue
        STATE.charge(1)
        seen.add(id(at))
        if isinstance(at, Cons):
            work.append(at.cdr)
            work.append(at.car)
        elif isinstance(at, Vector | Structure):
            work.extend(at.items)
    return twice


def is_circular(value: Any) -> bool:
    """Whether a list, vector or structure is a part of itself. Each object is charged, once."""
    around: set[int] = set()  # the objects that the one at hand is inside of
    done: set[int] = set()
    work: list[tuple[Any, bool]] = [(value, False)]
    while work:
        at, is_left = work.pop()
        if is_left:
            around.discard(id(at))
            done.add(id(at))
        elif isinstance(at, Cons | Vector | Structure) and id(at) not in done:
            if id(at) in around:
                return True
            STATE.charge(1)
            around.add(id(at))
            work.append((at, True))
            parts = (at.cdr, at.car) if isinstance(at, Cons) else at.items
            work.extend((part, False) for part in parts)
    return False
