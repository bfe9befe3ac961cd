"""define-condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lisp.analyze import (
    Tails,
    analyze_car,
    items_of,
    malformed,
    native,
    parts,
    site_here,
)
from sexpgpu.lisp.calls import as_function
from sexpgpu.lisp.conditions import TYPES, condition_type
from sexpgpu.lisp.errors import (
    make_error,
    type_error,
)
from sexpgpu.lisp.nodes import (
    Custom,
    Node,
    Run,
    single,
)
from sexpgpu.lisp.scope import Frame, Scope
from sexpgpu.lisp.state import STATE
from sexpgpu.lisp.values import (
    CL,
    NIL,
    Condition,
    Cons,
    Function,
    String,
    Symbol,
    keyword,
    lisp_list,
)
from sexpgpu.reader.printer import brief

# ---------------------------------------------------------------- define-condition


@native("define-condition")
def _define_condition(form: Any, scope: Scope, tails: Tails) -> Node:
    """Defines a type of condition, with slots."""
    from sexpgpu.lisp.definitions import definable

    cells = parts(form, 2, None, "(define-condition name (parent…) (slot…) option…)")
    if not isinstance(cells[0], Symbol):
        raise malformed(f"{brief(cells[0])} is not a name", form)
    name = definable(cells[0], "condition type", form)
    parents = items_of(cells[1]) or [CL.own("condition")]
    slots: list[tuple[str, list[str], list[Symbol], list[Symbol], Node | None]] = []
    for spec in items_of(cells[2]) if len(cells) > 2 else ():
        slots.append(_slot_spec(spec, scope, form))
    shown: Node | None = None
    text: Any = None
    defaults: list[tuple[str, Node]] = []
    at = form.cdr.cdr.cdr.cdr if len(cells) > 2 else NIL
    while isinstance(at, Cons):
        option = at.car
        if isinstance(option, Cons) and option.car is keyword("report"):
            if isinstance(option.cdr.car, String):
                text = option.cdr.car
            else:
                from sexpgpu.lisp.analyze import analyze

                shown = analyze(lisp_list([CL.own("function"), option.cdr.car]), scope)
        elif isinstance(option, Cons) and option.car is keyword("default-initargs"):
            pair = option.cdr
            while isinstance(pair, Cons):
                defaults.append((pair.car.name, analyze_car(pair.cdr, scope)))
                pair = pair.cdr.cdr
        at = at.cdr
    site = site_here()

    def make(frame: Frame) -> Run:
        inits = [single(init, frame) if init is not None else None for *_, init in slots]
        run_shown = single(shown, frame) if shown is not None else None
        run_defaults = [(key, single(node, frame)) for key, node in defaults]

        def run(env: Any) -> Any:
            kinds: list[Any] = []
            for parent in parents:
                kind = condition_type(parent)
                if kind is None:
                    STATE.site = site
                    raise type_error(parent, "name of a condition type")
                kinds.append(kind)
            _define(name, kinds, slots, inits, run_shown, text, run_defaults, env)
            return name

        return run

    return Custom(make, False)


def _slot_spec(
    spec: Any, scope: Scope, form: Any
) -> tuple[str, list[str], list[Symbol], list[Symbol], Node | None]:
    if isinstance(spec, Symbol):
        return spec.name, [], [], [], None
    if not isinstance(spec, Cons) or not isinstance(spec.car, Symbol):
        raise malformed(f"{brief(spec)} is not a slot", form)
    initargs: list[str] = []
    readers: list[Symbol] = []
    writers: list[Symbol] = []
    init: Node | None = None
    at = spec.cdr
    while isinstance(at, Cons) and isinstance(at.cdr, Cons):
        if not isinstance(at.car, Symbol):
            raise malformed(f"{brief(at.car)} is not a slot option", form)
        option, value = at.car.name, at.cdr.car
        if option in ("initarg", "reader", "accessor", "writer") and not isinstance(value, Symbol):
            raise malformed(f":{option} takes a name, not {brief(value)}", form)
        if option == "initarg":
            initargs.append(value.name)
        elif option in ("reader", "accessor"):
            readers.append(value)
            if option == "accessor":
                writers.append(value)
        elif option == "initform":
            init = analyze_car(at.cdr, scope)
        at = at.cdr.cdr
    return spec.car.name, initargs, readers, writers, init


def _define(
    name: Symbol,
    kinds: list[Any],
    slots: list[tuple[str, list[str], list[Symbol], list[Symbol], Node | None]],
    inits: list[Run | None],
    shown: Run | None,
    text: Any,
    defaults: list[tuple[str, Run]],
    env: Any,
) -> None:
    from sexpgpu.lisp.conditions import ConditionType
    from sexpgpu.lisp.journal import keep, keep_entry

    made = ConditionType(name, tuple(kinds))
    for (slot_name, initargs, readers, writers, _), init in zip(slots, inits, strict=True):
        made.slots[slot_name] = _thunk(init, env) if init is not None else None
        for initarg in initargs:
            made.initargs[initarg] = (*made.initargs.get(initarg, ()), slot_name)
        for reader in readers:
            keep(reader)
            read = _slot_reader(reader.function, made, slot_name, name)
            reader.function = Function(reader.name, read, 1, 1, "(condition)")
        for writer in writers:
            keep(writer)
            write = _slot_writer(writer.setf, made, slot_name, name)
            writer.setf = Function(f"(setf {writer.name})", write, 2, 2, "(new condition)")
    for key, run in defaults:
        made.defaults[key] = _thunk(run, env)
    if text is not None:
        made.report = lambda condition: text.text
    elif shown is not None:
        function = as_function(shown(env))

        def reported(condition: Condition) -> str:
            from sexpgpu.lisp.format.streams import printed_by

            return printed_by(function, condition)

        made.report = reported
    keep_entry(TYPES, name)
    TYPES[name] = made


def _thunk(run: Run, env: Any) -> Callable[[], Any]:
    return lambda: run(env)


def _slot_reader(before: Any, kind: Any, slot_name: str, name: Symbol) -> Callable[[Any], Any]:
    """The reader of a slot. Types may share a reader's name: `before` is the function so far."""
    cases = _cases(before, kind, slot_name)

    def read(condition: Any) -> Any:
        found = _slot_of(condition, cases, name)
        if found not in condition.slots:
            raise make_error("unbound-slot", name=CL.own(found), instance=condition)
        return condition.slots[found]

    read.cases = cases  # type: ignore[attr-defined]
    return read


def _slot_writer(before: Any, kind: Any, slot_name: str, name: Symbol) -> Callable[[Any, Any], Any]:
    cases = _cases(before, kind, slot_name)

    def write(new: Any, condition: Any) -> Any:
        condition.slots[_slot_of(condition, cases, name)] = new
        return new

    write.cases = cases  # type: ignore[attr-defined]
    return write


def _cases(before: Any, kind: Any, slot_name: str) -> dict[Any, str]:
    """The slot that an accessor is for, by the name of the condition's type."""
    known = getattr(before.call, "cases", {}) if isinstance(before, Function) else {}
    return {**known, kind.name: slot_name}


def _slot_of(condition: Any, cases: dict[Any, str], name: Symbol) -> str:
    if isinstance(condition, Condition):
        for kind in TYPES[condition.type].linear:
            if kind.name in cases:
                return cases[kind.name]
    raise type_error(condition, name)
