"""Condition types: the standard hierarchy, those of define-condition, slots, reports.

Standard types are known by their names as Python texts; types that a program defines are known by
their Symbol. Signalling is in lisp/signalling.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.values import CL, NIL, Condition, Cons, Function, String, Symbol, lisp_list

# name: (parents, slots that make-condition takes)
STANDARD: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "condition": ((), ()),
    "serious-condition": (("condition",), ()),
    "error": (("serious-condition",), ()),
    "warning": (("condition",), ()),
    "simple-condition": (("condition",), ("format-control", "format-arguments")),
    "simple-error": (("simple-condition", "error"), ()),
    "simple-warning": (("simple-condition", "warning"), ()),
    "style-warning": (("warning",), ()),
    "storage-condition": (("serious-condition",), ()),
    "type-error": (("error",), ("datum", "expected-type")),
    "simple-type-error": (("simple-condition", "type-error"), ()),
    "program-error": (("error",), ()),
    "control-error": (("error",), ()),
    "cell-error": (("error",), ("name",)),
    "unbound-variable": (("cell-error",), ()),
    "undefined-function": (("cell-error",), ()),
    "unbound-slot": (("cell-error",), ("instance",)),
    "arithmetic-error": (("error",), ("operation", "operands")),
    "division-by-zero": (("arithmetic-error",), ()),
    "floating-point-overflow": (("arithmetic-error",), ()),
    "floating-point-underflow": (("arithmetic-error",), ()),
    "floating-point-inexact": (("arithmetic-error",), ()),
    "floating-point-invalid-operation": (("arithmetic-error",), ()),
    "stream-error": (("error",), ("stream",)),
    "end-of-file": (("stream-error",), ()),
    "parse-error": (("error",), ()),
    "reader-error": (("parse-error", "stream-error"), ()),
    "package-error": (("error",), ("package",)),
    "file-error": (("error",), ("pathname",)),
    "print-not-readable": (("error",), ("object",)),
}


class ConditionType:
    """A type of condition. `linear` is its class precedence list, itself first."""

    __slots__ = ("defaults", "initargs", "linear", "name", "parents", "report", "slots")

    def __init__(self, name: Any, parents: tuple[ConditionType, ...]) -> None:
        self.name = name  # text (standard) or Symbol
        self.parents = parents
        self.slots: dict[str, Any] = {}  # slot name -> initform thunk (a callable) or None
        self.initargs: dict[str, tuple[str, ...]] = {}  # initarg -> names of the slots it fills
        self.defaults: dict[str, Any] = {}  # :default-initargs: initarg -> thunk
        self.report: Callable[[Condition], str] | None = None
        for parent in reversed(parents):
            self.slots.update(parent.slots)
            self.initargs.update(parent.initargs)
            self.defaults.update(parent.defaults)
        self.linear: tuple[ConditionType, ...] = (self, *_merge(parents))


def _merge(parents: tuple[ConditionType, ...]) -> list[ConditionType]:
    """The precedence list of the parents (C3 where it exists, else first come)."""
    sequences = [list(p.linear) for p in parents] + [list(parents)]
    merged: list[ConditionType] = []
    while sequences := [s for s in sequences if s]:
        for sequence in sequences:
            head = sequence[0]
            if not any(head in other[1:] for other in sequences):
                break
        else:
            head = sequences[0][0]
        merged.append(head)
        sequences = [[c for c in s if c is not head] for s in sequences]
    return merged


TYPES: dict[Any, ConditionType] = {}
for _name, (_parents, _slots) in STANDARD.items():
    TYPES[_name] = _made = ConditionType(_name, tuple(TYPES[p] for p in _parents))
    for _slot in _slots:
        _made.slots[_slot] = None
        _made.initargs[_slot] = (_slot,)
    CL.own(_name)


def condition_type(name: Any) -> ConditionType | None:
    """The condition type that a text or symbol names, or None."""
    if type(name) is Symbol:
        found = TYPES.get(name)
        if found is None and name.module is CL:
            found = TYPES.get(name.name)
        return found
    return TYPES.get(name)


def type_symbol(kind: ConditionType) -> Symbol:
    """The symbol that names a condition type."""
    return kind.name if type(kind.name) is Symbol else CL.own(kind.name)


def is_condition_type(value: Any, name: Any) -> bool:
    """Whether the value is a condition of the type named (a text or a symbol)."""
    if not isinstance(value, Condition):
        return False
    wanted = condition_type(name)
    return wanted is not None and wanted in TYPES[value.type].linear


def precedence(condition: Condition) -> list[str]:
    """The names of the types a condition has, most specific first."""
    linear = TYPES[condition.type].linear
    return [k.name.name if type(k.name) is Symbol else k.name for k in linear]


def make_condition(type: Any, **slots: Any) -> Condition:
    """A condition of a type (text or symbol) with slots given by name (`_` for `-`)."""
    kind = condition_type(type)
    if kind is None:
        raise ValueError(f"no condition type {type!r}")
    return Condition(kind.name, {name.replace("_", "-"): value for name, value in slots.items()})


def slot(condition: Condition, name: str) -> Any:
    """The value of a standard slot, computed from what the error was made with. None: unbound."""
    slots = condition.slots
    if name == "expected-type" and name not in slots:
        if "expected_form" in slots:
            return slots["expected_form"]
        if type(slots.get("expected")) is not str:
            return None
        if "sequence" in slots:
            return CL.own("integer")
        if "expected" in slots:
            from sexpgpu.reader.reader import read_type

            return read_type(slots["expected"])
        return None
    value = slots.get(name)
    if name == "operands" and isinstance(value, tuple):
        return lisp_list(value)
    if name == "operation" and isinstance(value, str):
        return CL.own(value) if value else NIL
    if value is None and name == "format-control" and type(slots.get("message")) is str:
        return String(slots["message"].replace("~", "~~"))
    if value is None and name == "format-arguments":
        return NIL
    return value


def report(condition: Condition) -> str:
    """The text that describes a condition to a person."""
    kind = TYPES[condition.type]
    for at in kind.linear:
        if at.report is not None:
            return at.report(condition)
    slots = condition.slots
    message = slots.get("message")
    if type(message) is str:  # ours: the values of a program's own slots are never Python texts
        return message
    control = slots.get("format-control")
    if control is not None:
        return _formatted(control, slots.get("format-arguments", NIL))
    names = {at.name for at in kind.linear}
    for name, describe in _REPORTS.items():
        if name in names:
            return describe(condition)
    name = kind.name.name if type(kind.name) is Symbol else kind.name
    return f"a condition of type {name} was signalled"


def _formatted(control: Any, arguments: Any) -> str:
    items = list(arguments) if isinstance(arguments, Cons) else []
    if isinstance(control, Function):
        from sexpgpu.lisp.format.streams import call_with_string_output

        return call_with_string_output(control, items)
    from sexpgpu.lisp.format import format_text

    return format_text(control.text if isinstance(control, String) else str(control), items)


def _shown(value: Any) -> str:
    from sexpgpu.reader.printer import brief

    return brief(value)


def _of(slots: dict[str, Any], text: str) -> str:
    """The text with the function in front that got the value, where it is known."""
    operator = slots.get("operator")
    return f"{operator}: {text}" if type(operator) is str and operator else text


def _report_type_error(condition: Condition) -> str:
    slots = condition.slots
    if "sequence" in slots and type(slots.get("expected")) is str:
        from sexpgpu.lisp.values import Vector

        sequence = slots["sequence"]
        length = (
            len(sequence.items)
            if isinstance(sequence, Vector)
            else len(sequence.text)
            if isinstance(sequence, String)
            else len(list(sequence))
            if isinstance(sequence, Cons)
            else 0
        )
        index = _shown(slots["datum"])
        return _of(slots, f"index {index} is out of range for a sequence of length {length}")
    expected = slots.get("expected")
    if type(expected) is not str:
        wanted = slot(condition, "expected-type")
        expected = "the type that is expected" if wanted is None else f"type {_shown(wanted)}"
    else:
        expected = f"type {expected}"
    datum = slots.get("datum")
    return _of(slots, f"{_shown(datum) if datum is not None else 'a value'} is not of {expected}")


def _report_cell(what: str) -> Callable[[Condition], str]:
    return lambda condition: f"the {what} {_shown(condition.slots.get('name', NIL))} {_LACKS[what]}"


_LACKS = {"variable": "has no value", "function": "is not defined", "slot": "has no value"}


def _report_division(condition: Condition) -> str:
    operation = condition.slots.get("operation")
    if not operation:
        return "division by zero"
    operands: tuple[Any, ...] = condition.slots.get("operands") or ()
    shown = " ".join(map(_shown, operands)) if type(operands) is tuple else ""
    name = operation if isinstance(operation, str) else _shown(operation)
    return f"division by zero in ({name}{' ' + shown if shown else ''})"


_REPORTS: dict[str, Callable[[Condition], str]] = {
    "type-error": _report_type_error,
    "unbound-variable": _report_cell("variable"),
    "undefined-function": _report_cell("function"),
    "unbound-slot": _report_cell("slot"),
    "division-by-zero": _report_division,
}
